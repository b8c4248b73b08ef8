"""What must not be written: secrets, taken out of every text before it is kept or compared.

It may read the environment; it knows no file. A value of an environment variable that is named like a secret
never enters a cassette, nor does what has the shape of one, and a function of the user's own takes out what else
is nobody's business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TypeAlias

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.secrets import passwords_in, replaced, without_shapes

Scrub: TypeAlias = Callable[[str], str]

_SECRET = re.compile(
    r"(?:(?:^|_)(?:API)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)$"
    r"|_(?:PAT|PASS|PWD|PW|COOKIES?|CREDENTIALS?|KEY_ID|KEY_BASE)$|(?:^|_)SECRET_",
    re.IGNORECASE,
)
_PLACEHOLDER_KEY = re.compile(r".{0,7}|\D{0,15}|\d*", re.DOTALL)
"""A value that is short, or a word, or a number is no secret but a name for none: ``not-needed``."""

_functions: list[Scrub] = []


def cassette_scrub(function: Scrub) -> Scrub:
    """Have a function take your own secrets out of all that cassettes keep and compare.

    It counts for every cassette of this process, from now on; the same function counts once, and a function of
    the same name takes the place of an earlier one. It may be used as a decorator.

    Args:
        function: Is given a text and returns it without the secrets. Its own result must come back unchanged,
            and equal texts must give equal results: what it leaves is what a replay compares.

    Returns:
        The function itself.

    Raises:
        ConfigurationError: It is no function.

    Example:
        >>> @cassette_scrub
        ... def without_customers(text: str) -> str:
        ...     return re.sub(r"customer-[0-9]+", "customer-0", text)
    """
    if not callable(function):
        raise ConfigurationError(
            f"cassette_scrub takes a function from text to text, not {function!r}"
        )
    name = getattr(function, "__qualname__", None)
    _functions[:] = [
        each
        for each in _functions
        if each is not function and getattr(each, "__qualname__", function) != name
    ]
    _functions.append(function)
    return function


class Scrubber:
    """Takes secrets out of texts.

    Args:
        function: The user's function for this cassette; None takes what `cassette_scrub` was given.
    """

    def __init__(self, function: Scrub | None = None) -> None:
        self._function = function
        self._secrets: dict[str, str] = {}

    @property
    def state(self) -> object:
        """Changes where another result may come out for the same text."""
        return tuple(self._all()), tuple(_environment()), tuple(self._secrets.items())

    def hide(self, name: str, value: str) -> None:
        """Hide one more value; its name stands for it."""
        self._secrets[name] = value

    def __call__(self, text: str) -> str:
        """The text without secrets.

        Raises:
            ConfigurationError: The user's function fails, returns no text, or changes its own result.
        """
        for name, value in (*self._secrets.items(), *_environment()):
            if not _PLACEHOLDER_KEY.fullmatch(value):
                text = replaced(text, value, f"{{{name}}}")
        text = without_shapes(text)
        for function in self._all():
            text = _applied(function, text)
        return text

    def _all(self) -> list[Scrub]:
        return list(_functions) if self._function is None else [self._function]


def _environment() -> list[tuple[str, str]]:
    secrets = []
    for name, value in os.environ.items():
        if _SECRET.search(name):
            secrets.append((name, value))
        elif "://" in value:
            secrets += [(name, password) for password in passwords_in(value)]
    return secrets


def _applied(function: Scrub, text: str) -> str:
    name = getattr(function, "__qualname__", repr(function))
    try:
        once = function(text)
        twice = function(once) if isinstance(once, str) else once
    except Exception as error:
        raise ConfigurationError(
            f"the scrub function {name!r} failed with {error!r}: nothing was recorded or compared; mend it"
        ) from error
    if not isinstance(once, str):
        raise ConfigurationError(f"the scrub function {name!r} returned {once!r}; expected a text")
    if once != twice:
        raise ConfigurationError(
            f"the scrub function {name!r} changes its own result ({once[:60]!r} becomes {twice[:60]!r}); it must "
            "leave a text that it has scrubbed as it is, or no recording could be found again"
        )
    return once
