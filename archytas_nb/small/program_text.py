"""The program in a reply that was begun with a fence.

The model may repeat the fence, write something before it, indent the program, escape its signs for
HTML, or use a quote in an f-string that ends it in versions of Python before 3.12.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Iterator

from archytas_nb.syntax.program import Program

_FENCE = re.compile(r"```[^\S\n]*\w*[^\S\n]*(?:\n|$)")


def program_in(reply: str) -> str:
    """The first part of a reply between fences that is Python; if none is, the first one."""
    parts = [part for each in _FENCE.split(reply) if (part := _aligned(each))]
    for part in parts:
        for text in _readings(part):
            program = Program(text)
            is_first = part is parts[0]  # a word of what is said after it is Python, too
            if program.error is None and (is_first or any(program.nodes(ast.Call))):
                return text
    return parts[0] if parts else ""


def _aligned(text: str) -> str:
    text = textwrap.dedent(text.split("```", maxsplit=1)[0]).strip("\n").rstrip()
    return text.lstrip(" \t")  # the first line of a program has no indentation


def _readings(text: str) -> Iterator[str]:
    """The readings of a text."""
    for each in (text, html.unescape(text)):
        yield each
        yield requoted(each)


def requoted(text: str) -> str:
    """A text whose f-strings have quotes that nothing in them has."""
    parts = []
    end = 0
    for found in re.finditer(r"""\b[fF](?P<quote>["'])(?!(?P=quote))""", text):
        if found.start() < end:
            continue
        close = _closed(text, found.end(), found["quote"])
        body = text[found.end() : close]
        quotes = ('"', "'", '"""', "'''")
        others = (each for each in quotes if each not in body and not body.endswith(each[0]))
        quote = next(others, None)
        if close < 0 or quote is None:
            continue
        parts += [text[end : found.start()], f"f{quote}{body}{quote}"]
        end = close + 1
    return "".join([*parts, text[end:]])


def _closed(text: str, start: int, quote: str) -> int:
    """Where an f-string ends: at the first such quote outside of its fields; -1 for nowhere."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == "\n":
            return -1
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == quote and depth <= 0 and text[at - 1] != "\\":
            return at
    return -1
