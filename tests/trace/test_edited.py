"""After an approval, the trace shows what ran: all of it, and what the person changed only as struck text."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.kernel.approval import MAX_VALUE
from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    AskModel,
    CallOutcome,
    CallOutcomes,
    Edit,
    FormArgument,
    RunCalls,
    ToolCall,
)
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import advance, fold
from archytas_nb.trace.html import SHEET, PageLimits, html, step_html
from archytas_nb.trace.text import markdown, plain
from archytas_nb.trace.view import RunView
from tests.scripted import Scripted

STRUCK = re.compile(r"<(span|pre)[^>]*text-decoration:line-through[^>]*>(.*?)</\1>", re.DOTALL)


def words(page: str) -> str:
    """A page without tags and style sheets, of which a linked one has a ``>`` in its address."""
    return unescape(re.sub(r'<(?:"[^"]*"|[^">])+>', "", re.sub(r"<style>.*?</style>", "", page)))


def without_struck(page: str) -> str:
    """The text of a page without struck parts."""
    return words(STRUCK.sub("", page))


def asked(code: Any, *answers: str, python: Any = "ask", **tools: Any) -> tuple[nb.Run, RunView]:
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "ok"))
    person = Scripted(*answers)
    model.person = lambda real: person  # type: ignore[attr-defined]
    run = nb.Agent([], model, namespace={"old": 1}, python=python).run("go")
    return run, fold("go", run.events)


OLD, NEW = "old_name = 1\nold_name + 1", "new_name = 2\nnew_name * 3"


@pytest.mark.parametrize("new", [NEW, "new_name = 2", "new_name = 2; " * 20])
@pytest.mark.parametrize("old", [OLD, "old_name = 1", "old_name = 1; " * 20])
def test_after_an_edit_of_code_everything_shows_the_code_that_ran(old: str, new: str) -> None:
    run, view = asked(old, f"code = {new!r}", "y")
    [(_, outcome)] = run.calls
    assert outcome.status == "done"
    data, _ = bundle(view)
    for page in (html(view), data["text/html"]):
        assert words(page).count("new_name") > 1
        assert "old_name" not in without_struck(page)
        assert "old_name" in "".join(each[1] for each in STRUCK.findall(page))
        assert "new_name" not in words("".join(each[1] for each in STRUCK.findall(page)))
    row = next(line for line in plain(view).split("\n") if "python(" in line)
    for text in (plain(view), markdown(view), data["text/plain"]):
        call = next(line for line in text.split("\n") if "python(" in line)
        assert "new_name" in call.partition(" (approved")[0]
        assert "old_name" not in call.partition(" (approved")[0]
    assert "approved by you, edited code" in row
    is_short = not ("\n" in old or len(old) > 40)  # then the decision shows all of it
    assert ("your edit of code" in words(html(view))) is not is_short


def test_a_refused_call_shows_what_was_refused() -> None:
    _, view = asked("old_name", "code = 'new_name'", "n, not that")
    line = next(line for line in plain(view).split("\n") if "python(" in line)
    assert (
        line
        == "1. ⊘ python(code=\"new_name\") → refused by you: not that, edited code 'old_name' → 'new_name'"
    )
    assert "old_name" not in without_struck(html(view)).replace("edited code 'old_name' →", "")


def test_the_trace_says_nothing_of_edits_that_were_taken_back() -> None:
    _, view = asked("1 + 1", "code = '2 + 2'", "code = '1 + 1'", "y")
    assert view == asked("1 + 1", "y")[1]


def test_the_model_reads_what_ran() -> None:
    run, _ = asked("old", "code = '5'", "y")
    [(_, outcome)] = run.calls
    assert '{"code": "5"}' in outcome.text
    assert outcome.edit is not None
    assert outcome.edit.input == {"code": "5"}
    [event] = [each for each in run.to_json()["events"] if each["event"] == "CallOutcomes"]
    assert event["outcomes"][0]["edit"]["input"] == {"code": "5"}


# ── nothing of approved code is left out ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "code",
    [
        # One variable: the changes of thousands would take longer than all the rest.
        "\n".join(f"x = {n} + 1" for n in range(7_000)),
        "; ".join(f"x = {n} + 1" for n in range(6_000)),
        "x = 1\n" * (MAX_VALUE // 6 - 1) + "y = 2",
    ],
    ids=["lines", "one line", "as long as it may be"],
)
def test_all_of_approved_code_is_in_the_finished_trace(code: str) -> None:
    _, view = asked(code, "y")
    seen = words(html(view))
    assert code in seen
    assert "characters left out" not in seen
    assert len(words(html(asked(code, python="unwatched")[1]))) < len(seen)  # nobody approved it


@pytest.mark.parametrize(
    "code",
    [
        "1\r# harmless",
        "x = '\x1b[2K'\n1",
        "'\x9b31m'",
        "x = '\u202e'\n1",
        "'\u200b'",
        "1\x0c+1\n# \x00",
    ],
)
def test_no_character_of_approved_code_is_hidden(code: str) -> None:
    """Python reads a carriage return as the end of a line; shown as one, the line would vanish."""
    run, view = asked(code, "y")
    assert run.calls[0][1].decision == Decision("approved")
    shown = code.encode("unicode_escape").decode().replace("\\n", "\n")
    assert shown in words(html(view))


def test_approved_code_of_every_step_of_a_long_run_is_shown() -> None:
    view = fold("q", ())
    for number in range(1, 701):
        call = ToolCall("c", "python", {"code": f"a_{number} = 1\nb"})
        decision = Decision("approved") if number % 100 == 50 else None
        outcome = CallOutcome("done", "ok", decision=decision)
        for event in (AskModel(number, ()), RunCalls(number, (call,)), CallOutcomes((outcome,))):
            view = advance(view, event)
    seen = words(html(view))
    assert all(f"a_{number} = 1\nb" in seen for number in range(50, 700, 100))
    assert "a_649 = 1" not in seen


def test_a_decision_is_whole_in_the_row_and_below_it_and_no_argument_is_shown_twice() -> None:
    """The call gives way to it; an unfolded step has each part in one place."""
    edit = Edit(
        {"item": "figs", "amount": 20, "note": ""}, (FormArgument("amount", "20", before="12"),)
    )
    outcome = CallOutcome("done", "ordered", decision=Decision("approved", seconds=3), edit=edit)
    call = ToolCall("a", "order", {"item": "figs", "amount": 12})
    [step] = fold("q", [AskModel(1, ()), RunCalls(1, (call,)), CallOutcomes((outcome,))]).steps
    page = step_html(step, PageLimits([step]))
    summary, _, body = page.partition("</summary>")
    assert 'title="approved by you after 3 s, edited amount 12 → 20"' in summary
    assert "approved by you after 3 s, edited amount 12 → 20" in words(body)
    assert "figs" not in body
    assert "note" not in page  # nobody gave it
    assert ".anb-row>code{display:inline-flex;flex-shrink:9999;" in SHEET
    [decision] = re.findall(r'style="([^"]*)"><span title="approved by you', summary)
    assert decision.endswith(";flex:none;max-width:60%")
    assert re.fullmatch(r'<details><summary[^>]*><span class="anb-row">.*</span>', summary)
