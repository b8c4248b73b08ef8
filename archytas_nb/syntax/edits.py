"""Changes of a text at its nodes; all else stays unchanged, and each line keeps its number.

A node is replaced by a template: texts, and between them nodes that it has inside, which keep their
own text with their own changes. Of the text between those nodes (brackets, signs, comments) only
the line breaks stay. So nothing is ever searched for in the text.

asttokens does not serve: in f-strings before Python 3.12 it has no tokens, and to mark those of a
text takes ten times as long as to parse it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from archytas_nb.syntax.parse import parsed

Place: TypeAlias = tuple[int, int]
"""Where a node begins and ends, in bytes of the text."""


@dataclass(frozen=True, slots=True)
class _Change:
    place: Place
    parts: tuple[str | Place, ...]


class Edits:
    """Changes of a text.

    Args:
        text: Python code.
    """

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        lines = self._text.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, lines))]
        self._changes: dict[Place, _Change] = {}

    def replace(self, node: ast.stmt | ast.expr, *parts: str | ast.AST) -> bool:
        """Write something else in the place of a node; False if it is not where it says.

        Args:
            node: A node of the tree of the text. Its second replacement is left out.
            parts: Texts, which are put together, and nodes inside of it in their order; the node
                itself stands for what it was.
        """
        place = self._place(node)
        if place in self._changes or not self._has(node):
            return False
        written = tuple(each if isinstance(each, str) else self._place(each) for each in parts)
        self._changes[place] = _Change(place, written)
        return True

    def applied(self) -> str:
        """The changed text."""
        changes = sorted(self._changes.values(), key=lambda each: (each.place[0], -each.place[1]))
        return self._written((0, len(self._text)), changes).decode()

    def _written(self, place: Place, inside: list[_Change]) -> bytes:
        """The text of a place with the changes inside of it, which are in order."""
        start, end = place
        parts: list[bytes] = []
        at = 0
        while at < len(inside):
            change = inside[at]
            first, last = change.place
            after = at + 1
            while after < len(inside) and inside[after].place[0] < last:
                after += 1
            parts += [self._text[start:first], self._made(change, inside[at + 1 : after])]
            start = last
            at = after
        return b"".join([*parts, self._text[start:end]])

    def _made(self, change: _Change, inside: list[_Change]) -> bytes:
        """The text that replaces a node."""
        done, end = change.place
        made = b""
        between = b""
        for part in change.parts:
            if isinstance(part, str):
                between += part.encode()
                continue
            # The texts before the last node open brackets, which breaks may follow.
            made += between + self._breaks(done, part[0])
            made += self._written(part, _within(part, inside))
            done = part[1]
            between = b""
        breaks = self._breaks(done, end)
        return made + (breaks + between if made else between + breaks)

    def _breaks(self, start: int, end: int) -> bytes:
        return b"\n" * self._text.count(b"\n", start, end)

    # ── places ────────────────────────────────────────────────────────────────────────────────────

    def _place(self, node: ast.AST) -> Place:
        first: int = node.lineno  # type: ignore[attr-defined]
        column: int = node.col_offset  # type: ignore[attr-defined]
        last: int = node.end_lineno  # type: ignore[attr-defined]
        end: int = node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[first - 1] + column, self._starts[last - 1] + end

    def _has(self, node: ast.stmt | ast.expr) -> bool:
        """Whether a node is where it says: before Python 3.12, those in f-strings may not be."""
        if isinstance(node, ast.stmt):
            return True
        start, end = self._place(node)
        try:
            found = parsed(b"(" + self._text[start:end] + b"\n)", mode="eval").body
        except (SyntaxError, ValueError):
            return False
        return _dumped(found) == _dumped(node)


def _within(place: Place, changes: list[_Change]) -> list[_Change]:
    return [each for each in changes if place[0] <= each.place[0] and each.place[1] <= place[1]]


def _dumped(node: ast.AST) -> str:
    """A node as text; what is assigned is read where it is parsed by itself."""
    return ast.dump(node).replace("Store()", "Load()").replace("Del()", "Load()")
