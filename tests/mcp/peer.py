"""A hostile peer, made from the protocols: ``python -m tests.mcp.peer attack|serve|stdio …``.

What it does is drawn at random: messages in any order, of any size, in any state, by halves, in floods, or none at all.
The same seed draws the same.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
METHODS = ["initialize", "notifications/initialized", "tools/list", "tools/call", "ping", "resources/list", "resources/read",
           "resources/templates/list", "server/discover", "notifications/cancelled", "logging/setLevel", "no/such", ""]  # fmt: skip
VERSIONS = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    "1999-01-01",
    "\x00",
]
TOOLS = ["count", "notebook_tools", "notebook_call", "no_such", "", "x" * 10_000]
RAW = [
    b"NaN",
    b"1e999",
    b"\xff\xfe",
    b'"\\ud83d"',
    b"[" * 5_000 + b"]" * 5_000,
    b"{",
    b"",
    b"\x00" * 50,
    b"null",
    b"[1]",
    b"9" * 6_000,
]


class Draw:
    """Draws values and messages."""

    spoils = 0.15
    """How many texts are spoilt."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int = 3) -> Any:
        pick = self.random.choice
        if depth and self.random.random() < 0.3:
            many = range(self.random.choice([0, 1, 3, 50]))
            if self.random.random() < 0.5:
                return [self.value(depth - 1) for _ in many]
            return {f"k{number}": self.value(depth - 1) for number in many}
        return pick(
            [None, True, 0, -1, 1.5, 10**30, "", "text", "\x1b[2J", "\u202e", "x" * 5_000, [], {}]
        )

    def message(self) -> bytes:
        """A message of a program, of which any part may be something else."""
        pick = self.random.choice
        method = pick(METHODS)
        params: Any = {}
        if method == "initialize":
            params = {
                "protocolVersion": pick(VERSIONS),
                "capabilities": {},
                "clientInfo": {"name": "peer", "version": "1"},
            }
        elif method == "tools/call":
            arguments: Any = {"word": "abc", "times": pick([1, self.value()])}
            if self.random.random() < 0.3:
                arguments = {"name": pick(TOOLS), "arguments": arguments}
            params = {"name": pick(TOOLS), "arguments": arguments}
        elif method == "resources/read":
            params = {
                "uri": pick(
                    ["notebook://variables", "notebook://variable/numbers", "x:", self.value()]
                )
            }
        elif method == "notifications/cancelled":
            params = {"requestId": pick([1, 2, self.value()])}
        made: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications") or self.random.random() < 0.1:
            made["id"] = pick([1, 2, "a", self.random.randrange(10**6)])
        for key in list(made):
            if self.random.random() < 0.03:
                made[key] = self.value()
            if self.random.random() < 0.02:
                del made[key]
        return self.spoilt(json.dumps(made).encode())

    def spoilt(self, text: bytes) -> bytes:
        """A text, or what is left of it."""
        if self.random.random() < self.spoils:
            at = self.random.randrange(len(text) + 1)
            return text[:at] + self.random.choice(RAW) + text[at + self.random.choice([0, 1, 5]) :]
        return text


# ── against what listens ──────────────────────────────────────────────────────────────────────────


class Attacker(Draw):
    """Does one thing after the other to the ports of a kernel."""

    def __init__(self, seed: int, port: int, token: str, chat: int, chat_token: str) -> None:
        super().__init__(seed)
        self.port = port
        self.token = token
        self.chat = chat
        self.chat_token = chat_token
        self.done: Counter[str] = Counter()
        self.sessions: list[str] = []
        self.held: list[socket.socket] = []

    def run(self, end: float) -> None:
        moves: list[Callable[[], None]] = [
            self.silence, self.noise, self.half_a_request, self.without_the_token, self.half_a_body, self.request,
            self.request, self.request, self.request, self.gone_at_once, self.pipeline, self.stream, self.large, self.flood,
            self.chat_noise, self.chat_half, self.chat_question, self.chat_question, self.chat_flood, self.unread,
        ]  # fmt: skip
        while time.monotonic() < end:
            move = self.random.choice(moves)
            with suppress(OSError):
                move()
            self.done[move.__name__] += 1
            while len(self.held) > 150:
                self.let_go(self.held.pop(0))
        for each in self.held:
            each.close()

    def let_go(self, connection: socket.socket) -> None:
        if self.random.random() < 0.5:  # as if the process was killed
            with suppress(OSError):  # it is closed already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    @contextmanager
    def connected(self, port: int) -> Iterator[socket.socket]:
        connection = socket.create_connection((HOST, port), timeout=2)
        try:
            yield connection
        finally:
            if self.random.random() < 0.2:
                self.held.append(connection)
            else:
                self.let_go(connection)

    def head(self, method: str = "POST", length: int | None = None, *, known: bool = True) -> bytes:
        token = self.token if known else self.random.choice(["", "wrong", "x" * 3_000])
        lines = [
            f"{method} /mcp HTTP/1.1",
            f"Host: {HOST}:{self.port}",
            f"Authorization: Bearer {token}",
        ]
        lines += ["Accept: application/json, text/event-stream", "Content-Type: application/json"]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        if self.sessions and self.random.random() < 0.8:
            lines.append(f"Mcp-Session-Id: {self.random.choice(self.sessions)}")
        if self.random.random() < 0.5:
            version = self.random.choice(VERSIONS[:-1])
            lines += [f"Mcp-Protocol-Version: {version}", "Mcp-Method: tools/call"]
        if self.random.random() < 0.05:
            lines.append(
                self.random.choice(
                    [
                        "Origin: http://example.org",
                        "X: \x01",
                        "Expect: 100-continue",
                        "Upgrade: websocket",
                    ]
                )
            )
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def read(self, connection: socket.socket) -> None:
        with suppress(TimeoutError):
            connection.settimeout(self.random.choice([0.05, 0.5]))
            answer = connection.recv(1 << 16)
            for line in answer.split(b"\r\n"):
                if line.lower().startswith(b"mcp-session-id:"):
                    self.sessions = [*self.sessions[-20:], line.partition(b":")[2].strip().decode()]

    def silence(self) -> None:
        with self.connected(self.random.choice([self.port, self.chat])) as connection:
            self.held.append(connection.dup())

    def noise(self) -> None:
        with self.connected(self.port) as connection:
            connection.sendall(self.random.randbytes(self.random.choice([1, 100, 100_000])))

    def half_a_request(self) -> None:
        head = self.head(length=10)
        with self.connected(self.port) as connection:
            connection.sendall(head[: self.random.randrange(len(head))])
            self.held.append(connection.dup())

    def without_the_token(self) -> None:
        with self.connected(self.port) as connection:
            connection.sendall(self.head(length=10**9, known=False) + b"x" * 100_000)
            self.read(connection)

    def half_a_body(self) -> None:
        with self.connected(self.port) as connection:
            connection.sendall(self.head(length=1_000) + self.message()[:500])
            self.held.append(connection.dup())

    def request(self) -> None:
        body = self.message()
        with self.connected(self.port) as connection:
            for _ in range(self.random.choice([1, 1, 5])):
                connection.sendall(self.head(length=len(body)) + body)
                self.read(connection)

    def gone_at_once(self) -> None:
        body = self.message()
        with self.connected(self.port) as connection:
            connection.sendall(self.head(length=len(body)) + body)
            self.let_go(connection)

    def pipeline(self) -> None:
        with self.connected(self.port) as connection:
            for _ in range(self.random.choice([5, 50])):
                body = self.message()
                connection.sendall(self.head(length=len(body)) + body)
            self.read(connection)

    def stream(self) -> None:
        with self.connected(self.port) as connection:
            connection.sendall(self.head(self.random.choice(["GET", "DELETE", "PUT", "OPTIONS"])))
            self.read(connection)
            self.held.append(connection.dup())

    def large(self) -> None:
        body = (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": "'
            + b"x" * self.random.choice([3_000_000, 6_000_000])
        )
        with self.connected(self.port) as connection:
            connection.sendall(self.head(length=len(body)) + body)
            self.read(connection)

    def flood(self) -> None:
        port = self.random.choice([self.port, self.chat])
        flood = []
        with suppress(OSError):
            while len(flood) < 300:
                flood += [socket.create_connection((HOST, port), timeout=0.05)]
        time.sleep(self.random.choice([0, 0.5]))
        for each in flood:
            self.let_go(each)

    def unread(self) -> None:
        """Ask, and never read."""
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "notebook_call", "arguments": {"name": "long"}}}'
        with self.connected(self.port) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            connection.sendall((self.head(length=len(body)) + body) * 3)
            self.held.append(connection.dup())

    def chat_noise(self) -> None:
        with self.connected(self.chat) as connection:
            connection.sendall(
                self.spoilt(json.dumps({"token": "", "question": self.value()}).encode()) + b"\n"
            )
            connection.sendall(b"x" * self.random.choice([1, 200_000]))

    def chat_half(self) -> None:
        line = json.dumps({"token": self.chat_token, "question": "Half?"}).encode()
        with self.connected(self.chat) as connection:
            connection.sendall(line[: self.random.randrange(len(line))])
            self.held.append(connection.dup())

    def chat_question(self) -> None:
        question: Any = self.random.choice(
            ["Hello?", "\ud83d", self.value(), "x" * 2_000, "\x1b[2J"]
        )
        line = (
            self.spoilt(json.dumps({"token": self.chat_token, "question": question}).encode())
            + b"\n"
        )
        with self.connected(self.chat) as connection:
            connection.sendall(line)
            for _ in range(self.random.choice([0, 1, 5])):
                connection.sendall(
                    self.spoilt(
                        json.dumps(
                            {self.random.choice(["answer", "cancel", "x"]): self.value()}
                        ).encode()
                    )
                    + b"\n"
                )
            if self.random.random() < 0.7:
                self.read(connection)

    def chat_flood(self) -> None:
        with self.connected(self.chat) as connection:
            connection.sendall(
                json.dumps({"token": self.chat_token, "question": "Flood?"}).encode() + b"\n"
            )
            connection.sendall(b'{"answer": "y"}\n' * 20_000)


def attack(port: int, token: str, chat: int, chat_token: str, seconds: float, seed: int) -> None:
    end = time.monotonic() + seconds
    attackers = [Attacker(seed + number, port, token, chat, chat_token) for number in range(3)]
    threads = [threading.Thread(target=each.run, args=(end,)) for each in attackers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(json.dumps(sum((each.done for each in attackers), Counter())))


# ── a server ──────────────────────────────────────────────────────────────────────────────────────


class Server(Draw):
    """Answers a request in any way."""

    spoils = 0.06

    def answer(self, message: dict[str, Any]) -> bytes | None:
        method = message.get("method")
        if "id" not in message or self.random.random() < 0.03:
            return None
        if method == "initialize":
            result: Any = {
                "protocolVersion": self.random.choice(VERSIONS[:5]),
                "capabilities": {},
                "serverInfo": {"name": "x", "version": "1"},
            }
        elif method == "tools/list":
            result = {
                "tools": [self.tool(number) for number in range(self.random.choice([0, 3, 30]))]
            }
            if self.random.random() < 0.3:
                result["nextCursor"] = self.random.choice(["1", "2", self.value()])
        elif method == "tools/call":
            parts = [
                {"type": "text", "text": self.random.choice(["fine", "x" * 200_000, "\x1b[2J"])},
                self.value(),
                {"type": self.value()},
            ]
            result = {
                "content": self.random.sample(parts, self.random.randrange(4)),
                "structuredContent": self.value(),
            }
        else:
            error = {"code": self.random.choice([-32601, -32000, -32001, 0]), "message": "no"}
            return self.spoilt(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
            )
        if self.random.random() < 0.05:
            result = self.value()
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if self.random.random() < 0.05:
            answer["id"] = self.value()
        return self.spoilt(json.dumps(answer).encode())

    def tool(self, number: int) -> Any:
        made = {
            "name": f"t{number}",
            "description": "x",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
        }
        if self.random.random() < 0.3:
            made[self.random.choice([*made, "outputSchema", "icons", "title"])] = self.value()
        return made if self.random.random() < 0.9 else self.value()


def serve(seed: int) -> None:
    draw = Server(seed)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                body = draw.answer(message)
                kind = draw.random.choice(
                    ["application/json"] * 10 + ["text/event-stream"] * 8 + ["text/html", ""]
                )
                status = draw.random.choice([200] * 80 + [202, 401, 404, 429, 500, 503])
                wait = draw.random.choice([0] * 60 + [1, 5])
                cut = draw.random.random() < 0.05
                flood = draw.random.random() < 0.05
                length = draw.random.random() < 0.9
            time.sleep(wait)
            if message.get("id") is None:
                status, body = 202, b""
            elif body is None:
                time.sleep(5)
                self.close_connection = True
                return
            data = body or b""
            if kind == "text/event-stream":
                note = (
                    b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}\n\n'
                )
                data = note * (20_000 if flood else 1) + b"data: " + data + b"\n\n"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Mcp-Session-Id", "abc")
            if length:
                self.send_header("Content-Length", str(len(data)))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
            self.close_connection |= cut

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: Any) -> None:
            pass

    server = Quiet((HOST, 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def stdio(seed: int) -> None:
    draw = Server(seed)
    out = sys.stdout.buffer
    for line in sys.stdin:
        for _ in range(draw.random.choice([0] * 10 + [1, 1_000])):
            out.write(
                draw.random.choice(
                    [
                        b"a log\n",
                        b'{"jsonrpc": "2.0", "method": "notifications/message"}\n',
                        b"\xff\x1b[2J\n",
                        b"[1]\n",
                    ]
                )
            )
        if draw.random.random() < 0.03:
            return
        answer = draw.answer(json.loads(line))
        if answer is not None:
            out.write(answer + b"\n" * draw.random.choice([0] + [1] * 10))
        out.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        what, *given = sys.argv[1:]
        if what == "attack":
            attack(int(given[0]), given[1], int(given[2]), given[3], float(given[4]), int(given[5]))
        elif what == "serve":
            serve(int(given[0]))
        else:
            stdio(int(given[0]))
