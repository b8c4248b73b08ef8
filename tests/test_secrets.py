"""A key is sent only to its endpoint: it is never shown, raised, logged or recorded.

The test servers echo the key in every text that a server can send.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import RunError
from archytas_nb.models import endpoint, remote
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.run import to_json
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from tests.sampling import alternating
from tests.servers.faults import JSON, faults, page, patience
from tests.servers.plays import Events, Raw, Say, Status
from tests.servers.server import Server

KEY = "sk-canary-7f3a9c51d2e8"
PASSWORD = "canary-b1946ac92492"
PAGE = page(f"Bearer {KEY}")
PLAYS: dict[str, Any] = {
    "an answer": Say("All is well."),
    "a call and an answer": Say(calls=(("add", {"a": 1, "b": 2}),), text="Three."),
    **faults(KEY),
}
del PLAYS["a refusal"]  # the model's own words


def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One
        b: Another
    """
    return a + b


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Retries without waiting, and logging of everything."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.001)
    capabilities_of.cache_clear()
    yield
    capabilities_of.cache_clear()


def seen_of(agent: nb.Agent, events: list[Any], raised: list[BaseException]) -> Iterator[Any]:
    """All output of a conversation: for the person, in logs and in files."""
    yield repr(agent)
    yield repr(agent.chosen_model())
    yield repr(agent.exchanges)
    yield repr(agent.limits)
    yield json.dumps(agent.messages)
    yield repr(events)
    yield json.dumps(to_json(events))
    for forms in bundle(fold("Well?", events)):
        yield repr(forms)
    for error in raised:
        yield from (str(error), repr(error), repr(error.args))
        run = getattr(error, "run", None)
        yield from (repr(run), str(run), repr(run and run._repr_mimebundle_()))
        yield from traceback.format_exception(error)
        yield from locals_of_ours(error)


def locals_of_ours(error: BaseException) -> Iterator[str]:
    """The local variables of our frames, which verbose tracebacks show."""
    frames = traceback.TracebackException.from_exception(error, capture_locals=True)
    for each in frames.stack:
        if "archytas_nb" in each.filename:
            yield repr(each.locals)
    for other in (error.__cause__, error.__context__):
        if other is not None:
            yield from locals_of_ours(other)


class Canaries:
    """A conversation whose complete output is kept and searched for secrets.

    Args:
        folder: Where it is recorded.
        protocol: The wire form.
        url: Where the model is told to ask.
        timeout: How many seconds it is waited for.
        options: Of the model.
    """

    def __init__(
        self, folder: Path, protocol: Any, url: str, timeout: float, **options: Any
    ) -> None:
        self.folder, self.url = folder, url
        self.events: list[Any] = []
        self.raised: list[BaseException] = []
        real = nb.OpenAIModel("tiny-1", url, KEY, timeout, **options)
        recorder = CassetteModel(Cassette(folder / "said.jsonl", "auto"), lambda: real)
        self.agent = nb.Agent([add], recorder, protocol, namespace={}, max_steps=3)

    def ask(self, question: str) -> None:
        try:
            self.agent.run(question, observers=[self.events.append])
        except RunError as error:
            self.raised.append(error)

    def found(self, *secrets: str, also: Iterable[str] = ()) -> list[str]:
        """The lines that contain a secret."""
        endpoint.close_clients(self.url)
        files = [each.read_text() for each in self.folder.rglob("*") if each.is_file()]
        seen = [*seen_of(self.agent, self.events, self.raised), *files, *also]
        return [
            line
            for text in seen
            for line in text.splitlines()
            if any(each in line for each in secrets)
        ]


WAYS = list(itertools.product(("react", "native"), ("streamed", "whole")))


@pytest.mark.parametrize(("play", "way"), alternating(PLAYS, WAYS))
def test_hides_the_key_whatever_the_server_does(
    play: str, way: tuple[str, str], tmp_path: Path, caplog: Any, capfd: Any
) -> None:
    protocol, stream = way[0], way[1] == "streamed"
    with (
        Server(then=PLAYS[play], models=None, elsewhere=Raw(PAGE, 401), strict=False) as server,
        warnings.catch_warnings(record=True) as warned,
    ):
        talk = Canaries(
            tmp_path, protocol, server.url, patience(play), stream=stream, max_retries=1
        )
        talk.ask("Well?")
        talk.ask("And now?")
        assert {asked.headers["authorization"] for asked in server.chats} == {f"Bearer {KEY}"}
        assert talk.found(KEY, also=[caplog.text, *capfd.readouterr(), *map(str, warned)]) == []


@pytest.mark.parametrize("play", ["an answer", "401", "a page", "a dropped connection", "silence"])
def test_hides_a_password_in_the_url(play: str, tmp_path: Path, caplog: Any, capfd: Any) -> None:
    with Server(then=PLAYS[play], models=None, elsewhere=Raw(PAGE, 401), strict=False) as server:
        url = server.url.replace("http://", f"http://user:{PASSWORD}@")
        talk = Canaries(tmp_path, "auto", url, patience(play), max_retries=1)
        talk.ask("Well?")
        assert (
            base64.b64decode(server.chats[0].headers["authorization"].split()[1]).decode()
            == f"user:{PASSWORD}"
        )
        assert talk.found(KEY, PASSWORD, also=[caplog.text, *capfd.readouterr()]) == []


@pytest.mark.parametrize(
    ("play", "models"),
    [
        (Status(307, headers={"Location": f"http://elsewhere/{KEY}"}), None),
        (Status(200, headers={"Content-Encoding": KEY}), None),
        (Status(404), (KEY,)),
    ],
    ids=["redirect", "encoding", "list of models"],
)
def test_hides_a_key_in_a_header_or_a_list_of_models(
    play: Any, models: Any, tmp_path: Path
) -> None:
    with Server(then=play, models=models, strict=False) as server:
        talk = Canaries(tmp_path, "native", server.url, patience("an answer"), max_retries=0)
        talk.ask("Well?")
        assert talk.raised
        assert talk.found(KEY[:10]) == []


def test_hides_a_partial_key_in_a_truncated_message(tmp_path: Path) -> None:
    for before in range(30, 330, 13):
        said = f"{'x ' * (before // 2)}{KEY} and more {'y ' * 200}"
        plays = [
            Status(400, said), Raw(page(said)), Raw(said, 500, "text/plain"),
            Raw(json.dumps({"said": said}), 200, JSON), Events((f"data: {{{said}",)),
            Raw(json.dumps({"error": {"message": said, "code": 400}}), 200, JSON),
        ]  # fmt: skip
        with Server(strict=False) as server:
            (folder := tmp_path / str(before)).mkdir()
            talk = Canaries(folder, "native", server.url, patience("an answer"), max_retries=0)
            for server.then in plays:  # also to requests with less
                talk.ask("Well?")
            assert len(talk.raised) == len(plays)
            assert talk.found(*(KEY[:n] for n in range(10, len(KEY) + 1))) == []
