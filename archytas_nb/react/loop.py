"""The ReAct loop, without input or output: it yields requests, is sent replies and returns an ending.

It may know the values of a run, the record, the guards and a wire form that it is given. It may not know a model,
a kernel, a clock or a screen. A driver answers each request:

    AskModel → ModelReply | NoReply          RunCalls → CallOutcomes          Notice → nothing

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
)
from archytas_nb.react.guards import Guards
from archytas_nb.react.history import Exchange, Step
from archytas_nb.react.wire import Action, Wire, as_text, messages_of

Flow: TypeAlias = Generator[Request, Reply, Ending]


def react_loop(wire: Wire, guards: Guards, past: Sequence[Exchange], exchange: Exchange) -> Flow:
    """Run one question to its ending.

    Args:
        wire: The wire form to speak.
        guards: Budgets and repetition, fresh for this run.
        past: The exchanges before this one.
        exchange: This one; its steps are filled in while the loop goes on, so that a driver that is
            stopped at any point still holds a record in which each call has its outcome.

    Yields:
        Requests for the driver.

    Returns:
        The ending, which is also set on the exchange.
    """
    ending = yield from _steps(wire, guards, past, exchange)
    exchange.ending = ending
    return ending


def _steps(wire: Wire, guards: Guards, past: Sequence[Exchange], exchange: Exchange) -> Flow:
    messages = messages_of(wire, [*past, exchange])
    in_prose = False  # whether the last reply was plain text where an action was expected
    while not (limit := guards.limit_reached()):
        bound = guards.limits.reply_tokens
        ask = wire.ask(guards.steps + 1, messages, taken_away=guards.taken_away, last="", max_tokens=bound)
        reply = yield ask
        if isinstance(reply, NoReply):
            return _no_reply(reply)
        guards.steps += 1
        action = _read(wire, guards, reply, ask, prose_is_answer=in_prose)
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
        if ending is not None:
            return ending
    return (yield from _last_turn(wire, guards, messages, limit))


def _last_turn(wire: Wire, guards: Guards, messages: Sequence[Message], limit: str) -> Flow:
    """Let the model say, without tools, what it has: a limit must not throw away what was found."""
    yield Notice("limit", f"the limit {limit} is reached: the model is asked to say what it has")
    bound = guards.limits.reply_tokens
    ask = wire.ask(guards.steps + 1, messages, taken_away=(), last=limit, max_tokens=bound)
    reply = yield ask
    if isinstance(reply, NoReply):
        return _no_reply(reply) if reply.kind == "interrupted" else Stopped(limit)
    action = _read(wire, guards, reply, ask, prose_is_answer=True)
    said = action.answer if action.answer is not None else action.failure or action.thought
    return Stopped(limit, as_text(said))


def _read(wire: Wire, guards: Guards, reply: Reply, asked: AskModel, *, prose_is_answer: bool) -> Action:
    if not isinstance(reply, ModelReply):
        raise TypeError(f"the loop asked the model and was sent {reply!r}; expected ModelReply or NoReply")
    guards.spend(reply, asked)
    return wire.read(reply, prose_is_answer=prose_is_answer)


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
    for call in calls:
        if call.id not in known and (outcome := guards.earlier(call)) is not None:
            known[call.id] = outcome
            again = "it was taken away" if call.name in guards.taken_away else "it is the same call again"
            yield Notice("repeat", f"{call.name} was not run: {again}")
    to_run = tuple(call for call in calls if call.id not in known)
    if to_run:
        reply = yield RunCalls(step, to_run, action.thought)
        if not isinstance(reply, CallOutcomes):
            raise TypeError(f"the loop asked for calls to be run and was sent {reply!r}; expected CallOutcomes")
        for call, outcome in zip(to_run, reply.outcomes, strict=True):
            if outcome.call_id != call.id:
                raise ValueError(f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}")
            known[call.id] = outcome
            guards.note(call, outcome)
    outcomes = tuple(known[call.id] for call in calls)
    guards.note_step(outcomes)
    return Step(thought=action.thought, calls=calls, outcomes=outcomes)


def _no_reply(reply: NoReply) -> Ending:
    if reply.kind == "interrupted":
        return Interrupted("a request to the model")
    return Failed(reply.text, by="endpoint")
