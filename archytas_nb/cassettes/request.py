"""From what is sent to the model to what is compared: without secrets, pictures and volatile parts.

It knows the form of messages; it knows no file and no recording.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from archytas_nb.cassettes.scrub import Scrubber
from archytas_nb.cassettes.values import Part, PartKind, Request, ref_of
from archytas_nb.cassettes.volatile import Volatile
from archytas_nb.loop.events import AskModel, Json, ModelReply, WireCall

IMAGE = "{image}"
_MOST_KNOWN = 10_000  # messages
_PROSE = ("content", "text", "arguments", "reasoning_content", "reasoning")
"""Keys of a message whose texts may have volatile parts; roles, ids and names may not."""


class Reader:
    """Reads requests into the form in which they are compared.

    Args:
        scrub: Takes secrets out.
        volatile: Puts placeholders in.
    """

    def __init__(self, scrub: Scrubber, volatile: Volatile) -> None:
        self.scrub = scrub
        self.volatile = volatile
        # A conversation of n steps sends each message n times. They are never changed, so each is read once;
        # the message itself is kept, for its id to stay its own.
        self._known: dict[int, tuple[Any, Part]] = {}
        self._state: object = None

    def use(self, volatile: Volatile) -> None:
        """Put other placeholders in from now on."""
        if volatile.said != self.volatile.said:
            self.volatile = volatile
            self._known.clear()

    def request(self, ask: AskModel, model: str) -> Request:
        """The request as it is compared; `model` is what the notebook calls the model."""
        self._look_again()
        messages = tuple(self._part("message", message) for message in ask.messages)
        tools = tuple(self._part("tool", tool) for tool in ask.tools)
        schema = None if ask.schema is None else self._fresh("schema", ask.schema)
        return Request(ask.step, messages, tools, schema, ask.max_tokens, model)

    def again(self, request: Request) -> Request:
        """A recorded request under the placeholders of now, which may be more than when it was recorded."""
        self._look_again()
        messages = tuple(self._part("message", part.content) for part in request.messages)
        tools = tuple(self._part("tool", part.content) for part in request.tools)
        schema = None if request.schema is None else self._part("schema", request.schema.content)
        return dataclasses.replace(request, messages=messages, tools=tools, schema=schema)

    def _look_again(self) -> None:
        """Forget what was read where there are secrets now that there were not then."""
        state = self.scrub.state
        if state != self._state:
            self._known.clear()
            self._state = state

    def text(self, text: str) -> str:
        """A text as it is compared."""
        return self.volatile(self.scrub(text))

    def reply(self, reply: ModelReply) -> ModelReply:
        """A reply as it is kept: as given, without secrets; times to the millisecond."""
        calls = tuple(
            WireCall(self.scrub(call.name), self.scrub(call.arguments)) for call in reply.calls
        )
        return dataclasses.replace(
            reply,
            text=self.scrub(reply.text),
            reasoning=self.scrub(reply.reasoning),
            calls=calls,
            seconds=round(reply.seconds, 3),
        )

    def _part(self, kind: PartKind, content: Json) -> Part:
        known = self._known.get(id(content))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[id(content)] = content, self._fresh(kind, content)
        return known[1]

    def _fresh(self, kind: PartKind, content: Json) -> Part:
        kept = _message(content, self) if kind == "message" else _every_text(content, self.scrub)
        return Part(kind, kept, ref_of(kind, kept))


def _message(message: Mapping[str, Json], reader: Reader, key: str = "") -> Json:
    """A message, or a piece of one that stands under `key`."""
    if isinstance(message, Mapping):
        return {name: _message(item, reader, name) for name, item in message.items()}
    if isinstance(message, (list, tuple)):
        return [_message(item, reader, key) for item in message]
    if not isinstance(message, str):
        return message
    if key == "url" and message.startswith("data:"):
        return f"{message.partition(',')[0]},{IMAGE}"
    return reader.text(message) if key in _PROSE else reader.scrub(message)


def _every_text(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _every_text(item, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_every_text(item, change) for item in value]
    return value
