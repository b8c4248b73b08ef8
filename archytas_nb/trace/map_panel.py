"""A map: what a person can do with it while it runs, and what they see when it has ended."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from archytas_nb.trace import front_end, safe
from archytas_nb.trace import html as draw
from archytas_nb.trace.header import StopButton
from archytas_nb.trace.safe import Html, Table, element, stylesheet
from archytas_nb.trace.text import grid_lines
from archytas_nb.words import count, truncate_line

_PANEL = "anb-map"
# A page keeps widgets after their kernel has gone, with broken icons and buttons that do nothing.
_HIDE_DEAD = (
    f".jp-OutputArea-child:has(.jupyter-widgets-disconnected.{_PANEL},"
    f".jupyter-widgets-disconnected .{_PANEL}),{front_end.WITHOUT_KERNEL} .{_PANEL}{{display:none}}"
)


class MapPanel:
    """The controls of a map while it runs: pause, go on, stop, retry the rows that failed.

    What is pressed is put into the queue of the main thread, which does it between two rows.

    Args:
        do: Has the main thread call a function.
        pause: Lets no row begin (True), or lets them begin again (False).
        retry: Asks again about the rows that have failed.
    """

    def __init__(
        self,
        do: Callable[[Callable[[], object]], object],
        pause: Callable[[bool], object],
        retry: Callable[[], object],
    ) -> None:
        import ipywidgets

        self._pause = pause
        self._is_paused = False
        self._drawn: tuple[Any, ...] = ()
        self._stop = StopButton()
        self._paused = ipywidgets.Button(description="Pause", tooltip="Start no new rows")
        self._retry = ipywidgets.Button(
            description="Retry failed rows", tooltip="Ask again about the rows that failed"
        )
        self._failures = ipywidgets.HTML(element("div", stylesheet(_HIDE_DEAD)))
        self._paused.on_click(lambda _: do(self._toggle))
        self._retry.on_click(lambda _: do(retry))
        for each in (self._paused, self._retry):
            front_end.reachable(each)
        self._buttons = ipywidgets.HBox()
        self._shown: tuple[Any, ...] = (self._paused, self._stop.widget)
        self.box = ipywidgets.VBox().add_class(_PANEL)
        self._handle = front_end.display(self.box)

    @property
    def is_shown(self) -> bool:
        """Whether the buttons are shown, and the rows that failed below them."""
        return bool(self.box.children)

    @property
    def was_stopped(self) -> bool:
        """Whether the person has ended the map with the button."""
        return self._stop.was_pressed

    def _toggle(self) -> None:
        self._is_paused = not self._is_paused
        self._pause(self._is_paused)
        self._paused.description = "Go on" if self._is_paused else "Pause"

    def draw(self, failures: Sequence[tuple[str, str]], columns: Sequence[Column] = ()) -> None:
        """Show the buttons, and the state of the map below them; on the main thread.

        Args:
            failures: The rows that failed last, each with the reason.
            columns: The answers so far at a glance.
        """
        if not self.box.children:
            if not self._stop.works:
                return
            self._buttons.children = self._shown
            self.box.children = (self._buttons, self._failures)
        if self._drawn == (*failures, *columns):
            return
        self._drawn = (*failures, *columns)
        if failures:
            self._buttons.children = (*self._shown, self._retry)  # nothing moves when it appears
        rows = [
            element("div", element("span", "✗ "), row, element("span", f" · {why}", style=draw.DIM))
            for row, why in failures
        ]
        parts = [stylesheet(_HIDE_DEAD), glance_html(columns), *rows]
        style = f"{draw.ROOT};margin:0"
        self._failures.value = element("div", *parts, class_=draw.CLASSES, style=style)

    def close(self) -> None:
        """Remove the panel; a stop that was pressed arrives here at the latest.

        Raises:
            KeyboardInterrupt: The person interrupted the kernel.
        """
        try:
            self._stop.close()
        finally:
            self._handle.update(front_end.NOTHING, raw=True)
            every = (self._paused, self._retry, self._stop.widget, self._failures)
            for each in (*every, self._buttons, self.box):
                with suppress(Exception):
                    each.close()


def map_panel(
    do: Callable[[Callable[[], object]], object],
    pause: Callable[[bool], object],
    retry: Callable[[], object],
) -> MapPanel | None:
    """The panel of a map, if a person is at a notebook; see `MapPanel`."""
    return MapPanel(do, pause, retry) if front_end.takes_presses() else None


# ── a map that has ended ──────────────────────────────────────────────────────────────────────────

_BAR = 12
"""Characters of the longest bar of a column, or quarters of an em on a page."""
ROWS = 12
"""How many of the rows that failed for one reason are listed."""
_FAILURES = 6
WAITS = "#c9851b"
"""The colour of what waits for a person."""
_THEME = "var(--jp-brand-color1,#1976d2)"
_BLOCK = f"background:{_THEME};display:inline-block;height:.55em;border-radius:2px;opacity:.75"


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a column at a glance.

    Attributes:
        name: The column.
        counts: Each value with its number of rows, the most frequent first.
        says: A line about the values where they are not counted.
    """

    name: str
    counts: tuple[tuple[str, int], ...] = ()
    says: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why rows have failed.

    Attributes:
        why: The reason.
        rows: The numbers of the rows, from 0.
        abouts: The first of these rows themselves, each in one line.
    """

    why: str
    rows: tuple[int, ...]
    abouts: tuple[str, ...] = ()

    @property
    def listed(self) -> str:
        """The rows, the first ones of many."""
        shown = ", ".join(map(str, self.rows[:ROWS]))
        more = ", …" if len(self.rows) > ROWS else ""
        return f"{'row' if len(self.rows) == 1 else 'rows'} {shown}{more}"


@dataclass(frozen=True, slots=True)
class FinishedMap:
    """A map that has ended.

    Attributes:
        name: The variable that holds the result; empty if that is not known.
        line: How many rows are done, and what they took.
        columns: The answers at a glance.
        failures: Why rows have failed, the most frequent reason first.
        preview: The first rows.
        number: The number of rows.
        warning: A warning about the map, apart from rows that failed.
        effects: The effects of the calls outside of the variables: on which thing, which, and
            details.
    """

    name: str
    line: str
    columns: tuple[Column, ...]
    failures: tuple[Failure, ...]
    preview: Table
    number: int
    warning: str = ""
    effects: tuple[tuple[str, str, str], ...] = ()

    @property
    def advice(self) -> str:
        """Advice about rows that failed; empty where none did."""
        failed = sum(len(each.rows) for each in self.failures)
        if not failed:
            return ""
        return f"Run the cell again to ask about the {count(failed, 'failed row')} once more."

    def text(self, width: int) -> str:
        """As lines, for a terminal."""
        lines = [f"{self.name} · {self.line}" if self.name else self.line]
        if self.warning:
            lines.append(f"! {self.warning}")
        size = max((len(each.name) for each in self.columns), default=0)
        for each in self.columns:
            parts = [f"{value} {n:,} {_bar(n, each)}" for value, n in each.counts]
            shown = f"{each.name:{size}}  {'  '.join(parts) or each.says}"
            lines.append(truncate_line(shown, width))
        lines += [
            f"✗ {len(each.rows):,} × {each.why}  ({each.listed})"
            for each in self.failures[:_FAILURES]
        ]
        lines += [self._others, self.advice] if self.failures else []
        lines += [" · ".join(filter(None, each)) for each in self.effects]
        if self.preview.rows:
            number = len(self.preview.rows)
            lines += grid_lines(self.preview, number, width=width, cell=_PREVIEW_CELL)
        wrapped = [_fitting(line, width) for line in filter(None, lines)]
        return "\n".join(wrapped)

    @property
    def _others(self) -> str:
        others = len(self.failures) - _FAILURES
        return f"✗ {count(others, 'more reason')}" if others > 0 else ""

    def html(self) -> Html:
        """As a page shows it."""
        name = element("strong", f"{self.name} · ", style="font-size:1.05em") if self.name else None
        warning = None
        if self.warning:
            style = f"border-left:3px solid {WAITS};padding-left:.7em;margin:.3em 0;font-weight:600"
            warning = element("div", self.warning, style=style)
        head = element("div", name, self.line, style="margin-bottom:.35em")
        parts = [
            head,
            warning,
            glance_html(self.columns),
            *self._failed(),
            *self._outside(),
            self._preview(),
        ]
        sheet = stylesheet(safe.rules_for(safe.join(*parts), safe.TABLE_RULES), linked=True)
        style = f"{draw.ROOT};margin:.2em 0"
        return element("div", sheet, *parts, class_=draw.CLASSES, style=style)

    def _failed(self) -> list[Html]:
        """Why rows failed, each reason with its rows, which are folded."""
        drawn = []
        for each in self.failures[:_FAILURES]:
            mark = element("span", "✗ ", style=draw.BAD)
            why = element("summary", mark, f"{len(each.rows):,} × {each.why}", style=_POINTED)
            drawn.append(element("details", why, *_rows_of(each)))
        others = [element("div", self._others)] if self._others else []
        advice = [element("div", self.advice, style=draw.DIM)] if self.advice else []
        return [*drawn, *others, *advice]

    def _outside(self) -> list[Html]:
        """The effects outside of the variables, each on a line."""
        return [
            element(
                "div",
                name,
                element("span", *(f" · {each}" for each in rest if each), style=draw.DIM),
            )
            for name, *rest in self.effects
        ]

    def _preview(self) -> Html | None:
        shown = len(self.preview.rows)
        if not shown:
            return None
        table = safe.table(
            self.preview, "border-collapse:collapse;white-space:nowrap;font-size:1em"
        )
        more = None
        if shown < self.number:
            more = element("div", f"{shown} of {self.number:,} rows", style=draw.DIM)
        return element("div", table, more, style="overflow:auto;margin-top:.4em", tabindex="0")


def _rows_of(failure: Failure) -> Iterator[Html]:
    """The rows that failed for one reason, the first ones with their text."""
    if not failure.abouts:
        yield element("div", failure.listed, style=draw.DIM)
    for row, about in zip(failure.rows, failure.abouts, strict=False):
        number = element("span", f"row {row} · ", style=draw.DIM)
        yield element("div", number, about, style="padding-left:1.3em")
    more = len(failure.rows) - len(failure.abouts)
    if failure.abouts and more > 0:
        yield element("div", f"… {count(more, 'more row')}", style=f"padding-left:1.3em;{draw.DIM}")


def glance_html(columns: Sequence[Column]) -> Html | None:
    """The values of columns, each with a bar; None without columns."""
    if not columns:
        return None
    rows = []
    for each in columns:
        cells: list[str | Html] = []
        for value, n in each.counts:
            bar = element("span", style=f"{_BLOCK};width:{_width(n, each):.2f}em")
            what = element("span", f"{value} {n:,} ", bar)
            cells.append(element("span", what, style="white-space:nowrap;margin-right:1.2em"))
        label = element("span", each.name, style=f"{draw.DIM};{_LABEL}")
        said = element("span", *(cells or [each.says]), style="min-width:0")
        rows.append(element("div", label, said, style="display:flex;margin:.1em 0"))
    return element("div", *rows, style="margin:.3em 0;font-variant-numeric:tabular-nums")


_CELLS = "border-collapse:collapse;font-size:1em"
_LABEL = "flex:none;min-width:7em;padding-right:1em;white-space:nowrap"
_POINTED = "cursor:pointer;white-space:normal;overflow:visible;text-overflow:clip"


_PREVIEW_CELL = 40


def _fitting(line: str, width: int) -> str:
    """A line of words in as many lines as it needs; one that fits stays as it is."""
    if len(line) <= width:
        return line
    return textwrap.fill(line, max(width, 20), subsequent_indent="  ", break_long_words=False)


def _bar(number: int, column: Column) -> str:
    return "▇" * max(1, round(_BAR * number / column.counts[0][1]))


def _width(number: int, column: Column) -> float:
    return max(0.25, _BAR / 2 * number / column.counts[0][1])


def progress_html(share: float, text: str, colour: str = _THEME) -> Html:
    """A line about a map that goes on, below a bar.

    Args:
        share: How much of it is done, from 0 to 1.
        text: The line.
        colour: Of the bar.
    """
    full = element("div", style=f"width:{100 * share:.1f}%;height:100%;background:{colour}")
    style = "height:4px;background:rgba(128,128,128,.2);border-radius:2px;overflow:hidden"
    bar = element("div", full, style=f"{style};margin:.2em 0 .35em;max-width:{draw.WIDTH}")
    line = element("div", text, style="font-variant-numeric:tabular-nums")
    return element("div", bar, line, class_=draw.CLASSES, style=f"{draw.ROOT};margin:.2em 0")
