"""Minimal tools and drivers to test the loop by hand."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.events import (
    AskModel,
    CallOutcome,
    CallOutcomes,
    Ending,
    ModelReply,
    NoReply,
    Notice,
    RunCalls,
    ToolCall,
    WireCall,
)
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.loop.wire import Wire

Protocol = Literal["react", "native"]
PROTOCOLS: tuple[Protocol, ...] = ("react", "native")
_SCHEMA = {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}


@dataclass
class Card:
    """A tool as the loop sees it."""

    name: str
    repeat: bool = False

    @property
    def text(self) -> str:
        return f"{self.name}:\n    A tool."

    def spec(self, level: Any = "full") -> Any:
        return {
            "type": "function",
            "function": {"name": self.name, "description": "A tool.", "parameters": _SCHEMA},
        }

    def input_schema(self, level: Any = "simple") -> Any:
        return _SCHEMA


TOOLS = {name: Card(name) for name in ("look", "put", "other")}


def over(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test with each of these values as a single case; the arguments are those of `parametrize`."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    def loop(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            for value in values:
                given = dict(zip(keys, value if len(keys) > 1 else [value], strict=True))
                try:
                    test(*args, **given, **kwargs)
                except BaseException as error:
                    error.add_note(f"with {given!r}")
                    raise

        signature = inspect.signature(test)
        rest = [each for each in signature.parameters.values() if each.name not in keys]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return loop


over_protocols = over("protocol", PROTOCOLS)


def wire(protocol: Protocol) -> Wire:
    """A wire protocol with three tools."""
    return FunctionCalling(TOOLS) if protocol == "native" else TextProtocol(TOOLS)


def calling(protocol: Protocol, *calls: tuple[str, Any], thought: str = "") -> ModelReply:
    """A reply with calls."""
    if protocol == "native":
        sent = tuple(
            WireCall(name, given if isinstance(given, str) else json.dumps(given))
            for name, given in calls
        )
        return ModelReply(thought, sent, finish="tool_calls")
    actions = [{"thought": thought, "tool": name, "tool_input": given} for name, given in calls]
    return ModelReply(json.dumps(actions if len(actions) > 1 else actions[0]))


def answering(protocol: Protocol, text: str) -> ModelReply:
    """A reply with the answer."""
    return ModelReply(text) if protocol == "native" else calling("react", ("final_answer", text))


@dataclass
class Drive:
    """One question, driven by hand: replies by script, outcomes by a function of the call."""

    protocol: Protocol
    replies: list[ModelReply | NoReply]
    outcome: Callable[[ToolCall], str] = lambda call: "3"
    limits: Limits = field(default_factory=Limits)
    may_repeat: tuple[str, ...] = ()
    clock: Callable[[], float] = lambda: 0.0
    asked: list[AskModel] = field(default_factory=list)
    ran: list[ToolCall] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    exchange: Exchange = field(default_factory=lambda: Exchange("Well?"))

    def __post_init__(self) -> None:
        self.guards = Guards(self.limits, self.clock, CallsOfReplies(self.may_repeat))

    def run(self) -> Ending:
        """Drive the loop to its ending."""
        flow = react_loop(wire(self.protocol), self.guards, (), self.exchange)
        replies: Iterator[ModelReply | NoReply] = iter(self.replies)
        reply: Any = None
        while True:
            try:
                request = flow.send(reply)
            except StopIteration as ended:
                ending: Ending = ended.value
                return ending
            if isinstance(request, AskModel):
                self.asked.append(request)
                reply = next(replies)
            elif isinstance(request, RunCalls):
                self.ran += request.calls
                reply = CallOutcomes(tuple(self._outcome(call) for call in request.calls))
            else:
                self.notices.append(request)
                reply = None

    def _outcome(self, call: ToolCall) -> CallOutcome:
        text = self.outcome(call)
        return CallOutcome("error" if text.startswith("error") else "done", text, call_id=call.id)

    @property
    def outcomes(self) -> list[CallOutcome]:
        """All outcomes of the record."""
        return [outcome for step in self.exchange.steps for outcome in step.outcomes]


__all__ = [
    "PROTOCOLS",
    "Card",
    "Drive",
    "Protocol",
    "answering",
    "calling",
    "over_protocols",
    "wire",
]
