"""Whole runs of every kind, and an oracle for each promise that a run makes, told from its events and its tools.

Nothing here asks the guards or the record what happened: the tools keep a journal, the model keeps its requests.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
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
    RunCalls,
    Stopped,
    ToolCall,
    Usage,
    WireCall,
)
from archytas_nb.loop.profile import LARGE
from tests.strict import fault_of, is_prefix

Protocol = Literal["react", "native"]
PROTOCOLS: tuple[Protocol, ...] = ("react", "native")
ANSWER = "That is all there is."


@dataclass
class Tools:
    """Tools that note what reaches them; at the call number `cut`, something happens in one."""

    journal: list[tuple[str, Any]] = field(default_factory=list)
    state: int = 0
    cut: int = -1
    what: BaseException | None = None

    def note(self, name: str, given: Any) -> None:
        self.journal.append((name, given))
        if self.what is not None and len(self.journal) - 1 == self.cut:
            raise self.what

    def box(self) -> nb.Toolbox:
        def look(place: str) -> str:
            """Look at something.

            Args:
                place: Where
            """
            self.note("look", {"place": place})
            return f"{self.state} at {place}"

        def put(place: str, n: int) -> str:
            """Put something there.

            Args:
                place: Where
                n: How many
            """
            self.note("put", {"place": place, "n": n})
            self.state += n
            return f"{self.state} there"

        def boom(why: str) -> str:
            """Fail.

            Args:
                why: The reason
            """
            self.note("boom", {"why": why})
            raise LookupError(why)

        def tell(n: int) -> str:
            """Tell a long story.

            Args:
                n: How long
            """
            self.note("tell", {"n": n})
            return " ".join(f"{n}.{word}" for word in range(n))

        async def wait(n: int) -> int:
            """Wait.

            Args:
                n: How long
            """
            self.note("wait", {"n": n})
            return n

        def drop(place: str) -> str:
            """Throw away.

            Args:
                place: Where
            """
            self.note("drop", {"place": place})
            return "dropped"

        def roll() -> int:
            """Roll the dice."""
            self.note("roll", {})
            return 4

        def stop() -> None:
            """Do what Ctrl-C does."""
            self.note("stop", {})
            raise KeyboardInterrupt

        box = nb.Toolbox(look, put, boom, tell, wait, stop)
        box.add(drop, approve=True)
        box.add(roll, repeat=True)
        return box


CALLS: list[tuple[str, Any]] = [
    ("look", {"place": "a"}), ("look", {"place": "b"}), ("put", {"place": "a", "n": 1}), ("boom", {"why": "no"}),
    ("tell", {"n": 300}), ("tell", {"n": 500}), ("wait", {"n": 1}), ("wait", {"n": 2}), ("drop", {"place": "a"}),
    ("roll", {}), ("look", {"wrong": 1}), ("no thing!", {"x": 1}),
]  # fmt: skip
BROKEN = '{"tool": "look", "tool_input": {"place": "her'
ODD = [
    "",
    "<think>hm\ud800",
    BROKEN,
    "42",
    '{"a": 1}',
    "Hello there.",
    '{"tool": "nothing", "tool_input": 1}',
]


def story(seed: int) -> list[Any]:
    """Replies of every kind: lists of calls, calls with an answer, answers, odd texts, broken calls, refusals."""
    rng = random.Random(seed)
    few = rng.sample(CALLS, 5)  # so that there are repetitions
    replies: list[Any] = []
    for _ in range(rng.randint(3, 9)):
        kind = rng.random()
        calls = [rng.choice(few) for _ in range(rng.choice([1, 1, 2, 3]))]
        if kind < 0.66:
            replies.append(calls)
        elif kind < 0.73:
            replies.append([*calls, ("final_answer", rng.choice(["short", ANSWER]))])
        elif kind < 0.80:
            replies.append([("final_answer", rng.choice(["short", {"n": 1}, ANSWER]))])
        elif kind < 0.90:
            replies.append(rng.choice(ODD))
        elif kind < 0.97:
            kinds: Any = rng.choice(["overflow", "overflow", "server", "deadline"])
            replies.append(ModelError(f"it was the {kinds}", kind=kinds))
        else:
            replies.append([*calls, ("fail_task", "I cannot")])
    return replies


class Teller:
    """A model that tells a story, and then answers for ever."""

    name = "teller"

    def __init__(self, replies: list[Any], protocol: Protocol, context: int | None) -> None:
        self.protocol: Protocol = protocol
        self.context_tokens = context
        self.replies = list(replies)
        self.asked: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        if ask.about:  # apart from the conversation
            assert ask.messages[0]["role"] == "user" or ask.tools  # or it extends the conversation
            return ModelReply("A summary.")
        self.asked.append(ask)
        assert len(self.asked) < 100, "it does not end"
        said = self.replies.pop(0) if self.replies else [("final_answer", ANSWER)]
        yield Delta("text", "…")
        if isinstance(said, BaseException):
            raise said
        return worded(said, self.protocol)


def worded(said: Any, protocol: Protocol) -> ModelReply:
    """A reply of a story in a wire form."""
    usage = Usage(1, 50, 0, 10)
    if said == BROKEN and protocol == "native":
        broken = tuple(WireCall("look", given) for given in ('{"place": "x', "[1", ""))
        return ModelReply("", broken, finish="length", usage=usage)
    if isinstance(said, str):
        return ModelReply(said, usage=usage)
    if protocol == "react":
        acts = [{"thought": "so", "tool": name, "tool_input": given} for name, given in said]
        return ModelReply(json.dumps(acts[0] if len(acts) == 1 else acts), usage=usage)
    sent = [(name, given if isinstance(given, dict) else {"answer": given}) for name, given in said]
    return ModelReply(
        "so", tuple(WireCall(name, json.dumps(given)) for name, given in sent), usage=usage
    )


# ── the promises ──────────────────────────────────────────────────────────────────────────────────


def check_calls(agent: nb.Agent, tools: Tools) -> None:
    """1 and 6: each call has one outcome of its own; those that ran are those that the tools have seen."""
    ids: list[str] = []
    ran: list[tuple[str, Any]] = []
    for exchange in agent.exchanges:
        for step in exchange.steps:
            statuses = [outcome.status for outcome in step.outcomes]
            assert [call.id for call in step.calls] == [
                outcome.call_id for outcome in step.outcomes
            ]
            ids += [call.id for call in step.calls]
            cut = statuses.index("interrupted") if "interrupted" in statuses else len(statuses)
            assert not any(map(reached, step.outcomes[cut + 1 :])), (
                "after an interrupt nothing more is run"
            )
            assert "not_run" not in statuses[:cut], "a failing call does not discard its siblings"
            pairs = zip(step.calls, step.outcomes, strict=True)
            ran += [(call.name, call.input) for call, outcome in pairs if reached(outcome)]
    assert len(set(ids)) == len(ids)
    assert ran == tools.journal


def reached(outcome: Any) -> bool:
    """Whether an outcome says that its tool was run."""
    if outcome.status == "done":
        return "it was not run again" not in outcome.text
    if outcome.status == "interrupted":
        return "while it ran" in outcome.text
    return (
        outcome.status == "error" and "invariants.py, line" in outcome.text
    )  # a frame of the tool


def check_requests(asked: list[AskModel], events: list[Event], protocol: Protocol) -> None:
    """2 and 7: a strict server takes each request, broken JSON is not sent again, and prefixes are stable."""
    for ask in asked:
        assert fault_of(ask.messages) == "", ask.messages
        said = [message for message in ask.messages if message["role"] == "assistant"]
        for message in said if protocol == "react" else ():
            text = message["content"]
            assert "{" not in text or all(map(json.loads, text.splitlines()))
    compact = compactions(events)
    for n, (earlier, later) in enumerate(itertools.pairwise(asked), start=1):
        if n not in compact:
            size = min(len(earlier.messages), len(later.messages) - is_last(later))
            assert is_prefix(earlier.messages[:size], later.messages)
            assert is_last(later) or size == len(earlier.messages)


def compactions(events: list[Event]) -> set[int]:
    """The places of the requests before which the conversation was compacted."""
    places, count = set(), 0
    for event in events:
        if isinstance(event, Notice) and event.kind == "compaction":
            places.add(count)
        count += isinstance(event, AskModel) and not event.about
    return places


def is_last(ask: AskModel) -> bool:
    return "The run must end now" in str(ask.messages[-1]["content"])


def check_bounds(asked: list[AskModel], run: Any, limits: Any) -> None:
    """4: requests and replies are bounded; the last turn has no tools, and its answer is marked."""
    overflows = sum(
        isinstance(event, Notice) and event.kind == "compaction" for event in run.events
    )
    assert len(asked) <= limits.max_steps + 1 + overflows
    for ask in asked:
        assert ask.max_tokens is not None
        assert 0 < ask.max_tokens <= limits.reply_tokens(LARGE.reply_tokens)
        assert ask.seconds is not None
        if is_last(ask):
            assert not ask.tools
            assert '"look"' not in json.dumps(ask.schema)
    lasts = [is_last(ask) for ask in asked]
    assert not any(lasts) or lasts.index(True) >= len(lasts) - 2, (
        "after the last turn nothing is asked"
    )
    if any(lasts):
        assert run.status in ("stopped", "interrupted", "left")
    assert run.incomplete is isinstance(run.ending, Stopped)


def check_repetition(events: list[Event]) -> None:
    """5: the same call is run again only after something else has happened, or where it failed or may repeat."""
    done: list[tuple[ToolCall, Any]] = []
    for calls, outcomes in ran_in(events):
        done += zip(calls, outcomes, strict=True)
    for at, (call, _) in enumerate(done):
        before = [
            n for n in range(at) if (done[n][0].name, done[n][0].input) == (call.name, call.input)
        ]
        if not before or call.name == "roll":
            continue
        earlier = done[before[-1]][1]
        assert earlier.status == "error" or at - before[-1] > 1, f"{call} was run twice in a row"


def ran_in(events: list[Event]) -> Iterator[tuple[tuple[ToolCall, ...], tuple[Any, ...]]]:
    asked = [event.calls for event in events if isinstance(event, RunCalls)]
    told = [event.outcomes for event in events if isinstance(event, CallOutcomes)]
    return zip(asked, told, strict=False)


def check_history(agent: nb.Agent) -> None:
    """2: the history is one that a strict server takes, in both wire forms."""
    spoken = agent.protocol
    for protocol in PROTOCOLS:
        agent.protocol = protocol
        assert fault_of(agent.messages) == "", agent.messages
    agent.protocol = spoken
