"""What ``--history``, ``--cost``, ``--undo``, ``--reset`` and ``--dry-run`` show: text, and HTML for a notebook.

Questions and answers are anybody's text: whatever becomes HTML here goes through the trace's one door.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archytas_nb.loop.events import Message, Usage
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.safe import element, table, text
from archytas_nb.trace.table import Table
from archytas_nb.trace.words import ending_text, ending_title

if TYPE_CHECKING:
    from archytas_nb.loop.events import AskModel
    from archytas_nb.loop.history import Exchange
    from archytas_nb.magics.conversation import Paid

_QUESTION, _ANSWER = 60, 80
_CELL = "padding:.2em .8em;vertical-align:top"
_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;padding:.5em .8em;background:rgba(128,128,128,.1)"
)

# MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
_PLAIN: dict[str, str | bool] = {"class": "tex2jax_ignore mathjax_ignore"}


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence about what was done.

    Attributes:
        text: The sentence.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, repr=False)
class _Rows:
    """A table, as text and as HTML."""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, the head first."""
        raise NotImplementedError

    @property
    def empty(self) -> str:
        """What is said where there is nothing to show."""
        raise NotImplementedError

    def __repr__(self) -> str:
        head, *body = rows = self.rows
        if not body:
            return self.empty
        data = Table((head,), tuple(body))
        widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
        lines = [
            "  ".join(
                cell.rjust(width) if data.numeric(at) else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *body = self.rows
        if not body:
            return str(element("p", text(self.empty)))
        return str(
            element(
                "div", table(Table((head,), tuple(body)), style="", cell=_CELL, head=""), **_PLAIN
            )
        )


@dataclass(frozen=True, slots=True, repr=False)
class History(_Rows):
    """The exchanges of a conversation.

    Attributes:
        exchanges: In order.
    """

    exchanges: tuple[Exchange, ...]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """One row for each exchange: its number, the question, the tools that were called, how it ended."""
        body = [
            (
                str(number),
                one_line(exchange.question, _QUESTION),
                one_line(
                    ", ".join(call.name for step in exchange.steps for call in step.calls),
                    _QUESTION,
                ),
                one_line(_ending(exchange), _ANSWER),
            )
            for number, exchange in enumerate(self.exchanges, start=1)
        ]
        return [("", "question", "tools called", "answer"), *body]

    @property
    def empty(self) -> str:
        """Nothing was said."""
        return "nothing was asked yet in this conversation"


@dataclass(frozen=True, slots=True, repr=False)
class Cost(_Rows):
    """What a conversation cost; ``+`` marks a sum of which parts are not known.

    Attributes:
        paid: One entry for each question, in order.
    """

    paid: tuple[Paid, ...]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The last question and the whole conversation."""
        head = (
            "",
            "questions",
            "requests",
            "tokens in",
            "of them cached",
            "tokens out",
            "model seconds",
            "USD",
        )
        if not self.paid:
            return [head]
        return [head, _sum("last question", self.paid[-1:]), _sum("conversation", self.paid)]

    @property
    def empty(self) -> str:
        """Nothing was asked."""
        return "nothing was asked yet in this conversation"


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What would be sent.

    Attributes:
        ask: The request itself, as the model would be handed it.
        facts: Names and values of what decides about the run.
    """

    ask: AskModel
    facts: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        parts = ["Nothing was sent. The first request would be:", ""]
        parts += [f"{name.ljust(width)}  {value}" for name, value in self.facts]
        for title, body in self._parts():
            parts += ["", f"── {title} ".ljust(80, "─"), body]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        facts = Table((), self.facts)
        parts = [
            element("p", text("Nothing was sent. The first request would be:")),
            table(facts, style="", cell=_CELL, head=""),
        ]
        for title, body in self._parts():
            size = element("span", text(f" · {len(body):,} characters"), style="opacity:.65")
            summary = element(
                "summary", element("strong", text(title)), size, style="cursor:pointer"
            )
            asks = title == "user" and body == _content(self.ask.messages[-1])
            parts.append(
                element("details", summary, element("pre", text(body), style=_PRE), open=asks)
            )
        return str(element("div", *parts, **_PLAIN))

    def _parts(self) -> list[tuple[str, str]]:
        ask = self.ask
        parts = [(str(message.get("role")), _content(message)) for message in ask.messages]
        if ask.tools:
            parts.append(("tools, as function-calling specifications", _pretty(ask.tools)))
        if ask.schema is not None:
            parts.append(
                (
                    "JSON schema that the reply is bound to, where the endpoint can",
                    _pretty(ask.schema),
                )
            )
        return parts


def _ending(exchange: Exchange) -> str:
    title, said = ending_title(exchange.ending), ending_text(exchange.ending)
    return f"{title}: {said}" if title and said else title or said


def _sum(label: str, paid: Sequence[Paid]) -> tuple[str, ...]:
    usage = sum((each.usage for each in paid), Usage())
    asked = [each for each in paid if each.usage.requests]
    counted = all(each.usage.input_tokens or each.usage.output_tokens for each in asked)
    tokens = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    known = [each.usd for each in asked if each.usd is not None]
    usd = f"{sum(known):.4f}" if known else "unknown" if asked else "0"
    return (
        label,
        str(len(paid)),
        f"{usage.requests:,}",
        *(
            f"{number:,}" if counted else f"{number:,}+" if number else "unknown"
            for number in tokens
        ),
        f"{sum(each.seconds for each in paid):.1f}",
        f"{usd}+" if known and len(known) < len(asked) else usd,
    )


def _content(message: Message) -> str:
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
        size = len(data) * 3 // 4 - data.count("=")
        return f"[{kind}, {size:,} bytes]"
    return str(part.get("text", part)) if isinstance(part, dict) else str(part)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
