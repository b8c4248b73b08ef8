"""What of a long record is sent: less and less of what is old, so that it fits what the model can take.

Pure: a record and a `Cut` give the exchanges that are sent, and the record stays as it is. First old outcomes are
shortened, then the oldest exchanges are folded into question and answer, then they are left out, then the oldest
steps of the running exchange; what was left out is said in one line. The running question, its last step and the
system prompt stay. It works on exchanges, not on messages, so no call can lose its outcome.

To compact costs a server's prompt cache, so it is done rarely and then goes half of the way that can be gone.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.loop.history import Cut, Exchange, Short, Step

Size: TypeAlias = Callable[[Sequence[Exchange]], int]
"""How many tokens the messages of these exchanges have, the system prompt included."""

NameOf: TypeAlias = Callable[[ToolCall, CallOutcome], str]
"""The variable that holds an outcome's value, made where there is none; empty where there is no value to hold."""

HEAD = 200
"""Characters that are left of an old outcome."""
_HEADS = (4000, 2000, 1000, 500, HEAD)
"""The same for the outcomes of the last step, which the model has not read yet: as much as there is room for."""
_NOTE = 120
"""About how long the note is that stands for what is left out: shortening by less is no gain."""


def view(exchanges: Sequence[Exchange], cut: Cut) -> list[Exchange]:
    """What is sent of a record.

    Args:
        exchanges: The record; it is not changed.
        cut: What is not sent.

    Returns:
        New exchanges, or the same where nothing is cut of them.
    """
    whole = Cut(room=cut.room)
    if cut == whole:
        return list(exchanges)
    shown = []
    for n, exchange in enumerate(exchanges[cut.dropped :], cut.dropped):
        notes = []
        question, steps, images = exchange.question, exchange.steps, exchange.images
        if n == cut.dropped > 0:
            before = "question and its answer" if n == 1 else f"{n} questions and their answers"
            question = f"(Left out here: the first {before}.)\n\n{question}"
        if n < cut.folded:
            notes, steps, images = (
                [_left_out("the steps to the answer", steps)] if steps else [],
                [],
                (),
            )
        else:
            omitted = cut.omitted if n == cut.folded else 0
            if omitted:
                what = "the first step" if omitted == 1 else f"the first {omitted} steps"
                notes = [_left_out(what, steps[:omitted])]
            steps = [_shortened(step, cut) for step in steps[omitted:]]
        shown.append(
            replace(exchange, question="\n\n".join([question, *notes]), steps=steps, images=images)
        )
    return shown


def compacted(
    exchanges: Sequence[Exchange], cut: Cut, budget: int, size: Size, name_of: NameOf
) -> Cut:
    """Cut as much more as is needed.

    Args:
        exchanges: The record; the last one is running.
        cut: What is cut already, and stays so.
        budget: Tokens that the messages may have.
        size: Counts them.
        name_of: Asked for each outcome that is shortened.

    Returns:
        The same cut where the budget is kept; the deepest that there is where it cannot be.
    """
    while size(view(exchanges, cut)) > budget:
        deeper = _named(exchanges, cut, _deeper(exchanges, cut, budget, size), name_of)
        if deeper == cut:
            break
        cut = deeper  # a name may be longer than was thought: look again
    return cut


def _deeper(exchanges: Sequence[Exchange], cut: Cut, budget: int, size: Size) -> Cut:
    def size_of(cut: Cut) -> int:
        return size(view(exchanges, cut))

    cuts = [cut, *_cuts(exchanges, cut)]
    least = size_of(cuts[-1])
    if least <= budget:
        wanted = least + (budget - least) // 2
        # Sizes fall from cut to cut but for a few tokens: a note may be longer than what it stands for.
        at = bisect.bisect_left(cuts, -wanted, key=lambda each: -size_of(each))
        return next(each for each in cuts[min(at, len(cuts) - 1) :] if size_of(each) <= budget)
    last = [outcome for step in exchanges[-1].steps[-1:] for outcome in step.outcomes]
    deepest = cuts[-1]
    for head in _HEADS:
        more = {
            outcome.call_id: Short(head, _name(deepest, outcome.call_id))
            for outcome in last
            if head < _head(deepest, outcome.call_id)
            and (outcome.images or len(outcome.text) > head + _NOTE)
        }
        deepest = replace(deepest, short={**deepest.short, **more})
        if size_of(deepest) <= budget:
            break
    return deepest


def _cuts(exchanges: Sequence[Exchange], cut: Cut) -> Iterator[Cut]:
    """All further cuts but of the last step, each a little deeper than the one before."""
    last = len(exchanges) - 1
    short = dict(cut.short)
    for n in range(cut.folded, last + 1):
        steps = exchanges[n].steps[: -1 if n == last else None]
        for step in steps[cut.omitted if n == cut.folded else 0 :]:
            more = {
                call.id: Short(HEAD, _name(cut, call.id) or _unnamed(call, outcome))
                for call, outcome in _pairs(step)
                if _can_shorten(outcome, _head(cut, call.id))
            }
            if more:
                short = {**short, **more}
                cut = replace(cut, short=short)
                yield cut
    for n in range(cut.folded + 1, last + 1):
        cut = replace(cut, folded=n, omitted=0)
        yield cut
    for n in range(cut.dropped + 1, last + 1):
        cut = replace(cut, dropped=n)
        yield cut
    for n in range(cut.omitted + 1, len(exchanges[last].steps)):
        cut = replace(cut, omitted=n)
        yield cut


def _named(exchanges: Sequence[Exchange], before: Cut, after: Cut, name_of: NameOf) -> Cut:
    """Give the outcomes that are newly shortened, and still sent, the names of their values."""
    short = {}
    for n in range(after.folded, len(exchanges)):
        steps = exchanges[n].steps[after.omitted if n == after.folded else 0 :]
        for call, outcome in (pair for step in steps for pair in _pairs(step)):
            if (new := after.short.get(call.id)) is not None:
                old = before.short.get(call.id)
                short[call.id] = replace(
                    new, name=name_of(call, outcome) if old is None else old.name
                )
    return replace(after, short=short)


def _pairs(step: Step) -> Iterator[tuple[ToolCall, CallOutcome]]:
    return zip(step.calls, step.outcomes, strict=True)


def _head(cut: Cut, id_: str) -> int:
    return cut.short[id_].head if id_ in cut.short else max(_HEADS) + 1


def _name(cut: Cut, id_: str) -> str:
    return cut.short[id_].name if id_ in cut.short else ""


def _unnamed(call: ToolCall, outcome: CallOutcome) -> str:
    """A name of about the length that the name will have."""
    return "" if outcome.value is None else f"{call.name}_999"


def _can_shorten(outcome: CallOutcome, head: int) -> bool:
    return head > HEAD and (bool(outcome.images) or len(outcome.text) > HEAD + _NOTE)


def _shortened(step: Step, cut: Cut) -> Step:
    outcomes = tuple(_short(each, cut.short.get(each.call_id)) for each in step.outcomes)
    return replace(step, outcomes=outcomes) if outcomes != step.outcomes else step


def _short(outcome: CallOutcome, short: Short | None) -> CallOutcome:
    """An outcome with less text and no images; as it is where that is no gain."""
    text = outcome.text
    if short is None:
        return outcome
    if len(text) <= short.head + _NOTE and not outcome.images:
        return outcome
    where = f'; full value in {short.name}: send "{short.name}" to pass it on' if short.name else ""
    if len(text) > short.head + _NOTE:
        what, text = f"shortened from {len(text):,} characters", text[: short.head].rstrip()
    else:
        what = "the image is not shown any more"
    return replace(outcome, text=f"{text}\n… ({what}{where})".lstrip(), images=())


def _left_out(what: str, steps: Sequence[Step]) -> str:
    names = Counter(call.name for step in steps for call in step.calls)
    called = ", ".join(f"{name} {count}×" if count > 1 else name for name, count in names.items())
    return f"(Left out here: {what}{', with calls of ' if called else ''}{called}.)"
