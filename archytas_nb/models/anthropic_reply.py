"""Reads replies of Anthropic's Messages API, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import Delta, Json, ModelReply, Usage, WireCall
from archytas_nb.models.completion import (
    GrowingReply,
    NotACompletion,
    ServerError,
    mapping,
    string,
)

KEY = "anthropic"
"""Under which the blocks of a reply with thinking are kept beside its calls."""
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
"""The HTTP status of an error in a stream, which comes with its type alone."""


@dataclass(slots=True)
class _Block:
    """One block of a reply while it is received: its start, and the pieces of each field."""

    begin: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return "".join([string(self.begin.get(name)), *self.pieces.get(name, ())])

    def arguments(self) -> str:
        given = "".join(self.pieces.get("partial_json", ()))
        return given or json.dumps(self.begin.get("input") or {}, ensure_ascii=False)

    def verbatim(self) -> Json:
        """The block as it is sent back; None where it is nothing that can be."""
        match self.begin.get("type"):
            case "thinking" if self.text("signature"):
                texts = {"thinking": self.text("thinking"), "signature": self.text("signature")}
                return {"type": "thinking", **texts}
            case "redacted_thinking":
                return dict(self.begin)
            case "text" if self.text("text").strip():
                return {"type": "text", "text": self.text("text")}
        return None


class AnthropicReply(GrowingReply):
    """A reply while it is received."""

    def __init__(self, cost: Callable[[int, int, int, int], float]) -> None:
        """`cost`: USD for the tokens sent, cached, written to the cache, and generated."""
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, int] = {}
        self._cost = cost

    def take(self, part: Any, text: str) -> list[Delta]:
        """Add an event of a stream, or a whole message; return what is shown of it."""
        if error := mapping(part).get("error"):
            status = _STATUS.get(str(mapping(error).get("type")), 0)
            raise ServerError.within(error, text, status)
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise NotACompletion(text)
        self.has_begun = True
        index = part.get("index")
        match part["type"]:
            case "message":
                self._head(part)
                content = part.get("content")
                blocks = enumerate(content if isinstance(content, list) else ())
                return [delta for n, block in blocks for delta in self._begin(n, block)]
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
        """Note usage, of which a later part has the newer counts, and the reason for the end."""
        usage = mapping(part.get("usage"))
        self._usage |= {name: n for name, n in usage.items() if isinstance(n, int) and n >= 0}
        if reason := string(part.get("stop_reason")):
            self.finish = _FINISH.get(reason, reason)

    def _begin(self, index: int, block: Any) -> list[Delta]:
        self._blocks[index] = _Block(mapping(block))
        return self._grow(self._blocks[index], {})

    @staticmethod
    def _grow(block: _Block, delta: dict[str, Any]) -> list[Delta]:
        for name in ("text", "thinking", "signature", "partial_json"):
            if piece := string(delta.get(name)):
                block.pieces.setdefault(name, []).append(piece)
        shown = delta or block.begin
        pieces = [
            Delta("text", string(shown.get("text"))),
            Delta("reasoning", string(shown.get("thinking"))),
        ]
        return [each for each in pieces if each.text]

    def whole(self) -> ModelReply:
        """The reply; the blocks of one with thinking are kept beside its calls."""
        calls: list[WireCall] = []
        blocks = [block for _, block in sorted(self._blocks.items())]
        thinks = any("thinking" in string(block.begin.get("type")) for block in blocks)
        before: list[Json] = []
        for block in blocks:
            if block.begin.get("type") == "tool_use":
                extra = {KEY: before} if thinks and before else None
                calls.append(WireCall(string(block.begin.get("name")), block.arguments(), extra))
                before = []
            elif (kept := block.verbatim()) is not None:
                before.append(kept)
        return ModelReply(
            text="".join(block.text("text") for block in blocks),
            calls=() if self.finish == "content_filter" else tuple(calls),
            reasoning="".join(block.text("thinking") for block in blocks),
            finish=self.finish or "stop",
            model=self.model,
            usage=self._used(),
        )

    def _used(self) -> Usage:
        """The usage; Anthropic does not count what was cached to the input, and we do."""
        fresh, read, written, output = (
            self._usage.get(name, 0)
            for name in (
                "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
                "output_tokens",
            )
        )  # fmt: skip
        sent = fresh + read + written
        return Usage(1, sent, read, output, self._cost(sent, read, written, output))
