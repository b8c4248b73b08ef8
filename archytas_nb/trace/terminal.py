"""A run in a terminal: each line as soon as it is known, in colours, wrapped at the width.

    terminal  IPython without a kernel
    console   a front end of a kernel that shows text alone, such as ``jupyter console``

While the run works, the last line says what it does, and is written over; a console cannot, so it
gets a line now and then. A stream that is not a terminal gets the lines of the plain text.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import cache
from typing import Any

from archytas_nb.files import OutputFile, TemporaryFolder
from archytas_nb.loop.events import Event, Failed, Interrupted, Notice
from archytas_nb.trace import safe
from archytas_nb.trace import text as plain
from archytas_nb.trace import view as views
from archytas_nb.trace.activity import Activity
from archytas_nb.trace.view import CallView, LineView, RunView, Shown, StepView
from archytas_nb.words import count, tidy

_TICK = 0.5
"""Seconds between two looks at what the run does now."""
_LEAST_PAUSE = 0.05
"""Seconds between two changes of the last line."""
_FIRST_PAUSE = 2.0
"""Seconds until a console says what the run does."""
_PROSE = 88
"""Maximum number of characters of a line of an answer."""
_CONSOLE = 80
"""Characters of a line in a console whose width is not known."""
_CLEAR = "\r\x1b[2K"
_INDENT = "   "
_BEGIN = re.compile(r"\s*(?:\d+\. )?(?:[│┆Δ↳] )?\s*")
"""What a line begins with; when it is wrapped, its rest is aligned with what follows."""
_PATTERNS = (
    ("dim", r"^\s*\d+\. "),
    ("dim", r"^\s*[│┆] .*"),
    ("yellow", r"^\s*Δ .*"),
    ("dim", r" → | \([^()]*\)$|^\s*↳"),
    ("bold", r"(?<![^\s↳✗⊘■])[A-Za-z_]\w*(?=\(.*\) → |\(.*\)$)"),
    ("red", r"✗|(?<= → )error:"),
    ("yellow", r"⊘|■|(?<= → )(?:refused|interrupted):"),
    ("dim", r"^\s*(?:…|↻|≡|⇄).*"),
)


class Screen:
    """The target of the lines: a terminal, a console, or a file.

    Attributes:
        is_live: Whether a person reads it as it comes: lines are wrapped, and have colours.
        is_console: Whether what was written stays.
    """

    def __init__(self, *, is_console: bool = False) -> None:
        self.is_live = is_console or _is_terminal()
        self.is_console = is_console
        self._context = copy_context()
        self._lock = threading.RLock()
        self._status = ""  # the last line, which is written over
        self._shown_at = 0.0

    @property
    def width(self) -> int:
        """Characters of a line."""
        return max(shutil.get_terminal_size((_CONSOLE, 24)).columns - 1, 20)

    def write(self, lines: Sequence[str]) -> None:
        """Write lines of a trace."""
        if not lines:
            return
        if not self.is_live:
            self._put("\n".join(lines) + "\n")
            return
        drawn = [each for line in lines for each in self._wrapped(line)]
        self._put_lines(drawn)

    def write_code(self, lines: Sequence[str]) -> None:
        """Write lines of a program."""
        if self.is_live:
            self._put_lines([each for line in lines for each in self._wrapped_code(line)])
        else:
            self.write(lines)

    def write_markdown(self, text: str) -> None:
        """Write a text that is Markdown, where a person reads it."""
        self._put_lines([_rendered(text, min(self.width, _PROSE), self._has_colours)])

    def show(self, status: str) -> None:
        """Have the last line say something; empty for nothing."""
        if not self.is_live or self.is_console:
            return
        now = time.monotonic()
        with self._lock, suppress(OSError, ValueError):  # the stream may be closed
            is_due = not (status and self._status) or now - self._shown_at >= _LEAST_PAUSE
            if status != self._status and is_due:
                self._status = status
                self._shown_at = now
                self._put(_CLEAR + self._styled(status[: self.width], "dim"))

    def _put_lines(self, lines: Sequence[str]) -> None:
        text = "\n".join(lines) + "\n"
        with self._lock:
            status = ""
            if self._status:
                text = _CLEAR + text
                status = self._styled(self._status[: self.width], "dim")
            self._put(text + status)

    def _put(self, text: str) -> None:
        # A line may change while a call runs, whose output is captured by its context.
        self._context.copy().run(_write_out, text)

    @property
    def _has_colours(self) -> bool:
        import os

        from IPython import get_ipython

        colors = str(getattr(get_ipython(), "colors", "")).lower()
        return colors != "nocolor" and not os.environ.get("NO_COLOR")

    def _styled(self, text: str, style: str) -> str:
        return _ansi([_styled_text(text, style)], self._has_colours)[0] if text else ""

    def _wrapped(self, line: str) -> list[str]:
        """A line in colours, in as many as the width needs."""
        return self._folded(_highlighted(line), line)

    def _wrapped_code(self, line: str) -> list[str]:
        if re.match(r"\s*(?:\d+\. )?\s*[┆✗■⊘…↳]", line):
            return self._wrapped(line)
        return self._folded(_code(line), line)

    def _folded(self, styled: Any, line: str) -> list[str]:
        begin = _BEGIN.match(line)
        indent = min(begin.end() if begin else 0, self.width // 2)
        console = _console(self.width, self._has_colours)
        head, rest = styled.divide([indent]) if 0 < indent < len(line) else ("", styled)
        parts = list(rest.wrap(console, self.width - indent))
        drawn = []
        for number, part in enumerate(parts):
            part.rstrip()
            if number == 0:
                part = head + part if head else part  # noqa: PLW2901
            else:
                part.pad_left(indent)
            drawn.append(part)
        return _ansi(drawn or [styled], self._has_colours)


def _write_out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _is_terminal() -> bool:
    import os

    try:
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # missing or closed
        return False


class TerminalLayer:
    """Prints a run while it goes on.

    Args:
        screen: The target of the lines.
    """

    def __init__(self, screen: Screen | None = None) -> None:
        self._screen = screen or Screen()
        self._has_printed = False
        self._finished = 0  # number of steps that were printed completely
        self._heads = 0  # lines of the next step that were printed
        self._calls = 0  # and its calls
        self._printed = 0  # and of its program the lines
        self._made: dict[int, int] = {}  # the calls of each line
        self._held: dict[int, list[CallView]] = {}  # of each line, those that are not printed yet
        self._has_number = False  # whether the number of the step was printed
        self._view: RunView | None = None
        self._activity = Activity()
        self._over = threading.Event()
        self._phase = ""  # what it does, for a console
        self._since = 0.0
        self._pause = _FIRST_PAUSE
        if self._screen.is_live:
            run = copy_context().run  # in which a kernel keeps to what cell output belongs
            thread = threading.Thread(target=run, args=(self._tick,), daemon=True)
            thread.start()

    def update(self, view: RunView, event: Event) -> None:
        """Print what is new; a call that waits for approval is shown as text below it."""
        self._activity.take(event)
        self._view = view
        if isinstance(event, Notice) and event.kind in {"progress", *plain.AT_ONCE}:
            self._write([f"{_INDENT}… {tidy(event.with_wait)}"])
        self._steps(view.steps, is_over=False)
        self._show_status()

    def finish(self, view: RunView) -> None:
        """Print the rest and the ending; without an answer, the error of the cell says why."""
        self._over.set()
        self._screen.show("")
        self._steps(view.steps, is_over=True)
        # An error outside of a run ends it without an ending.
        is_empty = view.ending is None
        is_empty |= isinstance(view.ending, Interrupted) and not view.ending.text
        if isinstance(view.ending, Failed) and view.ending.explained is not None:
            self._write(views.explained_lines(view.ending.explained))
        if is_empty or isinstance(view.ending, Failed):
            return
        if self._has_printed:
            self._write([""])
        title = views.ending_title(view.ending)
        if title:
            self._write([title])
        answer = views.ending_text(view.ending)
        if view.typed or not self._screen.is_live:
            self._write(answer.split("\n") if answer else [])
        elif answer:
            self._screen.write_markdown(views.answer_markdown(view.ending))
        self._write(self._below(view))

    def _below(self, view: RunView) -> list[str]:
        """The lines after the answer."""
        lines = []
        said = views.doubt(view.ending), views.unlinked(view.ending)
        if view.table:
            lines += plain.grid_lines(view.table, plain.ANSWER_ROWS, width=self._width)
        if view.figures and self._screen.is_live:
            paths = [_saved(each, "image/png", "figure") for each in view.figures]
            lines += [f"[figure] {path}" for path in paths]
        elif view.figures:
            lines.append(f"[{count(len(view.figures), 'figure')}]")
        return lines + [each for each in said if each]

    @property
    def _width(self) -> int:
        return self._screen.width if self._screen.is_live else plain.WIDTH

    # ── what it does now ──────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        while not self._over.wait(_TICK):
            self._show_status()

    def _show_status(self) -> None:
        view = self._view
        status = ""
        if view is not None and not self._over.is_set() and not self._activity.is_asking:
            status = f"{_INDENT}● {self._activity.status(view)}"
        if self._screen.is_console:
            self._say_now_and_then(status)
        else:
            self._screen.show(status)

    def _say_now_and_then(self, status: str) -> None:
        """Write what a run does if it has done nothing else for a while, and again much later."""
        phase = self._activity.phase
        now = time.monotonic()
        if phase != self._phase:
            self._phase = phase
            self._since = now
            self._pause = _FIRST_PAUSE
        elif status and now - self._since >= self._pause:
            self._pause *= 3
            self._screen.write([status.replace("●", "…")])

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _steps(self, steps: Sequence[StepView], *, is_over: bool) -> None:
        for index, step in enumerate(steps[self._finished :], self._finished + 1):
            complete = is_over or index < len(steps)
            if step.program is not None:
                self._program(step, is_complete=complete)
                if complete:
                    self._finished = index
                    self._reset()
                continue
            head = plain.head_lines(step, retries=False)  # those were printed when they happened
            calls = [call for call in step.calls if complete or call.status is not None]
            new = [self._with_paths(call) for call in calls[self._calls :]]
            body = [line for call in new for line in plain.call_lines(call)]
            if step.calls:
                if self._calls:
                    body = plain.indented(body)
                else:
                    body = plain.numbered(step, body)
                self._write([*plain.indented(head[self._heads :]), *body])
            elif complete:  # before, it may become a step with calls, which come first
                self._write(plain.numbered(step, head))
            if step.calls or complete:
                self._heads = len(head)
                self._calls = len(calls)
            if complete:
                self._finished = index
                self._reset()

    def _with_paths(self, call: CallView) -> CallView:
        """A call whose images are files, where a person can open them."""
        if not (self._screen.is_live and call.pictures):
            return call
        shown = [
            replace(item, path=_saved(item.picture[1], item.picture[0], call.name))
            if item.picture
            else item
            for item in call.shown
        ]
        return replace(call, shown=tuple[Shown, ...](shown))

    def _program(self, step: StepView, *, is_complete: bool) -> None:
        """Print what is new of a program: its lines up to the last one that made a call.

        A call of an earlier line, as in a loop, follows with the number of its line. Of the calls
        of a line, the first ones are printed immediately, and the last ones when another line is
        reached.
        """
        head = plain.head_lines(step, retries=False)
        self._write(plain.indented(head[self._heads :]))
        self._heads = len(head)
        lines = step.lines
        text: list[str] = []
        for call in step.calls[self._calls :]:
            if call.status is None:
                break
            self._calls += 1
            at = min(max(call.line, 1), len(lines))
            if at > self._printed:
                text += self._rest_of_calls()
            text += self._lines_to(lines, at)
            made = self._made[at] = self._made.get(at, 0) + 1
            if made > plain.FIRST_CALLS and not call.is_approved:
                self._held.setdefault(at, []).append(call)
                continue
            first, *rest = plain.call_below(self._with_paths(call))
            if at != self._printed:
                first += f" (line {at})"
            text += [first, *rest]
        is_run = step.program is not None and step.program.is_over
        if is_complete or is_run:
            text += self._rest_of_calls()
            run = [line.number for line in lines if not line.is_written]
            text += self._lines_to(lines, max(run, default=0))
        if is_complete:
            text += plain.end_of_program(step)
        if text and not self._has_number:
            self._write(plain.numbered(step, text), is_code=True)
            self._has_number = True
        else:
            self._write(plain.indented(text), is_code=True)

    def _lines_to(self, lines: Sequence[LineView], number: int) -> list[str]:
        """The lines of a program that are not printed yet, up to one of them."""
        text = []
        for line in lines[self._printed : number]:
            source = plain.source_line(replace(line, is_waiting=False))
            text += [source, *plain.faults_below(line)]
        self._printed = max(self._printed, number)
        return text

    def _rest_of_calls(self) -> list[str]:
        """Of lines with many calls, how many were not printed, and the last ones."""
        text = []
        for number, held in sorted(self._held.items()):
            where = f" (line {number})" if number != self._printed else ""
            for call in views.ends_of(held, 0, plain.LAST_CALLS):
                if isinstance(call, int):
                    text.append(f"  ↳ … {count(call, 'more call')} …{where}")
                else:
                    first, *rest = plain.call_below(call)
                    text += [first + where, *rest]
        self._held = {}
        return text

    def _reset(self) -> None:
        """The next step begins."""
        self._heads = 0
        self._calls = 0
        self._printed = 0
        self._made = {}
        self._held = {}
        self._has_number = False

    def _write(self, lines: list[str], *, is_code: bool = False) -> None:
        if lines:
            self._has_printed = True
            if is_code:
                self._screen.write_code(lines)
            else:
                self._screen.write(lines)


# ── images are files ──────────────────────────────────────────────────────────────────────────────

_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif"}
_SUFFIXES |= {"image/svg+xml": ".svg", "image/webp": ".webp"}
_folder: list[TemporaryFolder] = []


def _saved(data: str, media_type: str, name: str) -> str:
    """Write an image into a folder that is there until Python ends; the path, or why not."""
    try:
        if not _folder:
            _folder.append(TemporaryFolder("images"))
        folder = _folder[0].path
        raw = data.encode()
        if media_type != "image/svg+xml":
            raw = base64.b64decode("".join(data.split()))
        stem = re.sub(r"\W+", "_", name)[:40] or "image"
        number = sum(1 for _ in folder.iterdir()) + 1
        path = folder / f"{stem}-{number}{_SUFFIXES.get(media_type, '')}"
        OutputFile(path, "the image", is_private=True).write(raw)
    except Exception as error:  # noqa: BLE001 - the run goes on without a picture
        return f"not saved: {type(error).__name__}: {error}"
    return str(path)


# ── colours, by rich, which is imported when a terminal shows its first line ──────────────────────


@cache
def _console(width: int, has_colours: bool) -> Any:  # noqa: FBT001 - part of the key
    from rich.console import Console
    from rich.theme import Theme

    # Colours that can be read on a light and on a dark ground, and no ground of their own.
    styles = {"markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"}
    styles |= {"markdown.h3": "bold", "markdown.h4": "bold", "markdown.table.header": "bold"}
    styles |= {"markdown.table.border": "dim", "markdown.item.bullet": "default"}
    styles |= {"markdown.item.number": "default", "markdown.block_quote": "dim"}
    return Console(
        file=io.StringIO(),  # all is captured
        width=width,
        height=1_000,
        theme=Theme(styles),
        color_system="standard" if has_colours else None,
        force_terminal=True,
        force_jupyter=False,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )


def _ansi(texts: Sequence[Any], has_colours: bool) -> list[str]:  # noqa: FBT001
    """Styled texts of one line each, as a terminal obeys them."""
    console = _console(10_000, has_colours)
    with console.capture() as capture:
        for each in texts:
            console.print(each, soft_wrap=True)
    return str(capture.get()).rstrip("\n").split("\n")


def _styled_text(text: str, style: str) -> Any:
    from rich.text import Text

    return Text(text, style)


def _highlighted(line: str) -> Any:
    """A line of a trace in its colours."""
    styled = _styled_text(line, "")
    for style, pattern in _PATTERNS:
        styled.highlight_regex(pattern, style)
    is_thought = line.startswith(_INDENT) and re.match(r"\s+[^\s│┆Δ↳…✗↻≡⇄]", line)
    if is_thought and "(" not in line:
        styled.stylize("italic dim")
    return styled


@cache
def _theme() -> Any:
    from pygments import token as kinds  # type: ignore[import-untyped]
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme

    styles = {
        kinds.Token: Style(),
        kinds.Comment: Style(dim=True),
        kinds.Keyword: Style(color="magenta"),
        kinds.Operator.Word: Style(color="magenta"),
        kinds.String: Style(color="green"),
        kinds.Number: Style(color="cyan"),
        kinds.Name.Builtin: Style(color="blue"),
        kinds.Name.Function: Style(color="blue"),
    }
    return ANSISyntaxTheme(styles)


def _code(line: str) -> Any:
    """A line of a program in its colours."""
    from rich.syntax import Syntax

    begin = re.match(r"\s*(?:\d+\. )?", line)
    at = begin.end() if begin else 0
    drawn = Syntax("", "python", theme=_theme(), background_color="default").highlight(line[at:])
    drawn.rstrip()
    return _styled_text(line[:at], "dim") + drawn


def _rendered(text: str, width: int, has_colours: bool) -> str:  # noqa: FBT001
    """Markdown as a terminal shows it, without spaces at the ends of the lines."""
    console = _console(width, has_colours)
    with console.capture() as capture:
        console.print(_document(text))
    lines = str(capture.get()).strip("\n").split("\n")
    lines = [re.sub(r"[ ]+((?:\x1b\[[0-9;]*m)*)$", r"\1", line) for line in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _document(text: str) -> Any:
    """Markdown that rich draws, as this package reads it."""
    from rich.markdown import CodeBlock, Heading, ListItem, Markdown
    from rich.segment import Segment
    from rich.syntax import Syntax

    class Code(CodeBlock):
        def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
            source = str(self.text).rstrip()
            yield Syntax(
                source, self.lexer_name, theme=_theme(), word_wrap=True, padding=(0, 2),
                background_color="default",
            )  # fmt: skip

    class Item(ListItem):
        def render_number(
            self, console: Any, options: Any, number: int, last_number: int
        ) -> Iterator[Any]:
            width = len(f"{last_number}. ")
            lines = console.render_lines(
                self.elements, options.update(width=options.max_width - width)
            )
            for at, line in enumerate(lines):
                yield Segment(f"{number}. ".rjust(width) if not at else " " * width)
                yield from line
                yield Segment("\n")

    class Title(Heading):
        def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
            self.text.justify = "left"
            yield self.text

    class Document(Markdown):
        elements = {  # noqa: RUF012 - as in the base
            **Markdown.elements, "fence": Code, "code_block": Code, "heading_open": Title,
            "list_item_open": Item,
        }  # fmt: skip

    document = Document(text, hyperlinks=False)
    document.parsed = safe.markdown_tokens(text)
    return document
