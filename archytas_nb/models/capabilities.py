"""The features of an endpoint that are known from replies and refusals, also of the last days."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.choices import ActiveProtocol
from archytas_nb.loop.events import Message
from archytas_nb.models import learnt
from archytas_nb.models.learnt import Learnt
from archytas_nb.models.providers import OPENAI_URL, reasons

Api: TypeAlias = Literal["openai", "chat", "responses", "anthropic"]
"""``"openai"`` is either of the next two: chat completions, or the Responses API."""


@dataclass(frozen=True, slots=True)
class Change:
    """A feature of a request that can be left out, or given in another way.

    Attributes:
        feature: Its name in `features.FEATURES`.
        part: Which one, if there are several: a field, a tool.
        without: The form without it.
        what: The part that is left out, as a noun.
        told: The loss, for a person; empty if there is none.
        score: How much the words of a refusal speak of it.
        is_rare: Whether few requests have it, so that it is left out first.
        is_grouped: Whether it can be left out together with others; otherwise it is only tried
            where the words speak of it.
        adds: The field that it adds, if it does.
        value: The value in the request, where another one may be refused: a digest.
    """

    feature: str
    part: str
    without: Callable[[Capabilities], Capabilities] = field(compare=False, repr=False)
    what: str = field(compare=False)
    told: str = field(default="", compare=False)
    score: float = field(default=0, compare=False)
    is_rare: bool = field(default=False, compare=False)
    is_grouped: bool = field(default=True, compare=False)
    adds: str = field(default="", compare=False)
    value: str = field(default="", compare=False)
    is_number: bool = field(default=False, compare=False)  # a lower limit

    @property
    def key(self) -> tuple[str, str]:
        """Its subject."""
        return (self.feature, self.part)

    @property
    def sent(self) -> tuple[str, str, str]:
        """Its subject, with the value in the request."""
        return (self.feature, self.part, self.value)


class InText(NamedTuple):
    """A search for a form of a request that goes on with the text protocol.

    Attributes:
        before: The form with all features but tools.
        needed: The other features that are refused.
        used: The number of further requests that it has made.
    """

    before: Capabilities
    needed: tuple[Change, ...]
    used: int


class Conversation(NamedTuple):
    """The properties of messages that decide the form of a request.

    Attributes:
        messages: All of them.
        characters: Their number, about.
        has_images: Whether one of them has an image.
        has_null: Whether the content of one of them is null.
    """

    messages: tuple[Message, ...] = ()
    characters: int = 1
    has_images: bool = False
    has_null: bool = False


@dataclass(slots=True)
class Seen:
    """The observations of this process about a model at an endpoint.

    Attributes:
        accepted: The features, with their values, of requests that were answered.
        passed: The parts of the last answered requests that decide about that.
        largest: Characters of the largest conversation that was answered; 0 before the first.
        last: The last conversation that was answered.
        failures: How often the server failed in a row.
        vain: The features that were left out without success, and when; None after a reply.
        is_too_long: Whether the last refusal was taken for one of the length of the conversation.
        in_text: A search that goes on with the text protocol.
        unconfirmed: Parts left out of a request that was answered after the server had failed.
        doubted: Groups of changes that were made together; each group is taken back with one of the
            next requests of the question, to find out which of them are needed.
        base: The form without all of these changes.
        refusals_left: How many of these requests may still be refused.
    """

    accepted: set[tuple[str, str, str]] = field(default_factory=set)
    passed: list[Any] = field(default_factory=list)
    largest: int = 0
    last: Conversation = field(default_factory=Conversation)
    failures: int = 0
    vain: tuple[frozenset[tuple[str, str]], float] | None = None
    is_too_long: bool = False
    in_text: InText | None = None
    unconfirmed: tuple[Change, ...] = ()
    doubted: list[tuple[Change, ...]] = field(default_factory=list)
    base: Capabilities | None = None
    refusals_left: int = 0

    @property
    def has_replied(self) -> bool:
        """Whether there was any reply."""
        return self.largest > 0


@dataclass(slots=True)
class Capabilities:
    """The known features of an endpoint, and so the form of one request."""

    schema: bool = True  # a JSON schema for the reply
    grammars: bool = False  # a grammar for the reply (llama.cpp)
    strict: bool = False  # enforced schemas of tools (Anthropic)
    tools: bool = True  # function calling
    # Whether calls were sent as such or in the text.
    calls: Literal["unknown", "native", "in_text"] = "unknown"
    stream: bool = True
    system: bool = True  # a system prompt
    null_content: bool = True  # a message without content; otherwise it is an empty text
    # A message of the user after a tool's, or after another one; otherwise a reply is put between
    # them, which the model did not write.
    free_turns: bool = True
    has_limit: bool = True  # a maximum number of reply tokens
    length_field: str = "max_tokens"  # the field of that number
    max_reply_tokens: int | None = None  # the endpoint's limit for it, if known
    context_tokens: int | None = None  # of a conversation and its reply, if known
    images: int | None = None  # maximum number in a request; None for no limit
    unseen: frozenset[str] = frozenset()  # digests of images that it rejects
    shapes: frozenset[tuple[str, str]] = frozenset()  # of tools; see `shapes.py`
    without: frozenset[str] = frozenset()  # fields that it rejects
    thinks: bool = False  # a reply contained only reasoning, so it needs more tokens
    thoughts: bool = False  # requires the model's thoughts in the history (DeepSeek, Kimi)
    responses: bool = False  # the Responses API, not chat completions
    efforts: frozenset[tuple[str, str]] = frozenset()  # those that it rejects, and another instead
    reasons_with_tools: bool = True  # accepts tools without ``reasoning_effort="none"``
    # Fields of replies that are not ours: whether they are sent back; or calls without one are
    # marked, because it is required (Gemini).
    extras: Literal["unwanted", "returned", "required"] = "returned"
    changes: tuple[Change, ...] = field(default=(), compare=False)  # that led to this form
    seen: Seen = field(default_factory=Seen, compare=False, repr=False)

    @property
    def protocol(self) -> ActiveProtocol:
        """Function calling if it works, otherwise the text protocol with a schema."""
        if self.tools and self.calls != "in_text":
            return "native"
        return "react"

    def effort(self, wanted: Any) -> Any:
        """A level of effort that it takes in place of another."""
        instead = dict(self.efforts)
        while isinstance(wanted, str) and wanted in instead:
            wanted = instead[wanted]
        return wanted

    def take(self, form: Capabilities) -> None:
        """Take over all that a form says."""
        for each in fields(self):
            setattr(self, each.name, getattr(form, each.name))

    def with_changes(self, changes: Iterable[Change]) -> Capabilities:
        """The form after more changes."""
        form = replace(self)
        for change in changes:
            if change not in form.changes:
                form = replace(change.without(form), changes=(*form.changes, change))
        return form


_SETS = ("without", "unseen", "shapes", "efforts")
_PLAIN = (
    "schema", "strict", "tools", "stream", "system", "null_content", "free_turns", "has_limit",
    "length_field", "max_reply_tokens", "images", "thoughts", "reasons_with_tools", "extras",
    "responses",
)  # fmt: skip
"""The attributes that are kept in the file of what was learnt."""


@functools.cache
def capabilities_of(base_url: str, model: str, api: Api) -> Capabilities:
    """The features of this model at this endpoint, shared within the process."""
    found = _at_first(base_url, model, api)
    for entry in learnt.entries(base_url):
        if entry.key[:3] == (base_url, model, api):
            _apply(found, entry.changes)
    return found


def _at_first(base_url: str, model: str, api: Api) -> Capabilities:
    if api == "anthropic":
        only = frozenset({"max_completion_tokens"})  # there is no other name for max_tokens
        return Capabilities(strict=True, without=only)
    official = base_url.startswith(OPENAI_URL)
    responses = api == "responses" or (api == "openai" and official and reasons(model))
    return Capabilities(
        length_field="max_completion_tokens" if official else "max_tokens",
        responses=responses,
        strict=responses,
    )


def _apply(found: Capabilities, changes: dict[str, Any]) -> None:
    """Set attributes from an entry of the file; values of another kind are skipped."""
    for name, value in changes.items():
        if name in _SETS and isinstance(value, list):
            added = frozenset(tuple(each) if isinstance(each, list) else each for each in value)
            setattr(found, name, getattr(found, name) | added)
        elif name in _PLAIN and isinstance(value, (bool, int, str)):
            setattr(found, name, value)


def remember(
    at: tuple[str, str, str],
    before: Capabilities,
    changes: Iterable[Change],
    dropped: Iterable[Change] = (),
) -> None:
    """Keep in the file what an endpoint refused.

    Args:
        at: The endpoint's address, the model and the API.
        before: The form without the changes.
        changes: The changes that it needs.
        dropped: The changes that it does not need after all.
    """
    entries = []
    form = before
    for change in changes:
        after = change.without(form)
        entries.append(Learnt(*at, *change.key, change.told, _difference(form, after), time.time()))
        form = after
    learnt.remember(entries, [(*at, *change.key) for change in dropped])


def _difference(before: Capabilities, after: Capabilities) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _SETS:
        if added := getattr(after, name) - getattr(before, name):
            is_pairs = name in ("shapes", "efforts")
            found[name] = sorted(map(list, added)) if is_pairs else sorted(added)
    for name in _PLAIN:
        if getattr(after, name) != getattr(before, name):
            found[name] = getattr(after, name)
    return found
