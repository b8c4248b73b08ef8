"""A call made by hand is run to its end, also where that must be awaited, and an interrupt ends it."""

import asyncio
import contextvars
import signal
import threading

import pytest

from archytas_nb.tools.tool import Tool

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


def test_an_interrupt_cancels_an_async_tool_that_was_called_by_hand() -> None:
    ended.clear()
    with pytest.raises(KeyboardInterrupt):
        Tool.from_function(sleep).call()
    assert ended.is_set()


def test_it_is_awaited_inside_a_running_loop_and_in_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("cell")

    async def read() -> str:
        """Read."""
        await asyncio.sleep(0)
        return variable.get()

    async def cell() -> object:
        variable.set("this cell")
        return Tool.from_function(read).call().value

    assert asyncio.run(cell()) == "this cell"
