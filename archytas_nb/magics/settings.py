"""The settings of ``%agent``, which ``%config ArchytasNB`` shows and changes.

A value counts from the next question on. Precedence: the question's option, ``%config`` (or
IPython's configuration file), the environment variable ``ARCHYTAS_NB_…`` of the same name, the
default.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from traitlets import TraitError, TraitType
from traitlets.config import Configurable

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.capabilities import sendable

PROTOCOLS = ("auto", "react", "native")
APPROVALS = ("ask", "auto", "deny")
CASSETTE_MODES = ("auto", "replay", "record", "off")
_YES_NO = {"1": True, "true": True, "yes": True, "on": True}
_YES_NO |= {"0": False, "false": False, "no": False, "off": False}


class Setting(TraitType[Any, Any]):
    """A trait that an environment variable may set, with errors of one line.

    Args:
        default: The value where nothing else is set.
        expected: What a value has to be, for errors.
        check: Returns the value to keep; raises ValueError or TypeError for a bad one.
        help: One sentence for ``%config`` and the reference.
        parse: Reads the environment's text; the result is checked like any other value.
        words: The only legal values, where there are few.
        hidden: Whether the value stays out of error messages.
    """

    def __init__(
        self,
        default: Any,
        expected: str,
        check: Callable[[Any], Any],
        help: str,  # noqa: A002 - traitlets' name
        *,
        parse: Callable[[str], Any] = str,
        words: tuple[str, ...] = (),
        hidden: bool = False,
    ) -> None:
        super().__init__(default, help=help)
        self.expected, self.check, self.parse = expected, check, parse
        self.values, self.hidden = words, hidden
        self.tag(config=True)

    @property
    def variable(self) -> str:
        """The environment variable's name."""
        return f"ARCHYTAS_NB_{str(self.name).upper()}"

    def info(self) -> str:
        """What a value has to be."""
        return self.expected

    def set(self, obj: Any, value: Any) -> None:
        """Set the value, and remember that it was set."""
        super().set(obj, value)
        obj.__dict__.setdefault("_was_set", set()).add(self.name)

    def get(self, obj: Any, cls: Any = None) -> Any:
        """The value that was set, else the environment's, else the default.

        Raises:
            UsageError: The environment's value is not legal.
        """
        text = os.environ.get(self.variable)
        if not text or self.name in obj.__dict__.get("_was_set", ()):
            return super().get(obj, cls)
        try:
            return self.check(self.parse(text))
        except (ValueError, TypeError):
            shown = "set" if self.hidden else repr(text)
            raise UsageError(
                f"{self.variable} is {shown} in the environment; expected {self.expected}"
            ) from None

    def validate(self, obj: Any, value: Any) -> Any:  # noqa: ARG002 - traitlets' signature
        """Check a value.

        Raises:
            TraitError: It is not legal.
        """
        try:
            return self.check(value)
        except (ValueError, TypeError) as error:
            shown = "not a text" if self.hidden else f"{value!r}; expected {self.expected}"
            raise TraitError(str(error) or f"{self.name} is {shown}") from None


class _Hidden(str):
    """A key whose repr does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


def _of_type(*types: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, types):
            raise TypeError
        return value

    return check


def _text(help_: str) -> Setting:
    return Setting("", "a text", _of_type(str), help_)


def _flag(help_: str, *, default: bool = False) -> Setting:
    def parse(text: str) -> Any:
        return _YES_NO.get(text.strip().lower())

    return Setting(default, "True or False", _of_type(bool), help_, parse=parse)


def _choice(words: tuple[str, ...], help_: str) -> Setting:
    def check(value: Any) -> Any:
        if value not in words:
            raise ValueError
        return value

    expected = " or ".join(map(repr, words))
    return Setting(words[0], expected, check, help_, words=words)


def _number(default: float | None, help_: str, *, least: int = 1, seconds: bool = False) -> Setting:
    """A count, or seconds; None is legal where the default is None or the help says "no limit"."""
    may_be_none = default is None or "no limit" in help_

    def check(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        kinds = (int, float) if seconds else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise TypeError
        if not math.isfinite(value) or (value <= 0 if seconds else value < least):
            raise ValueError
        return float(value) if seconds else value

    def parse(text: str) -> Any:
        return None if text == "None" else float(text) if seconds else int(text)

    wanted = "seconds, a number above 0" if seconds else f"a whole number of at least {least}"
    return Setting(default, wanted, check, help_, parse=parse)


def _names(help_: str) -> Setting:
    def check(value: Any) -> list[str]:
        names = split_names(value) if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
            raise TypeError
        return list(names)

    return Setting([], "a list of names or 'one,two'", check, help_)


def _request(help_: str) -> Setting:
    """Fields of each request: a dict that JSON can carry, without what has a setting of its own."""
    own = ("model", "base_url", "api_key", "timeout", "max_retries")

    def check(value: Any) -> Any:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise TypeError
        if taken := [name for name in value if name in own]:
            raise ValueError(f"request has {taken[0]!r}; set %config ArchytasNB.{taken[0]} instead")
        try:
            sendable(value)
        except ConfigurationError as error:
            raise ValueError(f"request: {error}") from None
        return value

    return Setting({}, "a dict such as {'temperature': 0}", check, help_, parse=json.loads)


class Settings(Configurable):
    """What may be set once for all questions."""

    model = _text("The model's name at its endpoint, or 'local' for the embedded model.")
    base_url = _text("The URL of the API; empty takes OPENAI_BASE_URL.")
    api_key = Setting(
        _Hidden(),
        "a text",
        lambda value: _Hidden(_of_type(str)(value)),
        "The endpoint's key; empty takes OPENAI_API_KEY.",
        hidden=True,
    )
    local_model = _text("A GGUF path or hf:REPO/FILE for the embedded model.")
    local_safe = _flag(
        "Always run the embedded model in safe mode: one thread, no extra buffers, no GPU."
    )
    protocol = _choice(
        PROTOCOLS, "How the model is told of the tools: function calling (native) or text (react)."
    )
    instructions = _text("Added to the system prompt.")
    tools = _names(
        "Tools that a question may use, names or globs; empty takes all that are enabled."
    )
    approve = _choice(
        APPROVALS, "What happens when a tool wants approval: ask the person, run it, or refuse it."
    )
    allow = _names("Tools that run without asking, also where nobody can be asked.")
    ask_user = _choice(
        ("auto", "on", "off"),
        "Whether the model has a tool to ask you something; auto: only where it is not small.",
    )
    max_steps = _number(20, "Maximum number of model replies for one question.")
    max_errors = _number(5, "Maximum number of unusable replies and failing calls in a row.")
    max_seconds = _number(
        600.0, "Maximum number of seconds for one question; None for no limit.", seconds=True
    )
    max_total_tokens = _number(
        1_000_000,
        "Maximum number of tokens, input and output together, for one question; None for no limit.",
    )
    max_reply_tokens = _number(
        None,
        "Maximum number of tokens in one reply; None for 1,024 with a small model and 16,384 "
        "with any other, or less where the endpoint allows less.",
    )
    timeout = _number(300.0, "Seconds without a byte before a request is given up.", seconds=True)
    max_retries = _number(
        3, "Maximum number of retries after a temporary failure of the endpoint.", least=0
    )
    request = _request(
        "Further fields of every request to the endpoint, such as {'temperature': 0}, and the "
        "arguments 'headers' and 'query' of OpenAIModel; JSON in the environment."
    )
    quiet = _flag("Show no trace, only the answer.")
    cassette = _text("A file that model replies are recorded in and replayed from.")
    cassette_mode = _choice(
        CASSETTE_MODES,
        "What the cassette is used for; off ignores it. The mode of a test run takes precedence.",
    )
    discover = _flag(
        "Look for a model server on this machine where no endpoint is named; you are asked once "
        "before it is used.",
        default=True,
    )
    warm = _flag(
        "Start the embedded model with the extension, or when this is set, and have it read the "
        "tools before the first question."
    )


def split_names(text: str) -> list[str]:
    """Names that are separated by commas, with or without spaces."""
    return [name for each in text.split(",") if (name := each.strip())]
