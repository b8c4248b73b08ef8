"""The kinds of setting: traits that an environment variable may set, with errors of one line.

Knows traitlets and the environment, none of the settings themselves.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from typing import Any

from IPython.core.error import UsageError
from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.capabilities import sendable

PREFIX = "ARCHYTAS_NB_"


class _Setting:
    """Makes a trait be what the environment says, as long as nothing else was set; its errors are short."""

    name: str | None

    @property
    def variable(self) -> str:
        """The variable that is read."""
        return PREFIX + str(self.name).upper()

    def set(self, obj: Any, value: Any) -> None:
        """Take a value, and remember that it was given."""
        super().set(obj, value)  # type: ignore[misc]
        obj.__dict__.setdefault("_given", set()).add(self.name)

    def get(self, obj: Any, cls: Any = None) -> Any:
        """Return the value that was given, else the environment's, else the default.

        Raises:
            UsageError: The environment's value makes no sense.
        """
        said = os.environ.get(self.variable)
        if not said or self.name in obj.__dict__.get("_given", ()):
            return super().get(obj, cls)  # type: ignore[misc]
        try:
            return self._validate(obj, self.from_string(said))  # type: ignore[attr-defined]
        except (TraitError, ValueError):
            raise UsageError(
                f"{self.variable} is {said!r} in the environment; expected {self.info()}"
            ) from None

    def error(self, obj: Any, value: Any, error: Any = None, info: Any = None) -> Any:  # noqa: ARG002 (traitlets')
        """Say in one line what was expected."""
        raise TraitError(f"{self.name} is {value!r}; expected {self.info()}")

    def info(self) -> str:
        """What is expected."""
        return str(super().info())  # type: ignore[misc]


class Text(_Setting, Unicode):  # type: ignore[type-arg]
    """A text; empty where there is none."""

    info_text = "a text"


class Flag(_Setting, Bool):  # type: ignore[type-arg]
    """Yes or no."""

    info_text = "True or False"

    def from_string(self, s: str) -> Any:
        """Read the environment's value, spelled in any of the usual ways."""
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        return words.get(s.strip().lower(), s)


class WordEnum(_Setting, Enum):  # type: ignore[type-arg]
    """One of a few words."""

    def from_string(self, s: str) -> Any:
        """Read the environment's value; it is validated like any other."""
        return s

    def info(self, *, as_rst: bool = False) -> str:  # noqa: ARG002 (traitlets')
        """Name the words."""
        return " or ".join(repr(each) for each in self.values or ())


class Count(_Setting, Int):  # type: ignore[type-arg]
    """A whole number of at least 1."""

    least = 1

    def validate(self, obj: Any, value: Any) -> Any:
        """Refuse what is no whole number or too small."""
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            self.error(obj, value)
        return value

    def info(self) -> str:
        """Name the bound."""
        return f"a whole number of at least {self.least}"


class Retries(Count):
    """A whole number of at least 0."""

    least = 0


class Seconds(_Setting, Float):  # type: ignore[type-arg]
    """A time above 0."""

    info_text = "seconds, a number above 0"

    def validate(self, obj: Any, value: Any) -> Any:
        """Refuse what is no time."""
        number = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        )
        if not number or value <= 0:
            self.error(obj, value)
        return float(value)


class Names(_Setting, List):  # type: ignore[type-arg]
    """Names, as a list or as one text with commas."""

    def set(self, obj: Any, value: Any) -> None:
        """Split a text at its commas."""
        super().set(obj, split_names(value) if isinstance(value, str) else value)

    def validate(self, obj: Any, value: Any) -> Any:
        """Refuse what is no list of texts."""
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            self.error(obj, value)
        return list(value)

    def from_string(self, s: str) -> Any:
        """Read the environment's value."""
        return split_names(s)

    def info(self) -> str:
        """Name both forms."""
        return "a list of names or 'one,two'"


class Fields(_Setting, Dict):
    """Fields of a request: a dict of what JSON can carry; the environment's is JSON.

    Args:
        others: Names that are settings of their own and no fields.
    """

    info_text = "a dict such as {'temperature': 0}"

    def __init__(self, others: Collection[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.others = others

    def validate(self, obj: Any, value: Any) -> Any:
        """Refuse what is no dict of fields, and what another setting is for."""
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            self.error(obj, value)
        if taken := [name for name in value if name in self.others]:
            raise TraitError(
                f"{self.name} holds {taken[0]!r}; set %config ArchytasNB.{taken[0]} instead"
            )
        try:
            sendable(value)
        except ConfigurationError as error:
            raise TraitError(f"{self.name}: {error}") from None
        return value

    def from_string(self, s: str) -> Any:
        """Read the environment's value."""
        return json.loads(s)

    def info(self) -> str:
        """Show one."""
        return self.info_text


class _Hidden(str):
    """A key that does not show itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


class Secret(Text):
    """A text whose value ``%config`` does not print into the notebook."""

    def validate(self, obj: Any, value: Any) -> str:
        """Accept a text, and hide it."""
        return _Hidden(super().validate(obj, value))

    def error(self, obj: Any, value: Any, error: Any = None, info: Any = None) -> Any:  # noqa: ARG002 (traitlets')
        """Say what was expected; what it is instead may be a secret too."""
        raise TraitError(f"{self.name} is no text")


def split_names(text: str) -> list[str]:
    """Names that are separated by commas, with or without spaces."""
    return [name for each in text.split(",") if (name := each.strip())]
