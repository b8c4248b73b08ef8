"""Options mean something in the notebook, or they are refused before anything is asked."""

import base64
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest
from IPython.core.error import UsageError

from archytas_nb.magics.agent import ArchytasNB
from archytas_nb.magics.line import parser_of, print_help, split_options, with_options
from archytas_nb.magics.options import (
    _overrides,
    answer_type,
    chosen_tools,
    condition,
    picture,
    variable,
)
from archytas_nb.settings import SETTINGS
from archytas_nb.tools.toolbox import Toolbox

PNG = b"\x89PNG\r\n\x1a\n"


def count_birds() -> int:
    """Count."""
    return 1


def count_eggs() -> int:
    """Count."""
    return 1


def plot() -> int:
    """Plot."""
    return 1


@pytest.fixture
def box() -> Toolbox:
    return Toolbox(count_birds, plot, count_eggs)


def test_any_setting_can_have_an_option_with_its_help() -> None:
    @with_options(*(_overrides(f"--{name.replace('_', '-')}") for name in SETTINGS))
    def magic(line: str) -> None:
        """Do."""

    shown = " ".join(parser_of(magic).format_help().split())
    assert "%agent_undo" in SETTINGS["undo"].text
    for setting in SETTINGS.values():
        assert setting.text.split()[-1] in shown


@pytest.mark.parametrize("name", ["agent", "agent_fix", "agent_map"])
def test_help_begins_with_three_examples_that_can_be_typed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    magic = getattr(ArchytasNB, name)
    print_help(parser_of(magic))
    *examples, empty, usage = capsys.readouterr().out.split("\n")[:5]
    assert len(examples) == 3
    assert (empty, usage.split()[:2]) == ("", ["usage:", f"%{name}"])
    for each in examples:
        sign, _, line = f"{each} ".partition(" ")
        flags, question = split_options(line, parser_of(magic))
        parser_of(magic).parse_args(flags)
        assert sign == f"%{name}"
        assert question or name == "agent_fix"


def test_tools_are_chosen_by_name_and_by_glob_in_the_order_of_the_toolbox(box: Toolbox) -> None:
    assert chosen_tools(["plot"], box) == ["plot"]
    assert chosen_tools(["count_*"], box) == ["count_birds", "count_eggs"]
    assert chosen_tools(["plot", "*birds", "plot"], box) == ["count_birds", "plot"]


@pytest.mark.parametrize("name", ["polt", "plo", "x*"])
def test_a_name_that_means_no_tool_is_refused_with_those_that_there_are(
    box: Toolbox, name: str
) -> None:
    with pytest.raises(UsageError, match="available: count_birds, plot, count_eggs"):
        chosen_tools([name], box)


def test_a_disabled_tool_is_not_chosen_and_the_error_says_how_to_enable_it(box: Toolbox) -> None:
    box.disable("plot")
    assert "plot" not in chosen_tools(["*"], box)
    with pytest.raises(
        UsageError, match="--allow: 'plot' is disabled; enable it with %tools --enable plot"
    ):
        chosen_tools(["plot"], box, "--allow")


def test_a_picture_is_a_variable_or_a_file(tmp_path: Path) -> None:
    names = {"shot": PNG, "shots": [PNG], "n": 3}
    sent = base64.b64encode(PNG).decode()
    assert picture("shot", names) == picture("shots[0]", names) == sent
    file = tmp_path / "a shot.png"
    file.write_bytes(PNG)
    assert picture(str(file), names) == sent
    for source, said in (
        ("n", "expected PNG or JPEG"),
        ("shto", "there is no file 'shto', and no variable is named 'shto', did you mean 'shot'?"),
        ("gone.png", "no file"),
    ):
        with pytest.raises(UsageError, match="--image") as error:
            picture(source, names)
        assert said in str(error.value)


def test_a_type_is_evaluated_in_the_notebook() -> None:
    assert answer_type("list[str]", {}) == list[str]
    assert answer_type("Literal['yes', 'no'] | None", {}) == Literal["yes", "no"] | None
    assert answer_type("Literal", {"Literal": int}) is int
    assert answer_type("DataFrame", {"DataFrame": pd.DataFrame}) is pd.DataFrame


def test_a_type_that_cannot_be_had_is_refused() -> None:
    for source, said in [
        ("lst[str]", "did you mean 'list'?"),
        ("integer", "did you mean 'int'?"),
        ("int[", "not a Python expression"),
        ("None", "expected a type"),
        ("1/0", "Zero"),
    ]:
        with pytest.raises(UsageError, match="--type") as error:
            answer_type(source, {})
        assert said in str(error.value)


def test_a_condition_is_true_or_says_what_is_wrong() -> None:
    check = condition("len(answer) > n", {"n": 2}, of_text=False)
    assert check([1, 2, 3]) == ""
    assert check([1]) == "This must be true of the answer, and is not: len(answer) > n"
    with pytest.raises(TypeError):
        check(1)
    assert "raised ValueError" in condition("int(answer)", {}, of_text=True)("x")


def test_a_condition_sees_the_answer_in_comprehensions_and_variables_as_they_are_then() -> None:
    names = {"words": ["a"]}
    check = condition("all(word in answer for word in words)", names, of_text=True)
    assert check("a") == ""
    names["words"] = ["b"]
    assert check("a") != ""


def test_an_answer_that_is_text_is_text_in_a_condition() -> None:
    assert condition("answer == '42'", {}, of_text=True)(42) == ""
    assert condition("answer == 42", {}, of_text=False)(42) == ""


def test_a_condition_that_can_never_be_checked_is_refused_before() -> None:
    for source, said in [
        ("answer >", "not a Python expression"),
        ("answr > 3", "no variable is named 'answr', did you mean 'answer'?"),
        ("any(w in answer for w in wrods)", "'wrods', did you mean 'words'?"),
        ("import os", "not a Python expression"),
    ]:
        with pytest.raises(UsageError, match="--until") as error:
            condition(source, {"words": []}, of_text=True)
        assert said in str(error.value)


def test_a_name_that_no_variable_can_have_is_refused() -> None:
    for name in ["", "1x", "a b", "class", "a.b"]:
        with pytest.raises(UsageError, match="is not a valid variable name"):
            variable(name)
