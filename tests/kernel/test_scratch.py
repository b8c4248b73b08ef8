"""Names that begin with `_`: those of a model's code go after the question, and no others."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

NAMES = st.sampled_from(["_a", "_b", "_c", "a", "b", "__d", "_long_name"])
STATEMENTS = st.one_of(
    st.tuples(NAMES, st.integers(0, 9)).map(lambda each: f"{each[0]} = {each[1]}"),
    NAMES.map(lambda name: f"for {name} in range(3): pass"),
    NAMES.map(lambda name: f"import math as {name}"),
    NAMES.map(lambda name: f"def {name}(): return 1"),
    NAMES.map(lambda name: f"if ({name} := 5): pass"),
)


def ask(namespace: dict[str, Any], *codes: str, tools: Any = (), **options: Any) -> nb.Run[Any]:
    calls = [("python", {"code": code}) if isinstance(code, str) else code for code in codes]
    model = ScriptedModel(*calls, ("final_answer", "x"))
    return nb.Agent(tools, model=model, namespace=namespace, **options).run("go")


@settings(max_examples=30, deadline=None)
@given(
    before=st.dictionaries(NAMES, st.integers(), max_size=4),
    codes=st.lists(st.lists(STATEMENTS, max_size=4).map("\n".join), min_size=1, max_size=3),
    mode=st.sampled_from(["unwatched", "undoable"]),
)
def test_only_what_the_code_of_the_model_made_is_removed(
    before: dict[str, int], codes: list[str], mode: str
) -> None:
    plain: dict[str, Any] = dict(before)
    for code in codes:
        exec(code, plain)
    namespace: dict[str, Any] = dict(before)
    run = ask(namespace, *codes, python=mode)
    kept = {name for name in plain if not name.startswith("_") or name in before}
    assert namespace.keys() - {"__builtins__"} == kept - {"__builtins__"}
    for name in before:
        same_type = isinstance(plain[name], int)
        assert not same_type or namespace[name] == plain[name]
    if mode == "undoable":
        assert run.undo() == ()
        assert {name: namespace[name] for name in before} == before
        assert namespace.keys() - {"__builtins__"} == before.keys()


def test_what_a_tool_makes_meanwhile_is_the_users() -> None:
    namespace: dict[str, Any] = {}

    def fill() -> int:
        """Fill a cache."""
        namespace["_cache"] = 1
        return 1

    ask(
        namespace,
        "_x = fill()",
        ("fill", {}),
        "_cache = _cache + 1",
        tools=[fill],
        python="unwatched",
    )
    assert namespace["_cache"] == 2
    assert "_x" not in namespace


def test_a_name_stays_that_something_uses_which_stays() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = """
import functools
_rate, _other, _deep, _unused = 2, 3, 4, 5
def _helper(x): return x * _rate
def double(x): return _helper(x)
class Model:
    def score(self): return _other
model = Model()
table = {"f": functools.partial(lambda x: x + _deep, 1)}
def _nobody(): return _unused
"""
    ask(namespace, code, python="unwatched")
    assert (namespace["double"](3), namespace["model"].score(), namespace["table"]["f"]()) == (
        6,
        3,
        5,
    )
    assert {"_unused", "_nobody"}.isdisjoint(namespace)


def test_a_result_is_kept_only_if_it_was_not_shown_whole_and_has_no_name() -> None:
    namespace: dict[str, Any] = {"pd": pd, "big": pd.DataFrame({"x": range(5000)})}
    ask(
        namespace,
        "pd.DataFrame({'x': range(30)})",
        "{'a': pd.Series([1, 2]), 'n': 3}",
        "_rain = big * 2\n_rain",
        "big",
        python="unwatched",
    )
    assert namespace.keys() - {"__builtins__"} == {"pd", "big"}
    ask(namespace, "big * 2", python="unwatched")
    assert namespace["python_1"].equals(namespace["big"] * 2)
