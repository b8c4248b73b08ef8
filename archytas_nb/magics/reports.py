"""What ``--history``, ``--cost``, ``--undo``, ``--reset`` and ``--dry-run`` show, as text and HTML.

Questions and answers are anybody's text: whatever becomes HTML here is made by the trace's own
functions, which escape it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archytas_nb.loop.events import Usage
from archytas_nb.trace.safe import Table as Cells
from archytas_nb.trace.safe import element, one_line, table, text, tidy
from archytas_nb.trace.text import grid_lines
from archytas_nb.trace.view import ending_text, ending_title

if TYPE_CHECKING:
    from archytas_nb.loop import events
    from archytas_nb.loop.history import Exchange
    from archytas_nb.magics.conversation import Paid

_CELL = "padding:.2em .8em;vertical-align:top"
_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;padding:.5em .8em;background:rgba(128,128,128,.1)"
)
# MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
_PLAIN: dict[str, str | bool] = {"class": "tex2jax_ignore mathjax_ignore"}


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows below a head, as text and as HTML.

    Attributes:
        head: The titles of the columns.
        rows: Cells of equal number.
        empty: Shown where there are no rows.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "nothing was asked yet in this conversation"

    def __repr__(self) -> str:
        if not self.rows:
            return self.empty
        cells = Cells(self.head, self.rows)
        return "\n".join(grid_lines(cells, len(self.rows), width=10_000, cell=1_000))

    def _repr_html_(self) -> str:
        if not self.rows:
            return str(element("p", text(self.empty)))
        drawn = table(Cells(self.head, self.rows), style="", cell=_CELL, head="")
        return str(element("div", drawn, **_PLAIN))


def history(exchanges: Sequence[Exchange]) -> Table:
    """The exchanges of a conversation, in order."""
    rows = []
    for number, exchange in enumerate(exchanges, start=1):
        called = ", ".join(call.name for step in exchange.steps for call in step.calls)
        title, said = ending_title(exchange.ending), ending_text(exchange.ending)
        ending = f"{title}: {said}" if title and said else title or said
        shown = one_line(exchange.question, 60), one_line(called, 60), one_line(ending, 80)
        rows.append((str(number), *shown))
    return Table(("", "question", "tools called", "answer"), tuple(rows))


def cost(paid: Sequence[Paid]) -> Table:
    """What the last question and the conversation cost; ``+`` marks an incomplete sum.

    Args:
        paid: One entry for each question, in order.
    """
    head = [
        "",
        "questions",
        "requests",
        "tokens in",
        "of them cached",
        "tokens out",
        "model seconds",
        "USD",
    ]
    sums = [("last question", paid[-1:]), ("conversation", paid)]
    return Table(tuple(head), tuple(_sum(*each) for each in sums if paid))


def _sum(label: str, paid: Sequence[Paid]) -> tuple[str, ...]:
    usage = sum((each.usage for each in paid), Usage())
    asked = [each for each in paid if each.usage.requests]
    counted = all(each.usage.input_tokens or each.usage.output_tokens for each in asked)
    tokens = [
        f"{number:,}" if counted else f"{number:,}+" if number else "unknown"
        for number in (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    ]
    known = [each.usd for each in asked if each.usd is not None]
    usd = f"{sum(known):.4f}" if known else "unknown" if asked else "0"
    usd += "+" if known and len(known) < len(asked) else ""
    seconds = f"{sum(each.seconds for each in paid):.1f}"
    return label, str(len(paid)), f"{usage.requests:,}", *tokens, seconds, usd


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What would be sent.

    Attributes:
        ask: The request, as the model would receive it.
        facts: Names and values of what decides about the run.
    """

    ask: events.AskModel
    facts: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        parts = ["Nothing was sent. The first request would be:", ""]
        parts += [f"{name.ljust(width)}  {value}" for name, value in self.facts]
        for title, body in self._parts():
            parts += ["", f"── {title} ".ljust(80, "─"), body]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [
            element("p", text("Nothing was sent. The first request would be:")),
            table(Cells((), self.facts), style="", cell=_CELL, head=""),
        ]
        question = len(self.ask.messages) - 1
        for number, (title, body) in enumerate(self._parts()):
            size = element("span", text(f" · {len(body):,} characters"), style="opacity:.65")
            name = element("strong", text(title))
            summary = element("summary", name, size, style="cursor:pointer")
            whole = element("pre", text(body), style=_PRE)
            parts.append(element("details", summary, whole, open=number == question))
        return str(element("div", *parts, **_PLAIN))

    def _parts(self) -> list[tuple[str, str]]:
        ask = self.ask
        parts = [(str(message.get("role")), _content(message)) for message in ask.messages]
        if ask.tools:
            parts.append(("tools, as function-calling specifications", _pretty(ask.tools)))
        if ask.schema is not None:
            title = "JSON schema that the reply is bound to, where the endpoint can"
            parts.append((title, _pretty(ask.schema)))
        return parts


def _content(message: events.Message) -> str:
    """A message as it is sent, whole; of a picture its kind and size."""
    content = message.get("content")
    parts = [_part(part) for part in content] if isinstance(content, list) else [str(content or "")]
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    if rest:
        parts.append(_pretty(rest))
    return tidy("\n".join(part for part in parts if part), 10_000_000)


def _part(part: Any) -> str:
    url = part.get("image_url", {}).get("url", "") if isinstance(part, dict) else ""
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        return f"[{kind}, {len(data) * 3 // 4 - data.count('='):,} bytes]"
    return str(part.get("text", part)) if isinstance(part, dict) else str(part)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
