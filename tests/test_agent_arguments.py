"""An agent judges its arguments when it is created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel, ScriptError


def add(a: int) -> int:
    """Add one.

    Args:
        a: A number
    """
    return a + 1


ADD = nb.Tool.from_function(add)


def made(**settings: Any) -> nb.Agent:
    model = ScriptedModel(("add", {"a": 1}), ("final_answer", "2"))
    return nb.Agent(**{"tools": [add], "model": model, "namespace": {}, **settings})


@pytest.mark.parametrize("tools", [add, ADD, [add], (add,), iter([ADD]), nb.Toolbox(add)])
def test_accepts_tools_one_by_one_or_together(tools: Any) -> None:
    assert made(tools=tools).run("What is 1 + 1?").calls[0][1].value == 2


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("tools", 3, "functions, Tools or a Toolbox"),
        ("tools", "add", r"functions, Tools or a Toolbox\. If 'add' is the name of a model, .*"),
        ("tools", {"add": add}, "functions, Tools or a Toolbox"),
        ("instructions", 3, "text"),
        ("instructions", ["be brief"], "text"),
        ("namespace", 3, "a dict of variables"),
        ("namespace", [], "a dict of variables"),
        ("allow", 3, "a list of names"),
        ("undo", "no", "True or False, or None"),
        ("ask_user", "no", "True, False, or one of 'auto', 'on', 'off'"),
        ("ask_user", None, "True, False, or one of 'auto', 'on', 'off'"),
        ("allow", [add], "a list of names"),
    ],
)
def test_rejects_an_invalid_argument_and_names_what_is_expected(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=f"^{name} is .*; expected {expected}$"):
        made(**{name: value})


def test_the_limit_of_tokens_is_named_by_what_it_limits() -> None:
    with pytest.raises(TypeError, match="write max_total_tokens=… or max_reply_tokens=…"):
        made(max_tokens=5)


@pytest.mark.parametrize("allow", ["add", ["add"], {"add"}])
def test_a_tool_is_allowed_by_its_name(allow: Any) -> None:
    tool = nb.Tool.from_function(add, approve=True)
    run = made(tools=[tool], allow=allow, approve="deny").run("What is 1 + 1?")
    assert [outcome.status for _, outcome in run.calls] == ["done"]


@pytest.mark.parametrize("reply", [3, ("final_answer",), None, ("a", "b", {}, 1)])
def test_rejects_a_script_with_an_invalid_reply(reply: Any) -> None:
    with pytest.raises(ScriptError, match=r'expected \("tool", tool_input\), '):
        ScriptedModel(("final_answer", "3"), reply)


@pytest.mark.parametrize("model", [3, [add], ScriptedModel])
def test_a_model_of_another_kind_is_refused_when_the_agent_is_made(model: Any) -> None:
    with pytest.raises(nb.ConfigurationError, match=r"^model is .*; expected a model's name, an"):
        nb.Agent([add], model)


@pytest.fixture(autouse=True)
def empty_toolbox() -> Iterator[None]:
    """The default toolbox contains no tool of another test."""
    before = nb.toolbox.snapshot()
    nb.toolbox.restore(({}, set()))
    yield
    nb.toolbox.restore(before)


@pytest.fixture
def named() -> None:
    """The default toolbox contains one tool."""
    nb.toolbox.add(add, name="add_numbers")


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    "make",
    [
        lambda: nb.Agent(tools="add_numbers"),
        lambda: nb.Agent("add_numbers", "gpt-5"),
        lambda: nb.Agent(["add_numbers"]),
        lambda: nb.Agent([add, "add_nubmers"]),
        lambda: made().run("Well?", tools="add_numbers"),
    ],
)
def test_the_name_of_a_tool_is_refused_with_what_to_write_instead(make: Any) -> None:
    with pytest.raises(ValueError, match=r"tools is .*only\('add_numbers'\)") as error:
        make()
    written = str(error.value).partition("tools=")[2]
    assert [*eval(written, {"nb": nb})] == ["add_numbers"]


@pytest.mark.usefixtures("named")
def test_another_text_is_the_name_of_a_model() -> None:
    assert "model='gpt-5'" in repr(nb.Agent("gpt-5"))
    assert "model='gpt-5'" in repr(nb.Agent(tools="gpt-5"))
    with pytest.raises(ValueError, match="write model='gpt-5'"):
        nb.Agent(["gpt-5"])
