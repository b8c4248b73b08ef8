"""Reads the tokens of a reply from what a server reports, in any spelling. Nothing is estimated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

from archytas_nb.loop.events import Json, Usage

_MOST = 1e12
_DEPTH = 4
_INPUT = re.compile(r"(?:prompt|input)(?!.*cache).*token")
_OUTPUT = re.compile(r"(?:completion|output|candidates?|generated|response)(?!.*cache).*token")
_TOTAL = re.compile(r"total.*token")
_CACHED = re.compile(r"(?<!un)(?<!non)(?<!not)cached|cache.*(?:read|hit)|(?:read|hit).*cache")
_WRITTEN = re.compile(r"cache.*(?:writ|creat)|(?:writ|creat).*cache")
_REASONING = re.compile(r"reason|think|thought")
_NO_TOKENS = re.compile(r"cost|price|usd|rate|ratio|persec|speed|percent|discount|seconds|duration")


@dataclass(frozen=True, slots=True)
class Tokens:
    """The usage that a server reports for one reply; 0 for missing numbers."""

    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0  # read from a cache
    written: int = 0  # to a cache
    reasoning: int = 0
    usd: float = 0.0

    def updated(self, later: Self) -> Self:
        """With what is reported later: the last number counts, but a zero replaces none."""
        return type(self)(
            *(getattr(later, each.name) or getattr(self, each.name) for each in fields(self))
        )

    @property
    def usage(self) -> Usage:
        """The usage of one request; the cached tokens are included in the input tokens.

        What the total has besides the prompt and the output is either the cached part of the
        prompt, if it is exactly that, or output that the server does not count as such, like
        reasoning.
        """
        sent, output = self.input, self.output
        rest = max(0, self.total - sent - output) if sent else 0
        beside = self.cached + self.written
        if self.cached > sent or (rest and rest in (self.cached, beside)):
            sent += beside
        elif rest:
            output += rest
        if self.reasoning > output:
            output += self.reasoning
        return Usage(1, sent, min(sent, self.cached), output, self.usd)

    @classmethod
    def in_object(cls, usage: Json) -> Self:
        """Read a usage object. Cached tokens and reasoning may also be in objects inside it."""
        found: dict[str, int] = {}
        for path, number in _numbers(usage, ""):
            outer, _, name = path.rpartition("/")
            if _NO_TOKENS.search(path):
                continue
            kind = _kind(name, path, is_inside=bool(outer))
            if kind:
                found[kind] = max(found.get(kind, 0), number)
        cost = usage.get("cost") if isinstance(usage, dict) else None
        usd = 0.0
        if isinstance(cost, (int, float)) and 0 < cost < 1e6:
            # As OpenRouter does.
            usd = float(cost)
        return cls(**found, usd=usd)


def _kind(name: str, path: str, *, is_inside: bool) -> str:
    """The meaning of a number, by its name and those of the objects around it; or nothing."""
    if _WRITTEN.search(path):
        return "written"
    if _CACHED.search(path):
        return "cached"
    if _REASONING.search(name):
        return "reasoning"
    if is_inside:
        return ""
    patterns = {"total": _TOTAL, "input": _INPUT, "output": _OUTPUT}
    return next((kind for kind, pattern in patterns.items() if pattern.match(name)), "")


def _numbers(value: Json, path: str, depth: int = 0) -> Iterator[tuple[str, int]]:
    """The positive numbers in an object with their paths, of letters only."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return
    for key, each in value.items():
        inner = f"{path}{re.sub('[^a-z]', '', str(key).casefold())}"
        if isinstance(each, (int, float)) and not isinstance(each, bool) and 0 < each < _MOST:
            yield inner, int(each)
        else:
            yield from _numbers(each, f"{inner}/", depth + 1)


def tokens_in(part: dict[str, Any]) -> Tokens | None:
    """The tokens that a body, a chunk or an object inside it reports; None if none does."""
    found = None
    level: list[dict[str, Any]] = [part]
    for _ in range(_DEPTH):
        inner: list[dict[str, Any]] = []
        for each in level:
            for key, value in each.items():
                if isinstance(value, dict) and "usage" in str(key).casefold():
                    tokens = Tokens.in_object(value)
                    found = tokens if found is None else found.updated(tokens)
                elif isinstance(value, dict):
                    inner.append(value)
                elif isinstance(value, list) and value and isinstance(value[0], dict):
                    inner.append(value[0])
        level = inner
    return found
