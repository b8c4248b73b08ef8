"""The calls of one reply: which of them are run, and what all of them came to. Part of the loop, and as pure."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import replace

from archytas_nb.loop.events import (
    CallOutcome,
    CallOutcomes,
    Notice,
    Reply,
    Request,
    RunCalls,
    ToolCall,
)
from archytas_nb.loop.guards import Guards, key_of
from archytas_nb.loop.history import Step
from archytas_nb.loop.wire import Action

_DIGITS = string.digits + string.ascii_letters
_MOST = 46_000
"""Steps of a question and calls of a step that eight such digits can tell apart, for as many questions."""
MAX_CALLS = 100
"""Calls of one reply that are taken. Models make a dozen; one that makes thousands repeats itself."""

_LATE = "Not run: the user interrupted before."


def run_calls(
    guards: Guards, action: Action, at: tuple[int, int]
) -> Generator[Request, Reply, Step]:
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
    if (left_out := len(action.calls) - MAX_CALLS) > 0:
        yield Notice(
            "repair",
            f"the reply has {len(action.calls):,} calls, and {MAX_CALLS} of them were taken",
        )
        action = _bounded(action)
    calls = tuple(
        ToolCall(call_id(question, step, n), name, given)
        for n, (name, given) in enumerate(action.calls, start=1)
    )
    known: dict[str, CallOutcome] = {}
    for place, why in action.unread:
        known[calls[place].id] = CallOutcome("error", why, call_id=calls[place].id)
        yield Notice("repair", why)
    waiting = deque(call for call in calls if call.id not in known)
    thought = action.thought
    while waiting:
        batch = yield from _batch(guards, waiting, known)
        if not batch:
            continue
        reply = yield RunCalls(step, tuple(batch), thought)
        if not isinstance(reply, CallOutcomes):
            raise TypeError(
                f"the loop asked for calls to be run and was sent {reply!r}; expected CallOutcomes"
            )
        thought = ""  # said once
        known |= dict(_noted(guards, batch, reply))
        if any(outcome.status == "interrupted" for outcome in reply.outcomes):
            known |= {call.id: CallOutcome("not_run", _LATE, call_id=call.id) for call in waiting}
            break
    if left_out > 0:
        known[calls[-1].id] = _with_count(known[calls[-1].id], left_out)
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


def _noted(
    guards: Guards, batch: list[ToolCall], reply: CallOutcomes
) -> Iterator[tuple[str, CallOutcome]]:
    for call, outcome in zip(batch, reply.outcomes, strict=True):
        if outcome.call_id != call.id:
            raise ValueError(
                f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}"
            )
        yield call.id, guards.note(call, outcome)


def _bounded(action: Action) -> Action:
    """The same action with the first of its calls only."""
    unread = tuple(each for each in action.unread if each[0] < MAX_CALLS)
    extras = {place: extra for place, extra in action.extras.items() if place < MAX_CALLS}
    return replace(action, calls=action.calls[:MAX_CALLS], unread=unread, extras=extras)


def _with_count(outcome: CallOutcome, left_out: int) -> CallOutcome:
    said = f"The {left_out:,} calls after this one were not made: a reply may have {MAX_CALLS} at most."
    return replace(outcome, text=f"{outcome.text}\n\n{said}")


def _batch(
    guards: Guards, waiting: deque[ToolCall], known: dict[str, CallOutcome]
) -> Generator[Request, Reply, list[ToolCall]]:
    """Take from the waiting calls those that are run together; others turn out to be known.

    The second of two equal calls waits for what the first one comes to, as it would in a reply of its own.
    """
    batch: list[ToolCall] = []
    keys: set[str] = set()
    while waiting and not guards.is_twin(waiting[0], keys):
        call = waiting.popleft()
        outcome = guards.earlier(call)
        if outcome is None:
            batch.append(call)
            keys.add(key_of(call))
            continue
        known[call.id] = outcome
        if outcome.status == "not_run":
            yield Notice(
                "repair", f"the model is asked once before its call is run: {outcome.text}"
            )
            continue
        again = (
            "it was taken away" if call.name in guards.taken_away else "it is the same call again"
        )
        yield Notice("repeat", f"{call.name} was not run: {again}")
    return batch
