"""The calls of one reply: which of them are run, and what all of them came to. Part of the loop, and as pure."""

from __future__ import annotations

import string
from collections.abc import Generator

from archytas_nb.react.events import CallOutcome, CallOutcomes, Notice, Reply, Request, RunCalls, ToolCall
from archytas_nb.react.guards import Guards
from archytas_nb.react.history import Step
from archytas_nb.react.wire import Action

_DIGITS = string.digits + string.ascii_letters
_MOST = 46_000
"""Steps of a question and calls of a step that eight such digits can tell apart, for as many questions."""


def run_calls(guards: Guards, action: Action, at: tuple[int, int]) -> Generator[Request, Reply, Step]:
    """Have the calls of one reply run, but for those whose outcome is known already.

    Args:
        guards: Knows what was called before.
        action: The reply.
        at: The number of the question, and of the step in it.

    Yields:
        What is to be run, and notices of what is not.

    Returns:
        The step: each call with its one outcome.
    """
    question, step = at
    if action.calls:
        guards.next_reply()
    calls = tuple(
        ToolCall(call_id(question, step, n), name, given) for n, (name, given) in enumerate(action.calls, start=1)
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
            known[call.id] = guards.note(call, outcome)
        if any(outcome.status == "interrupted" for outcome in reply.outcomes):
            late = "Not run: the user interrupted before."
            known |= {call.id: CallOutcome("not_run", late, call_id=call.id) for call in waiting}
            break
    outcomes = tuple(known[call.id] for call in calls)
    guards.note_step(outcomes)
    extras = {calls[place].id: extra for place, extra in action.extras.items()}
    return Step(action.thought, calls, outcomes, reasoning=action.reasoning, extras=extras)


def call_id(question: int, step: int, call: int) -> str:
    """The id of a call: always nine letters and digits, as Mistral demands, and another one for each place."""
    if max(question, step, call) < 100:
        return f"q{question:02}s{step:02}c{call:02}"
    number = (question * _MOST + step) * _MOST + call
    digits = ""
    for _ in range(8):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"x{digits}"


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
        if outcome.status == "not_run":
            yield Notice("repair", f"the model is asked once before its call is run: {outcome.text}")
            continue
        again = "it was taken away" if call.name in guards.taken_away else "it is the same call again"
        yield Notice("repeat", f"{call.name} was not run: {again}")
    return batch
