"""The settings of ``%agent``, which ``%config ArchytasNB`` shows and changes.

Changes take effect with the next question. Precedence: the option of the question, ``%config`` (or
IPython's configuration file), the environment variable ``ARCHYTAS_NB_…`` with the same name, the
default.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentTypeError
from typing import Any

import traitlets
from IPython.core.error import UsageError
from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode
from traitlets.config import Configurable

from archytas_nb.errors import ConfigurationError
from archytas_nb.words import did_you_mean


class Unreadable(ArgumentTypeError, ValueError):
    """A text does not stand for a value; argparse, too, shows the message as it is."""


class _Setting(traitlets.TraitType[Any, Any]):
    """A trait whose default is the value of an environment variable."""

    @property
    def variable(self) -> str:
        """The environment variable's name."""
        return f"ARCHYTAS_NB_{str(self.name).upper()}"

    def get(self, obj: Any, cls: Any = None) -> Any:  # noqa: ARG002 - traitlets' signature
        """The value that was set, else the environment's, else the default; raises UsageError."""
        if self.name in obj._trait_values:  # noqa: SLF001 - traitlets' own `get` puts defaults there
            return obj._trait_values[self.name]  # noqa: SLF001
        if not (text := os.environ.get(self.variable)):
            return self.default(obj)
        try:
            return self.read(text, obj)
        except ValueError as error:
            raise UsageError(f"the environment variable {self.variable}: {error}") from None

    def read(self, text: str, obj: Any = None) -> Any:
        """The value that a text stands for; raises Unreadable."""
        try:
            return self._validate(Settings() if obj is None else obj, self.from_string(text))
        except (ValueError, TypeError, TraitError):
            words = getattr(self, "values", ())
            guess = f"unknown{did_you_mean(text, words) or ';'} expected one of {', '.join(words)}"
            raise Unreadable(f"{text!r} is {guess if words else f'not {self.info()}'}") from None


class _Flag(Bool):  # type: ignore[type-arg]
    def from_string(self, s: str) -> Any:
        words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        return super().from_string(words.get(s.lower(), s))


class Secret(Unicode):  # type: ignore[type-arg]
    """A text whose value neither an error nor a repr shows."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Check that it is text."""
        return _Hidden(value) if isinstance(value, str) else self.error(obj, _Hidden("x"))


class _Hidden(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


class _Names(List):  # type: ignore[type-arg]
    """Names as a list or as ``"one,two"``."""

    def set(self, obj: Any, value: Any) -> None:
        super().set(obj, split_names(value) if isinstance(value, str) else value)

    def from_string(self, s: str) -> Any:
        return split_names(s)


class _Request(Dict):
    """Additional request fields: JSON values, without fields that have their own setting."""

    def validate(self, obj: Any, value: Any) -> Any:
        # Imported here: loading the extension, which each notebook does, must be fast.
        from archytas_nb.models.body import checked_fields

        fields: dict[str, Any] = super().validate(obj, value) or {}
        for name in ("model", "base_url", "api_key", "timeout", "max_retries"):
            if name in fields:
                raise TraitError(
                    f"request contains {name!r}; set %config ArchytasNB.{name} instead"
                )
        try:
            checked_fields(fields)
        except ConfigurationError as error:
            raise TraitError(f"request: {error}") from None
        return fields

    def from_string(self, s: str) -> Any:
        return json.loads(s)


def _setting(kind: Any, text: str, *values: Any, **more: Any) -> Any:
    """A trait of this kind that the environment may set; %config shows the kind's name."""
    info = f"{kind.info_text} of at least {more['min']}" if "min" in more else kind.info_text
    name = next(each.__name__ for each in kind.__mro__ if not each.__name__.startswith("_"))
    made = type(name, (_Setting, kind), {"info_text": info})
    return made(*values, help=text, **more).tag(config=True)


def _choice(text: str, *words: str) -> Any:
    """One of these words, the first where nothing is set."""
    return _setting(Enum, text, words, words[0])


integer, number = _setting(Int, "").read, _setting(Float, "").read
"""Readers of numbers, for options without a setting."""

_SECONDS: dict[str, Any] = {"min": 0.001, "max": 1e9}
_COUNT_OR_NONE: dict[str, Any] = {"min": 1, "allow_none": True}


class Settings(Configurable):
    """What may be set once for all questions."""

    model = _setting(
        Unicode,
        "The model's name at its endpoint, with a prefix for one of a provider ('groq:NAME', "
        "'anthropic:NAME', 'ollama:NAME', …), or 'local' for the embedded model.",
    )
    base_url = _setting(Unicode, "The URL of the API; if empty, OPENAI_BASE_URL is used.")
    api_key = _setting(
        Secret, "The endpoint's API key; if empty, OPENAI_API_KEY is used.", _Hidden()
    )
    local_model = _setting(
        Unicode, "The GGUF file of the embedded model: a path or hf:OWNER/REPO/FILE."
    )
    local_safe = _setting(
        _Flag, "Always run the embedded model in safe mode: one thread, no extra buffers, no GPU."
    )
    protocol = _choice(
        "How the model calls tools: function calling (native) or JSON in its replies (react).",
        *("auto", "react", "native"),
    )
    instructions = _setting(Unicode, "Text that is added to the system prompt.")
    tools = _setting(
        _Names,
        "Tools that a question may use, as names or globs such as count_*; if empty, all enabled "
        "tools.",
        Unicode(),
    )
    approve = _choice(
        "What to do when a tool requires approval: ask you, run it, or refuse it.",
        *("ask", "auto", "deny"),
    )
    allow = _setting(
        _Names, "Tools that run without approval, even if there is nobody to ask.", Unicode()
    )
    ask_user = _choice(
        "Whether the model has a tool for asking you questions; auto: unless it is a small model.",
        *("auto", "on", "off"),
    )
    context = _choice(
        "Which variables are described below the question, with types, shapes and columns. Unless "
        "this is none, the model also has tools to read variables. auto: mentioned with a small "
        "model, changed with any other.",
        *("auto", "none", "mentioned", "changed", "all"),
    )
    python = _choice(
        "Whether the model may run code in the notebook: ask you first, run it and show what it "
        "changed (undoable), or run it unwatched (auto). This is not a sandbox. For small models, "
        "use the option: the setting does not apply to them.",
        *("off", "ask", "undoable", "auto"),
    )
    undo = _setting(
        _Flag,
        "Watch what all tools change in the variables, for %agent_undo and %agent_diff; None: only "
        "if python is ask or undoable.",
        None,
        allow_none=True,
    )
    max_steps = _setting(Int, "Maximum number of model replies for one question.", 20, min=1)
    max_errors = _setting(
        Int, "Maximum number of consecutive unusable replies and failed calls.", 5, min=1
    )
    max_seconds = _setting(
        Float,
        "Maximum number of seconds for one question; None for no limit.",
        *(600.0, True),
        **_SECONDS,
    )
    max_total_tokens = _setting(
        Int,
        "Maximum number of tokens, input and output together, for one question; None for no limit.",
        1_000_000,
        **_COUNT_OR_NONE,
    )
    max_reply_tokens = _setting(
        Int,
        "Maximum number of tokens in one reply; None for 1,024 with small models and 16,384 with "
        "others, or less if the endpoint allows less.",
        None,
        **_COUNT_OR_NONE,
    )
    timeout = _setting(
        Float, "Seconds without receiving any data after which a request fails.", 300.0, **_SECONDS
    )
    max_retries = _setting(
        Int, "Maximum number of retries after a temporary failure of the endpoint.", 3, min=0
    )
    request = _setting(
        _Request,
        "Additional fields for every request to the endpoint, such as {'temperature': 0}, and the "
        "arguments 'headers' and 'query' of OpenAIModel; as JSON in the environment variable.",
    )
    quiet = _setting(_Flag, "Show only the answer, no trace.")
    cassette = _setting(
        Unicode, "The file in which model replies are recorded and from which they are replayed."
    )
    cassette_mode = _choice(
        "How the cassette is used; off ignores it. The mode of a test run takes precedence.",
        *("auto", "replay", "record", "off"),
    )
    discover = _setting(
        _Flag,
        "If no endpoint is configured, look for a model server on this machine; you are asked once "
        "before it is used.",
        True,  # noqa: FBT003 - traitlets' signature
    )
    warm = _setting(
        _Flag,
        "Start the embedded model when the extension is loaded or this is set, and have it process "
        "the tools before the first question.",
    )


def split_names(text: str) -> list[str]:
    """Names that are separated by commas, with or without spaces."""
    return [name for each in text.split(",") if (name := each.strip())]
