"""Chat completions as they come over the wire → `ModelReply`: a whole body, or the lines of a stream.

Pure: no library, no connection. One ``json.loads`` a line; the servers' dialects are forgiven here.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from archytas_nb.react.events import Delta, ModelReply, Usage, WireCall


class NotACompletion(ValueError):
    """The bytes are no chat completion; the message is what came instead."""


class ErrorInReply(ValueError):
    """The server sent an error object where a completion was due; the message is what it said."""


def from_body(text: str) -> ModelReply:
    """Read a whole chat completion.

    Raises:
        NotACompletion: The text is no chat completion.
        ErrorInReply: The text is an error object.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        raise NotACompletion(text) from None
    _raise_error(data, text)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices:
        raise NotACompletion(text)
    message = choices[0].get("message") or {}
    return ModelReply(
        text=_text(message.get("content")),
        calls=tuple(_call(call.get("function") or {}) for call in message.get("tool_calls") or ()),
        reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
        finish=choices[0].get("finish_reason") or "stop",
        model=data.get("model") or "",
        usage=_usage(data.get("usage")),
    )


def from_lines(lines: Iterable[str]) -> Generator[Delta, None, ModelReply]:
    """Read a stream of server-sent events.

    Args:
        lines: The lines of the body, without their ends.

    Yields:
        Each piece of text as it comes.

    Returns:
        The whole reply.

    Raises:
        NotACompletion: No line of the stream was an event.
        ErrorInReply: The server sent an error in the stream.
        EOFError: The stream ended before the reply did.
    """
    stream = _Stream()
    other: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data = line[5:].strip()
            if data == "[DONE]":
                stream.ended = True
            elif data:
                yield from stream.take(data)
        elif line.strip() and not line.startswith((":", "event:", "id:", "retry:")):
            other.append(line)
    if stream.chunks == 0:
        if other:  # the server does not stream, or it is no such server
            return from_body("\n".join(other))
        if not stream.ended:
            raise EOFError("the stream was empty")
    return stream.reply()


class _Stream:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[Any, str, list[str]]] = []  # key, name, pieces of the arguments
        self._finish = self._model = ""
        self._usage = Usage()
        self.chunks = 0
        self.ended = False

    def take(self, data: str) -> Iterator[Delta]:
        try:
            chunk = json.loads(data)
        except json.JSONDecodeError:
            raise NotACompletion(data) from None
        _raise_error(chunk, data)
        self.chunks += 1
        self._model = chunk.get("model") or self._model
        if chunk.get("usage"):
            self._usage = _usage(chunk["usage"])
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if text := _text(delta.get("content")):
                self._text.append(text)
                yield Delta("text", text)
            if text := _text(delta.get("reasoning_content") or delta.get("reasoning")):
                self._reasoning.append(text)
                yield Delta("reasoning", text)
            for call in delta.get("tool_calls") or ():
                self._take_call(call)
            self._finish = choice.get("finish_reason") or self._finish

    def _take_call(self, call: dict[str, Any]) -> None:
        """Add a piece of a call. A new index or a new name begins a new call; ids are not to be trusted."""
        function = call.get("function") or {}
        name, arguments = function.get("name") or "", _text(function.get("arguments"))
        key = call.get("index")
        same = next((known for known in self._calls if known[0] == key), None) if key is not None else None
        if same is None and key is None and self._calls and not name:
            same = self._calls[-1]
        if same is not None and name and same[1] and (same[2] or name != same[1]):
            same = None  # a server that gives every call the index 0
        if same is None:
            self._calls = [
                known if known[0] != key or key is None else (None, *known[1:]) for known in self._calls
            ]
            self._calls.append((key, name, [arguments] if arguments else []))
        elif arguments:
            same[2].append(arguments)

    def reply(self) -> ModelReply:
        if not self._finish and not self.ended:
            raise EOFError("the stream ended in the middle of the reply")
        return ModelReply(
            text="".join(self._text),
            calls=tuple(WireCall(name, "".join(pieces)) for _, name, pieces in self._calls),
            reasoning="".join(self._reasoning),
            finish=self._finish or "stop",
            model=self._model,
            usage=self._usage if self._usage.requests else Usage(requests=1),
        )


def _raise_error(data: Any, text: str) -> None:
    if not isinstance(data, dict):
        raise NotACompletion(text)
    error = data.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise ErrorInReply(str(message or text))


def _text(content: Any) -> str:
    """Text content; some servers send a list of parts, some send null."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if isinstance(content, dict):  # arguments as an object instead of text
        return json.dumps(content)
    return content if isinstance(content, str) else ""


def _call(function: dict[str, Any]) -> WireCall:
    return WireCall(function.get("name") or "", _text(function.get("arguments")))


def _usage(data: Any) -> Usage:
    if not isinstance(data, dict):
        return Usage(requests=1)
    details = data.get("prompt_tokens_details") or {}
    return Usage(
        requests=1,
        input_tokens=data.get("prompt_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
        output_tokens=data.get("completion_tokens") or 0,
    )
