"""JSON as models write it → a value, or the reason why it cannot be read for certain.

Exact JSON is read by `json`. Anything else is read by a grammar that forgives what has one meaning only: trailing
and missing commas, comments, single, smart and triple quotes, Python's literals, bare keys, raw line breaks and
unescaped quotes in strings, backslashes before what is no escape, a missing last brace. Where a text can be cut
into strings in more than one way, every way is tried, and two ways that both make sense are a fault: a guess
would run a call that nobody asked for.

It knows no tools and no protocol. Nothing here completes a string, a number or a list that was cut off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import EXACT, TOO_MUCH, UnreadableError, Work, same, whole
from archytas_nb.loop.grammar import Attempt
from archytas_nb.loop.strings import Closings

MAX_TRIES = 200
"""How many ways to cut a text into strings are tried before it counts as unreadable."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text was read as.

    Attributes:
        value: Decoded JSON.
        end: Where it ends in the text.
        mended: What had to be mended, in words; empty for exact JSON.
        open: Whether the last closing brace was missing.
    """

    value: Json
    end: int
    mended: tuple[str, ...] = ()
    open: bool = False


def read_value(
    text: str, at: int = 0, *, may_be_open: bool = False, work: Work | None = None
) -> Reading:
    """Read the JSON value that begins at a place in a text.

    Args:
        text: Any text.
        at: Where the value begins.
        may_be_open: Whether the last closing brace may be missing.
        work: How much work may be done; None for what the text's length is worth.

    Returns:
        The reading; whatever follows it in the text is left alone.

    Raises:
        UnreadableError: There is no value here, it is cut off, or it has more than one meaning.
    """
    try:
        value, end = EXACT.raw_decode(text, at)
        return Reading(whole(value), end)
    except RecursionError:
        raise UnreadableError(at, "it is nested too deeply") from None
    except json.JSONDecodeError as error:
        work = work or Work(len(text) - at)
        work.spend((error.pos - at) // 10)
        return _search(text, at, work, may_be_open=may_be_open)
    except UnreadableError as error:
        raise UnreadableError(at, error.why) from None
    except ValueError:  # thousands of digits
        raise UnreadableError(at, "it holds a number that is too long") from None


def _search(text: str, at: int, work: Work, *, may_be_open: bool) -> Reading:
    """Try the ways to cut the text into strings, the earliest closing quotes first.

    A way that leaves quotes in pairs wins at once. One that does not, or that puts a comma in within a line, is
    taken only where it is the only one.
    """
    choices: list[int] = []
    closings = Closings(text, work)
    doubtful: list[Reading] = []
    joined = False
    deepest = UnreadableError(at, "it is no JSON")
    for _ in range(MAX_TRIES):
        attempt = Attempt(text, closings, choices, work, may_be_open=may_be_open)
        read = _attempted(attempt, at)
        if work.left < 0:
            raise UnreadableError(at, TOO_MUCH)
        if isinstance(read, UnreadableError):
            deepest = max(deepest, read, key=lambda error: error.at)
        elif not (attempt.uneven or attempt.joined):
            if joined:
                raise UnreadableError(at, "a comma is missing, and it can be read in two ways")
            return read
        else:
            joined |= attempt.joined and not attempt.uneven
            if not any(same(read.value, other.value) for other in doubtful):
                doubtful.append(read)
        choices = attempt.next_choices()
        if not choices:
            break
    else:
        raise UnreadableError(deepest.at, "its quotes can be read in too many ways")
    if len(doubtful) == 1:
        return doubtful[0]
    if doubtful:
        raise UnreadableError(
            at, "the quotes in its strings are not escaped, and it can be read in two ways"
        )
    raise deepest


def _attempted(attempt: Attempt, at: int) -> Reading | UnreadableError:
    try:
        value, end = attempt.value(at)
    except UnreadableError as error:
        return error
    except RecursionError:
        return UnreadableError(at, "it is nested too deeply")
    return Reading(whole(value), end, tuple(dict.fromkeys(attempt.mended)), attempt.open)
