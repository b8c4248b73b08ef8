"""Ways of writing a value that are nearly JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Style:
    """How a value is written."""

    quote: tuple[str, str] = ('"', '"')
    python: bool = False
    trailing: bool = False
    comments: bool = False
    bare: bool = False
    indent: bool = False
    commas: bool = True
    escape: bool = True  # quotes and line breaks in strings
    end: str = "\n"

    def write(self, value: Any, depth: int = 0) -> str:
        if isinstance(value, dict):
            return self._items(
                "{}",
                [f"{self._key(k)}: {self.write(v, depth + 1)}" for k, v in value.items()],
                depth,
            )
        if isinstance(value, list):
            return self._items("[]", [self.write(each, depth + 1) for each in value], depth)
        if isinstance(value, str):
            return self._text(value)
        return repr(value) if self.python else json.dumps(value)

    def _items(self, marks: str, items: list[str], depth: int) -> str:
        if not items:
            return marks
        gap = self.end + "  " * (depth + 1) if self.indent else " "
        comment = " // as asked" + self.end if self.comments else ""
        comma = "," if self.commas else ""
        last = "," if self.trailing else ""
        return marks[0] + gap.strip(" ") + f"{comma}{comment}{gap}".join(items) + last + comment + (
            self.end + "  " * depth if self.indent else ""
        ) + marks[1]  # fmt: skip

    def _key(self, key: str) -> str:
        return key if self.bare and key.isidentifier() else f"{self.quote[0]}{key}{self.quote[1]}"

    def _text(self, text: str) -> str:
        opening, closing = self.quote
        if not self.escape:
            return f"{opening}{text}{closing}"
        inner = json.dumps(text, ensure_ascii=False)[1:-1]
        if opening != '"':
            inner = inner.replace('\\"', '"')
            for mark in {opening, closing}:
                inner = inner.replace(mark, "\\" + mark)
        return f"{opening}{inner}{closing}"
