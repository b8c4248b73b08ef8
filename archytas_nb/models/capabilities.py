"""Detects what an endpoint supports: if it rejects a request, the next form is tried.

The form that an endpoint accepted is cached until the process ends.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import (
    REFUSED,
    AskModel,
    Json,
    Message,
    ModelReply,
    Notice,
    Usage,
)
from archytas_nb.loop.model import ReplyStream
from archytas_nb.loop.reply import read_action
from archytas_nb.models import refusals
from archytas_nb.models.providers import OPENAI_URL
from archytas_nb.models.refusals import RequestError, is_image, matches

"""Yields the pieces of a reply and the retries, returns the reply."""

IMAGE_OMITTED = "[an image that this model cannot see]"
UNKNOWN_THOUGHT = "…"
"""Replaces an unknown thought, because an empty one may be treated as missing."""
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Gemini accepts this signature for calls that it did not generate itself."""
_LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")
_ABOUT_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})
"""Fields that endpoints reject in a request without tools, such as the last one of a run."""
_MIN_REPLY_TOKENS = 256
"""Minimum number of reply tokens for which a request makes sense."""
_FORM_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses with which servers reject a form; llama.cpp uses 500."""


@dataclass(slots=True)
class Capabilities:
    """What an endpoint supports, as far as known; also the form of one request."""

    schema: bool = True  # a JSON schema for the reply
    strict: bool = False  # enforced schemas of tools (Anthropic)
    tools: bool = True  # function calling
    # Whether calls were sent as such or in the text.
    calls: Literal["unknown", "native", "in_text"] = "unknown"
    stream: bool = True
    system: bool = True  # a system prompt
    length_field: str = "max_tokens"  # the field of the maximum number of reply tokens
    max_reply_tokens: int | None = None  # the endpoint's limit for it, if known
    context_tokens: int | None = None  # of a conversation and its reply, if known
    images: int | None = None  # maximum number in a request; None for no limit
    without: frozenset[str] = frozenset()  # fields that it rejects
    thinks: bool = False  # a reply contained only reasoning, so it needs more tokens
    thoughts: bool = False  # requires the model's thoughts in the history (DeepSeek, Kimi)
    reasons_with_tools: bool = True  # accepts tools without ``reasoning_effort="none"``
    # Extra fields of calls: whether they are sent back, or even required (Gemini).
    extras: Literal["unwanted", "returned", "required"] = "unwanted"

    @property
    def protocol(self) -> Literal["react", "native"]:
        """Function calling if it works, otherwise the text protocol with a schema."""
        return "native" if self.tools and self.calls != "in_text" else "react"


@functools.cache
def capabilities_of(
    base_url: str,
    model: str,  # noqa: ARG001 - the cache's key
    api: Literal["openai", "anthropic"] = "openai",
) -> Capabilities:
    """What this model supports at this endpoint; the result is shared within the process."""
    if api == "anthropic":
        only = frozenset({"max_completion_tokens"})  # there is no other name for max_tokens
        return Capabilities(extras="returned", strict=True, without=only)
    official = base_url.startswith(OPENAI_URL)
    return Capabilities(length_field="max_completion_tokens" if official else "max_tokens")


# ── the body of a request ─────────────────────────────────────────────────────────────────────────

_CLIENT_OPTIONS = frozenset({
    "default_headers", "extra_headers", "default_query", "extra_query", "extra_body", "http_client",
    "organization", "project", "api_version", "azure_endpoint", "azure_deployment", "api_base",
    "azure_ad_token", "verify", "proxies", "messages", "tools", "system",
})  # fmt: skip
"""Options of other clients, and fields that are set by us: they cannot be request fields."""


def checked_fields(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Check the user's fields of a request and return them.

    Raises:
        ConfigurationError: One of them is an option of a client, or not a JSON value.
    """
    for name, value in fields.items():
        if name in _CLIENT_OPTIONS:
            options = "headers={…}, query={…}, base_url=, or HTTPS_PROXY and SSL_CERT_FILE"
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
    if ask.max_tokens is not None and not any(field in extra for field in _LENGTH_FIELDS):
        body[form.length_field] = reply_tokens(ask, form)
    if stream and "stream_options" not in form.without:
        body["stream_options"] = {"include_usage": True}
    if ask.schema is not None and form.schema:
        schema = {"name": "action", "schema": ask.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    for name, value in extra.items():
        if name in _LENGTH_FIELDS and name in form.without:
            body[form.length_field] = value
        elif name not in form.without and (ask.tools or name not in _ABOUT_TOOLS):
            body[name] = value
    if ask.tools and not form.reasons_with_tools:
        body["reasoning_effort"] = "none"
    return body


def reply_tokens(ask: AskModel, form: Capabilities) -> int:
    """The maximum number of reply tokens, for a request that has one."""
    wanted = max(ask.max_tokens or 0, (ask.thinking_tokens or 0) if form.thinks else 0)
    return min(wanted, form.max_reply_tokens or wanted)


def _messages(ask: AskModel, form: Capabilities) -> tuple[Message, ...]:
    """The conversation in the form that the endpoint accepts; `ask.messages` is not changed."""
    messages = with_images(ask.messages, form.images)
    if form.thoughts or form.extras != "unwanted":
        messages = tuple(_with_asides(each, ask.asides, form) for each in messages)
    roles = [message["role"] for message in messages[:2]]
    if form.system or roles != ["system", "user"]:
        return messages
    system, first, *rest = messages  # prepend the system prompt to the first question
    text, content = str(system["content"]), first["content"]
    parts: Json = f"{text}\n\n{content}"
    if not isinstance(content, str):
        parts = [{"type": "text", "text": text}, *content]
    return ({**first, "content": parts}, *rest)


def _with_asides(message: Message, asides: Mapping[str, Json], form: Capabilities) -> Message:
    """A message with the extra data of its calls, as far as the endpoint requires it."""
    calls = list(message.get("tool_calls", ()))
    if form.thoughts and message["role"] == "assistant":
        known = [asides[call["id"]] for call in calls if "reasoning" in asides.get(call["id"], ())]
        thought = str(known[0]["reasoning"]) if known else UNKNOWN_THOUGHT
        message = {**message, "reasoning_content": thought}
    if form.extras == "unwanted" or not calls:
        return message
    for at, call in enumerate(calls):
        other = _UNSIGNED if form.extras == "required" and at == 0 else None
        extra = asides.get(call["id"], {}).get("extra")
        if extra is None or (isinstance(extra, dict) and "anthropic" in extra):
            extra = other  # there is none, or it is for another API
        if extra is not None:
            calls[at] = {**call, "extra_content": extra}
    return {**message, "tool_calls": calls}


def with_images(messages: Sequence[Message], most: int | None) -> tuple[Message, ...]:
    """Messages with only their last `most` images; the others are replaced by a line of text.

    If no images are allowed, the content becomes plain text: such endpoints do not accept parts.
    """
    if most is None:
        return tuple(messages)
    result: list[Message] = []
    left = most
    for message in reversed(messages):
        parts = message.get("content")
        if isinstance(parts, (list, tuple)):
            kept: list[Json] = []
            for part in reversed(parts):
                seen = not is_image(part) or left > 0
                kept.insert(0, part if seen else {"type": "text", "text": IMAGE_OMITTED})
                left -= is_image(part)
            content: Json = kept
            if not any(map(is_image, kept)) and (most == 0 or kept != list(parts)):
                content = "\n".join(str(part.get("text", "")) for part in kept)
            message = {**message, "content": content}  # noqa: PLW2901 - a copy
        result.insert(0, message)
    return tuple(result)


# ── the next form after a rejection ───────────────────────────────────────────────────────────────

_OTHER_FORMS: tuple[tuple[str, str, Any], ...] = (
    ("wants_thoughts", "thoughts", True),
    ("wants_signatures", "extras", "required"),
    ("bad_thoughts", "extras", "unwanted"),
    ("no_system", "system", False),
)
"""Patterns of error messages, and the attribute of the form that is then changed."""


def next_form(
    failed: RequestError,
    form: Capabilities,
    ask: AskModel,
    extra: Collection[str] = (),
    *,
    stream: bool,
) -> Capabilities | None:
    """The form of the next request after a failure; None if the form was not the cause.

    `extra` are the names of the user's own fields; `stream`: whether a stream was requested.
    """
    kind, status, text = failed.error.kind, failed.error.status, failed.refusal
    if kind == "no_tools":  # possibly a field that is used with tools
        if form.strict:
            return replace(form, strict=False)
        if matches("no_reasoning_with_tools", text):
            return replace(form, reasons_with_tools=False) if form.reasons_with_tools else None
        return _without(form, _ABOUT_TOOLS.intersection(extra), text)
    if kind == "overflow" or status == 402:  # the credit may still be enough for a short reply
        return with_shorter_reply(form, ask, text)
    if kind != "refused" or status not in _FORM_STATUSES or matches("other_api", text):
        return None
    return _without_rejected(form, ask, text, extra) or _without_suspected(
        form, ask, text, stream=stream
    )


def _without_rejected(
    form: Capabilities, ask: AskModel, text: str, extra: Collection[str]
) -> Capabilities | None:
    """The form without the feature that the error message names."""
    most = refusals.image_limit(text) if refusals.count_images(ask.messages) else None
    if most is not None and (form.images is None or most < form.images):
        return replace(form, images=most)
    if shorter := with_shorter_reply(form, ask, text):
        return shorter
    for what, name, value in _OTHER_FORMS:
        if getattr(form, name) != value and matches(what, text):
            return replace(form, **{name: value})
    names = [name for name in extra if name not in _LENGTH_FIELDS]
    return _without(form, [*names, "stream_options"], text)


def _without(form: Capabilities, names: Collection[str], text: str) -> Capabilities | None:
    field = refusals.refused_field(text, [name for name in names if name not in form.without])
    return replace(form, without=form.without | {field}) if field else None


def _without_suspected(
    form: Capabilities, ask: AskModel, text: str, *, stream: bool
) -> Capabilities | None:
    """The form without a feature that endpoints often do not support."""
    if stream and form.stream and re.search(r"\bstream(?:ing|ed)?\b", text):
        return replace(form, stream=False)
    if ask.schema is not None and form.schema:
        return replace(form, schema=False)
    return replace(form, strict=False) if ask.tools and form.strict else None


def with_shorter_reply(form: Capabilities, ask: AskModel, text: str) -> Capabilities | None:
    """The form with a lower limit of reply tokens, or another field for it; None if neither."""
    if ask.max_tokens is None:
        return None
    most = reply_tokens(ask, form)
    context, prompt = refusals.context_tokens(text), refusals.prompt_tokens(text)
    limit = refusals.token_limit(text, most)
    if context and prompt:
        # Only the reply does not fit. Half of the context leaves room for some more steps before
        # the same error occurs again.
        lower = min(context - prompt, max(_MIN_REPLY_TOKENS, context // 2))
        known = form.context_tokens or context
        fits = _MIN_REPLY_TOKENS <= lower < most
        return replace(form, max_reply_tokens=lower, context_tokens=known) if fits else None
    if limit:
        fits = min(_MIN_REPLY_TOKENS, most - 1) <= limit < most
        return replace(form, max_reply_tokens=limit) if fits else None
    if (
        re.search(rf"\b{most}\b", text) and most // 4 >= _MIN_REPLY_TOKENS
    ):  # the message contains our limit
        return replace(form, max_reply_tokens=most // 4)
    other = _LENGTH_FIELDS[1 - _LENGTH_FIELDS.index(form.length_field)]
    if re.search(r"max_(completion_)?tokens", text) and other not in form.without:
        return replace(form, length_field=other, without=form.without | {form.length_field})
    return None


def _lost_features(before: Capabilities, after: Capabilities) -> str:
    """A notice about the features that the next form lacks; empty if there are none."""
    if after.images != before.images:
        most = f"no more than {after.images} images" if after.images else "no images"
        return f"the endpoint accepts {most} per request: the others are replaced by a line of text"
    if before.reasons_with_tools and not after.reasons_with_tools:
        return (
            "the endpoint accepts tools only without reasoning: sending reasoning_effort='none' "
            "(protocol='react' keeps the reasoning)"
        )
    left_out = sorted(after.without - before.without - {*_LENGTH_FIELDS, "stream_options"})
    names = ", ".join(map(repr, left_out))
    return f"the endpoint does not support {names}; trying again without" if left_out else ""


# ── sending and learning from replies ─────────────────────────────────────────────────────────────


def adapt_request(
    once: Callable[[Capabilities], ReplyStream],
    ask: AskModel,
    capabilities: Capabilities,
    extra: Collection[str] = (),
    *,
    stream: bool,
) -> ReplyStream:
    """Send a request; if the endpoint rejects its form, retry with the next form.

    The form is stored in `capabilities` only after a reply, because a rejection may have another
    cause. The user's own fields, `extra`, may be omitted, with a notice. `once` sends the request
    in one form and raises `RequestError` if it fails.
    """
    form, forms, first, total_usage = capabilities, [capabilities], None, Usage()
    while True:
        try:
            reply = yield from once(form)
        except RequestError as failed:
            first = first or failed
            if failed.error.kind == "overflow":
                context = refusals.context_tokens(failed.refusal) or capabilities.context_tokens
                capabilities.context_tokens = form.context_tokens = context
            following = next_form(failed, form, ask, extra, stream=stream and form.stream)
            if following is None or following in forms:
                reason = first if failed.error.kind in ("refused", "overflow") else failed
                capabilities.tools = capabilities.tools and reason.error.kind != "no_tools"
                raise reason from None
            if lost := _lost_features(form, following):
                yield Notice("protocol", lost)
        else:
            _store_capabilities(reply, ask, form, capabilities)
            total_usage += reply.usage
            following = replace(form, thinks=True) if _reasoning_only(reply) else None
            has_room = following and reply_tokens(ask, following) > reply_tokens(ask, form)
            if ask.max_tokens is None or following is None or not has_room:
                return reply if len(forms) == 1 else replace(reply, usage=total_usage)
            cut = "the reply was truncated during reasoning; asking again with a higher limit"
            yield Notice("retry", cut)
        form = following
        forms.append(form)


def _reasoning_only(reply: ModelReply) -> bool:
    """Whether a truncated reply contains only reasoning."""
    text = reply.text.lstrip()
    is_empty = not text and (reply.reasoning or not reply.text)
    is_thought = is_empty or (text.startswith("<think") and "</think" not in text)
    return reply.finish == "length" and not reply.calls and bool(is_thought)


def _store_capabilities(
    reply: ModelReply, ask: AskModel, form: Capabilities, capabilities: Capabilities
) -> None:
    """Store the accepted form, and how the model calls tools."""
    for name in Capabilities.__slots__ if form is not capabilities else ():
        setattr(capabilities, name, getattr(form, name))
    if capabilities.extras == "unwanted" and any(call.extra is not None for call in reply.calls):
        capabilities.extras = "returned"
    if reply.calls:  # a call in the text may then be an example
        capabilities.calls = "native"
    elif ask.tools and capabilities.calls == "unknown" and reply.finish != REFUSED:
        functions = [each["function"] for each in ask.tools]
        schemas = {each["name"]: each.get("parameters") for each in functions}
        if read_action(reply.text, schemas, prose_is_answer=True, strict=True).calls:
            capabilities.calls = "in_text"
