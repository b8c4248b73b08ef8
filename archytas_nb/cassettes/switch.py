"""Chooses the cassette in use, and puts it in front of a model.

It is imported for every agent, so it imports the cassette itself only where one is in use. There is
one `Cassette` per file and mode in a process, so that agents share its exchanges.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from archytas_nb.cassettes import DEFAULT
from archytas_nb.choices import ActiveProtocol
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError, ModelErrorKind
from archytas_nb.loop.decision import UnansweredError
from archytas_nb.loop.events import (
    ApprovalForm,
    AskModel,
    Delta,
    ModelReply,
    Notice,
    UserQuestion,
)
from archytas_nb.loop.model import FACTS, ModelFacts, answers_itself
from archytas_nb.models import secrets
from archytas_nb.models.choose import Confirm, ModelSettings, choose_model
from archytas_nb.settings import UNSET, configured

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.cassettes.file import RecordedAnswer, RecordedReply
    from archytas_nb.kernel.person import Person

PATH = "ARCHYTAS_NB_CASSETTE"
MODE = "ARCHYTAS_NB_CASSETTE_MODE"
REPORT = "ARCHYTAS_NB_CASSETTE_REPORT"  # a folder for the tallies of cassettes
RERUN = "ARCHYTAS_NB_CASSETTE_RERUN"  # the command that records what is missing, for messages


@dataclass(slots=True)
class _State:
    """The cassettes of this process, and the settings that choose the one in use."""

    open: dict[tuple[Path, str], Cassette] = field(default_factory=dict)
    inserted: tuple[Path | None, str] | None = None
    configured: tuple[Path | None, str] = (None, "")
    seen: dict[str, Path] = field(default_factory=dict)


_state = _State()
_numbers = itertools.count(1)


def insert_cassette(
    path: str, mode: str | None = None, volatile: Iterable[str] = (), *, force: bool = False
) -> Cassette | None:
    """Use a cassette from its beginning for all questions of this process from now on.

    An empty path means no cassette, also where the configuration names one. A mode in the
    environment takes precedence. If the cassette cannot be used, the earlier one stays in use.
    """
    chosen = os.environ.get(MODE) or mode or "auto"
    cassette = None
    if path and chosen != "off":
        cassette = _opened(path, chosen, volatile, force=force)
        _state.open[cassette.where, chosen] = cassette
    _state.inserted = _absolute(path), mode or "auto"
    return cassette


def configure_cassette(path: str, mode: str = "") -> None:
    """Set the cassette of a configuration. Precedence: inserted, configured, environment."""
    _state.configured = _absolute(path), mode


def cassette_in_use() -> Cassette | None:
    """The cassette that answers now, or None; raises ConfigurationError where it cannot be used."""
    path, mode = _state.inserted or _state.configured
    named = os.environ.get(PATH)
    if path is None and _state.inserted is None and named:
        path = _state.seen.setdefault(named, Path(named).expanduser().absolute())
    chosen = os.environ.get(MODE) or mode or "auto"
    if path is None or chosen == "off":
        return None
    if (path, chosen) not in _state.open:
        shown = path
        if path.is_relative_to(Path.cwd()):
            shown = path.relative_to(Path.cwd())
        _state.open[path, chosen] = _opened(shown, chosen, ())
    return _state.open[path, chosen]


def recorded(
    model: Any = None,
    settings: ModelSettings | None = None,
    cassette: Cassette | None = None,
    confirm: Confirm | None = None,
) -> Any:
    """A model that answers from a cassette (None: the one in use), or the model without one.

    A model that is given by its name, or by None, is made only when it is called; a replay never
    calls it. Raises ConfigurationError if there is no such model, or no such cassette.
    """
    if answers_itself(model):
        return model
    if model is not None and not isinstance(model, str):
        choose_model(model)  # which rejects what is not a model
    used = cassette or cassette_in_use()
    if used is None and os.environ.get(MODE) == "replay":
        raise ConfigurationError(
            f"{MODE} is 'replay', so no model is called, but no cassette is in use. Set one with "
            "%agent_cassette PATH"
        )
    live = partial(choose_model, model, settings, confirm)
    if used is None:
        return live()
    key = configured("api_key") if settings is None else settings.api_key
    if key and key is not UNSET:
        secrets.remember("api_key", str(key))
    return CassetteModel(used, live, given_name(model))


def given_name(model: Any) -> str:
    """The name that a notebook gave to its model, without a request to the endpoint."""
    if isinstance(model, str):
        return model or DEFAULT
    return str(ModelFacts(model).given_name or DEFAULT)


def _opened(
    path: str | Path, mode: Any, volatile: Iterable[str], *, force: bool = False
) -> Cassette:
    from archytas_nb.cassettes.cassette import Cassette

    folder = os.environ.get(REPORT)
    report = None
    if folder:
        report = Path(folder) / f"{os.getpid()}-{next(_numbers)}.jsonl"
    rerun = os.environ.get(RERUN)
    cassette = Cassette(path, mode, volatile=volatile, rerun=rerun, report=report, force=force)
    note_uses(cassette)
    return cassette


def note_uses(cassette: Cassette) -> None:
    """Have a cassette know what this process used of its file through other cassettes."""
    for each in tuple(_state.open.values()):
        if each is not cassette and each.where == cassette.where:
            cassette.tape.note_uses(each.tape)


def _absolute(path: str) -> Path | None:
    """A file that stays the same when the working folder changes."""
    return Path(path).expanduser().absolute() if path else None


# ── a model with a cassette ───────────────────────────────────────────────────────────────────────

_REFUSALS: dict[str, str] = {
    "no_tools": "the endpoint does not support tools",
    "overflow": "the conversation is too long for the model",
}
"""Refusals after which a run changes its request are recorded, without the endpoint's message."""


class CassetteModel:
    """A model whose replies are replayed from a cassette, or recorded into it.

    `live` makes the real model where a reply is not recorded, which is never in a replay;
    `given_name` is the name that the notebook gives to the model.
    """

    def __init__(
        self, cassette: Cassette, live: Callable[[], Any], given_name: str = DEFAULT
    ) -> None:
        self.cassette = cassette
        self.given_name = given_name
        self.origin = ""  # the cell of the question
        self._make_live = live
        self._live: Any = None
        self.unanswered: CassetteMiss | None = None
        self.exchange: RecordedReply | None = None  # whose calls are run now
        self.is_replayed = False  # whether its reply came from the recording

    def __repr__(self) -> str:
        return f"CassetteModel({str(self.cassette.path)!r}, {self.cassette.mode})"

    @property
    def name(self) -> str:
        """The name of the recorded model, or of the live one while recording."""
        facts = self._recorded_facts()
        if facts is None:
            return str(self.real().name)
        return str(facts.get("name"))

    @property
    def protocol(self) -> ActiveProtocol:
        """The protocol that was recorded, or the live model's while recording."""
        facts = self._recorded_facts()
        if facts is None:
            return cast("ActiveProtocol", self.real().protocol)
        return cast("ActiveProtocol", facts.get("protocol"))

    @property
    def is_small(self) -> bool:
        """Whether it is a small model."""
        return bool(self._fact("is_small"))

    @property
    def context_tokens(self) -> int | None:
        """Maximum number of tokens in a conversation and its reply, if known."""
        tokens: int | None = self._fact("context_tokens")
        return tokens

    @property
    def continues_replies(self) -> bool:
        """Whether its endpoint continued replies that were begun."""
        return bool(self._fact("continues_replies"))

    @property
    def has_grammars(self) -> bool:
        """Whether its endpoint constrained replies by grammars."""
        return bool(self._fact("has_grammars"))

    @property
    def price(self) -> Any:
        """The price of its tokens, if known."""
        price = self._fact("price")
        if not isinstance(price, dict):
            return price
        from archytas_nb.models.completion import Price

        return Price(**price)

    @property
    def server(self) -> str:
        """The kind of model server, if it was discovered."""
        return self._fact("server") or ""

    def start_question(self, origin: str, execution: str = "") -> None:
        """Begin a question; a cell that is run again gets the same replies again."""
        self.origin = origin
        self.unanswered = None
        self.exchange = None
        self.cassette.start_question(origin, execution)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """The recorded reply, or the live model's where recording is allowed.

        Raises:
            CassetteMiss: The request, or a question to the user since the last reply, is not
                recorded in a replay.
            ModelError: The live model's, or a recorded refusal.
        """
        if self.unanswered is not None:
            miss = self.unanswered
            self.unanswered = None
            raise miss
        found = self.cassette.find(ask, self.given_name, self.origin)
        reply = None
        refusal = None
        if found is not None:
            exchange = found
            reply = found.reply
            refusal = found.refusal
        elif self.cassette.mode == "replay":
            raise self.cassette.miss(ask, self.given_name)
        else:
            exchange, reply, refusal = yield from self._recorded(ask)
        if reply is None:
            raise ModelError(_REFUSALS.get(str(refusal), str(refusal)), kind=refusal or "refused")
        if not ask.is_side_request:  # a tool that asks the model has calls of the reply before
            self.exchange = exchange
            self.is_replayed = found is not None
        return reply

    def _recorded(
        self, ask: AskModel
    ) -> Generator[
        Delta | Notice, None, tuple[RecordedReply, ModelReply | None, ModelErrorKind | None]
    ]:
        """Ask the live model and record its reply, or its refusal."""
        before = self._live_facts()
        name = str(self.real().name)
        if self.cassette.facts(self.given_name) is None:
            self.cassette.set_facts(self.given_name, {"name": name, **before})
        reply: ModelReply | None = None
        refusal: ModelErrorKind | None = None
        events = self.real().complete(ask)
        try:
            while True:
                event = next(events)
                if isinstance(event, Notice):  # of a retry; no trace keeps progress
                    event = dataclasses.replace(event, kind="progress")
                yield event
        except StopIteration as end:
            reply = dataclasses.replace(end.value, seconds=round(end.value.seconds, 3))
        except ModelError as error:
            if error.kind not in _REFUSALS:
                raise
            refusal = error.kind
        finally:
            events.close()
        after = self._live_facts()
        if str(self.real().name) != name:  # the default was gone, and another model answered
            self.cassette.set_facts(self.given_name, {"name": str(self.real().name), **after})
        learned = {name: fact for name, fact in after.items() if before.get(name) != fact}
        exchange = self.cassette.add(
            ask, reply, refusal, model=self.given_name, origin=self.origin, learned=learned
        )
        return exchange, reply, refusal

    def person(self, real: Person, *, hides_values: bool = False) -> Person:
        """The user, whose answers are recorded; the real one is asked only if that is allowed.

        An agent that is a tool has a user whose answers the outer agent records already: those to
        its own questions are recorded with its own exchanges. If values stay here, the questions
        are not recorded.
        """
        return _RecordedPerson(self, real, hides_values=hides_values)

    def told(self, take: Callable[[], list[str]], question: str) -> Callable[[], list[str]]:
        """The messages of the person before each request; they are recorded."""
        from archytas_nb.kernel.person import Keyboard

        cassette = self.cassette
        origin = self.origin
        is_user_there = Keyboard().there
        requests = itertools.count(1)

        def recorded() -> list[str]:
            step = next(requests)
            texts: list[str] = []
            while True:
                prompt = _TOLD.format(step, len(texts) + 1, question)
                found = cassette.find_told(prompt, origin)
                text = None
                if found is not None:
                    text = found.answer
                elif cassette.mode == "record" and not is_user_there:
                    old = cassette.old_told(prompt)
                    if old is not None:
                        text = old.answer
                        cassette.add_answer(prompt, text, origin)
                if text is None:
                    break
                texts.append(text)
            if cassette.mode == "replay":
                return texts
            for text in take():
                prompt = _TOLD.format(step, len(texts) + 1, question)
                cassette.add_answer(prompt, text, origin)
                texts.append(text)
            return texts

        return recorded

    def _recorded_facts(self) -> dict[str, Any] | None:
        return self.cassette.facts(self.given_name)

    def _fact(self, name: str) -> Any:
        """A fact of `ModelFacts`: the recorded one, or the live model's while recording."""
        facts = self._recorded_facts()
        if facts is None:
            return getattr(ModelFacts(self.real()), name)
        return facts.get(name)

    def _live_facts(self) -> dict[str, Any]:
        """The facts about the real model that are known now, in the form of the file."""
        known = ModelFacts(self.real())
        facts = {"protocol": self.real().protocol}
        facts |= {name: getattr(known, name) for name in FACTS}
        price = facts["price"]
        if dataclasses.is_dataclass(price) and not isinstance(price, type):
            facts["price"] = dataclasses.asdict(price)
        return {name: fact for name, fact in facts.items() if fact}

    def real(self) -> Any:
        """The model itself; raises ConfigurationError in a replay."""
        if self.cassette.mode == "replay":
            raise ConfigurationError(
                f"the cassette {str(self.cassette.path)!r} contains no recorded replies. To record "
                f"it, make sure that a model is available and run: {self.cassette.rerun}"
            )
        if self._live is None:
            self._live = self._make_live()
        return self._live


_TOLD = "(told to the agent before request {}, text {}, of the question) {}"


_NOT_RECORDED = "(what the user was asked, which may hold values)"
"""In place of a question to the user. Only a replay answers by it: it may be another question."""


class _RecordedPerson:
    """A user whose answers are recorded and replayed.

    A recorded answer is used only for a call of the recorded reply to which it was given. About a
    call of a live reply, the user is asked.
    """

    is_recorded = True
    seconds: float | None = None  # until the last answer came, also in a replay
    answered_from: object | None = None  # the recording, if the last answer is one of it

    def __init__(self, model: CassetteModel, real: Person, *, hides_values: bool) -> None:
        self._hides_values = hides_values
        self._model = model
        self._cassette = model.cassette
        self._real = real
        self._origin = model.origin

    @property
    def recording(self) -> object | None:
        """The recording whose reply made the calls that are run now; None if it came live."""
        return self._cassette if self._replayed is not None else None

    @property
    def _replayed(self) -> RecordedReply | None:
        """The exchange whose calls are run now, if its reply was replayed."""
        return self._model.exchange if self._model.is_replayed else None

    @property
    def there(self) -> bool:
        """Whether a question can be answered: by the recording, or by the user."""
        replayed = self._replayed
        if replayed is not None and self._cassette.has_answers(replayed):
            return True
        return self._cassette.mode != "replay" and self._real.there

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """The recorded answer, or the user's.

        Raises:
            UnansweredError: Nobody answered in time, now or when it was recorded.
            EOFError: Nobody answers. Tools may catch it; where a replay lacks the answer, the
                next reply of the model is a `CassetteMiss`, therefore.
        """
        if _is_answered_inside.get():
            return self._real.ask(prompt, form)
        whole = prompt
        if isinstance(form, ApprovalForm):  # the choices are not part of the question
            whole = form.text
        if self._hides_values:
            whole = _NOT_RECORDED
        found = self._recorded(whole)
        self.answered_from = None if found is None else self._cassette
        if found is not None:
            answer, self.seconds = found.answer, found.seconds
        elif self._cassette.mode == "replay":
            miss = self._cassette.miss_answer(whole)
            if self._model.unanswered is None:  # the first is the cause
                self._model.unanswered = miss
            raise EOFError(str(miss))
        else:
            answer, self.seconds = self._answer(prompt, form)
            exchange = self._model.exchange
            key = None if exchange is None else exchange.key
            self._cassette.add_answer(whole, answer, self._origin, self.seconds, key)
        if answer is None and self.seconds is not None:
            raise UnansweredError(self.seconds)
        if answer is None:
            raise EOFError("there is no user to answer")
        return answer

    def _recorded(self, whole: str) -> RecordedAnswer | None:
        """The recorded answer to a question about a replayed reply."""
        replayed = self._replayed
        if replayed is None or (self._hides_values and self._cassette.mode != "replay"):
            return None
        return self._cassette.find_answer(
            whole, replayed, self._origin, is_user_there=self._real.there
        )

    def show(self, form: ApprovalForm) -> None:
        """Show the decision on a call where the outer run shows it, if there is one."""
        outer = getattr(self._real, "show", None)
        if outer is not None:
            outer(form)

    def _answer(
        self, prompt: str, form: ApprovalForm | UserQuestion | None
    ) -> tuple[str | None, float | None]:
        """The user's answer and how long it took; the answer is None if there is none."""
        if not self._real.there:
            return None, None
        started = time.monotonic()
        token = _is_answered_inside.set(True)
        try:
            answer = self._real.ask(prompt, form)
        except UnansweredError as error:
            return None, error.seconds
        finally:
            _is_answered_inside.reset(token)
        # An immediate answer is recorded in the same way, however it was given.
        return answer, float(int(time.monotonic() - started)) or None


_is_answered_inside: ContextVar[bool] = ContextVar("archytas_nb_answered_inside", default=False)
"""Whether an agent that is a tool asks: the exchange of its own call records the answer."""
