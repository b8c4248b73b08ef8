"""Folds the events of a run into a `RunView`, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from archytas_nb.loop import events as ev
from archytas_nb.trace.calls import call_view, literal, with_outcome
from archytas_nb.trace.safe import MAX_ROWS, table_of
from archytas_nb.trace.view import LINE_VALUE, CallView, Note, ProgramView, RunView, StepView
from archytas_nb.words import collapse_whitespace, tidy, visible_code

_PROGRAM = 100_000  # characters of a program
_SHOWN_VALUES = 50  # maximum number of values that a program showed
_SHOWN = 4_000  # characters of one
_COMPARED = 8  # the last calls of a program, with which the next ones are compared


def fold(
    question: str, events: Iterable[ev.Event], *, model: str = "", protocol: str = ""
) -> RunView:
    """Make the view of a run; model and protocol are used if no event has them."""
    view = RunView(tidy(question), model, protocol)
    for event in events:
        view = advance(view, event)
    return view


def advance(view: RunView, event: ev.Event) -> RunView:  # noqa: C901, PLR0912 (a case per event)
    """Return the view after one more event."""
    last = view.steps[-1] if view.steps else StepView(0)
    match event:
        case ev.Delta() | ev.Notice(kind="progress" | "limit"):  # the ending repeats the limit
            return view
        case ev.ApprovePlan() | ev.PlanDecision():  # a notice has the plan
            return view
        case ev.Started():
            model = event.model or view.model
            protocol = event.protocol or view.protocol
            told = tuple(map(tidy, event.told))
            return replace(view, model=model, protocol=protocol, server=event.server, told=told)
        case ev.AskModel() if event.is_side_request:  # only its cost is shown
            return replace(view, is_side_request=True)
        case ev.AskModel():
            return _asked(view, event)
        case ev.ModelReply():
            if view.steps and not view.is_side_request:
                view = _with_last(view, _with_reply(last, event))
            usage = view.usage + replace(event.usage, requests=event.usage.requests or 1)
            seconds = view.seconds + event.seconds
            model = event.model or view.model
            view = replace(view, api=tidy(event.api) or view.api, is_side_request=False)
            return replace(view, model=model, usage=usage, seconds=seconds)
        case ev.NoReply() if view.is_side_request:
            return replace(view, is_side_request=False)
        case ev.NoReply():
            if event.kind == "interrupted" or not event.text:
                return view
            return _noted(view, last, "no reply", event.text)
        case ev.Notice():
            return _noticed(view, last, event)
        case ev.RunCalls() | ev.CallOutcomes() if last.program is not None:
            return view  # the calls that a program waits for, and `ResumeProgram`, are shown
        case ev.RunCalls():
            return _with_last(view, _with_calls(view, last, event))
        case ev.CallOutcomes():
            last = replace(last, calls=with_outcomes(last.calls, event.outcomes))
            return _corrected(_with_last(view, last))
        case ev.RunProgram():
            return _with_last(view, _with_program(last, event))
        case ev.ProgramWaits():
            return _with_last(view, _with_waiting(last, event))
        case ev.ResumeProgram():
            return _corrected(_with_last(view, _resumed(last, event)))
        case ev.ProgramFaults() | ev.ProgramEnded():
            return _with_last(view, _with_end(last, event))
        case ev.CheckAnswer():
            return _with_last(view, replace(last, reply=literal(event.answer)))
        case ev.Verdict():
            return _judged(view, last, event)
        case ev.Answered():  # its thought repeats the answer
            return replace(_with_last(view, replace(last, reply=None)), ending=event)
        case ev.Failed() | ev.Stopped() | ev.Interrupted():
            return replace(_with_last(view, _ended(last, event)), ending=event)
    assert_never(event)


def _corrected(view: RunView) -> RunView:
    """The view in which failed calls of earlier steps are corrected by those of the last one."""
    if not view.steps:
        return view
    succeeded = {call.name for call in view.steps[-1].calls if call.status == "done"}
    steps = list(view.steps)
    for place, step in enumerate(steps[:-1]):
        if any(_is_corrected_by(call, succeeded) for call in step.calls):
            calls = (
                replace(call, is_corrected=call.is_corrected or _is_corrected_by(call, succeeded))
                for call in step.calls
            )
            steps[place] = replace(step, calls=tuple(calls))
    return replace(view, steps=tuple(steps))


def _is_corrected_by(call: CallView, succeeded: set[str]) -> bool:
    return call.status == "error" and not call.is_corrected and call.name in succeeded


def _asked(view: RunView, ask: ev.AskModel) -> RunView:
    """The model is asked, for a new step or once more for the last one."""
    begun = StepView(ask.step, program=ProgramView(by_lines=True) if ask.is_continued else None)
    if not view.steps:
        return replace(view, steps=(begun,))
    last = _reject(view.steps[-1])
    steps = (*view.steps[:-1], last)
    if last.number != ask.step:
        steps = (*steps, begun)
    return replace(view, steps=steps)


def _with_reply(step: StepView, reply: ev.ModelReply) -> StepView:
    """The step with a reply; a line of a program is added to what is written of it."""
    step = replace(step, reasoning=_joined(step.reasoning, reply.reasoning))
    if step.program is None or not step.program.by_lines:
        return replace(step, reply=tidy(reply.text))
    line = source_text(reply.text)
    if not line or line.startswith("```"):
        return step
    written = "\n".join(filter(None, [step.program.written, line]))
    return replace(step, program=replace(step.program, written=written))


def _noticed(view: RunView, last: StepView, notice: ev.Notice) -> RunView:
    """A notice is a note of the last step."""
    match notice.kind:
        case "repeat":  # the reply was used: an earlier result is repeated
            last = replace(last, reply=None)
        case "check":  # the reply is an answer, and may be right
            check = Note("check", f"{tidy(notice.text)}\n{last.reply or ''}".strip())
            return _with_last(view, replace(last, reply=None, notes=(*last.notes, check)))
        case "compaction":  # it is about the reply that did not come
            notes = tuple(note for note in last.notes if note.kind != "no reply")
            last = replace(last, notes=notes)
        case "protocol" if view.protocol == "native":  # the only change there is
            view = replace(view, protocol="react")
    return _noted(view, last, notice.kind, notice.text)


def _with_calls(view: RunView, last: StepView, asked: ev.RunCalls) -> StepView:
    """The last step with calls, each marked where it differs from the one before it."""
    earlier = {call.name: call for step in view.steps for call in step.calls}
    calls = []
    for each in asked.calls:
        call = call_view(each, earlier.get(each.name))
        calls.append(call)
        earlier[each.name] = call
    thought = _joined(last.thought, asked.thought)
    return replace(last, reply=None, thought=thought, calls=(*last.calls, *calls))


def _judged(view: RunView, last: StepView, verdict: ev.Verdict) -> RunView:
    """An answer was accepted, or not."""
    answer = collapse_whitespace(last.reply or "", 200)
    last = replace(last, reply=None)
    if verdict.fault:
        fault = f"{answer} was not accepted: {tidy(verdict.reason)}"
        return _noted(view, last, "answer", fault)
    is_typed = verdict.value is not None and not isinstance(verdict.value, str)
    return replace(_with_last(view, last), typed=is_typed, table=table_of(verdict.value, MAX_ROWS))


def with_note(view: RunView, text: str) -> RunView:
    """A run with what a person has to know besides its answer."""
    return _noted(view, view.steps[-1] if view.steps else StepView(0), "kept", text)


def _with_last(view: RunView, step: StepView) -> RunView:
    if not view.steps and step.empty and step.reply is None:
        return view
    return replace(view, steps=(*view.steps[:-1], step))


def _noted(view: RunView, step: StepView, kind: str, text: str) -> RunView:
    return _with_last(view, replace(step, notes=(*step.notes, Note(kind, tidy(text)))))


def _reject(step: StepView) -> StepView:
    if step.reply is None:
        return step
    return replace(step, reply=None, rejected=(*step.rejected, step.reply or "an empty reply"))


def _ended(step: StepView, ending: ev.Failed | ev.Stopped | ev.Interrupted) -> StepView:
    if isinstance(ending, ev.Failed):  # the ending says why no reply came, once is enough
        same = Note("no reply", tidy(ending.reason))
        step = replace(step, notes=tuple(note for note in step.notes if note != same))
    # The ending has the model's last text; an interrupt does not make the reply unusable.
    used = not isinstance(ending, ev.Failed) or ending.by in ("model", "condition")
    if used:
        return replace(step, reply=None)
    return _reject(step)


def _joined(first: str, second: str) -> str:
    second = tidy(second).strip()
    if first and second and first != second:
        return f"{first}\n{second}"
    return first or second


def with_outcomes(
    calls: Iterable[CallView], outcomes: Iterable[ev.CallOutcome | None]
) -> tuple[CallView, ...]:
    """Give each call without an outcome the next one, or none if it is not known yet."""
    remaining = iter(outcomes)
    result = []
    for call in calls:
        outcome = None
        if call.status is None:
            outcome = next(remaining, None)
        if outcome is None:
            result.append(call)
        else:
            result.append(_with_outcome(call, outcome))
    return tuple(result)


def _with_outcome(call: CallView, outcome: ev.CallOutcome) -> CallView:
    """The call with its outcome, and with the runs that it has made."""
    runs = tuple(
        fold(each.question, each.events, model=each.model, protocol=each.protocol)
        for each in outcome.runs
    )
    return replace(with_outcome(call, outcome), runs=runs)


# ── programs ──────────────────────────────────────────────────────────────────────────────────────


def source_text(program: str) -> str:
    """A program with every character visible, and the lines that Python sees."""
    text = visible_code(program[:_PROGRAM])
    if len(program) > _PROGRAM:
        text += "\n…"
    return text


def _with_program(step: StepView, asked: ev.RunProgram) -> StepView:
    """The step with a program that runs, or with the next part of its program."""
    text = source_text(asked.text)
    thought = _joined(step.thought, asked.thought)
    program = step.program
    if program is None or not asked.is_part:
        program = ProgramView(text)
    elif program.text:
        before = program.text.count("\n") + 1
        program = replace(program, text=f"{program.text}\n{text}", begin=before)
    else:
        program = replace(program, text=text)
    yours = tuple(dict.fromkeys([*program.yours, *asked.yours]))
    program = replace(program, written="", is_over=False, yours=yours)
    return replace(step, reply=None, thought=thought, program=program)


def _with_waiting(step: StepView, waits: ev.ProgramWaits) -> StepView:
    """The step with the calls that its program waits for."""
    begin = step.program.begin if step.program is not None else 0
    earlier = {call.name: call for call in step.calls[-_COMPARED:]}
    calls = []
    for each in waits.calls:
        call = call_view(ev.ToolCall("", each.name, each.input), earlier.get(each.name))
        calls.append(replace(call, line=begin + each.line))
        earlier[each.name] = call
    return replace(step, calls=(*step.calls, *calls))


def _resumed(step: StepView, resumed: ev.ResumeProgram) -> StepView:
    """The step with the outcomes of the calls that its program has waited for."""
    waiting = [call for call in step.calls if call.status is None]
    begin = len(step.calls) - len(waiting)
    calls = []
    for call, outcome in zip(waiting, resumed.outcomes, strict=False):
        seen = _with_outcome(call, outcome)
        calls.append(replace(seen, is_repeated=bool(outcome.repeats)))
    calls += waiting[len(calls) :]
    return replace(step, calls=(*step.calls[:begin], *calls))


def _with_end(step: StepView, end: ev.ProgramFaults | ev.ProgramEnded) -> StepView:
    """The step after its program, or a part of it, has ended."""
    program = replace(step.program or ProgramView(), is_over=True)
    if isinstance(end, ev.ProgramFaults):
        faults = tuple(_fault(program, each) for each in end.faults)
        was_run = program.begin > 0  # other parts were
        return replace(step, program=replace(program, faults=faults, was_run=was_run))
    error = end.error
    if end.ran is not None:  # with its cures, and without what did not run
        before = "\n".join(program.text.splitlines()[: program.begin])
        as_run = source_text(end.as_run(""))
        text = "\n".join(filter(None, [before, as_run]))
        program = replace(program, text=text)
        if error is not None:
            error = replace(error, line=as_run.count("\n") + 1 - error.source.count("\n"))
    if error is not None:
        program = replace(program, faults=(_fault(program, error),))
    if end.interrupted:
        program = replace(program, stopped="interrupted")
    elif end.lost:
        program = replace(program, faults=(*program.faults, (0, tidy(end.lost))))
    shown = (*program.shown, *(tidy(each, _SHOWN) for each in end.shown[:_SHOWN_VALUES]))
    more = len(end.shown) - _SHOWN_VALUES
    if more > 0:
        shown = (*shown, f"… {more:,} more values")
    values = program.values
    if program.by_lines and end.assigned:
        value = ", ".join(end.assigned_texts.values())
        values = (*values, (program.begin + 1, collapse_whitespace(tidy(value), LINE_VALUE)))
    figures = (*program.figures, *end.figures)
    program = replace(program, shown=shown, values=values, figures=figures)
    reply = step.reply
    if end.has_answer:  # until it is accepted
        reply = literal(end.answer)
    return replace(step, program=program, reply=reply)


def _fault(program: ProgramView, fault: ev.Fault) -> tuple[int, str]:
    """A fault with its line; 0 if that is not in the program, as in an earlier function."""
    line = program.begin + fault.line
    text = tidy(fault.text)
    if program.begin < line <= program.text.count("\n") + 1:
        return line, text
    if fault.source:
        text = f"{collapse_whitespace(tidy(fault.source), 120)}: {text}"
    return 0, text
