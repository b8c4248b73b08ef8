"""What a small model is told beside an outcome: what it would have to see by itself, and does not.

Pure text: it knows neither wire forms nor tools.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from archytas_nb.loop.arithmetic import reckoned
from archytas_nb.loop.bounds import sides
from archytas_nb.loop.events import Json, ToolCall
from archytas_nb.loop.forms import LONGEST, reshaped
from archytas_nb.loop.names import meant
from archytas_nb.loop.pending import Worked, pending
from archytas_nb.loop.ranking import inputs_by_name, inputs_of, ranking, row_of, rows_of
from archytas_nb.loop.sameness import compared

_INSTEAD = "It gave no result. Call again, with "
_AGAIN = re.compile(
    r"(?:^|[.;:,!]\s+|\b(?:now|and|so),? )(?:please,? )?(?:try(?: it| this)? again|retry)\s*[.!]?$",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"\b(?:busy|time[d-]? ?out|timeout|temporar\w*|unavailable|overloaded|connection|locked|stuck|dropped|reset"
    r"|lost|free now|back now|again now)\b",
    re.IGNORECASE,
)
_BLAMED = re.compile(
    r"\b(?:expected|invalid|unknown|wrong|must|check|fix|wait|limit|quota|too|pay\w*|paid|charg\w*|confirm\w*|sent"
    r"|another|never|not to|no need|no point)\b|n[’']t\b",
    re.IGNORECASE,
)
"""What an error says that wants something else first, or that may have been of use in part."""
_WHICH = re.compile(r"\b(?:which|who|whose)\b", re.IGNORECASE)


def beside_outcome(question: str, worked: Worked, about: str = "") -> str:
    """What stands below the outcome of the last call; ``about`` is what its tool says of itself.

    On which side of the question's bounds a number lies; then what is missing or, where nothing is, the order of
    the numbers and what comes of them, or whether two outcomes are the same.
    """
    name, _, said = worked[-1]
    rows = rows_of(worked, name)
    row = row_of(said)
    told = []
    if row is not None:
        left = pending(question, worked, name)
        # A bound is one of what was asked first; what other tools count is something else.
        if all(tool == name for tool, _, each in worked if row_of(each)):
            told.append(sides(question, rows or [row], f"{name} {about} {said}", is_all=not left))
        if left:
            told.append(f"Not looked up with {name} yet: {', '.join(left)}")
            return "\n".join(filter(None, told))
    if not any(told) and (same := compared(question, worked, name)):
        told.append(same)
    elif rows and not any(told):
        came = reckoned(rows, question)
        order = (
            ranking(rows, question, f"{name} {about}")
            if not came or _WHICH.search(question)
            else ""
        )
        told.append(" ".join(filter(None, (order, came))))
    return "\n".join(filter(None, told))


class Advice(NamedTuple):
    """What to send after a call that failed.

    Attributes:
        text: For the model.
        fixed: The inputs whose values are known, by name; of a bare input ``""``.
    """

    text: str
    fixed: dict[str, Json]


def beside_error(question: str, call: ToolCall, error: str) -> Advice | None:
    """What to send after an error that offers names, or asks for a form or for the same call again; else None."""
    said = "\n".join(
        takewhile(lambda line: not line.startswith("  "), error.splitlines())
    )  # no lines of code
    inputs = dict(inputs_by_name(call.input))
    values = dict.fromkeys(inputs_of(call.input).values())
    better = [
        (value, name)
        for value in values
        if (name := meant(value, said, question, call.input) or reshaped(value, said, question))
    ]
    if not better and wants_the_same_again(said):
        return Advice(f"{_INSTEAD}the same input.", inputs)
    if len(better) != 1:
        return None
    given, instead = better[0]
    named = [name for name, value in inputs.items() if value == given]
    fixed: dict[str, Json] = {named[0]: instead} if len(named) == 1 else {}
    return Advice(f"{_INSTEAD}{instead!r} in place of {given!r}.", fixed)


def wants_the_same_again(error: str) -> bool:
    """Whether an error says that its cause has passed, and wants the very same call again."""
    text = " ".join(error[:LONGEST].split())
    return bool(_AGAIN.search(text) and _PASSING.search(text)) and not _BLAMED.search(text)


def is_advice(outcome: str) -> bool:
    """Whether an outcome's text says already, below an error, how to go on."""
    return _INSTEAD in outcome
