"""What servers in the field say when they refuse → what it is a case of.

Pure: text in, judgement out. There is no standard for any of this; each pattern was seen in OpenAI, Azure, vLLM,
SGLang, llama.cpp, llama-cpp-python, Ollama, LM Studio, TGI, Mistral, Groq, xAI, DeepSeek, OpenRouter, Gemini or
Anthropic. Some servers say back the whole conversation, so only the beginning of what they say is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LOOKED_AT = 1000
"""Characters."""

_NO = (
    r"(?:not .{0,20}(?:support|permit|allow|enabl|available|implement)|"
    r"unsupported|unrecogni[sz]ed|unknown|extra|requires? )"
)


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


# ── the conversation is too long ──────────────────────────────────────────────────────────────────

_MORE = r"(?:exceed|overflow|longer|greater|larger|surpass|beyond|too (?:long|large|big|many)|reached|not enough)"
_OVERFLOW = _any(
    r"(?:context_(?:length|window)|exceed_context_size|prompt_too_long)\w*(?:exceeded|error|too_long)",
    r"prompt_too_long",
    r"maximum context",
    r"maximum (?:allowed )?(?:prompt|input|sequence|model) length",
    rf"{_MORE}.{{0,60}}\bcontext\b",
    rf"\bcontext\b.{{0,60}}{_MORE}",
    r"\b(?:prompt|input|conversation|messages) (?:is |are )?too (?:long|large)",
    r"\b(?:input|prompt|requested?) tokens? .{0,40}exceed",
    r"\b(?:input|prompt|request)\b.{0,40}exceeds? .{0,20}(?:max\w* (?:number of tokens|length)|token limit)",
    r"exceeds? .{0,20}max_(?:model_len|seq_len|input_len|num_tokens|position)",
    r"exceeded model token limit",
    r"too many tokens",
    r"`?\binputs`? (?:tokens|must have less than)",
    r"range of input length",
    r"reduce the length of the (?:messages|prompt|input)",
    r"\bmessages\W.{0,40}string too long",
)
# Waiting helps against these, and a shorter conversation does not.
_PASSING = _any(
    r"rate.?limit", r"throttl", r"per (?:second|minute|hour|day)\b", r"too many requests", r"quota"
)
_CONTEXT = _any(
    r"maximum (?:context|model|prompt|sequence|allowed input) length (?:is|of) ?(?:only )?(\d+)",
    r"maximum context length \((\d+)\)",
    r"context (?:length|size|window)(?: (?:is|of))?(?: only)? ?\(?(\d+)",
    r"\bn_ctx[\"']?[=:] ?(\d+)",
    r"too long: \d+ tokens? > (\d+) maximum",
    r"context limit: \d+ \+ \d+ > (\d+)",
    r"model token limit: (\d+)",
    r"max_new_tokens`? must be <= (\d+)",
)


def is_overflow(said: str) -> bool:
    """Whether the conversation is too long for the model."""
    said = said[:LOOKED_AT]
    return bool(_OVERFLOW.search(said)) and not _PASSING.search(said)


def context_tokens(said: str) -> int | None:
    """How many tokens a conversation may have, where a complaint about its length says so."""
    if not is_overflow(said):
        return None
    found = _CONTEXT.search(said[:LOOKED_AT])
    tokens = int(next(group for group in found.groups() if group)) if found else 0
    return tokens or None


# ── something in the request is not taken ─────────────────────────────────────────────────────────

_TOOLS = _any(
    rf"\b(?:tools?|tool_choice|tool.?(?:use|call(?:s|ing)?)|functions?(?:.?call(?:s|ing)?)?)\b.{{0,60}}{_NO}",
    rf"{_NO}.{{0,60}}\b(?:tools?|tool_choice|tool.?(?:use|calling)|function.?call(?:s|ing)?)\b",
    r"support tool use",
)
# A history that the server finds wrong is no word about whether it takes tools.
_HISTORY = _any(
    r"tool_call_id", r"'tool_calls'", r"role\W{1,3}tool", r"messages?\[", r"messages? with"
)

_REASONING_OFF = _any(rf"\btools?\b.{{0,20}}\breasoning_effort\b.{{0,20}}{_NO}")
_OTHER_API = _any(
    r"only (?:be )?(?:supported|available|used) (?:in|with|by|via|through|on) .{0,20}/?responses\b",
    r"not (?:a chat model|supported|available|allowed).{0,60}/?chat/completions",
    r"/?chat/completions.{0,20} not (?:supported|available|allowed)",
    r"chatCompletion operation does not work with",
)

_IMAGES = _any(
    r"only supported by certain models",
    r"unsupported content(?: part)?(?:\[\])?\W{0,2}type",
    r"unknown variant .?image_url",
    r"\bcontent\b.{0,60}(?:must be|should be|expected|valid) (?:a |of type )?str",
    r"input should be 'text'",
    r"cannot unmarshal array into .{0,60}content",
    r"not a (?:multi.?modal|vision)",
    r"\bmmproj\b",
    r"(?:not|n't|cannot|no endpoints found that) (?:support|accept|handle) "
    r"(?:images?|image_url|vision|multi.?modal)\b(?! (?:format|type|size|of|with|larger))",
    rf"\b(?:vision|multi.?modal)\b.{{0,40}}{_NO}",
    r"missing data required for image",
)
_IMAGE = _any(
    rf"\bimages?(?:_url| inputs?| content)?\b.{{0,40}}{_NO}", rf"{_NO}.{{0,40}}\bimages?\b"
)
# Said of one picture and not of all: another one may be taken.
_THIS_IMAGE = _any(
    r"\bimages?\b.{0,40}(?:format|type|size|large|small|decod|corrupt|invalid|dimension|pixel|base64|mime)",
    r"(?:format|type|size|decod|corrupt|invalid|download|fetch|base64|mime).{0,40}\bimages?\b",
)
_MOST_IMAGES = re.compile(r"at most (\d+) image", re.IGNORECASE)

_MODEL = _any(
    r"\bmodel\b.{0,120}(?:not (?:found|exist|available)|does not exist|unknown)",
    r"(?:model_not_found|unknown model|invalid model)",
)
_FILTER = _any(
    r"\bcontent_filter\b",
    r"content management policy",
    r"ResponsibleAIPolicy",
    r"content policy violation",
)
_KEY = _any(
    r"api.?key (?:is )?(?:not valid|invalid|not found|expired)",
    r"(?:invalid|incorrect|missing) api.?key",
)
_FORMAT = _any(r"response_format", r"json_schema", r"json_object", r"grammar", r"guided")


# What must stand in the history beside what was said.
_THOUGHTS = _any(
    r"reasoning_content\b.{0,60}\b(?:missing|required|must be)\b",
    r"\b(?:missing|requires?|required|expect(?:s|ed)?)\b.{0,60}\breasoning_content\b",
)
_SIGNATURES = _any(r"missing .{0,20}thought_?signature")
_SYSTEM = _any(
    r"system (?:role|messages?|prompts?|instructions?) (?:is |are )?not (?:supported|allowed|enabled)",
    r"not support (?:the )?(?:'system'|\"system\"|system (?:role|messages?|prompts?|instructions?))",
    r"only user and assistant roles",
    r"developer instruction is not enabled",
)


def wants_thoughts(said: str) -> bool:
    """Whether a history without the model's thoughts is refused."""
    return bool(_THOUGHTS.search(said[:LOOKED_AT]))


def wants_signatures(said: str) -> bool:
    """Whether a history is refused whose calls are not signed as the endpoint signs them."""
    return bool(_SIGNATURES.search(said[:LOOKED_AT]))


def takes_no_system(said: str) -> bool:
    """Whether a system prompt is refused."""
    return bool(_SYSTEM.search(said[:LOOKED_AT]))


def takes_no_tools(said: str) -> bool:
    """Whether function-calling tools are refused; ask only where there were some."""
    said = said[:LOOKED_AT]
    return bool(_TOOLS.search(said)) and not _HISTORY.search(said)


def takes_tools_without_reasoning(said: str) -> bool:
    """Whether tools are taken only with ``reasoning_effort="none"`` (OpenAI from gpt-5.4 on)."""
    return bool(_REASONING_OFF.search(said[:LOOKED_AT]))


def needs_other_api(said: str) -> bool:
    """Whether the model is served, but not by chat completions."""
    said = said[:LOOKED_AT]
    return bool(_OTHER_API.search(said)) and not _REASONING_OFF.search(said)


def most_images(said: str) -> int | None:
    """How many images are taken in a request, 0 for none; None where nothing is said of it.

    Ask only where there were some.
    """
    said = said[:LOOKED_AT]
    if limit := _MOST_IMAGES.search(said):
        return int(limit[1])
    refused = _IMAGES.search(said) or (_IMAGE.search(said) and not _THIS_IMAGE.search(said))
    return 0 if refused else None


def is_about_this_image(said: str) -> bool:
    """Whether one picture is refused, and another one may be taken."""
    said = said[:LOOKED_AT]
    return (
        bool(_THIS_IMAGE.search(said))
        and not _IMAGES.search(said)
        and not _MOST_IMAGES.search(said)
    )


def is_filtered(said: str) -> bool:
    """Whether a content filter refuses what was sent."""
    return bool(_FILTER.search(said[:LOOKED_AT]))


def refused_field(said: str, names: Iterable[str]) -> str | None:
    """The first of these fields that a server says it does not take; None where it names none of them."""
    said = said[:LOOKED_AT]
    for name in names:
        field = rf"(?<![\w.]){re.escape(name)}(?!\w)"
        if re.search(
            rf"{field}.{{0,60}}{_NO}|{_NO}.{{0,60}}{field}", said, re.IGNORECASE | re.DOTALL
        ):
            return name
    return None


def knows_no_model(said: str) -> bool:
    """Whether the model's name is not known."""
    return bool(_MODEL.search(said[:LOOKED_AT]))


def rejects_key(said: str) -> bool:
    """Whether the API key is rejected, where the status does not say so (Gemini's is 400)."""
    return bool(_KEY.search(said[:LOOKED_AT]))


def is_about_form(said: str) -> bool:
    """Whether the form of the request, or the form that was wanted of the reply, is refused."""
    return bool(_FORMAT.search(said[:LOOKED_AT])) or takes_no_system(said)


# ── the room for a reply ──────────────────────────────────────────────────────────────────────────

_MOST = _any(
    r"at most (\d+) (?:completion |output )?tokens",
    r"max[_ ](?:completion_)?tokens`? must be less than or equal to `?(\d+)",
    r"valid range of max_tokens is \[1, (\d+)\]",
    r"max_tokens: \d+ > (\d+)",
    r"exceeds the model limit of (\d+)",
    r"can only afford (\d+)",
)
_BELOW = re.compile(r"from 1 \(inclusive\) to (\d+) \(exclusive\)")
_IN_A_MINUTE = re.compile(r"\bLimit:? (\d+), Requested:? (\d+)")
_PROMPT = _any(
    r"(\d+) (?:in the messages|in your prompt|input tokens|of text input|`?inputs`? tokens)",
    r"\bn_prompt_tokens[\"']?[=:] ?(\d+)",
)


def most_tokens(said: str, asked: int = 0) -> int | None:
    """The highest bound on a reply's length that is taken, where a refusal names it.

    Args:
        said: The refusal.
        asked: The bound that was refused: some count it together with the prompt.
    """
    said = said[:LOOKED_AT]
    if found := _BELOW.search(said):
        return int(found[1]) - 1
    if found := _IN_A_MINUTE.search(said):
        return int(found[1]) - (int(found[2]) - asked)
    found = _MOST.search(said)
    return int(next(group for group in found.groups() if group)) if found else None


def prompt_tokens(said: str) -> int | None:
    """How many tokens the prompt had, where a refusal says so."""
    found = _PROMPT.search(said[:LOOKED_AT])
    return int(next(group for group in found.groups() if group)) if found else None
