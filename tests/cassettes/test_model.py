"""A model behind a cassette is the recorded one, and so is the user."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.models.completion import Price
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.fold import fold
from tests.cassettes.tapes import ask, no_model
from tests.scripted import Scripted


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


def test_records_a_refusal_without_the_text_of_the_endpoint(
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


def test_replays_what_a_run_learned_about_its_model(
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


def test_does_not_record_failures_of_the_endpoint(tmp_path: Path) -> None:
    live = ScriptedModel(ModelError("down", kind="server"), ("final_answer", "Up."))
    model = CassetteModel(Cassette(tmp_path / "x.jsonl", "auto"), lambda: live)
    agent = nb.Agent([], model)
    with pytest.raises(ModelError, match="down"):
        agent.run("Hello?")
    assert not (tmp_path / "x.jsonl").exists()
    assert agent.run("Hello?").answer == "Up."


def test_a_replay_knows_the_model_and_its_cost(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    said = '{"tool": "final_answer", "tool_input": "Hi"}'
    live = ScriptedModel(ModelReply(said, usage=Usage(1, 10, 5, 2), seconds=1.23456))
    live.name, live.is_small, live.price = "tiny", True, Price(1.0, 0.5, 2.0)  # type: ignore[attr-defined]
    live.continues_replies = live.has_grammars = True  # type: ignore[attr-defined]
    run = nb.Agent([], CassetteModel(Cassette(path, "record"), lambda: live)).run("Hello?")
    replaying = CassetteModel(Cassette(path, "replay"), no_model)
    assert (replaying.name, replaying.protocol, replaying.is_small) == ("tiny", "react", True)
    assert (replaying.continues_replies, replaying.has_grammars) == (True, True)
    assert replaying.price == Price(1.0, 0.5, 2.0)
    again = nb.Agent([], replaying).run("Hello?")
    assert again.usage == run.usage == Usage(1, 10, 5, 2)
    replies = [
        [event for event in each.events if isinstance(event, ModelReply)] for each in (run, again)
    ]
    assert [[reply.seconds for reply in each] for each in replies] == [[1.235], [1.235]]


def test_an_unknown_model_is_a_miss(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    nb.Agent(
        [], CassetteModel(Cassette(path, "record"), lambda: ScriptedModel(("final_answer", "I.")))
    ).run("Who?")
    with pytest.raises(CassetteMiss) as caught:
        nb.Agent([], CassetteModel(Cassette(path, "replay"), no_model, "other")).run("Who?")
    assert caught.value.cause == "settings"


def test_a_replay_of_an_empty_cassette_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"cassette": 2}\n')
    with pytest.raises(ConfigurationError, match="contains no recorded replies"):
        nb.Agent([], CassetteModel(Cassette(tmp_path / "x.jsonl", "replay"), no_model)).run("Who?")


def test_retries_are_shown_while_recording_and_not_recorded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"

    class Troubled(ScriptedModel):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            yield Notice("retry", "429 at http://secret.example/v1. Trying again (1 of 3)")
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


def test_an_interrupted_request_is_not_recorded(tmp_path: Path) -> None:
    live = ScriptedModel(KeyboardInterrupt(), ("final_answer", "Here."))
    agent = nb.Agent([], CassetteModel(Cassette(tmp_path / "x.jsonl", "auto"), lambda: live))
    with pytest.raises(nb.RunInterrupted):
        agent.run("Hello?")
    assert not (tmp_path / "x.jsonl").exists()
    assert agent.run("Hello?").answer == "Here."


def test_images_are_compared_by_a_placeholder(tmp_path: Path) -> None:
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


def test_volatile_parts_of_a_prompt_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(("final_answer", "A Tuesday."))
    model = CassetteModel(Cassette(path, "record", volatile="date"), lambda: live)
    nb.Agent([], model, instructions="Today is 2026-03-03.").run("Which day is it?")
    assert '"volatile": {"date": true}' in path.read_text()
    again = nb.Agent(
        [], CassetteModel(Cassette(path, "replay"), no_model), instructions="Today is 2026-04-04."
    )
    assert again.run("Which day is it?").answer == "A Tuesday."


def test_a_volatile_part_that_is_named_later_applies_to_the_recording(
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


def delete(name: str) -> str:
    """Delete a file.

    Args:
        name: Its name
    """
    return f"deleted {name}"


def approvals(
    path: Path, mode: Any, person: Any, monkeypatch: pytest.MonkeyPatch, steps_recorded: int = 0
) -> nb.Run:
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    script = [("delete", {"name": "a"}), ("delete", {"name": "b"}), ("final_answer", "Done.")]
    live = ScriptedModel(*script[steps_recorded:])
    model = CassetteModel(Cassette(path, mode), lambda: live)
    tools = nb.Toolbox()
    tools.add(delete, approve=True)
    return nb.Agent(tools, model, namespace={}).run("Delete both.")


def test_approvals_are_replayed_without_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    recorded = approvals(path, "record", Scripted("y", "n, not that one"), monkeypatch)
    kinds = [outcome.status for _, outcome in recorded.calls]
    assert kinds == ["done", "refused"]
    nobody = Scripted(there=False)
    replayed = approvals(path, "replay", nobody, monkeypatch)
    assert replayed.events == recorded.events
    assert nobody.prompts == []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum("answered" in line for line in lines) >= 2


def test_what_is_approved_is_not_recorded_if_values_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is used again only in a replay: in mode auto it may be another call."""
    path = tmp_path / "x.jsonl"
    script = (("delete", {"name": "{plan}"}), ("final_answer", "Done."))

    def ask(mode: Any, person: Scripted) -> nb.Run:
        monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
        model = CassetteModel(Cassette(path, mode), lambda: ScriptedModel(*script))
        tools = nb.Toolbox()
        tools.add(delete, approve=lambda name: f"{name} is gone then")
        options: dict[str, Any] = {"values": "none", "protocol": "native"}
        return nb.Agent(tools, model, namespace={"plan": "Zq918273645"}, **options).run("Do.")

    person = Scripted("y")
    assert [outcome.status for _, outcome in ask("record", person).calls] == ["done"]
    assert "Zq918273645" in person.prompts[0]
    assert "Zq918273645" not in path.read_text()
    replayed = ask("replay", Scripted(there=False))
    assert [outcome.status for _, outcome in replayed.calls] == ["done"]
    assert [outcome.status for _, outcome in ask("auto", Scripted("n")).calls] == ["refused"]


def test_an_answer_outside_of_a_replayed_exchange_is_never_used(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    real = Scripted("blue", "red")
    CassetteModel(Cassette(path, "record"), no_model).person(real).ask("Which colour?")
    again = CassetteModel(Cassette(path, "auto"), no_model).person(real)
    assert again.ask("Which colour?") == "red"
    assert real.prompts == ["Which colour?"] * 2


def test_a_question_to_the_user_that_was_not_recorded_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    person = Scripted("blue")
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    script = (("ask_user", {"question": "Which one?"}), ("final_answer", "Blue it is."))
    live = CassetteModel(Cassette(path, "record"), lambda: ScriptedModel(*script))
    nb.Agent([], live, namespace={}, ask_user=True).run("Paint it.")
    path.write_text(
        path.read_text().replace('"asked": "The agent asks: ', '"asked": "The agent asked: ')
    )
    cassette = Cassette(path, "replay")
    with pytest.raises(
        CassetteMiss, match="no recorded answer to 'The agent asks: Which one"
    ) as caught:
        nb.Agent([], CassetteModel(cassette, no_model), namespace={}, ask_user=True).run(
            "Paint it."
        )
    assert caught.value.run is not None
    assert caught.value.run.status == "failed"
    assert cassette.tally.missed == ["question"]


def test_a_new_recording_without_a_user_uses_no_old_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies come live: somebody else's calls, as far as anybody knows."""
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Scripted("y", "n, not that one"), monkeypatch)
    again = approvals(path, "record", Scripted(there=False), monkeypatch)
    assert [outcome.status for _, outcome in again.calls] == ["refused", "refused"]
    asked_again = approvals(path, "record", Scripted("n", "y"), monkeypatch)
    assert [outcome.status for _, outcome in asked_again.calls] == ["refused", "done"]


def test_auto_without_a_user_refuses_what_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    nobody = Scripted(there=False)
    run = approvals(path, "auto", nobody, monkeypatch)
    assert [outcome.status for _, outcome in run.calls] == ["refused", "refused"]
    assert nobody.prompts == []
    assert approvals(path, "replay", nobody, monkeypatch).events == run.events


def test_auto_asks_about_a_recorded_call_whose_answer_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Scripted("y", "y"), monkeypatch)
    path.write_text(path.read_text().replace("name = 'b'", "name = 'c'"))
    somebody = Scripted("y")
    run = approvals(path, "auto", somebody, monkeypatch, steps_recorded=3)
    assert [outcome.status for _, outcome in run.calls] == ["done", "done"]
    assert len(somebody.prompts) == 1
    for mode in ("auto", "replay"):
        again = approvals(path, mode, Scripted(there=False), monkeypatch)
        assert again.events == run.events


@pytest.mark.parametrize("has_choices", [True, False])
def test_a_file_of_an_earlier_version_is_replayed(
    has_choices: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names no exchange, and has the line with the choices behind the question."""
    path = tmp_path / "x.jsonl"
    run = approvals(path, "record", Scripted("y", "n, not that one"), monkeypatch)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "asked" in line:
            del line["in"]
            line["asked"] += "\nrun? [y]es · [n]o: " * has_choices
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for mode in ("replay", "auto"):
        again = approvals(path, mode, Scripted(there=False), monkeypatch)
        assert again.events == run.events


class Recorded:
    """Questions to an agent with a tool that needs approval, through one file."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._monkeypatch = monkeypatch
        self.ran: list[str] = []

        def delete(name: str) -> str:
            """Delete a file.

            Args:
                name: Its name
            """
            self.ran.append(name)
            return f"deleted {name}"

        self.tools = nb.Toolbox()
        self.define = lambda: self.tools.add(delete, approve=True)
        self.define()

    def ask(self, mode: Any, question: str, person: Any, *calls: str, **options: Any) -> list[str]:
        """Which calls ran."""
        self.ran.clear()
        self._monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
        script = [("delete", {"name": each}) for each in calls]
        live = ScriptedModel(*script, ("final_answer", "Done."))
        model = CassetteModel(Cassette(self._path, mode), lambda: live)
        # No preview: a copy of this process for each question would take most of the time.
        nb.Agent(self.tools, model, namespace={}, preview=None, **options).run(question)
        return [*self.ran]


CALLS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
ANSWERS = st.sampled_from(["y", "n", "this run", "a", 'name = "b"', "?", "stop"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CALLS, st.lists(ANSWERS, min_size=6, max_size=6), CALLS)
def test_no_recorded_answer_approves_a_call_of_a_live_model(
    tmp_path: Path, recorded: list[str], answers: list[str], live: list[str]
) -> None:
    """Whatever was asked and answered, and whatever the live model calls."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    with pytest.MonkeyPatch.context() as patched:
        talk = Recorded(folder / "x.jsonl", patched)
        with suppress(nb.RunInterrupted):
            talk.ask("record", "Delete them.", Saying(*answers, "y", "y", "y"), *recorded)
        talk.define()  # as in another kernel: what the person permitted is gone
        with suppress(nb.RunInterrupted):
            first = talk.ran[:]
            assert talk.ask("auto", "Delete them.", Saying(), *recorded) == first
        person = Saying(*["n"] * 9)
        assert talk.ask("auto", "Another question.", person, *live) == []
        assert person.asked == len(live)
        path = folder / "x.jsonl"  # a file that holds nothing but permissions
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(each for each in lines if '"exchange"' not in each[:14]))
        person = Saying(*["n"] * 9)
        assert talk.ask("auto", "Delete them.", person, *live) == []
        assert person.asked == len(live)


class Saying:
    """A person who is there, and says one thing after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.there = bool(answers)

    def ask(self, prompt: str, form: Any = None) -> str:
        self.asked += 1
        return self.answers.pop(0)


def test_an_answer_belongs_to_its_own_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two questions with the same call and other answers, replayed in the other order."""
    talk = Recorded(tmp_path / "x.jsonl", monkeypatch)
    assert talk.ask("auto", "One?", Scripted("y"), "a") == ["a"]
    assert talk.ask("auto", "Two?", Scripted("n"), "a") == []
    nobody = Scripted(there=False)
    assert talk.ask("replay", "Two?", nobody, "a") == []
    assert talk.ask("replay", "One?", nobody, "a") == ["a"]


def test_an_inner_agent_that_asks_live_is_not_answered_by_the_recording_of_the_outer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def delete(name: str) -> str:
        """Delete a file.

        Args:
            name: Its name
        """
        ran.append(name)
        return "deleted"

    path = tmp_path / "x.jsonl"

    def ask(mode: Any, person: Any, instructions: str) -> int:
        ran.clear()
        monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
        cassette = Cassette(path, mode)
        tools = nb.Toolbox()
        tools.add(delete, approve=True)
        scripts = [
            ScriptedModel(("delete", {"name": "a"}), ("final_answer", "Done.")),
            ScriptedModel(("cleaner", {"question": "Clean."}), ("final_answer", "Done.")),
        ]
        inner, outer = (CassetteModel(cassette, lambda each=each: each) for each in scripts)  # type: ignore[misc]
        cleaner = nb.Agent(tools, inner, namespace={}, instructions=instructions)
        box = nb.Toolbox(cleaner.as_tool("cleaner", "Cleans."))
        box.add(delete, approve=True)
        nb.Agent(box, outer, namespace={}).run("Tidy.")
        return len(ran)

    assert ask("record", Scripted("y"), "One.") == 1
    assert path.read_text().count('"asked"') == 1
    assert ask("auto", Scripted(there=False), "One.") == 1
    assert ask("auto", Scripted("n"), "Two.") == 0
