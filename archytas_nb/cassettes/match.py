"""Reduces a request to the form in which it is recorded and compared.

Secrets, pictures and parts that may differ from run to run are replaced by placeholders.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, Json, ModelReply, WireCall
from archytas_nb.models.secrets import passwords_in, replaced, without_shapes

Scrub: TypeAlias = Callable[[str], str]
PartKind = Literal["message", "tool", "schema"]
DEFAULT = "default"
"""The name in a cassette of a model that the notebook does not name."""

# ── secrets ───────────────────────────────────────────────────────────────────────────────────────

_SECRET_NAME = re.compile(
    r"(?:(?:^|_)(?:API)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)$"
    r"|_(?:PAT|PASS|PWD|PW|COOKIES?|CREDENTIALS?|KEY_ID|KEY_BASE)$|(?:^|_)SECRET_",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(r".{0,7}|\D{0,15}|\d*", re.DOTALL)
"""Short values, words and numbers are placeholders such as ``not-needed``, and no secrets."""

_functions: list[Scrub] = []


def cassette_scrub(function: Scrub) -> Scrub:
    """Register a function that removes your own secrets from everything that cassettes store.

    It applies to every cassette of this process from now on. A function replaces an earlier one
    of the same name, so a cell may be run again. Usable as a decorator.

    Args:
        function: Takes a text and returns it without the secrets. It must be idempotent and
            deterministic, because a replay compares its results.

    Returns:
        The function itself.

    Raises:
        ConfigurationError: It is not callable.

    Example:
        >>> @cassette_scrub
        ... def without_customers(text: str) -> str:
        ...     return re.sub(r"customer-[0-9]+", "customer-0", text)
    """
    if not callable(function):
        message = f"cassette_scrub takes a function from text to text, not {function!r}"
        raise ConfigurationError(message)
    name = _name_of(function)
    _functions[:] = [each for each in _functions if _name_of(each) != name]
    _functions.append(function)
    return function


def _name_of(function: Scrub) -> str:
    return getattr(function, "__qualname__", repr(function))


def _secrets_of_environment() -> Iterator[tuple[str, str]]:
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name):
            yield name, value
        elif "://" in value:
            yield from ((name, password) for password in passwords_in(value))


def _scrubbed(function: Scrub, text: str) -> str:
    name = f"the scrub function {_name_of(function)!r}"
    try:
        once = function(text)
        twice = function(once) if isinstance(once, str) else once
    except Exception as error:
        raise ConfigurationError(f"{name} failed with {error!r}: nothing was recorded") from error
    if not isinstance(once, str):
        raise ConfigurationError(f"{name} returned {once!r}; expected a text")
    if once != twice:
        raise ConfigurationError(
            f"{name} changes its own result ({once[:60]!r} becomes {twice[:60]!r}); it must be "
            "idempotent, or no recording could be found again"
        )
    return once


# ── parts that may differ ─────────────────────────────────────────────────────────────────────────

PATTERNS: dict[str, str] = {
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "address": r"\b0x[0-9a-fA-F]{4,}\b",
    "path": r"(?<![\w:/.{}<])/(?:[\w.@+~-]+/)+[\w.@+~-]*|\b[A-Za-z]:\\[^\s\"'<>|*?]+",
    "date": r"\b\d{4}(?:-\d{2}-|/\d{2}/)\d{2}(?=\b|T\d)|\b\d{1,2}(?:\.\d{1,2}\.|/\d{1,2}/)\d{4}\b",
    "time": (
        r"(?:(?<![\w:])|(?<=[\d}]T))\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
        r"(?:Z|[+-]\d{2}:?\d{2})?(?!\w|:\w)"
    ),
    "number": r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?(?![\w])",
}
"""Built-in patterns in the order in which they are applied: a date contains numbers."""


class Volatile:
    """Named patterns for parts of texts that may differ from run to run.

    They are given as names of built-in patterns, or as a mapping from names to regular expressions,
    where True stands for the built-in one. Patterns of the user are applied first.
    """

    def __init__(self, named: Iterable[str] | Mapping[str, Json] | None = None) -> None:
        words = named if isinstance(named, str) else " ".join(named or ())
        given: Mapping[str, Json] = dict.fromkeys(words.replace(",", " ").split(), True)
        given = named if isinstance(named, Mapping) else given
        own = {n: p for n, p in given.items() if p not in (True, None, PATTERNS.get(n))}
        for name, pattern in own.items():
            try:
                is_valid = re.fullmatch(r"\w+", name) and not re.search(pattern, "")
            except (re.error, TypeError):
                is_valid = False
            if not is_valid:
                raise ConfigurationError(
                    f"the volatile part {name!r} is {pattern!r}; expected a name of letters, "
                    "digits and _, and a regular expression that does not match an empty text"
                )
        if unknown := [n for n in given if n not in own and n not in PATTERNS]:
            raise ConfigurationError(
                f"no volatile part is named {unknown[0]!r}; there are {', '.join(PATTERNS)}, and a "
                'name of your own takes a regular expression: {"order": "ORD-[0-9]+"}'
            )
        built_in = {n: p for n, p in PATTERNS.items() if n in given and n not in own}
        self.patterns: dict[str, str] = own | built_in
        self._compiled = [(re.compile(p), f"{{{n}}}") for n, p in self.patterns.items()]

    def __call__(self, text: str) -> str:
        """The text with a placeholder such as ``{date}`` for each volatile part."""
        for pattern, placeholder in self._compiled:
            text = pattern.sub(placeholder, text)
        return text

    @property
    def header(self) -> Json:
        """The form in a file's header: names, with patterns where they are not built in."""
        named = {name: PATTERNS.get(name) == p or p for name, p in self.patterns.items()}
        return named if any(p is not True for p in named.values()) else list(named) or None


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


def _hash(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Part(NamedTuple):
    """A message, a tool or a schema as it is compared, and the hash that the file refers to."""

    kind: PartKind
    content: Json
    ref: str


@dataclass(frozen=True)
class Request:
    """A request to the model as it is compared; the step and the limit are no part of its key."""

    messages: tuple[Part, ...]
    tools: tuple[Part, ...] = ()
    schema: Part | None = None
    model: str = DEFAULT
    step: int = 1
    max_tokens: int | None = None

    @functools.cached_property
    def key(self) -> str:
        """A hash of what the model reads: requests with the same key are the same."""
        refs = [[part.ref for part in parts] for parts in (self.messages, self.tools)]
        return _hash([*refs, self.schema and self.schema.ref, self.model])[:16]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in the order in which they are written."""
        return (*self.tools, *([self.schema] if self.schema else []), *self.messages)


class Matcher:
    """Reduces requests, replies and prompts to the form in which they are compared."""

    IMAGE = "{image}"
    _PROSE = ("content", "text", "arguments", "reasoning_content", "reasoning")
    """Keys of a message whose texts may have volatile parts; roles, ids and names may not."""
    _MAX_KNOWN = 10_000  # parts

    def __init__(
        self,
        scrub: Scrub | None = None,
        volatile: Iterable[str] | Mapping[str, Json] | None = None,
    ) -> None:
        self.volatile = self._declared = Volatile(volatile)
        self._function = scrub
        self._hidden: dict[str, str] = {}
        # A conversation of n steps sends each message n times; as messages never change, each is
        # reduced once. The message is kept with the result so that its id stays unique.
        self._known: dict[int, tuple[Any, Part]] = {}
        self._state: object = None

    def hide(self, name: str, value: str) -> None:
        """Replace a value, such as a key, by its name."""
        self._hidden[name] = value

    def use(self, named: Json) -> None:
        """Allow what the header of a file allows, too."""
        self.volatile = Volatile({**Volatile(named).patterns, **self._declared.patterns})

    def scrub(self, text: str) -> str:
        """The text without secrets; raises ConfigurationError where a scrub function is broken."""
        for name, value in (*self._hidden.items(), *_secrets_of_environment()):
            if not _NO_SECRET.fullmatch(value):
                text = replaced(text, value, f"{{{name}}}")
        text = without_shapes(text)
        for function in self._functions:
            text = _scrubbed(function, text)
        return text

    def text(self, text: str) -> str:
        """The text without secrets and volatile parts."""
        return self.volatile(self.scrub(text))

    def request(self, ask: AskModel, model: str = DEFAULT) -> Request:
        """The request as it is compared."""
        # What was reduced may contain a secret that was not known as one at the time.
        hidden = *self._hidden.items(), *_secrets_of_environment()
        state = [*self._functions, *hidden, self.volatile]
        if state != self._state:
            self._known.clear()
            self._state = state
        return Request(
            tuple(self._known_part("message", message) for message in ask.messages),
            tuple(self._known_part("tool", tool) for tool in ask.tools),
            None if ask.schema is None else self.part("schema", ask.schema),
            model,
            ask.step,
            ask.max_tokens,
        )

    def part(self, kind: PartKind, content: Json) -> Part:
        """A part of a request as it is compared."""
        content = self._reduced(content, "", is_message=kind == "message")
        return Part(kind, content, _hash([kind, content])[:12])

    def reply(self, reply: ModelReply) -> ModelReply:
        """A reply as it is recorded: without secrets, its time in milliseconds."""
        calls = tuple(WireCall(self.scrub(c.name), self.scrub(c.arguments)) for c in reply.calls)
        text, reasoning = self.scrub(reply.text), self.scrub(reply.reasoning)
        kept = dataclasses.replace(reply, text=text, reasoning=reasoning, calls=calls)
        return dataclasses.replace(kept, seconds=round(reply.seconds, 3))

    @property
    def _functions(self) -> list[Scrub]:
        return _functions if self._function is None else [self._function]

    def _known_part(self, kind: PartKind, content: Json) -> Part:
        known = self._known.get(id(content))
        if known is None:
            if len(self._known) >= self._MAX_KNOWN:
                self._known.clear()
            known = self._known[id(content)] = content, self.part(kind, content)
        return known[1]

    def _reduced(self, value: Json, key: str, *, is_message: bool) -> Json:
        if isinstance(value, Mapping):
            return {n: self._reduced(v, n, is_message=is_message) for n, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._reduced(each, key, is_message=is_message) for each in value]
        if not isinstance(value, str):
            return value
        if is_message and key == "url" and value.startswith("data:"):
            return f"{value.partition(',')[0]},{self.IMAGE}"
        return self.text(value) if is_message and key in self._PROSE else self.scrub(value)
