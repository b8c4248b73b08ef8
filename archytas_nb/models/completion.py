"""Reads chat completions, whole or streamed, error objects and usage; knows what tokens cost.

A reply that was cut off is never taken for a whole one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import importlib
import json
import re
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from archytas_nb.loop.events import REFUSED, Delta, ModelReply, Usage, WireCall
from archytas_nb.models.secrets import shown_url


class NotACompletion(ValueError):
    """The bytes are no chat completion; the message is what came instead."""


class GrowingReply(Protocol):
    """A reply as it grows: takes the events of a stream, or a whole body.

    Attributes:
        finish: The reason for the end; empty before it.
        has_begun: Whether anything was taken.
        has_choice: Whether what was taken is a reply.
    """

    finish: str
    has_begun: bool
    has_choice: bool

    def take(self, chunk: Any, text: str) -> list[Delta]:
        """Add an event or a body; raises as `from_stream`, which returns what is shown of it."""

    def whole(self) -> ModelReply:
        """The reply, once it is whole."""


def from_body(text: str, new: Callable[[], GrowingReply] | None = None) -> ModelReply:
    """Read a whole reply; `new` makes what takes it, a chat completion where it is None.

    Raises:
        NotACompletion: The text is no chat completion.
        ServerError: The text is an error object.
        EOFError: The text is the beginning of a completion, or the server gave the reply up.
    """
    data = _json(text)
    if data is None and text.lstrip().startswith("{") and not text.rstrip().endswith("}"):
        raise EOFError("the response ended in the middle of the reply")
    reply = (new or CompletionReply)()
    reply.take(data, text)
    if not reply.has_choice:
        raise NotACompletion(text)
    return reply.whole()


def from_stream(
    chunks: Iterable[bytes], new: Callable[[], GrowingReply] | None = None
) -> Generator[Delta, None, ModelReply]:
    """Read a stream of server-sent events, cut anywhere; yields pieces of text, returns the reply.

    `new` makes what takes the events, which are those of a chat completion where it is None.

    An EOFError of `chunks` says that the connection broke, which is ignored after a whole reply.

    Raises:
        NotACompletion: The body is neither a stream of events nor a chat completion.
        ServerError: The server sent an error in the stream.
        EOFError: The stream ended before the reply did, or the server gave the reply up.
    """
    reply, has_ended = (new or CompletionReply)(), False
    other: list[str] = []
    try:
        for line in _lines(chunks):
            if line.startswith("data:"):
                data = line[5:].strip()
                has_ended = has_ended or data == "[DONE]"
                if data and not has_ended:
                    yield from reply.take(_event(data, reply), data)
            elif line and not line.startswith((":", "event:", "id:", "retry:")):
                other.append(line)
    except EOFError:
        if not reply.finish:
            raise
    if other and not reply.has_begun:  # the server does not stream, or it is no such server
        return from_body("\n".join(other), new)
    if not (reply.finish or has_ended):
        raise EOFError("the stream ended in the middle of the reply")
    return reply.whole()


def _event(data: str, reply: GrowingReply) -> Any:
    event = _json(data)
    if event is None and (reply.has_begun or data.startswith("{")):
        raise EOFError(f"an event of the stream was not JSON: {data[:80]!r}")
    return event


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines, split at line feeds alone: `str.splitlines` would also cut inside of a JSON string."""
    rest: list[bytes] = []
    for chunk in chunks:
        *lines, last = chunk.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line]).decode("utf-8", "replace").rstrip("\r")
            rest = []
        rest.append(last)
    yield b"".join(rest).decode("utf-8", "replace").rstrip("\r")


@dataclass(slots=True)
class _Call:
    """One call as it grows."""

    id: Any
    name: str
    extra: Any = None
    pieces: list[str] = field(default_factory=list)


class CompletionReply:
    """A reply as it grows."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[str, _Call] = {}  # by index, the call that pieces are added to
        self._model = self.finish = ""
        self._usage = Usage(requests=1)
        self.has_begun = self.has_choice = False

    def take(self, chunk: Any, text: str) -> list[Delta]:
        """Add a chunk, or a whole completion; return the pieces of text that it brings."""
        # Of the thousands of chunks of a reply nearly all hold a piece of text and nothing else.
        if not isinstance(chunk, dict) or "error" in chunk or chunk.get("object") == "error":
            raise_error(chunk, text)
        self.has_begun = True
        self._model = self._model or _str(chunk.get("model"))
        if chunk.get("usage") or "x_groq" in chunk:
            self._usage = usage_in(chunk) or self._usage
        deltas: list[Delta] = []
        if isinstance(chunk.get("prompt_progress"), dict):  # llama.cpp's, where it is asked for
            read, total = (_count(chunk["prompt_progress"], n) for n in ("processed", "total"))
            deltas.append(Delta("status", f"reading the prompt: {read:,} of {total:,} tokens"))
        for choice in _dicts(chunk.get("choices"))[:1]:
            self.has_choice = True
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self._take_message(message, deltas)
            if choice.get("error") or choice.get("finish_reason"):
                raise_error(choice, text)
                self.finish = _str(choice.get("finish_reason")) or "stop"
        if self.finish == "error":  # OpenRouter's, where the model's provider failed
            self.finish = ""
            raise EOFError("the server aborted the reply: finish_reason is 'error'")
        return deltas

    def _take_message(self, message: dict[str, Any], deltas: list[Delta]) -> None:
        content = message.get("content")
        reasoning = _str(message.get("reasoning_content") or message.get("reasoning"))
        if isinstance(content, list):  # Mistral's parts; those that are thoughts hold parts, too
            parts = _dicts(content)
            reasoning += "".join(
                _str(part.get("text")) for each in parts for part in _dicts(each.get("thinking"))
            )
            content = "".join(_str(part.get("text")) for part in parts)
        if text := _str(content) or _str(message.get("refusal")):
            self._text.append(text)
            deltas.append(Delta("text", text))
        if reasoning:
            self._reasoning.append(reasoning)
            deltas.append(Delta("reasoning", reasoning))
        if "tool_calls" in message:
            for at, call in enumerate(_dicts(message["tool_calls"])):
                # Only a piece of a stream has an index.
                self._take_call(call, str(call.get("index", at)))

    def _take_call(self, piece: dict[str, Any], index: str) -> None:
        call_id, function = piece.get("id"), piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = _str(function.get("name")), function.get("arguments")
        call = self._open.get(index)
        # Gemini has sent each call with the index 0.
        if call is None or (name and call.name and (call_id is None or call_id != call.id)):
            call = self._open[index] = _Call(call_id, name)
            self._calls.append(call)
        call.name = call.name or name
        call.extra = call.extra or piece.get("extra_content")
        if arguments:
            call.pieces.append(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def whole(self) -> ModelReply:
        """The reply, once it is whole."""
        calls = [WireCall(call.name, "".join(call.pieces), call.extra) for call in self._calls]
        return ModelReply(
            text="".join(self._text),
            calls=tuple(calls),
            reasoning="".join(self._reasoning),
            # Mistral's word for it
            finish="length" if self.finish == "model_length" else self.finish or "stop",
            model=self._model,
            usage=self._usage,
        )


def raise_error(data: Any, text: str) -> None:
    """Raise what a chunk or a choice is, where it is no part of a completion.

    Raises:
        ServerError: It is an error object, or holds one.
        NotACompletion: It is no JSON object.
    """
    inner = data[0] if isinstance(data, list) and len(data) == 1 else data  # Gemini sends a list
    if not isinstance(inner, dict):
        raise NotACompletion(text)
    if error := inner.get("error") or (inner if inner.get("object") == "error" else None):
        message, codes = error_text(error)
        raise ServerError(message or text, status_of(error), codes, refused_generation(error))
    if inner is not data:
        raise NotACompletion(text)


def _json(text: str) -> Any:
    """A text as JSON; None where it is none, has a huge number or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ── error objects ─────────────────────────────────────────────────────────────────────────────────


class ServerError(Exception):
    """A server's answer that is an error, with an HTTP status or in place of a reply.

    Attributes:
        message: Its text.
        status: The HTTP status; of an error in a reply the one that it names, or 500.
        codes: What else its error object says; for judging, not for showing.
        reply: A reply that the server generated and then did not accept, or None.
        wait: Seconds after which it asks to try again, or None.
        to: Where it redirects to, as it may be shown; empty for no redirect.
    """

    def __init__(
        self, message: str, status: int = 500, codes: str = "", reply: ModelReply | None = None
    ) -> None:
        super().__init__()  # no text: older clients log what a hook raises, and it may hold the key
        self.message, self.status, self.codes, self.reply = message, status, codes, reply
        self.wait: float | None = None
        self.to = ""

    @classmethod
    def of(cls, status: int, body: str, headers: Mapping[str, str], url: str) -> Self:
        """Read a response whose status is not 2xx; the names of headers in lower case."""
        data = _json(body)
        message, codes = error_text(data)
        error = cls(message or body, status, codes, refused_generation(data))
        for name, unit in (("retry-after", 1.0), ("retry-after-ms", 0.001)):
            if re.fullmatch(r"\d{1,9}(\.\d+)?", value := headers.get(name, "").strip()):
                error.wait = float(value) * unit
        if 300 <= status < 400 and "location" in headers:
            with contextlib.suppress(ValueError):  # it is no URL
                to = shown_url(urllib.parse.urljoin(url, headers["location"]))
                error.to = to.removesuffix("/chat/completions").removesuffix("/v1/messages")
        return error


def refused_generation(error: Any) -> ModelReply | None:
    """The reply that a server generated and did not accept, as Groq does; None for other errors."""
    while isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    if not isinstance(error, dict):
        return None
    if raw := _provider(error):
        return refused_generation(_json(raw))
    text = _str(error.get("failed_generation"))
    if not text and error.get("code") != REFUSED:
        return None
    return ModelReply(text or _str(error.get("message")), finish=REFUSED, usage=Usage(requests=1))


def _provider(error: dict[str, Any]) -> str:
    """The error of the model's provider in one of OpenRouter's."""
    metadata = error.get("metadata")
    return str(metadata.get("raw") or "") if isinstance(metadata, dict) else ""


def error_text(error: Any) -> tuple[str, str]:
    """The message of an error object, empty where it has none, and its codes.

    The codes are all else that helps to judge it: kinds, sizes, and the text of a provider behind.
    """
    error = error[0] if isinstance(error, list) and len(error) == 1 else error
    if not isinstance(error, dict):
        return _str(error), ""
    if isinstance(error.get("error"), (dict, str)):
        return error_text(error["error"])
    raw = _provider(error)
    codes = [str(error[key]) for key in ("code", "type") if error.get(key)]
    codes += [f"{key}={error[key]}" for key in ("n_prompt_tokens", "n_ctx") if error.get(key)]
    message = str(error.get("message") or error.get("detail") or "")
    if message == "Provider returned error" and raw:
        message = f"{message}: {error_text(_json(raw))[0] or raw}"
    return message, " ".join([*codes, raw]).strip()[:500]


def status_of(error: Any) -> int:
    """The HTTP status of an error object that came without one; 500 where it does not say."""
    code = str(error.get("code") or error.get("status_code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500


# ── tokens and what they cost ────────────────────────────────────────────────────────────────────


def usage_in(part: dict[str, Any]) -> Usage | None:
    """The usage in a body or a chunk of a stream; None for none. Nothing is estimated.

    The cached tokens are part of the input.
    """
    usage = part.get("usage")
    if not usage and "x_groq" in part:
        usage = part["x_groq"].get("usage") if isinstance(part["x_groq"], dict) else None
    if not isinstance(usage, dict):
        return None
    read, details, usd = _count(usage, "prompt_tokens"), usage.get("prompt_tokens_details"), 0.0
    if isinstance(usage.get("cost"), (int, float)) and 0 < usage["cost"] < 1e6:  # OpenRouter's
        usd = float(usage["cost"])
    cached = min(read, _count(details, "cached_tokens"))
    return Usage(1, read, cached, _count(usage, "completion_tokens"), usd)


def _count(data: Any, name: str) -> int:
    value = data.get(name) if isinstance(data, dict) else None
    return int(value) if isinstance(value, (int, float)) and 0 < value < 1e12 else 0


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens: sent, sent and cached by the endpoint, written."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """USD for these tokens."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        usd = fresh * self.input + usage.cached_tokens * self.cached
        return (usd + usage.output_tokens * self.output) / 1_000_000


@functools.lru_cache(maxsize=64)
def price_of(base_url: str, model: str) -> Price | None:
    """The price of a model at an endpoint, from the data in genai-prices; asks nobody.

    None where it is not known, depends on more than three numbers (a long prompt, writing to a
    cache), or genai-prices is not installed.
    """
    try:
        data = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
        _, known = data.find_provider_model(model, None, None, base_url)
        prices = known.get_prices(dt.datetime.now(dt.UTC))
        if getattr(prices, "cache_write_mtok", None) is not None:
            return None
        sent, cached, written = prices.input_mtok, prices.cache_read_mtok, prices.output_mtok
        return Price(float(sent), float(sent if cached is None else cached), float(written))
    except (ImportError, LookupError, AttributeError, TypeError, ValueError):
        return None


def cost_of(base_url: str, model: str, sent: int, cached: int, to_cache: int, output: int) -> float:
    """USD for tokens, where writing to a cache has a price; 0 where that is not known.

    Args:
        base_url: The endpoint.
        model: The model's name there.
        sent: All input tokens.
        cached: Those of them that were read from the cache.
        to_cache: Those of them that were written to it.
        output: Tokens that the model wrote.
    """
    try:
        prices = importlib.import_module("genai_prices")
        usage = prices.Usage(
            input_tokens=sent,
            cache_read_tokens=cached,
            cache_write_tokens=to_cache,
            output_tokens=output,
        )
        return float(prices.calc_price(usage, model, provider_api_url=base_url).total_price)
    except (ImportError, LookupError, AttributeError, TypeError, ValueError):
        return 0.0
