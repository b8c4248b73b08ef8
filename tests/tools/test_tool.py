"""A tool calls functions of every kind, asks for approval where it must, and never fails itself."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import ApprovalCheck, BoundCall, Tool
from archytas_nb.tools.variables import LiveNamespace
from tests.tools.shapes import Counter, count_to, later, order, ping


def call(f, sent=None, namespace=None):
    outcome = Tool.from_function(f).call(sent, namespace)
    assert outcome.status == "done", outcome.text
    return outcome.value


# ── kinds of callables ────────────────────────────────────────────────────────────────────────────


def test_async_tools_are_awaited_outside_and_inside_a_running_loop():
    assert call(later, 3) == 3

    async def main():
        return call(later, 4)

    assert asyncio.run(main()) == 4


def test_a_generator_is_read_to_its_end_up_to_a_limit():
    assert call(count_to, 3) == [0, 1, 2]
    outcome = Tool.from_function(count_to).call(10**9)
    assert len(outcome.value) == 1000
    assert "the rest was not read" in outcome.text


def test_an_async_generator_is_read_too():
    async def steps(n: int):
        """Count.

        Args:
            n: Up to where.
        """
        for each in range(n):
            yield each

    assert call(steps, 3) == [0, 1, 2]
    assert len(call(steps, 10**9)) == 1000


def test_an_exception_in_a_generator_is_an_error_of_the_call():
    def broken() -> list[int]:
        """Break."""
        yield 1
        raise ValueError("half way")

    assert Tool.from_function(broken).call(None).text.startswith("ValueError: half way")


def test_bound_methods_of_falsy_objects_work():
    counter = Counter(5)
    assert not counter
    assert call(counter.step, {"by": 2}) == 7
    assert counter.value == 7


def test_class_methods_static_methods_partials_and_callable_objects_work():
    assert call(Counter.make, 3) == 3
    assert call(Counter.add, {"a": 1, "b": 2}) == 3
    assert call(functools.partial(Counter.add, 40), 2) == 42
    assert call(functools.partial(Counter.add, b=40), {"a": 2}) == 42
    assert call(Counter(), 7) == 7
    assert call(functools.lru_cache(Counter.add), {"a": 1, "b": 2}) == 3


def test_a_wrapper_has_the_description_of_the_wrapped_function():
    @functools.wraps(order)
    def wrapper(*args, **kwargs):
        return -order(*args, **kwargs)

    assert Tool.from_function(wrapper).text == Tool.from_function(order).text
    assert call(wrapper, {"first": 5, "second": 3}) == -2


def test_a_function_created_by_exec_works():
    scope: dict = {}
    exec(
        'def f(a: "int") -> int:\n    """Do.\n\n    Args:\n        a: One.\n    """\n    return a',
        scope,
    )
    assert call(scope["f"], "4") == 4


def test_a_namespace_parameter_gets_the_variables_and_is_hidden_from_the_model():
    def peek(name: str, ns: LiveNamespace) -> int:
        """Read a variable.

        Args:
            name: Which.
        """
        return ns[name]

    tool = Tool.from_function(peek)
    assert "_input_: (str) Which." in tool.text
    assert list(tool.schema()["properties"]) == ["name"]
    assert tool.call("x", {"x": 5}).value == 5


# ── outcomes ──────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_result_is_rendered_as_text():
    def f() -> None:
        """Do."""

    assert Tool.from_function(f).call(None).text == "(no output)"


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(2), GeneratorExit(), asyncio.CancelledError()]
)
def test_every_exception_of_a_tool_becomes_an_outcome(error):
    def f() -> None:
        """Do."""
        raise error

    async def g() -> None:
        """Do."""
        raise error

    for each in (f, g):
        outcome = Tool.from_function(each).call(None)
        assert (outcome.status, outcome.error) == ("error", error)


def test_only_an_interrupt_is_raised():
    def f() -> None:
        """Do."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tool.from_function(f).call(None)


def test_a_tool_can_have_its_own_limit_on_the_length_of_results():
    def f() -> str:
        """Do."""
        return "x" * 100_000

    assert 7900 < len(Tool.from_function(f).call(None).text) <= 8000
    assert 400 < len(Tool.from_function(f, max_chars=500).call(None, {}).text) <= 500


def test_rejects_invalid_options():
    for options in [{"timeout": 0}, {"timeout": -1}, {"max_chars": 0}, {"max_chars": True}]:
        with pytest.raises(ToolError, match="expected a positive number"):
            Tool.from_function(ping, **options)


def test_schemas_are_copies_that_may_be_changed():
    tool = Tool.from_function(order)
    tool.schema()["properties"].clear()
    tool.spec()["function"]["parameters"].clear()
    tool.input_schema()["properties"].clear()
    assert (
        set(tool.schema()["properties"])
        == set(tool.input_schema()["properties"])
        == {"first", "second"}
    )


def test_an_unknown_schema_level_is_refused():
    with pytest.raises(ValueError, match="expected 'full' or 'simple'"):
        Tool.from_function(ping).schema("loose")


def test_the_function_is_unchanged():
    def f(a: int) -> int:
        """Do.

        Args:
            a: One.
        """
        return a

    before = (dict(vars(f)), dict(f.__annotations__), f.__doc__)
    assert Tool.from_function(f).function is f
    assert (dict(vars(f)), dict(f.__annotations__), f.__doc__) == before


def move(table: str, rows: list[int], /, to: str = "archive", *, force: bool = False) -> str:
    """Move rows.

    Args:
        table: Where they are
        rows: Which ones
        to: Where to
        force: Whether to overwrite
    """
    return to


def wants(approve: Any, given: object) -> Any:
    tool = Tool.from_function(move, approve=approve)
    bound = tool.bind(given)
    assert isinstance(bound, BoundCall)
    return tool.check_approval(bound)


GIVEN = {"table": "t", "rows": ["1", 2]}


def test_approve_gets_the_validated_arguments_that_it_names() -> None:
    seen: list[Any] = []
    wants(lambda rows, to: seen.append((rows, to)), GIVEN)
    wants(lambda **everything: seen.append(everything), {**GIVEN, "force": True})
    assert seen == [
        ([1, 2], "archive"),
        {"table": "t", "rows": [1, 2], "to": "archive", "force": True},
    ]


def given(answer: Any) -> Any:
    return answer


async def awaited_later() -> bool:
    return False


def test_a_check_asks_unless_it_clearly_says_no() -> None:
    asks, runs = ApprovalCheck(required=True), ApprovalCheck(required=False)
    assert wants(lambda rows: len(rows) > 1, GIVEN) == asks
    assert wants(lambda force: force, GIVEN) == runs
    assert wants(lambda rows: f"{len(rows)} rows", GIVEN) == ApprovalCheck(True, "2 rows")
    assert wants(lambda: "", GIVEN) == ApprovalCheck(True, "")  # a text, even an empty one
    for no in (None, False, np.bool_(False)):
        assert wants(partial(given, no), GIVEN) == runs
    odd = (1, 0, 0.0, [], {}, b"", ..., np.bool_(True), np.zeros(0), pd.NA, object(), iter(()))
    for answer in odd:
        assert wants(partial(given, answer), GIVEN) == asks
    assert wants(None, GIVEN) == runs


class Strict:
    """A check that is false as a value: it has no rules yet, and asks about everything."""

    def __call__(self, **given: object) -> bool:
        return True

    def __len__(self) -> int:
        return 0


def test_a_check_asks_even_if_the_check_itself_is_false_as_a_value() -> None:
    tool = Tool.from_function(move, approve=Strict())
    bound = tool.bind(GIVEN)
    assert isinstance(bound, BoundCall)
    assert tool.may_require_approval
    assert tool.check_approval(bound).required


def test_an_error_in_approve_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        wants(lambda rows: 1 / 0, GIVEN)


def test_approve_does_not_get_the_namespace() -> None:

    def look(name: str, names: LiveNamespace) -> str:
        """Look.

        Args:
            name: A name
        """
        return name

    seen: list[Any] = []
    tool = Tool.from_function(look, approve=lambda **given: seen.append(given))
    bound = tool.bind("x", {})
    assert isinstance(bound, BoundCall)
    tool.check_approval(bound)
    assert seen == [{"name": "x"}]


class Awaiting:
    async def __call__(self, rows: list[int]) -> bool:
        return False


def generates(rows: list[int]) -> Iterator[bool]:
    yield False


def test_a_check_that_returns_what_must_be_awaited_asks() -> None:
    assert wants(lambda rows: awaited_later(), GIVEN).required


def test_rejects_an_unusable_approve_at_definition() -> None:
    for approve, said in [
        ("yes", "expected True, False or a function"),
        (1, "expected True, False or a function"),
        (lambda row: True, "'row', which is not an argument of the tool, did you mean 'rows'"),
        (lambda row=(): True, "'row', which is not an argument of the tool, did you mean 'rows'"),
        (lambda row=(), **rest: True, "'row', which is not an argument of the tool"),
        (lambda *, Rows=(): True, "'Rows', which is not an argument of the tool"),
        (lambda *args: bool(args), "by position"),
        (lambda table, /: True, "by position"),
        (partial(lambda tabel, most: True, most=1), "'tabel', which is not an argument"),
        (Awaiting(), "expected True, False or a function"),
        (generates, "expected True, False or a function"),
        (partial(generates), "expected True, False or a function"),
    ]:
        with pytest.raises(ToolError, match=said):
            Tool.from_function(move, approve=approve)


def test_rejects_an_async_approve() -> None:
    async def later(rows: list[int]) -> bool:
        return True

    with pytest.raises(ToolError, match="defined with def"):
        Tool.from_function(move, approve=later)


ended = threading.Event()


async def sleep() -> str:
    """Sleep, and be interrupted soon after."""
    asyncio.get_running_loop().call_later(
        0.2, signal.pthread_kill, threading.main_thread().ident, signal.SIGINT
    )
    try:
        await asyncio.sleep(30)
    finally:
        ended.set()
    return "slept"


def test_an_interrupt_cancels_an_async_tool_that_is_called_from_python() -> None:
    ended.clear()
    with pytest.raises(KeyboardInterrupt):
        Tool.from_function(sleep).call()
    assert ended.is_set()


def test_an_async_tool_is_awaited_inside_a_running_loop_in_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("cell")

    async def read() -> str:
        """Read."""
        await asyncio.sleep(0)
        return variable.get()

    async def cell() -> object:
        variable.set("this cell")
        return Tool.from_function(read).call().value

    assert asyncio.run(cell()) == "this cell"
