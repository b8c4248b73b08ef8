"""A call whose arguments are validated, and how it is run to its end. Knows no schema and renders nothing."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archytas_nb.tools.result import Drained


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
    from archytas_nb.tools.plain import MAX_ITEMS
    from archytas_nb.tools.result import Drained

    read: list[Any] = []
    async for each in items:
        if len(read) == MAX_ITEMS:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()
            return Drained(read, complete=False)
        read.append(each)
    return Drained(read, complete=True)


def awaited(awaitable: Any) -> Any:
    """Await on a thread of our own: the caller may be inside a running event loop, as every cell is.

    Raises:
        BaseException: What the awaitable raised.
    """
    import asyncio  # slow to load, and few tools are async

    box: dict[str, Any] = {}

    async def main() -> Any:
        return await awaitable

    def work() -> None:
        try:
            box["value"] = asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  (carried over to the caller's thread)
            box["error"] = error

    thread = threading.Thread(target=work, name="archytas-await", daemon=True)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box.get("value")
