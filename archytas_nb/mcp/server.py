"""Offers the tools of a notebook to other programs on this machine.

An HTTP server on a thread of its own, on a random port of 127.0.0.1, for programs that know its
token. A `Listener` accepts its connections. Calls run on the main thread of the kernel; while they
wait for a running cell, the program is sent progress notifications, so that it does not give up.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from uvicorn.protocols.http.h11_impl import H11Protocol

from archytas_nb.kernel.listener import HOST, Connection, Listener
from archytas_nb.loop.events import CallOutcome, Json
from archytas_nb.tools.tool import Tool
from archytas_nb.version import __version__
from archytas_nb.words import truncate_line, visible

T = TypeVar("T")

# Faulty requests of other programs get an answer; a log of them below a cell helps nobody.
for _name in ("mcp", "uvicorn"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

PATH = "/mcp"
SECONDS_BETWEEN_PROGRESS = 5.0
"""Some programs give up after a minute without a notification."""
_SECONDS_TO_START = 30.0
_SECONDS_TO_STOP = 5.0
_MAX_BODY = 4_000_000  # bytes
_MAX_SESSIONS = 500  # programs end theirs, or forget them
_MAX_CALLER = 60  # characters of the name of a program
_VARIABLES = "notebook://variables"
_VARIABLE = "notebook://variable/"
INSTRUCTIONS = (
    "The tools are functions of a live Jupyter notebook; they run in its kernel on its variables. "
    "A call waits while a cell of the notebook is running. Some calls must be approved by the "
    "person at the notebook first. notebook_tools lists the tools that exist now, and "
    "notebook_call calls one of them by its name."
)


class ServedNotebook(Protocol):
    """The parts of a notebook that a server needs. The server's thread calls `tools`."""

    def tools(self) -> Mapping[str, Tool]:
        """The tools that exist now, by name."""

    def call(self, caller: str, tool: str, arguments: Mapping[str, Json]) -> Future[CallOutcome]:
        """Run a call as soon as no cell is running; until then the future can be cancelled."""

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt a call that is running."""

    def names(self) -> list[str]:
        """The names of the variables that may be described."""

    def described(self, name: str) -> Future[str]:
        """A description of a variable; with an empty name, of all."""


class NotebookServer:
    """Offers the tools of a notebook, from `start` until `stop`.

    Args:
        notebook: The notebook.
        port: The port; 0 for a free one.

    Attributes:
        token: The secret that a program must send.
        url: The address.
    """

    def __init__(self, notebook: ServedNotebook, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._listener = Listener(self._take, "archytas_nb mcp accept", port)
        self.url = f"http://{HOST}:{self._listener.port}{PATH}"
        hosts = [f"{name}:{self._listener.port}" for name in (HOST, "localhost")]
        security = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )
        app = _handlers(notebook).streamable_http_app(
            streamable_http_path=PATH,
            transport_security=security,
            max_request_body_size=_MAX_BODY,
            max_sessions=_MAX_SESSIONS,
        )
        config = uvicorn.Config(
            _token_required(app, self.token),
            http=_Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._loop: asyncio.AbstractEventLoop  # of the thread, while it runs
        self._connecting: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="archytas_nb mcp", daemon=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._served())
        finally:
            self._server.has_begun.set()
            self._listener.stop()

    async def _served(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[])

    def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: The port was taken meanwhile.
            RuntimeError: The server does not begin.
        """
        self._thread.start()
        if not self._server.has_begun.wait(_SECONDS_TO_START) or not self._thread.is_alive():
            raise RuntimeError(f"the server did not start within {_SECONDS_TO_START} s: try again")
        self._listener.start()

    def stop(self) -> None:
        """End the connections and stop listening; called again, it does nothing."""
        self._listener.stop()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    @property
    def is_running(self) -> bool:
        """Whether it listens."""
        return self._listener.is_open and self._thread.is_alive()

    def _take(self, connection: Connection) -> None:
        """Take a connection of the listener, on its thread."""
        self._loop.call_soon_threadsafe(self._connect, connection)

    def _connect(self, connection: Connection) -> None:
        task = asyncio.ensure_future(self._connected(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connected(self, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._server.protocol(connection), connection.socket
            )
        except OSError:
            # It has gone already.
            connection.close()
        except BaseException:
            connection.close()
            raise


class _Protocol(H11Protocol):
    """HTTP on a connection of the listener."""

    connection: Connection

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.connection.closing()


class _Server(uvicorn.Server):
    """A server that is given its connections.

    Attributes:
        has_begun: Set when it can be given the first one.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_begun = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Begin; no socket is its own."""
        await super().startup(sockets)
        self.has_begun.set()

    def protocol(self, connection: Connection) -> _Protocol:
        """The protocol for a connection."""
        state = {**self.lifespan.state, _CONNECTION: connection}
        made = _Protocol(self.config, self.server_state, state)
        made.connection = connection
        return made


_CONNECTION = "archytas_nb.connection"
_NO_TOKEN = (
    b"the header Authorization must be: Bearer TOKEN, "
    b"which python -m archytas_nb mcp --token prints\n"
)


def _token_required(app: Any, token: str) -> Any:
    """The application for requests with the token only, which it is given as a whole.

    Until a request is read, its connection is idle, so that half of one holds nothing for long.
    """
    expected = f"Bearer {token}".encode()

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, expected):
            await _refuse(send, 401, _NO_TOKEN)
            return
        body = await _body(receive)
        if body is None:
            return
        if len(body) > _MAX_BODY:
            await _refuse(send, 413, b"a request may have %d bytes\n" % _MAX_BODY)
            return
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Any:
            return messages.pop() if messages else await receive()

        with scope["state"][_CONNECTION].busy():
            await app(scope, received, send)

    return checked


async def _body(receive: Callable[[], Awaitable[Any]]) -> bytes | None:
    """The body of a request, or a part that is too long; None if the program has gone."""
    parts = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _MAX_BODY or not message.get("more_body"):
            return b"".join(parts)


async def _refuse(send: Callable[[Any], Awaitable[None]], status: int, why: bytes) -> None:
    """Answer with an error, and end the connection."""
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why})


# ── the tools ─────────────────────────────────────────────────────────────────────────────────────

_LIST = types.Tool(
    name="notebook_tools",
    description="List the tools that exist in the notebook now, with their arguments.",
    input_schema={"type": "object", "properties": {}},
    annotations=types.ToolAnnotations(read_only_hint=True),
)
_CALL = types.Tool(
    name="notebook_call",
    description="Call a tool of the notebook by its name, also one that was defined just now.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        "required": ["name"],
    },
    # It may call any tool.
    annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
)
FIXED_TOOLS = (_LIST, _CALL)
"""Many programs read the list of tools only once; these two reach those that are defined later."""

_TEMPLATE = types.ResourceTemplate(
    name="variable",
    uri_template=_VARIABLE + "{name}",
    description="A variable of the notebook: its type, and its value or a part of it.",
    mime_type="text/plain",
)


def described_tool(tool: Tool) -> types.Tool:
    """A tool as it is offered."""
    return types.Tool(
        name=tool.name,
        description=tool.description or None,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.pure,
            # Some programs ask their own user only about tools that may destroy something.
            destructive_hint=tool.may_require_approval or tool.runs_code,
        ),
    )


def _offered(tools: Mapping[str, Tool]) -> list[types.Tool]:
    """The tools as they are listed; `notebook_call` reaches one with the name of a fixed tool."""
    fixed = {each.name for each in FIXED_TOOLS}
    own = [described_tool(each) for each in tools.values() if each.name not in fixed]
    return [*own, *FIXED_TOOLS]


def content_of(outcome: CallOutcome) -> types.CallToolResult:
    """The outcome of a call as the program reads it."""
    content: list[Any] = [types.TextContent(type="text", text=outcome.text)]
    content += [
        types.ImageContent(type="image", data=each, mime_type="image/png")
        for each in outcome.images
    ]
    return types.CallToolResult(content=content, is_error=outcome.status != "done")


def failed(text: str) -> types.CallToolResult:
    """The result of a call that failed with this text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


async def list_templates(_: Any, __: Any) -> types.ListResourceTemplatesResult:
    """The addresses that variables have."""
    return types.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])


def _handlers(notebook: ServedNotebook) -> Server[Any]:
    """The server of the protocol, without its transport."""
    Context = ServerRequestContext[Any]  # noqa: N806 - a type

    async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_offered(notebook.tools()))

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        name = params.name
        arguments = params.arguments or {}
        if name == _LIST.name:
            texts = [each.text for each in notebook.tools().values()]
            listed = "\n\n".join(texts) or "The notebook has no tools now."
            return types.CallToolResult(content=[types.TextContent(type="text", text=listed)])
        if name == _CALL.name:
            named = arguments.get("name")
            given = arguments.get("arguments") or {}
            if not isinstance(named, str) or not isinstance(given, dict):
                return failed("notebook_call takes a name (a string) and arguments (an object).")
            name = named
            arguments = given
        future = notebook.call(_caller(context), name, arguments)
        outcome = await _result(future, context, notebook)
        return content_of(outcome)

    async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
        listed = [
            types.Resource(
                name="variables",
                uri=_VARIABLES,
                description="The variables of the notebook, with their types.",
                mime_type="text/plain",
            )
        ]
        listed += [
            types.Resource(name=name, uri=_VARIABLE + quote(name), mime_type="text/plain")
            for name in notebook.names()
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == _VARIABLES:
            name = ""
        elif uri.startswith(_VARIABLE) and unquote(uri[len(_VARIABLE) :]) in notebook.names():
            name = unquote(uri[len(_VARIABLE) :])
        else:
            raise MCPError(types.INVALID_PARAMS, f"the notebook has no resource {uri!r}")
        text = await _result(notebook.described(name), context, notebook)
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "archytas_nb",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _caller(context: Any) -> str:
    """The name that a program gives itself."""
    params = context.session.client_params
    if params is None or not params.client_info.name:
        return "another program"
    return truncate_line(visible(params.client_info.title or params.client_info.name), _MAX_CALLER)


def _raise_exit(error: BaseException | None) -> None:
    """Raise an error in place of one that would end the loop of the server.

    Raises:
        MCPError: The work on the main thread tried to end the kernel, or was interrupted.
    """
    if error is not None and not isinstance(error, Exception):
        raise MCPError(types.INTERNAL_ERROR, f"the notebook failed: {type(error).__name__}")


async def _result(future: Future[T], context: Any, notebook: ServedNotebook) -> T:
    """Wait for the main thread; report progress meanwhile.

    If the program cancels its request, a call that has not begun is not made, and one that is
    running is interrupted.
    """
    waiting = asyncio.ensure_future(asyncio.wrap_future(future))
    waited = 0.0
    try:
        while True:
            done, _ = await asyncio.wait([waiting], timeout=SECONDS_BETWEEN_PROGRESS)
            if done:
                _raise_exit(waiting.exception())
                return waiting.result()
            waited += SECONDS_BETWEEN_PROGRESS
            state = "waiting until a cell of the notebook has ended"
            if future.running():
                state = "running in the notebook"
            await context.session.report_progress(waited, None, state)
    except asyncio.CancelledError:
        if not future.cancel() and not future.done():
            notebook.interrupt(future)
        raise
