"""What an endpoint has shown that it can do, and the body of a request in the form that it takes.

Pure: no library, no connection. An endpoint is asked in the best form first; where it refuses, in the next one,
and what it took is remembered for the life of the process.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, Json, Message, ModelReply
from archytas_nb.models import wording
from archytas_nb.models.address import OPENAI_URL
from archytas_nb.models.dialect import with_extras, with_thoughts, without_system
from archytas_nb.models.images import images_in, seen

SchemaDialect = Literal["json_schema", "json_object", "none"]
Extras = Literal["unwanted", "returned", "required"]
LengthField = Literal["max_tokens", "max_completion_tokens"]

_DIALECTS: tuple[SchemaDialect, ...] = ("json_schema", "json_object", "none")
_LENGTH_FIELDS: tuple[LengthField, ...] = ("max_tokens", "max_completion_tokens")
_ABOUT_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
"""Fields that endpoints refuse in a request without tools, such as the last one of a run."""
_LEAST_ROOM = 256
"""Tokens; a reply that must be shorter than this is not worth asking for."""


@dataclass(slots=True)
class Capabilities:
    """What an endpoint has shown that it can do.

    Attributes:
        schema: How it takes a JSON schema for its reply: as ``json_schema`` (OpenAI, vLLM, Ollama, llama.cpp's
            own server), as ``json_object`` with a schema (llama-cpp-python's server), or not at all.
        tools: Whether it takes function-calling tools.
        calls: How its model calls them: ``"given"`` where they come as calls, ``"written"`` where they stand in
            the text of a reply (a server that does not know the model's form hands it on as it is).
        stream: Whether it streams.
        stream_options: Whether it reports usage in a stream.
        length_field: The name of its bound on a reply's length.
        most_tokens: The highest such bound that it takes, or None where it has not said.
        context_tokens: What a conversation and its reply may have together, or None where it has not said.
        images: The most images that it takes in a request, or None where it has set no bound.
        without: Fields that it does not take: the caller's own, and the other name of `length_field`.
        thinks: Whether it has used up a reply by reasoning alone, so that it needs room for both.
        system: Whether it takes a system prompt.
        thoughts: Whether it wants back what the model thought (DeepSeek and Kimi refuse a history without it).
        reasons_with_tools: Whether it takes tools without ``reasoning_effort="none"``.
        extras: Whether what it sends beside calls is returned to it, and required of every reply (Gemini).
    """

    schema: SchemaDialect = "json_schema"
    tools: bool = True
    calls: Literal["unseen", "given", "written"] = "unseen"
    stream: bool = True
    stream_options: bool = True
    length_field: LengthField = "max_tokens"
    most_tokens: int | None = None
    context_tokens: int | None = None
    images: int | None = None
    without: frozenset[str] = frozenset()
    thinks: bool = False
    system: bool = True
    thoughts: bool = False
    reasons_with_tools: bool = True
    extras: Extras = "unwanted"

    @property
    def protocol(self) -> Literal["react", "native"]:
        """The wire form that suits it: function calling where that works, else the text protocol.

        A reply of the text protocol can be bound to a schema; a call that is written into a text cannot.
        """
        return "native" if self.tools and self.calls != "written" else "react"

    def learn(self, shown: Capabilities) -> None:
        """Take over what a request has shown."""
        for name in self.__slots__:
            setattr(self, name, getattr(shown, name))


@functools.cache
def capabilities_of(base_url: str, model: str) -> Capabilities:  # noqa: ARG001 - the cache's key
    """The one record of what this model at this endpoint can do."""
    official = base_url.startswith(OPENAI_URL)
    return Capabilities(length_field="max_completion_tokens" if official else "max_tokens")


def body_of(
    ask: AskModel, can: Capabilities, extra: Mapping[str, Json], *, stream: bool
) -> dict[str, Json]:
    """The fields of a request beside its model, in the form that the endpoint takes.

    Args:
        ask: The request.
        can: What the endpoint can do.
        extra: Further fields, which win over ours.
        stream: Whether the reply is to be streamed.
    """
    own = _own(extra, can, with_tools=bool(ask.tools))
    body: dict[str, Json] = {"messages": _messages(ask, can)}
    if ask.tools:
        body["tools"] = ask.tools
    if ask.max_tokens is not None and not any(field in own for field in _LENGTH_FIELDS):
        body[can.length_field] = _bound(ask, can)
    if stream and can.stream_options:
        body["stream_options"] = {"include_usage": True}
    if ask.schema is not None and can.schema == "json_schema":
        schema = {"name": "action", "schema": ask.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif ask.schema is not None and can.schema == "json_object":
        body["response_format"] = {"type": "json_object", "schema": ask.schema}
    return {**body, **own}


def _messages(ask: AskModel, can: Capabilities) -> tuple[Message, ...]:
    messages = ask.messages if can.images is None else seen(ask.messages, can.images)
    if can.thoughts:
        messages = with_thoughts(messages, ask.asides)
    if can.extras != "unwanted":
        messages = with_extras(messages, ask.asides, signed=can.extras == "required")
    return messages if can.system else without_system(messages)


def _bound(ask: AskModel, can: Capabilities) -> int:
    wanted = max(ask.max_tokens or 0, (ask.thinking_tokens or 0) if can.thinks else 0)
    return min(wanted, can.most_tokens or wanted)


_MEANT = {
    "default_headers": "headers={…}",
    "extra_headers": "headers={…}",
    "organization": "headers={'OpenAI-Organization': …}",
    "project": "headers={'OpenAI-Project': …}",
    "azure_ad_token": "headers={'Authorization': 'Bearer …'}",
    "default_query": "query={…}",
    "extra_query": "query={…}",
    "api_version": "query={'api-version': …}",
    "azure_endpoint": "base_url=",
    "azure_deployment": "base_url='https://…/openai/deployments/NAME'",
    "api_base": "base_url=",
    "extra_body": "each of its fields as an argument of its own",
    "http_client": "the variables HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE",
    "proxies": "the variables HTTPS_PROXY and NO_PROXY",
    "verify": "the variable SSL_CERT_FILE",
    "messages": "agent.run(…), which sends the conversation",
    "tools": "Agent(tools=…), which sends the tools",
}
"""Options of clients, and what is sent anyhow, by what is meant instead: none of them is a field of one's own."""


def sendable(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Fields of a request, as they are given.

    Raises:
        ConfigurationError: One of them is an option of a client, or nothing that JSON can carry.
    """
    for name, value in fields.items():
        if name in _MEANT:
            raise ConfigurationError(
                f"{name!r} is no field of a request of its own; use {_MEANT[name]}"
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{name} is {value!r}; expected what JSON can carry ({error})"
            ) from None
    return dict(fields)


def _own(extra: Mapping[str, Json], can: Capabilities, *, with_tools: bool) -> dict[str, Json]:
    """The caller's own fields as far as they are taken; a reply's bound under the name that is."""
    own: dict[str, Json] = {}
    for name, value in extra.items():
        if name in _ABOUT_TOOLS and not with_tools:
            continue
        if name in _LENGTH_FIELDS and name in can.without:
            own[can.length_field] = value
        elif name not in can.without:
            own[name] = value
    if with_tools and not can.reasons_with_tools:
        own["reasoning_effort"] = "none"
    return own


def lowered(
    can: Capabilities, ask: AskModel, said: str, extra: Iterable[str] = (), *, stream: bool
) -> Capabilities | None:
    """The next form to ask in, after the endpoint refused a request.

    Args:
        can: The form that was refused.
        ask: The request.
        said: What the endpoint said.
        extra: Names of the further fields.
        stream: Whether the request was for a stream.

    Returns:
        A form with one thing less, or None where nothing is left to be given up.
    """
    if wording.needs_other_api(said):
        return None
    most = wording.most_images(said) if images_in(ask.messages) else None
    if most is not None and (can.images is None or most < can.images):
        return replace(can, images=most)
    less = shorter(can, ask, said) or _in_dialect(can, said)
    if less is not None:
        return less
    if stream and can.stream_options and "stream_options" in said:
        return replace(can, stream_options=False)
    if stream and can.stream and re.search(r"\bstream(?:ing|ed)?\b", said):
        return replace(can, stream=False)
    field = wording.refused_field(
        said, [name for name in extra if name not in {*_LENGTH_FIELDS, *can.without}]
    )
    if field is not None:
        return replace(can, without=can.without | {field})
    if ask.schema is not None and can.schema != "none":
        return replace(can, schema=_DIALECTS[_DIALECTS.index(can.schema) + 1])
    return None


def with_tools_still(
    can: Capabilities, said: str, extra: Iterable[str] = ()
) -> Capabilities | None:
    """The form in which tools are still sent, where not they but something beside them was refused; else None."""
    if wording.takes_tools_without_reasoning(said):
        return replace(can, reasons_with_tools=False) if can.reasons_with_tools else None
    field = wording.refused_field(
        said, [name for name in extra if name in _ABOUT_TOOLS - can.without]
    )
    return None if field is None else replace(can, without=can.without | {field})


def _in_dialect(can: Capabilities, said: str) -> Capabilities | None:
    """The form in which the messages are as the endpoint says that it wants them; None where that is not it."""
    if not can.thoughts and wording.wants_thoughts(said):
        return replace(can, thoughts=True)
    if can.extras != "required" and wording.wants_signatures(said):
        return replace(can, extras="required")
    if can.system and wording.takes_no_system(said):
        return replace(can, system=False)
    return None


def shorter(can: Capabilities, ask: AskModel, said: str) -> Capabilities | None:
    """The form with another name for the bound of a reply, or a lower bound; None where neither helps."""
    if ask.max_tokens is None:
        return None
    most = _bound(ask, can)
    context, prompt = wording.context_tokens(said), wording.prompt_tokens(said)
    limit = wording.most_tokens(said, most)
    if context and prompt:
        # The prompt fits and only the room for the reply does not. Half of the context leaves the conversation
        # some steps to grow before the same is said again.
        lower = min(context - prompt, max(_LEAST_ROOM, context // 2))
        fits = _LEAST_ROOM <= lower < most
        return (
            replace(can, most_tokens=lower, context_tokens=can.context_tokens or context)
            if fits
            else None
        )
    if limit:
        return (
            replace(can, most_tokens=limit) if min(_LEAST_ROOM, most - 1) <= limit < most else None
        )
    if (
        re.search(rf"\b{most}\b", said) and most // 4 >= _LEAST_ROOM
    ):  # it is about our number, and names no other
        return replace(can, most_tokens=most // 4)
    other = _LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(can.length_field)]
    if re.search(r"max_(completion_)?tokens", said) and other not in can.without:
        return replace(can, length_field=other, without=can.without | {can.length_field})
    return None


def with_room_to_think(can: Capabilities, ask: AskModel, reply: ModelReply) -> Capabilities | None:
    """The form for a model that thought until its reply was cut off; None where that is not what happened."""
    if reply.finish != "length" or reply.calls or ask.max_tokens is None or can.thinks:
        return None
    text = reply.text.lstrip()
    thought = (not text and (reply.reasoning or not reply.text)) or (
        text.startswith("<think") and "</think" not in text
    )
    roomier = replace(can, thinks=True)
    return roomier if thought and _bound(ask, roomier) > _bound(ask, can) else None


def given_up(before: Capabilities, after: Capabilities) -> str:
    """What a person should know about the step from one form to the next; empty where nothing is lost to them."""
    if after.images != before.images:
        most = f"no more than {after.images} images" if after.images else "no images"
        return f"the endpoint takes {most} in a request: the others are replaced by a line of text"
    if before.reasons_with_tools and not after.reasons_with_tools:
        return (
            "the endpoint takes tools only without reasoning: reasoning_effort='none' is sent with them "
            "(protocol='react' keeps the reasoning)"
        )
    left_out = after.without - before.without - {*_LENGTH_FIELDS}
    if left_out:
        return (
            f"the endpoint takes no {', '.join(map(repr, sorted(left_out)))}: it is asked without"
        )
    return ""
