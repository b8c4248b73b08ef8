"""Handles answers with low confidence in a map: leaves them out, or asks another model.

    done ──confidence is high enough──▶ done
      │ it is lower, or nobody knows it
      ▼
    unsure ──another model, or the person, answers──▶ done, by "then"

The file of results keeps how probable the options were, and nothing of the threshold: so another
threshold costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archytas_nb.batch.store import OPEN, RowResult
from archytas_nb.errors import argument_error
from archytas_nb.loop.events import UNSURE, UserQuestion
from archytas_nb.loop.odds import (
    WHOLE,
    check_threshold,
    chosen_odds,
    label,
    options_in,
    require_options,
)
from archytas_nb.prepare import ModelChoice, RunSetup
from archytas_nb.words import count

if TYPE_CHECKING:
    from archytas_nb.batch.engine import Map
    from archytas_nb.trace.controls import Controls

BY = "by"
"""Who answered: ``"program"`` or ``"agent"``, or ``"then"`` where the agent was unsure."""
CONFIDENCE = "confidence"
"""The lowest probability of what was chosen in an answer, if it was to be told."""
PERSON = "person"
"""In place of another model: the person at the keyboard is asked."""


class Sure:
    """How sure the answers of a map have to be, and who is asked where they are not.

    Args:
        unsure: The least confidence, from 0 to 1; None if it is not to be told.
        then: Another model, or `PERSON`; None for nobody.
        is_planned: Whether one program may answer all rows.

    Raises:
        ValueError: They do not fit together.
    """

    def __init__(self, unsure: float | None, then: Any = None, *, is_planned: bool = False) -> None:
        if unsure is not None:
            check_threshold(unsure)
        elif then is not None:
            raise argument_error(
                f"then={then!r} needs unsure=, the confidence below which a question goes to this "
                "second model, such as unsure=0.8"
            )
        if unsure is not None and is_planned:
            raise argument_error(
                f"unsure is {unsure!r}, and the map is planned: a program has no probabilities. "
                "Leave out unsure= or plan="
            )
        self._least = unsure
        self._then = then
        self._is_planned = is_planned

    @property
    def is_wanted(self) -> bool:
        """Whether the confidence is to be told."""
        return self._least is not None

    @property
    def columns(self) -> list[str]:
        """The columns that are added next to the answer."""
        found = []
        if self._is_planned or self._then is not None:
            found.append(BY)
        if self.is_wanted:
            found.append(CONFIDENCE)
        return found

    @property
    def attributes(self) -> dict[str, Any]:
        """The record of it in the frame."""
        return {} if self._least is None else {"unsure": float(self._least)}

    def setup(self, setup: RunSetup) -> RunSetup:
        """The setup for rows."""
        return replace(setup, wants_odds=self.is_wanted)

    def check(self, asked: Map) -> None:
        """Raise ValueError if the answers of a map have no confidence."""
        if self.is_wanted:
            require_options(asked.schema)
        if self._then == PERSON and WHOLE not in options_in(asked.schema):
            raise argument_error(
                f"then is {PERSON!r}, and an answer has several fields; expected a type of which a "
                "person chooses one option, such as Literal or bool"
            )

    def judged(self, asked: Map, result: RowResult) -> RowResult:
        """A result; one of status ``"unsure"`` if its confidence is too low, or is not known."""
        if not self._least or result.status != "done":
            return result
        confidence = confidence_of(asked, result)
        if confidence is not None and confidence >= self._least:
            return result
        return replace(result, status=UNSURE)

    def results(
        self, asked: Map, questions: Sequence[str], options: Mapping[str, Any]
    ) -> tuple[list[RowResult], list[Any], list[str | None]]:
        """Ask about all rows: their results, the values of the answers, and who answered.

        Args:
            asked: The map.
            questions: The questions of all rows.
            options: The options of the map.
        """
        self.check(asked)
        found, values = asked.results()
        results = [self.judged(asked, each) for each in found]
        by: list[str | None] = ["agent"] * len(results)
        places = [at for at, each in enumerate(results) if each.status == UNSURE]
        if self._then is not None and places:
            unsure = [questions[at] for at in places]
            others = self._others(asked, unsure, options)
            for at, (other, value) in zip(places, others, strict=False):
                results[at] = _with_costs(other, results[at])
                values[at] = value
                if other.status not in (UNSURE, OPEN.status):
                    by[at] = "then"
        return results, values, by

    def _others(
        self, asked: Map, questions: Sequence[str], options: Mapping[str, Any]
    ) -> Iterator[tuple[RowResult, Any]]:
        """The results of another model, or of the person, with their values."""
        from archytas_nb.batch.engine import Map

        if self._then == PERSON:
            yield from _by_person(asked, questions)
            return
        if asked.limiter.reason:  # nothing more is asked
            return
        setup = replace(asked.setup, choice=ModelChoice(self._then), wants_odds=False)
        others = Map(setup, questions, **options)
        others.share(asked)
        yield from zip(*others.results(), strict=True)


def confidence_of(asked: Map, result: RowResult) -> float | None:
    """The lowest probability of what was chosen; None if it is not known."""
    if not result.odds:
        return None
    return min(chosen_odds(asked.schema, result.answer, result.odds).values(), default=None)


def _by_person(asked: Map, questions: Sequence[str]) -> Iterator[tuple[RowResult, Any]]:
    """The person's answers, until they stop or nobody is there; each answer is kept."""
    from archytas_nb.kernel.person import Keyboard
    from archytas_nb.trace.controls import Controls

    options = options_in(asked.schema)[WHOLE]
    person = Controls(Keyboard())
    keys = asked.keys_of(questions, (), PERSON)
    asked.know(keys)
    is_there = person.there and not asked.is_replay
    left = sum(asked.result(key).status != "done" for key in keys)
    for key, question in zip(keys, questions, strict=True):
        result = asked.result(key)
        if result.status != "done" and is_there:
            try:
                place = _place_of_choice(person, question, [*map(label, options)], left)
            except (EOFError, OSError):
                is_there = False
                place = len(options)
            except KeyboardInterrupt:
                place = len(options) + 1
            left -= 1
            if place < len(options):
                result = RowResult("done", answer=options[place])
                with asked.file_open():
                    asked.keep(key, result)
            elif place > len(options):
                is_there = False
                asked.limiter.stop("you")
        if result.status == "done":
            yield result, asked.answers.check(result.answer).value
        else:
            yield RowResult(UNSURE), None


def _place_of_choice(person: Controls, question: str, options: Sequence[str], left: int) -> int:
    """The place of the option that the person chooses, by its words or its number.

    The first place after the options is to skip the row, the second one to stop.
    """
    from archytas_nb.kernel.person import quoted

    choices = (*options, "skip", "stop asking")
    folded = [each.strip().casefold() for each in choices]
    numbered = ", ".join(f"{number} {each}" for number, each in enumerate(choices, 1))
    head = f"{count(left, 'row')} to answer"
    form = UserQuestion(f"{head}:\n{question}", choices, is_of_model=False)
    while True:
        fault = f"{form.fault}\n" if form.fault else ""
        line = person.ask(f"{fault}{head}: {quoted(question)}\n{numbered}: ", form).strip()
        if line in choices:
            return choices.index(line)
        if line.casefold() in folded:
            return folded.index(line.casefold())
        if line.isdecimal() and 1 <= int(line) <= len(choices):
            return int(line) - 1
        form = replace(form, fault=f"{line!r} is not one of the answers.")


def _with_costs(result: RowResult, before: RowResult) -> RowResult:
    """A result with the costs of the one before it, too."""
    usage = before.usage + result.usage
    return replace(result, usage=usage, seconds=before.seconds + result.seconds)
