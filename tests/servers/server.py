"""An OpenAI-compatible server on 127.0.0.1 that goes wrong on demand, over real HTTP."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.servers import responses
from tests.servers.plays import Play, Raw, Say, Status
from tests.servers.responses import Responses
from tests.servers.strict import complaint

REFUSALS = {
    "tools": (400, "tiny-1 does not support tools"),
    "json_schema": (422, "Input should be 'text' or 'json_object' at response_format.type"),
    "json_object": (400, "response_format is not supported"),
    "stream_options": (400, "Unknown parameter: 'stream_options'."),
    "stream": (400, "Your organization must be verified to stream this model."),
    "max_tokens": (
        400,
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
    ),
    "stop": (400, "Unsupported parameter: 'stop' is not supported with this model."),
    "temperature": (
        400,
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default is supported.",
    ),
    "system": (400, "System role not supported"),
    "images": (
        500,
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ),
}
"""What a server may not be able to do, and in which words it says so."""

WANTS = {
    "reasoning_content": "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "extra_content": (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance."
    ),
}
"""What a server may want back of a reply with calls, and in which words it says so."""


def _lacks(field_: str, message: dict[str, Any]) -> bool:
    """Whether a message has calls and not what is wanted with them: beside the first one, or in the message."""
    calls = message.get("tool_calls")
    return bool(calls) and not (calls[0] if field_ == "extra_content" else message).get(field_)


def _without(fields: Collection[str], body: dict[str, Any]) -> dict[str, Any]:
    """A request without what this server takes and OpenAI does not."""

    def less(value: dict[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in value.items() if name not in fields}

    messages = [less(message) for message in body["messages"]]
    for message in messages:
        if message.get("tool_calls"):
            message["tool_calls"] = [less(call) for call in message["tool_calls"]]
    return {**body, "messages": messages}


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None
    raw: bytes = b""
    left: threading.Event = field(default_factory=threading.Event)
    """Set where the client closed the connection before it was answered."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, as messages of chat completions."""
        if "messages" in self.body:
            found: list[dict[str, Any]] = self.body["messages"]
            return found
        return responses.messages(self.body)


def _has_images(body: Any) -> bool:
    contents = [message.get("content") for message in body["messages"]]
    return any(
        part["type"] == "image_url"
        for parts in contents
        if isinstance(parts, list)
        for part in parts
    )


def _has_system(body: Any) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def _is_used(value: Any) -> bool:
    return value is not None and value is not False


HAS = {"images": _has_images, "system": _has_system}
"""What is found elsewhere in a request than in a field of its name."""


class Exchange:
    """One chat request and the connection that it came on."""

    def __init__(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        self._handler = handler
        self.asked = asked
        self.body = asked.body
        self.responses: Responses | None = None  # the API that was asked, if not chat completions

    @property
    def native(self) -> bool:
        """Whether the conversation is held in function calling."""
        first = self.asked.messages[0]["content"]
        return "tools" in self.body or "tool_input" not in str(first)

    def head(self, status: int, headers: dict[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.head(
            status,
            {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **(headers or {}),
            },
        )
        self.write(body)

    def chunk(self, data: bytes) -> None:
        self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, data: Any) -> None:
        self.chunk(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())

    def break_off(self) -> None:
        """Close the connection with a reset."""
        self._handler.close_connection = True
        connection = self._handler.connection
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)

    def client_left(self, within: float) -> bool:
        """Wait so many seconds for the client to close the connection."""
        connection = self._handler.connection
        readable, _, _ = select.select([connection], [], [], within)
        if readable:
            try:
                gone = connection.recv(1, socket.MSG_PEEK) == b""
            except OSError:
                gone = True
            if gone:
                self.asked.left.set()
                self._handler.close_connection = True
        return self.asked.left.is_set()

    def wait_for_the_client_to_leave(self, most: float = 20.0) -> None:
        self.client_left(most)


class _HTTP(ThreadingHTTPServer):
    """Takes every connection at once, and knows those that are open.

    With the short queue of the library, connections of many clients at a time are refused or wait
    for a second.
    """

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._open = set[socket.socket]()
        self._changed = threading.Condition()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._changed:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        super().close_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def close(self) -> None:
        """Listen no more, end the open connections, and wait until their threads have closed them."""
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, timeout=10)


class Server:
    """Plays its plays in order, one for each chat request, and then gives the same good answer for ever.

    Args:
        plays: What is done with the first requests.
        then: What is done with every further request.
        strict: Whether requests that OpenAI would refuse are refused; each refusal is kept in `complaints`.
        cannot: What it refuses, of the keys of `REFUSALS`.
        wants: What it wants back with each reply that has calls, of the keys of `WANTS`.
        models: What ``GET /models`` lists; None answers that path with 404.
        path: Where the API begins.
        apis: The APIs that it has: ``"chat"``, ``"responses"``.
        elsewhere: What any other path is answered with.
    """

    exchange: type[Exchange] = Exchange

    def __init__(
        self,
        *plays: Play,
        then: Play | None = None,
        strict: bool = True,
        cannot: Collection[str] = (),
        wants: Collection[str] = (),
        models: Collection[str] | None = ("tiny-1",),
        path: str = "/v1",
        apis: Collection[str] = ("chat",),
        elsewhere: Play | None = None,
    ) -> None:
        self.plays = list(plays)
        self.then = then or Say("All is well.")
        self.strict = strict
        self.cannot = cannot
        self.wants = wants
        self.models = models
        self.path = path
        self.apis = apis
        self.responses = Responses()
        self.elsewhere = elsewhere or Raw('{"detail": "Not Found"}', 404, "application/json")
        self.asked: list[Asked] = []
        self.complaints: list[str] = []
        self._lock = threading.Lock()
        self._http = _HTTP(self._handler())
        self.root = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.url = self.root + path
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def chats(self) -> list[Asked]:
        """The chat requests so far."""
        return [asked for asked in self.asked if asked.method == "POST"]

    def received(self, count: int) -> list[Asked]:
        """The chat requests, as soon as there are so many: a client may give up before one is read."""
        ends = time.monotonic() + 30
        while len(self.chats) < count and time.monotonic() < ends:
            time.sleep(0.005)
        return self.chats

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Go down: nothing is listened to any more, and open connections end."""
        self._http.close()

    def answer(self, exchange: Exchange) -> None:
        body = exchange.body
        if exchange.asked.path.startswith(f"{self.path}/responses") and "responses" in self.apis:
            exchange.responses = self.responses
            self._answer_response(exchange)
            return
        is_chat = exchange.asked.path.startswith(f"{self.path}/chat/completions")
        if not is_chat or "chat" not in self.apis:
            self.elsewhere.play(exchange)
            return
        if self._is_refused(exchange, body):
            return
        for field_ in self.wants:
            if any(_lacks(field_, message) for message in body["messages"]):
                Status(400, WANTS[field_]).play(exchange)
                return
        said = complaint(_without(self.wants, body)) if self.strict else ""
        self._play(exchange, said)

    def _is_refused(self, exchange: Exchange, body: dict[str, Any]) -> bool:
        format_ = body.get("response_format", {}).get("type", "")
        for feature in self.cannot:
            has = HAS.get(feature, lambda body, name=feature: _is_used(body.get(name)))
            if feature == format_ or has(body):
                Status(*REFUSALS[feature]).play(exchange)
                return True
        return False

    def _answer_response(self, exchange: Exchange) -> None:
        if not self._is_refused(exchange, responses.chat_form(exchange.body)):
            self._play(exchange, self.responses.complaint(exchange.body) if self.strict else "")

    def _play(self, exchange: Exchange, said: str) -> None:
        body = exchange.body
        if said:
            self.complaints.append(said)
            Status(400, said).play(exchange)
            return
        if self.models is not None and body["model"] not in self.models:
            said = f"The model {body['model']!r} does not exist."
            Status(404, said, code="model_not_found").play(exchange)
            return
        with self._lock:
            play = self.plays.pop(0) if self.plays else self.then
        play.play(exchange)

    def list_models(self, exchange: Exchange) -> None:
        if self.models is None or not exchange.asked.path.startswith(f"{self.path}/models"):
            self.elsewhere.play(exchange)
            return
        data = [{"id": name, "object": "model"} for name in self.models]
        exchange.send(200, json.dumps({"object": "list", "data": data}).encode())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def finish(self) -> None:
                with contextlib.suppress(OSError):
                    super().finish()

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.answer_without_body("GET")

            def answer_without_body(self, method: str) -> None:
                asked = Asked(
                    method, self.path, {name.lower(): value for name, value in self.headers.items()}
                )
                server.asked.append(asked)
                try:
                    server.list_models(server.exchange(self, asked))
                except ConnectionError:
                    asked.left.set()
                    raise

            def do_DELETE(self) -> None:
                self.answer_without_body("DELETE")

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"] or 0))
                is_file = self.headers.get_content_type() == "multipart/form-data"
                body = None if is_file or not raw else json.loads(raw)
                asked = Asked(
                    "POST",
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    body,
                    raw,
                )
                server.asked.append(asked)
                try:
                    server.answer(server.exchange(self, asked))
                except ConnectionError:
                    asked.left.set()
                    raise

        return Handler
