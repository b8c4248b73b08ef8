"""The line of a magic: options first, then the question exactly as it was typed.

Questions are prose: apostrophes, braces and question marks are theirs, so neither a shell's splitting nor
IPython's own expansion may touch them.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser

from IPython.core.error import UsageError

_QUESTION = re.compile(
    r"^(?P<indent>\s*)(?P<target>[^\s%!?#'\"=][^%!?#'\"=]*=\s*)?%agent\s+(?P<rest>[^\s?].*\?)\s*$"
)
_TRIPLE = re.compile(r"\"\"\"|'''")
_TOKEN = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|\S+)")


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


def split_options(line: str, parser: ArgumentParser) -> tuple[str, str]:
    """Split a line into its leading options and the text behind them.

    Args:
        line: What stands behind the magic's name.
        parser: Knows the options and which of them take a value.

    Returns:
        The options, for the parser, and the text as typed. ``--`` ends the options.

    Raises:
        UsageError: An option is not known, or its value is missing.
    """
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no public list of its options
    at, options = 0, []
    while found := _TOKEN.match(line, at):
        word = found[1]
        if word == "--":
            at = found.end()
            break
        if not re.match(r"--?[a-zA-Z]", word):
            break
        name, equals, _ = word.partition("=")
        action = known.get(name)
        if action is None:
            flags = ", ".join(sorted(flag for flag in known if flag.startswith("--")))
            raise UsageError(
                f"unknown option {name!r}; the options are {flags}. (Write -- before a text that begins so.)"
            )
        options.append(word)
        at = found.end()
        if action.nargs != 0 and not equals:
            value = _TOKEN.match(line, at)
            if value is None:
                raise UsageError(f"the option {name!r} needs a value")
            options.append(value[1])
            at = value.end()
    return " ".join(options), line[at:].strip()
