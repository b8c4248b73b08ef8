"""Sends a request in a form that the endpoint accepts: after a rejection, the next form is tried.

The form that was accepted is stored in the endpoint's `Capabilities`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import REFUSED, AskModel, ModelReply, Notice, Usage
from archytas_nb.loop.model import ReplyStream
from archytas_nb.loop.reply import read_action
from archytas_nb.models import refusals
from archytas_nb.models.body import ABOUT_TOOLS, LENGTH_FIELDS, reply_tokens
from archytas_nb.models.capabilities import Capabilities
from archytas_nb.models.refusals import matches

_MIN_REPLY_TOKENS = 256
"""Minimum number of reply tokens for which a request makes sense."""
_FORM_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses with which servers reject a form; llama.cpp uses 500."""
_OTHER_FORMS: tuple[tuple[str, str, Any], ...] = (
    ("wants_thoughts", "thoughts", True),
    ("wants_signatures", "extras", "required"),
    ("bad_thoughts", "extras", "unwanted"),
    ("no_system", "system", False),
)
"""Patterns of error messages, and the attribute of the form that is then changed."""


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
    in one form and raises `ModelError` if it fails.
    """
    form = capabilities
    tried = [form]
    first_failure: ModelError | None = None
    usage = Usage()
    while True:
        try:
            reply = yield from once(form)
        except ModelError as failed:
            first_failure = first_failure or failed
            if failed.kind == "overflow":
                context = refusals.context_tokens(failed.refusal) or capabilities.context_tokens
                capabilities.context_tokens = form.context_tokens = context
            following = next_form(failed, form, ask, extra, stream=stream and form.stream)
            if following is None or following in tried:
                # Later forms lack features, so the first rejection is the one that says why.
                reason = failed
                if failed.kind in ("refused", "overflow"):
                    reason = first_failure
                capabilities.tools = capabilities.tools and reason.kind != "no_tools"
                raise reason from None
            if lost := _lost_features(form, following):
                yield Notice("protocol", lost)
        else:
            _store_capabilities(reply, ask, form, capabilities)
            usage += reply.usage
            following = _form_after_reasoning(reply, ask, form)
            if following is None:
                if len(tried) == 1:
                    return reply
                return replace(reply, usage=usage)
            cut = "the reply was truncated during reasoning; asking again with a higher limit"
            yield Notice("retry", cut)
        form = following
        tried.append(form)


def _form_after_reasoning(
    reply: ModelReply, ask: AskModel, form: Capabilities
) -> Capabilities | None:
    """The form with room for an answer after a reply of only reasoning; None if it is the same."""
    if ask.max_tokens is None or not _reasoning_only(reply):
        return None
    longer = replace(form, thinks=True)
    if reply_tokens(ask, longer) > reply_tokens(ask, form):
        return longer
    return None


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
    for name in Capabilities.__slots__:
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


# ── the next form after a rejection ───────────────────────────────────────────────────────────────


def next_form(
    failed: ModelError,
    form: Capabilities,
    ask: AskModel,
    extra: Collection[str] = (),
    *,
    stream: bool,
) -> Capabilities | None:
    """The form of the next request after a failure; None if the form was not the cause.

    `extra` are the names of the user's own fields; `stream`: whether a stream was requested.
    """
    kind = failed.kind
    status = failed.status
    text = failed.refusal
    if kind == "no_tools":  # possibly a field that is used with tools
        if form.strict:
            return replace(form, strict=False)
        if matches("no_reasoning_with_tools", text):
            if form.reasons_with_tools:
                return replace(form, reasons_with_tools=False)
            return None
        return _without(form, ABOUT_TOOLS.intersection(extra), text)
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
    most = None
    if refusals.count_images(ask.messages):
        most = refusals.image_limit(text)
    if most is not None and (form.images is None or most < form.images):
        return replace(form, images=most)
    if shorter := with_shorter_reply(form, ask, text):
        return shorter
    for what, name, value in _OTHER_FORMS:
        if getattr(form, name) != value and matches(what, text):
            return replace(form, **{name: value})
    names = [name for name in extra if name not in LENGTH_FIELDS]
    return _without(form, [*names, "stream_options"], text)


def _without(form: Capabilities, names: Collection[str], text: str) -> Capabilities | None:
    field = refusals.refused_field(text, [name for name in names if name not in form.without])
    if field:
        return replace(form, without=form.without | {field})
    return None


def _without_suspected(
    form: Capabilities, ask: AskModel, text: str, *, stream: bool
) -> Capabilities | None:
    """The form without a feature that endpoints often do not support."""
    if stream and form.stream and re.search(r"\bstream(?:ing|ed)?\b", text):
        return replace(form, stream=False)
    if ask.schema is not None and form.schema:
        return replace(form, schema=False)
    if ask.tools and form.strict:
        return replace(form, strict=False)
    return None


def with_shorter_reply(form: Capabilities, ask: AskModel, text: str) -> Capabilities | None:
    """The form with a lower limit of reply tokens, or another field for it; None if neither."""
    if ask.max_tokens is None:
        return None
    most = reply_tokens(ask, form)
    context = refusals.context_tokens(text)
    prompt = refusals.prompt_tokens(text)
    limit = refusals.token_limit(text, most)
    if context and prompt:
        # Only the reply does not fit. Half of the context leaves room for some more steps before
        # the same error occurs again.
        lower = min(context - prompt, max(_MIN_REPLY_TOKENS, context // 2))
        known = form.context_tokens or context
        fits = _MIN_REPLY_TOKENS <= lower < most
        if fits:
            return replace(form, max_reply_tokens=lower, context_tokens=known)
        return None
    if limit:
        fits = min(_MIN_REPLY_TOKENS, most - 1) <= limit < most
        if fits:
            return replace(form, max_reply_tokens=limit)
        return None
    if (
        re.search(rf"\b{most}\b", text) and most // 4 >= _MIN_REPLY_TOKENS
    ):  # the message contains our limit
        return replace(form, max_reply_tokens=most // 4)
    other = LENGTH_FIELDS[1 - LENGTH_FIELDS.index(form.length_field)]
    if re.search(r"max_(completion_)?tokens", text) and other not in form.without:
        return replace(form, length_field=other, without=form.without | {form.length_field})
    return None


def _lost_features(before: Capabilities, after: Capabilities) -> str:
    """A notice about the features that the next form lacks; empty if there are none."""
    if after.images != before.images:
        most = "no images"
        if after.images:
            most = f"no more than {after.images} images"
        return f"the endpoint accepts {most} per request: the others are replaced by a line of text"
    if before.reasons_with_tools and not after.reasons_with_tools:
        return (
            "the endpoint accepts tools only without reasoning: sending reasoning_effort='none' "
            "(protocol='react' keeps the reasoning)"
        )
    left_out = sorted(after.without - before.without - {*LENGTH_FIELDS, "stream_options"})
    names = ", ".join(map(repr, left_out))
    if left_out:
        return f"the endpoint does not support {names}; trying again without"
    return ""
