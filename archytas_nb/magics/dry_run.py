"""Implements ``%agent --dry-run``: shows the request that would be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archytas_nb.magics.overview import Overview, page

if TYPE_CHECKING:
    from archytas_nb.loop.events import AskModel
    from archytas_nb.prepare import Prepared

_TITLE = "Nothing was sent. The first request would be:"
_PRE = (
    "white-space:pre-wrap;overflow-wrap:anywhere;padding:.5em .8em;background:rgba(128,128,128,.1)"
)


def dry_run(prepared: Prepared) -> DryRun:
    """The request that would be sent for a question."""
    from archytas_nb.loop.model import request_body

    ask = prepared.first_request()
    model = prepared.model
    limits = prepared.settings.limits
    names = ("max_steps", "max_errors", "max_seconds", "max_total_tokens")
    facts = {
        "model": model.name,
        "protocol": prepared.protocol,
        "limits": ", ".join(f"{name}={getattr(limits, name)}" for name in names),
        "tools": _tools(prepared),
        "reply": f"at most {ask.max_tokens} tokens" if ask.max_tokens else "no limit",
    }
    parts = tokens_by_part(prepared, ask)
    listed = ", ".join(f"{name} {number:,}" for name, number in parts.items())
    facts["tokens"] = f"about {sum(parts.values()):,}: {listed}"
    profile = prepared.profile
    if profile.is_asked_first and prepared.setup.offered(profile) and not prepared.past:
        facts["before it"] = "short requests: does this tool fit the question? (small models only)"
    body = request_body(model, ask)
    return DryRun(ask, tuple(facts.items()), body)


def _tools(prepared: Prepared) -> str:
    """The tools that the request describes, and how many there are to find."""
    described = [name for name in prepared.tools if name not in prepared.searched]
    listed = ", ".join(described) or "none"
    if not prepared.searched:
        return listed
    return f"{listed}, and {len(prepared.searched):,} to find"


def tokens_by_part(prepared: Prepared, ask: AskModel) -> dict[str, int]:
    """The estimated tokens of a first request, by what they are for."""
    from archytas_nb.loop.tokens import json_tokens, message_tokens, text_tokens

    system, *history, question = ask.messages
    tools = json_tokens(ask.tools)
    rules = message_tokens([system])
    if not ask.tools and prepared.tools:  # they are described in the first message
        wire = prepared.wire(prepared.protocol)
        tools = min(sum(text_tokens(text) for text in wire.tool_texts), rules)
        rules -= tools
    context = prepared.exchange.context
    is_sent = context is not None and context.is_offered and context.text
    variables = text_tokens(context.text) if context is not None and is_sent else 0
    return {
        "system": rules,
        "tools": tools,
        "variables": variables,
        "history": message_tokens(history),
        "question": max(message_tokens([question]) - variables, 0),
    }


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """The request that would be sent.

    Attributes:
        ask: The request, as a model gets it.
        facts: Names and values of what decides about the run.
        body: The body for the endpoint; None where the model has none.
    """

    ask: AskModel
    facts: tuple[tuple[str, str], ...]
    body: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        parts = [_TITLE, "", repr(Overview((), self.facts))]
        for title, body in self._parts():
            parts += ["", f"── {title} ".ljust(80, "─"), body]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        from archytas_nb.trace.safe import element

        head = [element("p", _TITLE), Overview((), self.facts).html()]
        return page(*head, *_folded(self._parts()))

    def _parts(self) -> list[tuple[str, str]]:
        ask = self.ask
        body = self.body
        if body is None:
            body = {"messages": ask.messages, "tools": ask.tools}
        parts = parts_of(body)
        if self.body is None and ask.schema is not None:
            title = "JSON schema that the reply is bound to, where the endpoint can"
            parts.append((title, _pretty(ask.schema)))
        if self.body is None and ask.grammar:
            title = "grammar (GBNF) that the reply is bound to, where the model has grammars"
            parts.append((title, ask.grammar))
        others = {name: each for name, each in body.items() if name not in _SHOWN}
        if others:
            parts.append(("other fields", _pretty(others)))
        return parts


def parts_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The texts of a body with titles; a result of a call is named by its tool."""
    parts = []
    system = body.get("system") or body.get("instructions")
    if system:
        parts.append(("system", _content({"content": system})))
    messages = body.get("messages") or body["input"]  # the latter of the Responses API
    tools: dict[str, str] = {}
    for each in messages:
        for call in each.get("tool_calls") or ():
            tools[str(call.get("id"))] = str((call.get("function") or {}).get("name", ""))
        title = str(each.get("role") or each.get("type"))
        name = tools.get(str(each.get("tool_call_id")), "")
        parts.append((f"{title}: {name}" if name else title, _content(each)))
    if body.get("tools"):
        parts.append(("tools, as function-calling specifications", _pretty(body["tools"])))
    return parts


def _folded(parts: list[tuple[str, str]]) -> list[str]:
    """The parts as a page shows them; only the last message of a person is unfolded."""
    from archytas_nb.trace.safe import element

    question = max((n for n, (title, _) in enumerate(parts) if title == "user"), default=0)
    drawn = []
    for number, (title, body) in enumerate(parts):
        size = element("span", f" · {len(body):,} characters", style="opacity:.65")
        summary = element("summary", element("strong", title), size, style="cursor:pointer")
        whole = element("pre", body, style=_PRE)
        drawn.append(element("details", summary, whole, open=number == question))
    return list[str](drawn)


def parts_html(title: str, body: Mapping[str, Any], sent: str) -> str:
    """A request that was sent: its parts, and the whole as it was sent."""
    from archytas_nb.trace.safe import element

    others = {name: each for name, each in body.items() if name not in _SHOWN}
    parts = [*parts_of(body), ("other fields", _pretty(others))]
    return page(element("p", title), *_folded([*parts, ("as it was sent, byte for byte", sent)]))


_SHOWN = ("system", "instructions", "messages", "input", "tools")
"""Fields that are shown as parts of their own."""


def _content(message: Mapping[str, Any]) -> str:
    """A message as it is sent, whole; of a picture its size."""
    from archytas_nb.words import tidy

    content = message.get("content")
    if isinstance(content, list):
        parts = [_part(each) for each in content]
    else:
        parts = [str(content or "")]
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    if rest:
        parts.append(_pretty(rest))
    return tidy("\n".join(filter(None, parts)), 10_000_000)


def _part(part: Any) -> str:
    if "image" in part.get("type", ""):
        return f"[image, {len(_pretty(part)):,} characters]"
    if "text" in part:
        return str(part["text"])
    return _pretty(part)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
