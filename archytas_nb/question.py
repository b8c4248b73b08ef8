"""What one question needs before it is asked: read and judged first, so that bad input costs nothing.

It may know the doors on the floors below; it asks nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archytas_nb.answers import Answers, Until
from archytas_nb.kernel.namespace import Namespace, current_shell, running_cell
from archytas_nb.kernel.person import Keyboard, Person
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.loop.history import Exchange
from archytas_nb.loop.sending import Room
from archytas_nb.tools.pictures import attached
from archytas_nb.tools.reference import keep


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        exchange: The record of it, still empty.
        answers: Judges the answer.
    """

    exchange: Exchange
    answers: Answers


def read(
    question: str,
    output_type: Any,
    until: Until | None,
    images: Iterable[Any],
    origin: str,
    namespace: Namespace,
) -> Question:
    """Read what a user asks; see `Agent.run` for the arguments.

    Raises:
        ToolError: No answer can be of the type.
        ValueError: The question is no text or empty, an image cannot be read, or `until` is no function.
    """
    if not isinstance(question, str):
        raise ValueError(f"the question is {question!r}; expected text to ask the model")  # noqa: TRY004 - see above
    if not question.strip():
        raise ValueError("the question is empty; expected text to ask the model")
    answers = Answers(output_type, until, namespace)
    is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
    pictures = tuple(attached(each) for each in ([images] if is_one else images))
    return Question(Exchange(question, images=pictures, form=answers.form, origin=origin), answers)


def person_for(model: Any) -> Person:
    """Who is asked: a model that records or replays comes between, so that what is said is kept too."""
    between = getattr(model, "person", None)
    person: Person = Keyboard() if between is None else between(Keyboard())
    return person


def asked_by(origin: str) -> tuple[str, str]:
    """Who asks, for a recording that gives a cell which is run again what it gave it before.

    Args:
        origin: What the caller of `Agent.run` said; for an agent in Python, which says nothing, it is the cell.

    Returns:
        Who, and which run of theirs this is where they may ask more than once in it; both may be empty.
    """
    if origin:
        return origin, ""
    cell, execution = running_cell(current_shell())
    return (f"{cell} in Python", execution) if cell else ("", "")


def room_for(model: Any, namespace: Namespace) -> Room:
    """How much a model can take, and where the values go that there is no room for."""

    def name_of(call: ToolCall, outcome: CallOutcome) -> str:
        try:
            return "" if outcome.value is None else keep(outcome.value, namespace, call.name)
        except Exception:  # noqa: BLE001 - a namespace that refuses to store costs the name only
            return ""

    return Room(lambda: getattr(model, "context_tokens", None), name_of)
