"""The words of the approval dialogue: what a person is shown of a call, and what their answer means.

Pure text: it asks nobody and runs nothing. A model wrote what is shown, so nothing of it may look like a line of
ours: control characters and those that turn the direction of text are spelled out, and lines are marked.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from archytas_nb.react.events import Json

LONGEST = 300
"""How much of one value is shown on one line."""

_LINES, _WIDTH = 40, 200
"""How many lines of a text of several lines are shown, and how much of each."""

_ARGUMENTS = 30

CHOICES = "[y]es, once  [a]lways in this run  [e]dit  [n]o  [s]top the run  [?] help"

HELP = """  y  run it, this once
  a  run it, and do not ask again for {name} in this run
  e  change its input first
  n  do not run it; a reason for the model may follow, as in: n, the table is in use
  s  stop the whole run; nothing more is run"""

Answer = Literal["yes", "always", "edit", "no", "stop", "help", "reason", "unclear"]

_WORDS: dict[str, Answer] = {
    "y": "yes", "yes": "yes", "a": "always", "always": "always", "e": "edit", "edit": "edit",
    "n": "no", "no": "no", "s": "stop", "stop": "stop", "?": "help", "h": "help", "help": "help",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer means.

    Attributes:
        answer: ``"reason"`` where it reads like a reason to refuse, which the person must confirm.
        text: The reason, or what was typed where it is unclear.
    """

    answer: Answer
    text: str = ""


def read_answer(line: str) -> Said:
    """Say what an answer to the question means; a word that is none of the choices never decides anything."""
    line = line.strip()
    word = _WORDS.get(line.casefold().rstrip(".!"))
    if word is not None:
        return Said(word)
    with_reason = re.fullmatch(r"(?:no|n)\s*[,:;.–—-]\s*(\S.*)", line, re.IGNORECASE | re.DOTALL)
    if with_reason:
        return Said("no", with_reason[1])
    return Said("reason" if len(line.split()) > 1 else "unclear", line)


def read_input(text: str, before: Json, names: Iterable[str]) -> Json:
    """Read an input that a person typed.

    Args:
        text: JSON, a Python literal, or ``NAME = VALUE`` to change one argument of the input before.
        before: The input before.
        names: The names of the tool's arguments.

    Returns:
        The new input.

    Raises:
        ValueError: It is none of these; the message says what was expected.
    """
    one = re.fullmatch(r"\s*([^\W\d]\w*)\s*=(?!=)\s*(.*)", text, re.DOTALL)
    if one and one[1] in names:
        kept = before if isinstance(before, dict) and set(before) <= set(names) else {}
        return {**kept, one[1]: _value(one[2])}
    return _value(text)


def _value(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip()), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(
            f'{harmless(text[:100])} is neither JSON nor a Python value; text needs quotes, as in "text"'
        ) from None


def shown_call(name: str, given: Json, names: Iterable[str]) -> str:
    """Show a call with its arguments, one a line; long values are cut, and their length is named."""
    names = tuple(names)
    fields = given if isinstance(given, dict) and set(given) <= set(names) else None
    if fields is None:
        fields = {} if given is None else {names[0] if len(names) == 1 else "input": given}
    lines = [f"The agent wants to run {harmless(name)}" + (":" if fields else " (no arguments).")]
    for each, value in list(fields.items())[:_ARGUMENTS]:
        lines += _argument(harmless(str(each)), value)
    if len(fields) > _ARGUMENTS:
        lines.append(f"  … and {len(fields) - _ARGUMENTS} more arguments")
    return "\n".join(lines)


def _argument(name: str, value: Json) -> list[str]:
    if isinstance(value, str) and len(value.splitlines()) > 1:
        return [f"  {name}:", *_block(value)]
    text = harmless(as_json(value))
    if len(text) > LONGEST:
        size = f"{len(value):,} items, " if isinstance(value, (list, dict)) else ""
        return [f"  {name} = {text[:LONGEST]}… ({size}{len(text):,} characters in all)"]
    return [f"  {name} = {text}"]


def _block(text: str) -> list[str]:
    """Code, SQL or prose: as it is, each line marked so that none can pass for a line of ours."""
    rows = text.splitlines()
    lines = []
    for row in rows[:_LINES]:
        seen = harmless(row.expandtabs(4))
        more = "" if len(seen) <= _WIDTH else f"… ({len(seen):,} characters in this line)"
        lines.append(f"    │ {seen[:_WIDTH]}{more}")
    if len(rows) > _LINES:
        lines.append(f"    … {len(rows) - _LINES:,} more lines ({len(text):,} characters in all)")
    return lines


def marked(text: str) -> str:
    """A text that others wrote, for a prompt of ours: on the line where it fits there, else below and marked."""
    return "\n".join(["", *_block(text)]) if len(text) > _WIDTH or len(text.splitlines()) > 1 else harmless(text)


def as_json(value: Json) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def harmless(text: str) -> str:
    """One line, in which is spelled out what would end it, move a cursor, colour it or turn its direction."""
    return "".join(
        each.encode("unicode_escape", "surrogatepass").decode("ascii")
        if unicodedata.category(each) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
        else each
        for each in text
    )
