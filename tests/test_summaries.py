"""Summaries that take the place of the beginning of a long conversation."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from tests.cassettes.tapes import no_model
from tests.strict import fault_of, is_prefix

SUMMARY = "The user looks at numbers. The variable table_1 holds them."


def look(a: int) -> str:
    """Look at something.

    Args:
        a: Where
    """
    return f"{a} " * 300


class Long(ScriptedModel):
    """A model with a short context, which summarises beside its script; or raises instead."""

    context_tokens: int | None = 4000
    summary: Any = SUMMARY

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        if not ask.about:
            return (yield from super().complete(ask))
        self.asked.append(ask)
        if isinstance(self.summary, BaseException):
            raise self.summary
        yield Delta("text", self.summary)
        return ModelReply(self.summary, usage=Usage(1, 700, 0, 30))


def model_of(*script: Any, protocol: Any = "native", **facts: Any) -> Long:
    model = Long(*script, protocol=protocol)
    for name, fact in facts.items():
        setattr(model, name, fact)
    return model


def script(number: int) -> list[Any]:
    """So many questions, each with a call."""
    each = [[("look", {"a": n}), ("final_answer", f"Answer {n}.")] for n in range(number)]
    return [reply for replies in each for reply in replies]


def talk(model: Any, number: int = 12, **options: Any) -> nb.Agent:
    """A conversation of so many questions."""
    agent = nb.Agent([look], model, **{"namespace": {}, "context": "none", **options})
    for n in range(number):
        agent.run(f"Question {n}?", origin=f"cell {n}")
    return agent


def summaries(model: Long) -> list[AskModel]:
    return [each for each in model.asked if each.about]


def others(model: Long) -> list[AskModel]:
    return [each for each in model.asked if not each.about]


@pytest.mark.parametrize("protocol", ["native", "react"])
def test_a_summary_takes_the_place_of_what_is_left_out(protocol: Any) -> None:
    model = model_of(*script(12), protocol=protocol)
    talk(model)
    first, *_, last = summaries(model)
    assert len(summaries(model)) < 6
    for each in summaries(model):
        assert each.max_tokens is not None
        assert each.max_tokens <= 1000
    if protocol == "native":  # it extends the request before it, so that the endpoint has it cached
        extended = [each for each in summaries(model) if each.tools]
        assert extended
        for each in extended:
            before = model.asked[model.asked.index(each) - 1]
            assert each.tools == before.tools
            assert is_prefix(before.messages, each.messages)
            assert fault_of(each.messages) == ""
        again = str(last.messages)
    else:
        assert not any(each.tools for each in summaries(model))
        asked = str(first.messages[0]["content"])
        assert "The user asked: Question 0?" in asked
        assert "You called look with" in asked
        assert "You answered: Answer 0." in asked
        again = str(last.messages[0]["content"])
        assert "The user asked: Question 0?" not in again
    assert SUMMARY in again, "the next summary is also of the one before"
    sent = others(model)[-1].messages
    question = str(sent[1]["content"])
    assert "Left out here: the first" in question
    assert SUMMARY in question
    assert all(fault_of(each.messages) == "" for each in others(model))
    assert max(len(str(each.messages)) for each in model.asked) < 4000 * 4


def test_the_trace_shows_it_and_counts_it() -> None:
    model = model_of(*script(12))
    agent = talk(model, 0)
    runs = [agent.run(f"Question {n}?") for n in range(12)]
    notes = [each for run in runs for each in run.events if isinstance(each, Notice)]
    assert [each.text for each in notes if each.kind == "summary"] == [SUMMARY] * len(
        summaries(model)
    )
    run = next(r for r in runs if any(getattr(e, "kind", "") == "summary" for e in r.events))
    view = fold(run.question, run.events)
    assert view.usage.tokens == run.usage.tokens == 730
    assert not any(step.rejected for step in view.steps)
    assert SUMMARY in bundle(view)[0]["text/html"]
    assert len(run.steps) == 2


@pytest.mark.parametrize("which", ["small", "drop"])
def test_for_a_small_model_and_where_it_is_not_wanted_it_is_dropped_as_before(which: str) -> None:
    facts = {"is_small": True} if which == "small" else {}
    model = model_of(*script(12), protocol="react", **facts)
    talk(model, compaction="summary" if which == "small" else "drop")
    assert not [each for each in summaries(model) if each.about.startswith("summar")]
    assert "Left out here" in str(others(model)[-1].messages)


def test_the_setting_is_that_of_all_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_COMPACTION", "drop")
    model = model_of(*script(12))
    talk(model)
    assert not summaries(model)
    with pytest.raises(ValueError, match="compaction is 'short'"):
        nb.Agent([], compaction="short")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "failure",
    [
        ModelError("503"),
        ModelError("long", kind="overflow"),
        ModelError("late", kind="deadline"),
        "",
    ],
)
def test_where_there_is_no_summary_it_is_dropped_as_before(failure: Any) -> None:
    model = model_of(*script(12), summary=failure)
    agent = talk(model)
    assert summaries(model)
    assert agent.exchanges[-1].compaction.summary is None
    plain = model_of(*script(12))
    talk(plain, compaction="drop")
    assert len(others(plain)) == len(others(model)) == 24


def test_an_interrupt_of_the_summary_interrupts_the_run() -> None:
    model = model_of(*script(12), summary=KeyboardInterrupt())
    with pytest.raises(nb.RunInterrupted):
        talk(model)


def test_the_steps_of_a_long_run_are_summarised_as_well() -> None:
    calls = [("look", {"a": n}) for n in range(14)]
    model = model_of(*calls, ("final_answer", "Done."))
    agent = talk(model, 1)
    sent = others(model)[-1].messages
    assert "with calls of look" in str(sent[1]["content"])
    assert str(sent[1]["content"]).endswith(f"{SUMMARY})")
    made = agent.exchanges[0].compaction.summary
    assert made is not None
    assert made.dropped == 0
    assert made.dropped_steps > 0


def test_a_summary_is_made_again_if_a_question_of_it_is_asked_again() -> None:
    model = model_of(*script(12))
    agent = talk(model)
    model._remaining += [("look", {"a": 0}), ("final_answer", "Another."), *script(1)]
    model.summary = "A new one."
    agent.run("Question 0?", origin="cell 0")
    before = len(summaries(model))
    agent.run("And now?")
    assert len(summaries(model)) == before + 1
    assert "You answered: Another." in str(summaries(model)[-1].messages)
    sent = str(others(model)[-1].messages)
    assert "A new one." in sent
    assert SUMMARY not in sent


def test_asking_the_last_question_again_sends_the_same() -> None:
    model = model_of(*script(12))
    agent = talk(model, 11)
    asked = []
    for _ in range(2):
        count = len(model.asked)
        model._remaining = [("look", {"a": 11}), ("final_answer", "Answer 11.")]
        agent.run("Question 11?", origin="cell 11")
        asked.append([each.messages for each in model.asked[count:]])
    assert asked[0] == asked[1]


def test_a_dry_run_sends_nothing_and_says_that_there_will_be_a_summary() -> None:
    model = model_of(*script(12))
    agent = talk(model, 11)
    model.context_tokens = 2200
    count = len(model.asked)
    shown = str(agent.preview("And now?").messages)
    assert len(model.asked) == count
    assert "for which the model is asked first" in shown


def test_it_is_saved_and_loaded_with_the_conversation(tmp_path: Path) -> None:
    model = model_of(*script(13), context_tokens=4300)
    agent = talk(model)
    agent.save(tmp_path / "talk.json")
    agent.run("And now?")
    other = model_of(*script(13), context_tokens=4300)
    loaded = talk(other, 0)
    loaded.load(tmp_path / "talk.json")
    other._remaining = script(13)[-2:]
    loaded.run("And now?")
    new = model.asked[-len(other.asked) :]
    assert [each.messages for each in other.asked] == [each.messages for each in new]
    assert not summaries(other)

    whole = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))
    for place in ("dropped", "dropped_steps"):
        changed = json.loads(json.dumps(whole))
        changed["questions"][-1]["compaction"]["summary"][place] = -1
        (tmp_path / "talk.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(nb.ConfigurationError):
            loaded.load(tmp_path / "talk.json")


def test_it_is_recorded_and_replayed_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"

    def asked(mode: Any, live: Any) -> list[str]:
        model = CassetteModel(Cassette(path, mode), live)
        agent = talk(model, 12)
        assert agent.exchanges[-1].compaction.summary is not None
        return [str(each) for each in agent.messages]

    recorded = asked("record", lambda: model_of(*script(12)))
    before = path.read_bytes()
    assert SUMMARY in before.decode()
    assert asked("replay", no_model) == recorded
    assert path.read_bytes() == before


def test_a_question_with_hidden_values_reads_no_summary_of_others() -> None:
    model = model_of(*script(14))
    agent = talk(model)
    agent._configure(values="none", protocol="native")
    model._remaining = [("final_answer", "Done.")]
    agent.run("And now?")
    sent = str(model.asked[-1].messages)
    assert SUMMARY not in sent
    assert "Answer 1" not in sent
