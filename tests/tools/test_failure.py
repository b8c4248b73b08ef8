"""A tool that raises is described by the user's own lines, without colours and without ours."""

from __future__ import annotations

import json

from archytas_nb.tools.render import failure_text
from archytas_nb.tools.tool import Tool


def inner(x):
    raise ValueError(f"bad \x1b[31m{x}\x1b[0m")


def test_type_message_and_the_users_frames_are_shown():
    def f(x: int) -> int:
        """Do.

        Args:
            x: One.
        """
        return inner(x)

    outcome = Tool.from_function(f).call(3)
    lines = outcome.text.split("\n")
    assert lines[0] == "ValueError: bad 3"
    assert lines[1].endswith("in f: return inner(x)")
    assert lines[2].endswith('in inner: raise ValueError(f"bad \\x1b[31m{x}\\x1b[0m")')
    assert len(lines) == 3
    assert isinstance(outcome.error, ValueError)


def test_frames_of_libraries_are_left_out():
    def f() -> None:
        """Do."""
        json.loads("{")

    text = Tool.from_function(f).call(None).text
    assert text.startswith("JSONDecodeError: Expecting")
    assert "decoder.py" not in text
    assert text.endswith('json.loads("{")')


def test_causes_are_named_and_suppressed_ones_are_not():
    def chained() -> None:
        """Do."""
        try:
            inner(1)
        except ValueError as error:
            raise KeyError("outer") from error

    def silent() -> None:
        """Do."""
        try:
            inner(1)
        except ValueError:
            raise KeyError("outer") from None

    assert "\ncaused by ValueError: bad 1" in Tool.from_function(chained).call(None).text
    assert "ValueError: bad" not in Tool.from_function(silent).call(None).text.split("\n")[0]
    assert "caused by" not in Tool.from_function(silent).call(None).text


def test_lines_of_a_cell_have_their_source_and_no_path(tmp_path):
    import linecache

    source = 'def f() -> None:\n    """Do."""\n    1 / 0\n'
    name = "/tmp/ipykernel_123/456.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict = {}
    exec(compile(source, name, "exec"), scope)
    assert (
        Tool.from_function(scope["f"]).call(None).text
        == "ZeroDivisionError: division by zero\n  line 3, in f: 1 / 0"
    )


def test_notes_are_shown_and_the_text_is_bounded():
    error = ValueError("x" * 20_000)
    error.add_note("a hint")
    assert len(failure_text(error)) <= 8000
    assert failure_text(error).endswith("note: a hint")


def test_an_exception_that_cannot_be_written_is_still_named():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert failure_text(Mute()) == "Mute: (its message cannot be read)"


def test_an_exception_without_message_is_its_type():
    assert failure_text(KeyError()) == "KeyError"


def test_causes_that_form_a_ring_end():
    one, other = ValueError("1"), ValueError("2")
    one.__cause__, other.__cause__ = other, one
    assert failure_text(one) == "ValueError: 1\ncaused by ValueError: 2"
