"""A served notebook for programs that start their servers themselves and talk to them over stdio.

``python -m archytas_nb mcp`` passes everything on to the server of a kernel on this machine, which
it finds by a file in Jupyter's private runtime folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.registered import Registered, registered
from archytas_nb.version import __version__

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
    listed = ", ".join(repr(each.notebook) for each in every) or "none"
    raise ConfigurationError(
        f"{len(found)} served notebooks end with {notebook!r}; served are: {listed}. Run "
        "%agent_mcp serve in the notebook, and name it with --notebook if there are several"
    )


def main(notebook: str) -> None:
    """Serve a notebook over stdin and stdout until stdin ends."""
    anyio.run(_serve, chosen(notebook))


async def _serve(notebook: Registered) -> None:
    headers = {"Authorization": f"Bearer {notebook.token}"}
    timeout = httpx2.Timeout(30.0, read=None)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout) as http,
        Client(streamable_http_client(notebook.url, http_client=http)) as client,
        stdio_server() as (read, write),
    ):
        server = _passing_on(client)
        await server.run(read, write, server.create_initialization_options())


def _passing_on(client: Client) -> Server[Any]:
    """A server that passes requests on to a client of another."""
    Context = ServerRequestContext[Any]  # noqa: N806 - a type

    async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
        return await client.list_tools()

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments: Mapping[str, Any] = params.arguments or {}
        return await client.call_tool(
            params.name, dict(arguments), progress_callback=context.session.report_progress
        )

    async def list_resources(_: Context, __: Any) -> types.ListResourcesResult:
        return await client.list_resources()

    async def read_resource(
        _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await client.read_resource(str(params.uri))

    return Server(
        "archytas_nb",
        version=__version__,
        instructions=client.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )
