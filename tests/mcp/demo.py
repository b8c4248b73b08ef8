"""A server of the official library, with tools that work, fail, hang and die."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Literal

import uvicorn
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("demo")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find(kind: Literal["x", "y"], where: dict[str, list[int]] | None = None) -> str:
    """Find something."""
    return f"{kind} {where}"


@server.tool()
def change(path: str = "", text: str | None = None) -> str:
    """Change something: write a text to a file, or remove the file without one."""
    if path and text is not None:
        Path(path).write_text(text)
    elif path:
        Path(path).unlink()
    return "changed"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def page(size: int) -> str:
    """A long text with HTML."""
    return "<img src=x onerror=alert(1)>" + "x" * size


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def hang() -> str:
    """Never answer."""
    await asyncio.sleep(3600)
    return ""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "none")


def main() -> None:
    """Serve over stdio, or over HTTP after --http PORT; the address is printed."""
    print("the demo server has started", file=sys.stderr, flush=True)
    if sys.argv[1:2] != ["--http"]:
        server.run("stdio")
        return
    listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
