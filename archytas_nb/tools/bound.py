"""A call whose arguments are validated, and how it is run to its end. Knows no schema and renders nothing."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archytas_nb.tools.result import Drained


_CANCEL_SECONDS = 2.0
"""How long what was cancelled may take to clean up before we stop waiting for it."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundCall:
    """A call whose arguments are validated.

    Attributes:
        function: The function.
        args: Values by position.
        kwargs: Values by name.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """Call the function.

        Returns:
            What it returned, or an awaitable of it. A generator is read to its end, up to a limit, because its
            body is the tool's body: what it raises and prints belongs to the call.
        """
        from archytas_nb.tools import result

        value = self.function(*self.args, **self.kwargs)
        if inspect.isasyncgen(value):
            return _drain(value)
        return result.drain(value) if result.is_lazy(value) else value


async def _drain(items: AsyncIterator[Any]) -> Drained:
    from archytas_nb.tools.result import Drained, Reader

    reader = Reader()
    async for each in items:
        if not reader.takes(each):
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()
            return Drained(reader.items, complete=False)
    return Drained(reader.items, complete=True)


def awaited(awaitable: Any) -> Any:
    """Await on a thread of our own: the caller may be inside a running event loop, as every cell is.

    Raises:
        KeyboardInterrupt: The user interrupted; what was awaited has been cancelled, and given time to end.
        BaseException: What the awaitable raised.
    """
    import asyncio  # slow to load, and few tools are async

    box: dict[str, Any] = {}

    async def main() -> Any:
        task = asyncio.current_task()
        box["loop"], box["task"] = asyncio.get_running_loop(), task
        if "stopped" in box and task is not None:
            task.cancel()
        return await awaitable

    def work() -> None:
        try:
            box["value"] = asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  (carried over to the caller's thread)
            box["error"] = error
        finally:
            ended.release()

    # Not an event, whose lock stays closed for ever where an interrupt comes while it opens; nor a join, which
    # takes the thread for ended then.
    ended = _thread.allocate_lock()
    ended.acquire()
    context = contextvars.copy_context()  # the kernel keeps in it to which cell an output belongs
    thread = threading.Thread(target=context.run, args=(work,), name="archytas-await", daemon=True)
    try:
        thread.start()
        while not ended.acquire(
            timeout=0.2
        ):  # a wait without a bound cannot be interrupted on Windows
            pass
    except BaseException:
        box["stopped"] = True
        if "task" in box:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has just ended
                box["loop"].call_soon_threadsafe(box["task"].cancel)
        ended.acquire(timeout=_CANCEL_SECONDS)
        raise
    if "error" in box:
        raise box["error"]
    return box.get("value")
