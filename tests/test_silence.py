"""Every run has an answer or reports why it has none, whatever the server does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError, RunError
from archytas_nb.models import endpoint, remote
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.run import Run
from archytas_nb.trace.fold import fold
from archytas_nb.trace.text import plain
from tests.sampling import alternating
from tests.servers.anthropic import AnthropicServer
from tests.servers.faults import faults, patience
from tests.servers.plays import Say
from tests.servers.server import Server
from tests.strict import fault_of

PLAYS = faults("Bad luck")
ANSWERS = {"null", "braces"}
"""These texts may be the answer itself, where the model insists on them."""


def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One
        b: Another
    """
    return a + b


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.001)
    capabilities_of.cache_clear()
    yield
    capabilities_of.cache_clear()


APIS = ["openai", *(["anthropic"] if find_spec("anthropic") else [])]
WAYS = list(
    itertools.product(("react", "native"), ("streamed", "whole"), ("at once", "after a call"))
)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("play", "way"), alternating(PLAYS, WAYS))
def test_a_permanent_fault_is_reported(play: str, way: tuple[Any, str, str], api: str) -> None:
    protocol, form, when = way
    stream = form == "streamed"
    first = [Say(calls=(("add", {"a": 1, "b": 2}),))] if when == "after a call" else []
    servers = AnthropicServer if api == "anthropic" else Server
    with servers(*first, then=PLAYS[play]) as server:
        models = nb.AnthropicModel if api == "anthropic" else nb.OpenAIModel
        model = models("tiny-1", server.url, "key", patience(play), 1, stream=stream)
        agent = nb.Agent([add], model, protocol, namespace={})
        try:
            run = agent.run("Well?")
        except RunError as error:
            run, said = error.run or Run(""), str(error)
            usual = "endpoint failed" if isinstance(error, ModelError) else "model gave up"
            explained = getattr(run.ending, "explained", None)
            title = usual if explained is None else explained.title
        else:
            title = said = run.reason if run.incomplete else run.answer
        assert len(said.strip()) > 8 or play in ANSWERS
        assert (run.status == "answered") is (bool(run.answer.strip()) and not run.incomplete)
        trace = plain(fold("Well?", run.events)).removeprefix("Well?")
        assert " ".join(title.split())[:30] in " ".join(trace.split()), "the trace says it, too"
        server.plays[:], server.then, model.timeout = [], Say("All is well."), patience("an answer")
        assert agent.run("And now?").answer == "All is well."
        assert fault_of(agent.messages) == ""
        assert server.complaints == []
        endpoint.close_clients(server.url)
