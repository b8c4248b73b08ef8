"""A short text diff: where two texts differ first, and the lines around it. Pure."""

from __future__ import annotations

import difflib

_MOST_LINES = 8
_WIDTH = 96  # characters of a line that are shown


def first_line(before: str, after: str) -> int:
    """The number of the first line in which two texts differ, counted from 0."""
    old, new = before.split("\n"), after.split("\n")
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(old), len(new)))


def text_difference(before: str, after: str) -> tuple[str, str]:
    """Show the first difference of two texts.

    Args:
        before: The recorded text.
        after: The text of now.

    Returns:
        Where it is (``"line 3, character 7"``), and a diff of a few lines: ``-`` recorded, ``+`` now. Long lines
        are cut to the piece that differs.
    """
    old, new = before.split("\n"), after.split("\n")
    line = first_line(before, after)
    a, b = (lines[line] if line < len(lines) else "" for lines in (old, new))
    at = next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    codes = difflib.SequenceMatcher(None, old[line:], new[line:], autojunk=False).get_opcodes()
    changed = next((code for code in codes if code[0] != "equal"), None)
    if changed is None:
        return "", ""
    _, i, j, k, m = changed
    shown = _lines("-", old[line + i : line + j], at) + _lines("+", new[line + k : line + m], at)
    return f"line {line + 1}, character {at + 1}", "\n".join(shown)


def _lines(sign: str, lines: list[str], at: int) -> list[str]:
    """The first of some lines; the place is one in the first of them."""
    return [
        f"    {sign} {_cut(text, at if n == 0 else 0)}"
        for n, text in enumerate(lines[: _MOST_LINES // 2])
    ]


def _cut(text: str, at: int) -> str:
    """The piece of a line around a place."""
    if len(text) <= _WIDTH:
        return text
    begin = max(0, min(at - _WIDTH // 3, len(text) - _WIDTH))
    end = begin + _WIDTH
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
