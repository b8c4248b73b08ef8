"""Connections to servers of others, whose tools the agent of the notebook can use.

Each connection is owned by one task on a loop of its own thread, from `connect` until `close`, so
that a server can be added in one cell and removed in another.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as NotInTime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import jupyter_core.paths
import mcp_types as types
from jsonschema.exceptions import best_match  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from mcp import Client
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from archytas_nb.effects.ledger import current
from archytas_nb.errors import ConfigurationError
from archytas_nb.files import OutputFile, is_held
from archytas_nb.mcp.process import fault_of, started
from archytas_nb.mcp.reading import MAX_MESSAGE, Described, Page, Reader, take
from archytas_nb.tools.foreign import checkable, tool_of
from archytas_nb.tools.tool import Tool
from archytas_nb.untrusted import fault
from archytas_nb.words import collapse_whitespace, truncate_line, visible

SECONDS_TO_CONNECT = 60.0
"""A server that is started by npx is downloaded first."""
_SECONDS_TO_CLOSE = 10.0
_SECONDS_OF_A_CALL = 3600.0  # a tool's own limit and the run's come first
_MAX_TOOLS = 500
_MAX_PAGES = 100
_MAX_NAME = 64
_PNG = b"\x89PNG\r\n\x1a\n"

# Whoever made the call gets the fault of an answer; it is not also written below the cell.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class McpError(Exception):
    """The answer of a server to a failed call; the message is the server's."""


class Content(list[Any]):
    """The content of a result that is more than one text: texts and pictures."""

    def _repr_png_(self) -> bytes | None:
        pictures = [each for each in self if isinstance(each, Picture)]
        if not pictures:
            return None
        return pictures[0].data

    def _ai_repr_(self) -> str:
        return "\n".join(map(str, self))


class Picture:
    """A PNG image."""

    def __init__(self, data: bytes) -> None:
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
                self._loop = _new_loop()
                thread = threading.Thread(
                    target=self._loop.run_forever, name="archytas_nb mcp client", daemon=True
                )
                thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        # A kernel chooses another kind, which starts no processes.
        return asyncio.ProactorEventLoop()
    return asyncio.new_event_loop()


_loop = _Loop()


class ServerConnection:
    """A connection to a server.

    Args:
        name: The name of the server; those of its tools begin with it.
        target: The address of a server, or the command that starts one.
        headers: Headers of each request to an address.
        environment: Variables of a command, besides a few that every program needs.
        allowed: Names of tools, without the server's, that run without approval.
        taken: Names that its tools cannot have.

    Attributes:
        tools: Its tools, after `connect`.
        names: The names that the server gives to all its tools.
        left_out: The tools that cannot be used, with the reason.
        log: The stderr of a started server; None for an address.
    """

    def __init__(
        self,
        name: str,
        target: str | Sequence[str],
        headers: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        allowed: Sequence[str] = (),
        taken: Container[str] = (),
    ) -> None:
        self.name = name
        self.target = target
        self.tools: list[Tool] = []
        self.names: list[str] = []
        self.left_out: dict[str, str] = {}
        self.log: Path | None = None
        self._headers = dict(headers or {})
        self._environment = dict(environment or {})
        self._allowed = allowed
        self._taken = taken
        self._client: Client | None = None
        self._lost = ""  # why the connection has ended
        self._task: Future[None] | None = None
        self._end: asyncio.Event | None = None
        self._has_ended = threading.Event()
        self._is_closed = False
        self._connecting = asyncio.Lock()
        self._added: dict[str, Described] = {}  # what the tools were when they were added

    @property
    def address(self) -> str:
        """The address or the command."""
        if isinstance(self.target, str):
            return self.target
        return " ".join(self.target)

    @property
    def is_open(self) -> bool:
        """Whether the server can be called."""
        return self._client is not None and not self._lost

    @property
    def _is_on_this_machine(self) -> bool:
        """Whether the server may change files that the notebook sees."""
        if not isinstance(self.target, str):
            return True
        host = httpx2.URL(self.target).host
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"

    def connect(self, seconds: float = SECONDS_TO_CONNECT) -> None:
        """Connect and read the list of tools.

        Raises:
            ConfigurationError: There is no such server, or it did not answer in time.
            KeyboardInterrupt: The user interrupted.
        """
        ready: Future[Page] = Future()
        self._task = _loop.submit(self._own(ready))
        try:
            self._read(_waited(ready, seconds))
        except NotInTime:
            self._end_task()
            why = f"it did not answer within {seconds:g} s"
            raise ConfigurationError(self._failed(why)) from None
        except KeyboardInterrupt:
            self.close()
            raise
        except Exception as error:  # noqa: BLE001 - of any library below
            self._end_task()
            raise ConfigurationError(self._failed(_reason(error))) from None

    def close(self) -> None:
        """End the connection, and the server if it was started here; its log is removed."""
        self._is_closed = True
        self._end_task()
        self.remove_log()

    def remove_log(self) -> None:
        """Remove the log of a started server."""
        if self.log is not None:
            self.log.unlink(missing_ok=True)

    def _end_task(self) -> None:
        task = self._task
        if task is None:
            return
        self._task = None
        if self._client is None:
            # It is still connecting.
            task.cancel()
        elif self._end is not None:
            _loop.submit(_set(self._end))
        self._has_ended.wait(_SECONDS_TO_CLOSE)
        task.cancel()

    def _failed(self, why: str) -> str:
        text = f"the server {self.name!r} ({self.address}) cannot be used: {why}"
        last = self._last_output(500)
        if last:
            text += f"\nIts last output ({self.log}):\n{last}"
        return text

    def _last_output(self, characters: int) -> str:
        """The end of what a started server has written to its stderr."""
        if self.log is None:
            return ""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - characters))
                return visible(log.read().decode(errors="replace").strip())
        except OSError:
            # It was closed, and its log removed.
            return ""

    def _read(self, listed: Page) -> None:
        """Make tools of those that are listed."""
        self.names = [each.name for each in listed.tools]
        self._added = {each.name: each for each in listed.tools}
        self.left_out = dict(listed.left_out)
        for each in listed.tools:
            called = visible(truncate_line(each.name, 100))
            name = f"{self.name}_{re.sub(r'[^A-Za-z0-9_]', '_', each.name)}"
            if len(name) > _MAX_NAME:
                self.left_out[called] = f"longer than {_MAX_NAME} characters"
                continue
            if name in self._taken or any(tool.name == name for tool in self.tools):
                self.left_out[called] = f"another tool is named {name!r}"
                continue
            try:
                made = tool_of(
                    name,
                    each.description,
                    each.schema,
                    partial(self._call, each.name),
                    approve=not each.only_reads and each.name not in self._allowed,
                    invalid=_Check,
                )
            except Exception as error:  # noqa: BLE001 - one tool costs no other
                self.left_out[called] = collapse_whitespace(visible(str(error)), 200)
            else:
                self.tools.append(made)

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool from any loop; cancelling it cancels the request.

        A call is sent once. If the connection ends meanwhile, it may have been carried out.
        """
        if (why := fault(arguments)) is not None:
            raise McpError(f"{tool!r} was not called, because its arguments cannot be sent: {why}")
        ledger = current.get()
        if ledger is not None and self._is_on_this_machine:
            ledger.expect_others(json.dumps(arguments, ensure_ascii=False))
        try:
            result = await asyncio.wrap_future(_loop.submit(self._sent(tool, arguments)))
        except (asyncio.CancelledError, McpError):
            raise
        except Exception as error:  # noqa: BLE001 - also of an answer that is not valid
            if getattr(error, "code", None) == types.CONNECTION_CLOSED:
                self._lost = self._lost or "it has closed the connection"
            if self._lost:
                raise McpError(self._no_longer()) from None
            raise McpError(f"the server {self.name!r} failed: {_reason(error)}") from None
        self._check(tool, result)
        return value_of(result)

    def _check(self, tool: str, result: Any) -> None:
        """Check structured content by the schema that the server declares for it.

        Raises:
            McpError: It is something else than declared.
        """
        declared = self._added[tool].output
        structured = result.structured_content
        if declared is None or structured is None or result.is_error:
            return
        invalid = _Check(checkable(declared))
        why = invalid(structured)
        if why and list(structured) == ["result"]:
            # The key stands for a value that is not an object.
            why = invalid(structured["result"])
        if why:
            raise McpError(
                f"the server {self.name!r} failed: it has called {tool!r}, and the result is not "
                f"what it declares: {visible(why)}"
            )

    async def _sent(self, tool: str, arguments: dict[str, Any]) -> Any:
        async with self._connecting:
            if self._lost and isinstance(self.target, str) and not self._is_closed:
                await self._connect_again(tool)
        if self._client is None or self._lost:
            raise McpError(self._no_longer())
        return await self._client.call_tool(
            tool, arguments, read_timeout_seconds=_SECONDS_OF_A_CALL
        )

    async def _connect_again(self, tool: str) -> None:
        """Connect to an address after the connection has ended.

        Raises:
            McpError: The server does not answer, or has another tool of this name now.
        """
        before = self._task
        if before is not None and self._end is not None:
            self._end.set()
            if self._client is None:
                before.cancel()
            await asyncio.wait([asyncio.wrap_future(before)], timeout=_SECONDS_TO_CLOSE)
        ready: Future[Page] = Future()
        self._task = _loop.submit(self._own(ready))
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(ready), SECONDS_TO_CONNECT)
        except Exception as error:  # noqa: BLE001 - of any library below
            raise McpError(
                f"the server {self.name!r} ({self.address}) does not answer: {_reason(error)}; "
                "the next call connects again"
            ) from None
        if self._added[tool] not in found.tools:
            raise McpError(
                f"the server {self.name!r} was replaced: its tool {tool!r} is not the one that was "
                f"added; %agent_mcp remove {self.name}, and add it again"
            )
        self._lost = ""

    def _no_longer(self) -> str:
        text = f"the server {self.name!r} is no longer connected"
        if self._lost:
            text += f": {self._lost}"
        if isinstance(self.target, str) and not self._is_closed:
            return f"{text}; the call may have been carried out, and the next one connects again"
        return f"{text}; %agent_mcp remove {self.name}, and add it again"

    def _on_end(self, status: int | None) -> None:
        self._lost = "it has ended"
        if status is not None:
            self._lost += f" with the exit status {status}"
        last = collapse_whitespace(self._last_output(200), 200)
        if last:
            self._lost += f" ({last})"

    async def _own(self, ready: Future[Page]) -> None:
        """Open the connection, keep it until `close`, and close it, all in one task."""
        self._end = asyncio.Event()
        self._has_ended.clear()
        reader = Reader()
        try:
            async with (
                self._transport(reader) as transport,
                Client(transport, cache=None) as client,
            ):
                listed = await _listed(client, reader)
                self._client = client
                ready.set_result(listed)
                if not self._is_closed:
                    await self._end.wait()
        except asyncio.CancelledError:
            if not ready.done():
                ready.set_exception(McpError("the connection was closed"))
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            if not ready.done():
                ready.set_exception(error)
        finally:
            self._client = None
            self._has_ended.set()

    async def _look_for_end(self, response: Any) -> None:
        """Notice that a server no longer knows the session, as after it was restarted.

        The protocol has the status 404 for that; some servers answer 400.
        """
        request = response.request
        is_of_session = request.method == "POST" and "mcp-session-id" in request.headers
        if is_of_session and response.status_code in (400, 404):
            status = response.status_code
            self._lost = f"it answers with HTTP {status}: the session has probably expired"

    @contextlib.asynccontextmanager
    async def _transport(self, reader: Reader) -> AsyncIterator[Any]:
        if isinstance(self.target, str):
            timeout = httpx2.Timeout(30.0, read=_SECONDS_OF_A_CALL)
            # A compressed body could be of any length.
            headers = {**self._headers, "Accept-Encoding": "identity"}
            hooks: dict[str, list[Any]] = {
                "response": [partial(take, reader=reader), self._look_for_end]
            }
            async with httpx2.AsyncClient(
                headers=headers, timeout=timeout, event_hooks=hooks
            ) as http:
                yield streamable_http_client(
                    self.target, http_client=http, max_sse_event_size=2 * MAX_MESSAGE
                )
            return
        folder = Path(jupyter_core.paths.jupyter_runtime_dir())
        for each in folder.glob("archytas_nb-mcp-*.log"):
            if is_held(each) is False:
                # Its kernel was killed.
                each.unlink(missing_ok=True)
        self.log = folder / f"archytas_nb-mcp-{self.name}-{os.getpid()}.log"
        environment = {**get_default_environment(), **self._environment}
        with OutputFile(self.log, "the log of the server").begin() as log:
            yield started(self.target, environment, log, reader, self._on_end)


class _Check:
    """Says what is wrong with a value, by a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._validator: Any = None

    def __call__(self, value: Any) -> str:
        """The fault of a value; empty if there is none, or if the schema is not valid."""
        try:
            if self._validator is None:
                kind = validator_for(self._schema)
                kind.check_schema(self._schema)
                self._validator = kind(self._schema)
            error = best_match(self._validator.iter_errors(value))
        except Exception:  # noqa: BLE001 - of a library, about a schema that is not valid
            return ""
        if error is None:
            return ""
        path = error.json_path.removeprefix("$").removeprefix(".")
        return truncate_line(": ".join(filter(None, [path, error.message])), 300)


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _listed(client: Client, reader: Reader) -> Page:
    """The tools of a server, page by page; a page that cannot be read is left out."""
    listed = Page()
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and len(seen) < _MAX_PAGES:
        seen.add(cursor)
        try:
            page = await client.list_tools(cursor=cursor)
        except Exception as error:
            if cursor is None or getattr(error, "code", None) == types.CONNECTION_CLOSED:
                raise
            listed.left_out["further tools"] = f"their page cannot be read: {_reason(error)}"
            break
        known = {each.name for each in page.tools}
        for each in reader.page.tools:
            if each in listed.tools:
                # Some servers give a page again in place of the end.
                continue
            if each.name not in known:
                listed.left_out[visible(each.name)] = "its schema names a header that is not valid"
            elif len(listed.tools) < _MAX_TOOLS:
                listed.tools.append(each)
            else:
                listed.left_out["further tools"] = f"{_MAX_TOOLS} tools are used at most"
        listed.left_out |= reader.page.left_out
        cursor = page.next_cursor
        if cursor is None:
            break
    return listed


def _waited(future: Future[Any], seconds: float) -> Any:
    """The result, waited for so that an interrupt is seen on every system."""
    left = seconds
    while left > 0 and not future.done():
        wait([future], timeout=min(left, 0.2))
        left -= 0.2
    return future.result(timeout=0)


def _reason(error: BaseException) -> str:
    """The error itself, without the groups in which the libraries wrap it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MCPError):
        text = str(error)
    elif hasattr(error, "errors"):
        # pydantic's errors are such.
        text = f"its answer is not valid: {fault_of(error)}"
    return visible(collapse_whitespace(text, 500))


def value_of(result: Any) -> Any:
    """The result of a call as a value: structured content, a text, or texts and pictures.

    Raises:
        McpError: The server says that the call failed.
    """
    content = [_item(each) for each in result.content]
    if result.is_error:
        raise McpError(visible("\n".join(map(str, content))) or "the server gives no reason")
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
    """A part of a result, as a reader makes it: a text or an image."""
    if item.type == "text":
        return item.text
    if item.mime_type == "image/png":
        with contextlib.suppress(ValueError):
            data = base64.b64decode(item.data, validate=True)
            if data.startswith(_PNG):
                return Picture(data)
    return f"(image: {item.mime_type})"
