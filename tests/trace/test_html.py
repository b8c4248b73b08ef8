"""A run as a page, in which nothing that a model or a tool writes can run or load."""

from __future__ import annotations

import ast
import re
import subprocess
import time
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Notice, Output
from archytas_nb.trace import html as page_module
from archytas_nb.trace import safe
from archytas_nb.trace.fold import fold, with_note
from archytas_nb.trace.html import PageLimits, html, step_html
from archytas_nb.trace.safe import Table, markdown
from tests.chromium import CHROMIUM, FLAGS, needs_chromium
from tests.trace.hostile import PAYLOADS, faults_of, places
from tests.trace.samples import SAMPLES, answer, call, long_run, png


def visible(page: str) -> str:
    """The page without its tags."""
    return re.sub(r"<[^>]+>", "", page)


def test_every_sample_is_well_formed() -> None:
    """Each kind of run gives harmless HTML in which every element is closed."""
    for name, sample in SAMPLES.items():
        assert faults_of(html(fold(*sample))) == [], name


def test_all_steps_are_folded_into_one_line_and_an_error_that_was_corrected_is_not_open() -> None:
    """The line is open if the person wants the steps, and absent if they want none."""
    view = fold(*SAMPLES["recovered"])
    assert re.findall(r"<details( open)?>", html(view)) == ["", "", ""]
    steps = html(replace(view, trace="steps"))
    assert re.findall(r"<details( open)?>", steps) == [" open", "", ""]
    assert "<details" not in html(replace(view, trace="off"))
    assert "2 calls · 1 corrected · " in html(view)
    running = replace(view, ending=None)
    assert html(running).count("<summary") == 2


def test_the_line_of_a_run_says_which_calls_were_not_run() -> None:
    stale = call(1, "write", {"value": 2}, "Not run: a cell has changed x", status="not_run")
    page = html(fold("q", [*stale, *call(2, "read", {}, "1"), *answer(3, "It is 1.")]))
    assert "2 calls · 1 not run · " in visible(page)


def test_what_the_answer_does_not_know_is_seen_without_unfolding() -> None:
    notice = Notice("late", "a cell has changed x")
    view = fold("q", [*call(1, "read", {}, "1"), notice, *answer(2, "It is 1.")])
    view = with_note(view, "n was kept")
    folded = re.sub(r"<details.*?</details>", "", html(view), flags=re.DOTALL)
    for page in (folded, html(replace(view, trace="off"))):
        assert "a cell has changed x" in visible(page)
        assert "n was kept" in visible(page)


def test_what_a_person_sees_first_is_the_line_then_the_answer_the_figures_and_the_changes() -> None:
    figure = Output("display", {"text/plain": "<Figure>", "image/png": png()})
    drawn = call(1, "draw", {}, "(no output)", outputs=(figure,))
    again = call(2, "draw", {}, "(no output)", outputs=(figure,))
    refused = call(3, "drop", {"rows": 3}, "no", status="refused")
    failed = call(4, "look", {"at": 1}, "KeyError: 1", status="error")
    view = fold("q", [*drawn, *again, *refused, *failed, *failed, *answer(5, "The *answer*.")])
    rows = (("birds", "changed", "rows: 8 → 6"), ("n", "created", "3"))
    first, *others = view.steps
    first = replace(first, calls=(replace(first.calls[0], changes=rows),))
    page = html(replace(view, steps=(first, *others)))
    shown = visible(re.sub(r"(<details>)?<summary[^>]*>.*?</details>(?=<div)", "", page, count=1))
    parts = [
        "⊘ drop(rows=3)",
        "✗ look(at=1)",
        "×2",
        "The answer.",
        "draw()",
        "Changed: birds (rows",
    ]
    places = [shown.rindex(part) for part in parts]
    assert places == sorted(places)
    assert page.count("<img") == 1
    assert "new: n" in visible(page)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["done", "error"])), max_size=8))
def test_an_error_is_corrected_by_a_later_call_of_the_same_tool_and_by_nothing_else(
    made: list[tuple[str, Any]],
) -> None:
    events = [
        each
        for at, (name, status) in enumerate(made, start=1)
        for each in call(at, name, {"at": at}, "x", status=status)
    ]
    view = fold("q", [*events, *answer(9, "done")])
    later = [
        {name for name, status in made[at + 1 :] if status == "done"} for at in range(len(made))
    ]
    errors = [(at, name) for at, (name, status) in enumerate(made) if status == "error"]
    assert [each.is_corrected for each in view.calls if each.status == "error"] == [
        name in later[at] for at, name in errors
    ]
    seen = [call.arguments for call, _ in view.in_view]
    assert seen == [(("at", str(at + 1)),) for at, name in errors if name not in later[at]]


def test_equal_neighbours_are_one_row_with_their_number() -> None:
    equal = [each for n in range(1, 7) for each in call(n, "look", {"at": 1}, "7")]
    view = fold("q", [*equal, *call(7, "look", {"at": 2}, "8"), *answer(8, "done")])
    assert [times for _, times in view.grouped_steps] == [6, 1]
    assert "×6" in html(view)
    assert "7 calls" in html(view)


def test_the_page_contains_everything_that_the_text_contains() -> None:
    """Question, calls, outcomes and answer are in the page, in order."""
    page = visible(html(fold(*SAMPLES["answered"], protocol="react")))
    parts = [
        "How many Gentoo",
        "1 call · model 1 s · 240 tokens · sample-1.5b",
        "count_species(",
        "124",
        "I count",
        "There are 124 Gentoo",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_a_data_frame_is_a_table() -> None:
    """The returned frame is drawn as a table, and what the model read of it is folded under it."""
    page = html(fold(*SAMPLES["rich"]))
    assert page.count("<table") == 1
    assert "what the model read" in page


def test_five_megabytes_do_not_reach_the_page() -> None:
    """Huge outputs and arguments are cut, and the page says how much is missing."""
    page = html(fold(*SAMPLES["huge"]))
    assert len(page) < 60_000
    assert "characters left out" in page


def test_three_hundred_steps_with_long_outputs_stay_bounded() -> None:
    events = [
        each for n in range(1, 301) for each in call(n, "f", {"n": n}, f"{n}\n" + "z" * 50_000)
    ]
    page = html(fold("q", [*events, *answer(301, "done")]))
    assert len(page) < 1_500_000
    assert "288 earlier steps" in page
    assert page.count("<summary") == 302
    assert faults_of(page) == []


def test_errors_among_the_early_steps_are_counted() -> None:
    """The fold over the early steps says how many of them went wrong."""
    assert "88 earlier steps, 5 with an error" in html(fold("q", long_run(100, 1)))


def test_images_are_limited_too() -> None:
    """An image that does not fit is named with its size."""
    big = "A" * 5_000_000
    outputs = (Output("display", {"image/png": big}), Output("display", {"image/png": png()}))
    page = html(fold("q", call(1, "f", {}, "x", outputs=outputs)))
    assert "[image/png, 3.8 MB: too large to show here]" in page
    assert page.count("<img") == 1
    assert len(page) < 20_000


def test_nothing_depends_on_the_clock() -> None:
    """Ids are not on the page; seconds and tokens are those of the replies, when the run is over."""
    question, events = SAMPLES["answered"]
    page = html(fold(question, events))
    assert "q01s01" not in page
    assert "model 1 s · 240 tokens · sample-1.5b" in visible(page)
    assert "tokens" not in visible(html(fold(question, events[:-1])))


def test_the_path_of_a_model_is_not_shown() -> None:
    """A model that names itself by a path on somebody's machine is shown by its file's name."""
    assert "(/home" not in html(fold("q", [], model="/home/a/m-1.5b.gguf"))
    assert ">m-1.5b<" in html(fold("q", [], model="/home/a/m-1.5b.gguf", protocol="react"))


def test_a_number_with_a_full_stop_is_not_a_list() -> None:
    """Markdown reads "124." as the beginning of a list; a person does not."""
    assert '<p dir="auto">124.</p>' in html(fold(*SAMPLES["rejected"]))


def _luminance(colour: tuple[float, ...]) -> float:
    """The relative luminance of a colour in sRGB, as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("text", "ground"), [(0.13, 1.0), (1.0, 0.067)])
def test_every_colour_can_be_read_on_a_light_and_on_a_dark_page(text: float, ground: float) -> None:
    """With the colour of the text mixed in, also on the grey of a block; the grey of facts, too."""
    marks = set(page_module._COLOURS.values())
    block = 0.9 * ground + 0.1 * 0.5
    for colour in [*marks, *safe._COLOURS.values()]:
        [share] = re.findall(r" (\d+)%", safe.readable(colour))
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        mixed = tuple(int(share) / 100 * c + (1 - int(share) / 100) * text for c in parts)
        for behind in (ground, block):
            assert _contrast(mixed, (behind,) * 3) >= 4.5, colour
    opacity = float(page_module.DIM.removeprefix("opacity:"))
    faded = opacity * text + (1 - opacity) * ground
    assert _contrast((faded,) * 3, (ground,) * 3) >= 4.5


def test_addresses_become_links_tasks_boxes_and_headings_have_a_level() -> None:
    """But not in code, nor in a link; a full stop does not belong to an address."""
    page = safe.markdown(
        "## Sources\n\nSee https://example.org/a_b. `https://example.com` and www.example.net, but "
        "not me@www.example.net\n\n- [ ] one\n- [x] two"
    )
    links = ["https://example.org/a_b", "https://www.example.net"]
    assert re.findall(r'href="([^"]*)"', page) == links
    assert '<li style="list-style-type:none" dir="auto">☐ one</li>' in page
    assert '<li style="list-style-type:none" dir="auto">☑ two</li>' in page
    assert 'role="heading" aria-level="4"' in page


def test_the_outline_of_an_answer_has_no_marks_of_tables_and_blocks_of_code() -> None:
    table = "| region | units |\n|---|---|\n| north | 2 |\n| south | 3 |"
    words = safe.outline(f"Found:\n\n{table}\n\n```python\nx = 1\n```\n\nThat is *all*.")
    assert words.splitlines() == [
        "Found:",
        "[table of 2 rows: region, units]",
        "[code]",
        "That is *all*.",
    ]
    assert safe.outline("124.") == "124."


def test_a_thought_shows_its_code_without_fences() -> None:
    page = page_module.thought_html("I try this:\n```python\nx = 1\n```")
    assert "```" not in page
    assert "<pre" in page


def test_a_footnote_has_its_mark_in_the_text_and_other_brackets_stay() -> None:
    """Also one of a single word, which Markdown would take for the address of a link."""
    page = safe.markdown(
        "About 5 kg[^a], not [^b-z].\n\n[^a]: Means of *all* years,\nsee `read`.\n[^2]: https://example.org"
    )
    shown = re.sub("<[^>]+>", "", page).split("\n")
    assert "kg<sup>a</sup>, not [^b-z]." in page
    assert shown == [
        "About 5 kga, not [^b-z].",
        "a Means of all years,",
        "see read.",
        "2 https://example.org",
    ]
    assert "<em>all</em>" in page
    assert re.findall(r'href="([^"]*)"', page) == ["https://example.org"]
    assert safe.markdown("a[^x]\n\n[^x]: <b>") == (
        '<p dir="auto">a<sup>x</sup></p>\n<p style="margin:.3em 0;font-size:.88em"><sup>x</sup> &lt;b&gt;</p>'
    )


def test_a_question_with_lookups_is_shown_as_it_was_written_and_unfolds_to_what_was_read() -> None:
    view = replace(fold("Clean DataFrame of 5 rows\n1 2", ()), written="Clean {raw}")
    page = html(view)
    heading = re.search('role="heading"[^>]*>([^<]*)<', page)
    assert heading is not None
    assert heading[1] == "Clean {raw}"
    assert "DataFrame of 5 rows" in page.partition("</summary>")[2]
    assert "DataFrame" not in page.partition("</summary>")[0]


def test_an_image_that_was_sent_with_the_question_is_seen_small() -> None:
    image = png()
    page = html(replace(fold("What is this?", ()), images=(image, "A" * 500_000)))
    assert f'src="data:image/png;base64,{image}"' in page
    assert page.count('alt="image sent with the question"') == 1
    assert page.count("[image sent with the question]") == 1
    assert len(page) < 20_000


def test_of_several_calls_each_has_a_line_and_those_that_ended_are_counted() -> None:
    question, events = SAMPLES["parallel"]
    [*_, step] = [step for step in fold(question, events).steps if len(step.calls) > 1]
    first, *others = step.calls
    waiting = [replace(each, status=None, text="") for each in others]
    running = step_html(replace(step, calls=(first, *waiting)), PageLimits([step]))
    assert f"1 of {len(step.calls)} calls" in visible(running)
    assert f"{len(step.calls)} calls" in visible(step_html(step, PageLimits([step])))


def test_a_long_question_is_folded_and_its_beginning_is_the_heading() -> None:
    page = html(fold("Why? " * 200, []))
    [heading] = re.findall(r'<strong[^>]*role="heading"[^>]*>(.*?)</strong>', page)
    assert len(heading) < 200
    assert page.count("Why? " * 150) == 1


TRACE = Path(safe.__file__).parent


def test_no_payload_survives() -> None:
    """In every place, the page has only harmless elements, and each is closed."""
    for payload in PAYLOADS:
        for page in places(payload):
            assert faults_of(page) == [], payload


def test_the_check_sees_the_payloads_themselves() -> None:
    """The positive control: put into a page as they are, the HTML payloads are found."""
    for payload in PAYLOADS[:19]:
        assert faults_of(f"<div>{payload.encode('utf-8', 'replace').decode()}</div>"), payload


@given(
    st.text(st.sampled_from("<>\"'&/=` \n[]()!#*-_|~:\\a1\x00\x1b") | st.characters(), max_size=80)
)
def test_markdown_is_always_harmless(text: str) -> None:
    """Whatever text, its rendering has only harmless elements, and each is closed."""
    assert faults_of(safe.markdown(text)) == []


def test_formulas_are_not_changed() -> None:
    """Dollar amounts are not formulas, and TeX in model text is not typeset."""
    assert 'class="anb-trace tex2jax_ignore mathjax_ignore"' in html(
        fold("q", answer(1, "$5 and $10"))
    )


def test_renders_common_markdown() -> None:
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
        '<td class="anb-number" style="text-align:left">1</td>' in page
    )  # a page's own style may set it to the right
    assert '<td class="anb-number" style="text-align:right">2</td>' in page


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("text/html", "PHNjcmlwdD4="),
        ("image/png", '"><script>'),
        ("image/png", "abc"),
        ("image/png", "A" * (safe.MAX_PICTURE + 4)),
    ],
)
def test_an_invalid_picture_is_none(media_type: str, data: str) -> None:
    """Another media type, broken base64 and images too large are not put into the page."""
    assert safe.picture(media_type, data, "", "") is None


def test_a_picture_is_embedded_in_the_page() -> None:
    """An image is a data address; SVG becomes one too, where it cannot run."""
    assert 'src="data:image/png;base64,iVBOR' in (safe.picture("image/png", png(), "", "a") or "")
    assert "<svg" not in (safe.picture("image/svg+xml", "<svg onload=x>", "", "a") or "<svg")


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [("script", {}), ("div", {"onclick": "x"}), ("img", {"src": "https://example.org/x"})],
)
def test_the_builder_rejects_what_a_trace_does_not_need(
    tag: str, attributes: dict[str, str]
) -> None:
    """Not even our own code can put a script, a handler or a remote image into a trace."""
    with pytest.raises(ValueError, match="not allowed in a trace"):
        safe.element(tag, **attributes)


def test_only_elements_from_the_builder_are_html() -> None:
    page = safe.element("p", "<b>", safe.element("em", "&"), None, style='"')
    assert page == '<p style="&quot;">&lt;b&gt;<em>&amp;</em></p>'
    assert isinstance(page, safe.Html)
    assert not isinstance(page + "<b>", safe.Html)


def test_a_table_is_rebuilt_from_its_text() -> None:
    """Cells are escaped, and numbers stand to the right."""
    page = safe.table(Table((), (("a<i>", "1.5"),)), "")
    assert "<td>a&lt;i&gt;</td>" in page
    assert '<td align="right">1.5</td>' in page


def left_out(page: str) -> list[str]:
    """The rules that a saved page does not have."""
    rules = (*page_module.RULES.values(), *page_module.PRINT_RULES.values())
    [sheet] = re.findall('<link rel="stylesheet" href="data:text/css,([^"]*)">', page)
    return [each for each in rules if each not in unquote(sheet)]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_saved_trace_has_every_rule_for_one_of_its_elements(name: str) -> None:
    soupsieve = pytest.importorskip("soupsieve")  # nbconvert brings it
    soup = pytest.importorskip("bs4").BeautifulSoup
    view = fold(*SAMPLES[name])
    table = Table(("a", "b"), (("word", "1"),))
    for each in (view, replace(view, trace="steps"), replace(view, trace="off", table=table)):
        page = html(each)
        for rules in left_out(page):
            for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", rules):
                selector = selectors.removesuffix("::marker")
                assert soupsieve.select(selector, soup(page, "html.parser")) == []


def test_an_answer_alone_has_no_rules_for_steps_code_and_tables() -> None:
    page = html(fold("q", [*answer(1, "The *answer*.")]))
    assert len(left_out(page)) >= len(page_module.RULES) + len(page_module.PRINT_RULES) - 5


def test_a_cell_of_a_table_costs_little_more_than_its_text() -> None:
    """A table has thousands of cells, and is kept in the notebook at each place that shows it."""
    one, many = (
        safe.table(Table(("a", "b"), (("word", "1"),) * rows), "color:red") for rows in (1, 51)
    )
    assert len(many) - len(one) < 50 * 60


def test_the_style_sheet_loads_nothing_and_touches_nothing_but_traces() -> None:
    """Each of its rules begins with the class of a trace, or is for paper what has one; none has an address."""
    sheet = page_module.SHEET
    assert not re.search(r"url|@import|expression|//|<", sheet)
    seen, paper, printed = sheet.partition("@media print{")
    assert paper
    for text, beginnings in (
        (
            seen,
            (
                f".{page_module.CLASS} ",
                ".anb-",
                "details[open]>summary>.anb-",
                "details[open]>summary .anb-",
                "details:not([open])>summary .anb-",
                f"[data-jp-theme-name*=Contrast] .{page_module.CLASS} ",
                ".jp-Cell:has(>.jp-Cell-inputWrapper:not(.lm-mod-hidden)) .anb-",
                f".jp-OutputArea-child:has(.{page_module.CLASS})+",
            ),
        ),
        (
            printed,
            (
                f".{page_module.CLASS}",
                ".anb-",
                f":has(>*>.{page_module.CLASS})",
                f".jp-Cell-inputWrapper:has(+* .{page_module.CLASS})",
            ),
        ),
    ):
        rules = re.findall(r"([^{}]+)\{[^{}]*\}", text)
        assert rules
        assert all(rule.startswith(beginnings) for rule in rules)


@pytest.mark.parametrize("name", ["__init__", "html", "live", "text", "view"])
def test_all_html_is_made_in_one_file(name: str) -> None:
    """No other file of the package writes a tag, or calls a text HTML."""
    path = TRACE / f"{name}.py"
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


OPEN = '<span class="tex2jax_process mathjax_process">'


def test_a_formula_is_left_as_it_is_for_the_page_to_typeset() -> None:
    """Nothing in it is Markdown, and nothing around it is a formula."""
    for tex in [
        r"$\bar{x}_i = 3.5$",
        r"\(a^2 * b_1 * c_2\)",
        "$$\n\\frac{1}{n} \\sum_{i=1}^{n} x_i\n$$",
        r"\[\begin{pmatrix} a & b \\ c & d \end{pmatrix}\]",
        r"$p < 0.05$",
        "$x$",
    ]:
        escaped = tex.replace("&", "&amp;").replace("<", "&lt;")
        assert (
            markdown(f"It is {tex}, at *most*.")
            == f'<p dir="auto">It is {OPEN}{escaped}</span>, at <em>most</em>.</p>'
        )


def test_dollars_that_do_not_enclose_a_formula_are_dollars() -> None:
    for text in [
        "costs $5 and $10, US$5 or CA$7, $5k",
        "Revenue ($) and Cost ($), [$] or [$]",
        "'$' by 'EUR' not '$', \"$\" by \"EUR\", “$” and “$”",
        "$/kg or $/lb, $, EUR and $",
        "from $5-$10",
        "$HOME/$USER and ($AAPL/$MSFT)",
        "a $ b $ c",
        "$5/$",
        "`$x$`",
        "$$",
        "$x",
        r"\$x\$",
    ]:
        assert OPEN not in markdown(text)


def test_a_formula_that_may_do_more_is_code() -> None:
    """It is shown as it was written; a single dollar sign is then a dollar sign."""
    for tex in [
        r"\href{javascript:x}{y}",
        r"\style{color:red}{y}",
        r"\class{c}{y}",
        r"\require{html}",
        r"\unicode{x41}",
        r"\def\a{b}",
        r"\begin{html}x\end{html}",
        r"\begin x",
        "x" * 5_000,
    ]:
        assert markdown(f"\\({tex}\\)").startswith('<p dir="auto"><code>\\(')
        assert markdown(f"\\[{tex}\\]").startswith('<p dir="auto"><code>\\[')
        assert OPEN not in markdown(f"${tex}$")


@given(st.lists(st.sampled_from([*"$\\()[]{}xy1 *_`<\n", "\\href", "\\frac", "$$"]), max_size=30))
def test_no_text_becomes_a_formula_that_may_do_more(pieces: list[str]) -> None:
    for typeset in markdown("".join(pieces)).split(OPEN)[1:]:
        tex = typeset.partition("</span>")[0]
        assert "href" not in re.findall(r"\\([A-Za-z]+|.)", tex, re.DOTALL)  # \\href is a new line


def test_no_answer_takes_long_to_render() -> None:
    for piece in ["\\(", "$$", "\\(a\\)", "$a$", "[", "![", "[a](", "**a", "-\n"]:
        markdown("a")
        started = time.thread_time()
        for size in (2_000, 20_000, 100_000):
            markdown(piece * (size // len(piece)))
        assert time.thread_time() - started < 20  # many times what it takes


DUMP = [*FLAGS, "--headless=new", "--virtual-time-budget=2000", "--dump-dom"]
# Remote addresses lead nowhere, so that a request is seen but not sent.
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
REPORT = """
<script>setTimeout(() => {
  const asked = performance.getEntriesByType('resource').map(each => each.name);
  const loaded = asked.filter(name => !name.startsWith('data:'));
  const report = document.createElement('output');
  report.textContent = `ran=${window.pwned} loaded=${loaded.length} height=${document.body.scrollHeight > 100}`;
  document.documentElement.appendChild(report);
}, 500)</script>
"""

pytestmark = needs_chromium


def look(body: str, directory: Path) -> dict[str, str]:
    """Open a page and report what ran and what was asked for."""
    page = directory / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}{REPORT}", encoding="utf-8")
    command = [
        str(CHROMIUM),
        *DUMP,
        OFFLINE,
        f"--user-data-dir={directory / 'profile'}",
        page.as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    report = re.search(r"<output>(.*?)</output>", dom)
    assert report, f"the page did not come to its end: {dom[-500:]}"
    return dict(each.split("=") for each in report.group(1).split())


# One page with all of them takes minutes to draw: the time grows faster than the page.
PAGES_AT_ONCE = 250


def payload_pages() -> list[str]:
    """Every payload in every place, unfolded, without repetitions."""
    every = (page for payload in PAYLOADS for page in places(payload))
    return [page.replace("<details", "<details open") for page in dict.fromkeys(every)]


def test_no_payload_of_a_sample_runs_or_loads(tmp_path: Path) -> None:
    """Nothing runs, nothing is asked for; the sample is of payloads and places from the whole list."""
    sample = payload_pages()[::13]  # a prime, so that the places differ from payload to payload
    assert len(sample) > 100
    assert look("".join(sample), tmp_path) == {"ran": "undefined", "loaded": "0", "height": "true"}


@pytest.mark.slow
def test_no_payload_runs_or_loads(tmp_path: Path) -> None:
    """Nothing runs, nothing is asked for, on any of the pages."""
    pages = payload_pages()
    for begin in range(0, len(pages), PAGES_AT_ONCE):
        body = "".join(pages[begin : begin + PAGES_AT_ONCE])
        found = look(body, tmp_path)
        assert found == {"ran": "undefined", "loaded": "0", "height": "true"}


@pytest.mark.parametrize(
    "payload",
    [
        "<script>window.pwned=1</script>",
        "<img src=x onerror=window.pwned=1>",
        "<svg onload=window.pwned=1></svg>",
    ],
)
def test_the_check_detects_scripts_that_run(payload: str, tmp_path: Path) -> None:
    """The positive control: put into the page as it is, a payload runs, and the test sees it."""
    assert look(payload, tmp_path)["ran"] == "1"


def test_the_check_detects_resources_that_load(tmp_path: Path) -> None:
    """The positive control for requests."""
    assert look('<img src="https://example.org/pixel.png">', tmp_path)["loaded"] == "1"


def test_three_hundred_steps_are_drawn_in_time(tmp_path: Path) -> None:
    """A page with a long run is laid out."""
    view = replace(fold("q", long_run(300, 1)), trace="steps")
    assert look(html(view), tmp_path)["height"] == "true"


def test_the_calls_of_a_line_are_folded_beside_it() -> None:
    """The results are beside the line; of hundreds of calls the first and last ones are drawn."""
    page = visible(html(fold(*SAMPLES["loop"])))
    assert "total += price(number=n)  ▸ 900 calls: 0, 1, 2, …, 899" in page
    assert "… 892 more calls …" in page
    assert "price(number=4)" in page
    assert "price(number=5)" not in page
    assert len(html(fold(*SAMPLES["loop"]))) < 20_000


def test_what_is_wrong_with_a_program_is_below_its_line() -> None:
    page = unescape(visible(html(fold(*SAMPLES["failed program"]))))
    assert re.search(r'total = price \* "two"\s+TypeError', page)
    assert re.search(r"answer\(price \* two\(1\)\)\s+there is no function two", page)
    assert "Nothing was run." in page
    assert "2.5 (from an earlier call)" in page


def test_a_program_without_styles_keeps_its_lines() -> None:
    """Where styles are stripped, each line is a block in preformatted text."""
    page = html(fold(*SAMPLES["program"]))
    stripped = re.sub(r' style="[^"]*"', "", page)
    [program] = re.findall(r"<pre[^>]*>(?=<div>).*?</pre>", stripped)
    assert len(re.findall(r"<div><span>|<summary><span>", program)) == 6


@given(st.integers(-(10**9), 10**9), st.text("abc ", max_size=8))
def test_a_short_result_is_in_an_unfolded_step_once(result: int, argument: str) -> None:
    """A page without style sheets shows a summary whole, also above what is unfolded."""
    shown = f"result {result}"
    events = [*call(1, "count_rows", {"a": argument}, shown), *answer(2, "Done.")]
    page = html(fold("How many?", events))
    assert page.count(f"→ {shown}<") == 1
