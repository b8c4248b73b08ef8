"""The same task gives the same trace with both wire protocols.

A script defines what the model does. All events of the run are compared, except for the text of requests and
replies, and so is the trace in all its formats.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, Event, ModelReply, Started, Usage, WireCall
from archytas_nb.run import Run
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold

Protocol = Literal["react", "native"]
Call = tuple[str, Any]


@dataclass(frozen=True)
class Act:
    """A reply with calls, an answer, a reason to give up, or some of them."""

    calls: tuple[Call, ...] = ()
    answer: Any = None
    gives_up: str | None = None
    thought: str = ""
    reasoning: str = ""
    think: str = ""

    def said(self, protocol: Protocol) -> ModelReply:
        ends = {"final_answer": self.answer, "fail_task": self.gives_up}
        calls = [*self.calls, *((name, text) for name, text in ends.items() if text is not None)]
        if protocol == "react":
            acts = [
                {"thought": self.thought, "tool": name, "tool_input": given}
                for name, given in calls
            ]
            return self._reply(json.dumps(acts[0] if len(acts) == 1 else acts))
        if not self.calls and isinstance(self.answer, str):
            return self._reply(self.answer)
        wrapped = {"final_answer": "answer", "fail_task": "reason"}
        sent = [
            (name, {wrapped[name]: given} if name in wrapped else given) for name, given in calls
        ]
        return self._reply(
            self.thought, *(WireCall(name, json.dumps(given)) for name, given in sent)
        )

    def _reply(self, text: str, *calls: WireCall) -> ModelReply:
        text = f"<think>{self.think}</think>\n{text}" if self.think else text
        usage = Usage(1, 100, 0, 10)
        return ModelReply(
            text, calls, self.reasoning, "tool_calls" if calls else "stop", "m", usage
        )


@dataclass(frozen=True)
class Unusable:
    """A reply that is unusable with both protocols."""

    text: str

    def said(self, protocol: Protocol) -> ModelReply:
        return ModelReply(self.text, model="m", usage=Usage(1, 100, 0, 10))


@dataclass(frozen=True)
class Down:
    """No reply: the endpoint fails, or the person interrupts."""

    error: BaseException

    def said(self, protocol: Protocol) -> ModelReply:
        raise self.error


class Speaker:
    """A model that follows its script, with one of the wire protocols, and then answers."""

    name = "m"

    def __init__(self, script: list[Any], protocol: Protocol) -> None:
        self.protocol: Protocol = protocol
        self.script = list(script)

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        yield Delta("text", "Well, ")
        act = self.script.pop(0) if self.script else Act(answer="That is all.")
        return act.said(self.protocol)


def tools() -> nb.Toolbox:
    """Tools with their own state."""
    state = {"n": 0}

    def look(place: str, deep: bool = False) -> dict[str, Any]:
        """Look at something.

        Args:
            place: Where
            deep: How
        """
        return {"place": place, "n": state["n"], "deep": deep}

    def put(place: str, n: int) -> str:
        """Put something there.

        Args:
            place: Where
            n: How many
        """
        state["n"] += n
        print("put", n, "at", place)
        return f"{state['n']} there"

    def boom(why: str) -> str:
        """Fail.

        Args:
            why: The reason
        """
        state["n"] += 1
        raise LookupError(why)

    async def wait(n: int) -> int:
        """Wait for it.

        Args:
            n: How long
        """
        state["n"] -= 1
        return n

    def stop() -> None:
        """Do what Ctrl-C does."""
        raise KeyboardInterrupt

    def drop(place: str) -> str:
        """Throw away.

        Args:
            place: Where
        """
        raise AssertionError("it is refused")

    def roll() -> int:
        """Roll."""
        state["n"] = (state["n"] * 5 + 3) % 16
        return state["n"]

    box = nb.Toolbox(look, put, boom, wait, stop)
    box.add(drop, approve=True)
    box.add(roll, repeat=True)
    return box


def told(event: Event) -> Any:
    """An event without what depends on the protocol: the text of requests and replies."""
    if isinstance(event, AskModel):
        return ("ask", event.step, event.max_tokens)
    if isinstance(event, ModelReply):
        return ("reply", event.reasoning, event.usage)
    return nameless(event)


def nameless(event: Event) -> Event:
    """An event without the name of the protocol, which the head of a trace shows."""
    return replace(event, protocol="") if isinstance(event, Started) else event


def talk(
    script: list[Any], protocol: Protocol, asked: dict[str, Any], **limits: Any
) -> tuple[Any, ...]:
    """All output of a task that is asked twice, with one protocol."""
    model = Speaker(script, protocol)
    agent = nb.Agent(
        tools(), model, protocol, namespace={}, approve=lambda tool, call: refusal(tool), **limits
    )
    seen: list[Any] = []
    for question in ("Well?", "And then?"):
        try:
            run = agent.run(question, **asked)
        except (nb.ModelError, nb.TaskFailed, nb.RunInterrupted) as error:
            run = error.run or Run("no run is attached")
        view = fold(question, [nameless(event) for event in run.events])
        forms, metadata = bundle(view)
        facts = {k: v for k, v in metadata["archytas_nb"].items() if k != "protocol"}
        seen.append(
            (
                [told(event) for event in run.events],
                forms,
                facts,
                run.status,
                run.answer,
                run.reason,
                run.value,
            )
        )
    record = [
        (
            each.question,
            [
                replace(step, correction=step.correction[:20], written="", rejected=None)
                for step in each.steps
            ],
            each.ending,
        )
        for each in agent.exchanges
    ]
    return (*seen, record)


@dataclass
class One:
    n: int


@dataclass
class Named:
    answer: int


@dataclass
class Point:
    x: int
    y: float


def long_enough(answer: Any) -> str:
    return "" if len(str(answer)) > 3 else f"{answer!r} is too short."


def asserting(answer: Any) -> str:
    assert answer, "there is nothing"
    return ""


def refusal(tool: nb.Tool) -> str:
    return "Refused: not today." if tool.approve else ""


PLACES = st.sampled_from(["a", "b", "<b>&", "ü \u2028 x", ""])
CALLS = st.one_of(
    st.tuples(
        st.just("look"), st.fixed_dictionaries({"place": PLACES}, optional={"deep": st.booleans()})
    ),
    st.tuples(st.just("put"), st.fixed_dictionaries({"place": PLACES, "n": st.integers(-2, 2)})),
    st.tuples(st.just("boom"), st.fixed_dictionaries({"why": PLACES})),
    st.tuples(st.just("wait"), st.fixed_dictionaries({"n": st.integers(0, 2)})),
    st.tuples(st.just("drop"), st.fixed_dictionaries({"place": PLACES})),
    st.tuples(st.just("roll"), st.just({})),
    st.sampled_from(
        [("look", {"wrong": 1}), ("put", {"place": "a", "n": "many"}), ("nothing", {"x": 1})]
    ),
)
TEXT = st.sampled_from(
    ["Twelve.", "It is 12 km.\n\nAnd *more*.", "<script>alert(1)</script>", "12"]
)
VALUES = st.sampled_from([7, [1, 2], {"n": 3}, {"x": 1, "y": 2.5}, {"a": 1}, "seven", 7.5])
THOUGHT = st.sampled_from(["", "", "Let me see.", "First this,\nthen that."])


def some_calls(most: int) -> st.SearchStrategy[tuple[Call, ...]]:
    return st.lists(CALLS, min_size=1, max_size=most).map(tuple)


UNUSABLE = st.sampled_from(
    ["", " \n", "<think>hm", '{"tool": "look", "tool_input": {"place": "her', "<think>x</think>"]
).map(Unusable)


def scripts(answers: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Scripts of a model: some steps, an end, and its replies to the next question."""
    steps = st.one_of(
        UNUSABLE,
        st.builds(Act, some_calls(4), thought=THOUGHT),
        st.builds(Act, some_calls(2), answers, thought=THOUGHT),
        st.builds(Act, some_calls(2), reasoning=THOUGHT, think=THOUGHT),
    )
    ends = st.one_of(
        st.builds(Act, answer=answers, reasoning=THOUGHT, think=THOUGHT),
        st.builds(Act, gives_up=TEXT, thought=THOUGHT),
        st.just(Act((("look", {"place": "a"}), ("stop", {}), ("put", {"place": "a", "n": 1})))),
        st.sampled_from([Down(ModelError("503 at http://x")), Down(KeyboardInterrupt())]),
    )
    return st.builds(
        lambda first, end, more: [*first, end, *more],
        st.lists(steps, max_size=7),
        ends,
        st.lists(steps, max_size=3),
    )


LIMITS = st.fixed_dictionaries(
    {"max_steps": st.integers(1, 12), "max_errors": st.integers(1, 4)},
    optional={"max_total_tokens": st.integers(100, 1500)},
)
UNTIL = {"until": st.sampled_from([long_enough, asserting])}
PLAIN = st.fixed_dictionaries({}, optional=UNTIL)
TYPED = st.fixed_dictionaries(
    {"output_type": st.sampled_from([int, list[int], str, One, Point, dict[str, int]])},
    optional=UNTIL,
)
SAME = (("put", {"place": "a", "n": 1}),)


@settings(max_examples=100, deadline=None)
@given(scripts(TEXT | VALUES), PLAIN, LIMITS)
@example([Act(SAME), Act(SAME), Act(SAME), Act(SAME)], {}, {})
@example([Act(SAME * 2), Act((*SAME, *SAME, ("look", {"place": "a"})))], {}, {})
def test_both_protocols_give_equal_events_traces_and_records(
    script: list[Any], asked: dict[str, Any], limits: dict[str, Any]
) -> None:
    in_text, in_calls = (
        talk(script, "react", asked, **limits),
        talk(script, "native", asked, **limits),
    )
    assert in_text == in_calls


@settings(max_examples=100, deadline=None)
@given(
    scripts(TEXT.filter(lambda text: text != "12") | VALUES | st.sampled_from([[], {}])),
    TYPED,
    LIMITS,
)
@example([Act(answer={"n": 3})], {"output_type": One}, {})
@example([Act(answer=[])], {"output_type": list[int]}, {})
def test_both_protocols_give_equal_typed_answers(
    script: list[Any], asked: dict[str, Any], limits: dict[str, Any]
) -> None:
    """Except for a text that is JSON: without quotes, as in function calling, it is a number."""
    in_text, in_calls = (
        talk(script, "react", asked, **limits),
        talk(script, "native", asked, **limits),
    )
    assert in_text == in_calls


@pytest.mark.parametrize("protocol", ["react", "native"])
@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (One, {"n": 3}, One(3)),
        (Named, {"answer": 3}, Named(3)),
        (list[int], [], []),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[str, int], {"answer": 1}, {"answer": 1}),
        (bool, False, False),
    ],
)
def test_a_typed_answer_is_not_unwrapped(
    protocol: Protocol, kind: Any, answer: Any, value: Any
) -> None:
    agent = nb.Agent(tools(), Speaker([Act(answer=answer)], protocol), protocol, namespace={})
    run = agent.run("Well?", output_type=kind)
    assert (run.status, run.value) == ("answered", value)
