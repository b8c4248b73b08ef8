"""The body of a request for a chat completion, in a form that the endpoint accepts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from operator import is_
from typing import Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, Json, Message
from archytas_nb.models.capabilities import Capabilities
from archytas_nb.models.kept import ITEMS, overlaid
from archytas_nb.models.refusals import image_digest, is_image

IMAGE_OMITTED = "[an image that this model cannot see]"
UNKNOWN_THOUGHT = "…"
"""Replaces an unknown thought, because an empty one may be treated as missing."""
LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")
OWN_FIELDS = ("include", "store", "reasoning.summary", "output.images")
"""Our own fields of the Responses API, and parts of fields, that are omitted if rejected."""
ABOUT_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
"""Fields that endpoints reject in a request without tools, such as the last one of a run."""
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini accepts this signature for calls that it did not generate itself."""
_CLIENT_OPTIONS = frozenset({
    "default_headers", "extra_headers", "default_query", "extra_query", "extra_body", "http_client",
    "organization", "project", "api_version", "azure_endpoint", "azure_deployment", "api_base",
    "azure_ad_token", "verify", "proxies", "messages", "tools", "system", "request",
})  # fmt: skip
"""Options of other clients, fields that are set by us, and the setting of all fields."""


def checked_fields(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Check the user's fields of a request and return them.

    Raises:
        ConfigurationError: One of them is an option of a client, or not a JSON value.
    """
    for name, value in fields.items():
        if name in _CLIENT_OPTIONS:
            options = "headers={…}, query={…}, base_url=, or HTTPS_PROXY and SSL_CERT_FILE"
            if name == "request":
                options = "an argument for each field, such as temperature=0"
            if name in ("messages", "tools", "system"):
                options = "instructions= and tools= of the agent"
            raise ConfigurationError(f"{name!r} is not a request field; use {options}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            expected = f"expected a JSON value ({error})"
            raise ConfigurationError(f"{name} is {value!r}; {expected}") from None
    return dict(fields)


def body_of(
    ask: AskModel, form: Capabilities, extra: Mapping[str, Json], *, stream: bool
) -> dict[str, Json]:
    """The fields of a request except the model; `extra` are the user's, which take precedence."""
    body: dict[str, Json] = {"messages": _messages(ask, form)}
    if ask.tools:
        body["tools"] = ask.tools
    is_limited = ask.max_tokens is not None and form.has_limit
    if is_limited and not any(field in extra for field in LENGTH_FIELDS):
        body[form.length_field] = reply_tokens(ask, form)
    if stream and "stream_options" not in form.without:
        body["stream_options"] = {"include_usage": True}
    body |= _constraints(ask, form)
    # A field of the user takes precedence, but under the name, and up to the limit, that the
    # endpoint accepts.
    for name, value in extra.items():
        if name in LENGTH_FIELDS:
            if form.has_limit:
                field = form.length_field if name in form.without else name
                body[field] = lowered(value, form.max_reply_tokens)
        elif name not in form.without and is_wanted(name, value, ask):
            body[name] = form.effort(value) if name == "reasoning_effort" else value
    if ask.tools and not form.reasons_with_tools:
        body["reasoning_effort"] = "none"
    return body


def _constraints(ask: AskModel, form: Capabilities) -> dict[str, Json]:
    """The fields that constrain the text of the reply."""
    fields: dict[str, Json] = {}
    if ask.stop and "stop" not in form.without:
        fields["stop"] = list(ask.stop)
    if ask.alternatives and "logprobs" not in form.without:
        fields |= {"logprobs": True, "top_logprobs": ask.alternatives}
    if ask.grammar and form.grammars:  # an endpoint that gets both would use only one
        fields["grammar"] = ask.grammar
    elif ask.schema is not None and form.schema:
        schema = {"name": "action", "schema": ask.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def continues(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether a list begins with all items of an earlier one: the same objects, in their order."""
    return len(now) >= len(before) and all(map(is_, now, before))


def is_wanted(name: str, value: Json, ask: AskModel) -> bool:
    """Whether a field of the user is sent with this request."""
    if name == "tool_choice" and not may_choose(ask, value):
        return False
    return bool(ask.tools) or name not in ABOUT_TOOLS


def may_choose(ask: AskModel, choice: Json) -> bool:
    """Whether a tool choice is sent: one that forces a call only with the first step of a run.

    With each request, the model could never answer.
    """
    kind = choice.get("type") if isinstance(choice, dict) else choice
    return ask.step <= 1 or kind in (None, "auto", "none")


def lowered(value: Json, most: int | None) -> Json:
    """The user's limit of a reply, which is not above the endpoint's."""
    if most is None or not isinstance(value, int):
        return value
    return min(value, most)


def reply_tokens(ask: AskModel, form: Capabilities) -> int:
    """The maximum number of reply tokens, for a request that has one."""
    wanted = ask.max_tokens or 0
    if form.thinks:
        wanted = max(wanted, ask.thinking_tokens or 0)
    return min(wanted, form.max_reply_tokens or wanted)


def _messages(ask: AskModel, form: Capabilities) -> tuple[Message, ...]:
    """The conversation in the form that the endpoint accepts; `ask.messages` is not changed."""
    messages = with_images(ask.messages, form.images, form.unseen)
    if ask.provider_metadata or form.thoughts or form.extras == "required":
        messages = tuple(
            _with_aside(each, ask.provider_metadata.get(at), form)
            for at, each in enumerate(messages)
        )
    if not form.null_content:
        messages = tuple({**each, "content": each.get("content") or ""} for each in messages)
    if not form.system:
        messages = without_system(messages)
    return messages if form.free_turns else with_replies_between(messages)


def with_replies_between(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation with a reply before each message of the user that is out of turn."""
    found: list[Message] = []
    for message in messages:
        if is_out_of_turn(message, found[-1] if found else None):
            found.append({"role": "assistant", "content": _BETWEEN})
        found.append(message)
    return tuple(found)


def is_out_of_turn(message: Message, before: Message | None) -> bool:
    """Whether a message of the user does not follow a reply."""
    return message["role"] == "user" and before is not None and before["role"] in ("tool", "user")


def has_images(message: Message) -> bool:
    """Whether a message has images."""
    content = message.get("content")
    return isinstance(content, (list, tuple)) and any(map(is_image, content))


_BETWEEN = "(go on)"


def without_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The conversation with the system prompt at the beginning of the first question."""
    if [message["role"] for message in messages[:2]] != ["system", "user"]:
        return messages
    system, first, *rest = messages
    text = str(system["content"])
    content = first["content"]
    parts: Json = f"{text}\n\n{content}"
    if not isinstance(content, str):
        parts = [{"type": "text", "text": text}, *content]
    return ({**first, "content": parts}, *rest)


def _with_aside(message: Message, aside: Json, form: Capabilities) -> Message:
    """A message with foreign data that came with it, if the endpoint accepts such data."""
    if message["role"] != "assistant":
        return message
    if form.thoughts:
        known = aside or {}
        thought = known.get("reasoning_content") or known.get("reasoning") or UNKNOWN_THOUGHT
        message = {**message, "reasoning_content": thought}
    if aside and form.extras != "unwanted":
        message = overlaid(message, aside, form.without | {ITEMS})
    calls = message.get("tool_calls")
    if calls and form.extras == "required" and "extra_content" not in calls[0]:
        message = {**message, "tool_calls": [{**calls[0], "extra_content": _UNSIGNED}, *calls[1:]]}
    return message


def returned_fields(ask: AskModel) -> frozenset[str]:
    """The names of all fields of earlier replies that go back with a request."""
    names: set[str] = set()
    for aside in ask.provider_metadata.values():
        names |= aside.keys() - {"tool_calls"}
        for call in aside.get("tool_calls", ()):
            names |= call.keys() - {"function"} | call.get("function", {}).keys()
    return frozenset(names)


def with_images(
    messages: Sequence[Message], most: int | None, unseen: Collection[str] = ()
) -> tuple[Message, ...]:
    """Messages with only their last `most` images; the others are replaced by a line of text.

    So are those with the digests in `unseen`. Where no image is left, the content becomes plain
    text: such endpoints do not accept parts.
    """
    if most is None and not unseen:
        return tuple(messages)
    shown = [
        (number, place)
        for number, message in enumerate(messages)
        for place, part in enumerate(_parts(message))
        if is_image(part) and not (unseen and image_digest(part) in unseen)
    ]
    last = shown if most is None else shown[max(0, len(shown) - most) :]
    return tuple(
        _with_images_at(message, {place for each, place in last if each == number}, most)
        for number, message in enumerate(messages)
    )


def _parts(message: Message) -> Sequence[Json]:
    """The parts of the content of a message; none if it is a text."""
    content = message.get("content")
    return content if isinstance(content, (list, tuple)) else ()


def _with_images_at(message: Message, places: Collection[int], most: int | None) -> Message:
    """A message with only those of its images that are at these places."""
    parts = message.get("content")
    if not isinstance(parts, (list, tuple)):
        return message
    omitted = {"type": "text", "text": IMAGE_OMITTED}
    kept = [
        omitted if is_image(part) and place not in places else part
        for place, part in enumerate(parts)
    ]
    if not places and (most == 0 or kept != list(parts)):
        return {**message, "content": "\n".join(str(part.get("text", "")) for part in kept)}
    return {**message, "content": kept}
