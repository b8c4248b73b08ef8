"""The ReAct loop, without input or output: it yields requests, is sent replies and returns an ending.

It may know the values of a run, the record, the guards and a wire form that it is given. It may not know a model,
a kernel, a clock or a screen. A driver answers each request:

    AskModel → ModelReply | NoReply        CheckAnswer → Verdict | NoReply
    RunCalls → CallOutcomes                Notice → nothing

So it can be driven by hand with ``.send``, and recorded replies reproduce an equal stream of events.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

from archytas_nb.react.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Ending,
    Failed,
    Interrupted,
    Message,
    ModelReply,
    NoReply,
    Notice,
    Reply,
    Request,
    RunCalls,
    Stopped,
    ToolCall,
    Verdict,
)
from archytas_nb.react.guards import Guards
from archytas_nb.react.history import Exchange, Step
from archytas_nb.react.wire import Action, AskOptions, Wire, as_text, messages_of, not_accepted

Flow: TypeAlias = Generator[Request, Reply, Ending]

LAST_SECONDS = 30.0
"""What the last turn may take where the run's time is over."""


def react_loop(
    wire: Wire, guards: Guards, past: Sequence[Exchange], exchange: Exchange, *, checks: bool = False
) -> Flow:
    """Run one question to its ending.

    Args:
        wire: The wire form to speak.
        guards: Budgets and repetition, fresh for this run.
        past: The exchanges before this one.
        exchange: This one; its steps are filled in while the loop goes on, so that a driver that is
            stopped at any point still holds a record in which each call has its outcome.
        checks: Whether answers are checked before they count.

    Yields:
        Requests for the driver.

    Returns:
        The ending, which is also set on the exchange.
    """
    ending = yield from _steps(wire, guards, past, exchange, checks=checks)
    exchange.ending = ending
    return ending


def _steps(wire: Wire, guards: Guards, past: Sequence[Exchange], exchange: Exchange, *, checks: bool) -> Flow:
    messages = messages_of(wire, [*past, exchange])
    typed = exchange.form is not None
    in_prose = False  # whether the last reply was plain text where an action was expected
    while not (limit := guards.limit_reached()):
        ask = wire.ask(guards.steps + 1, messages, _options(guards, exchange))
        reply = yield ask
        if isinstance(reply, NoReply):
            return _no_reply(reply, guards)
        guards.steps += 1
        action = _read(wire, guards, reply, ask, prose_is_answer=in_prose, typed=typed)
        if action.repaired:
            yield Notice("repair", action.repaired)
        in_prose = action.prose
        in_doubt = (
            action.answer is not None and not action.calls
        )  # a reply's calls are run, whatever else it says
        doubt = guards.doubt(as_text(action.answer), messages) if in_doubt else ""
        if doubt:
            yield Notice(
                "repair", "the answer has a number that no outcome has: the model is asked about it once"
            )
            action = Action(thought=action.thought)
            step = Step(thought=action.thought, correction=doubt)
        elif action.fault:
            guards.note_fault()
            step = Step(thought=action.thought, correction=action.fault)
        else:
            step = yield from _run(guards, action, (len(past) + 1, guards.steps))
        if step.calls or step.correction:
            exchange.steps.append(step)
            messages += wire.step(step)
        ending = _ending(action, step)
        if checks and isinstance(ending, Answered):
            verdict = yield CheckAnswer(guards.steps, action.answer)
            ending, step = _judged(verdict, action, ending)
            if ending is None:
                guards.note_fault()
                exchange.steps.append(step)
                messages += wire.step(step)
        if ending is not None:
            return ending
    return (yield from _last_turn(wire, guards, exchange, messages, limit, checks=checks))


def _judged(verdict: Reply, action: Action, ending: Ending) -> tuple[Ending | None, Step]:
    """What a verdict makes of an answer: the ending, or the step that asks for another answer."""
    if isinstance(verdict, NoReply):
        return Interrupted("the check of the answer"), Step()
    if not isinstance(verdict, Verdict):
        raise TypeError(f"the loop asked for an answer to be checked and was sent {verdict!r}; expected Verdict")
    if not verdict.fault:
        return ending, Step()
    return None, Step(thought=action.thought, correction=not_accepted(action.answer, verdict.fault))


def _options(guards: Guards, exchange: Exchange, last: str = "") -> AskOptions:
    away = () if last else tuple(guards.taken_away)
    seconds = guards.seconds_left()
    if last and seconds is not None:
        seconds = max(seconds, LAST_SECONDS)
    return AskOptions(guards.limits.reply_tokens, away, last, exchange.form, seconds)


def _last_turn(
    wire: Wire, guards: Guards, exchange: Exchange, messages: Sequence[Message], limit: str, *, checks: bool
) -> Flow:
    """Let the model say, without tools, what it has: a limit must not throw away what was found."""
    yield Notice("limit", f"the limit {limit} is reached: the model is asked to say what it has")
    ask = wire.ask(guards.steps + 1, messages, _options(guards, exchange, limit))
    reply = yield ask
    if isinstance(reply, NoReply):
        return _no_reply(reply, guards) if reply.kind == "interrupted" else Stopped(limit)
    action = _read(wire, guards, reply, ask, prose_is_answer=True, typed=exchange.form is not None)
    if checks and action.answer is not None:
        yield CheckAnswer(guards.steps, action.answer)  # its value is kept; a fault changes nothing any more
    said = action.answer if action.answer is not None else action.failure or action.thought
    return Stopped(limit, as_text(said))


def _read(
    wire: Wire, guards: Guards, reply: Reply, asked: AskModel, *, prose_is_answer: bool, typed: bool
) -> Action:
    if not isinstance(reply, ModelReply):
        raise TypeError(f"the loop asked the model and was sent {reply!r}; expected ModelReply or NoReply")
    guards.spend(reply, asked)
    return wire.read(reply, prose_is_answer=prose_is_answer, typed=typed)


def _ending(action: Action, step: Step) -> Ending | None:
    if any(outcome.status == "interrupted" for outcome in step.outcomes):
        return Interrupted("a tool")
    if action.answer is not None:
        return Answered(as_text(action.answer), action.thought)
    return None if action.failure is None else Failed(action.failure)


def _run(guards: Guards, action: Action, at: tuple[int, int]) -> Generator[Request, Reply, Step]:
    """Have the calls of one reply run, but for those whose outcome is known already."""
    question, step = at
    calls = tuple(
        ToolCall(f"q{question:02}s{step:02}c{n:02}", name, given)
        for n, (name, given) in enumerate(action.calls, start=1)
    )
    known: dict[str, CallOutcome] = {}
    for place, why in action.unread:
        known[calls[place].id] = CallOutcome("error", why, call_id=calls[place].id)
        yield Notice("repair", why)
    waiting = [call for call in calls if call.id not in known]
    thought = action.thought
    while waiting:
        batch = yield from _batch(guards, waiting, known)
        if not batch:
            continue
        reply = yield RunCalls(step, tuple(batch), thought)
        if not isinstance(reply, CallOutcomes):
            raise TypeError(f"the loop asked for calls to be run and was sent {reply!r}; expected CallOutcomes")
        thought = ""  # said once
        for call, outcome in zip(batch, reply.outcomes, strict=True):
            if outcome.call_id != call.id:
                raise ValueError(f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}")
            known[call.id] = outcome
            guards.note(call, outcome)
        if any(outcome.status == "interrupted" for outcome in reply.outcomes):
            late = "Not run: the user interrupted before."
            known |= {call.id: CallOutcome("not_run", late, call_id=call.id) for call in waiting}
            break
    outcomes = tuple(known[call.id] for call in calls)
    guards.note_step(outcomes)
    return Step(thought=action.thought, calls=calls, outcomes=outcomes)


def _batch(
    guards: Guards, waiting: list[ToolCall], known: dict[str, CallOutcome]
) -> Generator[Request, Reply, list[ToolCall]]:
    """Take from the waiting calls those that are run together; others turn out to be known.

    The second of two equal calls waits for what the first one comes to, as it would in a reply of its own.
    """
    batch: list[ToolCall] = []
    while waiting and not guards.is_twin(waiting[0], batch):
        call = waiting.pop(0)
        outcome = guards.earlier(call)
        if outcome is None:
            batch.append(call)
            continue
        known[call.id] = outcome
        again = "it was taken away" if call.name in guards.taken_away else "it is the same call again"
        yield Notice("repeat", f"{call.name} was not run: {again}")
    return batch


def _no_reply(reply: NoReply, guards: Guards) -> Ending:
    if reply.kind == "interrupted":
        return Interrupted("a request to the model")
    if reply.kind == "deadline":
        return Stopped(f"max_seconds={guards.limits.max_seconds or 0:g}", reply.text)
    return Failed(reply.text, by="endpoint")
