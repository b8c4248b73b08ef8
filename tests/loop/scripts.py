"""Scripts of whole conversations, and the checks that hold for each of them wherever it is cut."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Generator
from typing import Any, Literal

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import (
    AskModel,
    CallOutcomes,
    Delta,
    Event,
    ModelReply,
    Notice,
    WireCall,
)
from archytas_nb.run import Run, to_json
from tests.strict import fault_of, is_prefix

PROTOCOLS: tuple[Literal["react", "native"], ...] = ("react", "native")


class Box:
    """Tools that note each time they are run.

    Args:
        cut: At which run something happens in the tool.
        what: What then happens.
        words: How many words ``look`` says beside what it sees.
    """

    def __init__(
        self, cut: int | None = None, what: BaseException | None = None, words: int = 0
    ) -> None:
        self.words = words
        self.ran: list[str] = []
        self.cut = cut
        self.what = what
        self.state = 0

    def _run(self, name: str) -> None:
        self.ran.append(name)
        if self.what is not None and len(self.ran) - 1 == self.cut:
            raise self.what

    def tools(self) -> nb.Toolbox:
        def look(place: str, deep: bool = False) -> int | str:
            """Look at something.

            Args:
                place: Where
                deep: How
            """
            self._run("look")
            return f"{self.state} {'word ' * self.words}" if self.words else self.state

        def put(place: str, n: int) -> str:
            """Put something there.

            Args:
                place: Where
                n: How many
            """
            self._run("put")
            self.state += n
            return f"{self.state} there"

        def boom(why: str) -> str:
            """Fail.

            Args:
                why: The reason
            """
            self._run("boom")
            raise LookupError(why)

        return nb.Toolbox(look, put, boom)


class Script:
    """A model that says what a script says, then answers; every request is judged as a strict server would."""

    name = "script"

    def __init__(
        self, replies: list[Any], protocol: Literal["react", "native"], context: int | None = None
    ) -> None:
        self.context_tokens = context
        self.protocol: Literal["react", "native"] = protocol
        self.replies = list(replies)
        self.asked: list[AskModel] = []
        self.calls = 0

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        assert fault_of(ask.messages) == "", ask.messages
        self.asked.append(ask)
        assert len(self.asked) < 60, "it does not end"
        said = self.replies.pop(0) if self.replies else "answer"
        yield Delta("text", "…")
        if isinstance(said, BaseException):
            raise said
        return said_in(self.protocol, said)


def said_in(protocol: str, said: Any) -> ModelReply:
    """A reply of a script in a wire form: ``"answer"``, a list of calls, or a `ModelReply` as it is."""
    if isinstance(said, ModelReply):
        return said
    if protocol == "native":
        if said == "answer":
            return ModelReply("All done.")
        return ModelReply(
            "",
            tuple(WireCall(name, json.dumps(given)) for name, given in said),
            finish="tool_calls",
        )
    if said == "answer":
        return ModelReply('{"thought": "", "tool": "final_answer", "tool_input": "All done."}')
    return ModelReply(json.dumps([{"tool": name, "tool_input": given} for name, given in said]))


ODD = [
    "", "42", "true", "Hello there.", '{"tool": "look", "tool_input": {"place": "her',
    '{"tool": "nothing", "tool_input": 1}',
    "<think>hm", '{"a": 1}', '{"tool": "look", "tool_input": {"place": 3, "x": 1}}',
    "<tool_call>{look}</tool_call>", "\ud800 odd",
]  # fmt: skip


def random_script(seed: int) -> list[Any]:
    """Replies of every kind."""
    rng = random.Random(seed)
    calls = [
        ("look", {"place": "a"}), ("look", {"place": "b", "deep": True}), ("put", {"place": "a", "n": 1}),
        ("put", {"place": "b", "n": 2}), ("boom", {"why": "no"}), ("look", {"wrong": 1}),
        ("unknown tool!", {"x": 1}),
    ]  # fmt: skip
    script: list[Any] = []
    for _ in range(rng.randint(1, 7)):
        kind = rng.random()
        if kind < 0.7:
            script.append([rng.choice(calls) for _ in range(rng.choice([1, 1, 1, 2, 3]))])
        elif kind < 0.85:
            script.append(ModelReply(rng.choice(ODD), finish=rng.choice(["stop", "length"])))
        else:
            script.append(
                ModelReply(
                    "",
                    (WireCall("look", rng.choice(['{"place": "x', "{}", "", "[1", "nonsense"])),),
                )
            )
    return script


# ── what holds however a run ended ────────────────────────────────────────────────────────────────


def check(agent: nb.Agent, box: Box, model: Script, run: Run) -> None:
    """The invariants of a run that is over."""
    ran = list(box.ran)
    assert run.ending is not None
    check_record(agent, ran)
    check_requests(model)
    for event in run.events:
        json.dumps(to_json(event))
    told = [event for event in run.events if isinstance(event, CallOutcomes)]
    assert all(outcome.text for event in told for outcome in event.outcomes)
    assert box.ran == ran, "something ran after the run had returned"
    check_next_question(agent, box)


def check_record(agent: nb.Agent, ran: list[str]) -> None:
    """The history is one that a strict server takes, in both wire forms; each call has exactly one outcome."""
    spoken = agent.protocol
    for protocol in PROTOCOLS:
        agent.protocol = protocol
        assert fault_of(agent.messages) == "", agent.messages
    agent.protocol = spoken
    steps = [step for exchange in agent.exchanges for step in exchange.steps]
    pairs = [pair for step in steps for pair in zip(step.calls, step.outcomes, strict=True)]
    ids = [call.id for call, _ in pairs]
    assert len(set(ids)) == len(ids)
    assert [outcome.call_id for _, outcome in pairs] == ids
    # What ran is in the record, in its order; what the record calls done or failed in a tool did run.
    reached = [call.name for call, outcome in pairs if _did_run(outcome)]
    assert reached == ran, pairs


def _did_run(outcome: Any) -> bool:
    if outcome.status == "done":
        return "it was not run again" not in outcome.text
    if outcome.status == "interrupted":
        return "while it ran" in outcome.text
    return (
        outcome.status == "error" and "scripts.py, line" in outcome.text
    )  # it has a frame of the tool


def check_requests(model: Script) -> None:
    """Each request extends the one before, which is what hits prompt caches; the last turn may add words."""
    asked = model.asked
    if model.context_tokens is not None:  # a compaction begins the messages anew
        return
    for earlier, later in itertools.pairwise(asked):
        assert is_prefix(earlier.messages, later.messages) or is_prefix(
            earlier.messages[:-1], later.messages
        )
    steps = [ask for ask in asked if not _is_last(ask)]
    for earlier, later in itertools.pairwise(steps):
        assert is_prefix(earlier.messages, later.messages)


def _is_last(ask: AskModel) -> bool:
    return "The run must end now" in str(ask.messages[-1]["content"])


def check_next_question(agent: nb.Agent, box: Box) -> None:
    """The conversation goes on."""
    box.what = None
    before = len(box.ran)
    model = Script([[("put", {"place": "z", "n": 1})]], agent.model.protocol)
    agent.model = model
    limits, agent.limits = agent.limits, type(agent.limits)()
    run = agent.run("And now?")
    agent.limits = limits
    assert (run.status, run.answer, len(box.ran)) == ("answered", "All done.", before + 1)
    assert fault_of(agent.messages) == ""


def new(
    protocol: Literal["react", "native"],
    script: list[Any],
    box: Box | None = None,
    context: int | None = None,
    **options: Any,
) -> Any:
    """An agent with its tools and its scripted model."""
    box = box or Box()
    model = Script(script, protocol, context)
    return nb.Agent(box.tools(), model=model, namespace={}, **options), box, model


def ended(agent: nb.Agent, question: str = "Well?", observers: Any = (), **asked: Any) -> Run:
    """Run a question to whatever end, and return its run."""
    try:
        return agent.run(question, observers=observers, **asked)
    except (nb.ModelError, nb.TaskFailed, nb.RunInterrupted) as error:
        return error.run or Run("no run is attached to the error")


__all__ = ["Box", "Event", "ModelError", "Script", "check", "ended", "new", "random_script"]
