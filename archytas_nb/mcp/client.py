"""Connections to servers of others, whose tools the agent of the notebook can use.

Each connection is owned by one task on a loop of its own thread, from `connect` until `close`, so
that a server can be added in one cell and removed in another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import jupyter_core.paths
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from archytas_nb.errors import ConfigurationError, ToolError
from archytas_nb.tools.foreign import tool_of
from archytas_nb.tools.tool import Tool
from archytas_nb.words import one_line

SECONDS_TO_CONNECT = 60.0
"""A server that is started by npx is downloaded first."""
_SECONDS_TO_CLOSE = 5.0
_SECONDS_OF_A_CALL = 3600.0  # a tool's own limit and the run's come first
_MAX_TOOLS = 500


class McpError(Exception):
    """What a server answered to a call that failed; the message is the server's."""


class Content(list[Any]):
    """The content of a result that is more than one text: texts and pictures."""

    def _repr_png_(self) -> bytes | None:
        import base64

        pictures = [each for each in self if isinstance(each, Picture)]
        if not pictures:
            return None
        return base64.b64decode(pictures[0].data)

    def _ai_repr_(self) -> str:
        return "\n".join(map(str, self))


class Picture:
    """A PNG image in base64."""

    def __init__(self, data: str) -> None:
        self.data = data

    def __str__(self) -> str:
        return "(an image)"


class _Loop:
    """An event loop on a thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def submit(self, work: Any) -> Future[Any]:
        """Run a coroutine on the loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._loop.run_forever, name="archytas_nb mcp client", daemon=True
                )
                thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


_loop = _Loop()


class ServerConnection:
    """A connection to a server.

    Args:
        name: The name of the server; those of its tools begin with it.
        target: The address of a server, or the command that starts one.
        headers: Headers of each request to an address.
        allowed: Names of tools, without the server's, that run without approval.

    Attributes:
        tools: Its tools, after `connect`.
        left_out: The tools that cannot be used, with the reason.
        log: What a started server writes to stderr; None for an address.
    """

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        headers: Mapping[str, str] | None = None,
        allowed: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.target = target
        self.tools: list[Tool] = []
        self.left_out: dict[str, str] = {}
        self.log: Path | None = None
        self._headers = dict(headers or {})
        self._allowed = allowed
        self._client: Client | None = None
        self._is_lost = False
        self._task: Future[None] | None = None
        self._end: asyncio.Event | None = None

    @property
    def address(self) -> str:
        """The address or the command."""
        if isinstance(self.target, str):
            return self.target
        return " ".join(self.target)

    @property
    def is_open(self) -> bool:
        """Whether the server can be called."""
        return self._client is not None and not self._is_lost

    def connect(self, seconds: float = SECONDS_TO_CONNECT) -> None:
        """Connect and read the list of tools.

        Raises:
            ConfigurationError: There is no such server, or it did not answer in time.
            KeyboardInterrupt: The user interrupted.
        """
        ready: Future[list[Any]] = Future()
        self._task = _loop.submit(self._own(ready))
        try:
            described = _waited(ready, seconds)
        except NotInTime:
            self.close()
            why = f"it did not answer within {seconds:g} s"
            raise ConfigurationError(self._failed(why)) from None
        except KeyboardInterrupt:
            self.close()
            raise
        except Exception as error:  # noqa: BLE001 - of any library below
            self.close()
            raise ConfigurationError(self._failed(_reason(error))) from None
        self._read(described)

    def close(self) -> None:
        """End the connection, and the server if it was started here."""
        if self._task is None:
            return
        end = self._end
        task = self._task
        self._task = None
        if end is None:
            task.cancel()
        else:
            _loop.submit(_set(end))
        with contextlib.suppress(Exception):
            wait([task], timeout=_SECONDS_TO_CLOSE)
        task.cancel()

    def _failed(self, why: str) -> str:
        text = f"the server {self.name!r} ({self.address}) cannot be used: {why}"
        if self.log is not None and self.log.exists():
            last = self.log.read_text(encoding="utf-8", errors="replace").strip()[-500:]
            if last:
                text += f"\nIts last output ({self.log}):\n{last}"
        return text

    def _read(self, described: Sequence[Any]) -> None:
        for each in described:
            name = f"{self.name}_{each.name}"
            hints = each.annotations
            only_reads = bool(hints and hints.read_only_hint)
            try:
                made = tool_of(
                    name,
                    each.description or each.title or "",
                    each.input_schema,
                    partial(self._call, each.name),
                    approve=not only_reads and each.name not in self._allowed,
                )
            except (ToolError, RecursionError, ValueError, TypeError) as error:
                self.left_out[each.name] = one_line(str(error), 200)
            else:
                self.tools.append(made)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool from any loop; cancelling it cancels the request."""
        if self._client is None:
            raise McpError(
                f"the server {self.name!r} is no longer connected; add it again with %agent_mcp add"
            )
        work = self._client.call_tool(tool, arguments, read_timeout_seconds=_SECONDS_OF_A_CALL)
        try:
            result = await asyncio.wrap_future(_loop.submit(work))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - also of an answer that is not valid
            self._is_lost |= getattr(error, "code", None) == types.CONNECTION_CLOSED
            raise McpError(f"the server {self.name!r} failed: {_reason(error)}") from None
        return value_of(result)

    async def _own(self, ready: Future[list[Any]]) -> None:
        """Open the connection, keep it until `close`, and close it, all in one task."""
        self._end = asyncio.Event()
        try:
            async with self._transport() as transport, Client(transport) as client:
                tools = await _listed(client)
                self._client = client
                ready.set_result(tools)
                await self._end.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._client = None

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        if isinstance(self.target, str):
            timeout = httpx2.Timeout(30.0, read=_SECONDS_OF_A_CALL)
            async with httpx2.AsyncClient(headers=self._headers, timeout=timeout) as http:
                yield streamable_http_client(self.target, http_client=http)
            return
        folder = Path(jupyter_core.paths.jupyter_runtime_dir())
        self.log = folder / f"archytas_nb-mcp-{self.name}-{os.getpid()}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command, *arguments = self.target
        parameters = StdioServerParameters(command=command, args=arguments)
        with self.log.open("w", encoding="utf-8") as log:
            yield stdio_client(parameters, errlog=log)


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _listed(client: Client) -> list[Any]:
    """The tools of a server, page by page."""
    tools: list[Any] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= _MAX_TOOLS:
            return tools[:_MAX_TOOLS]


def _waited(future: Future[Any], seconds: float) -> Any:
    """The result, waited for so that an interrupt is seen on every system."""
    left = seconds
    while left > 0 and not future.done():
        wait([future], timeout=min(left, 0.2))
        left -= 0.2
    return future.result(timeout=0)


def _reason(error: BaseException) -> str:
    """What went wrong, without the groups that the libraries wrap it in."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return one_line(f"{type(error).__name__}: {error}", 500)


def value_of(result: Any) -> Any:
    """The result of a call as a value: structured content, a text, or texts and pictures.

    Raises:
        McpError: The server says that the call failed.
    """
    content = [_item(each) for each in result.content]
    if result.is_error:
        raise McpError("\n".join(map(str, content)) or "the server gives no reason")
    structured = result.structured_content
    if structured is not None and not any(isinstance(each, Picture) for each in content):
        if isinstance(structured, dict) and list(structured) == ["result"]:
            return structured["result"]
        return structured
    if len(content) == 1 and isinstance(content[0], str):
        return content[0]
    if not content:
        return None
    return Content(content)


def _item(item: Any) -> Any:
    """A part of a result."""
    if item.type == "text":
        return item.text
    if item.type == "image" and item.mime_type == "image/png":
        return Picture(item.data)
    resource = getattr(item, "resource", None)
    text = getattr(resource, "text", None)
    if text is not None:
        return text
    what = getattr(item, "uri", None) or getattr(item, "mime_type", "")
    return f"({item.type}: {what})"
