"""The output of a magic in place of a value: a message, or an overview as text and as HTML.

Questions, answers and tools are anybody's text: whatever becomes HTML here is made by the trace's
own functions, which escape it, and a text for a terminal has no control characters.
"""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple, Self

from archytas_nb.words import tidy

NO_QUESTIONS = "no questions have been asked in this conversation: ask one with %agent QUESTION"


class TextResult(str):
    """A text that a cell shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__

    def __new__(cls, text: str) -> Self:
        """The text without what a terminal would obey."""
        return super().__new__(cls, tidy(text, len(text)))


def overview_of_magics(shell: Any) -> Overview:
    """The magics of the extension in a shell, each with the first line of its help."""
    from archytas_nb.magics.line import IN_RESERVE, summary_of

    rows = []
    for kind, sign in (("line", "%"), ("cell", "%%")):
        for name, magic in sorted(shell.magics_manager.magics[kind].items()):
            function = getattr(magic, "__func__", magic)
            is_ours = str(getattr(function, "__module__", "")).startswith("archytas_nb.")
            if (
                is_ours
                and name not in IN_RESERVE
                and (kind == "line" or name not in shell.magics_manager.magics["line"])
            ):
                rows.append((f"{sign}{name}", summary_of(function)))
    notes = (
        "Ask something: %agent How many rows does df have?",
        "Options, with examples: %agent --help. Models: %agent --models. Each magic has --help.",
    )
    return Overview(("magic", "what it does"), tuple(rows), notes=notes)


class Overview(NamedTuple):
    """Rows below a head, as text and as HTML, then notes; ``empty`` if there are no rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = NO_QUESTIONS
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from archytas_nb.trace.safe import Table
        from archytas_nb.trace.text import grid_lines

        notes = [*map(_wrapped, self.notes)]
        if not self.rows:
            return "\n".join([self.empty, *notes])
        table = Table(self.head, tuple(tuple(map(tidy, row)) for row in self.rows))
        lines = grid_lines(table, len(self.rows), width=10_000, cell=1_000)
        return "\n".join([*lines, *notes])

    def _repr_html_(self) -> str:
        return page(self.html())

    def html(self) -> str:
        """The table without what a page needs around it."""
        from archytas_nb.trace import safe

        notes = [safe.element("div", each, style=_NOTE) for each in self.notes]
        if not self.rows:
            return safe.element("div", safe.element("p", self.empty), *notes)
        table = safe.table(safe.Table(self.head, self.rows), "border-collapse:collapse")
        table = safe.element("div", table, style="overflow-x:auto", tabindex="0")
        sheet = safe.stylesheet(safe.rules_for(table, safe.TABLE_RULES), linked=True)
        return safe.element("div", sheet, table, *notes, class_=safe.CLASS)


_NOTE_WIDTH = 100
_NOTE = "opacity:.65;margin:.2em 0;max-width:72ch;white-space:pre-wrap"


def _wrapped(note: str) -> str:
    """A note in lines that a console shows whole; an indented one is a command, to be copied."""
    return "\n".join(
        line if line.startswith(" ") else textwrap.fill(line, _NOTE_WIDTH)
        for line in tidy(note).splitlines()
    )


def page(*parts: str) -> str:
    """HTML that is the whole output of a cell."""
    from archytas_nb.trace.safe import element, embedded

    # MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
    return embedded(element("div", *parts, class_="tex2jax_ignore mathjax_ignore"))
