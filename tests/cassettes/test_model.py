"""A model behind a cassette is the model that was recorded: its name, its wire form and its refusals."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.model import CassetteModel
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.models.prices import Price
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.steps import fold
from tests.cassettes.tapes import ask, no_model


class Learner(ScriptedModel):
    """A model that finds out by a refusal what it cannot do."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.protocol: Literal["react", "native"] = "native"
        self.context_tokens: int | None = None
        self.refused = 0

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        if ask.tools:
            self.protocol, self.refused = "react", self.refused + 1
            raise ModelError("http://secret.example refuses tools", kind="no_tools")
        return (yield from super().complete(ask))


def one() -> int:
    """Give one."""
    return 1


def test_a_refusal_that_steers_the_run_is_recorded_without_the_endpoints_words(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    live = Learner(("one", None), ("final_answer", "One."), ("final_answer", "Still one."))
    agent = nb.Agent([one], CassetteModel(Cassette(path, "record"), lambda: live), namespace={})
    recorded = [agent.run("What is it?"), agent.run("And now?")]
    assert live.refused == 1
    assert "secret.example" not in path.read_text()
    again = nb.Agent([one], CassetteModel(Cassette(path, "replay"), no_model), namespace={})
    replayed = [again.run("What is it?"), again.run("And now?")]
    assert [run.events for run in replayed] == [run.events for run in recorded]
    assert [run.protocol for run in replayed] == ["react", "react"]


def test_what_a_run_learns_of_its_model_is_known_from_there_on_in_the_replay(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"

    class Overflows(ScriptedModel):
        context_tokens: int | None = None

        def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
            self.context_tokens = 4096
            raise ModelError("too long", kind="overflow")
            yield

    def last(model: CassetteModel) -> None:
        with pytest.raises(ModelError) as caught:
            next(model.complete(ask("a")))
        assert caught.value.kind == "overflow"

    recording = CassetteModel(Cassette(path, "record"), Overflows)
    assert recording.context_tokens is None
    last(recording)
    assert recording.context_tokens == 4096
    replaying = CassetteModel(Cassette(path, "replay"), no_model)
    assert replaying.context_tokens is None
    last(replaying)
    assert replaying.context_tokens == 4096


def test_a_failure_of_the_endpoint_is_not_recorded(tmp_path: Path) -> None:
    live = ScriptedModel(ModelError("down", kind="server"), ("final_answer", "Up."))
    model = CassetteModel(Cassette(tmp_path / "x.jsonl", "auto"), lambda: live)
    agent = nb.Agent([], model)
    with pytest.raises(ModelError, match="down"):
        agent.run("Hello?")
    assert not (tmp_path / "x.jsonl").exists()
    assert agent.run("Hello?").answer == "Up."


def test_the_replay_knows_what_the_recorded_model_was_and_cost(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    said = '{"tool": "final_answer", "tool_input": "Hi"}'
    live = ScriptedModel(ModelReply(said, usage=Usage(1, 10, 5, 2), seconds=1.23456))
    live.name, live.is_small, live.price = "tiny", True, Price(1.0, 0.5, 2.0)  # type: ignore[attr-defined]
    run = nb.Agent([], CassetteModel(Cassette(path, "record"), lambda: live)).run("Hello?")
    replaying = CassetteModel(Cassette(path, "replay"), no_model)
    assert (replaying.name, replaying.protocol, replaying.is_small) == ("tiny", "react", True)
    assert replaying.price == Price(1.0, 0.5, 2.0)
    again = nb.Agent([], replaying).run("Hello?")
    assert again.usage == run.usage == Usage(1, 10, 5, 2)
    replies = [
        [event for event in each.events if isinstance(event, ModelReply)] for each in (run, again)
    ]
    assert [[reply.seconds for reply in each] for each in replies] == [[1.235], [1.235]]


def test_several_models_of_a_notebook_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for mode in ("record", "replay"):
        cassette = Cassette(path, mode)  # type: ignore[arg-type]
        names = {"default": ("react", "mine"), "gpt": ("native", "theirs")}
        for called, (protocol, name) in names.items():
            live = ScriptedModel(("final_answer", name), protocol=protocol)  # type: ignore[arg-type]
            live.name = name
            model = CassetteModel(
                cassette, (lambda live=live: live) if mode == "record" else no_model, called
            )
            run = nb.Agent([], model).run("Who are you?")
            assert (run.answer, run.model, run.protocol) == (name, name, protocol)


def test_a_model_that_the_recording_does_not_know_is_a_miss_in_a_replay_and_not_made(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    nb.Agent(
        [], CassetteModel(Cassette(path, "record"), lambda: ScriptedModel(("final_answer", "I.")))
    ).run("Who?")
    with pytest.raises(CassetteMiss) as caught:
        nb.Agent([], CassetteModel(Cassette(path, "replay"), no_model, "other")).run("Who?")
    assert caught.value.cause == "settings"


def test_a_cassette_without_a_model_says_so_in_a_replay(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"cassette": 2}\n')
    with pytest.raises(ConfigurationError, match="holds no exchange with a model"):
        nb.Agent([], CassetteModel(Cassette(tmp_path / "x.jsonl", "replay"), no_model)).run("Who?")


def test_the_troubles_of_an_endpoint_are_seen_while_it_is_recorded_and_leave_no_trace(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"

    class Troubled(ScriptedModel):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            yield Notice("retry", "429 at http://secret.example/v1. Trying again in 1 s (1 of 3).")
            yield Notice("protocol", "http://secret.example/v1 takes no schema")
            return (yield from super().complete(ask))

    live = CassetteModel(Cassette(path, "record"), lambda: Troubled(("final_answer", "Yes.")))
    recorded = nb.Agent([], live).run("Really?")
    replayed = nb.Agent([], CassetteModel(Cassette(path, "replay"), no_model)).run("Really?")
    told = [event.text for event in recorded.events if isinstance(event, Notice)]
    assert "429" in told[0]
    views = [fold(run.question, run.events, model=run.model) for run in (recorded, replayed)]
    assert views[0] == views[1]
    assert "secret.example" not in path.read_text()


def test_an_interrupt_while_a_model_is_asked_records_nothing(tmp_path: Path) -> None:
    live = ScriptedModel(KeyboardInterrupt(), ("final_answer", "Here."))
    agent = nb.Agent([], CassetteModel(Cassette(tmp_path / "x.jsonl", "auto"), lambda: live))
    with pytest.raises(nb.RunInterrupted):
        agent.run("Hello?")
    assert not (tmp_path / "x.jsonl").exists()
    assert agent.run("Hello?").answer == "Here."


def test_pictures_are_compared_by_a_placeholder(tmp_path: Path) -> None:
    def asked(data: str) -> AskModel:
        url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return AskModel(
            1, ({"role": "user", "content": [{"type": "text", "text": "What is it?"}, url]},)
        )

    cassette = Cassette(tmp_path / "x.jsonl", "auto")
    cassette.add(asked("AAAA"), ModelReply("A cat."))
    assert "data:image/png;base64,{image}" in (tmp_path / "x.jsonl").read_text()
    found = Cassette(tmp_path / "x.jsonl", "replay").find(asked("BBBB"))
    assert found is not None
    assert found.reply == ModelReply("A cat.")


def test_volatile_parts_of_a_prompt_still_fit(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(("final_answer", "A Tuesday."))
    model = CassetteModel(Cassette(path, "record", volatile="date"), lambda: live)
    nb.Agent([], model, instructions="Today is 2026-03-03.").run("Which day is it?")
    assert '"volatile": ["date"]' in path.read_text()
    again = nb.Agent(
        [], CassetteModel(Cassette(path, "replay"), no_model), instructions="Today is 2026-04-04."
    )
    assert again.run("Which day is it?").answer == "A Tuesday."


def test_a_placeholder_that_is_named_later_counts_for_what_was_recorded_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "auto").add(ask("Order ORD-1?"), ModelReply("Sent."))
    assert Cassette(path, "replay").find(ask("Order ORD-2?")) is None
    assert (
        Cassette(path, "replay", volatile={"order": r"ORD-\d+"}).find(ask("Order ORD-2?"))
        is not None
    )
    header, rest = path.read_text().split("\n", 1)
    path.write_text(f'{{"cassette": 2, "volatile": {{"order": "ORD-[0-9]+"}}}}\n{rest}')
    assert header == '{"cassette": 2}'
    assert Cassette(path, "replay").find(ask("Order ORD-3?")) is not None
