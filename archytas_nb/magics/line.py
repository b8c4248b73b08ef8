"""The line of a magic: options first, then the question exactly as it was typed.

Questions are prose: apostrophes, braces and question marks are theirs, so neither a shell's splitting nor
IPython's own expansion may touch them.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser

from IPython.core.error import UsageError

_QUESTION = re.compile(
    r"^(?P<indent>\s*)(?P<target>[^\s%!?#'\"=][^%!?#'\"=]*=\s*|%time\s+)?%agent\s+(?P<rest>[^\s?].*\?)\s*$"
)
_TRIPLE = re.compile(r"\"\"\"|'''")
OPTION = re.compile(r"\s*(--?[a-zA-Z][\w-]*)(?:(=)|(?=\s|$))")
"""An option's name, and whether its value follows at once."""
_LATE = re.compile(r"(?<!\S)--[a-zA-Z][\w-]*(?=[\s=]|$)")
_OPERATOR = re.compile(r"\s+([<>=!]=|[<>*/%&|^+])")
_SPACE = re.compile(r"\s*")


def keep_question_marks(lines: list[str]) -> list[str]:
    """Rescue ``%agent … ?`` from IPython, which takes a trailing ``?`` for a request for help.

    Args:
        lines: The lines of a cell, as IPython hands them to a cleanup transformer.

    Returns:
        The lines, each such question written as the call that it stands for. ``%agent?`` is left alone.
    """
    if lines and lines[0].lstrip().startswith("%%"):
        return lines
    rescued, quote = [], ""
    for line in lines:
        rescued.append(line if quote else _rescued(line))
        for mark in _TRIPLE.findall(line):  # inside a string, a line is data and not a magic
            quote = ("" if mark == quote else quote) if quote else mark
    return rescued


def _rescued(line: str) -> str:
    found = _QUESTION.match(line.rstrip("\n"))
    if found is None:
        return line
    call = f"get_ipython().run_line_magic('agent', {found['rest']!r})"
    return f"{found['indent']}{found['target'] or ''}{call}\n"


def help_text(parser: ArgumentParser, sign: str = "%") -> str:
    """What ``--help`` prints: IPython's own form is made for documents."""
    return parser.format_help().replace("::\n\n  %", f"usage: {sign}", 1).rstrip()


def split_options(
    line: str, parser: ArgumentParser, *, prose: bool = False
) -> tuple[list[str], str]:
    """Split a line into its leading options and the text behind them.

    An option's value is one word, a text in quotes, or an expression: a space inside brackets does not end it.

    Args:
        line: What stands behind the magic's name.
        parser: Knows the options and which of them take a value.
        prose: Whether the text is prose, in which an option is most likely one that was meant and has no effect.

    Returns:
        The options, for ``parser.parse_args``, and the text as typed. Behind ``--``
        the text may hold anything.

    Raises:
        UsageError: An option is not known, its value is missing or ends where it cannot have been meant to, or it
            stands in prose.
    """
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no public list of its options
    at, options = 0, []
    while (found := OPTION.match(line, at)) is not None:
        name, equals = found[1], bool(found[2])
        action = known.get(name)
        if action is None:
            from archytas_nb.tools.names import did_you_mean

            guess = did_you_mean(name, [flag for flag in known if flag.startswith("--")])
            raise UsageError(
                f"unknown option {name!r}{guess or '.'} The options stand in %{parser.prog} --help. "
                "(Write -- before a text that begins so.)"
            )
        at = found.end()
        if action.nargs == 0:
            if equals:
                raise UsageError(f"the option {name!r} takes no value")
            options.append(name)
            continue
        begin = at if equals else _past_space(line, at)
        value, at = value_at(line, begin)
        if not value:
            raise UsageError(
                f"the option {name!r} needs a value, {action.metavar or action.choices}"
            )
        goes_on = _OPERATOR.match(line, at)
        if (
            goes_on is not None
            and action.metavar == "EXPR"
            and line[begin : begin + 1] not in ("'", '"')
        ):
            raise UsageError(
                f"the value of {name!r} ends at {value!r}, before {goes_on[1]!r}: put an expression with spaces "
                "into quotes"
            )
        options.append(f"{name}={value}")
    ended = re.match(r"\s*--(?=\s|$)", line[at:])
    if ended is not None:
        return options, line[at + ended.end() :].strip()
    text = line[at:].strip()
    late = next((name for name in _LATE.findall(text) if name in known), None) if prose else None
    if late is not None:
        raise UsageError(
            f"{late!r} stands behind the question, where it is text: options come first. "
            "(Write -- before a question that is to hold it.)"
        )
    return options, text


def _past_space(line: str, at: int) -> int:
    found = _SPACE.match(line, at)
    return found.end() if found else at


def value_at(line: str, at: int) -> tuple[str, int]:
    """Read the value of an option.

    Args:
        line: The line.
        at: Where the value begins.

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
    if depth or quote:  # no expression: a bracket that nothing closes is a character like any other
        found = re.compile(r"\S*").match(line, at)
        end = found.end() if found else at
    return line[at:end], end
