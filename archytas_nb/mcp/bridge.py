"""A served notebook for programs that start their servers themselves and talk to them over stdio.

``python -m archytas_nb mcp`` passes everything on to the server of a kernel on this machine, which
it finds by a file in Jupyter's private runtime folder. It may be started before there is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.registered import Registered, registered
from archytas_nb.mcp.server import FIXED_TOOLS, INSTRUCTIONS, failed, list_templates
from archytas_nb.untrusted import fault, read
from archytas_nb.version import __version__

T = TypeVar("T")

KIND = "served"
"""As what a served notebook is registered."""


def chosen(notebook: str) -> Registered:
    """The notebook whose path ends with a text; without one, the only one.

    Raises:
        ConfigurationError: None or several fit.
    """
    every = registered(KIND)
    found = [each for each in every if each.notebook.endswith(notebook)]
    if len(found) == 1:
        return found[0]
    if not every:
        raise ConfigurationError("no notebook is served: run %agent_mcp serve in one")
    listed = ", ".join(repr(each.notebook) for each in every)
    which = "several notebooks are served"
    if notebook:
        which = f"{len(found)} served notebooks end with {notebook!r}; served are"
    raise ConfigurationError(
        f"{which}: {listed}. Name one with --notebook, or run %agent_mcp serve in it"
    )


def main(notebook: str) -> None:
    """Serve a notebook over stdin and stdout until stdin ends."""
    anyio.run(_serve, notebook)


async def _serve(notebook: str) -> None:
    server = _passing_on(notebook)
    lines: Any = _Lines()
    async with stdio_server(stdin=lines) as (received, write):
        lines.write = write
        await server.run(received, write, server.create_initialization_options())


class _Lines:
    """The lines of stdin for the library, which would change what is not UTF-8, and pass it on.

    A message that cannot be passed on is answered with the reason.
    """

    write: Any = None

    async def __aiter__(self) -> AsyncIterator[str]:
        stdin = anyio.wrap_file(sys.stdin.buffer)
        while line := await stdin.readline():
            try:
                message = read(line)
            except ValueError as error:
                message, why = None, f"it is not JSON: {error}"
            else:
                why = fault(message) or ""
            if not why:
                yield json.dumps(message)
                continue
            asked = message.get("id") if isinstance(message, dict) else None
            if isinstance(asked, (int, str)) and fault(asked) is None:
                refused = types.ErrorData(
                    code=types.INVALID_PARAMS, message=f"not passed on: {why}"
                )
                answer = types.JSONRPCError(jsonrpc="2.0", id=asked, error=refused)
                await self.write.send(SessionMessage(answer))


@asynccontextmanager
async def _client(notebook: str, context: Any) -> AsyncIterator[Client]:
    """A client of the kernel that serves now, in the name of the program that asks.

    It is created for each request, so that a kernel may come, go and be restarted.

    Raises:
        ConfigurationError: None can be asked.
    """
    kernel = chosen(notebook)
    headers = {"Authorization": f"Bearer {kernel.token}"}
    timeout = httpx2.Timeout(30.0, read=None)
    params = context.session.client_params
    async with AsyncExitStack() as stack:
        try:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False)
            )
            transport = streamable_http_client(kernel.url, http_client=http)
            info = params.client_info if params is not None else None
            client = await stack.enter_async_context(Client(transport, client_info=info))
        except Exception as error:  # noqa: BLE001 - of any library below
            raise ConfigurationError(
                f"the kernel of {kernel.notebook!r} does not answer ({type(error).__name__}); run "
                "%agent_mcp serve in the notebook again if it was restarted"
            ) from None
        yield client


async def _asked(notebook: str, context: Any, ask: Callable[[Client], Awaitable[T]]) -> T:
    """The kernel's answer.

    Raises:
        ConfigurationError: None can be asked.
        MCPError: It answers with an error.
    """
    async with _client(notebook, context) as client:
        try:
            return await ask(client)
        except MCPError as error:
            # The client would wrap it in a group.
            refused = error
    raise refused


def _passing_on(notebook: str) -> Server[Any]:
    """A server that passes requests on to the kernel of a notebook."""
    Context = ServerRequestContext[Any]  # noqa: N806 - a type

    async def list_tools(context: Context, _: Any) -> types.ListToolsResult:
        try:
            return await _asked(notebook, context, Client.list_tools)
        except ConfigurationError:
            # A program that gets an error may not ask again.
            return types.ListToolsResult(tools=[*FIXED_TOOLS])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        def ask(client: Client) -> Awaitable[types.CallToolResult]:
            report = context.session.report_progress
            return client.call_tool(params.name, params.arguments, progress_callback=report)

        try:
            return await _asked(notebook, context, ask)
        except ConfigurationError as error:
            return failed(str(error))

    async def list_resources(context: Context, _: Any) -> types.ListResourcesResult:
        try:
            return await _asked(notebook, context, Client.list_resources)
        except ConfigurationError:
            return types.ListResourcesResult(resources=[])

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return await _asked(
                notebook, context, lambda client: client.read_resource(str(params.uri))
            )
        except ConfigurationError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None

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
