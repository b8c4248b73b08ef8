"""A server without a library, over stdio or HTTP, whose tools misbehave as their names say."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HTML = "<img src=x onerror=alert(1)>"
_X = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
_SLOW = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
_BOMB = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 1_000} for n in range(8)}


def _tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}}
    return {
        "name": name,
        "description": f"Be {name}. {HTML}",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
        **more,
    }


_LIMITED = {"properties": {"count": {"type": "integer", "maximum": 3}}, "required": ["count"]}
_EXPLODES = {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": _BOMB}
NAMES = "large html untyped null broken nested picture silent dead asking get-sum compressed page forgets"
received: list[str] = []
"""The names of the tools that were called over HTTP."""
sessions: set[str] = set()
"""The sessions over HTTP; a call of `forgets` ends all, as if the server was restarted."""
TOOLS: list[Any] = [
    *map(_tool, NAMES.split()),
    _tool("unfit", outputSchema=_X),
    _tool("slow", outputSchema=_SLOW),
    _tool("limited", inputSchema={"type": "object", **_LIMITED}),
    _tool("bomb", inputSchema={"type": "object", **_EXPLODES}),
    _tool("get_sum"),
    _tool("x" * 200),
    _tool("faulty", inputSchema=5),
    _tool("lost", icons=5, _meta=[], execution="x", outputSchema={"$ref": "#"}),
    None,
]


def _result(name: str) -> Any:
    text = {"content": [{"type": "text", "text": f"{name} {HTML}"}]}
    match name:
        case "large":
            return {"content": [{"type": "text", "text": "x" * 100_000_000}]}
        case "untyped":
            return {"content": [{"text": "no type"}]}
        case "null":
            return None
        case "picture":
            return {"content": [{"type": "image", "data": "!!!", "mimeType": "image/png"}]}
        case "unfit":
            return {**text, "structuredContent": {"x": "no"}}
        case "slow":
            return {**text, "structuredContent": {"x": "a" * 40 + "!"}}
    return text


def answer(message: dict[str, Any]) -> bytes | None:
    """The answer; None for none."""
    call = message.get("id")
    method = message.get("method")
    name = ""
    if call is None:
        return None
    if method == "initialize":
        result: Any = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        name = message["params"]["name"]
        result = _result(name)
    else:
        error = {"code": -32601, "message": f"no {method}"}
        return json.dumps({"jsonrpc": "2.0", "id": call, "error": error}).encode()
    if name == "silent":
        return None
    if name == "dead":
        print("told why", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "broken":
        return b'{"jsonrpc": "2.0", "id": %s, "result": {"content": [}' % json.dumps(call).encode()
    if name == "nested":
        deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
        return b'{"result": %s, "jsonrpc": "2.0", "id": %s}' % (deep, json.dumps(call).encode())
    # The id comes last, as some libraries write it.
    return json.dumps({"result": result, "jsonrpc": "2.0", "id": call}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        named = message.get("params", {}).get("name", "")
        session = self.headers["Mcp-Session-Id"]
        if message["method"] == "initialize":
            session = secrets.token_hex(8)
            sessions.add(session)
        if session not in sessions:  # answered as the official example server does it
            error = {"code": -32000, "message": "no valid session"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            self._send(400, body, {})
            return
        if message["method"] == "tools/call":
            received.append(named)
        if named == "forgets":
            sessions.clear()
        if named == "dead":
            self.close_connection = True
            return
        self._answer(message, named, {"Mcp-Session-Id": session})

    def _answer(self, message: dict[str, Any], named: str, headers: dict[str, str]) -> None:
        if message.get("id") is None:
            self._send(202, b"", headers)
            return
        body = answer(message)
        if named == "page":
            headers["Content-Type"] = "text/html"
        if named == "compressed":
            body = gzip.compress(b" " * 200_000_000 + (body or b""), 1)
            headers["Content-Encoding"] = "gzip"
        if body is None:
            threading.Event().wait()
        self._send(200, body or b"", headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def over_http() -> Iterator[str]:
    """Serve in this process, and yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
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


if __name__ == "__main__":
    print("this line is no message", flush=True)
    for line in sys.stdin:
        answered = answer(json.loads(line))
        if answered is not None:
            sys.stdout.buffer.write(answered + b"\n")
            sys.stdout.buffer.flush()
