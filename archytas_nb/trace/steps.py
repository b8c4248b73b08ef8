"""Fold the events of a run into what a person sees of it.

`advance` takes a view and one event and gives the next view; `fold` does so for a whole run. Text, Markdown,
HTML and widgets all draw from the same `RunView`, so they cannot tell different stories. Views are frozen,
bounded in size whatever a tool printed, and hold no objects of the user's. What is not the same in a second
run (tokens, seconds) is kept out of equality. This file knows the events, and nothing of how they are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from archytas_nb.react.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Ending,
    Event,
    Failed,
    Interrupted,
    Json,
    ModelReply,
    NoReply,
    Notice,
    NoticeKind,
    Output,
    RunCalls,
    Started,
    Status,
    Stopped,
    ToolCall,
    Usage,
    Verdict,
)
from archytas_nb.trace.clean import KEEP, tidy
from archytas_nb.trace.table import Table, read_table, table_of

_IMAGES = ("image/png", "image/jpeg", "image/svg+xml", "image/gif", "image/webp")
_NAME_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a tool made; `data` is base64, or XML where the media type is SVG."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing that a tool printed or displayed: text, or a table, or a picture."""

    kind: Literal["stdout", "stderr", "display"]
    text: str = ""
    table: Table | None = None
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class CallView:
    """One call and what became of it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: Name and value of each argument, the value as Python text; a bare input has the name ``""``.
        status: None while the call runs.
        text: What the model read of the outcome.
        shown: What the tool printed and displayed, in order, where `text` does not already say it.
        table: The returned value, where it is a data frame.
    """

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    status: Status | None = None
    text: str = ""
    shown: tuple[Shown, ...] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A notice, or the reason why no reply came (kind ``"no_reply"``)."""

    kind: NoticeKind | Literal["no_reply"]
    text: str


@dataclass(frozen=True, slots=True)
class StepView:
    """One turn of the model: what it thought, what it called, what happened.

    Attributes:
        number: Counts from 1; 0 holds what happened before the model was first asked.
        thought: Why the model did what it did, in its words.
        reasoning: What a reasoning model thought on its own account.
        reply: The reply's text until calls or an ending come of it.
        rejected: Replies of which nothing could be made.
    """

    number: int
    thought: str = ""
    reasoning: str = ""
    calls: tuple[CallView, ...] = ()
    notes: tuple[Note, ...] = ()
    reply: str | None = None
    rejected: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a person should look at this step without being asked to."""
        return (
            any(call.status == "error" for call in self.calls)
            or any(note.kind == "no_reply" for note in self.notes)
            or bool(self.rejected)
        )

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show but the ending that came of it."""
        return not (self.thought or self.reasoning or self.calls or self.notes or self.rejected)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as far as it went.

    Attributes:
        question: What was asked.
        model: The name that the server gave itself, or the one that was asked for.
        protocol: ``"react"``, ``"native"`` or empty.
        steps: The turns of the model, in order.
        ending: None while the run goes on, or where it was cut off.
        usage: Requests and tokens so far.
        seconds: What the model and the tools took so far.
    """

    question: str
    model: str = ""
    protocol: str = ""
    steps: tuple[StepView, ...] = ()
    ending: Ending | None = None
    usage: Usage = field(default=Usage(), compare=False)
    seconds: float = field(default=0.0, compare=False)


def fold(question: str, events: Iterable[Event], *, model: str = "", protocol: str = "") -> RunView:
    """Make the view of a whole run.

    Args:
        question: What was asked.
        events: The run's events, in order; it may have been cut off anywhere.
        model: The model's name, where the replies do not tell it.
        protocol: How the model was spoken to.
    """
    view = RunView(tidy(question), model, protocol)
    for event in events:
        view = advance(view, event)
    return view


def advance(view: RunView, event: Event) -> RunView:  # noqa: C901 (one case for each event reads best)
    """Take one event into a view.

    Args:
        view: The view so far; it stays as it is.
        event: Any event. `Delta` and progress change nothing, they are gone when the run is over; nor does
            the notice of a limit, which the ending repeats.

    Returns:
        The next view.
    """
    last = view.steps[-1] if view.steps else StepView(0)
    match event:
        case Started() | CheckAnswer() | Verdict():
            return view
        case Delta() | Notice(kind="progress" | "limit"):
            return view
        case AskModel():
            return _ask(view, last, event.step)
        case ModelReply():
            step = replace(last, reply=tidy(event.text), reasoning=_joined(last.reasoning, event.reasoning))
            return replace(
                _with_last(view, step),
                model=event.model or view.model,
                usage=view.usage + replace(event.usage, requests=event.usage.requests or 1),
                seconds=view.seconds + event.seconds,
            )
        case NoReply():
            if event.kind == "interrupted" or not event.text:
                return view
            return _with_last(view, replace(last, notes=(*last.notes, Note("no_reply", tidy(event.text)))))
        case Notice():
            # An earlier outcome that is repeated is what came of the reply: it was not rejected.
            reply = None if event.kind == "repeat" else last.reply
            notes = (*last.notes, Note(event.kind, tidy(event.text)))
            return _with_last(view, replace(last, reply=reply, notes=notes))
        case RunCalls():
            calls = tuple(_call(call) for call in event.calls)
            thought = _joined(last.thought, event.thought)
            return _with_last(view, replace(last, reply=None, thought=thought, calls=(*last.calls, *calls)))
        case CallOutcomes():
            return replace(
                _with_last(view, replace(last, calls=_answered(last.calls, event.outcomes))),
                seconds=view.seconds + sum(outcome.seconds for outcome in event.outcomes),
            )
        case Answered():
            thought = _joined(last.thought, event.thought)
            return replace(_with_last(view, replace(last, reply=None, thought=thought)), ending=event)
        case Failed() | Stopped() | Interrupted():
            return replace(_with_last(view, _ended(last, event)), ending=event)
    assert_never(event)


def _ask(view: RunView, last: StepView, number: int) -> RunView:
    last = _reject(last)
    steps = (*view.steps[:-1], last) if view.steps else ()
    if last.number == number and view.steps:  # the same question once more: another protocol, another try
        return replace(view, steps=steps)
    return replace(view, steps=(*steps, StepView(number)))


def _reject(step: StepView) -> StepView:
    if step.reply is None:
        return step
    return replace(step, reply=None, rejected=(*step.rejected, step.reply or "(empty)"))


def _ended(step: StepView, ending: Failed | Stopped | Interrupted) -> StepView:
    if isinstance(ending, Failed):  # the ending says why no reply came; once is enough
        said = Note("no_reply", tidy(ending.reason))
        step = replace(step, notes=tuple(note for note in step.notes if note != said))
    # What the model said at a limit, or gave up with, is in the ending; any other reply led nowhere.
    used = isinstance(ending, Stopped) or (isinstance(ending, Failed) and ending.by == "model")
    return replace(step, reply=None) if used else _reject(step)


def _with_last(view: RunView, step: StepView) -> RunView:
    if not view.steps and step.empty and step.reply is None:
        return view
    return replace(view, steps=(*view.steps[:-1], step))


def _joined(first: str, second: str) -> str:
    second = tidy(second).strip()
    return f"{first}\n{second}" if first and second and first != second else first or second


def _call(call: ToolCall) -> CallView:
    if isinstance(call.input, dict) and all(str(name).isidentifier() for name in call.input):
        arguments = tuple((name, literal(value)) for name, value in call.input.items())
    elif call.input is None:
        arguments = ()
    else:
        arguments = (("", literal(call.input)),)
    return CallView(tidy(call.name, _NAME_LIMIT) or "(no name)", arguments)


def literal(value: Json) -> str:
    """Write a JSON value as Python would read it; strings keep their double quotes."""
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(literal(item) for item in value) + "]"
    elif isinstance(value, str):
        text = json.dumps(value[: 2 * KEEP], ensure_ascii=False)
    else:
        text = repr(value)
    return tidy(text)


def _answered(calls: tuple[CallView, ...], outcomes: tuple[CallOutcome, ...]) -> tuple[CallView, ...]:
    """Outcomes come in the order of the calls that still wait for one."""
    waiting = iter(outcomes)
    result = []
    for call in calls:
        outcome = next(waiting, None) if call.status is None else None
        result.append(call if outcome is None else _outcome(call, outcome))
    return tuple(result)


def _outcome(call: CallView, outcome: CallOutcome) -> CallView:
    shown = [_shown(output) for output in outcome.outputs]
    seen = {item.picture.data for item in shown if item.picture}
    pictures = [Picture("image/png", data) for data in outcome.images if data not in seen]
    text = tidy(outcome.text)
    table = table_of(outcome.value)
    # Where a table stands for the text, the text is folded away, and what was printed would be with it.
    said = "" if table else text
    fresh = [item for item in shown if item.table or item.picture or (item.text and item.text not in said)]
    return replace(
        call,
        status=outcome.status,
        text=text,
        shown=(*fresh, *(Shown("display", picture=picture) for picture in pictures)),
        table=table,
    )


def _shown(output: Output) -> Shown:
    data = output.data
    for media_type in _IMAGES:
        if isinstance(data.get(media_type), str):
            return Shown(output.kind, picture=Picture(media_type, data[media_type]))
    text = tidy(str(data.get("text/plain", "")))
    html = data.get("text/html")
    return Shown(output.kind, text=text, table=read_table(html) if isinstance(html, str) else None)
