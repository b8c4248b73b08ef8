"""What a small model is asked about before it counts, because it is so often wrong.

It looks up one of two things, sends two as one, loses count of what it did, gives up at the first error, and
tells numbers from nowhere, or none where one is asked for.

Each doubt is uttered once in a run (that about names once for each set of them, which shrinks as it is followed):
the model may have its reasons, and a second time it is believed. It follows what it reads last, so what is wanted
of it stands at the end.
Pure text: it knows neither wire forms nor tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from archytas_nb.loop.events import Json
from archytas_nb.loop.names import several, unused
from archytas_nb.loop.numbers import lacks_measure, lacks_numbers, unfounded, unfounded_inputs
from archytas_nb.loop.pending import Worked, is_choice, untouched
from archytas_nb.loop.ranking import inputs_of, row_of


@dataclass(slots=True)
class Doubts:
    """The doubts of one run: which were uttered."""

    _uttered: set[str] = field(default_factory=set)
    _sent_as_one: list[str] = field(default_factory=list)

    def of_call(self, name: str, given: Json) -> str:
        """What is asked in place of running a call; empty where it is to be run."""
        for value in inputs_of(given).values():
            things = several(value)
            if things and not self._first(f"several:{name}:{value}"):
                self._sent_as_one = []  # it was meant
            elif things:
                self._sent_as_one = things
                return (
                    f"{name} was not run: {value!r} looks like {len(things)} things, and it takes one at a time. "
                    f"Call it for {things[0]!r} now, and for {things[1]!r} after that."
                )
        return ""

    def of_switches(
        self, name: str, given: Json, wanted: Mapping[str, bool], *, is_made: bool
    ) -> str:
        """What is asked in place of running a call some of whose switches are not as the question wants them.

        Args:
            name: The tool.
            given: The input.
            wanted: The switches, as the question wants them.
            is_made: Whether this very call has been made with them already.
        """
        if not self._first(f"switches:{name}:{given}:{is_made}"):
            return ""
        said = " and ".join(
            f"{each} {'true' if value else 'false'}" for each, value in wanted.items()
        )
        then = (
            "You have made that call already. If nothing else is missing, use final_answer now."
            if is_made
            else f"Make the call again with {said}."
        )
        return f"{name} was not run: the question asks for {said}. {then}"

    def of_numbers(
        self,
        name: str,
        given: Json,
        schema: Json,
        worked: Worked,
        told: Callable[[], Iterable[str]],
    ) -> str:
        """What is asked in place of running a call with a number from nowhere, right after one was told."""
        row = row_of(worked[-1][2]) if worked else None
        if row is None or not (numbers := unfounded_inputs(given, schema, told())):
            return ""
        if not self._first(f"inputs:{name}:{numbers}"):
            return ""
        return (
            f"{name} was not run: {numbers[0]} is not found in the question or in what you were told. If it is "
            f"meant, make the same call again. The last outcome was {row.written}: if that is meant, use that."
        )

    def of_repetition(self, call: str, outcome: str) -> str:
        """What is asked in place of making a call again that has worked; empty where it is to be made again."""
        if not self._first(f"repetition:{call}"):
            return ""
        return (
            f"You made this very call before, and it was not made again. Its outcome was:\n{outcome}\n"
            "If something else is missing, make the call for that. If all that was asked for is done, use "
            "final_answer now."
        )

    def of_end(
        self,
        answer: str | None,
        question: str,
        worked: Worked,
        told: Callable[[], Iterable[str]],
        *,
        just_failed: bool,
    ) -> str:
        """What is asked in place of ending; empty where the end counts.

        Args:
            answer: The final answer; None where the model gives up.
            question: What it answers.
            worked: Name, input and outcome of the calls that worked.
            told: Everything that the model was told.
            just_failed: Whether its last call failed.
        """
        if just_failed and self._first("failure"):
            end = "Give up again" if answer is None else "Give your answer again"
            return (
                f"Your last call failed, but another input may work. {end} only if there is none. Otherwise call "
                "the tool now, with an input in the form that is expected and for one thing."
            )
        if answer is None:
            return ""
        inputs = [value for _, given, _ in worked for value in inputs_of(given).values()]
        outcomes = [said for _, _, said in worked]
        names = unused(question, [*inputs, *outcomes]) or untouched(question, worked)
        if names and not is_choice(question) and self._first(f"names:{names}"):
            return (
                f"You used no tool for {' and '.join(names)} yet. If none is needed, give your answer again. "
                "Otherwise make the missing call now."
            )
        if (left := self._left(inputs)) and self._first(f"alone:{left}"):
            some = ", ".join(left)
            return f"You used no tool for {some} yet. It takes one at a time: call it for {left[0]!r} now."
        if (numbers := unfounded(answer, told())) and self._first("numbers"):
            return (
                f"You were told nothing that contains {', '.join(numbers)}. If no tool can find it out, give "
                "your answer again. Otherwise call the tool now."
            )
        if lacks_measure(answer, question, outcomes) and self._first("no measure"):
            return (
                "No tool has told you yet what was asked for. Call the tool that finds it out now, with what you "
                "know. Only if there is none, give your answer again."
            )
        if lacks_numbers(answer, question, outcomes) and self._first("no number"):
            return "You were asked for a number, and your answer has none. Give it again, with the numbers found."
        return ""

    def _left(self, inputs: Sequence[str]) -> list[str]:
        """What was sent as one, and not by itself since."""
        used = {each.lower() for each in inputs}
        return [each for each in self._sent_as_one if each.lower() not in used]

    def _first(self, doubt: str) -> bool:
        is_first = doubt not in self._uttered
        self._uttered.add(doubt)
        return is_first
