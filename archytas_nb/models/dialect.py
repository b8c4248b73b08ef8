"""Messages in the dialect of an endpoint that does not take them as they are, or wants more than they hold.

Pure: messages in, messages out; those that are given are never changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from archytas_nb.loop.events import Json, Message

UNKNOWN_THOUGHT = "…"
"""Stands for a thought that another model had, or that was not kept: an empty one may count as missing."""

_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini takes beside a call that it did not make itself."""


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Messages whose system prompt stands at the beginning of the first question."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return tuple(messages)
    system, first, *rest = messages
    said, content = str(system["content"]), first["content"]
    part = {"type": "text", "text": said}
    together = f"{said}\n\n{content}" if isinstance(content, str) else [part, *content]
    return ({**first, "content": together}, *rest)


def with_thoughts(messages: Sequence[Message], asides: Mapping[str, Json]) -> tuple[Message, ...]:
    """Messages in which the model is told what it thought before each of its calls.

    Args:
        messages: The conversation.
        asides: As `AskModel.asides`.
    """
    return tuple(
        {**message, "reasoning_content": _thought(message, asides)}
        if message["role"] == "assistant"
        else message
        for message in messages
    )


def with_extras(
    messages: Sequence[Message], asides: Mapping[str, Json], *, signed: bool
) -> tuple[Message, ...]:
    """Messages in which each call has what the endpoint had sent beside it.

    Args:
        messages: The conversation.
        asides: As `AskModel.asides`.
        signed: Whether the first call of a reply must have something, and gets what stands for a signature.
    """
    return tuple(
        _signed(each, asides, signed=signed) if "tool_calls" in each else each for each in messages
    )


def _thought(message: Message, asides: Mapping[str, Json]) -> str:
    ids = [call["id"] for call in message.get("tool_calls", ())]
    return next(
        (str(asides[id_]["reasoning"]) for id_ in ids if "reasoning" in asides.get(id_, ())),
        UNKNOWN_THOUGHT,
    )


def _signed(message: Message, asides: Mapping[str, Json], *, signed: bool) -> Message:
    calls = list(message["tool_calls"])
    for at, call in enumerate(calls):
        extra = asides.get(call["id"], {}).get("extra", _UNSIGNED if signed and at == 0 else None)
        if extra is not None:
            calls[at] = {**call, "extra_content": extra}
    return {**message, "tool_calls": calls}
