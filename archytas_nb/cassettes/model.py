"""A model whose replies come from a cassette, and a person whose answers do.

It knows the cassette and, where recording is allowed, whom to ask; it knows no file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from typing import Any, Literal, Protocol

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.values import DEFAULT, Speaker
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError, ModelErrorKind
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice
from archytas_nb.models.prices import Price

_STEERING = ("no_tools", "overflow")
"""Refusals that a run answers by asking in another way: they belong to the recording."""

_PASSING = ("retry", "protocol")
"""Notices of the endpoint's own troubles."""

_FACTS = ("protocol", "is_small", "context_tokens", "price", "server")
"""What a run reads of a model, beside its name."""


class Person(Protocol):
    """Somebody who may be asked."""

    @property
    def there(self) -> bool:
        """Whether anybody can be asked."""

    def ask(self, prompt: str) -> str:
        """Ask, and wait for the answer."""


class CassetteModel:
    """A model whose replies come from a cassette, or go into one.

    Args:
        cassette: The cassette.
        live: Makes the real model where a reply is not recorded; never called in a replay.
        called: What the notebook calls the model, where it has several.
    """

    def __init__(self, cassette: Cassette, live: Callable[[], Any], called: str = DEFAULT) -> None:
        self.cassette = cassette
        self._called = called
        self._origin = ""
        self._make_live = live
        self._live: Any = None
        self._unanswered: CassetteMiss | None = None

    def __repr__(self) -> str:
        return f"CassetteModel({str(self.cassette.path)!r}, {self.cassette.mode})"

    @property
    def name(self) -> str:
        """The recorded model's name, or the live one's while recording."""
        speaker = self.cassette.speaker(self._called)
        return speaker.name if speaker else str(self._real().name)

    @property
    def protocol(self) -> Literal["react", "native"]:
        """The wire form that was recorded, or the live model's while recording."""
        protocol: Literal["react", "native"] = self._fact("protocol")
        return protocol

    @property
    def is_small(self) -> bool:
        """Whether the model's answers are held against the outcomes."""
        return bool(self._fact("is_small"))

    @property
    def context_tokens(self) -> int | None:
        """The most tokens that the model takes, where that is known."""
        known: int | None = self._fact("context_tokens")
        return known

    @property
    def server(self) -> str:
        """Who served it, where it was found on the machine of the recording."""
        return self._fact("server") or ""

    @property
    def price(self) -> Price | None:
        """What tokens cost, where that is known."""
        price = self._fact("price")
        return Price(**price) if isinstance(price, dict) else price

    def begins(self, origin: str, execution: str = "") -> None:
        """A question begins; one of the same origin is asked again, and is given again what it was given.

        Args:
            origin: What asks, such as a cell; an empty text is nobody in particular.
            execution: Which run of the cell this is, where it may ask several questions in it.
        """
        self._origin, self._unanswered = origin, None
        self.cassette.begins(origin, execution)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """The recorded reply, or the live model's where recording is allowed.

        Raises:
            CassetteMiss: A replay was asked for something that was not recorded, or a person was since the last
                reply.
            ModelError: The live model's; or the recorded refusal of a request in this form.
        """
        if self._unanswered is not None:
            miss, self._unanswered = self._unanswered, None
            raise miss
        recorded = self.cassette.find(ask, self._called, self._origin)
        if recorded is not None:
            if recorded.reply is None:
                raise _refusal(recorded.fault)
            return recorded.reply
        if self.cassette.mode == "replay":
            raise self.cassette.miss(ask, self._called)
        before = self._facts()
        self._note_speaker(before)
        fault: ModelErrorKind | None = None
        reply: ModelReply | None = None
        try:
            # To the millisecond, as a replay gives it.
            reply = yield from _passing(self._real().complete(ask))
            reply = dataclasses.replace(reply, seconds=round(reply.seconds, 3))
        except ModelError as error:
            if error.kind not in _STEERING:
                raise
            fault = error.kind
        learned = {name: fact for name, fact in self._facts().items() if before.get(name) != fact}
        self.cassette.add(
            ask, reply, fault, model=self._called, origin=self._origin, learned=learned
        )
        if reply is None:
            raise _refusal(fault)
        return reply

    def person(self, real: Person) -> Person:
        """The person of the recording, and behind it the real one where recording is allowed."""
        return _RecordedPerson(self.cassette, real, self._origin, self._not_answered)

    def _not_answered(self, miss: CassetteMiss) -> None:
        """The first miss is the cause of the others."""
        self._unanswered = self._unanswered or miss

    def _fact(self, name: str) -> Any:
        speaker = self.cassette.speaker(self._called)
        return getattr(self._real(), name, None) if speaker is None else speaker.facts.get(name)

    def _facts(self) -> dict[str, Any]:
        """What is known of the live model now."""
        facts = {name: getattr(self._real(), name, None) for name in _FACTS}
        return {
            name: dataclasses.asdict(fact) if isinstance(fact, Price) else fact
            for name, fact in facts.items()
            if fact
        }

    def _note_speaker(self, facts: dict[str, Any]) -> None:
        if self.cassette.speaker(self._called) is None:
            self.cassette.name_speaker(self._called, Speaker(str(self._real().name), facts))

    def _real(self) -> Any:
        if self.cassette.mode == "replay":
            raise ConfigurationError(
                f"the cassette {str(self.cassette.path)!r} holds no exchange with a model. "
                f"Record it with a model at hand: {self.cassette.rerun}"
            )
        if self._live is None:
            self._live = self._make_live()
        return self._live


class _RecordedPerson:
    """A person whose answers are recorded, and replayed."""

    def __init__(
        self, cassette: Cassette, real: Person, origin: str, missed: Callable[[CassetteMiss], None]
    ) -> None:
        self._cassette = cassette
        self._real = real
        self._origin = origin
        self._missed = missed

    @property
    def there(self) -> bool:
        """Whether somebody answers: the recording, or a person while recording."""
        if self._cassette.mode == "replay":
            return self._cassette.has_answers
        return self._cassette.has_answers or self._real.there

    def ask(self, prompt: str) -> str:
        """The recorded answer, or the person's.

        Raises:
            EOFError: Nobody answers. Where that is because a replay asks what nobody was asked when it was
                recorded, the model's next reply is a `CassetteMiss`: this error is caught on its way, for a tool
                may fail.
        """
        recorded = self._cassette.answer(prompt, self._origin, there=self._real.there)
        if recorded is not None:
            return _said(recorded.answer)
        if self._cassette.mode == "replay":
            miss = self._cassette.miss_answer(prompt)
            self._missed(miss)
            raise EOFError(str(miss))
        # Where all is recorded anew and nobody is there, what the person said before is kept.
        answer = self._real.ask(prompt) if self._real.there else self._cassette.old_answer(prompt)
        self._cassette.add_answer(prompt, answer, self._origin)
        return _said(answer)


def _said(answer: str | None) -> str:
    if answer is None:
        raise EOFError("nobody is there to be asked")
    return answer


def _passing(
    asking: Generator[Delta | Notice, None, ModelReply],
) -> Generator[Delta | Notice, None, ModelReply]:
    """What a live model yields, its retries as mere progress: seen while it is asked, and then forgotten.

    A replay has none of them, and gives the same trace.
    """
    try:
        while True:
            event = next(asking)
            if isinstance(event, Notice) and event.kind in _PASSING:
                event = dataclasses.replace(event, kind="progress")
            yield event
    except StopIteration as ended:
        reply: ModelReply = ended.value
        return reply
    finally:
        asking.close()


def _refusal(kind: Any) -> ModelError:
    """A refusal in words of ours: the endpoint's own would name its address."""
    words = {
        "no_tools": "the endpoint takes no tools",
        "overflow": "the conversation is too long for the model",
    }
    return ModelError(words.get(kind, str(kind)), kind=kind)
