"""The panel of a call that waits for approval, in the trace that a person watches."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.kernel.approval import ApprovalDialogue
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    Answered,
    ApprovalForm,
    AskModel,
    CallOutcome,
    CallOutcomes,
    Edit,
    FormArgument,
    ModelReply,
    Notice,
    RunCalls,
    ToolCall,
)
from archytas_nb.tools.tool import ApprovalCheck, BoundCall
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import PageLimits, html, language_of, panel_html, step_html
from archytas_nb.trace.reopened import static_copy
from archytas_nb.trace.safe import code, markdown
from archytas_nb.trace.text import plain
from tests.scripted import Scripted
from tests.trace.hostile import PAYLOADS, faults_of


def words(page: str) -> str:
    """A page without tags and style sheets, of which a linked one has a ``>`` in its address."""
    return unescape(re.sub(r'<(?:"[^"]*"|[^">])+>', "", re.sub(r"<style>.*?</style>", "", page)))


def query(sql: str, limit: int = 5, where: str = "main", log: str = "a\nb") -> str:
    return sql


def form_after(*lines: str, sql: str = "SELECT 1\nFROM t -- all") -> ApprovalForm:
    """The form that is shown last, after a person has typed some lines."""
    forms: list[ApprovalForm] = []

    class Person(Scripted):
        def ask(self, prompt: str, form: Any = None) -> str:
            forms.append(form)
            return super().ask(prompt, form)

    box = nb.Toolbox()
    box.add(query)
    tool, given = box["query"], {"sql": sql, "limit": 5}
    bound = tool.bind(given, {})
    assert isinstance(bound, BoundCall)
    check = ApprovalCheck(required=True, reason="it reads a table")
    ApprovalDialogue(Person(*lines, "n"), tool, given, bound, {}, check).decide()
    return forms[-1]


def test_the_panel_shows_full_arguments_defaults_and_the_reason_of_the_tool() -> None:
    page = panel_html(form_after())
    seen = words(page)
    assert "query · waiting for approval" in seen
    assert "it reads a table" in seen
    assert "SELECT 1\nFROM t -- all" in seen
    assert "limit = 5" in seen
    assert "where = 'main'  (default)" in seen
    assert re.search(r"opacity:[.]65[^>]*>(<[^>]*>)*&#x27;main", page)  # a default is faded
    assert re.search(r"anb-k[^>]*>SELECT ?</span>", page)  # SQL is highlighted
    long = "x" * 3_000 + "\n" + "y" * 3_000
    assert long in words(panel_html(form_after(sql=long)))
    assert len(panel_html(form_after(sql="x" * 10**6))) < 200_000


def test_after_an_edit_the_panel_has_the_old_and_the_new_value() -> None:
    seen = words(panel_html(form_after("limit = 10", 'sql = "SELECT 2"')))
    assert "limit = 5 → 10" in seen
    assert "before:SELECT 1\nFROM t -- all" in seen
    assert "SELECT 2" in seen


def test_invisible_characters_are_escaped_and_arguments_are_never_markup() -> None:
    assert "a\\u202eb" in words(panel_html(form_after(sql="a\u202eb\nc")))
    for payload in PAYLOADS:
        text = payload.encode("utf-8", "replace").decode()
        each = FormArgument(text, text, text, f"{text}\n{text}")
        for form in (
            ApprovalForm(text, (each,), text),
            ApprovalForm(text, (), decision=Decision("refused", reason=text)),
        ):
            assert not faults_of(str(panel_html(form))), payload


def test_code_on_one_line_is_highlighted_as_code_and_its_names_are_shown() -> None:
    def panel(code: str) -> str:
        tool, forms, names = python_tool("ask"), list[ApprovalForm](), {"df": 1}

        class Person(Scripted):
            def ask(self, prompt: str, form: Any = None) -> str:
                forms.append(form)
                return super().ask(prompt, form)

        bound = tool.bind({"code": code}, names)
        assert isinstance(bound, BoundCall)
        check = tool.check_approval(bound)
        ApprovalDialogue(Person("n"), tool, {"code": code}, bound, names, check).decide()
        return panel_html(forms[-1])

    page = panel("import os; df['y'] = 'text'")
    assert re.search(r"<span class=\"anb-k\">import</span>", page)
    assert "import os; df['y'] = 'text'" in words(page)
    assert "reads df; assigns to df, os" in words(page)
    assert r"\u3164" in words(panel("a = '\u3164'"))  # as a literal, which hides nothing
    assert r"\t" in words(panel("a\t= 1"))


def test_a_copy_that_may_outlive_its_kernel_says_what_to_do_and_what_a_restart_has_left() -> None:
    """It has both, of which the page shows one."""
    form = form_after()
    events = [AskModel(1, ()), ModelReply("x"), RunCalls(1, (ToolCall("a", "query", {}),))]
    seen = words(static_copy(fold("q", events), 1, form, has_buttons=True))
    assert "The run had not finished when this was saved" in seen
    assert "query · not decided when this was saved" in seen
    assert f"%agent_answer run {form.name}" in seen
    assert "restarted while query waited for your decision: it was not run" in seen
    assert "waiting" not in seen
    assert "To change" not in seen
    assert "query()" not in seen  # the panel shows the call
    assert "%agent_answer" not in words(static_copy(fold("q", events), 1, form))
    assert "query()" in words(static_copy(fold("q", events), 1))


def run(outcome: CallOutcome) -> Any:
    call = RunCalls(1, (ToolCall("a", "query", {"limit": 5}),))
    return fold(
        "q", [AskModel(1, ()), ModelReply("x"), call, CallOutcomes((outcome,)), Answered("!")]
    )


def test_the_finished_trace_shows_the_decision_on_a_call() -> None:
    edit = Edit({"limit": 10}, (FormArgument("limit", "10", before="5"),))
    slow = run(CallOutcome("done", "10 rows", decision=Decision("approved", seconds=64.2)))
    assert "1. query(limit=5) (approved by you after 1 min 4 s) → 10 rows" in plain(slow)
    assert "query(limit=5) → 10 rows (approved by you after 1 min 4 s)" in words(html(slow))
    unasked = run(CallOutcome("done", "10 rows", allowed="allow names it"))
    assert "1. query(limit=5) (not asked: allow names it) → 10 rows" in plain(unasked)
    assert "query(limit=5) → 10 rows (not asked: allow names it)" in words(html(unasked))
    answered = run(CallOutcome("done", "blue", person_seconds=4.0))
    assert "1. query(limit=5) (answered by you after 4 s) → blue" in plain(answered)
    late = run(CallOutcome("refused", "Refused", decision=Decision("unanswered")))
    assert "not run: there was no yes" in plain(late)
    edited = run(CallOutcome("done", "10 rows", decision=Decision("approved"), edit=edit))
    assert "1. query(limit=10) (approved by you, edited limit 5 → 10) → 10 rows" in plain(edited)
    row = "query(limit=10) → 10 rows (approved by you, you changed limit)"
    steps, _, below = html(edited).partition("</details></div></details>")
    assert f"✓ {row}approved by you, edited limit 5 → 10" in words(steps)
    assert words(below) == f"✎ {row}!"  # in view, because it is not what the model asked for
    assert 'title="approved by you, edited limit 5 → 10"' in below
    refusal = CallOutcome(
        "refused",
        "The user refused this call: no. Do not.",
        decision=Decision("refused", reason="no"),
    )
    assert "1. ⊘ query(limit=5) → refused by you: no\n" in plain(run(refusal))
    assert words(html(run(refusal))).endswith("⊘ query(limit=5) → refused by you: no!")  # in view
    assert "Do not." in words(html(run(refusal)))  # unfolded, with what the model read
    nobody = run(CallOutcome("done", "10 rows"))
    assert "1. query(limit=5) → 10 rows" in plain(nobody)


def test_an_answer_that_is_checked_is_not_shown_as_unusable() -> None:
    check = Notice("check", "the model is asked to confirm before the run ends: use a tool")
    events = [AskModel(1, ()), ModelReply("124"), check, AskModel(2, ()), ModelReply("125")]
    view = fold("q", [*events, Answered("125")])
    [step] = view.shown_steps
    assert (step.rejected, step.failed, step.mark) == ((), False, "↺")
    assert "1. ↺ the model was asked to check its answer" in plain(view)
    seen = words(step_html(step, PageLimits([step])))
    assert "use a tool\n124" in seen
    assert "could not be used" not in seen


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    st.sampled_from(["python", "sql", "json", "bash", "?"]),
)
def test_highlighted_code_is_the_same_text_with_colours_only(value: str, language: str) -> None:
    page = code(value, language)
    assert words(page) == value
    tags = set(re.findall(r"<[^>]*>", page))
    assert all(re.fullmatch(r'</span>|<span class="anb-[kcsnf]">', t) for t in tags)


def test_code_in_an_answer_is_highlighted_where_its_language_is_known() -> None:
    page = markdown("```python\ndef f(): return 'a'\n```")
    assert re.search(r"<span class=\"anb-k\">def</span>", page)
    assert words(page) == "def f(): return 'a'"
    assert "<span" not in markdown("```\ndef f(): return 1\n```")
    assert "<span" not in markdown(
        f"```python\n{'x = 1;' * 4_000}\n```"
    )  # long code takes too long


def test_the_language_of_an_argument_is_guessed_only_if_it_is_obvious() -> None:
    for name, text, language in (
        ("q", "-- all of it\n\n  select *\nfrom t", "sql"),
        ("code", "1 +\n1", "python"),
        ("code", "with open(path) as f:\n    f.read()", "python"),
        ("code", "select = df.x > 1\nselect.sum()", "python"),
        ("code", "with t as (select 1)\nselect * from t", "sql"),
        ("text", "import os\nos.getcwd()", "python"),
        ("text", "Dear all,\nyours", ""),
        ("text", "-- " * 5_000, ""),
    ):
        assert language_of(name, text) == language
