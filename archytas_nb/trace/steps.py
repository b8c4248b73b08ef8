"""Fold the events of a run into what a person sees of it.

`advance` takes a view and one event and gives the next view; `fold` does so for a whole run. Text, Markdown,
HTML and widgets all draw from the same `RunView`, so they cannot tell different stories. This file knows the
events, and nothing of how a view is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Event,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    RunCalls,
    Started,
    Stopped,
    Verdict,
)
from archytas_nb.trace.calls import answered, asked, literal
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.table import table_of
from archytas_nb.trace.values import Note, RunView, StepView

_ANSWER_LIMIT = 200


def fold(question: str, events: Iterable[Event], *, model: str = "", protocol: str = "") -> RunView:
    """Make the view of a whole run.

    Args:
        question: What was asked.
        events: The run's events, in order; it may have been cut off anywhere.
        model: The model's name, where the events do not tell it.
        protocol: How the model was spoken to, where the events do not tell it.
    """
    view = RunView(tidy(question), model, protocol)
    for event in events:
        view = advance(view, event)
    return view


def advance(view: RunView, event: Event) -> RunView:  # noqa: C901, PLR0912 (one case for each event reads best)
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
        case Delta() | Notice(kind="progress" | "limit"):
            return view
        case Started():
            model, spoken = event.model or view.model, event.protocol or view.protocol
            return replace(view, model=model, protocol=spoken, server=event.server)
        case AskModel(step=0):  # about the question, before the first step: only its cost is shown
            return view
        case AskModel():
            return _ask(view, last, event.step)
        case ModelReply():
            step = replace(
                last, reply=tidy(event.text), reasoning=_joined(last.reasoning, event.reasoning)
            )
            return replace(
                _with_last(view, step) if view.steps else view,
                model=event.model or view.model,
                usage=view.usage + replace(event.usage, requests=event.usage.requests or 1),
                seconds=view.seconds + event.seconds,
            )
        case NoReply():
            if event.kind == "interrupted" or not event.text:
                return view
            return _with_last(
                view, replace(last, notes=(*last.notes, Note("no_reply", tidy(event.text))))
            )
        case Notice():
            return _noticed(view, last, event)
        case RunCalls():
            calls = tuple(asked(call) for call in event.calls)
            thought = _joined(last.thought, event.thought)
            return _with_last(
                view, replace(last, reply=None, thought=thought, calls=(*last.calls, *calls))
            )
        case CallOutcomes():
            return _with_last(view, replace(last, calls=answered(last.calls, event.outcomes)))
        case CheckAnswer():
            return _with_last(view, replace(last, reply=literal(event.answer)))
        case Verdict():
            return _judged(view, last, event)
        case Answered():
            thought = _joined(last.thought, event.thought)
            return replace(
                _with_last(view, replace(last, reply=None, thought=thought)), ending=event
            )
        case Failed() | Stopped() | Interrupted():
            return replace(_with_last(view, _ended(last, event)), ending=event)
    assert_never(event)


def _ask(view: RunView, last: StepView, number: int) -> RunView:
    last = _reject(last)
    steps = (*view.steps[:-1], last) if view.steps else ()
    if (
        last.number == number and view.steps
    ):  # the same question once more: another protocol, another try
        return replace(view, steps=steps)
    return replace(view, steps=(*steps, StepView(number)))


def _noticed(view: RunView, last: StepView, notice: Notice) -> RunView:
    # An earlier outcome that is repeated is what came of the reply: it was not rejected.
    reply = None if notice.kind == "repeat" else last.reply
    notes = last.notes
    if notice.kind == "compaction":  # why no reply came is what it is about
        notes = tuple(note for note in notes if note.kind != "no_reply")
    notes = (*notes, Note(notice.kind, tidy(notice.text)))
    if notice.kind == "protocol" and view.protocol == "native":  # the only change that there is
        view = replace(view, protocol="react")
    return _with_last(view, replace(last, reply=reply, notes=notes))


def _judged(view: RunView, last: StepView, verdict: Verdict) -> RunView:
    answer, last = last.reply or "", replace(last, reply=None)
    if verdict.fault:
        said = f"{one_line(answer, _ANSWER_LIMIT)} was not accepted: {tidy(verdict.fault)}"
        return _with_last(view, replace(last, notes=(*last.notes, Note("verdict", said))))
    value = verdict.value
    typed = value is not None and not isinstance(value, str)
    return replace(_with_last(view, last), typed=typed, table=table_of(value))


def _reject(step: StepView) -> StepView:
    if step.reply is None:
        return step
    return replace(step, reply=None, rejected=(*step.rejected, step.reply or "(empty)"))


def _ended(step: StepView, ending: Failed | Stopped | Interrupted) -> StepView:
    if isinstance(ending, Failed):  # the ending says why no reply came; once is enough
        said = Note("no_reply", tidy(ending.reason))
        step = replace(step, notes=tuple(note for note in step.notes if note != said))
    # What the model said at a limit, or gave up with, is in the ending; an interrupt is no reply's fault.
    used = isinstance(ending, (Stopped, Interrupted)) or (
        isinstance(ending, Failed) and ending.by == "model"
    )
    return replace(step, reply=None) if used else _reject(step)


def _with_last(view: RunView, step: StepView) -> RunView:
    if not view.steps and step.empty and step.reply is None:
        return view
    return replace(view, steps=(*view.steps[:-1], step))


def _joined(first: str, second: str) -> str:
    second = tidy(second).strip()
    return f"{first}\n{second}" if first and second and first != second else first or second
