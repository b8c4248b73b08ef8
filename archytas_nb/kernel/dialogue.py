"""The words of the approval dialogue: what a person is shown of a call, and what their answer means.

It asks nobody and runs nothing. A model wrote what is shown, so nothing of it may look like a line of ours, and
nothing may be hidden: characters that do not show themselves are spelled out, and lines are marked.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from archytas_nb.loop.events import Json
from archytas_nb.tools.plain import safe_repr

_LONGEST = 300
"""How much of one value is shown on one line."""

_LINES, _WIDTH = 40, 200
"""How many lines of a text of several lines are shown, and how much of each."""

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00013441\U00013442"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Letters, marks and signs that look like nothing, though Unicode calls them printable."""

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


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call.

    Attributes:
        name: Its name.
        value: What the function will receive.
        note: Where the value comes from, if it is not what the model sent.
    """

    name: str
    value: Any
    note: str = ""


def arguments(values: Mapping[str, Any], given: Json) -> list[Argument]:
    """Put the values that a function will receive beside what the model sent for them."""
    sent = given if isinstance(given, dict) and set(given) <= set(values) else {}
    if len(values) == 1 and not sent and given is not None:
        sent = dict.fromkeys(values, given)
    return [Argument(name, value, _note(value, sent.get(name))) for name, value in values.items()]


def _note(value: Any, sent: Json) -> str:
    if sent is None:
        return "" if value is None else "the default"
    written = as_json(sent)
    return "" if written == _written(value) else f"sent as {_ends(harmless(written), _LONGEST)}"


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


def shown_call(name: str, arguments: Iterable[Argument], *, whole: bool = False) -> str:
    """Show a call with its arguments, one a line.

    Args:
        name: The tool's name.
        arguments: What the function will receive.
        whole: Whether long values are shown to their end; else their middle is left out, and how much that is.
    """
    lines = [line for each in arguments for line in _argument(each, whole=whole)]
    return "\n".join(
        [
            f"The agent wants to run {harmless(name)}" + (":" if lines else " (no arguments)."),
            *lines,
        ]
    )


def _argument(each: Argument, *, whole: bool) -> list[str]:
    name, note = harmless(each.name), f"  ({each.note})" if each.note else ""
    text = each.value if type(each.value) is str else _written(each.value)
    if "\n" in text:
        return [f"  {name}:{note}", *_block(text, whole=whole)]
    text = harmless(_written(each.value))
    return [f"  {name} = {text if whole else _ends(text, _LONGEST)}{note}"]


def _written(value: Any) -> str:
    """A value as JSON where it is plain data, as Python writes it elsewhere."""
    try:
        return as_json(value) if _is_plain(value) else safe_repr(value)
    except (
        ValueError,
        RecursionError,
    ):  # an integer of too many digits, a list that contains itself
        return safe_repr(value)


def _is_plain(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(each) for key, each in value.items())
    return value is None or type(value) in (str, int, float, bool)


def _ends(text: str, longest: int) -> str:
    """Both ends of a text: what matters may stand at the end of it."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 3
    return f"{text[:head]} … {len(text) - head - tail:,} characters left out … {text[-tail:]}"


def _block(text: str, *, whole: bool = False) -> list[str]:
    """Code, SQL or prose: as it is, each line marked so that none can pass for a line of ours."""
    rows = text.split("\n")
    left_out = 0 if whole else max(len(rows) - _LINES, 0)
    head = _LINES * 2 // 3 if left_out else len(rows)
    shown = [*rows[:head], *rows[head + left_out :]]
    seen = [harmless(row.expandtabs(4)) for row in shown]
    lines = [f"    │ {row if whole else _ends(row, _WIDTH)}" for row in seen]
    return (
        [*lines[:head], f"    … {left_out:,} lines left out …", *lines[head:]]
        if left_out
        else lines
    )


def marked(text: str) -> str:
    """A text that others wrote, for a prompt of ours: on the line where it fits there, else below and marked."""
    return (
        "\n".join(["", *_block(text)])
        if len(text) > _WIDTH or len(text.splitlines()) > 1
        else harmless(text)
    )


def as_json(value: Json) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=repr)


def harmless(text: str) -> str:
    """One line, in which every character that does not show itself is spelled out.

    That is what would end the line, move a cursor, colour it or turn its direction, all spaces but the usual one,
    and the letters and marks that look like nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() and not _BLANK.match(each)
        else each.encode("unicode_escape", "surrogatepass").decode("ascii")
        for each in text
    )
