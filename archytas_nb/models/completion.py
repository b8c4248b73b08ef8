"""Reads chat completions, error objects and usage, in the dialects of all servers; knows prices.

A reply that was cut off is never taken for a whole one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import functools
import importlib
import json
import re
import urllib.parse
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from archytas_nb.loop.events import REFUSED, Delta, ModelReply, Usage, WireCall
from archytas_nb.models.secrets import shown_url

_READ = ("data:", "error:")
"""Beginnings of lines that are read; older versions of llama.cpp send errors in the second."""
_GIVEN_UP = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""Reasons for an end with which OpenRouter, Zhipu, DeepSeek and SGLang report a failure."""
_FULL = frozenset({"max_tokens", "model_length"})
"""Other words for ``"length"``."""
_LONGEST_LOOKED_AT = 20_000
"""Characters of arguments up to which they are parsed to see whether they are whole."""


class NotACompletion(ValueError):
    """The bytes are no chat completion; the message is what came instead."""


def from_body(text: str) -> ModelReply:
    """Read a whole chat completion.

    Raises:
        NotACompletion: The text is no chat completion.
        ServerError: The text is an error object.
        EOFError: The text is the beginning of a completion, or the server gave the reply up.
    """
    data = _json(text)
    if data is None:
        if text.lstrip().startswith('{"') and not text.rstrip().endswith("}"):
            raise EOFError("the body ended in the middle of the reply")
        raise NotACompletion(text)
    _raise_error(data, text)
    choices = _dicts(data.get("choices"))[:1]
    if not choices:
        raise NotACompletion(text)
    stream = _Stream()
    stream.take_chunk({**data, "choices": choices}, text)
    stream.ended = True
    return stream.reply()


def from_stream(chunks: Iterable[bytes]) -> Generator[Delta, None, ModelReply]:
    """Read a stream of server-sent events, cut anywhere; yields pieces of text, returns the reply.

    An EOFError of `chunks` says that the connection broke, which is ignored after a whole reply.

    Raises:
        NotACompletion: The body is neither a stream of events nor a chat completion.
        ServerError: The server sent an error in the stream.
        EOFError: The stream ended before the reply did, or the server gave the reply up.
    """
    stream = _Stream()
    other: list[str] = []
    try:
        for line in _lines(chunks):
            if line.startswith(_READ):
                yield from stream.take(line.partition(":")[2].strip())
            elif not line:
                yield from stream.flush()
            elif not line.startswith((":", "event:", "id:", "retry:")):
                other.append(line)
        yield from stream.flush()
    except EOFError:
        if not stream.whole:
            raise
    if stream.chunks == 0:
        if other:  # the server does not stream, or it is no such server
            return from_body("\n".join(other))
        if not stream.whole:
            raise EOFError("the stream was empty")
    return stream.reply()


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines, split at line feeds alone: `str.splitlines` would also cut inside of a JSON string."""
    rest: list[bytes] = []
    for chunk in chunks:
        *lines, last = chunk.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line]).decode("utf-8", "replace").rstrip("\r")
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest).decode("utf-8", "replace").rstrip("\r")


@dataclass(slots=True)
class _Call:
    """One call as it grows."""

    id: Any
    name: str
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    extra: Any = None

    def goes_on(self, call_id: Any, name: str, arguments: str) -> bool:
        """Whether a piece under the same index belongs to this call.

        There are servers that give each call the index 0, all calls one id or each piece a new id,
        and that repeat the name with each piece.
        """
        if not name or not self.name:
            return True
        if name != self.name:
            return False
        if call_id and self.id and call_id != self.id:
            return bool(self.pieces) and not self.complete
        return not (arguments and self.complete)

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are whole JSON."""
        if (
            not self.pieces
            or self.size > _LONGEST_LOOKED_AT
            or self.pieces[-1].rstrip()[-1:] != "}"
        ):
            return False
        return isinstance(_json("".join(self.pieces)), dict)


class _Stream:
    """A reply as it grows."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._open: dict[Any, _Call] = {}  # by index, the call that pieces are added to
        self._pending: list[str] = []  # the lines of an event over several
        self._finish = self._model = ""
        self._usage = Usage(requests=1)
        self.ended = False
        self.chunks = 0

    @property
    def whole(self) -> bool:
        return self.ended or bool(self._finish)

    def take(self, data: str) -> Sequence[Delta]:
        """Add an event; return the pieces of text that it brings: this runs for every token."""
        if data == "[DONE]":
            self.ended = True
            return ()
        if self._pending:
            self._pending.append(data)
            return ()
        chunk = _json(data)
        if chunk is None:
            self._pending += [data] if data else []
            return ()
        return self.take_chunk(chunk, data)

    def take_chunk(self, chunk: Any, data: str) -> Sequence[Delta]:
        self._take_head(chunk, data)
        pieces: list[Delta] = []
        for choice in _dicts(chunk.get("choices")):
            delta = choice.get("delta")
            if delta.__class__ is not dict or not delta:  # a whole message
                delta = dict(_dict(choice.get("message")))
                calls = enumerate(_dicts(delta.get("tool_calls")))
                delta["tool_calls"] = [{**call, "index": at} for at, call in calls]
            text = delta.get("content")
            # Most tokens come with nothing else.
            if text.__class__ is str and len(delta) == 1 + ("role" in delta):
                if text:
                    self._text.append(text)
                    pieces.append(Delta("text", text))
            else:
                self._take_delta(delta, pieces)
            if "error" in choice or choice.get("finish_reason"):
                _raise_error(choice, data)
                self._finish = _finish(choice)
                self._usage = usage_in(choice) or self._usage
        return pieces

    def _take_head(self, chunk: Any, data: str) -> None:
        """Read what is beside the choices."""
        if chunk.__class__ is not dict or "error" in chunk or chunk.get("object") == "error":
            _raise_error(chunk, data)
        self.chunks += 1
        if not self._model:
            self._model = _word(chunk.get("model"))
        if chunk.get("usage") or "timings" in chunk or "x_groq" in chunk:
            self._usage = usage_in(chunk) or self._usage

    def _take_delta(self, delta: dict[str, Any], pieces: list[Delta]) -> None:
        if text := _text(delta.get("content")) or _text(delta.get("refusal")):
            self._text.append(text)
            pieces.append(Delta("text", text))
        if text := _reasoning(delta):
            self._reasoning.append(text)
            pieces.append(Delta("reasoning", text))
        calls = _dicts(delta.get("tool_calls"))
        old = delta.get("function_call")  # before there were tools
        if not calls and isinstance(old, dict):
            calls = [{"index": 0, "function": old}]
        for call in calls:
            self._take_call(call)

    def flush(self) -> Sequence[Delta]:
        """Called where an event ends: what is no JSON by then is none."""
        if not self._pending:
            return ()
        data, self._pending = "\n".join(self._pending), []
        chunk = _json(data)
        if chunk is None:
            if self.chunks or data.startswith("{"):
                raise EOFError(f"an event of the stream was not JSON: {data[:80]!r}")
            raise NotACompletion(data)
        return self.take_chunk(chunk, data)

    def _take_call(self, piece: dict[str, Any]) -> None:
        index, call_id, function = piece.get("index"), piece.get("id"), _dict(piece.get("function"))
        index = index if isinstance(index, (int, str)) else None
        name, arguments = _word(function.get("name")), _text(function.get("arguments"))
        call = self._open.get(index)
        if call is None and index is None and not name and self._calls:
            call = self._calls[-1]
        if call is None or not call.goes_on(call_id, name, arguments):
            call = _Call(call_id, name)
            self._calls.append(call)
            self._open[index] = call
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra = call.extra or piece.get("extra_content")
        if arguments:
            call.pieces.append(arguments)
            call.size += len(arguments)

    def reply(self) -> ModelReply:
        if not self.whole:
            raise EOFError("the stream ended in the middle of the reply")
        calls = [WireCall(call.name, "".join(call.pieces), call.extra) for call in self._calls]
        return ModelReply(
            text="".join(self._text),
            calls=tuple(calls),
            reasoning="".join(self._reasoning),
            finish=self._finish or "stop",
            model=self._model,
            usage=self._usage,
        )


def _raise_error(data: Any, text: str) -> None:
    inner = data[0] if isinstance(data, list) and len(data) == 1 else data  # Gemini sends a list
    if isinstance(inner, dict):
        error = inner.get("error") or (inner if inner.get("object") == "error" else None)
        if error:
            message, codes = error_text(error)
            raise ServerError(message or text, status_of(error), codes, refused_generation(error))
    if not isinstance(data, dict):
        raise NotACompletion(text)


def _text(content: Any) -> str:
    """Text of a string, a list of parts, null, or arguments that came as an object."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else ""


def _reasoning(message: dict[str, Any]) -> str:
    if content := message.get("reasoning_content") or message.get("reasoning"):
        return _text(content)
    content = message.get("content")
    if isinstance(content, list):  # parts of the type "thinking" hold parts of their own
        return "".join(_text(part.get("thinking")) for part in content if isinstance(part, dict))
    return ""


def _finish(choice: dict[str, Any]) -> str:
    finish = _word(choice.get("finish_reason")) or "stop"
    if finish in _GIVEN_UP:
        raise EOFError(f"the server gave the reply up: finish_reason is {finish!r}")
    return "length" if finish in _FULL else finish


def _json(text: str) -> Any:
    """A text as JSON; None where it is none, has a huge number or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
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
        super().__init__(message)
        self.message, self.status, self.codes, self.reply = message, status, codes, reply
        self.wait: float | None = None
        self.to = ""

    @classmethod
    def of(cls, status: int, body: str, headers: Mapping[str, str], url: str) -> Self:
        """Read a response whose status is not 2xx; the names of headers in lower case."""
        data = _json(body)
        message, codes = error_text(data)
        error = cls(message or body, status, codes, refused_generation(data))
        error.wait = retry_after(headers, dt.datetime.now(dt.UTC))
        if 300 <= status < 400 and "location" in headers:
            with contextlib.suppress(ValueError):  # it is no URL
                to = shown_url(urllib.parse.urljoin(url, headers["location"]))
                error.to = to.removesuffix("/chat/completions")
        return error


def refused_generation(error: Any) -> ModelReply | None:
    """The reply that a server generated and did not accept, as Groq does; None for other errors."""
    while isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    if not isinstance(error, dict):
        return None
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # OpenRouter: the provider's own error
        return refused_generation(_json(str(metadata["raw"])))
    generated = error.get("failed_generation")
    text = generated if isinstance(generated, str) else ""
    if not text and error.get("code") != REFUSED:
        return None
    text = text or str(error.get("message") or "")
    return ModelReply(text, finish=REFUSED, usage=Usage(requests=1))


def error_text(error: Any) -> tuple[str, str]:
    """The message of an error object of any server, empty where it has none, and its codes.

    The codes are all else that helps to judge it: kinds, sizes, and the text of a provider behind.
    """
    if isinstance(error, list) and len(error) == 1:
        error = error[0]
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else ""), ""
    if isinstance(error.get("error"), (dict, str)):
        return error_text(error["error"])
    metadata = error.get("metadata")
    raw = str(metadata.get("raw") or "") if isinstance(metadata, dict) else ""
    codes = [str(error[key]) for key in ("code", "type") if error.get(key)]
    codes += [f"{key}={error[key]}" for key in ("n_prompt_tokens", "n_ctx") if error.get(key)]
    message = str(error.get("message") or "") or _detail(error.get("detail"))
    if message == "Provider returned error" and raw:  # OpenRouter's, whatever the provider's is
        message = f"{message}: {error_text(_json(raw))[0] or raw}"
    return message, " ".join([*codes, raw]).strip()[:500]


def _detail(detail: Any) -> str:
    """FastAPI's message: a text, or a list of problems and places."""
    if isinstance(detail, str):
        return detail
    places = [(each.get("msg"), each.get("loc")) for each in _dicts(detail)]
    texts = [(msg, ".".join(map(str, at)) if isinstance(at, list) else at) for msg, at in places]
    return "; ".join(f"{message} at {place}" for message, place in texts)


def status_of(error: Any) -> int:
    """The HTTP status of an error object that came without one; 500 where it does not say."""
    if not isinstance(error, dict):
        return 500
    code = error.get("code")
    if isinstance(code, str) and re.fullmatch(r"\d{3}", code):
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return 400 if str(error.get("type")).startswith(("invalid_request", "exceed_context")) else 500


def retry_after(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """Seconds that a server asks to wait, at least 0; None where it does not say so."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * unit
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() - now.timestamp())


# ── tokens and what they cost ────────────────────────────────────────────────────────────────────


def usage_in(part: dict[str, Any]) -> Usage | None:
    """The usage in a part of a reply: a body, a chunk of a stream, or a choice; None for none.

    Most servers report it beside the choices, Groq in a field of its own, Moonshot in the choice;
    llama.cpp sends ``timings``. The cached tokens are part of the input. Nothing is estimated.
    """
    timings = part.get("timings")
    for holder in (part, part.get("x_groq")):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return _usage(usage, timings)
    if not isinstance(timings, dict):
        return None
    cached = _count(timings, "cache_n")
    return Usage(1, _count(timings, "prompt_n") + cached, cached, _count(timings, "predicted_n"))


def _usage(data: dict[str, Any], timings: Any) -> Usage:
    details = data.get("prompt_tokens_details") or data.get("input_tokens_details") or {}
    read = _count(data, "prompt_tokens", "input_tokens")
    fields = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
    cached = _count(details, "cached_tokens") or _count(data, *fields) or _count(timings, "cache_n")
    written, usd = _count(data, "completion_tokens", "output_tokens"), data.get("cost")
    if not isinstance(usd, (int, float)) or not 0 < usd < 1e6:  # OpenRouter says it
        usd = 0.0
    return Usage(1, read, min(cached, read), written, float(usd))


def _count(data: Any, *names: str) -> int:
    """The first of these fields that is a number of tokens."""
    for name in names if isinstance(data, dict) else ():
        value = data.get(name)
        if isinstance(value, (int, float)) and 0 < value < 1e12:
            return int(value)
    return 0


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
