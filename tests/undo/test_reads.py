"""The reads of calls are noted, whatever happens to the objects later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.undo.fingerprint import fingerprint
from archytas_nb.undo.reads import ReadTracker

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.just("long" * 1000)


@given(VALUES)
def test_what_is_noted_of_a_result_is_its_content(value: Any) -> None:
    reads = ReadTracker({}, {})
    reads.outcomes([CallOutcome("done", "it", call_id="a", value=value)])
    noted = reads.returned["a"].content
    assert (noted.digest, noted.unread) == (fingerprint(value).digest, fingerprint(value).unread)


def test_what_is_noted_of_a_result_does_not_change_with_it() -> None:
    value = [1]
    reads = ReadTracker({}, {})
    reads.outcomes([CallOutcome("done", "it", call_id="a", value=value)])
    value.append(2)
    assert reads.returned["a"].content.digest == fingerprint([1]).digest


def _tool(default: Any = 1) -> Callable[..., int]:
    def grow(number: int = default) -> int:
        """Add to a number.

        Args:
            number: Any number
        """
        return number + 1

    return grow


def _shrink(number: int = 1) -> int:
    return number - 1


def _code(function: Any) -> None:
    function.__code__ = _shrink.__code__


def _default(function: Any) -> None:
    function.__defaults__ = (2,)


def _name(function: Any) -> None:
    function.__qualname__ = "other"


def _attribute(function: Any) -> None:
    function.more = 1


def _annotation(function: Any) -> None:
    function.__annotations__["number"] = float


@pytest.mark.parametrize("change", [_code, _default, _name, _attribute, _annotation])
@pytest.mark.parametrize("default", [1, "text", (1, 2)])
def test_a_function_that_was_changed_in_place_is_another_one(
    change: Callable[[Any], None], default: Any
) -> None:
    function = _tool(default)
    before = fingerprint(function).digest
    tools = Toolbox(Tool.from_function(function))
    reads = ReadTracker(tools, {})
    reads.calls([ToolCall("a", "grow", {"number": 1})])
    reads.end(Diff(()))
    assert reads.changed() == []
    change(function)
    assert bool(reads.changed()) == (fingerprint(function).digest != before)


def test_a_function_that_is_defined_again_is_the_same() -> None:
    reads = ReadTracker(Toolbox(_tool()), namespace := {"grow": _tool()})
    reads.calls([ToolCall("a", "grow", {"number": 1})])
    reads.end(Diff(()))
    namespace["grow"] = _tool()
    assert reads.changed() == []
    namespace["grow"] = _tool(3)
    assert reads.changed() == ["grow"]
