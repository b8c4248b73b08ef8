"""The one door to HTML: nothing that a model or a tool writes can run, load or leave the page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.react.events import Failed, NoReply, Notice, Output
from archytas_nb.trace import safe
from archytas_nb.trace.html import html, live_step, question_line, status_line
from archytas_nb.trace.steps import fold
from archytas_nb.trace.table import read_table
from tests.trace.samples import answer, call, png

PAYLOADS = [
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '<img src="https://example.org/pixel.png">',
    "<svg onload=window.pwned=1></svg>",
    "<svg><script>window.pwned=1</script></svg>",
    '<a href="javascript:window.pwned=1">x</a>',
    "<details open ontoggle=window.pwned=1>x</details>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<style>@import url(https://example.org/x.css); * {display: none}</style>",
    '<form action="https://example.org/steal"><input name=q autofocus onfocus=window.pwned=1></form>',
    "</pre></code></details></div><script>window.pwned=1</script>",
    '"><script>window.pwned=1</script>',
    "--><script>window.pwned=1</script><!--",
    "]]><script>window.pwned=1</script>",
    "<base href=https://example.org/><link rel=stylesheet href=//example.org/x.css>",
    '<meta http-equiv=refresh content="0;url=https://example.org">',
    "<object data=data:text/html;base64,PHNjcmlwdD4=></object><embed src=//example.org>",
    "<video src=https://example.org/v.mp4 poster=https://example.org/p.png autoplay>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=1>",
    "![x](https://example.org/pixel.png)",
    "![x][1]\n\n[1]: https://example.org/pixel.png",
    "[x](javascript:window.pwned=1)",
    "[x](JaVaScRiPt:window.pwned=1)",
    "[x](java&#10;script:window.pwned=1)",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox)",
    "[x](//example.org/relative)",
    "[x](file:///etc/passwd)",
    "<javascript:window.pwned=1>",
    '[x](https://example.org "a\\" onmouseover=window.pwned=1 b=\\"")',
    "```html onmouseover=window.pwned=1\n<script>window.pwned=1</script>\n```",
    "[x]\n\n[x]: javascript:window.pwned=1",
    "# <script>window.pwned=1</script>",
    "| <img src=x onerror=window.pwned=1> |\n|---|\n| <script>1</script> |",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "\ud800<script>window.pwned=1</script>",
]
TAGS = frozenset(
    {
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "details",
        "div",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "img",
    }
    | {
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "span",
        "strong",
        "summary",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    }
)


class _Faults(HTMLParser):
    """Collects whatever could run, load, or leave the trace open or closed too far."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            given = (value or "").strip().lower()
            loads = name == "src" and not given.startswith("data:image/")
            links = name == "href" and not given.startswith(("http://", "https://", "mailto:"))
            styles = name == "style" and any(
                word in given for word in ("url(", "@import", "expression", "position")
            )
            if (
                name.startswith("on")
                or loads
                or links
                or styles
                or name in {"srcdoc", "srcset", "action", "poster"}
            ):
                self.faults.append(f"{name}={value!r}")
        if tag not in {"br", "hr", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.faults.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.faults.append("declaration")

    def unknown_decl(self, data: str) -> None:
        self.faults.append("declaration")

    def handle_pi(self, data: str) -> None:
        self.faults.append("processing instruction")


def faults_of(page: str) -> list[str]:
    """What is wrong with a piece of HTML; empty where it is harmless and well formed."""
    page.encode("utf-8")
    parser = _Faults()
    parser.feed(page)
    parser.close()
    return [*parser.faults, *(f"<{tag}> left open" for tag in parser.open)]


def places(payload: str) -> list[str]:
    """The payload in every place that a model or a tool can write to."""
    outputs = (
        Output("stdout", {"text/plain": payload}),
        Output("stderr", {"text/plain": payload + " "}),
        Output("display", {"text/html": payload, "text/plain": payload + "!"}),
        Output("display", {"text/html": f"<table><tr><th>{payload}</th><td>{payload}</td></tr></table>"}),
        Output("display", {"image/png": payload}),
        Output("display", {"image/svg+xml": payload}),
    )
    events = [
        *call(
            1, payload, {"a": payload, payload: 1}, payload, thought=payload, outputs=outputs, images=(payload,)
        ),
        *call(2, "f", {"name": payload}, payload, status="error", reasoning=payload),
        Notice("retry", payload),
        NoReply("endpoint", payload),
        *answer(3, payload),
    ]
    view = fold(payload, events, model=payload, protocol=payload)
    pages: list[str] = [html(view), html(fold(payload, [*events[:-1], Failed(payload)])), question_line(view)]
    pages += [live_step(step, newest=False) for step in view.steps]
    pages.append(live_step(view.steps[0], newest=True, reasoning=payload, tool=payload, said=payload))
    pages.append(status_line(payload))
    return pages


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_survives(payload: str) -> None:
    """In every place, the page has only harmless elements, and each is closed."""
    for page in places(payload):
        assert faults_of(page) == []


@pytest.mark.parametrize("payload", PAYLOADS[:19])
def test_the_check_sees_the_payloads_themselves(payload: str) -> None:
    """The positive control: put into a page as they are, the HTML payloads are found."""
    assert faults_of(f"<div>{payload.encode('utf-8', 'replace').decode()}</div>")


@given(st.text(st.sampled_from("<>\"'&/=` \n[]()!#*-_|~:\\a1\x00\x1b") | st.characters(), max_size=80))
def test_markdown_is_always_harmless(text: str) -> None:
    """Whatever text, its rendering has only harmless elements, and each is closed."""
    assert faults_of(safe.markdown(text)) == []


def test_math_is_left_alone() -> None:
    """Dollar amounts are not formulas, and TeX in model text is not typeset."""
    assert 'class="archytas-nb-trace tex2jax_ignore mathjax_ignore"' in html(fold("q", answer(1, "$5 and $10")))


def test_markdown_that_a_person_wants() -> None:
    """Emphasis, code, tables and links to the web are rendered; a link tells its target nothing."""
    page = safe.markdown("**b** `c` [d](https://example.org/?a=1&b=2)\n\n| h |\n|---|\n| 1 |")
    assert "<strong>b</strong>" in page
    assert "<code>c</code>" in page
    assert '<a href="https://example.org/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">d</a>' in page
    assert "<td>1</td>" in page


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
    ("tag", "attributes"), [("script", {}), ("div", {"onclick": "x"}), ("img", {"src": "https://example.org/x"})]
)
def test_the_builder_refuses_what_a_trace_has_no_use_for(tag: str, attributes: dict[str, str]) -> None:
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
