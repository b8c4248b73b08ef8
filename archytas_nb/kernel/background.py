"""One private event loop on a background thread, for ``async def`` tools.

The kernel's own loop is busy with the cell, so a coroutine cannot be awaited there. An interrupt cancels the
coroutine and waits until it has ended: nothing runs on behind the user's back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

_CANCEL_SECONDS = 2.0
"""How long a cancelled coroutine may take to clean up before we stop waiting for it."""

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_coroutine(coroutine: Awaitable[Any]) -> Any:
    """Run a coroutine to its end on the private loop.

    Args:
        coroutine: What an ``async def`` tool returned.

    Returns:
        What the coroutine returns.

    Raises:
        KeyboardInterrupt: The user interrupted; the coroutine has been cancelled and has ended.
        Exception: Whatever the coroutine raises.
    """
    ended = threading.Event()

    async def watched() -> Any:
        try:
            return await coroutine
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(watched(), _private_loop())
    try:
        while not ended.wait(timeout=0.2):  # a wait without a bound cannot be interrupted on Windows
            pass
        return future.result()
    except BaseException:  # an interrupt or the tool's deadline, which hit this thread and not the loop's
        future.cancel()
        ended.wait(timeout=_CANCEL_SECONDS)
        raise


def _private_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop for the process
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="archytas_nb-async", daemon=True).start()
        return _loop
