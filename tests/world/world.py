"""A false chat-completions endpoint with quirks that can be combined, over real HTTP on 127.0.0.1.

`World` is one server for many endpoints: each has a model name of its own, so that nothing that is
learnt of one is used for another, and connections are used again. An `Endpoint` has a model (a
function from a request to a message) and quirks. A request passes the quirks in this order:

    refuse   an answer in place of a reply, such as a refusal; the first one counts
    message  changes the model's message
    chunks   changes the pieces of a streamed message
    usage    changes the usage
    answer   changes the status, the headers and the bytes of whatever is sent
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from archytas_nb.models.endpoint import OpenAIModel, close_clients
from tests.servers import responses

Body = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """An answer to a request: a status, headers and bytes."""

    status: int
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, status: int, value: Any, **headers: str) -> Answer:
        """An answer in JSON."""
        return cls(
            status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers}
        )


class Quirk:
    """A way in which an endpoint differs from a good one; a subclass overrides what it changes."""

    def refuse(self, body: Body) -> Answer | None:
        """An answer in place of a reply; None to go on."""
        return None

    def message(self, message: Message, body: Body) -> Message:
        """The model's message, changed."""
        return message

    def chunks(self, chunks: list[Body], body: Body) -> list[Body]:
        """The chunks of a streamed message, changed."""
        return chunks

    def usage(self, usage: Body | None, body: Body) -> Body | None:
        """The usage, changed; None for none."""
        return usage

    def answer(self, answer: Answer, body: Body) -> Answer:
        """The answer, changed."""
        return answer


@dataclass
class Endpoint:
    """One endpoint of a world.

    Attributes:
        name: The name of its model.
        api: The API that it has; requests to another one are answered with 404. Those to the
            Responses API pass the quirks with the fields of chat completions.
        sent: The bodies of the requests that came, in order.
        statuses: The status that each of them was answered with.
    """

    url: str
    name: str
    model: Callable[[Body], Message]
    quirks: tuple[Quirk, ...] = ()
    api: str = "chat/completions"
    sent: list[Body] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def client(self, **settings: Any) -> OpenAIModel:
        """A model that asks this endpoint."""
        return OpenAIModel(self.name, self.url, **settings)

    @property
    def refused(self) -> int:
        """How many requests were not answered with 200."""
        return sum(status != 200 for status in self.statuses)

    def play(self, body: Body, path: str) -> Answer:
        """The answer to a request."""
        if not path.endswith(self.api):
            self.statuses.append(404)
            return Answer.of_json(404, {"detail": "Not Found"})
        if self.api == "responses":
            body = responses.chat_form(body)
        self.sent.append(body)
        answer = self._answer(body)
        for quirk in self.quirks:
            answer = quirk.answer(answer, body)
        self.statuses.append(answer.status)
        return answer

    def _answer(self, body: Body) -> Answer:
        for quirk in self.quirks:
            if answer := quirk.refuse(body):
                return answer
        message = self.model(body)
        usage: Body | None = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        for quirk in self.quirks:
            message = quirk.message(message, body)
            usage = quirk.usage(usage, body)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if self.api == "responses":
            items = responses.Responses().items(message)
            whole = responses.response(self.name, items, finish, (100, 0, 10))
            if not body.get("stream"):
                return Answer.of_json(200, whole)
            text = "".join(f"data: {json.dumps(each)}\n\n" for each in responses.events(whole))
            return Answer(200, text.encode(), {"Content-Type": "text/event-stream"})
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            more = {"usage": usage} if usage else {}
            return Answer.of_json(200, {**self._head(""), "choices": [choice], **more})
        chunks = [self._chunk(delta) for delta in pieces(message)] + [self._chunk({}, finish)]
        if usage and body.get("stream_options"):
            chunks.append({**self._head(".chunk"), "choices": [], "usage": usage})
        for quirk in self.quirks:
            chunks = quirk.chunks(chunks, body)
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return Answer(200, text.encode(), {"Content-Type": "text/event-stream"})

    def _head(self, kind: str) -> Body:
        return {"id": "x", "object": f"chat.completion{kind}", "model": self.name}

    def _chunk(self, delta: Body, finish: str | None = None) -> Body:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head(".chunk"), "choices": [choice]}


def pieces(message: Message) -> Iterable[Body]:
    """A message in small pieces, as a good endpoint streams it."""
    yield {"role": "assistant"}
    for key, value in message.items():
        if key == "tool_calls":
            for index, call in enumerate(value):
                function = call["function"]
                begun = {**call, "index": index, "function": {**function, "arguments": ""}}
                yield {"tool_calls": [begun]}
                text = function["arguments"]
                for at in range(0, len(text), 7):
                    piece = {"index": index, "function": {"arguments": text[at : at + 7]}}
                    yield {"tool_calls": [piece]}
        elif isinstance(value, str) and key != "role":
            for at in range(0, len(value), 9):
                yield {key: value[at : at + 9]}


class World:
    """A server with endpoints; a context manager."""

    def __init__(self) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._count = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        close_clients(self.url)
        self._server.shutdown()
        self._server.server_close()

    def endpoint(
        self, model: Callable[[Body], Message], *quirks: Quirk, api: str = "chat/completions"
    ) -> Endpoint:
        """A new endpoint, of which nothing is known."""
        self._count += 1
        made = Endpoint(self.url, f"model-{self._count}", model, quirks, api)
        self.endpoints[made.name] = made
        return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, world: World) -> None:
        self.world = world
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        """The list of models."""
        names = [{"id": name, "object": "model"} for name in self.server.world.endpoints]
        self._send(Answer.of_json(200, {"object": "list", "data": names}))

    def do_POST(self) -> None:
        """A request for a completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint = self.server.world.endpoints.get(body["model"])
        if endpoint is None:
            error = {"message": f"model {body['model']!r} not found", "code": "model_not_found"}
            self._send(Answer.of_json(404, {"error": error}))
            return
        self._send(endpoint.play(body, self.path))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.data)))
        self.end_headers()
        self.wfile.write(answer.data)
        self.wfile.flush()


# ── models ────────────────────────────────────────────────────────────────────────────────────────


def call(name: str, arguments: Any, call_id: str = "c1") -> Body:
    """A call of a tool, as it is sent."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def calls_then_answers(
    name: str, arguments: dict[str, Any], answer: str
) -> Callable[[Body], Message]:
    """A model that calls one tool once and answers, with function calling or the text protocol.

    As a model does, it reads the names of the tool and its parameters from the request: where no
    tool has this name, it calls the first one, and the arguments are given in their order.
    """

    def model(body: Body) -> Message:
        messages = body["messages"]
        if not body.get("tools"):
            said = [json.dumps(each) for each in messages if each["role"] == "assistant"]
            tool = "final_answer"
            given: Any = answer
            if not any(json.dumps(name)[1:-1] in each or name in each for each in said):
                tool, given = name, arguments
            text = json.dumps(
                {"thought": "t", "tool": tool, "tool_input": given}, ensure_ascii=False
            )
            return {"role": "assistant", "content": text}
        if any(each["role"] == "tool" for each in messages):
            return {"role": "assistant", "content": answer}
        offered = [each["function"] for each in body["tools"]]
        chosen = next((each for each in offered if each["name"] == name), offered[0])
        names = list((chosen.get("parameters") or {}).get("properties", {}))
        given = dict(zip(names, arguments.values(), strict=False)) if names else arguments
        return {"role": "assistant", "content": None, "tool_calls": [call(chosen["name"], given)]}

    return model
