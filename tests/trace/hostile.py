"""Texts of a hostile model or tool, all places for them, and a check that none of them runs."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pandas as pd

from archytas_nb.loop.events import (
    Answered,
    CheckAnswer,
    Delta,
    Event,
    Failed,
    Fault,
    Interrupted,
    NoReply,
    Notice,
    Output,
    ProgramEnded,
    ProgramFaults,
    RunCalls,
    Shown,
    Started,
    Stopped,
    ToolCall,
    Verdict,
)
from archytas_nb.trace.activity import Activity
from archytas_nb.trace.fold import advance, fold
from archytas_nb.trace.html import PRINT_RULES, RULES, html, passed_html, phase_html, value_html
from archytas_nb.trace.live import live_now, live_question, live_step
from archytas_nb.trace.view import RunView
from tests.trace.samples import Made, answer, ask, call, line, png, program

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
    r"$\href{javascript:window.pwned=1}{x}$ and \(\href{javascript:window.pwned=1}{x}\)",
    r"\[\require{html}\style{background:url(https://example.org/x)}{x}\] $$\class{c}{x} \cssId{i}{y}$$",
    r"$\def\x{y}\x$ $\unicode{x}$ $\bbox[url(//example.org)]{x}$ \(\begin{html}x\end{html}\) \(\data{x}{y}\)",
    "$x<script>window.pwned=1</script>$ \\(y<img src=x onerror=window.pwned=1>\\)",
]
EDITED_WORDS = "The user changed the input before the call was run. It was run with: "
_INLINE = "a br code del em img s span strong"
_BLOCKS = "blockquote details div hr li ol p pre summary table tbody td th thead tr ul"
TAGS = frozenset(f"{_INLINE} {_BLOCKS}".split())


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


@functools.cache
def own_sheets() -> tuple[str, ...]:
    """The style sheets of an empty live page, which may stand; a saved page has some of their rules."""
    return tuple(re.findall("<style[^>]*>.*?</style>", live_question(RunView(""))))


def without_own_rules(sheet: re.Match[str]) -> str:
    """A linked style sheet in which each rule is one of ours is removed; any other stays."""
    rest = unquote(sheet[1])
    for rule in (*RULES.values(), *PRINT_RULES.values()):
        rest = rest.replace(rule, "")
    return "" if rest in ("", "@media print{}") else sheet[0]


def faults_of(page: str) -> list[str]:
    """The faults of a piece of HTML; empty where it is harmless and well formed."""
    page.encode("utf-8")
    parser = _Faults()
    for constant in own_sheets():
        page = page.replace(constant, "")
    page = re.sub('<link rel="stylesheet" href="data:text/css,([^"]*)">', without_own_rules, page)
    parser.feed(page)
    parser.close()
    return [*parser.faults, *(f"<{tag}> left open" for tag in parser.open)]


def frame(payload: str) -> pd.DataFrame:
    """A data frame that is hostile in its cells, columns and index."""
    # As objects: pyarrow, which holds the texts of pandas where it is installed, has no surrogates.
    names = pd.Index([payload], dtype=object)
    return pd.DataFrame([[payload]], index=names, columns=names, dtype=object)


def hostile_run(payload: str) -> list[Event]:
    outputs = (
        Output("stdout", {"text/plain": payload}),
        Output("stderr", {"text/plain": payload + " "}),
        Output("display", {"text/html": payload, "text/plain": payload + "!"}),
        Output(
            "display",
            {"text/html": f"<table><tr><th>{payload}</th><td>{payload}</td></tr></table>"},
        ),
        Output("display", {"image/png": payload}),
        Output("display", {"image/png": png(), "text/plain": payload}),
        Output("display", {"image/svg+xml": payload}),
    )
    kinds = ("repair", "check", "retry", "protocol", "limit", "progress", "repeat", "compaction")
    return [
        Started(payload, payload),
        *call(
            1,
            payload,
            {"a": payload, payload: 1},
            payload,
            thought=payload,
            outputs=outputs,
            images=(payload,),
        ),
        *call(2, "f", {"name": payload}, payload, status="error", reasoning=payload),
        *call(3, "f", {"name": payload}, payload, status="refused"),
        *call(4, "f", payload, f"{EDITED_WORDS}{payload}\n{payload}", value=frame(payload)),
        *call(5, "ask_user", {"question": payload}, payload),
        *hostile_programs(payload),
        *(Notice(kind, payload) for kind in kinds),
        NoReply("endpoint", payload),
        *ask(6, payload),
        *ask(7),
        CheckAnswer(7, [payload, {payload: payload}]),
        Verdict(payload),
    ]


def hostile_programs(payload: str) -> list[Event]:
    """Programs with a payload in their code, values, faults and errors, whole and by lines."""
    code = f"{payload}\nx = {payload!r}\ny = (\n{payload}\n)"
    made: Made = (2, payload, {"a": payload, payload: 1}, payload)
    fault = Fault(2, payload, payload)
    outside = Fault(99, payload, payload)
    shown = ProgramEnded((payload, payload), payload, has_answer=True)
    lost = ProgramEnded(lost=payload, error=fault)
    values = ProgramEnded((payload,), assigned={payload: Shown(payload)})
    return [
        *ask(10, payload),
        *program(10, code, made, made, end=shown, thought=payload),
        *ask(11, payload),
        *program(11, code, (9, payload, payload, payload, "error"), end=lost),
        *ask(12, payload),
        *program(12, code, end=ProgramFaults((fault, outside))),
        *line(13, payload, payload),
        *program(13, payload, made, end=values, is_part=True),
        *line(13, payload, payload),
        *program(13, payload, end=values, is_part=True),
        *line(13, payload, payload),
        *ask(14),
        *program(14, code, made)[:2],
    ]


def endings(payload: str) -> list[list[Event]]:
    """Every way in which such a run can end, and none."""
    accepted = [
        *ask(8),
        CheckAnswer(8, [payload]),
        Verdict(value=frame(payload)),
        Answered(payload),
    ]
    typed = [*ask(8), CheckAnswer(8, [payload]), Verdict(value=[payload]), Answered(payload)]
    given_up: list[list[Event]] = [[Failed(payload)], [Failed(payload, by="endpoint")]]
    return [
        answer(8, payload),
        accepted,
        typed,
        *given_up,
        [Stopped(payload, payload)],
        [Interrupted(payload)],
        [],
    ]


def places(payload: str) -> list[str]:
    """Every page and every piece of a live page that such a run can come to."""
    events = hostile_run(payload)
    views = [fold(payload, [*events, *ending]) for ending in endings(payload)]
    values = [value_html(view, with_steps=True) for view in views]
    return [*(html(view) for view in views), *values, *_live(payload, events)]


def _live(payload: str, events: list[Event]) -> list[str]:
    """The pieces of the live layer at every moment of the run, and while something is streamed."""
    words: tuple[str, ...] = (
        payload,
        '{"thought": "' + payload,
        '{"tool": "' + payload + '", "tool_input": ' + payload,
    )
    streams: list[list[Event]] = [
        [Delta("text", text), Delta("reasoning", payload)] for text in words
    ]
    streams.append(
        [RunCalls(9, (ToolCall("q01s09c01", payload, payload),), payload), Delta("output", payload)]
    )
    view, activity, pages = RunView(payload), Activity(), []
    for event in [*events, *(each for stream in streams for each in (*ask(9)[:1], *stream))]:
        view = advance(view, event)
        activity.take(event)
        streamed = activity.streamed()
        pages += [
            live_question(view),
            phase_html(activity.phase),
            passed_html(activity.passed(view)),
            live_now(view.steps[-1] if view.steps else None, streamed),
        ]
        if streamed:
            pages += [live_step(view.steps[-1], streamed, newest=True)]
    return [*pages, live_question(view), *(live_step(step, newest=False) for step in view.steps)]
