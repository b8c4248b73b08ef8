"""A request that is sent through the client's connection is the one that the client itself would send."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archytas_nb.agent import Agent
from archytas_nb.loop.events import AskModel
from archytas_nb.models import remote
from archytas_nb.models.anthropic import AnthropicModel
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.remote import RemoteModel
from tests.models.talking import complete, told
from tests.servers.plays import Say
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")

MODELS: dict[str, tuple[type[RemoteModel], str]] = {
    "openai": (OpenAIModel, "/chat/completions"),
    "anthropic": (AnthropicModel, "/v1/messages"),
}
OF_THE_ENVIRONMENT = (
    {},
    {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"},
    {"OPENAI_CUSTOM_HEADERS": "X-Gateway: one", "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: two"},
)
REPLY = {
    "type": "message", "model": "m", "role": "assistant", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "hi"}],
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


class Came(NamedTuple):
    """A request as it came."""

    target: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def listening() -> Iterator[tuple[str, list[Came]]]:
    """An endpoint, or a proxy of one, that answers everything; its address and what came."""
    came: list[Came] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(Came(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            reply = json.dumps(REPLY).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        server.server_close()


def sent_by_both(model: RemoteModel, path: str, came: list[Came]) -> tuple[Came, Came]:
    """The request for a reply, and the same body sent by the client's own method."""
    complete(model)
    [[connection]] = remote._CLIENTS.values()
    # The hook has the body of our own request in parts; it takes any other one as well.
    connection.client.post(path, cast_to=object, body=json.loads(came[-1].body))
    ours, clients = came[-2:]
    return ours, clients


names = st.text("abcXYZ-", min_size=1, max_size=8).map(lambda name: f"X-{name}")
values = st.text("az09 =&+%/", min_size=1, max_size=8).map(str.strip).filter(bool)


@pytest.mark.parametrize("api", MODELS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(names, values, max_size=2),
    query=st.dictionaries(names, values, max_size=2),
    own=st.sampled_from([None, "Authorization", "X-Api-Key", "User-Agent"]),
    user=st.sampled_from(["", "ann:secret@"]),
    environment=st.sampled_from(OF_THE_ENVIRONMENT),
)
def test_the_headers_the_address_and_the_body_are_those_of_the_client(
    api: str,
    fields: dict[str, str],
    query: dict[str, str],
    own: str | None,
    user: str,
    environment: dict[str, str],
) -> None:
    kind, path = MODELS[api]
    headers = fields if own is None else {**fields, own: "mine"}
    with listening() as (address, came), pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        remote.close_clients()
        url = f"http://{user}{address}{'/v1' if api == 'openai' else ''}"
        model = kind("m", url, "key", stream=False, headers=headers, query=query)
        ours, clients = sent_by_both(model, path, came)
        remote.close_clients()
    # What the client says of its own retries and time limit: both are done here.
    others = {"x-stainless-retry-count", "x-stainless-timeout", "x-stainless-read-timeout"}
    assert ours.headers == {k: v for k, v in clients.headers.items() if k not in others}
    assert ours.target.replace("+", "%20") == clients.target.replace("+", "%20")
    assert json.loads(ours.body) == json.loads(clients.body)


@pytest.mark.parametrize("api", MODELS)
def test_a_request_passes_the_proxy_of_the_environment(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, path = MODELS[api]
    with listening() as (address, came):
        monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        model = kind("m", "http://elsewhere.invalid/v1", "key", stream=False)
        ours, clients = sent_by_both(model, path, came)
    assert ours.target.startswith("http://elsewhere.invalid/v1/")
    assert ours.target == clients.target


def test_no_message_is_sent_as_it_was_before() -> None:
    """Messages are encoded once: what the server gets is each of them as it is now."""

    def grow(n: int) -> str:
        """Return a long text."""
        return f"{n} " * 400

    asked: list[Any] = []

    def keep(event: Any) -> None:
        if isinstance(event, AskModel):
            asked.append(copy.deepcopy(event.messages))

    calls = [Say(calls=(("grow", {"n": n}),)) for n in range(12)]
    end = Say("done")
    with Server(*calls, end, *calls, then=end) as server:
        model = told(server)
        model.mark_discovered("llama.cpp", 4000)
        agent = Agent([grow], model, "react", max_steps=40, compaction="drop")
        for question in ("Grow.", "Once more."):
            assert agent.run(question, observers=[keep], progress=False).answer == "done"
    assert [each.body["messages"] for each in server.chats] == [list(each) for each in asked]
    # Some of what was sent has been shortened or left out later.
    assert any(later[: len(each)] != each for each, later in itertools.pairwise(asked))
