"""A run as Markdown, read back by a Markdown parser that lets HTML through."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from archytas_nb.loop.events import Answered
from archytas_nb.trace.markdown import code, escaped, fenced, markdown, table_markdown
from archytas_nb.trace.steps import fold
from archytas_nb.trace.table import Table
from tests.trace.hostile import PAYLOADS, endings, faults_of, hostile_run
from tests.trace.samples import SAMPLES

OPEN = MarkdownIt("commonmark", {"html": True}).enable("table")


def test_an_answered_run() -> None:
    """The question in bold, a numbered item for each step, the answer as the model wrote it."""
    assert markdown(fold(*SAMPLES["recovered"])) == (
        "**How heavy is a Gentoo penguin?**\n"
        "\n"
        "1. The mean mass is asked for.\n"
        "\n"
        '   ✗ `mean_mass(species="Gento", unit="g")` → error:\n'
        "\n"
        "   ```text\n"
        "   1 fault in the input of mean_mass:\n"
        "     - not a species @ $.species: expected one of 'Adelie', 'Chinstrap', 'Gentoo', received 'Gento'\n"
        "   ```\n"
        "\n"
        "2. I misspelled the name.\n"
        "\n"
        '   `mean_mass(species="Gentoo", unit="g")` → `5076.02`\n'
        "\n"
        "A Gentoo penguin weighs 5,076 g on average."
    )


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_runs_or_loads_where_html_is_let_through(payload: str) -> None:
    """Each payload in each place a model or a tool can write to is inert even in a permissive renderer."""
    for ending in endings(payload):
        page = OPEN.render(markdown(fold(payload, [*hostile_run(payload), *ending])))
        assert faults_of(page) == []


def test_a_table_is_a_table_whatever_is_in_its_cells() -> None:
    """Bars and marks in a cell are text; what does not fit is counted; numbers stand to the right."""
    table = Table((("", "a|b"),), tuple((str(n), "`x` | <b> *y*") for n in range(5)), left_out=2)
    text = table_markdown(table, 3)
    assert text.endswith("*… 4 more rows*")
    page = OPEN.render(text)
    assert page.count("<tr>") == 4
    assert page.count("<td") == 6
    assert "<td>`x` | &lt;b&gt; *y*</td>" in page
    assert '<td style="text-align:right">2</td>' in page


def test_a_harmless_answer_stays_markdown() -> None:
    """Comparisons, links to the web and tables are not fenced."""
    text = "a < b, [docs](https://example.org), **bold**\n\n| a |\n|---|\n| 1 |"
    assert markdown(fold("q", [Answered(text)])).endswith(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60))
def test_escaped_text_is_only_text(text: str) -> None:
    """An escaped text is read back as one paragraph of itself."""
    rendered = OPEN.render(f"x {escaped(text)}")
    inside = re.fullmatch(r"<p>(.*)</p>\n", rendered, re.DOTALL)
    assert inside
    assert "<" not in inside.group(1)


@given(st.text("`ab \n", max_size=30))
def test_a_fence_holds(text: str) -> None:
    """A fenced text is one code block, whatever backticks are in it."""
    kinds = [token.type for token in OPEN.parse(fenced(text))]
    assert kinds == ["fence"]
    inline = OPEN.parse(f"x {code(text or 'a')}")[1].children or []
    assert [token.type for token in inline][:1] == ["text"]
