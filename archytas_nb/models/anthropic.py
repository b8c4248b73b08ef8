"""Models of Anthropic's own API; the only module that imports anthropic, on first use."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError
from archytas_nb.hints import hinted
from archytas_nb.loop.events import AskModel, Delta, Json, Message, ModelReply, Usage, WireCall
from archytas_nb.models.batches import AnthropicBatches
from archytas_nb.models.body import may_choose, reply_tokens, with_images
from archytas_nb.models.capabilities import Api, Capabilities
from archytas_nb.models.completion import (
    NotACompletion,
    ReplyBuilder,
    ServerError,
    cost_of,
    finish_of,
    mapping,
    string,
)
from archytas_nb.models.providers import ANTHROPIC_URL
from archytas_nb.models.remote import Post, RemoteModel
from archytas_nb.models.usage import Tokens

_DEFAULT_TOKENS = 4096
"""Maximum length of a reply if none is given: the API requires one, and all models accept this."""
_CACHED = {"type": "ephemeral"}
EFFORT = "effort"
"""The field of the setting `effort`, which is sent as thinking and as a part of other fields."""
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576}
"""Tokens for thinking, for models that do not choose themselves; 32,768 for the highest effort."""
KEY = "anthropic"
"""The key under which the blocks before a call, such as thinking, are stored with the call."""


@hinted
class AnthropicModel(RemoteModel):
    """A model of Anthropic's Messages API; requires the extra ``anthropic``.

    The conversation is cached at the endpoint, thinking is kept between the calls of a run, and
    tools are strict if their schemas allow it.

    Args:
        model: The model's name.
        base_url: The base URL of the API, without ``/v1``; None for ANTHROPIC_BASE_URL, or
            Anthropic's own if that is not set.
        api_key: The API key; None for ANTHROPIC_API_KEY.
        timeout: Seconds without data after which a request fails; None for 300.
        max_retries: Maximum number of retries after a temporary failure (429, 529, no connection);
            None for 3.
        stream: Whether replies are streamed. An interrupt cancels a streamed request at the server.
        headers: Additional headers of every request (``{"anthropic-beta": "…"}``); they override
            the client's ``anthropic-version``.
        query: Query parameters of every request.
        request: Additional fields of every request (``thinking={"type": "adaptive"}``).
            ``cache_control`` is used for every cache breakpoint; None turns caching off.

    Raises:
        ConfigurationError: The package is not installed, or the URL, the key, a limit or a field
            cannot be used.
    """

    client = "Anthropic"
    api: Api = "anthropic"
    lacks = frozenset({
        "turns",
        "api", "stream_options", "system", "null", "reasoning", "no limit", "max_tokens",
        "max_completion_tokens",
    })  # fmt: skip
    default_url = ANTHROPIC_URL
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"
    reads_settings = False
    path = ("/messages", "/v1")
    alternatives = ("cache_control",)
    effort_field = EFFORT
    listing = MappingProxyType({"limit": 1000})
    is_small = False

    def _package(self) -> Any:
        try:
            import anthropic
        except ImportError as error:
            raise ConfigurationError(
                f"Anthropic's models need the package 'anthropic' ({error}): "
                f"{extras.install('anthropic')}"
            ) from None
        return anthropic

    def _key_header(self) -> dict[str, str]:
        if self._key:
            return {"X-Api-Key": self._key}
        return {}

    def batches(self) -> AnthropicBatches:
        """The batch API of the endpoint; whether it has one shows with the first request."""
        return AnthropicBatches(self, _STATUS)

    def body(self, ask: AskModel) -> dict[str, Json]:
        """The body of a request, without features that the endpoint is known to reject."""
        return {"model": self.name, **body_of(ask, self._capabilities(self.name), self.request)}

    def _post(self, name: str, ask: AskModel, form: Capabilities, *, stream: bool) -> Post:
        body = {"model": name, "stream": stream, **body_of(ask, form, self.request)}
        return Post("/v1/messages", body)

    def _new_builder(self, form: Capabilities) -> ReplyBuilder:  # noqa: ARG002 - there is one
        return AnthropicBuilder(partial(cost_of, self.base_url, self.name))


# ── the body of a request ─────────────────────────────────────────────────────────────────────────


def body_of(ask: AskModel, form: Capabilities, extra: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of a request except the model; the user's `extra` fields override the others."""
    system, turns = _conversation(ask, form)
    extra = {name: value for name, value in extra.items() if name not in form.without}
    extra = _thinking(extra.pop(EFFORT, None), form) | extra
    marker = extra.pop("cache_control", _CACHED)
    if not ask.tools or not may_choose(ask, extra.get("tool_choice")):
        extra.pop("tool_choice", None)
    if "budget_tokens" in (extra.get("thinking") or ()) and not _may_think(turns):
        extra.pop("thinking")
    body: dict[str, Json] = {"max_tokens": _max_tokens(ask, form, extra), "messages": turns}
    if system:
        body["system"] = [{"type": "text", "text": system}]
    if ask.tools:
        body["tools"] = _tools(ask.tools, strict=form.strict)
    if marker and "cache_control" not in form.without:
        _add_cache_breakpoints(body, marker)
    body |= extra
    if ask.schema is not None and form.schema:
        schema = _enforceable(ask.schema)
        if schema is not None:
            format_ = {"type": "json_schema", "schema": schema}
            body["output_config"] = {**(extra.get("output_config") or {}), "format": format_}
    return body


def _thinking(effort: Json, form: Capabilities) -> dict[str, Json]:
    """The fields for an effort: thinking of the model's choice, or else with a budget."""
    if effort is None:
        return {}
    effort = form.effort(effort)
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if "adaptive" in form.without:
        budget = _BUDGETS.get(effort, 32_768)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    level = "low" if effort == "minimal" else effort
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": level}}


def _max_tokens(ask: AskModel, form: Capabilities, extra: Mapping[str, Json]) -> int:
    """The maximum length of a reply, plus the thinking budget if there is one."""
    wanted = _DEFAULT_TOKENS
    if ask.max_tokens is not None:
        wanted = reply_tokens(ask, form)
    thinking = extra.get("thinking")
    if isinstance(thinking, dict):
        budget = thinking.get("budget_tokens")
        if isinstance(budget, int):
            wanted += budget
    return min(wanted, form.max_reply_tokens or wanted)


def _conversation(ask: AskModel, form: Capabilities) -> tuple[str, list[Json]]:
    """The system prompt, and alternating turns: consecutive messages of a role are merged."""
    messages = with_images(ask.messages, form.images, form.unseen)
    system: list[str] = []
    turns: list[Json] = []
    for at, message in enumerate(messages):
        if message["role"] == "system":
            system.append(str(message["content"]))
            continue
        role = "user"
        if message["role"] == "assistant":
            role = "assistant"
        aside = ask.provider_metadata.get(at) if form.extras != "unwanted" else None
        if not (blocks := _blocks(message, aside or {})):
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return "\n\n".join(system), turns


def _blocks(message: Message, aside: Mapping[str, Json]) -> list[Json]:
    """The blocks of a message, without empty texts, which the API rejects."""
    content = message.get("content")
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
        if str(content).strip():
            result["content"] = content
        return [result]
    blocks = list(_parts(content))
    calls = message.get("tool_calls", ())
    kept = _kept_before(calls, aside)
    if any(block["type"] == "text" for block in itertools.chain(*kept)):
        blocks = []
    elif kept:
        # The thinking precedes the text.
        blocks = [*kept[0], *blocks]
        kept[0] = []
    for call, before in zip(calls, kept, strict=True):
        function = call["function"]
        use = {"type": "tool_use", "id": call["id"], "name": function["name"]}
        blocks += [*before, {**use, "input": json.loads(function["arguments"])}]
    return blocks


def _kept_before(calls: Sequence[Json], aside: Mapping[str, Json]) -> list[list[Json]]:
    """The blocks of the reply, verbatim, before each of its calls: thinking, and text."""
    asides = [*aside.get("tool_calls", ())][: len(calls)]
    kept = [list(each.get(KEY) or ()) for each in asides]
    return kept + [[] for _ in calls[len(kept) :]]


def _parts(content: Json) -> Iterator[Json]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content or ():
        if part["type"] == "image_url":
            yield {"type": "image", "source": _source(part["image_url"]["url"])}
        elif part["text"].strip():
            yield {"type": "text", "text": part["text"]}


def _source(url: str) -> Json:
    """The source of an image: its data, or its address."""
    media_type, is_data, data = url.removeprefix("data:").partition(";base64,")
    if is_data:
        return {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "url", "url": url}


def _may_think(turns: Sequence[Json]) -> bool:
    """Whether thinking may be enabled: not if the current turn started without it."""
    first: Json = None
    for turn in reversed(turns):
        if turn["role"] == "assistant":
            first = turn["content"][0]["type"]
        elif turn["content"][0]["type"] != "tool_result":
            break
    return first in (None, "thinking", "redacted_thinking")


def _add_cache_breakpoints(body: dict[str, Json], marker: Json) -> None:
    """Add cache breakpoints after the tools, the system prompt and the last two user turns.

    The previous request ended at the second to last turn; the endpoint searches for a cached prefix
    at most 20 blocks before a breakpoint.
    """
    prefix = body.get("system") or body.get("tools") or []
    ends = [turn["content"] for turn in body["messages"] if turn["role"] == "user"][-2:]
    for blocks in (prefix, *ends):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": marker}


# ── enforced schemas ──────────────────────────────────────────────────────────────────────────────

_MAX_STRICT = 20
_MAX_OPTIONAL = 24
_MAX_UNIONS = 16
"""Limits of a request: strict tools, and their optional and union parameters in total."""
_KEYWORDS = frozenset({
    "type", "required", "additionalProperties", "enum", "const", "$ref", "default", "description",
    "title",
})  # fmt: skip
_TYPE_KEYWORDS = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref")


def _tools(specs: Sequence[Json], *, strict: bool) -> list[Json]:
    """Tools in Anthropic's format; they are strict if their schemas and the limits allow it."""
    tools = []
    count = 0
    optional = 0
    unions = 0
    for spec in specs:
        function = spec["function"]
        schema = function.get("parameters") or {"type": "object"}
        tool = {"name": function["name"], "input_schema": schema}
        if description := function.get("description"):
            tool["description"] = description
        if strict and count < _MAX_STRICT and _enforceable(schema) == schema:
            n, m = _optional_and_unions(schema)
            if optional + n <= _MAX_OPTIONAL and unions + m <= _MAX_UNIONS:
                tool["strict"] = True
                count += 1
                optional += n
                unions += m
        tools.append(tool)
    return tools


def _enforceable(schema: Json) -> Json:
    """A schema reduced to keywords that can be enforced; None if it allows any value."""
    if not isinstance(schema, dict) or not any(name in schema for name in _TYPE_KEYWORDS):
        return None
    kind = schema.get("type")
    is_open = kind == "object" and schema.get("additionalProperties") is not False
    if is_open or (kind == "array" and "items" not in schema):
        return None
    found: dict[str, Json] = {}
    for name, value in schema.items():
        parts: Any = ()
        if name in ("properties", "$defs"):
            found[name] = {key: _enforceable(each) for key, each in value.items()}
            parts = found[name].values()
        elif name in ("anyOf", "oneOf", "allOf"):
            parts = found[name.replace("one", "any")] = [_enforceable(each) for each in value]
        elif name == "items":
            parts = [found.setdefault(name, _enforceable(value))]
        elif name in _KEYWORDS:
            found[name] = value
        if None in parts:
            return None
    return found


def _optional_and_unions(schema: Json) -> tuple[int, int]:
    """How many optional parameters and how many unions a schema has."""
    if isinstance(schema, list):
        pairs = [_optional_and_unions(each) for each in schema]
    elif isinstance(schema, dict):
        required = schema.get("required", ())
        names = schema.get("properties", {})
        is_union = "anyOf" in schema or isinstance(schema.get("type"), list)
        pairs = [(sum(name not in required for name in names), int(is_union))]
        inner = [each for key, each in schema.items() if key not in ("enum", "default")]
        pairs += map(_optional_and_unions, inner)
    else:
        return 0, 0
    return sum(n for n, _ in pairs), sum(m for _, m in pairs)


# ── replies ───────────────────────────────────────────────────────────────────────────────────────

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of an error in a stream, which contains only its type."""


@dataclass(slots=True)
class _Block:
    """One block of a reply in progress: its start, and the pieces of each field."""

    begin: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return "".join([string(self.begin.get(name)), *self.pieces.get(name, ())])

    def arguments(self) -> str:
        streamed = "".join(self.pieces.get("partial_json", ()))
        return streamed or json.dumps(self.begin.get("input") or {}, ensure_ascii=False)

    def verbatim(self) -> Json:
        """The block to send back to the model, as it came; None if it is an empty text."""
        if self.begin.get("type") == "text":
            text = self.text("text")
            return {"type": "text", "text": text} if text.strip() else None
        block = {**self.begin, **{name: self.text(name) for name in self.pieces}}
        if "partial_json" in self.pieces:
            with suppress(ValueError):
                block["input"] = json.loads(block.pop("partial_json"))
        return block


class AnthropicBuilder(ReplyBuilder):
    """A reply while it is received."""

    def __init__(self, cost: Callable[..., float | None]) -> None:
        """`cost` is `cost_of` the model."""
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._tokens = Tokens()
        self._cost = cost

    def add(self, part: Any, text: str) -> list[Delta]:
        """Add an event of a stream, or a complete message; return the pieces to display."""
        if error := mapping(part).get("error"):
            status = _STATUS.get(str(mapping(error).get("type")), 0)
            raise ServerError.from_object(error, text, status)
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise NotACompletion(text)
        self.has_begun = True
        index = part.get("index")
        match part["type"]:
            case "message":
                self._head(part)
                return self._begin_all(part.get("content"))
            case "message_start":
                self._head(mapping(part.get("message")))
            case "content_block_start" if isinstance(index, int):
                return self._begin(index, part.get("content_block"))
            case "content_block_delta" if isinstance(index, int) and index in self._blocks:
                return self._grow(self._blocks[index], mapping(part.get("delta")))
            case "message_delta":
                self._end({**part, **mapping(part.get("delta"))})
        return []

    def _head(self, message: dict[str, Any]) -> None:
        self.has_choice = True
        self.model = string(message.get("model"))
        self._end(message)

    def _end(self, part: dict[str, Any]) -> None:
        """Update the usage and the stop reason."""
        self._tokens = self._tokens.updated(Tokens.in_object(part.get("usage")))
        if reason := string(part.get("stop_reason")):
            self.finish = _FINISH.get(reason) or finish_of(reason)

    def _begin(self, index: int, block: Any) -> list[Delta]:
        self._blocks[index] = _Block(mapping(block))
        return self._grow(self._blocks[index], {})

    @staticmethod
    def _grow(block: _Block, delta: dict[str, Any]) -> list[Delta]:
        for name, piece in delta.items():
            if piece and isinstance(piece, str) and name != "type":
                block.pieces.setdefault(name, []).append(piece)
        shown = delta or block.begin
        pieces = [
            Delta("text", string(shown.get("text"))),
            Delta("reasoning", string(shown.get("thinking"))),
        ]
        return [each for each in pieces if each.text]

    def _begin_all(self, content: Any) -> list[Delta]:
        """Begin the blocks of a complete message."""
        deltas: list[Delta] = []
        if isinstance(content, list):
            for index, block in enumerate(content):
                deltas += self._begin(index, block)
        return deltas

    def build(self) -> ModelReply:
        """The complete reply; the blocks that are not ours are stored with the calls after them."""
        calls: list[WireCall] = []
        blocks = [block for _, block in sorted(self._blocks.items())]
        has_others = any(block.begin.get("type") not in ("text", "tool_use") for block in blocks)
        before: list[Json] = []
        for block in blocks:
            if block.begin.get("type") == "tool_use":
                extra = None
                if has_others and before:
                    extra = {KEY: before}
                calls.append(WireCall(string(block.begin.get("name")), block.arguments(), extra))
                before = []
            elif (kept := block.verbatim()) is not None:
                before.append(kept)
        if self.finish == "content_filter":
            calls = []
        return ModelReply(
            text="".join(block.text("text") for block in blocks),
            calls=tuple(calls),
            reasoning="".join(block.text("thinking") for block in blocks),
            finish=self.finish or "stop",
            model=self.model,
            usage=self._total_usage(),
        )

    def _total_usage(self) -> Usage:
        """The usage, with cached tokens as part of the input, unlike in Anthropic's counts."""
        tokens = self._tokens
        sent = tokens.input + tokens.cached + tokens.written
        usd = self._cost(
            input_tokens=sent,
            cache_read_tokens=tokens.cached,
            cache_write_tokens=tokens.written,
            output_tokens=tokens.output,
        )
        return Usage(1, sent, tokens.cached, tokens.output, usd or 0.0)
