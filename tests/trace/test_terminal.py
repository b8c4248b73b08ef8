"""A run in a terminal and in a console: colours, width, order, images, and what it does now."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Answered, Delta, Event, RunCalls, ToolCall
from archytas_nb.namespace import is_console
from archytas_nb.trace import terminal
from archytas_nb.trace.fold import advance, fold
from archytas_nb.trace.text import plain
from tests.trace.hostile import PAYLOADS, endings, hostile_run
from tests.trace.samples import SAMPLES, ask

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OVERWRITTEN = re.compile(r"[^\n]*\r\x1b\[2K")


OTHERS = {"huge", "loop", "failed", "unreachable"}  # long, or ended by the error of the cell


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(events: list[Event], columns: int, *, console: bool = False) -> str:
    """The output for a terminal of a width."""
    stream = Tty()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm-256color")
        layer = terminal.TerminalLayer(terminal.Screen(is_console=console))
        view = fold("q", ())
        for event in events:
            view = advance(view, event)
            if view.ending is None:
                layer.update(view, event)
        layer.finish(view)
    return stream.getvalue()


def lines_of(sent: str) -> list[str]:
    """The lines that stay, without their colours."""
    return COLOUR.sub("", OVERWRITTEN.sub("", sent)).split("\n")


@pytest.mark.parametrize("columns", [40, 101])
@pytest.mark.parametrize("name", [each for each in SAMPLES if each not in OTHERS])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(name: str, columns: int) -> None:
    question, events = SAMPLES[name]
    lines = lines_of(shown(list(events), columns))
    assert max(map(len, lines)) < columns
    steps = plain(fold(question, [*events[:-1], Answered("")])).split("\n", 1)[1]
    words = re.findall(r"[^\W_]{2,}", " ".join(lines))
    missing = [word for word in re.findall(r"[^\W_]{2,}", steps) if not _is_in(word, words)]
    assert missing == []


def _is_in(word: str, words: list[str]) -> bool:
    """Whether a word stands in a line, or in parts at the ends of lines, as only a long one may."""
    return word in words or len(word) > 12


def test_only_colours_and_the_status_line_are_sent() -> None:
    """Whatever a model or a tool writes, the terminal obeys nothing of it."""
    for payload in PAYLOADS[::5]:
        *_, ending = endings(payload)
        for events in ([*hostile_run(payload), *ending], [*ask(1), Answered(f"{payload}\x1b[2J")]):
            rest = COLOUR.sub("", shown(events, 80)).replace("\r\x1b[2K", "")
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", rest), payload


NUMBERS = st.floats(-1e9, 1e9).map(lambda x: f"{x:,.2f}")


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), st.integers(60, 120))
def test_no_number_of_a_table_is_broken(rows: list[tuple[str, str]], columns: int) -> None:
    table = "| species | mean | total |\n|:--|--:|--:|\n"
    table += "\n".join(f"| Gentoo {at} | {a} | {b} |" for at, (a, b) in enumerate(rows))
    lines = lines_of(shown([*ask(1), Answered(table)], columns))
    assert all(any(a in line and b in line for line in lines) for a, b in rows)


def test_an_answer_is_read_as_markdown() -> None:
    answer = "# Masses\n\n**Gentoo** are `heavy`, see [it](https://a.b).\n\n1. one\n2. two\n\n$x_1$"
    sent = shown([*ask(1), Answered(answer)], 80)
    assert "\x1b[1mGentoo\x1b[0m are" in sent
    lines = lines_of(sent)
    assert {"Masses", "1. one", "2. two", "$x_1$"} <= {line.strip() for line in lines}
    assert not any(mark in line for line in lines for mark in ("**", "`", "# "))


def test_calls_stand_in_the_order_in_which_they_were_made() -> None:
    """Of a line with many calls, the last ones stand before the calls of later lines."""
    _, events = SAMPLES["loop"]
    made = [
        int(n)
        for line in lines_of(shown(list(events), 100))
        for n in re.findall(r"n?umber=(\d+)", line)
    ]
    assert made == sorted(made)
    assert made[-1] == 899


def test_an_image_is_a_file_that_can_be_opened() -> None:
    _, events = SAMPLES["rich"]
    text = "".join(line.strip() for line in lines_of(shown(list(events), 140)))
    paths = re.findall(r"\[image/png\] (\S+?\.png)", text)
    assert len(paths) == 2
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in paths)


RUNNING = RunCalls(1, (ToolCall("a", "measure", {}),))


@pytest.mark.parametrize("console", [False, True])
def test_what_is_done_now_is_written_over_where_that_is_possible(*, console: bool) -> None:
    sent = shown([*ask(1), RUNNING, Answered("Done.")], 80, console=console)
    assert ("● waiting for the model" in sent) is not console
    assert ("\r" in sent) is not console
    assert lines_of(sent)[-2:] == ["Done.", ""]


def test_nothing_is_written_over_while_a_person_is_asked() -> None:
    sent = shown([*ask(1), RUNNING, Delta("person", "run?")], 80)
    assert "● waiting for the model" in sent
    assert "●" not in OVERWRITTEN.sub("", sent)


def request(message: str, **metadata: str) -> Callable[[str], dict[str, object]]:
    header = {"session": "0a-1b", "msg_id": message}
    return lambda _: {"header": header, "metadata": metadata}


@pytest.mark.parametrize(
    ("message", "metadata", "person", "expected"),
    [
        ("0a-1b_77_3", {}, True, True),
        ("0a-1b_77_3", {}, False, False),
        ("0a-1b_77_3", {"cellId": "c"}, True, False),
        ("5f0c3c1e", {}, True, False),
    ],
)
def test_a_console_has_a_person_and_no_cells(
    *, message: str, metadata: dict[str, str], person: bool, expected: bool
) -> None:
    kernel = SimpleNamespace(_allow_stdin=person, get_parent=request(message, **metadata))
    assert is_console(kernel) is expected
    assert not is_console(SimpleNamespace())


def test_the_line_of_what_is_done_is_no_output_of_the_call_that_runs() -> None:
    """A line may change while a call runs, in the context in which its output is captured."""
    captured: ContextVar[list[str] | None] = ContextVar("captured", default=None)

    class Captured(Tty):
        def write(self, text: str) -> int:
            into = captured.get()
            if into is not None:
                into.append(text)
                return len(text)
            return super().write(text)

    stream = Captured()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setenv("TERM", "xterm-256color")
        screen = terminal.Screen()
        output: list[str] = []
        captured.set(output)
        screen.show("● running")
        screen.write(["a line"])
        captured.set(None)
    assert output == []
    assert "● running" in stream.getvalue()


def test_what_is_said_below_an_answer_elsewhere_is_said_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archytas_nb.trace.view.unlinked", lambda _: "9,001.00: in no result")
    lines = lines_of(shown([*ask(1), Answered("Of 9,001.00.")], 80))
    assert lines[-3:] == ["Of 9,001.00.", "9,001.00: in no result", ""]
