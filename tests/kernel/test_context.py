"""What the model may know of the variables: the digest below a question, and the tools that look."""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.context import context_of, look_tools
from archytas_nb.loop.record import Context, Exchange
from archytas_nb.testing import ScriptedModel

FRAME = pd.DataFrame(
    {"country": ["Peru", "Chad", "Peru", None], "pop": [1, 2, 3, 4], "gdp": [1.5, None, 2.5, 0.5]}
)


def variables(**more: Any) -> dict[str, Any]:
    return {
        "gm": FRAME,
        "fast": pl.DataFrame({"city": ["Lima", "Lima"], "n": [1, None]}),
        "grid": np.arange(12.0).reshape(3, 4),
        "names": ["a", "b", "a"],
        "password": "hunter2-hunter2",
        "pd": pd,
        "_hidden": 1,
        "In": ["secret cell"],
        "helper": lambda: 1,
        **more,
    }


def look(namespace: dict[str, Any], **arguments: Any) -> Any:
    [_, tool] = look_tools()
    return tool.call(arguments, namespace)


def names(found: Context | None) -> list[str]:
    """The variables that a digest describes."""
    assert found is not None
    return [line.partition(":")[0] for line in found.text.splitlines() if line[:1] != " "]


def digest(namespace: dict[str, Any], question: str, kind: Any = "mentioned") -> str:
    found = context_of(kind, namespace, question)
    assert found is not None
    return found.text


def asked(question: str, context: Context | None) -> Exchange:
    return Exchange(question, context=context)


def test_a_question_gets_the_variables_that_it_mentions_in_order_of_mention() -> None:
    question = "Has `grid` as many rows as gm? (gmx is another, In too.)"
    assert names(context_of("mentioned", variables(), question)) == ["grid", "gm"]


def test_columns_are_named_with_types_missing_and_different_values_but_no_value() -> None:
    head, *columns = digest(variables(), "gm?").splitlines()
    assert head == "gm: DataFrame of 4 rows × 3 columns: country, pop, gdp"
    assert columns[0].endswith(", 1 missing, 2 different values")
    assert columns[1:] == ["  pop: int64", "  gdp: float64, 1 missing"]
    assert "Peru" not in columns[0]


def test_all_names_no_module_function_secret_or_object_of_this_package() -> None:
    namespace = variables(model=ScriptedModel(), API_KEY="sk-1", key="a key")
    found = context_of("all", namespace, "password?")
    assert names(found) == ["gm", "fast", "grid", "names"]
    with_none = context_of("none", namespace, "gm")
    assert with_none is None


def test_changed_includes_new_and_reassigned_variables_and_new_shapes() -> None:
    namespace = variables(sizes=[1], table=FRAME.copy())
    first = context_of("changed", namespace, "")
    assert names(first) == ["gm", "fast", "grid", "names", "sizes", "table"]
    past = [asked("One?", first)]
    assert context_of("changed", namespace, "", past) == Context("", ())
    namespace["new"] = 1
    namespace["grid"] = np.arange(3)
    namespace["sizes"].append(2)
    namespace["table"] = FRAME.copy()
    assert sorted(names(context_of("changed", namespace, "", past))) == [
        "grid", "new", "sizes", "table",
    ]  # fmt: skip


def test_a_question_that_is_asked_again_describes_the_same_variables() -> None:
    namespace = variables()
    earlier = asked("And now?", context_of("all", namespace, "And now?"))
    del namespace["fast"]
    namespace |= {"later": 1, "grid": np.arange(5.0)}
    again = context_of("changed", namespace, "And now?", (), earlier)
    assert names(again) == ["gm", "grid", "names"]
    assert again is not None
    assert "grid: ndarray of 5 values" in again.text
    assert "later" in names(context_of("changed", namespace, "And later?", (), earlier))


def test_auto_describes_only_mentioned_variables_to_a_small_model() -> None:
    def auto(question: str, past: Any = (), *, alone: bool = False) -> Context | None:
        return context_of("auto", variables(), question, past, small=True, alone=alone)

    assert auto("How many?") is None
    assert names(auto("How many rows has gm?")) == ["gm"]
    assert auto("How many?", alone=True) == Context("")
    followed = auto("And columns?", [asked("How many rows has gm?", Context("gm: …", ("gm",)))])
    assert followed == Context("")
    assert len(names(context_of("auto", variables(), "How many?"))) == 4


@given(st.integers(0, 300), st.integers(0, 200))
def test_the_size_of_a_digest_is_limited_and_omissions_are_counted(many: int, columns: int) -> None:
    wide = pd.DataFrame(np.zeros((1, columns)), columns=[f"column_{n}" for n in range(columns)])
    namespace = {"wide": wide, **{f"variable_{n}": n for n in range(many)}}
    found = digest(namespace, "wide", "all")
    assert len(found) <= 1500
    assert found.startswith("wide: ")
    lines = [line for line in found.splitlines() if not line.startswith(" ")]
    if lines[-1].startswith("…"):
        left_out = int(lines[-1].split()[2])
        assert left_out + len(lines) - 1 == many + 1
    else:
        assert len(lines) == many + 1


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property
    def shape(self) -> Any:
        raise RuntimeError("no")


def test_an_object_whose_methods_raise_is_described_by_its_type() -> None:
    assert digest({"rude": Rude()}, "rude") == "rude: Rude"


@pytest.mark.parametrize("what", ["head", "describe", "columns", "values"])
@pytest.mark.parametrize("name", ["gm", "fast", "grid", "names"])
def test_looking_changes_nothing(name: str, what: str) -> None:
    namespace = variables()
    before = copy.deepcopy({each: namespace[each] for each in ("gm", "fast", "grid", "names")})
    look(namespace, name=name, what=what)
    assert namespace["gm"].equals(before["gm"])
    assert namespace["fast"].equals(before["fast"])
    assert (namespace["grid"] == before["grid"]).all()
    assert namespace["names"] == before["names"]
    assert list(namespace) == list(variables())


def test_counts_the_values_of_a_column() -> None:
    for name, text in (
        ("gm.country", "gm['country']: 2 different values: Peru 2×, Chad 1×, (missing) 1×"),
        ("fast.city", "fast['city']: 1 different value: Lima 2×"),
        ("names", "names: 2 different values: a 2×, b 1×"),
    ):
        assert look(variables(), name=name, what="values").text == text


def test_a_description_begins_with_the_shape_and_has_a_line_for_each_column() -> None:
    first, *lines = look(variables(), name="gm", what="describe").text.splitlines()
    assert first == "gm: DataFrame of 4 rows × 3 columns: country, pop, gdp"
    assert lines[0].endswith(", 1 missing; 2 different values: Peru 2×, Chad 1×")
    assert lines[1].startswith("  pop: int64, 0 missing; min 1, max 4, mean 2.5; 4 different")
    [line] = look(variables(), name="grid", what="describe").text.splitlines()[1:]
    assert line.startswith("min 0.0, max 11.0, mean 5.5")


def test_a_column_name_alone_refers_to_the_only_frame_that_has_it() -> None:
    alone = look(variables(), name="country").text
    for name in ("gm.country", "gm['country']", 'gm["country"]'):
        assert look(variables(), name=name).text == alone
    assert "Peru 2×" in alone
    twice = variables(copy=FRAME.copy())
    assert look(twice, name="country").status == "error"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "gmm"}, "'gm'"),
        ({"name": "gm.contry"}, "'country'"),
        ({"name": "gm", "what": "values"}, "country, pop, gdp"),
        ({"name": "names.a"}, "no column"),
        ({"name": "_hidden"}, "'_'"),
        ({"name": "In"}, "IPython"),
        ({"name": "pd"}, "module"),
        ({"name": "password"}, "secret"),
    ],
)
def test_an_invalid_name_is_an_error_that_lists_valid_ones(
    arguments: dict[str, str], says: str
) -> None:
    found = look(variables(), **arguments)
    assert found.status == "error"
    assert says in found.text
    assert "hunter2" not in found.text
    assert "secret cell" not in found.text


def test_neither_the_environment_nor_one_shot_iterators_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOMETHING", "hunter2-hunter2")
    lines = (str(n) for n in range(3))
    namespace = {"env": os.environ, "deep": {"a": [os.environ.items()]}, "lines": lines}
    for name in namespace:
        for what in ("head", "describe", "values"):
            found = look(namespace, name=name, what=what)
            assert found.status == "error", (name, what)
            assert "hunter2" not in found.text
    assert list(lines) == ["0", "1", "2"]


def test_results_for_a_small_model_end_with_the_question() -> None:
    question = "What columns has gm, and how many countries?"
    for tool, again in zip(look_tools(), look_tools(question), strict=True):
        given = {"name": "gm"} if tool.name == "look" else None
        plain = tool.call(given, variables()).text
        assert again.text == tool.text
        text = again.call(given, variables()).text
        assert text.startswith(f"{plain}\n\nThe question was: {question}\n")
    assert look_tools("x" * 10_000) == look_tools()


def test_variables_lists_them_all() -> None:
    [tool, _] = look_tools()
    assert tool.call({}, variables()).text == digest(variables(), "", "all")
    assert tool.call({}, {}).text == "The notebook has no variables."
