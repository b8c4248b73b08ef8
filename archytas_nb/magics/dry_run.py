"""What ``%agent --dry-run`` shows: the request that would be sent, as text and as HTML.

Questions and answers are anybody's text: whatever becomes HTML here is made by the trace's own
functions, which escape it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from archytas_nb.loop.events import AskModel, Message
from archytas_nb.magics.conversation import CELL, PLAIN
from archytas_nb.trace.safe import Table, element, table, text, tidy

_TITLE = "Nothing was sent. The first request would be:"
_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;padding:.5em .8em;background:rgba(128,128,128,.1)"
)


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What would be sent.

    Attributes:
        ask: The request, as the model would receive it.
        facts: Names and values of what decides about the run.
    """

    ask: AskModel
    facts: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        parts = [_TITLE, "", *(f"{name.ljust(width)}  {value}" for name, value in self.facts)]
        for title, body in self._parts():
            parts += ["", f"── {title} ".ljust(80, "─"), body]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        facts = table(Table((), self.facts), style="", cell=CELL, head="")
        parts = [element("p", text(_TITLE)), facts]
        for number, (title, body) in enumerate(self._parts(), start=1):
            size = element("span", text(f" · {len(body):,} characters"), style="opacity:.65")
            name = element("strong", text(title))
            summary = element("summary", name, size, style="cursor:pointer")
            whole = element("pre", text(body), style=_PRE)
            is_question = number == len(self.ask.messages)
            parts.append(element("details", summary, whole, open=is_question))
        return str(element("div", *parts, **PLAIN))

    def _parts(self) -> list[tuple[str, str]]:
        ask = self.ask
        parts = [(str(message.get("role")), _content(message)) for message in ask.messages]
        if ask.tools:
            parts.append(("tools, as function-calling specifications", _pretty(ask.tools)))
        if ask.schema is not None:
            title = "JSON schema that the reply is bound to, where the endpoint can"
            parts.append((title, _pretty(ask.schema)))
        return parts


def _content(message: Message) -> str:
    """A message as it is sent, whole; of a picture its kind and size."""
    content = message.get("content")
    parts = [_part(part) for part in content] if isinstance(content, list) else [str(content or "")]
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    parts += [_pretty(rest)] if rest else []
    return tidy("\n".join(filter(None, parts)), 10_000_000)


def _part(part: Any) -> str:
    url = part.get("image_url", {}).get("url", "")
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        return f"[{kind}, {len(data) * 3 // 4 - data.count('='):,} bytes]"
    return str(part.get("text", part))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
