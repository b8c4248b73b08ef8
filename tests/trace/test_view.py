"""The fold from events to what a person sees."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from pathlib import PurePosixPath
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Event,
    Failed,
    Fault,
    Interrupted,
    ModelReply,
    NoReply,
    NoReplyKind,
    Notice,
    NoticeKind,
    Output,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
    ResumeProgram,
    RunCalls,
    RunProgram,
    Shown,
    Started,
    Stopped,
    ToolCall,
    Usage,
    Verdict,
)
from archytas_nb.trace import bundle
from archytas_nb.trace.calls import call_view, literal
from archytas_nb.trace.fold import advance, fold, with_outcomes
from archytas_nb.trace.html import PageLimits, step_html
from archytas_nb.trace.safe import MAX_COLUMNS, MAX_ROWS, Table, table_of
from archytas_nb.trace.view import CallView, RunView
from archytas_nb.words import collapse_whitespace, tidy
from tests.trace.samples import SAMPLES, ask, call, frame, long_run, png

TEXT = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, JSON), max_size=3).map(tuple)
OUTPUTS = st.lists(
    st.builds(
        Output,
        st.sampled_from(["stdout", "stderr", "display"]),
        st.dictionaries(
            st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml"]),
            TEXT,
            max_size=3,
        ),
    ),
    max_size=2,
).map(tuple)
OUTCOMES = st.lists(
    st.builds(
        CallOutcome,
        st.sampled_from(["done", "error", "refused", "interrupted", "not_run"]),
        TEXT.filter(bool),
        outputs=OUTPUTS,
        images=st.lists(TEXT, max_size=1).map(tuple),
    ),
    max_size=3,
).map(tuple)
FAULTS = st.builds(Fault, st.integers(-1, 9), TEXT, TEXT)
EVENTS = st.lists(
    st.one_of(
        st.builds(AskModel, st.integers(1, 4), st.just(()), is_continued=st.just(True)),
        st.builds(RunProgram, st.integers(1, 4), TEXT, TEXT, st.booleans()),
        st.builds(
            ProgramWaits,
            st.lists(st.builds(ProgramCall, TEXT, JSON, st.integers(-1, 9)), max_size=3).map(tuple),
        ),
        st.builds(ResumeProgram, st.integers(1, 4), OUTCOMES),
        st.builds(ProgramFaults, st.lists(FAULTS, max_size=2).map(tuple)),
        st.builds(
            ProgramEnded,
            st.lists(TEXT, max_size=2).map(tuple),
            JSON,
            st.booleans(),
            error=st.none() | FAULTS,
            assigned=st.dictionaries(TEXT, st.builds(Shown, TEXT), max_size=2),
            interrupted=st.booleans(),
            lost=TEXT,
        ),
        st.builds(Started, TEXT, st.sampled_from(["native", "react"])),
        st.builds(AskModel, st.integers(1, 4), st.just(())),
        st.builds(ModelReply, TEXT, reasoning=TEXT),
        st.builds(NoReply, st.sampled_from(get_args(NoReplyKind)), TEXT),
        st.builds(RunCalls, st.integers(1, 4), CALLS, TEXT),
        st.builds(CallOutcomes, OUTCOMES),
        st.builds(Notice, st.sampled_from(get_args(NoticeKind)), TEXT),
        st.builds(Delta, st.sampled_from(["text", "reasoning", "output"]), TEXT),
        st.builds(CheckAnswer, st.integers(1, 4), JSON),
        st.builds(Verdict, TEXT, st.none() | st.integers() | st.builds(frame)),
        st.builds(Answered, TEXT, TEXT),
        st.builds(Failed, TEXT),
        st.builds(Stopped, TEXT, TEXT),
        st.builds(Interrupted, TEXT),
    ),
    max_size=12,
)


@given(EVENTS)
def test_any_events_in_any_order_can_be_shown(events: list[Any]) -> None:
    data, metadata = bundle(fold("q", events))
    for text in data.values():
        text.encode("utf-8")
    assert set(metadata) == {"archytas_nb"}


@given(EVENTS, st.integers(0, 12))
def test_a_view_can_be_made_of_any_prefix_of_the_events(events: list[Any], cut: int) -> None:
    """Folding the rest onto the view of the beginning is folding the whole."""
    view = fold("q", events[:cut])
    for event in events[cut:]:
        view = advance(view, event)
    assert view == fold("q", events)


@given(EVENTS)
def test_pieces_and_progress_do_not_change_the_view(events: list[Any]) -> None:
    """A streamed run and the same run in whole replies have equal views."""
    lasting = [
        each
        for each in events
        if not isinstance(each, Delta) and getattr(each, "kind", "") != "progress"
    ]
    assert fold("q", events) == fold("q", lasting)


@given(EVENTS)
def test_an_event_does_not_change_the_earlier_view(events: list[Any]) -> None:
    """Views are values: taking one more event does not change the view that was there."""
    views = [RunView("q")]
    for event in events:
        views.append(advance(views[-1], event))
    assert views == [fold("q", events[:n]) for n in range(len(events) + 1)]


def test_outcomes_are_assigned_to_calls_without_one() -> None:
    """Calls are answered in their order; those of an earlier round keep their outcome."""
    two = (ToolCall("a", "f", {"n": 1}), ToolCall("b", "g", None))
    events = [
        *ask(1),
        RunCalls(1, two),
        CallOutcomes((CallOutcome("done", "one"), CallOutcome("error", "two"))),
        RunCalls(1, (ToolCall("c", "h", [1]),)),
        CallOutcomes((CallOutcome("refused", "three"),)),
    ]
    (step,) = fold("q", events).steps
    assert [(each.name, each.status, each.text) for each in step.calls] == [
        ("f", "done", "one"),
        ("g", "error", "two"),
        ("h", "refused", "three"),
    ]
    assert [each.arguments for each in step.calls] == [(("n", "1"),), (), (("", "[1]"),)]


def test_a_reply_that_could_not_be_used_is_kept() -> None:
    """A reply after which the model is asked again was of no use, and a person may see it."""
    view = fold("q", [*ask(1, "well …"), *ask(2, "")])
    assert [step.rejected for step in view.steps] == [("well …",), ()]
    assert view.steps[0].failed


def test_a_repeated_call_is_not_a_rejected_reply() -> None:
    """Where the earlier outcome is repeated, nothing is wrong with the reply."""
    view = fold("q", [*ask(1), Notice("repeat", "f: the same call again"), *ask(2)])
    assert view.steps[0].rejected == ()
    assert not view.steps[0].failed


def test_usage_and_seconds_add_up() -> None:
    """The view counts requests and tokens of all replies, and the seconds of replies."""
    view = fold("q", long_run(3, 5))
    assert view.usage == Usage(4, 3100, 0, 35)
    assert fold("q", call(1, "f", {}, "x")).seconds == pytest.approx(0.5)


def test_the_size_of_a_view_is_limited() -> None:
    """Five megabytes of output do not stay in memory."""
    question, events = SAMPLES["huge"]
    assert len(repr(fold(question, events))) < 100_000


def test_shows_the_model_at_the_start_and_a_change_of_protocol() -> None:
    events: list[Event] = [Started("tiny-1", "native"), AskModel(1, ())]
    assert (fold("q", events).model, fold("q", events).protocol) == ("tiny-1", "native")
    assert fold("q", [*events, Notice("protocol", "no tools here")]).protocol == "react"


def test_an_overflow_solved_by_compaction_is_not_a_failure() -> None:
    """The compaction says why no reply came; the step is not marked as failed."""
    events = [
        AskModel(1, ()),
        NoReply("overflow", "too long"),
        Notice("compaction", "shortened"),
        *ask(1),
    ]
    [step] = fold("q", [*events, Answered("done")]).steps
    assert [note.kind for note in step.notes] == ["compaction"]
    assert not step.failed


@pytest.mark.parametrize(
    ("value", "typed"), [(7, True), (["a"], True), ("prose", False), (None, False)]
)
def test_distinguishes_a_typed_answer_from_prose(value: object, typed: bool) -> None:
    """A typed answer is shown as it is, not rendered as Markdown."""
    events = [*ask(1), CheckAnswer(1, "x"), Verdict(value=value), Answered("x")]
    assert fold("q", events).typed is typed


def with_text(text: str, *outputs: Output, printed: str = "") -> CallView:
    """A call with an outcome of this text."""
    outcome = CallOutcome("done", text, outputs=outputs, printed=printed)
    [view] = with_outcomes((call_view(ToolCall("a", "f")),), (outcome,))
    return view


def test_text_that_the_model_read_is_not_shown_twice() -> None:
    """Printed text that the outcome repeats, and an image that was displayed, appear once."""
    outputs = (
        Output("stdout", {"text/plain": "hello\n"}),
        Output("stderr", {"text/plain": "careful\n"}),
        Output("display", {"image/png": png()}),
    )
    events = call(1, "f", {}, "done", outputs=outputs, images=(png(),), printed="hello")
    (view,) = fold("q", events).steps[0].calls
    assert view.text == "done"
    assert [(each.kind, each.text, bool(each.picture)) for each in view.shown] == [
        ("stdout", "hello", False),
        ("stderr", "careful", False),
        ("display", "", True),
    ]


def test_keeps_multiline_arguments_besides_the_one_line_call() -> None:
    """Code, SQL and prose are read line by line; the call that they are given to stays one line."""
    sql = 'SELECT "a"\n  FROM b\n'
    view = call_view(ToolCall("a", "query", {"sql": sql, "limit": 3, "name": "x\n"}))
    assert view.arguments == (
        ("sql", '"SELECT \\"a\\" ⏎ FROM b"'),
        ("limit", "3"),
        ("name", '"x\\n"'),
    )
    assert view.texts == (("sql", sql.rstrip("\n")),)
    assert call_view(ToolCall("a", "run", "a\nb")).texts == (("", "a\nb"),)
    [step] = fold("q", call(1, "query", {"sql": sql, "limit": 3}, "[]")).steps
    page = step_html(step, PageLimits([step]))
    assert page.count("SELECT") == 2  # in the line, and below it as it is
    assert 'SELECT "a"\n  FROM b→' in re.sub("<[^>]+>", "", page)


def test_printed_output_is_shown_next_to_a_table() -> None:
    """A table stands for the text that the model read, not for what the tool printed."""
    outputs = (Output("stdout", {"text/plain": "hello\n"}),)
    events = call(1, "f", {}, "3 rows", outputs=outputs, value=frame(), printed="hello")
    (view,) = fold("q", events).steps[0].calls
    assert view.table is not None
    assert [each.text for each in view.shown] == ["hello"]


def test_printed_output_is_shown_once_and_separate_from_the_result() -> None:
    """The words that only the model needs are not shown to the person."""
    view = with_text("5 rows", Output("stdout", {"text/plain": "hello\n"}), printed="hello")
    assert view.text == "5 rows"
    assert [each.text for each in view.shown] == ["hello"]


def test_a_figure_is_shown_without_its_placeholder_text() -> None:
    figure = Output(
        "display", {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": png()}
    )
    view = with_text("(no output)", figure, printed="<Figure size 640x480 with 1 Axes>")
    assert (view.text, view.pictures) == ("(no output)", 1)
    name = "<IPython.core.display.Markdown object>"
    prose = Output("display", {"text/plain": name, "text/markdown": "# Masses"})
    view = with_text("(no output)", prose, printed="# Masses")
    assert view.text == "(no output)"
    assert [(each.text, each.prose) for each in view.shown] == [("# Masses", "# Masses")]
    markup = Output(
        "display", {"text/plain": name.replace("Markdown", "HTML"), "text/html": "<b>bold</b>"}
    )
    assert [(each.text, each.prose) for each in with_text("(no output)", markup).shown] == [
        ("bold", "")
    ]


def test_a_widget_is_shown_by_name_without_its_outdated_text() -> None:
    """A progress bar of a notebook says 0 % for ever where nothing draws it."""
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "a"},
        "text/plain": "0%|   | 0/30",
    }
    view = with_text("done", Output("display", data), printed="0%|   | 0/30")
    assert (view.text, [each.text for each in view.shown]) == ("done", ["[a widget]"])


def test_a_result_that_only_looks_like_printed_text_is_not_split() -> None:
    """A tool may return those words; where it printed nothing of the kind, they are its result."""
    text = "money\n\nReturned: a story"
    assert with_text(text).text == text
    assert with_text(text, Output("stdout", {"text/plain": "paper"})).text == text


LONG = "SELECT name, origin, horsepower FROM cars WHERE horsepower > 100 AND year = "


def test_truncated_calls_show_where_they_differ_from_each_other() -> None:
    """The same query of another year; short arguments leave their share of the line to it."""
    calls = [ToolCall("a", "query", {"sql": f"{LONG}{year}", "n": 3}) for year in (1970, 1971)]
    [step] = fold("q", [*ask(1), RunCalls(1, tuple(calls))]).steps
    assert [each.signature(60) for each in step.calls] == [
        'query(sql="SELECT name, origin, horsepower FROM cars…, n=3)',
        'query(sql="SELECT name, …epower > 100 AND year = 1971", n=3)',
    ]
    whole = f'query(sql="{LONG}1970", n=3)'
    assert step.calls[0].signature(len(whole)) == whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", '"a\\nb"'),
        ({"a": [1, 2.5, True, None]}, '{"a": [1, 2.5, True, None]}'),
        ("é", '"é"'),
    ],
)
def test_a_json_value_is_written_as_python(value: Any, text: str) -> None:
    """Arguments read like the call that a person would type."""
    assert literal(value) == text


def test_a_data_frame_becomes_cells_of_text() -> None:
    """The index is a column; long numbers are rounded, long texts are cut."""
    data = pd.DataFrame(
        {"species": ["Gentoo", "A\n<b>" + "c" * 90], "mass": [5076.0162, 0.1 + 0.2]}
    )
    table = table_of(data)
    assert table is not None
    assert table.head == ("", "species", "mass")
    assert table.rows == (("0", "Gentoo", "5076.0162"), ("1", f"A <b>{'c' * 44}…", "0.3"))
    polars = pytest.importorskip("polars")
    assert table_of(polars.DataFrame({"a": [1, None], "b": ["x", "y"]})) == Table(
        ("a", "b"), (("1", "x"), ("None", "y"))
    )


def test_an_index_of_several_levels_has_a_column_for_each() -> None:
    birds = pd.DataFrame({"species": ["A", "A", "B"], "sex": ["f", "m", "f"], "mass": [1, 2, 3]})
    table = table_of(birds.groupby(["species", "sex"]).sum())
    assert table == Table(
        ("species", "sex", "mass"), (("A", "f", "1"), ("A", "m", "2"), ("B", "f", "3"))
    )
    pairs = pd.DataFrame({"a": [[0] * 10**6]}, index=pd.Index([(1, 2)], tupleize_cols=False))
    assert table_of(pairs) == Table(("", "a"), (("(1, 2)", "[0, 0, 0, 0, 0, 0, ...]"),))


def test_a_large_frame_is_truncated_and_its_rows_are_counted() -> None:
    table = table_of(pd.DataFrame([range(100)] * 1_000))
    assert table is not None
    assert [row[0] for row in table.rows] == [*"01234", "…", *map(str, range(995, 1_000))]
    assert (table.left_out, table.size) == (990, "10 of 1,000 rows")
    assert table.head == ("", *map(str, range(10)), "…", *map(str, range(91, 100)))
    assert {len(row) for row in table.rows} == {1 + MAX_COLUMNS}
    whole = table_of(pd.DataFrame({"a": range(MAX_ROWS)}), MAX_ROWS)
    assert whole is not None
    assert (len(whole.rows), whole.size) == (MAX_ROWS, "")


def test_other_values_have_no_table() -> None:
    """Only frames of pandas and polars are looked at, and of their names only those that are true."""
    lying = {"__module__": "pandas.core.frame", "iloc": property(never_called)}
    for value in (None, 3, type("DataFrame", (), {})(), type("DataFrame", (), lying)()):
        assert table_of(value) is None


def never_called(*_: object) -> Any:
    raise SystemExit


class Silent(type):
    """Classes and objects whose code must not run while a trace is drawn: there it has no time limit."""

    def __getattribute__(cls, name: str) -> Any:
        return never_called()


ANY_CODE = dict.fromkeys(("__str__", "__repr__", "__iter__", "__len__", "__format__"), never_called)


def test_a_table_runs_no_code_of_the_user() -> None:
    hidden = type("Hidden", (), ANY_CODE)()
    closed = Silent("Closed", (), dict(ANY_CODE))()
    text, items = type("Text", (str,), ANY_CODE)("a"), type("Items", (list,), ANY_CODE)([1])
    array = np.array([hidden], dtype=object)
    cells = [hidden, closed, text, items, array, [hidden, {"a": (hidden, 1)}]]
    column = pd.Series(cells, index=[hidden] * len(cells), dtype=object)
    table = table_of(pd.DataFrame({hidden: column}))
    assert table is not None
    assert table.head == ("", "<Hidden>")
    shown = ("<Hidden>", "<Closed>", "<Text>", "<Items>", "<ndarray>")
    assert table.rows == (
        *(("<Hidden>", each) for each in shown),
        ("<Hidden>", "[<Hidden>, {'a': (<Hidden>, 1)}]"),
    )
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": polars.Series([hidden], dtype=polars.Object)})
    assert table_of(frame) == Table(("a",), (("<Hidden>",),))


def test_values_of_known_libraries_are_shown_as_str() -> None:
    when = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    cells = [when, when.date(), pd.Timestamp(when), pd.NaT, pd.NA, pd.Interval(0, 1)]
    cells += [np.float64(0.5), np.int8(3), decimal.Decimal("1.50"), PurePosixPath("a/b"), None]
    table = table_of(pd.DataFrame({"a": pd.Series(cells, dtype=object)}), len(cells))
    assert table is not None
    assert [row[1] for row in table.rows] == [*map(str, cells)]


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["1", "-2.5", "nan"], True),
        (["1,000", "5 %", "1e-3"], True),
        (["a", "1"], False),
        (["2024-01-01"], False),
    ],
)
def test_recognizes_columns_of_numbers(cells: list[str], numeric: bool) -> None:
    """A column is numeric where each cell is a number or missing."""
    assert Table((), tuple((cell,) for cell in cells)).numeric(0) is numeric


ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@given(ANY)
def test_tidy_text_can_be_encoded_and_has_no_control_characters(text: str) -> None:
    clean = tidy(text)
    clean.encode("utf-8")
    assert "\x1b" not in clean
    assert not [each for each in clean if ord(each) < 32 and each not in "\n\t"]
    assert tidy(clean) == clean


@given(ANY, st.integers(2, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """A folded text has no newline and fits."""
    line = collapse_whitespace(text, limit)
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
def test_tidy_removes_each_kind_of_control(text: str, clean: str) -> None:
    assert tidy(text) == clean
