"""A model whose replies come from a cassette, and a person whose answers do.

It knows the cassette and, where recording is allowed, whom to ask; it knows no file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from typing import Any, Literal, Protocol

from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError
from archytas_nb.models.cassette import Cassette
from archytas_nb.models.cassette_format import DEFAULT, Speaker
from archytas_nb.models.prices import Price
from archytas_nb.react.events import AskModel, Delta, ModelReply, Notice

_STEERING = ("no_tools", "overflow")
"""Refusals that a run answers by asking in another way: they belong to the recording."""

_FACTS = ("is_small", "context_tokens", "price")
"""What else a run may read of a model."""


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
        self._make_live = live
        self._live: Any = None

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
        speaker = self.cassette.speaker(self._called)
        protocol: Literal["react", "native"] = speaker.protocol if speaker else self._real().protocol
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
    def price(self) -> Price | None:
        """What tokens cost, where that is known."""
        price = self._fact("price")
        return Price(**price) if isinstance(price, dict) else price

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """The recorded reply, or the live model's where recording is allowed.

        Raises:
            CassetteMiss: A replay was asked for something that was not recorded.
            ModelError: The live model's; or the recorded refusal of a request in this form.
        """
        recorded = self.cassette.find(ask)
        if recorded is not None:
            if recorded.reply is None:
                raise _refusal(recorded.fault)
            return recorded.reply
        if self.cassette.mode == "replay":
            raise self.cassette.miss(ask)
        try:
            reply: ModelReply = yield from self._real().complete(ask)
        except CassetteMiss:
            raise
        except ModelError as error:
            if error.kind not in _STEERING:
                raise
            self._note_speaker()
            self.cassette.add(ask, None, error.kind)
            raise _refusal(error.kind) from error
        self._note_speaker()
        self.cassette.add(ask, reply)
        # To the millisecond, as a replay gives it.
        return dataclasses.replace(reply, seconds=round(reply.seconds, 3))

    def person(self, real: Person) -> Person:
        """The person of the recording, and behind it the real one where recording is allowed."""
        return _RecordedPerson(self.cassette, real)

    def _fact(self, name: str) -> Any:
        speaker = self.cassette.speaker(self._called)
        return getattr(self._real(), name, None) if speaker is None else speaker.facts.get(name)

    def _note_speaker(self) -> None:
        if self.cassette.speaker(self._called) is not None:
            return
        facts = {name: getattr(self._live, name, None) for name in _FACTS}
        known = {
            name: dataclasses.asdict(fact) if isinstance(fact, Price) else fact
            for name, fact in facts.items()
            if fact
        }
        self.cassette.name_speaker(self._called, Speaker(str(self._live.name), self._live.protocol, known))

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

    def __init__(self, cassette: Cassette, real: Person) -> None:
        self._cassette = cassette
        self._real = real

    @property
    def there(self) -> bool:
        """Whether somebody answers: the recording, or a person while recording."""
        if self._cassette.mode == "replay":
            return self._cassette.has_answers
        return self._cassette.has_answers or self._real.there

    def ask(self, prompt: str) -> str:
        """The recorded answer, or the person's.

        Raises:
            CassetteMiss: A replay was asked something that nobody was asked when it was recorded.
        """
        recorded = self._cassette.answer(prompt)
        if recorded is not None:
            return recorded
        if self._cassette.mode == "replay":
            raise CassetteMiss(
                f"the cassette {str(self._cassette.path)!r} holds no answer of a person to {prompt[:200]!r}. "
                f"Record what is missing: {self._cassette.rerun}",
                cause="question",
            )
        answer = self._real.ask(prompt)
        self._cassette.add_answer(prompt, answer)
        return answer


def _refusal(kind: Any) -> ModelError:
    """A refusal in words of ours: the endpoint's own would name its address."""
    words = {"no_tools": "the endpoint takes no tools", "overflow": "the conversation is too long for the model"}
    return ModelError(words.get(kind, str(kind)), kind=kind)
