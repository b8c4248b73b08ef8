"""Reads chat completions (complete or streamed) and error objects; computes costs.

An incomplete reply is never treated as a complete one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import re
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from archytas_nb.loop.events import REFUSED, AskModel, Delta, Json, ModelReply, Token, Usage
from archytas_nb.models.kept import joined
from archytas_nb.models.pieces import CallPieces
from archytas_nb.models.secrets import shown_url
from archytas_nb.models.sse import Repeated, events, parsed
from archytas_nb.models.usage import Tokens, tokens_in
from archytas_nb.models.waits import wait_told


class NotACompletion(ValueError):
    """The body is not a completion; the message is the body."""


class ReplyBuilder:
    """Builds a reply from the parts that are received."""

    def __init__(self) -> None:
        self.model = self.finish = ""  # finish: the finish reason, empty before the end
        self.has_begun = self.has_choice = False  # whether it has any part, and one of a reply
        self.is_over = False  # whether the server said that nothing follows
        self.repeated = Repeated()  # the form of events that `add_text` takes

    def add_text(self, text: str) -> None:
        """Add the next piece of text, of an event that has nothing else."""
        raise NotImplementedError

    def add(self, part: Any, text: str) -> list[Delta]:
        """Add an event of a stream or a complete body, parsed from `text`; return what to show."""
        raise NotImplementedError

    def build(self) -> ModelReply:
        """The reply, once it is whole."""
        raise NotImplementedError


_OF_A_MESSAGE = frozenset({"role", "content", "refusal"})
_TEXTS = frozenset({"reasoning_content", "reasoning"})


class CompletionBuilder(ReplyBuilder):
    """Builds a reply from chat completions."""

    def __init__(self) -> None:
        super().__init__()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls = CallPieces()
        self._others: dict[str, list[Json]] = {}  # the values of fields that are not ours
        self._tokens = Tokens()
        self._odds: list[Token] = []

    def add(self, part: Any, text: str) -> list[Delta]:
        """Add a chunk or a complete body; return the pieces of text that it contains."""
        if (piece := _piece_in(part)) and self.has_choice and self.model:
            self._text.append(piece)
            self.repeated.learn(text, "content", piece)
            return [Delta("text", piece)]
        return self._add_any(part, text)

    def add_text(self, text: str) -> None:
        """Add the next piece of text, of an event that has nothing else."""
        self._text.append(text)

    def _add_any(self, part: Any, text: str) -> list[Delta]:
        """Add a chunk of any kind, or a complete body."""
        if not isinstance(part, dict) or "error" in part or part.get("object") == "error":
            raise_if_error(part, text)
        self.has_begun = True
        if not self.model:
            self.model = string(part.get("model"))
        # All spellings have both; a piece of text may have either.
        may_count = "oken" in text and "usage" in text.casefold()
        if may_count and (tokens := tokens_in(part)) is not None:
            self._tokens = self._tokens.updated(tokens)
        deltas: list[Delta] = []
        if "prompt_progress" in part:
            deltas += _progress_in(part)
        choices = part.get("choices")
        choice = None
        if isinstance(choices, list) and choices:
            choice = choices[0]
        if isinstance(choice, dict):
            self.has_choice = True
            self._odds += _tokens_in(choice.get("logprobs"))
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self._add_message(message, deltas)
                if len(message) > 1 or not message.get("content"):
                    # Nearly all pieces have a text alone.
                    self._add_others(message, is_whole=not choice.get("delta"))
            if choice.get("error") or choice.get("finish_reason"):
                self._end(choice, text)
        return deltas

    def _end(self, choice: dict[str, Any], text: str) -> None:
        """Read why the reply ends."""
        raise_if_error(choice, text)
        self.finish = finish_of(string(choice.get("finish_reason")))
        if self.finish == "error":
            # From OpenRouter, if the model's provider failed.
            self.finish = ""
            raise EOFError("the server aborted the reply: finish_reason is 'error'")

    def _add_message(self, message: dict[str, Any], deltas: list[Delta]) -> None:
        text = message.get("content") or message.get("refusal")
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(text, list):
            # Mistral's parts; thoughts contain parts as well.
            parts = _dicts(text)
            reasoning = string(reasoning)
            for part in parts:
                thoughts = _dicts(part.get("thinking"))
                reasoning += "".join(string(each.get("text")) for each in thoughts)
            text = "".join(string(part.get("text")) for part in parts)
        if isinstance(text, str) and text:
            self._text.append(text)
            deltas.append(Delta("text", text))
        if reasoning and isinstance(reasoning, str):
            self._reasoning.append(reasoning)
            deltas.append(Delta("reasoning", reasoning))

    def _add_others(self, message: dict[str, Any], *, is_whole: bool) -> None:
        """Add the calls of a message, and its fields that are not ours."""
        for name, value in message.items():
            if name == "tool_calls":
                self._calls.add_all(_dicts(value), is_whole=is_whole)
            elif name == "function_call":
                # The field from before there could be several.
                self._calls.add_all(_dicts([value]), is_whole=is_whole)
            elif name not in _OF_A_MESSAGE and value:
                self._others.setdefault(name, []).append(value)

    def build(self) -> ModelReply:
        """The reply, once it is whole."""
        texts = {
            name: "".join(map(string, self._others[name])) for name in _TEXTS & self._others.keys()
        }
        return ModelReply(
            text="".join(self._text),
            calls=self._calls.calls(),
            reasoning="".join(self._reasoning),
            finish=self.finish or "stop",
            kept={name: joined(values) for name, values in self._others.items()} | texts,
            model=self.model,
            usage=self._tokens.usage,
            tokens=tuple(self._odds),
        )


def _tokens_in(logarithms: Any) -> Iterator[Token]:
    """The tokens of a reply, or of a piece of one, with their alternatives."""
    for each in _dicts(mapping(logarithms).get("content")):
        pairs = {}
        for one in (*_dicts(each.get("top_logprobs")), each):
            logarithm = one.get("logprob")
            if isinstance(logarithm, (int, float)):
                pairs[string(one.get("token"))] = math.exp(min(0.0, logarithm))
        yield Token(string(each.get("token")), tuple(pairs.items()))


_OF_A_CHUNK = frozenset({"id", "object", "created", "model", "system_fingerprint", "choices"})
_OF_A_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs"})


def _piece_in(part: Any) -> str | None:
    """The piece of text of a chunk that contains nothing else, as nearly all of thousands do."""
    if type(part) is not dict or not part.keys() <= _OF_A_CHUNK:
        return None
    choices = part.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if type(delta) is not dict or len(delta) != 1 or choice.get("finish_reason"):
        return None
    is_other = not choice.keys() <= _OF_A_CHOICE or choice.get("logprobs")
    if is_other or part.get("object") == "error":
        return None
    content = delta.get("content")
    return content if type(content) is str else None


def finish_of(reason: str) -> str:
    """A finish reason as this package names it: "length" for any that names a maximum.

    Servers have many names for one, such as ``model_length`` and ``MAX_TOKENS``. A token alone is
    none: ``eos_token`` is the end of a whole reply.
    """
    if re.search(r"length|max|limit|exceed|truncat", reason, re.IGNORECASE):
        return "length"
    return reason or "stop"


# ── complete and streamed bodies ──────────────────────────────────────────────────────────────────


def from_body(text: str, new_builder: Callable[[], ReplyBuilder] = CompletionBuilder) -> ModelReply:
    """Read a complete body; raises the same errors as `from_stream`."""
    data = parsed(text.strip())
    if data is None and text.lstrip().startswith("{") and not text.rstrip().endswith("}"):
        raise EOFError("the response ended in the middle of the reply")
    reply = new_builder()
    reply.add(data, text)
    if not reply.has_choice:
        raise NotACompletion(text)
    return reply.build()


def without_beginning(reply: ModelReply, ask: AskModel) -> ModelReply:
    """Only what is new in a continued reply: llama.cpp's bodies repeat its beginning.

    Its streams do not, so a piece of a stream that equals the beginning is new.
    """
    beginning = str(ask.messages[-1]["content"])
    return replace(reply, text=reply.text.removeprefix(beginning))


def from_stream(  # noqa: C901 - one loop, for speed
    chunks: Iterable[bytes], new_builder: Callable[[], ReplyBuilder] = CompletionBuilder
) -> Generator[Delta, None, ModelReply]:
    """Read a stream of server-sent events, or a complete body.

    Yields pieces of text, returns the reply. An EOFError from `chunks` (a broken connection) is
    ignored after a complete reply.

    Raises:
        NotACompletion: The body is neither a stream of events nor a reply, or has no choices.
        ServerError: The server sent an error instead of a reply.
        EOFError: The stream ended before the reply did, or it is not UTF-8, or the server aborted
            the reply.
    """
    reply = new_builder()
    last = ""  # the last event
    other: list[str] = []
    try:
        for found in events(chunks, other, reply.repeated):
            for event, data in found:
                if type(event) is Delta and not reply.is_over:
                    reply.add_text(event.text)
                    yield event
                    continue
                if event is None and data.startswith("[DONE]"):
                    reply.is_over = True
                if reply.is_over:
                    break
                if event is None and (reply.has_begun or data[0] == "{"):
                    raise EOFError(f"an event of the stream was not JSON: {data[:80]!r}")
                last = data
                yield from reply.add(event, data)
    except EOFError:
        if not reply.finish:
            raise
    if other and not reply.has_begun:
        # It is not a stream of events.
        return from_body("\n".join(other), new_builder)
    if not (reply.finish or reply.is_over):
        raise EOFError("the stream ended in the middle of the reply")
    if not reply.has_choice:
        raise NotACompletion(last)
    return reply.build()


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def _progress_in(part: dict[str, Any]) -> list[Delta]:
    """How much of the prompt llama.cpp has read, which it tells on request."""
    if not isinstance(progress := part["prompt_progress"], dict):
        return []
    read, total = (_count(progress, name) for name in ("processed", "total"))
    return [Delta("status", f"reading the prompt: {read:,} of {total:,} tokens")]


def _dicts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [each for each in value if isinstance(each, dict)]
    return []


# ── error objects ─────────────────────────────────────────────────────────────────────────────────


class ServerError(Exception):
    """An error from the server, as an HTTP status or instead of a reply.

    Attributes:
        message: Its text.
        status: The HTTP status; for an error in a body the status in its error object, or 500.
        codes: Further details of its error object, used to classify it; not shown.
        reply: A reply that the server generated and then rejected, or None.
        wait: Seconds to wait before a retry, if the server says so.
        to: The target of a redirect, without secrets; empty if there is none.
    """

    def __init__(
        self, message: str, status: int = 500, codes: str = "", reply: ModelReply | None = None
    ) -> None:
        # Without text, because older clients log it, and it may contain the key.
        super().__init__()
        self.message = message
        self.status = status
        self.codes = codes
        self.reply = reply
        self.wait: float | None = None
        self.to = ""

    @classmethod
    def from_response(cls, status: int, body: str, headers: Mapping[str, str], url: str) -> Self:
        """Read a response whose status is not 2xx; header names are in lower case."""
        data = parsed(body.strip())
        error = cls.from_object(data, body, status)
        error.wait = wait_told(headers, data, body)
        if 300 <= status < 400 and "location" in headers:
            with contextlib.suppress(ValueError):
                # It may be no URL.
                to = shown_url(urllib.parse.urljoin(url, headers["location"]))
                error.to = to.removesuffix("/chat/completions").removesuffix("/responses")
                error.to = error.to.removesuffix("/v1/messages")
        return error

    @classmethod
    def from_object(cls, data: Any, text: str, status: int = 0) -> Self:
        """Read an error object that was parsed from `text`; `status` is the HTTP status, if any."""
        error = _innermost(data)
        if not isinstance(error, dict):
            return cls(string(error) or text, status or 500)
        raw = str(mapping(error.get("metadata")).get("raw") or "")
        message = str(error.get("message") or error.get("detail") or "")
        provider_error = None
        if raw:
            # The error of the model's provider.
            provider_error = cls.from_object(parsed(raw.strip()), raw)
        if provider_error and message == "Provider returned error":
            message = f"{message}: {provider_error.message}"
        reply = None
        if provider_error:
            reply = provider_error.reply
        generated = string(error.get("failed_generation"))  # Groq's
        if generated or _code_of(error) == REFUSED:
            reply = ModelReply(generated or message, finish=REFUSED, usage=Usage(requests=1))
        codes = " ".join([*_details_of(error), raw]).strip()[:500]
        return cls(message or text, status or _status_in(error), codes, reply)


def _innermost(data: Any) -> Any:
    """The error itself, out of the lists and objects that servers put around it."""
    inner = data
    while True:
        if isinstance(inner, list) and len(inner) == 1:
            # As Gemini does.
            inner = inner[0]
        elif isinstance(inner, dict) and isinstance(inner.get("error"), (dict, str)):
            inner = inner["error"]
        else:
            return inner


def _code_of(error: Mapping[str, Any]) -> str:
    return str(error.get("code") or error.get("status_code"))


def _status_in(error: Mapping[str, Any]) -> int:
    """The HTTP status that an error names; 500 if it names none."""
    code = _code_of(error)
    if re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return 500


def _details_of(error: Mapping[str, Any]) -> list[str]:
    """The further parts of an error: code, type, lengths in tokens."""
    details = [str(error[key]) for key in ("code", "type") if error.get(key)]
    lengths = [key for key in ("n_prompt_tokens", "n_ctx") if error.get(key)]
    return details + [f"{key}={error[key]}" for key in lengths]


def raise_if_error(data: Any, text: str) -> None:
    """Raise ServerError if a chunk or choice contains an error, NotACompletion if it is invalid."""
    inner = data
    if isinstance(data, list) and len(data) == 1:
        inner = data[0]
    if isinstance(inner, dict) and (inner.get("error") or inner.get("object") == "error"):
        raise ServerError.from_object(inner, text)
    if not isinstance(data, dict):
        raise NotACompletion(text)


# ── costs ───────────────────────────────────────────────────────────────────────────────


def _count(data: Any, name: str) -> int:
    value = mapping(data).get(name)
    if isinstance(value, (int, float)) and 0 < value < 1e12:
        return int(value)
    return 0


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens: input, cached input, output."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """USD for these tokens."""
        uncached = max(0, usage.input_tokens - usage.cached_tokens)
        usd = uncached * self.input + usage.cached_tokens * self.cached
        return (usd + usage.output_tokens * self.output) / 1_000_000


@functools.lru_cache(maxsize=64)
def price_of(base_url: str, model: str) -> Price | None:
    """The price of a model at an endpoint, or None; very long prompts may cost more."""
    sent = cost_of(base_url, model, input_tokens=1000)
    cached = cost_of(base_url, model, input_tokens=1000, cache_read_tokens=1000)
    written = cost_of(base_url, model, output_tokens=1000)
    if sent is None or cached is None or written is None:
        return None
    return Price(*(round(usd * 1000, 6) for usd in (sent, cached, written)))


def cost_of(base_url: str, model: str, **tokens: int) -> float | None:
    """USD for tokens according to genai-prices, or None; `tokens` are fields of its ``Usage``."""
    try:
        prices = importlib.import_module("genai_prices")
        usage = prices.Usage(**tokens)
        return float(prices.calc_price(usage, model, provider_api_url=base_url).total_price)
    except (ImportError, LookupError, AttributeError, TypeError, ValueError):
        return None
