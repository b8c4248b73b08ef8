"""What the next call must have is fixed for one reply, and not for ever."""

from __future__ import annotations

from typing import Any

from archytas_nb.loop.advising import MOST, Advising
from archytas_nb.loop.events import ToolCall

BUSY = "busy, try again"


def call(given: Any) -> ToolCall:
    return ToolCall("1", "look", given)


def test_what_an_error_wants_is_fixed_for_the_next_reply_only() -> None:
    advising = Advising()
    assert "with the same input" in advising.after_error("q", call({"a": 1}), "look:1", BUSY)
    assert advising.fixed == {"look": {"a": 1}}
    advising.next_reply()
    assert advising.fixed == {}
    assert advising.is_followed_by(call({"a": 1, "b": 2}))
    assert not advising.is_followed_by(call({"a": 2}))
    assert not advising.is_followed_by(ToolCall("1", "put", {"a": 1}))
    advising.next_reply()
    assert not advising.is_followed_by(call({"a": 1}))


def test_the_same_call_is_advised_so_often_and_no_more_whatever_the_error_says() -> None:
    advising = Advising()
    told = [
        advising.after_error("q", call({"a": 1}), "look:1", f"busy {n}, try again")
        for n in range(5)
    ]
    assert [bool(text) for text in told] == [True] * MOST + [False] * (5 - MOST)
    assert advising.after_error("q", call({"a": 2}), "look:2", BUSY), "another call is another one"


def test_where_two_calls_of_a_tool_are_advised_nothing_is_fixed() -> None:
    advising = Advising()
    for n in (1, 2):
        advising.after_error("q", call({"a": n}), f"look:{n}", BUSY)
    assert advising.fixed == {"look": {}}


def test_an_error_that_wants_nothing_clear_fixes_nothing() -> None:
    advising = Advising()
    assert advising.after_error("q", call("x"), "look:x", "no") == ""
    assert advising.fixed == {}
    assert not advising.is_followed_by(call("x"))
