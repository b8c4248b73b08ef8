"""Reduces a request to the form in which it is recorded and compared.

Secrets, pictures and parts that may differ from run to run are replaced by placeholders.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.cassettes import DEFAULT
from archytas_nb.errors import ConfigurationError
from archytas_nb.hints import hinted_function
from archytas_nb.loop.descriptions import without_versions
from archytas_nb.loop.events import AskModel, Json, ModelReply, WireCall
from archytas_nb.models.secrets import known_secrets, mask_all

Scrub: TypeAlias = Callable[[str], str]
PartKind = Literal["message", "tool", "schema"]

# ── secrets ───────────────────────────────────────────────────────────────────────────────────────

_functions: dict[str, Scrub] = {}


@hinted_function
def cassette_scrub(function: Scrub) -> Scrub:
    """Register a function that removes your own secrets from everything that cassettes store.

    It applies to every cassette and every file of a map's results from now on, and replaces an
    earlier function of the same name. Usable as a decorator.

    Args:
        function: Takes a text and returns it without the secrets. It must be idempotent and
            deterministic, because a replay compares its results.

    Returns:
        The function itself.

    Raises:
        ConfigurationError: It is not callable.
    """
    if not callable(function):
        message = f"cassette_scrub expects a function from str to str, not {function!r}"
        raise ConfigurationError(message)
    _functions[getattr(function, "__qualname__", repr(function))] = function
    return function


def scrub(text: str) -> str:
    """The text without secrets; raises ConfigurationError where a scrub function is broken."""
    text = mask_all(text)
    for name, function in tuple(_functions.items()):
        text = _scrubbed(name, function, text)
    return text


def _scrubbed(name: str, function: Scrub, text: str) -> str:
    try:
        result = function(text)
        is_valid = isinstance(result, str) and function(result) == result
    except Exception as error:
        raise ConfigurationError(
            f"the scrub function {name!r} failed with {error!r}, so nothing was recorded: correct "
            "it, and ask again"
        ) from error
    if not is_valid:
        raise ConfigurationError(
            f"the scrub function {name!r} returned {str(result)[:60]!r}; expected a str that "
            "it leaves unchanged when it is called again, or replays could not match"
        )
    return result


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


def _check_pattern(name: str, pattern: Any) -> None:
    """Raise ConfigurationError for a name or pattern that is not valid."""
    try:
        is_valid = re.fullmatch(r"\w+", name) and not re.search(pattern, "")
    except (re.error, TypeError):
        is_valid = False
    if is_valid:
        return
    what = "not built in" if pattern is None else repr(pattern)
    raise ConfigurationError(
        f"the volatile part {name!r} is {what}; expected one of {', '.join(PATTERNS)}, or a name "
        "of letters, digits and _ with a regular expression that does not match the empty string: "
        '{"order": "ORD-[0-9]+"}'
    )


class Volatile:
    """Named patterns for parts of texts that may differ from run to run.

    They are given as names of built-in patterns, or as a mapping from names to regular expressions,
    where True stands for the built-in one. Patterns of the user are applied first.
    """

    def __init__(self, named: Iterable[str] | Mapping[str, Json] | None = None) -> None:
        if not isinstance(named, Mapping):
            words = named if isinstance(named, str) else " ".join(named or ())
            named = dict.fromkeys(words.replace(",", " ").split(), True)
        found: dict[str, Any] = {}
        for name, pattern in named.items():
            found[name] = PATTERNS.get(name) if pattern is True else pattern
            _check_pattern(name, found[name])
        own = {name: p for name, p in found.items() if p != PATTERNS.get(name)}
        built_in = {name: p for name, p in PATTERNS.items() if found.get(name) == p}
        self.patterns: dict[str, str] = own | built_in
        self._compiled = [(re.compile(p), f"{{{n}}}") for n, p in self.patterns.items()]

    def __call__(self, text: str) -> str:
        """The text with a placeholder such as ``{date}`` for each volatile part."""
        for pattern, placeholder in self._compiled:
            text = pattern.sub(placeholder, text)
        return text

    @property
    def header(self) -> Json:
        """The form in a file's header: patterns, or True where they are built in."""
        return {name: PATTERNS.get(name) == p or p for name, p in self.patterns.items()}


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


def _hash(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class RequestPart(NamedTuple):
    """A message, a tool or a schema as it is compared, and the hash that the file refers to."""

    kind: PartKind
    content: Json
    ref: str


@dataclass(frozen=True)
class Request:
    """A request to the model as it is compared; the step and the limit are not part of its key."""

    messages: tuple[RequestPart, ...]
    tools: tuple[RequestPart, ...] = ()
    schema: RequestPart | None = None
    model: str = DEFAULT
    step: int = 1
    max_tokens: int | None = None

    @functools.cached_property
    def key(self) -> str:
        """A hash of what the model reads: requests with the same key are the same."""
        messages = [part.ref for part in self.messages]
        tools = [part.ref for part in self.tools]
        schema = None
        if self.schema is not None:
            schema = self.schema.ref
        return _hash([messages, tools, schema, self.model])[:16]

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """All parts, in the order in which they are written."""
        if self.schema is None:
            return (*self.tools, *self.messages)
        return (*self.tools, self.schema, *self.messages)


class Matcher:
    """Reduces requests, replies and prompts to the form in which they are compared."""

    _PROSE = ("content", "text", "arguments", "reasoning_content", "reasoning")
    """Keys of a message whose texts may have volatile parts; roles, ids and names may not."""

    def __init__(self, volatile: Iterable[str] | Mapping[str, Json] | None = None) -> None:
        self._declared = Volatile(volatile)
        self.volatile = self._declared
        # A conversation of n steps sends each message n times; as messages never change, each is
        # reduced once. The message is kept with the result so that its id stays unique.
        self._known: dict[int, tuple[Any, RequestPart]] = {}
        self._state: object = None

    def use(self, named: Json) -> None:
        """Allow what the header of a file allows, too."""
        self.volatile = Volatile({**Volatile(named).patterns, **self._declared.patterns})

    def text(self, text: str) -> str:
        """The text without secrets and volatile parts."""
        return self.volatile(scrub(text))

    def request(self, ask: AskModel, model: str = DEFAULT) -> Request:
        """The request as it is compared."""
        state = [*_functions.values(), *known_secrets(), self.volatile]
        if state != self._state or len(self._known) > 10_000:
            self._known = {}
            self._state = state
        messages = tuple(self._known_part("message", each) for each in ask.messages)
        tools = tuple(self._known_part("tool", each) for each in ask.tools)
        schema = None
        if ask.schema is not None:
            schema = self.part("schema", ask.schema)
        return Request(messages, tools, schema, model, ask.step, ask.max_tokens)

    def part(self, kind: PartKind, content: Json) -> RequestPart:
        """A part of a request as it is compared."""
        content = self._reduced(content, "", is_message=kind == "message")
        return RequestPart(kind, content, _hash([kind, content])[:12])

    def reply(self, reply: ModelReply) -> ModelReply:
        """A reply as it is recorded: without secrets, its time in milliseconds."""
        calls = tuple(
            WireCall(
                scrub(c.name), scrub(c.arguments), self._reduced(c.extra, "", is_message=False)
            )
            for c in reply.calls
        )
        text = scrub(reply.text)
        # A secret is spread over several tokens, none of which shows it.
        tokens = reply.tokens if text == reply.text else ()
        return dataclasses.replace(
            reply,
            text=text,
            tokens=tokens,
            reasoning=scrub(reply.reasoning),
            calls=calls,
            kept=self._reduced(reply.kept, "", is_message=False),
            seconds=round(reply.seconds, 3),
        )

    def _known_part(self, kind: Any, content: Json) -> RequestPart:
        known = self._known.get(id(content))
        if known is None:
            known = (content, self.part(kind, content))
            self._known[id(content)] = known
        return known[1]

    def _reduced(self, value: Json, key: str, *, is_message: bool) -> Json:
        if isinstance(value, Mapping):
            return {n: self._reduced(v, n, is_message=is_message) for n, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._reduced(each, key, is_message=is_message) for each in value]
        if not isinstance(value, str):
            return value
        if is_message and key == "url" and value.startswith("data:"):
            return f"{value.partition(',')[0]},{{image}}"
        if is_message and key in self._PROSE:
            return self.text(without_versions(value))
        return scrub(value)
