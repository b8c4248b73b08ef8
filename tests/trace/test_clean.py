"""Any text, made fit to be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.trace.clean import clip, first_lines, one_line, tidy

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@given(ANY)
def test_tidy_text_can_be_encoded_and_holds_no_controls(text: str) -> None:
    """Whatever comes in, what goes out is printable, can be put on the wire, and is tidy already."""
    clean = tidy(text)
    clean.encode("utf-8")
    assert "\x1b" not in clean
    assert not [each for each in clean if ord(each) < 32 and each not in "\n\t"]
    assert tidy(clean) == clean


@given(ANY, st.integers(3, 50))
def test_a_clipped_text_keeps_its_ends(text: str, limit: int) -> None:
    """Clipping keeps the limit's number of characters from both ends and counts the rest."""
    clipped = clip(text, limit)
    if len(text) <= limit:
        assert clipped == text
    else:
        assert clipped.startswith(text[: limit * 2 // 3])
        assert clipped.endswith(text[-(limit - limit * 2 // 3) :])
        assert f"{len(text) - limit:,} characters left out" in clipped


@given(ANY, st.integers(2, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """A folded text has no newline and fits."""
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("10%\r50%\r100%\n", "100%"),
        ("a\r\nb\r\n", "a\nb"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("abc\u202egnp.exe", "abc\ufffdgnp.exe"),
    ],
)
def test_what_is_tidied(text: str, clean: str) -> None:
    """Colours, links, overwritten lines, controls, half pairs and reversals are removed or marked."""
    assert tidy(text) == clean


def test_left_out_lines_are_counted() -> None:
    """The last line says how many more there are, or how many characters, where lines cannot be counted."""
    assert first_lines("a\nb\nc", 2, 10) == ["a", "b", "… 1 more line"]
    assert first_lines("a\nb\nc\nd", 2, 10)[-1] == "… 2 more lines"
    assert first_lines(tidy("x\n" * 50_000), 2, 10)[-1] == "… 80,000 characters left out …"
