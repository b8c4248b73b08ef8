"""A server over HTTP that answers as a function says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, dict[str, Any]], Any]
"""For a method and its parameters: a result, or a status, headers and a body; None for the usual."""
INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "fake", "version": "1"},
}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool that reads only, so that nobody is asked about it."""
    schema = {"type": "object", "properties": {}}
    hints = {"readOnlyHint": True}
    return {
        "name": name,
        "description": "Works.",
        "inputSchema": schema,
        "annotations": hints,
        **more,
    }


@contextmanager
def faked(answer: Answer) -> Iterator[str]:
    """Serve, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            method, call = message["method"], message.get("id")
            if call is None:
                self.say(202, {}, b"")
                return
            result = answer(method, message.get("params") or {})
            if isinstance(result, tuple):
                self.say(*result)
                return
            if result is None and method == "initialize":
                result = INITIALIZED
            made: dict[str, Any] = {"jsonrpc": "2.0", "id": call, "result": result}
            if result is None:
                made = {
                    "jsonrpc": "2.0",
                    "id": call,
                    "error": {"code": -32601, "message": "no such method"},
                }
            self.say(200, {}, json.dumps(made).encode())

        def say(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.say(405, {}, b"")

        do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
