"""Make any text fit to be shown: no escape codes, no control characters, no more than fits.

Models and tools write what they like: colours for a terminal, five megabytes, half a surrogate pair. What
passes through here can be printed, put on the wire and laid out. It says nothing about HTML; see `safe`.
This file knows strings alone.
"""

from __future__ import annotations

import re

KEEP = 20_000
"""Characters of one text that a view keeps; the rest is counted and left out."""

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links: ESC ] … BEL
    r"|[\x1b\x9b]\[?[0-?]*[ -/]*[@-~]"  # colours and cursor movements
)
# Controls, halves of surrogate pairs (they cannot be encoded for the wire), and the marks that reverse the
# direction of the text around them, with which an output could make a line say what it does not.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_CUT = re.compile(r"… [\d,]+ characters left out …")


def clip(text: str, limit: int) -> str:
    """Keep the beginning and the end of a text, and say how much is missing between them.

    Args:
        text: Any text.
        limit: Characters to keep, not counting the line that says what is missing.

    Returns:
        The text itself where it fits.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return (
        f"{text[:head]}\n… {len(text) - limit:,} characters left out …\n{text[len(text) - tail :]}"
    )


def tidy(text: str, limit: int = KEEP) -> str:
    """Remove what cannot be shown and keep at most `limit` characters.

    A line that was overwritten with carriage returns (a progress bar) keeps its last state.

    Args:
        text: Any text, of any length, with any code points.
        limit: Characters to keep.

    Returns:
        Text without escape codes and control characters other than newline and tab, without trailing newlines.
    """
    text = _ESCAPES.sub("", clip(text, limit)).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("\ufffd", text).rstrip("\n")


def one_line(text: str, limit: int) -> str:
    """Fold a text into one line of at most `limit` characters, ``…`` at the cut."""
    line = " ".join(text[: 4 * limit].split())
    return (
        line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1].rstrip() + "…"
    )


def first_lines(text: str, lines: int, width: int) -> list[str]:
    """The first lines of a text, each cut to `width`, and a last one that counts what is left out."""
    every = text.split("\n")
    kept = [line if len(line) <= width else line[: width - 1] + "…" for line in every[:lines]]
    if len(every) > lines:
        more = len(every) - lines
        # Where `clip` was here before, the lines that it left out cannot be counted.
        cut = next((line for line in every[lines:] if _CUT.fullmatch(line)), None)
        kept.append(cut or f"… {more:,} more line{'s' if more > 1 else ''}")
    return kept
