"""Texts for a person or a model: shortened, on one line, counted, and compared with known names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

KEEP = 20_000
"""Maximum number of characters of one text that a view keeps."""
_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links: ESC ] … BEL
    r"|[\x1b\x9b]\[?[0-?]*[ -/]*[@-~]"  # colours and cursor movements
)
# Controls, halves of surrogate pairs (they cannot be encoded), and marks that reverse the direction
# of text, with which a line could be made to read as what it is not.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def collapse_whitespace(text: str, limit: int = 300) -> str:
    """Fold a text into one line of at most `limit` characters, ``…`` at the cut."""
    line = " ".join(text[: 4 * limit].split())
    whole = len(line) <= limit and len(text) <= 4 * limit
    if whole:
        return line
    return line[: limit - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """A number with its noun, such as ``"1 row"`` or ``"2,000 rows"``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def counted(names: Iterable[str]) -> str:
    """Names, each once, with how often it is there: ``"stock × 3, price"``."""
    times = Counter(names)
    return ", ".join(f"{name} × {n:,}" if n > 1 else name for name, n in times.items())


_NUMBER = re.compile(r"(\d+)")
_SHORTEST_RUN = 3


def runs(names: Iterable[str]) -> list[str]:
    """Names in their order, those that only count on as ``a1 … a8``, or as ``a0, a5 … a95``."""
    found: list[str] = []
    run: list[str] = []
    step: _Step | None = None
    for name in names:
        following = _step(run[-1], name) if run else None
        if following is None or (len(run) > 1 and following != step):
            found += _shortened(run, step)
            run = []
            following = None
        step = following
        run.append(name)
    return found + _shortened(run, step)


_Step: TypeAlias = tuple[int, int]
"""The number in a name that differs, and by how much."""


def _step(before: str, name: str) -> _Step | None:
    """How the number differs in which alone a name differs from the one before."""
    if len(name) - len(before) not in (0, 1):
        return None
    old, new = _NUMBER.split(before), _NUMBER.split(name)
    if len(old) != len(new):
        return None
    places = [place for place, part in enumerate(old) if part != new[place]]
    if len(places) != 1 or places[0] % 2 == 0:
        return None
    first, second = old[places[0]], new[places[0]]
    by = int(second) - int(first)
    if by < 1 or second != f"{int(first) + by:0{len(first)}}":
        return None
    return places[0], by


def _shortened(run: list[str], step: _Step | None) -> list[str]:
    if step is None or len(run) < _SHORTEST_RUN:
        return run
    second = "" if step[1] == 1 else f", {run[1]}"
    return [f"{run[0]}{second} … {run[-1]}"]


def clock(seconds: float) -> str:
    """A duration in minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s"


def truncate_middle(text: str, max_chars: int) -> str:
    """Truncate to ``max_chars`` characters: the head, the number of omitted ones, and the tail."""
    if len(text) <= max_chars:
        return text
    # The length of the note depends on the number in it; the longest possible one is assumed.
    room = max_chars - len(omission(len(text)))
    if room <= 0:
        return text[: max(max_chars, 0)]
    tail = room // 4
    head = room - tail
    return text[:head] + omission(len(text) - head - tail) + text[len(text) - tail :]


def omission(count: int) -> str:
    """The text that replaces omitted characters."""
    return f"\n… {count:,} characters left out …\n"


_OMISSION = re.compile(omission(0).strip().replace("0", r"[\d,]+"))


def is_omission(line: str) -> bool:
    """Whether a line stands for characters that `truncate_middle` has omitted."""
    return _OMISSION.fullmatch(line) is not None


def keep_both_ends(text: str, longest: int) -> str:
    """Both ends of a long text, because the end may matter as much as the beginning."""
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    tail = longest // 3
    end = len(text) - tail
    more = ""
    if "left out …" in text[head:end]:  # it is truncated already
        more = "more than "
    return f"{text[:head]} … {more}{end - head:,} characters left out … {text[end:]}"


def edit_in_words(name: str, before: str, after: str) -> str:
    """The change of an argument on one line: ``limit 5 → 10``."""
    return f"{name} {truncate_both_ends(before)} → {truncate_both_ends(after)}"


def answered_in_words(seconds: float) -> str:
    """The words for an answer of the person, and after how long."""
    return f"answered by you{after_seconds(seconds)}"


def after_seconds(seconds: float | None) -> str:
    """After how long, as the end of a sentence; less than one second is not said."""
    if seconds is None or seconds < 1:
        return ""
    return f" after {clock(seconds)}"


LINE_BREAK = "⏎"
"""Stands for the end of a line in a text that is shown on one."""


def truncate_both_ends(text: str) -> str:
    """A value on one line of at most some 40 characters of its own, with both ends."""
    return keep_both_ends(text.replace("\n", LINE_BREAK), _BRIEF)


def is_brief(text: str) -> bool:
    """Whether `truncate_both_ends` shows a value as it is."""
    return "\n" not in text and len(text) <= _BRIEF


_BRIEF = 40


_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00013441\U00013442"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Invisible characters that Unicode calls printable."""


def escape(text: str) -> str:
    """Escape every invisible character.

    These are line breaks, control characters, changes of direction, all spaces but the usual one,
    and letters and marks without a visible shape.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() and not _BLANK.match(character):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible(text: str) -> str:
    """A text in which only the line breaks are not escaped; tabs become spaces."""
    return "\n".join(escape(line.expandtabs(4)) for line in text.split("\n"))


def visible_code(text: str) -> str:
    """Python code with every character visible, in the lines that Python sees."""
    return visible(text.replace("\r\n", "\n").replace("\r", "\n").rstrip())


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The most similar known name, or None if none is similar, from 0 to 1, by at least `least`."""
    import difflib  # only after a mistake, and loading the extension must be fast

    folded: dict[str, str] = {}
    for each in known:
        if isinstance(each, str):
            folded.setdefault(each.casefold(), each)
    found = difflib.get_close_matches(str(name)[:200].casefold(), folded, n=1, cutoff=least)
    if found:
        return folded[found[0]]
    return None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``", did you mean 'x'?"`` for the most similar known name, or an empty string."""
    near = nearest(name, known)
    if near is not None:
        return f", did you mean {near!r}?"
    return ""


def truncate_line(text: str, size: int) -> str:
    """A text on one line, truncated to `size` characters with ``…``."""
    if len(text) > size:
        text = f"{text[: size - 1]}…"
    return text.replace("\n", " ")


def with_article(label: str) -> str:
    """The name of a type with its article."""
    if label[:1].lower() in "aeiou" or label.startswith("nd"):
        return f"an {label}"
    return f"a {label}"


def without_values(text: str) -> str:
    """A text without numbers and identifiers, which differ between two errors of a kind."""
    return re.sub(r"[0-9a-f-]{8,}|\d+", "#", text.lower())


def tidy(text: str, limit: int = KEEP) -> str:
    """Remove escape codes, control characters and trailing newlines, and keep `limit` characters.

    A line that was overwritten with carriage returns (a progress bar) keeps its last state.
    """
    is_clean = len(text) <= limit and text.isprintable()  # as most texts are
    if is_clean:
        return text
    if len(text) > limit:
        text = truncate_middle(text, limit)
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("\ufffd", text).rstrip("\n")
