"""Cut text to a length, head and tail kept. Knows text only."""

from __future__ import annotations


def clip(text: str, max_chars: int) -> str:
    """Keep at most ``max_chars`` characters: the head, a note of how much is left out, and the tail.

    Args:
        text: Any text.
        max_chars: The most characters of the result.

    Returns:
        The text itself where it fits.
    """
    if len(text) <= max_chars:
        return text
    # The note's own length depends on the number in it; its largest form is assumed.
    room = max_chars - len(note(len(text)))
    if room <= 0:
        return text[: max(max_chars, 0)]
    tail = room // 4
    head = room - tail
    return text[:head] + note(len(text) - head - tail) + (text[-tail:] if tail else "")


def note(count: int) -> str:
    """Return the note that stands for characters left out."""
    return f"\n… {count:,} characters left out …\n"
