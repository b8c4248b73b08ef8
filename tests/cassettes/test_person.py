"""What a person said is part of a recording: approvals, and answers to questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.model import CassetteModel
from archytas_nb.errors import CassetteMiss
from archytas_nb.testing import ScriptedModel
from tests.cassettes.tapes import no_model


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return monkeypatch


class Somebody:
    """A person who answers from a list."""

    def __init__(self, *answers: str, there: bool = True) -> None:
        self.answers = list(answers)
        self.there = there
        self.asked: list[str] = []

    def ask(self, prompt: str) -> str:
        self.asked.append(prompt)
        return self.answers.pop(0)


def delete(name: str) -> str:
    """Delete a file.

    Args:
        name: Its name
    """
    return f"deleted {name}"


def approvals(
    path: Path, mode: Any, person: Any, patch: pytest.MonkeyPatch, steps_recorded: int = 0
) -> nb.Run:
    patch.setattr("archytas_nb.agent.Keyboard", lambda: person)
    script = [("delete", {"name": "a"}), ("delete", {"name": "b"}), ("final_answer", "Done.")]
    live = ScriptedModel(*script[steps_recorded:])
    model = CassetteModel(Cassette(path, mode), lambda: live)
    tools = nb.Toolbox()
    tools.add(delete, approve=True)
    return nb.Agent(tools, model, namespace={}).run("Delete both.")


def test_approvals_are_recorded_and_replayed_where_nobody_is(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    recorded = approvals(path, "record", Somebody("y", "n, not that one"), patch)
    kinds = [outcome.status for _, outcome in recorded.calls]
    assert kinds == ["done", "refused"]
    nobody = Somebody(there=False)
    replayed = approvals(path, "replay", nobody, patch)
    assert replayed.events == recorded.events
    assert nobody.asked == []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum("answered" in line for line in lines) >= 2


def test_where_nobody_was_asked_nobody_is_asked_in_the_replay(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    recorded = approvals(path, "record", Somebody(there=False), patch)
    somebody = Somebody("y", "y")
    replayed = approvals(path, "replay", somebody, patch)
    assert replayed.events == recorded.events
    assert somebody.asked == []


def test_auto_asks_the_person_only_what_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    real = Somebody("blue", "red")
    CassetteModel(Cassette(path, "record"), no_model).person(real).ask("Which colour?")
    again = CassetteModel(Cassette(path, "auto"), no_model).person(real)
    assert again.there
    assert (again.ask("Which colour?"), again.ask("Which other?")) == ("blue", "red")
    assert real.asked == ["Which colour?", "Which other?"]


def test_a_question_to_a_person_that_was_not_recorded_fails_the_run_though_its_tool_may_fail(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    patch.setattr("archytas_nb.agent.Keyboard", lambda: Somebody("blue"))
    script = (("ask_user", {"question": "Which one?"}), ("final_answer", "Blue it is."))
    live = CassetteModel(Cassette(path, "record"), lambda: ScriptedModel(*script))
    nb.Agent([], live, namespace={}, ask_user=True).run("Paint it.")
    path.write_text(
        path.read_text().replace('"asked": "The agent asks: ', '"asked": "The agent asked: ')
    )
    cassette = Cassette(path, "replay")
    with pytest.raises(
        CassetteMiss, match="holds no answer of a person to 'The agent asks: Which one"
    ) as caught:
        nb.Agent([], CassetteModel(cassette, no_model), namespace={}, ask_user=True).run(
            "Paint it."
        )
    assert caught.value.run is not None
    assert caught.value.run.status == "failed"
    assert cassette.tally.missed == ["question"]


def test_an_approval_that_was_not_recorded_runs_nothing_and_fails_the_run(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Somebody("y", "y"), patch)
    path.write_text(path.read_text().replace("Run it?", "Shall it run?"))
    with pytest.raises(CassetteMiss, match="holds no answer of a person to") as caught:
        approvals(path, "replay", Somebody(there=False), patch)
    assert caught.value.run is not None
    assert [outcome.status for _, outcome in caught.value.run.calls] == ["refused"]


def test_where_nobody_is_there_a_new_recording_keeps_what_the_person_said_in_the_old_one(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Somebody("y", "n, not that one"), patch)
    before = path.read_bytes()
    again = approvals(path, "record", Somebody(there=False), patch)
    assert [outcome.status for _, outcome in again.calls] == ["done", "refused"]
    assert path.read_bytes() == before
    asked_anew = approvals(path, "record", Somebody("n", "", "y"), patch)
    assert [outcome.status for _, outcome in asked_anew.calls] == ["refused", "done"]


def test_in_auto_nobody_who_is_not_there_is_asked_what_is_not_recorded(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    CassetteModel(Cassette(path, "record"), no_model).person(Somebody("blue")).ask("Which colour?")
    nobody = Somebody(there=False)
    run = approvals(path, "auto", nobody, patch)
    assert [outcome.status for _, outcome in run.calls] == ["refused", "refused"]
    assert nobody.asked == []
    assert approvals(path, "replay", nobody, patch).events == run.events


def test_a_new_recording_without_a_person_replays_also_what_the_person_had_not_answered(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Somebody("y", "y"), patch)
    path.write_text(path.read_text().replace('name = \\"b\\"', 'name = \\"c\\"'))
    for mode in ("record", "replay", "record", "replay"):
        run = approvals(path, mode, Somebody(there=False), patch)
        assert [outcome.status for _, outcome in run.calls] == ["done", "refused"]


def test_a_person_who_is_there_in_auto_is_asked_what_nobody_was_there_to_answer(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    approvals(path, "record", Somebody("y", "y"), patch)
    path.write_text(path.read_text().replace('name = \\"b\\"', 'name = \\"c\\"'))
    approvals(path, "record", Somebody(there=False), patch)
    somebody = Somebody("y")
    run = approvals(path, "auto", somebody, patch, steps_recorded=2)
    assert [outcome.status for _, outcome in run.calls] == ["done", "done"]
    assert len(somebody.asked) == 1
    for mode in ("auto", "replay"):
        again = approvals(path, mode, Somebody(there=False), patch)
        assert again.events == run.events


def test_what_the_user_answered_is_recorded_and_replayed(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    answers = []
    for mode, person in (("record", Somebody("the blue one")), ("replay", Somebody(there=False))):
        patch.setattr("archytas_nb.agent.Keyboard", lambda person=person: person)
        live = ScriptedModel(
            ("ask_user", {"question": "Which one?"}), ("final_answer", "Blue it is.")
        )
        model = CassetteModel(Cassette(path, mode), lambda live=live: live)  # type: ignore[arg-type]
        run = nb.Agent([], model, namespace={}, ask_user=True).run("Paint it.")
        answers.append([outcome.text for _, outcome in run.calls])
    assert answers[0] == answers[1]
    assert "the blue one" in answers[0][0]
