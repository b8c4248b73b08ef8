"""The interface of a model: the three members that it needs, and the optional ones.

A model needs a name, a protocol and `complete`. Anything more is optional, also for models of
other packages; this module is the only one that looks whether a model has it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import date
from typing import Any, Protocol, TypeAlias

from archytas_nb.choices import ActiveProtocol
from archytas_nb.loop.events import (
    AskModel,
    Delta,
    Json,
    Message,
    ModelReply,
    Notice,
)

ReplyStream: TypeAlias = Generator[Delta | Notice, None, ModelReply]
"""Yields the pieces of a reply and the retries, returns the reply."""

FACTS = (
    "is_small",
    "context_tokens",
    "continues_replies",
    "has_grammars",
    "price",
    "server",
)
"""The names of the facts in `ModelFacts`; a cassette records them."""


class Model(Protocol):
    """The interface of a model."""

    @property
    def name(self) -> str:
        """The name, which is shown in the trace."""

    @property
    def protocol(self) -> ActiveProtocol:
        """The wire protocol that suits this model, for an agent with ``protocol="auto"``."""

    def complete(self, ask: AskModel) -> ReplyStream:
        """Yield the pieces of a reply and return it; raise ModelError if there is none."""


def is_model(value: object) -> bool:
    """Whether a value is an object that can be asked for replies."""
    return not isinstance(value, type) and callable(getattr(value, "complete", None))


def answers_itself(model: object) -> bool:
    """Whether a model needs no cassette: it is scripted, or has one already."""
    facts = ModelFacts(model)
    return (facts.is_scripted or facts.has_cassette) and not isinstance(model, type)


def batches_of(model: object) -> Any:
    """The batch API of a model's endpoint; None if a model has none."""
    batches = getattr(model, "batches", None)
    return batches() if callable(batches) and not isinstance(model, type) else None


class ModelFacts:
    """The known facts about a model.

    Each fact is read when it is asked for: some are known only after a reply, and others take a
    request to the endpoint.
    """

    def __init__(self, model: object) -> None:
        self._model = model

    @property
    def is_small(self) -> bool:
        """Whether it is a small model, which gets additional checks."""
        return bool(getattr(self._model, "is_small", False))

    @property
    def is_program(self) -> bool:
        """Whether another program takes its place: nobody here has asked the question."""
        return bool(getattr(self._model, "is_program", False))

    @property
    def context_tokens(self) -> int | None:
        """Maximum number of tokens in a conversation and its reply; None if it is not known."""
        return getattr(self._model, "context_tokens", None)

    @property
    def continues_replies(self) -> bool:
        """Whether its endpoint continues a reply that was begun, at no cost for the beginning."""
        return bool(getattr(self._model, "continues_replies", False))

    @property
    def has_grammars(self) -> bool:
        """Whether its endpoint constrains replies by a grammar."""
        return bool(getattr(self._model, "has_grammars", False))

    @property
    def price(self) -> Any:
        """The `Price` of its tokens; None if it is not known."""
        return getattr(self._model, "price", None)

    @property
    def server(self) -> str:
        """The kind of model server, such as ``"Ollama"``, if it was discovered on this machine."""
        return getattr(self._model, "server", "")

    @property
    def is_scripted(self) -> bool:
        """Whether its replies are part of a test, so that no cassette records them."""
        return bool(getattr(self._model, "is_scripted", False))

    @property
    def has_cassette(self) -> bool:
        """Whether its replies come from a cassette, or are kept elsewhere."""
        return hasattr(self._model, "cassette")

    @property
    def base_url(self) -> str:
        """The address of its endpoint; empty if it has none."""
        return str(getattr(self._model, "base_url", ""))

    @property
    def request_fields(self) -> Mapping[str, Json]:
        """The fields that the user adds to each request."""
        fields: Mapping[str, Json] = getattr(self._model, "request", {})
        return fields

    @property
    def instead_of(self) -> str:
        """A model server that was found and is not used, and why; empty if there is none."""
        return str(getattr(self._model, "instead_of", ""))

    @property
    def identity(self) -> str:
        """The identity of the model: its name as given, and the address of its endpoint."""
        return f"{self.given_name or ''} {self.base_url}".strip()

    @property
    def given_name(self) -> str | None:
        """The name that the user gave to it, without a request to the endpoint."""
        attribute = "name"
        if hasattr(self._model, "given_name"):
            attribute = "given_name"
        name: str | None = getattr(self._model, attribute, None)
        return name


# ── optional methods ──────────────────────────────────────────────────────────────────────────────


def start_question(model: object, origin: str, execution: str) -> None:
    """Tell a recorded model that a question begins, so that a cell gets the same replies again."""
    start = getattr(model, "start_question", None)
    if start is not None:
        start(origin, execution)


def person_of(model: object, person: Any, *, hides_values: bool = False) -> Any:
    """The person who is asked during a run; a recorded model records the answers as well.

    What the person is asked is not recorded if it may hold values that stay here.
    """
    recorded = getattr(model, "person", None)
    if recorded is None:
        return person
    if hides_values:
        return recorded(person, hides_values=True)
    return recorded(person)


def told_to(model: object, take: Callable[[], list[str]], question: str) -> Callable[[], list[str]]:
    """The function that returns messages of the person before each request, one after another.

    A recorded model records it as well, and tells it again in a replay.
    """
    recorded = getattr(model, "told", None)
    if recorded is None:
        return take
    told: Callable[[], list[str]] = recorded(take, question)
    return told


def request_body(model: object, ask: AskModel) -> dict[str, Json] | None:
    """The body of the request to the endpoint; None if the model has no endpoint."""
    body = getattr(model, "body", None)
    if body is None:
        return None
    request: dict[str, Json] = body(ask)
    return request


def without_retries(model: Any) -> Any:
    """A model that raises each failure immediately, if it can do so; else the model itself."""
    method = getattr(model, "without_retries", None)
    if method is None:
        return model
    return method()


def served_by(model: object) -> list[str] | None:
    """The names of the models that its endpoint serves; None if it does not list them."""
    served = getattr(model, "served", None)
    if served is None:
        return None
    names: list[str] = served()
    return names


def ends_of(model: object) -> dict[str, tuple[date, str]]:
    """The ends of its endpoint's models, and who announced them; empty if unknown."""
    method = getattr(model, "ends", None)
    if method is None:
        return {}
    ends: dict[str, tuple[date, str]] = method()
    return ends


def require(model: object) -> None:
    """Raise ConfigurationError if something is not installed that the model needs."""
    method = getattr(model, "require", None)
    if method is not None:
        method()


def forget_crash(model: object) -> None:
    """Let a local model start without safe mode again."""
    method = getattr(model, "forget_crash", None)
    if method is not None:
        method()


def warm(model: object, messages: Sequence[Message]) -> None:
    """Let a local model load and read the beginning of a conversation in the background."""
    method = getattr(model, "warm", None)
    if method is not None:
        method(messages)
