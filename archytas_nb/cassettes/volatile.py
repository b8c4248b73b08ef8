"""What may differ from run to run without mattering: named parts of a text, each replaced by its name.

Pure: text in, text out. ``{date}`` in a cassette stands for any date, so a prompt with today's date still fits
the recording of yesterday.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import Json

PATTERNS: dict[str, str] = {
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    "address": r"\b0x[0-9a-fA-F]{4,}\b",
    "path": r"(?<![\w:/.{}<])/(?:[\w.@+~-]+/)+[\w.@+~-]*|\b[A-Za-z]:\\[^\s\"'<>|*?]+",
    "date": r"\b\d{4}(?:-\d{2}-|/\d{2}/)\d{2}(?=\b|T\d)|\b\d{1,2}(?:\.\d{1,2}\.|/\d{1,2}/)\d{4}\b",
    "time": r"(?:(?<![\w:])|(?<=[\d}]T))\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?(?!\w|:\w)",
    "number": r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?(?![\w])",
}
"""Built-in names, in the order in which they are applied: a date is made of numbers."""


class Volatile:
    """The named patterns of one cassette.

    Args:
        said: Names of built-in patterns, or a mapping from names to regular expressions; the value True (or
            None) takes the built-in pattern of that name. Own patterns are applied first.

    Raises:
        ConfigurationError: A name is not known, or a pattern is no regular expression that matches something.
    """

    def __init__(self, said: Iterable[str] | Mapping[str, Json] | None = None) -> None:
        given: dict[str, Json] = (
            dict(said) if isinstance(said, Mapping) else dict.fromkeys(_names(said), True)
        )
        self.patterns: dict[str, str] = {}
        own = {name: pattern for name, pattern in given.items() if pattern not in (True, None)}
        for name, pattern in own.items():
            _check(name, pattern)
            self.patterns[name] = pattern
        unknown = [name for name in given if name not in own and name not in PATTERNS]
        if unknown:
            known = ", ".join(PATTERNS)
            raise ConfigurationError(
                f"no volatile part is named {unknown[0]!r}; there are {known}, and a name of your own takes a "
                'regular expression: {"order": "ORD-[0-9]+"}'
            )
        self.patterns |= {
            name: PATTERNS[name] for name in PATTERNS if name in given and name not in own
        }
        self._compiled = [(re.compile(p), f"{{{name}}}") for name, p in self.patterns.items()]

    def __call__(self, text: str) -> str:
        """The text with a placeholder for each volatile part."""
        for pattern, placeholder in self._compiled:
            text = pattern.sub(lambda _, name=placeholder: name, text)  # type: ignore[misc]
        return text

    def __or__(self, other: Volatile) -> Volatile:
        """Both together; where both know a name, the right one counts."""
        return Volatile(self.said | other.said)

    @property
    def said(self) -> dict[str, Json]:
        """The patterns by name, as they are given: True for a built-in one."""
        return {name: True if PATTERNS.get(name) == p else p for name, p in self.patterns.items()}

    def line(self) -> Json:
        """How a header says it: a list of names where all are built in; None for nothing."""
        said = self.said
        if all(pattern is True for pattern in said.values()):
            return list(said) or None
        return said


def _names(said: Iterable[str] | None) -> list[str]:
    texts = [said] if isinstance(said, str) else list(said or ())
    return [name for text in texts for name in re.split(r"[,\s]+", text) if name]


def _check(name: str, pattern: Json) -> None:
    move = "expected a regular expression that matches at least one character"
    if not re.fullmatch(r"\w+", name):
        raise ConfigurationError(
            f"a volatile part is named {name!r}; expected letters, digits and _"
        )
    try:
        empty = re.compile(pattern).search("")
    except (re.error, TypeError) as error:
        raise ConfigurationError(
            f"the volatile part {name!r} is {pattern!r} ({error}); {move}"
        ) from error
    if empty:
        raise ConfigurationError(
            f"the volatile part {name!r} is {pattern!r}, which matches nothing; {move}"
        )
