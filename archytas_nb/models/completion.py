"""Chat completions as they come over the wire → `ModelReply`: a whole body, or the bytes of a stream.

Pure: no library, no connection, no clock. The servers' dialects are forgiven here, and nowhere else; a reply that
was cut off is never taken for a whole one.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import Delta, ModelReply, Usage, WireCall
from archytas_nb.models.refusal import ErrorInReply, refused_generation, status_of, told_by
from archytas_nb.models.usage import usage_in

_READ = ("data:", "error:")
"""What the lines of a stream begin with that are read; older servers of llama.cpp send errors in the second."""


_GIVEN_UP = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""What OpenRouter, Zhipu, DeepSeek and SGLang say for an end when the machine behind them has failed."""
_FULL = frozenset({"max_tokens", "model_length"})
"""What others say for ``"length"``."""


_LONGEST_LOOKED_AT = 20_000
"""Characters of arguments up to which it is looked whether they are whole: each look reads all of them again."""


class NotACompletion(ValueError):
    """The bytes are no chat completion; the message is what came instead."""


def from_body(text: str) -> ModelReply:
    """Read a whole chat completion.

    Raises:
        NotACompletion: The text is no chat completion.
        ErrorInReply: The text is an error object.
        EOFError: The text is the beginning of a completion, or the server gave the reply up.
    """
    try:
        data = json.loads(text)
    except (
        ValueError,
        RecursionError,
    ):  # numbers of thousands of digits and too deep a nesting among them
        if text.lstrip().startswith('{"') and not text.rstrip().endswith("}"):
            raise EOFError("the body ended in the middle of the reply") from None
        raise NotACompletion(text) from None
    _raise_error(data, text)
    choices = _dicts(data.get("choices"))
    if not choices:
        raise NotACompletion(text)
    _raise_error(choices[0], text)
    message = _dict(choices[0].get("message"))
    calls = _dicts(message.get("tool_calls")) or [{"function": each} for each in _legacy(message)]
    return ModelReply(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        calls=tuple(map(_call, calls)),
        reasoning=_reasoning(message),
        finish=_finish(choices[0]),
        model=_word(data.get("model")),
        usage=usage_in(data) or usage_in(choices[0]) or Usage(requests=1),
    )


def from_stream(chunks: Iterable[bytes]) -> Generator[Delta, None, ModelReply]:
    """Read a stream of server-sent events.

    Args:
        chunks: The bytes of the body, cut anywhere. An EOFError of theirs says that the connection broke; it is
            passed over where the reply was already whole.

    Yields:
        Each piece of text as it comes.

    Returns:
        The whole reply.

    Raises:
        NotACompletion: The body is neither a stream of events nor a chat completion.
        ErrorInReply: The server sent an error in the stream.
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
    """Lines end with a line feed alone: `str.splitlines` would also cut inside of a JSON string."""
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

        Neither indices nor ids are to be trusted: there are servers that give each call the index 0, that
        give all calls one id, that give each piece a new id, and that repeat the name with each piece.
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
        """Whether the arguments so far are whole JSON; asked with each piece by servers that repeat the name."""
        if (
            self.size > _LONGEST_LOOKED_AT
            or not self.pieces
            or not self.pieces[-1].rstrip().endswith("}")
        ):
            return False
        try:
            return isinstance(json.loads("".join(self.pieces)), dict)
        except (ValueError, RecursionError):
            return False


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
        self._ended = False
        self.chunks = 0

    @property
    def whole(self) -> bool:
        return self._ended or bool(self._finish)

    def take(self, data: str) -> Sequence[Delta]:
        """Add an event; return the pieces of text that it brings: this runs for every token."""
        if data == "[DONE]":
            self._ended = True
            return ()
        if self._pending:
            self._pending.append(data)
            return ()
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            self._pending += [data] if data else []
            return ()
        return self._take_chunk(chunk, data)

    def _take_chunk(self, chunk: Any, data: str) -> Sequence[Delta]:
        self._take_head(chunk, data)
        pieces: list[Delta] = []
        for choice in _dicts(chunk.get("choices")):
            delta = choice.get("delta")
            if delta.__class__ is not dict or not delta:
                delta = _dict(choice.get("message"))
            text = delta.get("content")
            if text.__class__ is str and len(delta) == 1 + (
                "role" in delta
            ):  # most tokens say nothing else
                if text:
                    self._text.append(text)
                    pieces.append(Delta("text", text))
            else:
                self._take_delta(delta, pieces)
            if choice.get("finish_reason"):
                _raise_error(choice, data)
                self._finish = _finish(choice)
                self._usage = usage_in(choice) or self._usage
        return pieces

    def _take_head(self, chunk: Any, data: str) -> None:
        """What stands beside the choices; looked at only where it can say something."""
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
        for call in _dicts(delta.get("tool_calls")):
            self._take_call(call)
        for function in _legacy(delta):
            self._take_call({"index": 0, "function": function})

    def flush(self) -> Sequence[Delta]:
        """Called where an event ends: what is no JSON by then never will be."""
        if not self._pending:
            return ()
        data, self._pending = "\n".join(self._pending), []
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            if self.chunks or data.startswith("{"):
                raise EOFError(f"an event of the stream was not JSON: {data[:80]!r}") from None
            raise NotACompletion(data) from None
        return self._take_chunk(chunk, data)

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
        return ModelReply(
            text="".join(self._text),
            calls=tuple(
                WireCall(call.name, "".join(call.pieces), call.extra) for call in self._calls
            ),
            reasoning="".join(self._reasoning),
            finish=self._finish or "stop",
            model=self._model,
            usage=self._usage,
        )


def _raise_error(data: Any, text: str) -> None:
    told = (
        data[0] if isinstance(data, list) and len(data) == 1 else data
    )  # Gemini's errors stand in a list
    if isinstance(told, dict):
        error = told.get("error") or (told if told.get("object") == "error" else None)
        if error:
            message, codes = told_by(error)
            raise ErrorInReply(message or text, status_of(error), codes, refused_generation(error))
    if not isinstance(data, dict):
        raise NotACompletion(text)


def _text(content: Any) -> str:
    """Text content; some servers send a list of parts, some null, some arguments as an object."""
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


def _legacy(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The one call of servers from before there were tools."""
    function = message.get("function_call")
    return [function] if isinstance(function, dict) else []


def _call(call: dict[str, Any]) -> WireCall:
    function = _dict(call.get("function"))
    return WireCall(
        _word(function.get("name")), _text(function.get("arguments")), call.get("extra_content")
    )


def _finish(choice: dict[str, Any]) -> str:
    finish = _word(choice.get("finish_reason")) or "stop"
    if finish in _GIVEN_UP:
        raise EOFError(f"the server gave the reply up: finish_reason is {finish!r}")
    return "length" if finish in _FULL else finish


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
