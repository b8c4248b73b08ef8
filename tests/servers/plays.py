"""The acts of a server with one request: it answers, or fails in a way that is seen in the field.

A play is a value with a method ``play``; it is handed the `Exchange` and writes to the connection as it likes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tests.servers import responses

if TYPE_CHECKING:
    from tests.servers.server import Exchange


class Play(Protocol):
    def play(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True)
class Say:
    """A reply, in the wire form of the request.

    Attributes:
        text: The final answer; in the text protocol it is wrapped into ``final_answer`` unless `raw`.
        calls: Names and inputs; an input that is a str is sent as it is, broken JSON included.
        ids: Ids of the calls: ``"good"``, ``"same"``, ``"empty"`` or ``"none"``.
        raw: Whether the text is sent as it is.
        extra: Further fields of the message.
        signature: What the first call is signed with, as Gemini does it.
        cut: Send so many chunks (streamed) or half of the body, then break the connection off.
        stall: Fall silent after the first chunk, until the client goes away.
        usage: Tokens: prompt, cached, completion; None leaves them out.
    """

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    thought: str = ""
    ids: str = "good"
    raw: bool = False
    finish: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    signature: str = ""
    cut: int | None = None
    stall: bool = False
    usage: tuple[int, int, int] | None = (100, 60, 10)

    def message(self, *, native: bool) -> dict[str, Any]:
        if self.raw:
            return {"content": self.text, **self.extra}
        if native:
            calls = [
                self._id(n)
                | {"type": "function", "function": {"name": name, "arguments": _json(given)}}
                for n, (name, given) in enumerate(self.calls)
            ]
            if self.signature:
                calls[0]["extra_content"] = {"google": {"thought_signature": self.signature}}
            message: dict[str, Any] = {"content": self.text or self.thought or None}
            return message | ({"tool_calls": calls} if calls else {}) | self.extra
        acts = [*self.calls, *([("final_answer", self.text)] if self.text else [])]
        texts = [
            f'{{"thought": {json.dumps(self.thought)}, "tool": {json.dumps(name)}, "tool_input": '
            f"{given if isinstance(given, str) and name != 'final_answer' else json.dumps(given)}}}"
            for name, given in acts
        ]
        return {"content": "\n".join(texts), **self.extra}

    def _id(self, n: int) -> dict[str, Any]:
        ids = {"good": f"call_{n}", "same": "call_x", "empty": ""}
        return {} if self.ids == "none" else {"id": ids[self.ids]}

    def play(self, exchange: Exchange) -> None:
        message = self.message(native=exchange.native)
        finish = self.finish or ("tool_calls" if message.get("tool_calls") else "stop")
        if exchange.responses is not None:
            items = exchange.responses.items(message)
            response = responses.response(exchange.body["model"], items, finish, self.usage)
            if exchange.body.get("stream"):
                self._send_events(exchange, list(responses.events(response)))
            else:
                self._send_whole(exchange, response)
            return
        usage = self.usage and {
            "prompt_tokens": self.usage[0],
            "prompt_tokens_details": {"cached_tokens": self.usage[1]},
            "completion_tokens": self.usage[2],
        }
        if exchange.body.get("stream"):
            self._stream(exchange, message, finish, usage)
            return
        head = {"id": "c", "object": "chat.completion", "model": exchange.body["model"]}
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        self._send_whole(
            exchange, {**head, "choices": [choice], **({"usage": usage} if usage else {})}
        )

    def _send_whole(self, exchange: Exchange, body: dict[str, Any]) -> None:
        whole = json.dumps(body).encode()
        if self.cut is None and not self.stall:
            exchange.send(200, whole)
            return
        exchange.head(200, {"Content-Type": "application/json", "Content-Length": str(len(whole))})
        exchange.write(whole[: len(whole) // 2])
        if self.stall:
            exchange.wait_for_the_client_to_leave()
        exchange.break_off()

    def _send_events(self, exchange: Exchange, events: list[dict[str, Any]]) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for number, event in enumerate(events):
            if number == self.cut:
                exchange.break_off()
                return
            data = json.dumps({**event, "sequence_number": number})
            exchange.chunk(f"event: {event['type']}\ndata: {data}\n\n".encode())
            if self.stall:
                exchange.wait_for_the_client_to_leave()
                return
        exchange.chunk(b"")

    def _stream(self, exchange: Exchange, message: dict[str, Any], finish: str, usage: Any) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        events = [*_deltas(message), None]
        for n, delta in enumerate(events):
            if n == self.cut:
                exchange.break_off()
                return
            choice = {"index": 0, "delta": delta or {}, "finish_reason": None if delta else finish}
            exchange.event({"model": exchange.body["model"], "choices": [choice]})
            if self.stall:
                exchange.wait_for_the_client_to_leave()
                return
        if usage and exchange.body.get("stream_options"):
            exchange.event({"model": exchange.body["model"], "choices": [], "usage": usage})
        exchange.event("[DONE]")
        exchange.chunk(b"")


def _json(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _deltas(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message in small pieces, as servers stream it."""
    pieces: list[dict[str, Any]] = [{"role": "assistant"}]
    for key, value in message.items():
        if key == "tool_calls":
            for n, call in enumerate(value):
                arguments = call["function"]["arguments"]
                pieces.append(
                    {
                        "tool_calls": [
                            {**call, "index": n, "function": {**call["function"], "arguments": ""}}
                        ]
                    }
                )
                pieces += [
                    {
                        "tool_calls": [
                            {"index": n, "function": {"arguments": arguments[at : at + 4]}}
                        ]
                    }
                    for at in range(0, len(arguments), 4)
                ]
        elif isinstance(value, str):
            pieces += [{key: value[at : at + 5]} for at in range(0, len(value), 5)]
    return pieces


@dataclass(frozen=True)
class Status:
    """An error with a status, in OpenAI's form."""

    status: int
    said: str = "something went wrong"
    headers: dict[str, str] = field(default_factory=dict)
    code: str | None = None

    def play(self, exchange: Exchange) -> None:
        error = {"message": self.said, "type": "error", "param": None, "code": self.code}
        exchange.send(self.status, json.dumps({"error": error}).encode(), self.headers)


@dataclass(frozen=True)
class Raw:
    """Any body with any status."""

    body: str
    status: int = 200
    kind: str = "text/html"

    def play(self, exchange: Exchange) -> None:
        exchange.send(self.status, self.body.encode(), {"Content-Type": self.kind})


HTML = Raw(
    "<!doctype html><html><head><title>It works!</title></head><body>"
    + "<p>hi</p>" * 500
    + "</body></html>"
)


@dataclass(frozen=True)
class Drop:
    """Break the connection off before the first byte."""

    def play(self, exchange: Exchange) -> None:
        exchange.break_off()


@dataclass(frozen=True)
class Hang:
    """Say nothing until the client goes away."""

    def play(self, exchange: Exchange) -> None:
        exchange.wait_for_the_client_to_leave()
        exchange.break_off()


@dataclass(frozen=True)
class Events:
    """Send these lines as a stream, whatever they are."""

    lines: tuple[str, ...]

    def play(self, exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for line in self.lines:
            exchange.chunk(f"{line}\n\n".encode())
        exchange.chunk(b"")


@dataclass(frozen=True)
class Ping:
    """Keep the connection alive with comments, and never answer."""

    def play(self, exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for _ in range(
            200
        ):  # ten seconds: a client that waits for ever must fail its test, not hang it
            if exchange.client_left(within=0.05):
                return
            exchange.chunk(b": still here\n\n")
        exchange.break_off()


@dataclass(frozen=True)
class Drip:
    """Send a word now and then, so that no timeout between bytes ever fires, and never come to an end.

    Attributes:
        pause: Seconds between two words.
        then_stall: Fall silent after so many words.
    """

    pause: float = 0.05
    then_stall: int = 200

    def play(self, exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for _ in range(self.then_stall):
            if exchange.client_left(within=self.pause):
                return
            event: dict[str, Any] = {
                "choices": [{"index": 0, "delta": {"content": "well "}, "finish_reason": None}]
            }
            if exchange.responses is not None:
                event = {"type": "response.output_text.delta", "output_index": 0, "delta": "well "}
            exchange.event(event)
        exchange.wait_for_the_client_to_leave()
        exchange.break_off()
