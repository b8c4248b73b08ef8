"""The summary that takes the place of the beginning of a long conversation, written by the model.

It covers a conversation up to a place: some exchanges, and some steps of the next one. The
record stays complete, so it is known later whether a summary is still one of what is there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from archytas_nb.loop.record import Exchange, StepRecord, Summary
from archytas_nb.words import keep_both_ends, truncate_line

Place: TypeAlias = tuple[int, int]
"""This many exchanges from the beginning, and this many steps of the next one."""

TOKENS = 1000
"""Maximum number of tokens of a summary."""
_CHARS = 6000  # of a summary, in any case

_PROMPT = """\
This is the beginning of a conversation between a data scientist (the user), who works in a \
Jupyter notebook, and you, with the calls of your tools and their results:

<conversation>
{conversation}
</conversation>

It is too long to be sent again; what you write now takes its place. Summarise it in at most 300 \
words: what the user asked, what was found (with the exact names and numbers), what was decided or \
is still to be done, and which variables hold what. Do not answer any question and do not call any \
tool. Write only the summary."""


_BEHIND = """\
(This conversation becomes too long. What comes before {end} will be left out, and what you write \
now takes its place. Summarise that part in at most 300 words: what the user asked, what was found \
(with the exact names and numbers), what was decided or is still to be done, and which variables \
hold what. Call no tool. Write only the summary.)"""
_QUOTED = 200  # characters of the question before which the summary ends


def request_for(exchanges: Sequence[Exchange], to: Place) -> str:
    """The request at the end of a conversation to summarise its part before a place."""
    number, steps = to
    question = truncate_line(exchanges[min(number, len(exchanges) - 1)].question, _QUOTED)
    end = f"the question {question!r}"
    if steps:
        end = f"your step {steps + 1} after {end}"
    return _BEHIND.format(end=end)


def prompt_for(
    exchanges: Sequence[Exchange],
    before: Summary | None,
    to: Place,
    length: int | None,
    whole: int | None = None,
) -> str:
    """The request to summarise the part before a place, with the earlier summary.

    Args:
        exchanges: The record.
        before: The summary that the new one replaces; None if there is none.
        to: The end of what is summarised.
        length: Maximum number of characters of a result; None for no limit.
        whole: Maximum number of characters of all results together; None for no limit.
    """
    parts: list[str] = []
    begin = (0, 0)
    if before is not None:
        parts.append(f"(Your summary of what was before:\n{before.text})")
        begin = before.place
    parts += _parts(exchanges, begin, to, length)
    return _PROMPT.format(conversation=_cut("\n\n".join(parts), whole))


def summary_of(exchanges: Sequence[Exchange], to: Place, text: str) -> Summary:
    """A summary with the text that the model wrote."""
    return Summary(keep_both_ends(text, _CHARS), *to, _checksum(exchanges, to))


def is_valid(summary: Summary, exchanges: Sequence[Exchange]) -> bool:
    """Whether a summary is one of these exchanges: none was replaced, removed or left out."""
    exchanges_covered, steps = summary.place
    if exchanges_covered + bool(steps) > len(exchanges):
        return False
    return _checksum(exchanges, summary.place) == summary.checksum


def _checksum(exchanges: Sequence[Exchange], to: Place) -> int:
    text = "\n".join(_parts(exchanges, (0, 0), to, None))
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _parts(
    exchanges: Sequence[Exchange], begin: Place, end: Place, length: int | None
) -> Iterator[str]:
    """The text of a conversation between two places."""
    for number, exchange in enumerate(exchanges[: end[0] + 1]):
        first = begin[1] if number == begin[0] else 0
        last = end[1] if number == end[0] else len(exchange.steps)
        is_complete = number < end[0]
        if number < begin[0] or not (is_complete or last):
            continue
        if not first:
            yield f"The user asked: {exchange.question}"
            if exchange.error is not None:
                yield exchange.error.text
        for step in exchange.steps[first:last]:
            yield from _parts_of(step, length)
        if is_complete:
            yield f"You answered: {exchange.closing_text}"


def _parts_of(step: StepRecord, length: int | None) -> Iterator[str]:
    """The text of a step: thought, calls or the program, results."""
    if step.said:
        yield f"The user said: {step.said}"
    if step.thought:
        yield f"You: {step.thought}"
    if step.program:
        yield f"You ran the program:\n{step.program}\n{_cut(step.report, length)}"
        return
    for call, outcome in step.pairs:
        given = json.dumps(call.input, ensure_ascii=False)
        yield f"You called {call.name} with {given}. The result:\n{_cut(outcome.text, length)}"
    if step.correction:
        yield f"That could not be used: {_cut(step.correction, length)}"


def _cut(text: str, length: int | None) -> str:
    return text if length is None else keep_both_ends(text, length)
