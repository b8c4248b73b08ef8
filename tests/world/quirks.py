"""Features that an endpoint may refuse, and the words and wrappers in which it says so."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.world.world import Answer, Body, Quirk

LENGTHS = ("max_tokens", "max_completion_tokens")
PLAIN = frozenset(
    {"type", "properties", "required", "items", "description", "additionalProperties"}
)


def _functions(body: Body) -> list[Body]:
    return [tool["function"] for tool in body.get("tools") or ()]


def keywords(schema: Any) -> Iterator[str]:
    """The keywords of a schema and of those inside it."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            if name in ("properties", "$defs"):
                for each in value.values():
                    yield from keywords(each)
            elif name not in ("enum", "const", "default", "required"):
                yield from keywords(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from keywords(each)


def _names(body: Body) -> Iterator[str]:
    for function in _functions(body):
        yield function["name"]
        yield from (function.get("parameters") or {}).get("properties", {})


def has_keyword(*names: str) -> Callable[[Body], bool]:
    """Whether the schema of a tool has one of these keywords."""
    return lambda body: any(
        name in names for each in _functions(body) for name in keywords(each.get("parameters"))
    )


def longest(body: Body) -> int:
    """The number of tokens that a reply may have; 0 for no limit."""
    return max(body.get(name) or 0 for name in LENGTHS)


def _has_images(body: Body) -> bool:
    contents = [each.get("content") for each in body["messages"]]
    return any(part["type"] == "image_url" for c in contents if isinstance(c, list) for part in c)


FEATURES: dict[str, Callable[[Body], bool]] = {
    "stream": lambda body: bool(body.get("stream")),
    "stream_options": lambda body: "stream_options" in body,
    "max_tokens": lambda body: "max_tokens" in body,
    "any limit of tokens": lambda body: any(name in body for name in LENGTHS),
    "more than 8192 tokens": lambda body: longest(body) > 8192,
    "more than 1000 tokens": lambda body: longest(body) > 1000,
    "temperature": lambda body: body.get("temperature", 1) != 1,
    "seed": lambda body: "seed" in body,
    "reasoning_effort": lambda body: "reasoning_effort" in body,
    "parallel_tool_calls": lambda body: "parallel_tool_calls" in body,
    "tool_choice": lambda body: "tool_choice" in body,
    "response_format": lambda body: "response_format" in body,
    "images": _has_images,
    "system": lambda body: any(each["role"] == "system" for each in body["messages"]),
    "pattern": has_keyword("pattern"),
    "bounds": has_keyword("minimum", "maximum", "maxLength", "exclusiveMinimum"),
    "multipleOf": has_keyword("multipleOf"),
    "unions": has_keyword("anyOf", "oneOf"),
    "all but plain schemas": lambda body: any(
        name not in PLAIN for each in _functions(body) for name in keywords(each.get("parameters"))
    ),
    "names beyond ASCII": lambda body: any(not name.isascii() for name in _names(body)),
    "long descriptions": lambda body: any(
        len(each.get("description") or "") > 1024 for each in _functions(body)
    ),
    "turns": lambda body: any(
        one["role"] in ("tool", "user") and other["role"] == "user"
        for one, other in itertools.pairwise(body["messages"])
    ),
    "tools": lambda body: bool(body.get("tools")),
}
"""Whether a request has a feature, by the name of the feature."""


def openai(status: int, text: str) -> Any:
    """The form of OpenAI."""
    return {
        "error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}
    }


WRAPPERS: dict[str, Callable[[int, str], Any]] = {
    "openai": openai,
    "fastapi": lambda _, text: {"detail": text},
    "fastapi list": lambda _, text: {"detail": [{"loc": ["body"], "msg": text, "type": "value_error"}]},
    "bare": lambda _, text: {"message": text},
    "google": lambda status, text: [{"error": {"code": status, "message": text, "status": "INVALID_ARGUMENT"}}],
    "text": lambda _, text: text,
    "openrouter": lambda status, text: {
        "error": {"message": "Provider returned error", "code": status,
                  "metadata": {"raw": json.dumps(openai(status, text)), "provider_name": "X"}}
    },
    "nothing": lambda _status, _text: {},
}  # fmt: skip
"""The forms in which servers put the text of an error."""


@dataclass
class Refuses(Quirk):
    """Refuses requests that have a feature."""

    feature: str
    words: str = "Bad Request"
    status: int = 400
    wrapper: str = "openai"
    has: Callable[[Body], bool] | None = field(default=None, repr=False)

    def refuse(self, body: Body) -> Answer | None:
        has = self.has or FEATURES[self.feature]
        if not has(body):
            return None
        return refusal(self.status, self.words, self.wrapper)


def refusal(status: int, words: str, wrapper: str = "openai", **headers: str) -> Answer:
    """A refusal in one of the forms."""
    value = WRAPPERS[wrapper](status, words)
    if isinstance(value, str):
        return Answer(status, value.encode(), {"Content-Type": "text/plain", **headers})
    return Answer.of_json(status, value, **headers)


@dataclass
class Fails(Quirk):
    """Answers some requests with something else, by their numbers from 1, whatever they contain."""

    numbers: tuple[int, ...]
    sent: Answer
    _count: int = 0

    def refuse(self, body: Body) -> Answer | None:
        self._count += 1
        return self.sent if self._count in self.numbers else None


@dataclass
class Waits(Quirk):
    """Refuses the first requests and says how long to wait.

    Attributes:
        made: The answer, of the number of seconds.
    """

    made: Callable[[float], Answer]
    seconds: float
    times: int = 1

    def refuse(self, body: Body) -> Answer | None:
        self.times -= 1
        return self.made(self.seconds) if self.times >= 0 else None


BROKEN = {
    "a page": Answer(
        200, b"<html><title>Bad gateway</title></html>", {"Content-Type": "text/html"}
    ),
    "empty": Answer(200, b"", {"Content-Type": "application/json"}),
    "null": Answer(200, b"null", {"Content-Type": "application/json"}),
    "no choices": Answer(200, b'{"id": "x", "object": "chat.completion"}'),
    "text": Answer(200, b"upstream timed out", {"Content-Type": "text/plain"}),
    "no UTF-8": Answer(
        200, b'{"choices": [{"message": {"content": "\xff\xfe"}, "finish_reason": "stop"}]}'
    ),
}
"""Answers with status 200 that are no completion."""


def words_about(body: Body, name: str) -> str:
    """A text that quotes a field, with its value where the request has it."""
    value = body.get(name)
    return f"{name}={value!r}: " + re.sub(r"\W", " ", name)
