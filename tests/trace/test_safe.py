"""The one door to HTML: nothing that a model or a tool writes can run, load or leave the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.trace import safe, style
from archytas_nb.trace.html import html
from archytas_nb.trace.steps import fold
from archytas_nb.trace.table import read_table
from tests.trace.hostile import PAYLOADS, faults_of, places
from tests.trace.samples import answer, png

ROOM = Path(safe.__file__).parent


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_survives(payload: str) -> None:
    """In every place, the page has only harmless elements, and each is closed."""
    for page in places(payload):
        assert faults_of(page) == []


@pytest.mark.parametrize("payload", PAYLOADS[:19])
def test_the_check_sees_the_payloads_themselves(payload: str) -> None:
    """The positive control: put into a page as they are, the HTML payloads are found."""
    assert faults_of(f"<div>{payload.encode('utf-8', 'replace').decode()}</div>")


@given(
    st.text(st.sampled_from("<>\"'&/=` \n[]()!#*-_|~:\\a1\x00\x1b") | st.characters(), max_size=80)
)
def test_markdown_is_always_harmless(text: str) -> None:
    """Whatever text, its rendering has only harmless elements, and each is closed."""
    assert faults_of(safe.markdown(text)) == []


def test_math_is_left_alone() -> None:
    """Dollar amounts are not formulas, and TeX in model text is not typeset."""
    assert 'class="archytas-nb-trace tex2jax_ignore mathjax_ignore"' in html(
        fold("q", answer(1, "$5 and $10"))
    )


def test_markdown_that_a_person_wants() -> None:
    """Emphasis, code, tables and links to the web are rendered; a link tells its target nothing."""
    page = safe.markdown(
        "**b** `c` [d](https://example.org/?a=1&b=2)\n\n| h | n |\n|---|--:|\n| 1 | 2 |"
    )
    assert "<strong>b</strong>" in page
    assert "<code>c</code>" in page
    assert (
        '<a href="https://example.org/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">d</a>'
        in page
    )
    assert (
        '<td style="text-align:left">1</td>' in page
    )  # a page's own style may set it to the right
    assert '<td style="text-align:right">2</td>' in page


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("text/html", "PHNjcmlwdD4="),
        ("image/png", '"><script>'),
        ("image/png", "abc"),
        ("image/png", "A" * (safe.MAX_PICTURE + 4)),
    ],
)
def test_what_is_no_picture_is_none(media_type: str, data: str) -> None:
    """Another media type, broken base64 and images too large are not put into the page."""
    assert safe.picture(media_type, data) is None


def test_a_picture_is_carried_by_the_page() -> None:
    """An image is a data address; SVG becomes one too, where it cannot run."""
    assert 'src="data:image/png;base64,iVBOR' in (safe.picture("image/png", png()) or "")
    assert "<svg" not in (safe.picture("image/svg+xml", "<svg onload=x>") or "<svg")


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [("script", {}), ("div", {"onclick": "x"}), ("img", {"src": "https://example.org/x"})],
)
def test_the_builder_refuses_what_a_trace_has_no_use_for(
    tag: str, attributes: dict[str, str]
) -> None:
    """Not even our own code can put a script, a handler or a remote image into a trace."""
    with pytest.raises(ValueError, match="trace"):
        safe.element(tag, **attributes)


def test_a_table_is_rebuilt_from_its_text() -> None:
    """Cells are escaped, and numbers stand to the right."""
    table = read_table("<table><tr><td><b>a</b>&lt;i&gt;</td><td>1.5</td></tr></table>")
    assert table is not None
    page = safe.table(table, style="", cell="", head="")
    assert ';text-align:left">a&lt;i&gt;</td>' in page
    assert ';text-align:right">1.5</td>' in page


def test_the_style_sheet_loads_nothing_and_touches_nothing_but_traces() -> None:
    """Each of its rules begins with the class of a trace, and none has an address."""
    assert not re.search(r"url|@import|expression|//|<", style.SHEET)
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", style.SHEET.replace("@media print{", ""))
    assert rules
    assert all(part.startswith(f".{style.CLASS} ") for rule in rules for part in rule.split(","))


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.name)
def test_all_html_is_made_in_one_file(path: Path) -> None:
    """No other file of the room writes a tag (the reader of tables knows one), or calls a text HTML."""
    if path.name == "safe.py":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = [
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    tags = [
        each
        for each in texts
        if re.search(r"</?(?:div|p|span|a|img|pre|table|details|script|style)[ >]", each)
    ]
    assert [each for each in tags if "``<" not in each] == []
    calls = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert "Html" not in {each.id for each in calls if isinstance(each, ast.Name)}
