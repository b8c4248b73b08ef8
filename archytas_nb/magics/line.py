"""The line of a magic: options first, then the question exactly as it was typed.

Questions are prose with apostrophes, braces and question marks, so neither a shell's splitting nor
IPython's own expansion may touch them.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any, TypeVar

from IPython.core.error import UsageError

E = TypeVar("E", bound=BaseException)

OPTION = re.compile(r"\s*(--?[a-zA-Z][\w-]*)(?:(=)|(?=\s|$))")
"""An option's name, and whether its value follows at once."""

_QUESTION = re.compile(
    r"^(?P<indent>\s*)(?P<target>[^\s%!?#'\"=][^%!?#'\"=]*=\s*|%time\s+)?"
    r"%agent\s+(?P<rest>[^\s?].*\?)\s*$"
)
_TRIPLE = re.compile(r"\"\"\"|'''")
_LATE = re.compile(r"(?<!\S)--[a-zA-Z][\w-]*(?=[\s=]|$)")
_OPERATOR = re.compile(r"\s+([<>=!]=|[<>*/%&|^+])")
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"\S*")


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence about what was done."""

    text: str

    def __repr__(self) -> str:
        return self.text


def keep_question_marks(lines: list[str]) -> list[str]:
    """Keep IPython from taking ``%agent … ?`` for a request for help.

    Args:
        lines: The lines of a cell, as IPython hands them to a cleanup transformer.

    Returns:
        The lines, each such question written as the call that it stands for; ``%agent?`` is not.
    """
    if lines and lines[0].lstrip().startswith("%%"):
        return lines
    kept, quote = [], ""
    for line in lines:
        found = None if quote else _QUESTION.match(line.rstrip("\n"))
        if found:
            call = f"get_ipython().run_line_magic('agent', {found['rest']!r})"
            kept.append(f"{found['indent']}{found['target'] or ''}{call}\n")
        else:
            kept.append(line)
        for mark in _TRIPLE.findall(line):  # inside a string, a line is data and not a magic
            quote = ("" if mark == quote else quote) if quote else mark
    return kept


def print_help(parser: ArgumentParser, sign: str = "%") -> None:
    """Print what ``--help`` prints: IPython's own form is made for documents."""
    print(parser.format_help().replace("::\n\n  %", f"usage: {sign}", 1).rstrip())  # noqa: T201


def options_of(parser: ArgumentParser) -> dict[str, Any]:
    """The options of a parser by their names."""
    options: dict[str, Any] = parser._option_string_actions  # noqa: SLF001 - there is no public list
    return options


def split_options(
    line: str, parser: ArgumentParser, *, prose: bool = False
) -> tuple[list[str], str]:
    """Split a line into its leading options and the text after them.

    A value is one word, a text in quotes, or an expression: a space inside brackets does not end
    it.

    Args:
        line: What follows the magic's name.
        parser: Knows the options and which of them take a value.
        prose: Whether the text is prose, in which an option is most likely misplaced.

    Returns:
        The options, for ``parser.parse_args``, and the text as typed. After ``--`` the text may
        hold anything.

    Raises:
        UsageError: An option is unknown, misplaced or without a value, or its value ends where it
            cannot have been meant to.
    """
    known = options_of(parser)
    at, options = 0, []
    while (found := OPTION.match(line, at)) is not None:
        name, equals = found[1], bool(found[2])
        action = known.get(name)
        if action is None:
            from archytas_nb.tools.names import did_you_mean

            guess = did_you_mean(name, [flag for flag in known if flag.startswith("--")])
            raise UsageError(
                f"unknown option {name!r}{guess or '.'} The options are listed by "
                f"%{parser.prog} --help. (Write -- before a text that begins so.)"
            )
        at = found.end()
        if action.nargs == 0:
            if equals:
                raise UsageError(f"the option {name!r} takes no value")
            options.append(name)
            continue
        begin = at if equals else past_space(line, at)
        value, at = value_at(line, begin)
        if not value:
            expected = action.metavar or action.choices
            raise UsageError(f"the option {name!r} needs a value, {expected}")
        quoted = line[begin : begin + 1] in ("'", '"')
        goes_on = _OPERATOR.match(line, at)
        if goes_on is not None and action.metavar == "EXPR" and not quoted:
            raise UsageError(
                f"the value of {name!r} ends at {value!r}, before {goes_on[1]!r}: put an "
                "expression with spaces into quotes"
            )
        options.append(f"{name}={value}")
    ended = re.match(r"\s*--(?=\s|$)", line[at:])
    if ended is not None:
        return options, line[at + ended.end() :].strip()
    text = line[at:].strip()
    late = next((name for name in _LATE.findall(text) if name in known), None) if prose else None
    if late is not None:
        raise UsageError(
            f"{late!r} comes after the question has begun, where it is text: options come first. "
            "(Write -- before a question that contains it.)"
        )
    return options, text


def past_space(line: str, at: int) -> int:
    """Where the next word begins."""
    found = _SPACE.match(line, at)
    return found.end() if found else at


def value_at(line: str, at: int) -> tuple[str, int]:
    """Read the value of an option that begins at a place.

    Returns:
        The value without the quotes around it, and where it ends.
    """
    quote = line[at : at + 1]
    if quote and quote in "\"'":
        end = line.find(quote, at + 1)
        if end > 0 and line[end + 1 : end + 2].strip() == "":
            return line[at + 1 : end], end + 1
    depth, quote, end = 0, "", at
    while end < len(line) and (depth or quote or not line[end].isspace()):
        sign = line[end]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'" and depth:
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}" and depth > 0)
        end += 1
    if depth or quote:  # an unclosed bracket is a character like any other
        found = _WORD.match(line, at)
        end = found.end() if found else at
    return line[at:end], end


def brief(error: E) -> E:
    """Have IPython show one of our exceptions as its name and message, without our frames.

    It stays a real exception, which a test runner, a later cell and ``except`` see as what it is;
    a `UsageError` would leave nothing in the notebook but a line on stderr.
    """
    text = f"\x1b[31m{type(error).__name__}\x1b[39m: {error}"
    # A terminal has written ^C in this line already.
    lines = ["", text] if isinstance(error, KeyboardInterrupt) and sys.stdout.isatty() else [text]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error
