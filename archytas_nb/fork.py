"""Forks: another run that begins with the first steps of a run, while both of them are kept.

    the question ── 1 ── 2 ── 3 ── 4        a branch: a run, with what it changed
                          └── 3 ── 4 ── 5    another one; the variables are those of one of them

To go from one branch to another, what the first one did after their common steps is undone, and
what the second one did is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from archytas_nb.errors import argument_error
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import Exchange, StepRecord
from archytas_nb.run import Run


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first steps of a run, from which another run goes on.

    Attributes:
        events: Their events; what they cost is not counted again.
        exchange: A record with them.
        changes: How many changes of variables they made.
    """

    events: tuple[ev.Event, ...]
    exchange: Exchange
    changes: int


def beginning(run: Run, exchange: Exchange, step: int, said: str = "") -> Beginning:
    """The steps of a run before one of them.

    Args:
        run: The run.
        exchange: Its record.
        step: The first step that another run makes in its own way, from 1.
        said: The person's message to the agent before that step; empty for none.

    Raises:
        ValueError: The run has no such step, or cannot be forked there.
    """
    numbers = [each.number for each in run.steps]
    if step not in numbers:
        there = f"1 to {numbers[-1]}" if numbers else "none"
        raise argument_error(f"the last question has no step {step!r}; its steps: {there}")
    if step > 1 and run.protocol == "program":
        raise argument_error(
            f"step {step!r}: the variables of programs are not kept step by step; fork from step 1"
        )
    events = tuple(_before(run.events, step)) if step > 1 else ()
    made = {call.id for each in events if isinstance(each, ev.RunCalls) for call in each.calls}
    steps = list(exchange.steps)
    # The record has no numbers of steps: those of the branch are the ones whose calls are in its
    # events.
    while steps and not made.intersection(call.id for call in steps[-1].calls):
        steps.pop()
    if said:
        steps.append(StepRecord(said=said))
        events = (*events, ev.Notice("told", said))
    outcomes = [
        each for asked in events if isinstance(asked, ev.CallOutcomes) for each in asked.outcomes
    ]
    changes = sum(1 for each in outcomes if each.diff)
    forked = replace(exchange, steps=steps, ending=None, said="", kept={}, program_state=None)
    return Beginning(events, forked, changes)


def _before(events: Sequence[ev.Event], step: int) -> Iterator[ev.Event]:
    """The events before a step, without their cost."""
    for each in events:
        if isinstance(each, ev.AskModel) and not each.is_side_request and each.step >= step:
            return
        if isinstance(each, ev.ModelReply):
            yield replace(each, usage=ev.Usage(), seconds=0.0)
        elif not isinstance(each, ev.Started):
            yield each


def begin(run: Run, start: Beginning, before: Run) -> None:
    """Have a new run go on from the first steps of another one."""
    run.events.extend(start.events)
    if before.watch is not None:
        run.watch = before.watch.first(start.changes)


def go(left: Run, right: Run) -> list[ev.NotCovered]:
    """Undo what a run did after the steps that it shares with another one, and do the other's."""
    notes: list[ev.NotCovered] = []
    notes += _files(_own(left, right), back=False)
    if left.watch is not None and right.watch is not None:
        notes += left.watch.go_to(right.watch)
    notes += _files(_own(right, left), back=True)
    return notes


def _own(run: Run, other: Run) -> list[ev.CallOutcome]:
    """The outcomes of a run that another one does not share."""
    shared = {id(outcome) for _, outcome in other.calls}
    return [outcome for _, outcome in run.calls if id(outcome) not in shared]


def _files(outcomes: Sequence[ev.CallOutcome], *, back: bool) -> Iterator[ev.NotCovered]:
    """Undo what calls did to files, or do it again."""
    if not any(each.effects for each in outcomes):
        return
    from archytas_nb.effects.ledger import kept_files, undo

    for outcome in outcomes if back else reversed(outcomes):
        effects = [each.reversed if back else each for each in outcome.effects]
        for effect, why, is_kept in undo(effects, kept_files, force=False):
            yield ev.Kept(effect.shown, why) if is_kept else ev.NotCovered(effect.shown, why)
