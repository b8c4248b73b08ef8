"""From calls and outcomes to what a person sees of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.loop.events import CallOutcome, Output, ToolCall
from archytas_nb.trace.calls import answered, asked, literal
from archytas_nb.trace.html_step import Room, step_html
from archytas_nb.trace.markdown import markdown
from archytas_nb.trace.steps import fold
from archytas_nb.trace.values import CallView
from tests.live_kernel import live_kernel
from tests.trace.samples import DataFrame, call, png

CHANGED = "The user changed the input before the call was run. It was run with: "


def with_text(text: str, *outputs: Output) -> CallView:
    """A call with an outcome of this text."""
    [view] = answered((asked(ToolCall("a", "f")),), (CallOutcome("done", text, outputs=outputs),))
    return view


def test_what_the_model_read_is_not_shown_twice() -> None:
    """Printed text that the outcome repeats, and an image that was displayed, appear once."""
    outputs = (
        Output("stdout", {"text/plain": "hello\n"}),
        Output("stderr", {"text/plain": "careful\n"}),
        Output("display", {"image/png": png()}),
    )
    events = call(1, "f", {}, "done\n\nIt printed:\nhello", outputs=outputs, images=(png(),))
    (view,) = fold("q", events).steps[0].calls
    assert view.text == "done"
    assert [(each.kind, each.text, bool(each.picture)) for each in view.shown] == [
        ("stdout", "hello", False),
        ("stderr", "careful", False),
        ("display", "", True),
    ]


def test_text_of_several_lines_is_kept_as_it_is_beside_the_call_in_one_line() -> None:
    """Code, SQL and prose are read line by line; the call that they are given to stays one line."""
    sql = 'SELECT "a"\n  FROM b\n'
    view = asked(ToolCall("a", "query", {"sql": sql, "limit": 3, "name": "x\n"}))
    assert view.arguments == (
        ("sql", '"SELECT \\"a\\" FROM b"'),
        ("limit", "3"),
        ("name", '"x\\n"'),
    )
    assert view.texts == (("sql", sql.rstrip("\n")),)
    assert asked(ToolCall("a", "run", "a\nb")).texts == (("", "a\nb"),)
    [step] = fold("q", call(1, "query", {"sql": sql, "limit": 3}, "[]")).steps
    page = step_html(step, Room.of([step]))
    assert page.count("SELECT") == 2  # in the line, and below it as it is
    assert "SELECT &quot;a&quot;\n  FROM b</pre>" in page
    assert "```text\n   SELECT" in markdown(fold("q", call(1, "query", {"sql": sql}, "[]")))


def test_what_was_printed_is_shown_beside_a_table() -> None:
    """A table stands for the text that the model read, not for what the tool printed."""
    outputs = (Output("stdout", {"text/plain": "hello\n"}),)
    events = call(1, "f", {}, "3 rows\n\nIt printed:\nhello", outputs=outputs, value=DataFrame())
    (view,) = fold("q", events).steps[0].calls
    assert view.table is not None
    assert [each.text for each in view.shown] == ["hello"]


def test_what_was_printed_is_shown_once_and_the_result_apart_from_it() -> None:
    """The words that only the model needs are not shown to the person."""
    view = with_text("5 rows\n\nIt printed:\nhello", Output("stdout", {"text/plain": "hello\n"}))
    assert view.text == "5 rows"
    assert [each.text for each in view.shown] == ["hello"]


def test_a_figure_is_shown_without_the_words_that_stand_for_it() -> None:
    """The model reads that a figure was drawn; the person sees it, and which Markdown was displayed."""
    figure = Output(
        "display", {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": png()}
    )
    view = with_text("(no output)\n\nIt printed:\n<Figure size 640x480 with 1 Axes>", figure)
    assert (view.text, view.pictures) == ("(no output)", 1)
    name = "<IPython.core.display.Markdown object>"
    prose = Output("display", {"text/plain": name, "text/markdown": "# Masses"})
    view = with_text("(no output)\n\nIt printed:\n# Masses", prose)
    assert view.text == "(no output)"
    assert [(each.text, each.prose) for each in view.shown] == [("# Masses", True)]
    markup = Output(
        "display", {"text/plain": name.replace("Markdown", "HTML"), "text/html": "<b>bold</b>"}
    )
    assert [(each.text, each.prose) for each in with_text("(no output)", markup).shown] == [
        ("bold", False)
    ]


def test_a_widget_is_named_and_its_stale_words_are_not_shown() -> None:
    """A progress bar of a notebook says 0 % for ever where nothing draws it."""
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "a"},
        "text/plain": "0%|   | 0/30",
    }
    view = with_text("done\n\nIt printed:\n0%|   | 0/30", Output("display", data))
    assert (view.text, [each.text for each in view.shown]) == ("done", ["[a widget]"])


def test_a_result_that_only_looks_like_printed_text_is_left_whole() -> None:
    """A tool may return those words; where it printed nothing of the kind, they are its result."""
    text = "a story\n\nIt printed:\nmoney"
    assert with_text(text).text == text
    assert with_text(text, Output("stdout", {"text/plain": "paper"})).text == text


def test_what_a_person_changed_is_told_apart_from_the_outcome() -> None:
    """The input that was really run, and the result without it."""
    view = with_text(CHANGED + '{"n": 2}\n4')
    assert (view.edited, view.text) == ("n=2", "4")
    assert with_text("4").edited == ""


def test_of_an_edited_input_only_what_is_another_now_is_said() -> None:
    """The call stands above; what was left as it was is not read again, and what was cut is shown as it is."""
    given = {"sql": "select 1\nfrom b", "limit": 3}

    def edited(said: str) -> str:
        outcome = CallOutcome("done", f"{CHANGED}{said}\n4")
        return answered((asked(ToolCall("a", "query", given)),), (outcome,))[0].edited

    assert edited(json.dumps({**given, "limit": 5})) == "limit=5"
    assert edited(json.dumps({**given, "sql": "select 2\nfrom b"})) == 'sql="select 2\\nfrom b"'
    for said in ('{"limit": 5}', '{"sql": "select … 1,000 left out', "[1]"):
        assert edited(said) == said


def test_the_words_are_those_that_the_kernel_says(tmp_path: Path) -> None:
    """What is printed and what is edited in a real run is found in the outcome that it makes."""
    cell = '''
from archytas_nb import Tool
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.trace.calls import answered, asked

def double(n: int) -> int:
    """Double.

    Args:
        n: A number
    """
    print("doubling")
    return 2 * n

class Editor:
    there = True
    def __init__(self):
        self.lines = ["e", "n = 4", "y"]
    def ask(self, prompt):
        return self.lines.pop(0)

call = ToolCall("a", "double", {"n": 2})
tools = Toolbox(Tool.from_function(double, approve=True))
outcomes = KernelExecutor(tools, {}, person=Editor()).run([call])
[view] = answered((asked(call),), outcomes)
(view.text, view.edited, [each.text for each in view.shown])
'''
    with live_kernel(tmp_path) as kernel:
        done = kernel.run(cell)
        assert done.result == "('8', 'n=4', ['doubling'])", done.error


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
