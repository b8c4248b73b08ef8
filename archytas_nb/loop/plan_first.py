"""A plan before a run: the model writes steps, a person approves them, and calls tick them off.

    AskModel ──▶ ApprovePlan ──approved──▶ the run, with the plan below its question
       ▲              │ refused with a reason
       └──────────────┘            refused without one, or stopped: the run ends

No call is made before the plan is approved. A step is ticked off when a call of its tool has
succeeded; a notice tells of a call that no open step names, and of a step that was left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from archytas_nb.loop.events import (
    Answered,
    ApprovePlan,
    AskModel,
    CallOutcomes,
    Ending,
    Failed,
    Interrupted,
    Json,
    Message,
    ModelReply,
    NoReply,
    Notice,
    PlanDecision,
    Requests,
    RunCalls,
    Stopped,
)
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.loop import Flow
from archytas_nb.loop.reading.lenient import UnreadableError, read_json
from archytas_nb.loop.reading.reply import prose_of
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.tokens import message_tokens
from archytas_nb.loop.wire import with_text
from archytas_nb.words import collapse_whitespace, did_you_mean

MAX_STEPS = 10
_MAX_TEXT = 300  # characters of a part of a step
_MAX_PLANS = 5  # that the model writes after refusals
_MAX_REPLIES = 3  # until one of them is a plan
_NUMBER = re.compile(r"\A(?:\s*\d+\s*[.)](?!\d))+\s*")
"""Before a step; it is not part of it."""

_ASK = """
Do not begin yet: nothing is run now. First write a plan of your work, as one JSON object and \
nothing else:
{{"steps": [{{"what": "…", "tool": "…", "check": "…"}}]}}
- what: one short sentence that says what the step does
- tool: the function that the step calls, one of {tools}; "" if it calls none
- check: what will show that the step is right
As few steps as are needed, at most {most}, in their order. The user reads the plan and may change \
it; then you carry it out."""
_REFUSED = "The user did not approve this plan, and said: {reason}\nWrite another one."
_APPROVED = """
This plan was approved. Carry it out, step by step:
{steps}
If a step turns out to be wrong or needless, leave it and say so in the answer."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan.

    Attributes:
        what: Its task.
        tool: The tool that it calls; empty if it calls none.
        check: The sign that it is right.
    """

    what: str
    tool: str = ""
    check: str = ""

    @property
    def line(self) -> str:
        """The step as a line that `read_plan` reads."""
        parts = [each.replace("|", "/") for each in (self.what, self.tool, self.check)]
        return " | ".join(parts).rstrip(" |")

    def __str__(self) -> str:
        calls = f" – calls {self.tool}" if self.tool else ""
        check = f" – check: {self.check}" if self.check else ""
        return f"{self.what}{calls}{check}"


Plan = tuple[PlanStep, ...]


def text_of(plan: Plan) -> str:
    """A plan as text, in which each line is a step: ``what | tool | check``."""
    return "\n".join(each.line for each in plan)


def read_plan(text: str, tools: Collection[str]) -> Plan:
    """A plan from text that a person has edited, with a step on each line.

    Args:
        text: The text; empty lines and numbers before steps do not count.
        tools: The tools that steps may call.

    Raises:
        ValueError: It is not a plan; the message says which step is wrong.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    steps = []
    for line in lines:
        parts = [part.strip() for part in _NUMBER.sub("", line).split("|")]
        if len(parts) > 3:
            raise ValueError(
                f"{line.strip()!r} has {len(parts)} parts; expected what | tool | check"
            )
        steps.append(PlanStep(*parts))
    return _checked(steps, tools)


def plan_in(reply: ModelReply, tools: Collection[str]) -> Plan:
    """The plan in a reply of the model; raises ValueError."""
    if reply.calls:
        raise ValueError("nothing is run before the plan is approved: reply with the plan alone")
    text = prose_of(reply)
    begin = text.find("{")
    if begin < 0:
        raise ValueError("the reply has no JSON object")
    try:
        found = read_json(text, begin, allow_unclosed=True).value
    except UnreadableError as error:
        raise ValueError(f"the JSON cannot be read: {error.why}") from None
    listed = _steps_in(found)
    if listed is None:
        raise ValueError('the object has no list "steps"')
    steps = []
    for each in listed:
        if not isinstance(each, dict):
            each = {"what": each}  # noqa: PLW2901 - a step that is only a text
        parts = (each.get(name) or "" for name in ("what", "tool", "check"))
        what, *others = (collapse_whitespace(str(part), _MAX_TEXT) for part in parts)
        steps.append(PlanStep(_NUMBER.sub("", what), *others))
    return _checked(steps, tools)


def _steps_in(found: Json, depth: int = 3) -> list[Json] | None:
    """The steps in an object, or in one inside it: a model may give the plan as its answer."""
    if isinstance(found, str) and "{" in found:
        with suppress(UnreadableError):
            found = read_json(found, found.index("{")).value
    if not isinstance(found, dict) or not depth:
        return None
    if isinstance(found.get("steps"), list):
        return list(found["steps"])
    inner = (_steps_in(each, depth - 1) for each in found.values())
    return next((each for each in inner if each is not None), None)


def _checked(steps: Sequence[PlanStep], tools: Collection[str]) -> Plan:
    if not steps:
        raise ValueError("the plan has no step")
    if len(steps) > MAX_STEPS:
        raise ValueError(f"the plan has {len(steps)} steps; expected at most {MAX_STEPS}")
    for number, step in enumerate(steps, 1):
        if not step.what:
            raise ValueError(f"step {number} does not say what it does")
        if step.tool and step.tool not in tools:
            guess = did_you_mean(step.tool, tools) or ";"
            raise ValueError(
                f"step {number} calls {step.tool!r}, which is no tool{guess} expected one of "
                f"{', '.join(tools)}, or none"
            )
    return tuple(steps)


@dataclass(slots=True)
class Progress:
    """The steps of a plan that are done, judged by the calls.

    Args:
        plan: The plan.
        free: Tools that may be called at any time, such as those that read variables.
    """

    plan: Plan
    free: Collection[str] = ()
    _done: set[int] = field(default_factory=set)
    _at: int = -1  # the step that was ticked off last

    def called(self, tool: str) -> Iterator[Notice]:
        """Record a successful call in the plan."""
        if self._at >= 0 and self.plan[self._at].tool == tool and self._next(tool) is None:
            return  # the step goes on
        place = self._next(tool)
        if place is None:
            if tool not in self.free:
                yield Notice("deviation", f"not in the plan: a call of {tool}")
            return
        for before in range(place):
            if before in self._done or not self.plan[before].tool:
                yield from self._tick(before)
            else:
                yield Notice(
                    "deviation",
                    f"step {place + 1} came before step {before + 1}: {self.plan[before].what}",
                )
        yield from self._tick(place)
        self._at = place

    def ended(self) -> Iterator[Notice]:
        """Record the effect of an answer on the open steps."""
        for place, step in enumerate(self.plan):
            if not step.tool:
                yield from self._tick(place)
            elif place not in self._done:
                yield Notice("deviation", f"step {place + 1} was left out: {step.what}")

    def _next(self, tool: str) -> int | None:
        """The first open step that calls a tool."""
        steps = enumerate(self.plan)
        return next((n for n, each in steps if n not in self._done and each.tool == tool), None)

    def _tick(self, place: int) -> Iterator[Notice]:
        if place not in self._done:
            self._done.add(place)
            done = f"{place + 1} of {len(self.plan)}"
            yield Notice("plan", f"step {done} is done: {self.plan[place].what}")


@dataclass(slots=True)
class PlannedRun:
    """A run that begins with a plan.

    Args:
        first: Returns the first request of the run without a plan.
        tools: The tools that it may call.
        free: The tools that it may call at any time without a deviation.
        exchange: Its record, which gets the plan.
        guards: Its limits.
        max_tokens: Maximum number of tokens of a plan; None for the model's default.
    """

    first: Callable[[], AskModel]
    tools: Collection[str]
    free: Collection[str]
    exchange: Exchange
    guards: Guards
    max_tokens: int | None = None
    _progress: Progress | None = None  # once there is a plan

    def flow(self, run: Flow) -> Flow:
        """Plan, unless there is a plan already, and then run."""
        if self._progress is None:
            planned = yield from self._planned()
            if not isinstance(planned, tuple):
                self.exchange.ending = planned
                return planned
            plan, is_asked = planned
            self._progress = Progress(plan, self.free)
            steps = "\n".join(f"{n}. {each}" for n, each in enumerate(plan, 1))
            self.exchange.plan = _APPROVED.format(steps=steps).strip()
            how = "you approved" if is_asked else "nobody was asked about"
            yield Notice("plan", f"{how} the plan:\n{steps}")
        return (yield from self._ticked(run, self._progress))

    def _planned(self) -> Requests[tuple[Plan, bool] | Ending]:
        """A plan, and whether a person approved it; or the ending, as there is none."""
        first = self.first()
        tools = ", ".join(map(repr, self.tools)) or "none"
        begun = first.messages
        if first.is_continued:  # the last message is the beginning of a reply, which is not a plan
            begun = begun[:-1]
        messages = with_text(begun, _ASK.format(tools=tools, most=MAX_STEPS).strip())
        for _ in range(_MAX_PLANS):
            written = yield from self._written(first, messages)
            if not isinstance(written, tuple):
                return written
            reply, plan = written
            decided = yield ApprovePlan(text_of(plan), tuple(self.tools))
            if not isinstance(decided, PlanDecision):
                raise TypeError(f"the driver sent {decided!r}; expected a PlanDecision")
            if decided.is_approved:
                return read_plan(decided.text, self.tools), decided.is_asked
            if not decided.reason:
                return Interrupted("the plan")
            messages = _again(messages, reply, _REFUSED.format(reason=decided.reason))
        return Interrupted("the plan")

    def _written(
        self, first: AskModel, messages: Sequence[Message]
    ) -> Requests[tuple[ModelReply, Plan] | Ending]:
        """A plan of the model, with the reply that it is in."""
        fault = ""
        for _ in range(_MAX_REPLIES):
            if limit := self.guards.used_up():
                return Stopped(limit)
            request = replace(
                first,
                messages=tuple(messages),
                schema=None if first.tools else _schema(self.tools),
                grammar="",
                stop=(),
                is_continued=False,
                about="the plan",
                max_tokens=self.max_tokens,
                seconds=self.guards.seconds_left(),
            )
            reply = yield request
            if isinstance(reply, NoReply):
                return _ending_of(reply, self.guards)
            if not isinstance(reply, ModelReply):
                raise TypeError(f"the driver sent {reply!r}; expected a ModelReply or a NoReply")
            self.guards.add_usage(reply, message_tokens(request.messages))
            try:
                return reply, plan_in(reply, self.tools)
            except ValueError as error:
                fault = str(error)
            yield Notice("retry", f"the reply is no plan: {fault}")
            messages = _again(messages, reply, f"This is no plan: {fault}. Write it again.")
        return Failed(f"the model wrote no plan: {fault}")

    def _ticked(self, run: Flow, progress: Progress) -> Flow:
        """The run, with a notice for each step that is done and each deviation."""
        reply = None
        while True:
            try:
                request = run.send(reply)
            except StopIteration as ended:
                ending: Ending = ended.value
                if isinstance(ending, Answered):
                    for each in progress.ended():
                        yield each
                return ending
            reply = yield request
            if isinstance(request, RunCalls) and isinstance(reply, CallOutcomes):
                for call, outcome in zip(request.calls, reply.outcomes, strict=True):
                    if outcome.status == "done":
                        for each in progress.called(call.name):
                            yield each


def _again(messages: Sequence[Message], reply: ModelReply, text: str) -> tuple[Message, ...]:
    said = {"role": "assistant", "content": prose_of(reply) or "(no text)"}
    return (*messages, said, {"role": "user", "content": text})


def _ending_of(reply: NoReply, guards: Guards) -> Ending:
    if reply.kind == "interrupted":
        return Interrupted("a request to the model")
    if reply.kind == "deadline":
        return Stopped(f"max_seconds={guards.limits.max_seconds or 0:g}")
    return Failed(reply.text, by="endpoint")


def _schema(tools: Collection[str]) -> Json:
    """The JSON schema of a plan."""
    text = {"type": "string"}
    parts = {"what": text, "tool": {"type": "string", "enum": [*tools, ""]}, "check": text}
    step = {
        "type": "object",
        "properties": parts,
        "required": [*parts],
        "additionalProperties": False,
    }
    steps = {"type": "array", "items": step, "minItems": 1, "maxItems": MAX_STEPS}
    return {
        "type": "object",
        "properties": {"steps": steps},
        "required": ["steps"],
        "additionalProperties": False,
    }
