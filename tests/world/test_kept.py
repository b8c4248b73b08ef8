"""Fields that are not ours go back to the model that sent them, and to no other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import recorded
from archytas_nb.models.endpoint import OpenAIModel
from tests.servers.plays import Say
from tests.servers.server import Server

DETAILS = [{"type": "reasoning.encrypted", "data": "AbC", "format": "v1", "index": 0}]
CALL = Say(
    calls=(("add", {"a": 1, "b": 2}),), extra={"reasoning_details": DETAILS}, signature="Sig"
)
END = Say("3", extra={"reasoning_details": DETAILS, "annotations": []})


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def returned(server: Server) -> list[Any]:
    """The parts of each reply in the last request."""
    said = [m for m in server.chats[-1].body["messages"] if m["role"] == "assistant"]
    calls = [call.get("extra_content") for m in said for call in m.get("tool_calls", ())]
    return [*(each.get("reasoning_details") for each in said), *calls]


def model_of(server: Server) -> OpenAIModel:
    return OpenAIModel("tiny-1", base_url=server.url, api_key="none", stream=False)


def agent(model: Any) -> Agent:
    return Agent([add], model, namespace={})


KEPT = [DETAILS, DETAILS, {"google": {"thought_signature": "Sig"}}]


def test_they_go_back_with_the_next_question_also_from_a_file(tmp_path: Path) -> None:
    with Server(CALL, END, then=Say("4"), strict=False) as server:
        talk = agent(model_of(server))
        talk.run("What is 1 + 2?")
        talk.save(tmp_path / "talk.json")
        talk.run("And 2 + 2?")
        assert returned(server) == KEPT
        loaded = agent(model_of(server))
        loaded.load(tmp_path / "talk.json")
        loaded.run("And 2 + 2?")
        assert returned(server) == KEPT


def test_another_model_does_not_get_them() -> None:
    with Server(CALL, END, strict=False) as server, Server(then=Say("4")) as other:
        talk = agent(model_of(server))
        talk.run("What is 1 + 2?")
        talk.model = model_of(other)
        talk.run("And 2 + 2?")
        assert returned(other) == [None, None, None]


def test_a_cassette_replays_them_to_the_live_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    with Server(CALL, END, then=Say("4"), strict=False) as server:
        for questions in (["What is 1 + 2?"], ["What is 1 + 2?", "And 2 + 2?"]):
            talk = agent(recorded(model_of(server), cassette=Cassette(path)))
            for question in questions:
                talk.run(question)
        assert len(server.chats) == 3
        assert returned(server) == KEPT
