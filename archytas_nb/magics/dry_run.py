"""What ``%agent --dry-run`` shows: the request that would be sent, as text and as HTML.

Questions and answers are anybody's text: whatever becomes HTML here is made by the trace's own
functions, which escape it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archytas_nb.loop.events import AskModel, Message
from archytas_nb.magics.conversation import CELL, PLAIN
from archytas_nb.trace.safe import Table, element, embedded, table, text, tidy

if TYPE_CHECKING:
    from archytas_nb.agent import Agent

_TITLE = "Nothing was sent. The first request would be:"
_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;padding:.5em .8em;background:rgba(128,128,128,.1)"
)


def dry_run(agent: Agent, question: str, keywords: dict[str, Any]) -> DryRun:
    """What an agent would be sent for a question with these arguments of `Agent.run`."""
    ask, model, limits = agent.preview(question, **keywords), agent.model, agent.limits
    names = ("max_steps", "max_errors", "max_seconds", "max_total_tokens")
    facts = {
        "model": model.name,
        "protocol": agent.protocol if agent.protocol != "auto" else model.protocol,
        "limits": ", ".join(f"{name}={getattr(limits, name)}" for name in names),
        "tools": ", ".join(agent.tools) or "none",
        "reply": f"at most {ask.max_tokens} tokens" if ask.max_tokens else "no limit",
    }
    if getattr(model, "is_small", False) and agent.tools and not agent.exchanges:
        facts["before it"] = "short requests: does this tool fit the question? (small models only)"
    body = model.body(ask) if hasattr(model, "body") else None
    return DryRun(ask, tuple(facts.items()), body)


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What would be sent.

    Attributes:
        ask: The request, as a model gets it.
        facts: Names and values of what decides about the run.
        body: What would be sent to the endpoint; None where the model has none.
    """

    ask: AskModel
    facts: tuple[tuple[str, str], ...]
    body: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        parts = [_TITLE, "", *(f"{name.ljust(width)}  {value}" for name, value in self.facts)]
        for title, body in self._parts():
            parts += ["", f"── {title} ".ljust(80, "─"), body]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        facts = table(Table((), self.facts), style="", cell=CELL, head="")
        parts = [element("p", text(_TITLE)), facts]
        shown = self._parts()
        question = max((n for n, (title, _) in enumerate(shown) if title == "user"), default=0)
        for number, (title, body) in enumerate(shown):
            size = element("span", text(f" · {len(body):,} characters"), style="opacity:.65")
            name = element("strong", text(title))
            summary = element("summary", name, size, style="cursor:pointer")
            whole = element("pre", text(body), style=_PRE)
            parts.append(element("details", summary, whole, open=number == question))
        return embedded(element("div", *parts, **PLAIN))

    def _parts(self) -> list[tuple[str, str]]:
        ask = self.ask
        body = {"messages": ask.messages, "tools": ask.tools} if self.body is None else self.body
        system = [{"role": "system", "content": body["system"]}] if "system" in body else []
        parts = [(str(each.get("role")), _content(each)) for each in (*system, *body["messages"])]
        if body.get("tools"):
            parts.append(("tools, as function-calling specifications", _pretty(body["tools"])))
        if self.body is None and ask.schema is not None:
            title = "JSON schema that the reply is bound to, where the endpoint can"
            parts.append((title, _pretty(ask.schema)))
        others = {n: each for n, each in body.items() if n not in ("system", "messages", "tools")}
        return [*parts, ("other fields", _pretty(others))] if others else parts


def _content(message: Message) -> str:
    """A message as it is sent, whole; of a picture its size."""
    content = message.get("content")
    parts = map(_part, content) if isinstance(content, list) else [str(content or "")]
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    return tidy("\n".join(filter(None, [*parts, _pretty(rest) if rest else ""])), 10_000_000)


def _part(part: Any) -> str:
    if "image" in part.get("type", ""):
        return f"[image, {len(_pretty(part)):,} characters]"
    return str(part["text"]) if "text" in part else _pretty(part)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
