"""A conversation in a file: saved, loaded in another agent and another kernel, and files that lie."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.choices import ActiveProtocol
from archytas_nb.errors import ConfigurationError, FileError, TaskFailed
from archytas_nb.loop.events import ANSWER, FAIL
from archytas_nb.memory import VERSION
from archytas_nb.testing import ScriptedModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def weigh(species: str) -> list[int]:
    """List the masses of a species.

    Args:
        species: The species
    """
    if species == "Dodo":
        raise ValueError("extinct")
    return list(range(4000))


def conversation(protocol: ActiveProtocol = "react", **more: Any) -> Agent:
    """An agent that called tools, failed, was corrected, gave up and answered."""
    model = ScriptedModel(
        ("I look.", "weigh", {"species": "Gentoo"}), ("weigh", {"species": "Dodo"}), (ANSWER, "4,000."),
        (FAIL, "I cannot."), (ANSWER, [1, 2]), protocol=protocol,
    )  # fmt: skip
    agent = Agent([weigh], model, namespace={}, context="mentioned", **more)
    agent.run("How many?", images=[PNG], origin="a#1")
    with pytest.raises(TaskFailed):
        agent.run("And the Dodo?")
    agent.run("Which?", output_type=list[int])
    return agent


def next_request(agent: Agent) -> Any:
    model = ScriptedModel((ANSWER, "yes"), protocol=agent.model.protocol)
    agent.model = model
    agent.run("And now?")
    return model.asked[0].messages


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_the_next_request_is_the_same_after_loading(
    tmp_path: Path, protocol: ActiveProtocol
) -> None:
    agent = conversation(protocol)
    agent.save(tmp_path / "talk.json")
    stored = [o.stored for each in agent.exchanges for s in each.steps for o in s.outcomes]
    [name] = [each for each in stored if each]
    other = Agent([weigh], ScriptedModel(protocol=protocol), namespace={name: []}, context="mentioned")  # fmt: skip
    other.load(tmp_path / "talk.json")
    assert [each.question for each in other.exchanges] == ["How many?", "And the Dodo?", "Which?"]
    assert next_request(other) == next_request(agent)


def test_a_result_that_was_kept_is_said_to_be_gone(tmp_path: Path) -> None:
    conversation().save(tmp_path / "talk.json")
    agent = Agent([weigh], ScriptedModel(), namespace={})
    agent.load(tmp_path / "talk.json")
    sent = "\n".join(str(each["content"]) for each in next_request(agent))
    assert sent.count("is no longer there.)") == 1


def test_secrets_are_masked_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "canary-of-the-environment-1")
    model = ScriptedModel((ANSWER, "sk-canary12345678901234567890"))
    agent = Agent([], model)
    agent.run("Is it canary-of-the-environment-1?")
    agent.save(tmp_path / "talk.json")
    text = (tmp_path / "talk.json").read_text(encoding="utf-8")
    assert "canary" not in text
    assert "{SERVICE_TOKEN}" in text


@pytest.mark.parametrize("number", [100, pytest.param(None, marks=pytest.mark.slow)])
def test_a_file_that_is_cut_anywhere_is_an_error(tmp_path: Path, number: int | None) -> None:
    """At every byte, or at so many places."""
    agent = conversation()
    path = tmp_path / "talk.json"
    agent.save(path)
    whole = path.read_bytes()
    loaded = Agent([], ScriptedModel())
    loaded.exchanges[:] = agent.exchanges
    for end in range(0, len(whole), len(whole) // (number or len(whole))):
        path.write_bytes(whole[:end])
        with pytest.raises(ConfigurationError):
            loaded.load(path)
    assert loaded.exchanges == agent.exchanges


def changed(whole: Any, place: list[Any], value: Any) -> bytes:
    copy = json.loads(json.dumps(whole))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(copy).encode()


STEP = ["questions", 0, "steps", 0]
HOSTILE: list[tuple[list[Any], Any]] = [
    (["version"], VERSION + 1), (["version"], "1"), (["version"], True), (["version"], 0), (["more"], 1),
    (["questions"], {}), (["questions", 0], []), (["questions", 0, "question"], 5),
    (["questions", 0, "question"], {"__reduce__": "x"}), (["questions", 0, "images"], ["/etc/passwd"]),
    (["questions", 0, "images"], ["AAAA"]), (["questions", 0, "ending", "kind"], "exec"),
    (["questions", 0, "compaction", "dropped"], 9), (["questions", 0, "compaction", "dropped"], -1),
    (["questions", 0, "compaction", "truncated"], {"a": -5}), (["questions", 2, "form"], {"text": 5}),
    ([*STEP, "calls", 0, "id"], "../x"), ([*STEP, "calls", 0, "status"], "stolen"),
    ([*STEP, "calls", 0, "text"], None), ([*STEP, "calls", 0, "input"], float("nan")),
    ([*STEP, "calls", 0, "id"], "q01s02c01"), ([*STEP, "program"], 1), ([*STEP, "calls"], None),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), HOSTILE)
def test_a_file_that_holds_something_else_is_an_error(
    tmp_path: Path, place: list[Any], value: Any
) -> None:
    path = tmp_path / "talk.json"
    conversation().save(path)
    path.write_bytes(changed(json.loads(path.read_bytes()), place, value))
    agent = Agent([], ScriptedModel())
    with pytest.raises(ConfigurationError):
        agent.load(path)
    assert agent.exchanges == []


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"5", b"\x80\x04K\x01.", b"[" * 100_000, b'{"version":1,"questions":[]',
        b'{"version": 99, "more": {}}', b'\xff\xfe{"version":1}', b'{"version":1,"questions":["\\ud800"]}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_conversation_is_an_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(text)
    with pytest.raises(ConfigurationError):
        Agent([], ScriptedModel()).load(path)


def test_what_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    agent = conversation()
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConfigurationError):
            agent.load(path)
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file" / "talk.json", tmp_path / "file", tmp_path):
        with pytest.raises(FileError):
            agent.save(path)
    assert (tmp_path / "file").read_text() == "mine"
    path = tmp_path / "circle"
    path.symlink_to(path)
    with pytest.raises(ConfigurationError):
        agent.load(path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ConfigurationError):
        agent.load(fifo)


def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number
    """
    return 2 * number


def test_the_calls_of_another_protocol_are_sent_as_a_program() -> None:
    native = ScriptedModel(("double", {"number": 21}), "It is 42.", protocol="native")
    programs = ScriptedModel("```python\nanswer('42')\n```", protocol="program")
    agent = Agent([double], native, "native", namespace={})
    agent.run("What is 21 doubled?")
    agent.protocol = "program"
    agent.run("Sure?", model=programs)
    sent = programs.asked[-1].messages
    assert sent[2]["content"] == "```python\ndouble(number=21)\n```"
    assert sent[3]["content"] == "42"


def test_every_call_of_a_conversation_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Also those of the last turn, and of questions of which the model reads only some."""
    program = "```python\nx = double(number={})\nshow(x)\n```"
    model = ScriptedModel(program.format(1), program.format(2), protocol="program")
    agent = Agent([double], model, "program", values="none", namespace={}, max_steps=1)
    agent.run("What is it?")
    native = ScriptedModel(("double", {"number": 3}), "It is {double_1}.", protocol="native")
    agent.protocol = "native"
    assert agent.run("And 3?", model=native, max_steps=5).answer == "It is 6."
    calls = [call.id for each in agent.exchanges for step in each.steps for call in step.calls]
    assert len(calls) == len(set(calls)) == 3
    agent.save(tmp_path / "conversation.json")
    agent.load(tmp_path / "conversation.json")
    after = ScriptedModel("```python\nanswer('Done.')\n```", protocol="program")
    agent.protocol = "program"
    agent.run("And now?", model=after)
    assert all(each["content"] for each in after.asked[-1].messages)
