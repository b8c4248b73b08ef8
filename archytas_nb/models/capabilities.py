"""What an endpoint has shown that it can do, and the body of a request in the form that it takes.

Pure: no library, no connection. An endpoint is asked in the best form first; where it refuses, in the next one,
and what it took is remembered for the life of the process.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from archytas_nb.models.address import OPENAI_URL
from archytas_nb.react.events import AskModel, Json

SchemaDialect = Literal["json_schema", "json_object", "none"]
LengthField = Literal["max_tokens", "max_completion_tokens"]

_DIALECTS: tuple[SchemaDialect, ...] = ("json_schema", "json_object", "none")
_LENGTH_FIELDS: tuple[LengthField, ...] = ("max_tokens", "max_completion_tokens")
_LEAST_ROOM = 256
"""Tokens; a reply that must be shorter than this is not worth asking for."""

_MOST = re.compile(r"at most (\d+) (?:completion |output )?tokens", re.IGNORECASE)
_CONTEXT = re.compile(r"maximum context length (?:is|of) (\d+)", re.IGNORECASE)
_PROMPT = re.compile(r"(\d+) (?:in the messages|in your prompt|input tokens|of text input)", re.IGNORECASE)


@dataclass(slots=True)
class Capabilities:
    """What an endpoint has shown that it can do.

    Attributes:
        schema: How it takes a JSON schema for its reply: as ``json_schema`` (OpenAI, vLLM, Ollama, llama.cpp's
            own server), as ``json_object`` with a schema (llama-cpp-python's server), or not at all.
        tools: Whether it takes function-calling tools.
        stream: Whether it streams.
        stream_options: Whether it reports usage in a stream.
        length_field: The name of its bound on a reply's length.
        most_tokens: The highest such bound that it takes, or None where it has not said.
        context_tokens: What a conversation and its reply may have together, or None where it has not said.
    """

    schema: SchemaDialect = "json_schema"
    tools: bool = True
    stream: bool = True
    stream_options: bool = True
    length_field: LengthField = "max_tokens"
    most_tokens: int | None = None
    context_tokens: int | None = None

    def learn(self, shown: Capabilities) -> None:
        """Take over what a request has shown."""
        for name in self.__slots__:
            setattr(self, name, getattr(shown, name))


@functools.cache
def capabilities_of(base_url: str, model: str) -> Capabilities:  # noqa: ARG001 - the cache's key
    """The one record of what this model at this endpoint can do."""
    official = base_url.startswith(OPENAI_URL)
    return Capabilities(length_field="max_completion_tokens" if official else "max_tokens")


def body_of(ask: AskModel, can: Capabilities, extra: Mapping[str, Json], *, stream: bool) -> dict[str, Json]:
    """The fields of a request beside its model, in the form that the endpoint takes.

    Args:
        ask: The request.
        can: What the endpoint can do.
        extra: Further fields, which win over ours.
        stream: Whether the reply is to be streamed.
    """
    body: dict[str, Json] = {"messages": ask.messages}
    if ask.tools:
        body["tools"] = ask.tools
    if ask.max_tokens is not None and not any(field in extra for field in _LENGTH_FIELDS):
        body[can.length_field] = min(ask.max_tokens, can.most_tokens or ask.max_tokens)
    if stream and can.stream_options:
        body["stream_options"] = {"include_usage": True}
    if ask.schema is not None and can.schema == "json_schema":
        schema = {"name": "action", "schema": ask.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif ask.schema is not None and can.schema == "json_object":
        body["response_format"] = {"type": "json_object", "schema": ask.schema}
    return {**body, **extra}


def lowered(can: Capabilities, ask: AskModel, said: str, *, stream: bool) -> Capabilities | None:
    """The next form to ask in, after the endpoint refused a request.

    Args:
        can: The form that was refused.
        ask: The request.
        said: What the endpoint said.
        stream: Whether the request was for a stream.

    Returns:
        A form with one thing less, or None where nothing is left to be given up.
    """
    less = shorter(can, ask, said)
    if less is not None:
        return less
    if stream and can.stream_options and "stream_options" in said:
        return replace(can, stream_options=False)
    if stream and can.stream and re.search(r"\bstream(?:ing|ed)?\b", said):
        return replace(can, stream=False)
    if ask.schema is not None and can.schema != "none":
        return replace(can, schema=_DIALECTS[_DIALECTS.index(can.schema) + 1])
    return None


def shorter(can: Capabilities, ask: AskModel, said: str) -> Capabilities | None:
    """The form with another name for the bound of a reply, or a lower bound; None where neither helps."""
    if ask.max_tokens is None:
        return None
    most = min(ask.max_tokens, can.most_tokens or ask.max_tokens)
    context, prompt, limit = _CONTEXT.search(said), _PROMPT.search(said), _MOST.search(said)
    if context and prompt:
        # The prompt fits and only the room for the reply does not. A quarter of the context leaves the
        # conversation some steps to grow before the same is said again.
        room = int(context[1]) - int(prompt[1])
        lower = min(room, max(_LEAST_ROOM, int(context[1]) // 4))
        return replace(can, most_tokens=lower) if _LEAST_ROOM <= lower < most else None
    if limit:
        return replace(can, most_tokens=int(limit[1])) if 0 < int(limit[1]) < most else None
    if re.search(r"max_(completion_)?tokens", said):
        return replace(can, length_field=_LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(can.length_field)])
    return None
