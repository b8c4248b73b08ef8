"""A server on 127.0.0.1 with Anthropic's Messages API, which refuses what Anthropic refuses, over real HTTP."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from tests.servers.plays import Play, Say, Status
from tests.servers.server import Exchange, Server

FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "temperature", "top_p", "top_k",
    "stop_sequences", "stream", "metadata", "output_config", "service_tier", "cache_control",
}  # fmt: skip
SAMPLING = {"temperature", "top_p", "top_k"}
"""Fields that the version 2026-10-21 of the API does not take."""
BLOCKS = {
    "text": ({"type", "text"}, {"cache_control"}),
    "image": ({"type", "source"}, {"cache_control"}),
    "tool_use": ({"type", "id", "name", "input"}, {"cache_control"}),
    "tool_result": ({"type", "tool_use_id"}, {"content", "is_error", "cache_control"}),
    "thinking": ({"type", "thinking", "signature"}, set()),
    "redacted_thinking": ({"type", "data"}, set()),
}
"""The fields that a block must have, and those that it may have."""
ROLES = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
ENFORCED = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "allOf", "$ref",
    "$defs", "default", "description", "title",
}  # fmt: skip
REFUSALS = {
    "strict": "tools.0.custom.strict: Extra inputs are not permitted",
    "grammar": "The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas "
    "or reduce the number of strict tools.",
    "cache_control": "cache_control: Extra inputs are not permitted",
    "output_config": "output_config.format: Extra inputs are not permitted",
    "temperature": "`temperature` is deprecated for this model.",
    "thinking": "adaptive thinking is not supported on this model",
    "signatures": "messages.1.content.0: Invalid `signature` in `thinking` block",
}
"""What a server may not be able to do, and in which words it says so."""
ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}  # fmt: skip
REASONS = {
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop": "end_turn",
    "tool_calls": "tool_use",
}


def signed(thinking: str) -> dict[str, str]:
    """A thinking block with its signature."""
    signature = hashlib.sha256(f"secret {thinking}".encode()).hexdigest()
    return {"type": "thinking", "thinking": thinking, "signature": signature}


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────


def complaint(body: dict[str, Any], last: list[dict[str, Any]] | None = None) -> str:
    """Why a request is refused; empty where it is not. `last` are the blocks of the reply before it, if known."""
    return next(_complaints(body, last), "")


def _complaints(body: dict[str, Any], last: list[dict[str, Any]] | None) -> Iterator[str]:
    yield from (f"{name}: Extra inputs are not permitted" for name in set(body) - FIELDS)
    most = body.get("max_tokens")
    if not isinstance(most, int) or most < 1:
        yield "max_tokens: Field required"
        return
    if text := str(body).count("'cache_control'") > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {text}."
    if "tool_choice" in body and not body.get("tools"):
        yield "tool_choice may only be specified while providing tools"
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking.get("budget_tokens", 0) < most:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
        if "temperature" in body:
            yield "`temperature` may only be set to 1 when thinking is enabled"
    if any(not block["text"].strip() for block in body.get("system", ())):
        yield "system: text content blocks must be non-empty"
    yield from _tools(body.get("tools", ()))
    if "format" in (config := body.get("output_config", {})):
        yield from _schema(config["format"]["schema"], "output_config.format.schema")
    yield from _turns(body["messages"])
    yield from _thinking(body, last)


def _turns(messages: list[dict[str, Any]]) -> Iterator[str]:
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        yield "messages: the conversation must begin and end with a user message"
        return
    asked: list[str] = []
    for n, message in enumerate(messages):
        at = f"messages.{n}"
        if message["role"] != ("user", "assistant")[n % 2]:
            yield f"{at}: roles must alternate"
        blocks = message["content"]
        if not isinstance(blocks, list) or not blocks:
            yield f"{at}: content must be non-empty"
            return
        for block in blocks:
            yield from (f"{at}: {said}" for said in _block(block, message["role"]))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if [block["type"] for block in blocks][: len(results)] != ["tool_result"] * len(results):
            yield f"{at}: tool_result blocks must come first"
        if sorted(results) != sorted(asked):
            yield f"{at}: each `tool_use` block must have a `tool_result` block in the next message: {asked}, {results}"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(asked)) != len(asked):
            yield f"{at}: `tool_use` ids must be unique"


def _block(block: dict[str, Any], role: str) -> Iterator[str]:
    kind = block.get("type", "")
    if kind not in ROLES[role]:
        yield f"a {role} message cannot have a block of the type {kind!r}"
        return
    needed, allowed = BLOCKS[kind]
    if not needed <= set(block) <= needed | allowed:
        yield f"{kind}: fields {sorted(block)}"
    if kind == "text" and not block["text"].strip():
        yield "text content blocks must contain non-whitespace text"
    if kind == "tool_use" and not (
        isinstance(block["input"], dict) and re.fullmatch(r"[\w-]+", block["id"])
    ):
        yield "tool_use: input must be an object, id must match ^[a-zA-Z0-9_-]+$"
    if kind == "image" and block["source"].get("media_type") not in ("image/png", "image/jpeg"):
        yield "image: unknown source"
    if kind == "thinking" and block != signed(block["thinking"]):
        yield REFUSALS["signatures"]


def _thinking(body: dict[str, Any], last: list[dict[str, Any]] | None) -> Iterator[str]:
    """The blocks of the running loop of calls, which must come back as they were."""
    replies: list[list[dict[str, Any]]] = []
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            replies.insert(0, message["content"])
        elif message["content"][0]["type"] != "tool_result":
            break
    if not replies:
        return
    if (
        body.get("thinking", {}).get("type") == "enabled"
        and "thinking" not in replies[0][0]["type"]
    ):
        yield f"Expected `thinking` or `redacted_thinking`, but found `{replies[0][0]['type']}`"
    if last is None:
        return
    now = [block for block in replies[-1] if block["type"] != "tool_use"]
    before = [block for block in last if block["type"] != "tool_use"]
    if "thinking" in str(before) and now and [*map(_kind, replies[-1])] != [*map(_kind, last)]:
        yield "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified"
    if "thinking" in str(now) and now != before:
        yield "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."


def _kind(block: dict[str, Any]) -> str:
    return str(block["type"])


def _tools(tools: Collection[dict[str, Any]]) -> Iterator[str]:
    for n, tool in enumerate(tools):
        if extra := set(tool) - {"name", "description", "input_schema", "strict", "cache_control"}:
            yield f"tools.{n}: {extra}"
        if (
            not re.fullmatch(r"[\w-]{1,128}", tool["name"])
            or tool["input_schema"].get("type") != "object"
        ):
            yield f"tools.{n}: name or input_schema"
        if tool.get("strict"):
            yield from _schema(tool["input_schema"], f"tools.{n}")
    strict = [tool["input_schema"] for tool in tools if tool.get("strict")]
    optional = sum(
        len(set(each.get("properties", ())) - set(each.get("required", ()))) for each in strict
    )
    if len(strict) > 20 or optional > 24 or str(strict).count("'anyOf'") > 16:
        yield f"Too many strict tools ({len(strict)}) or optional parameters ({optional})"


def _schema(schema: Any, at: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{at}: {schema!r}"
        return
    if extra := set(schema) - ENFORCED:
        yield f"{at}: {extra} not supported in structured outputs"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{at}: 'additionalProperties' must be explicitly set to false"
    inner = [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", ()),
    ]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        yield from _schema(each, at)


# ── what is answered ──────────────────────────────────────────────────────────────────────────────────────────────


class AnthropicExchange(Exchange):
    """A request in Anthropic's form."""

    @property
    def native(self) -> bool:
        return "tools" in self.body or "tool_input" not in str(self.body.get("system"))

    def event(self, data: Any) -> None:
        """An event; a piece of text of a chat completion is turned into one of Anthropic's."""
        if isinstance(data, dict) and "choices" in data:
            text = data["choices"][0]["delta"].get("content", "")
            self.event(
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "text", "text": ""},
                }
            )
            data = {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
        kind = data["type"]
        self.chunk(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())


class AnthropicServer(Server):
    """Plays the same plays as `Server`, in Anthropic's form.

    A ``reasoning_content`` of a reply becomes a thinking block with its signature, a list of them one before each
    call; ``redacted`` becomes a redacted one.
    """

    exchange = AnthropicExchange

    def __init__(self, *plays: Play, cannot: Collection[str] = (), **settings: Any) -> None:
        super().__init__(*plays, **settings)
        self.cannot = cannot
        self.url = self.root
        self.last: list[dict[str, Any]] = []
        """The blocks of the last reply."""

    def answer(self, exchange: Exchange) -> None:
        body, headers = exchange.body, exchange.asked.headers
        if exchange.asked.path.partition("?")[0] != f"{self.path}/messages":
            self.elsewhere.play(exchange)
            return
        if (
            "x-api-key" not in headers
            or "anthropic-version" not in headers
            or "authorization" in headers
        ):
            self._play(Status(401, "invalid x-api-key"), exchange)
            return
        for feature in self.cannot:
            if {"grammar": "'strict'", "signatures": "'signature'"}.get(
                feature, f"'{feature}'"
            ) in str(body):
                self._play(Status(400, REFUSALS[feature]), exchange)
                return
        is_new = headers["anthropic-version"] >= "2026-10-21"
        if is_new and (gone := SAMPLING.intersection(body)):
            self._play(Status(400, f"{min(gone)}: Extra inputs are not permitted"), exchange)
            return
        if said := complaint(body, self.last) if self.strict else "":
            self.complaints.append(said)
            self._play(Status(400, said), exchange)
            return
        if self.models is not None and body["model"] not in self.models:
            self._play(Status(404, f"model: {body['model']}"), exchange)
            return
        with self._lock:
            play = self.plays.pop(0) if self.plays else self.then
        self._play(play, exchange)

    def _play(self, play: Play, exchange: Exchange) -> None:
        if isinstance(play, Status):
            error = {"type": ERRORS.get(play.status, "api_error"), "message": play.said}
            body = {"type": "error", "error": error, "request_id": "req_1"}
            exchange.send(play.status, json.dumps(body).encode(), play.headers)
        elif isinstance(play, Say):
            self._say(play, exchange)
        else:
            play.play(exchange)

    def _say(self, say: Say, exchange: Exchange) -> None:
        blocks = list(_blocks(say, native=exchange.native))
        self.last = blocks
        reason = say.finish or ("tool_calls" if "tool_use" in map(_kind, blocks) else "stop")
        reason = REASONS.get(reason, reason)
        sent, cached, written = say.usage or (0, 0, 0)
        usage = {"input_tokens": sent - cached - 1, "cache_read_input_tokens": cached}
        usage |= {"cache_creation_input_tokens": 1, "output_tokens": 1}
        head = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": exchange.body["model"],
        }
        if exchange.body.get("stream"):
            events = list(_events(blocks, {**head, "usage": usage, "content": []}, reason, written))
            self._stream(say, exchange, events)
            return
        usage["output_tokens"] = written
        whole = json.dumps(
            {**head, "content": blocks, "stop_reason": reason, "usage": usage}
        ).encode()
        if say.cut is None and not say.stall:
            exchange.send(200, whole)
            return
        exchange.head(200, {"Content-Type": "application/json", "Content-Length": str(len(whole))})
        exchange.write(whole[: len(whole) // 2])
        if say.stall:
            exchange.wait_for_the_client_to_leave()
        exchange.break_off()

    @staticmethod
    def _stream(say: Say, exchange: Exchange, events: list[dict[str, Any]]) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        for n, event in enumerate(events):
            if n - 2 == say.cut:
                exchange.break_off()
                return
            exchange.event(event)
            if say.stall and event["type"] == "content_block_delta":
                exchange.wait_for_the_client_to_leave()
                return
        exchange.chunk(b"")


def _blocks(say: Say, *, native: bool) -> Iterator[dict[str, Any]]:
    message = say.message(native=native)
    thoughts = message.get("reasoning_content") or []
    thoughts = [thoughts] if isinstance(thoughts, str) else list(thoughts)
    if data := message.get("redacted"):
        yield {"type": "redacted_thinking", "data": data}
    if thoughts:
        yield signed(thoughts.pop(0))
    if message.get("content") or message.get("refusal"):
        yield {"type": "text", "text": message.get("content") or message["refusal"]}
    for n, call in enumerate(message.get("tool_calls", ())):
        if n and thoughts:
            yield signed(thoughts.pop(0))
        arguments = call["function"]["arguments"]
        given = say.calls[n][1]
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": call["function"]["name"]}
        yield {**use, "input": given if isinstance(given, dict) else arguments}


def _events(
    blocks: list[dict[str, Any]], head: dict[str, Any], reason: str, written: int
) -> Iterator[dict[str, Any]]:
    """A reply in small pieces, as Anthropic streams it."""
    yield {"type": "message_start", "message": head}
    yield {"type": "ping"}
    for n, block in enumerate(blocks):
        kind = block["type"]
        pieces: list[tuple[str, str, str]] = []
        begin = dict(block)
        if kind == "text":
            begin, pieces = {**block, "text": ""}, [("text_delta", "text", block["text"])]
        elif kind == "thinking":
            begin = {**block, "thinking": "", "signature": ""}
            pieces = [("thinking_delta", "thinking", block["thinking"])]
            pieces.append(("signature_delta", "signature", block["signature"]))
        elif kind == "tool_use":
            given = block["input"]
            begin = {**block, "input": {}}
            text = given if isinstance(given, str) else json.dumps(given) if given else ""
            pieces = [("input_json_delta", "partial_json", text)]
        yield {"type": "content_block_start", "index": n, "content_block": begin}
        for type_, name, text in pieces:
            step = len(text) or 1 if name == "signature" else 5
            for at in range(0, len(text), step):
                delta = {"type": type_, name: text[at : at + step]}
                yield {"type": "content_block_delta", "index": n, "delta": delta}
        yield {"type": "content_block_stop", "index": n}
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": written}}
    yield {"type": "message_stop"}
