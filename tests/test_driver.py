"""One run: what the driver does for the loop, and what observers get."""

from __future__ import annotations

import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.kernel.person import current_person
from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    AskModel,
    CallOutcomes,
    Delta,
    Event,
    ModelReply,
    NoReply,
    Notice,
    RunCalls,
    Started,
)
from archytas_nb.testing import ScriptedModel
from tests.scripted import Scripted


def talk(words: int) -> str:
    """Say something.

    Args:
        words: How much
    """
    for n in range(words):
        print(n)
    return "said"


class Slow(ScriptedModel):
    """A model that sends some text and then exceeds the run's time."""

    pieces: tuple[Delta | Notice, ...] = ()

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        self.asked.append(ask)
        yield from self.pieces
        raise ModelError("the time of the run is over", kind="deadline")


def test_observers_get_the_output_of_a_running_tool_which_is_not_stored() -> None:
    seen: list[Event] = []
    agent = nb.Agent([talk], ScriptedModel(("talk", 3), ("final_answer", "Done.")), namespace={})
    run = agent.run("Talk!", observers=[seen.append])
    output = [event for event in seen if isinstance(event, Delta) and event.kind == "output"]
    assert "".join(event.text for event in output) == "0\n1\n2\n"
    [calls] = [n for n, event in enumerate(seen) if isinstance(event, RunCalls)]
    [outcomes] = [n for n, event in enumerate(seen) if isinstance(event, CallOutcomes)]
    assert all(calls < seen.index(event) < outcomes for event in output)
    assert not any(isinstance(event, Delta) for event in run.events)


def test_observers_of_a_stream_get_the_output_of_a_running_tool() -> None:
    seen: list[Event] = []
    agent = nb.Agent([talk], ScriptedModel(("talk", 1), ("final_answer", "Done.")), namespace={})
    events = list(agent.stream("Talk!", observers=[seen.append]))
    heard = [event for event in seen if isinstance(event, Delta) and event.kind == "output"]
    assert "".join(event.text for event in heard) == "0\n"
    assert [event for event in seen if event not in heard] == events


def test_an_observer_that_raises_during_output_does_not_affect_the_tool() -> None:
    def watch(event: Event) -> None:
        if isinstance(event, Delta) and event.kind == "output":
            raise RuntimeError("a bug")

    agent = nb.Agent([talk], ScriptedModel(("talk", 1), ("final_answer", "Done.")), namespace={})
    run = agent.run("Talk!", observers=[watch])
    assert [outcome.status for _, outcome in run.calls] == ["done"]


def test_at_the_deadline_the_partial_text_is_the_answer() -> None:
    model = Slow(protocol="native")
    model.pieces = (
        Delta("text", "Lost."), Notice("retry", "again"), Delta("reasoning", "Hm."), Delta("text", "So far "),
        Delta("text", "three."),
    )  # fmt: skip
    run = nb.Agent([talk], model, namespace={}, max_seconds=9).run("How many?")
    assert (run.incomplete, run.reason, run.answer) == (True, "max_seconds=9", "So far three.")
    [no_reply] = [event for event in run.events if isinstance(event, NoReply)]
    assert (no_reply.kind, no_reply.text) == ("deadline", "So far three.")


def test_a_model_gets_the_remaining_time() -> None:
    model = ScriptedModel(("talk", 1), ("final_answer", "Done."))
    nb.Agent([talk], model, namespace={}, max_seconds=50).run("Talk!")
    assert 0 < model.asked[1].seconds < model.asked[0].seconds <= 50  # type: ignore[operator]


def test_a_run_has_finite_limits_by_default() -> None:
    limits = nb.Agent([talk], ScriptedModel()).limits
    assert None not in (
        limits.max_steps,
        limits.max_errors,
        limits.max_seconds,
        limits.max_total_tokens,
    )
    limits = nb.Agent([talk], ScriptedModel(), max_seconds=None, max_total_tokens=None).limits
    assert (limits.max_seconds, limits.max_total_tokens) == (None, None)


def test_the_time_that_a_person_takes_to_answer_does_not_count() -> None:
    class Thinking(Scripted):
        """A person who answers after a while."""

        def ask(self, prompt: str, form: Any = None) -> str:
            time.sleep(0.4)
            return super().ask(prompt, form)

    person = Thinking("y", "y")
    tool = nb.Tool.from_function(talk, approve=True)
    model = ScriptedModel(("talk", 1), ("talk", 2), ("final_answer", "Done."))
    model.person = lambda real: person
    run = nb.Agent([tool], model, namespace={}, max_seconds=0.5).run("Talk!")
    assert (run.status, [outcome.status for _, outcome in run.calls]) == (
        "answered",
        ["done", "done"],
    )


def test_a_model_may_wrap_the_person() -> None:
    class Recorded(ScriptedModel):
        def person(self, real: Any) -> Any:
            assert hasattr(real, "there")
            assert callable(real.ask)
            return Yes()

    class Yes:
        there = True

        def ask(self, prompt: str, form: Any = None) -> str:
            return "blue"

    model = Recorded(("ask_user", {"question": "Which colour?"}), ("final_answer", "Blue."))
    run = nb.Agent([], model, namespace={}, ask_user=True).run("Paint!")
    assert [outcome.value for _, outcome in run.calls] == ["blue"]


@pytest.mark.parametrize("policy", ["auto", "deny"])
def test_a_policy_decides_on_a_tool_that_requires_approval(policy: Any) -> None:
    tool = nb.Tool.from_function(talk, approve=True)
    model = ScriptedModel(("talk", 1), ("final_answer", "Done."))
    run = nb.Agent([tool], model, namespace={}, approve=policy).run("Talk!")
    assert [outcome.status for _, outcome in run.calls] == [
        "done" if policy == "auto" else "refused"
    ]


def test_an_allowed_tool_runs_without_approval() -> None:
    tool = nb.Tool.from_function(talk, approve=True)
    model = ScriptedModel(("talk", 1), ("final_answer", "Done."))
    run = nb.Agent([tool], model, namespace={}, allow=["talk"]).run("Talk!")
    assert [outcome.status for _, outcome in run.calls] == ["done"]


def test_a_run_without_a_model_has_no_started_event() -> None:
    class Nameless(ScriptedModel):
        @property
        def name(self) -> str:  # type: ignore[override]
            raise ModelError("nobody is there", kind="unreachable")

    with pytest.raises(ModelError) as caught:
        nb.Agent([talk], Nameless()).run("Talk!")
    assert caught.value.run is not None
    assert not any(isinstance(event, Started) for event in caught.value.run.events)


@pytest.mark.parametrize("what", [KeyboardInterrupt, RuntimeError])
def test_a_consumer_that_is_interrupted_or_raises_ends_the_run_properly(
    what: type[BaseException],
) -> None:
    for cut in range(6):
        seen: list[Event] = []

        def watch(event: Event, cut: int = cut, seen: list[Event] = seen) -> None:
            seen.append(event)
            if len(seen) == cut + 1:
                raise what("cut")

        model = ScriptedModel(("talk", 0), ("final_answer", "Done."), ("final_answer", "On."))
        agent = nb.Agent([talk], model, namespace={})
        with pytest.raises((what, nb.RunInterrupted)):
            list(agent.stream("Talk!", observers=[watch]))
        for exchange in agent.exchanges:
            assert exchange.ending is not None
        model._remaining = [("final_answer", "On.")]
        assert agent.run("And now?").answer == "On."


def test_observers_learn_that_a_person_is_asked_but_the_run_does_not_record_it() -> None:
    def ask(prompt: str, form: Any = None) -> str:
        assert seen[-1] == Delta("person", prompt)
        return "yes"

    def careful() -> str:
        """Ask first."""
        return current_person.get().ask("Sure?")

    seen: list[Event] = []
    model = ScriptedModel(("careful", {}), ("final_answer", "Done."))
    model.person = lambda real: SimpleNamespace(there=True, ask=ask)
    run = nb.Agent([careful], model, namespace={}).run("Go!", observers=[seen.append])
    assert [outcome.text for _, outcome in run.calls] == ["yes"]
    at = seen.index(Delta("person", "Sure?"))
    assert seen[at + 1] == Delta("person", "")
    assert not any(isinstance(event, Delta) for event in run.events)


def test_observers_get_the_form_of_a_call_to_approve() -> None:
    seen: list[Event] = []
    model = ScriptedModel(("talk", {"words": 1}), ("final_answer", "Done."))
    model.person = lambda real: Scripted("words = 2", "y")
    tool = nb.Tool.from_function(talk, approve=True)
    nb.Agent([tool], model, namespace={}).run("Talk!", observers=[seen.append])
    forms = [event.form for event in seen if isinstance(event, Delta) and event.form]
    decisions = [None, None, Decision("approved")]
    assert [(form.tool, form.decision) for form in forms] == [("talk", each) for each in decisions]
    [argument] = forms[1].arguments
    assert (argument.name, argument.text, argument.before) == ("words", "2", "1")


def test_a_failure_from_which_a_run_recovered_is_not_its_error() -> None:
    too_long = ModelError("maximum context length is 4096 tokens", kind="overflow")
    run = nb.Agent([talk], ScriptedModel(too_long, ("final_answer", "Done.")), namespace={}).run(
        "Talk!"
    )
    assert (run.status, run.error) == ("answered", None)
    assert any(isinstance(event, NoReply) for event in run.events)
