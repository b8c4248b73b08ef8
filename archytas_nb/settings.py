"""The settings: name, type, default, environment variable and help of each, and its value now.

`%agent` and `Agent` read them here. Precedence: the option of a question or argument of an agent,
``%config ArchytasNB`` in a kernel with the extension, the environment, the default. Changes take
effect with the next question.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from archytas_nb.choices import (
    ApiName,
    CompactionName,
    ContextName,
    EffortName,
    Policy,
    ProtocolName,
    PythonMode,
    ValuesName,
)
from archytas_nb.errors import ConfigurationError
from archytas_nb.words import did_you_mean, nearest, shorten

PREFIX = "ARCHYTAS_NB_"
Kind: TypeAlias = Literal[
    "text", "secret", "flag", "choice", "whole", "number", "names", "fields", "bounds"
]  # fmt: skip
_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_EXPECTED: dict[Kind, str] = {
    "text": "text",
    "secret": "text",
    "flag": "true or false",
    "whole": "a whole number",
    "number": "a number",
    "names": "names, separated by commas",
    "fields": "a JSON object",
    "bounds": 'a JSON object such as {"seconds": 30}',
}


class _Unset:
    """The class of `UNSET`."""

    def __repr__(self) -> str:
        return "<setting>"

    def __reduce__(self) -> str:
        return "UNSET"  # unpickled, it is the same object


UNSET: Any = _Unset()
"""An argument that was left out: the setting of the same name applies."""


class UnreadableSettingError(ValueError):
    """A text does not stand for a value of the setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name in ``%config ArchytasNB`` and as an argument of `Agent`.
        kind: What its values are.
        default: Its value if nothing is set.
        text: What it is for.
        choices: The values that there are; empty if there are others.
        least: The smallest number.
        most: The largest number.
        optional: Whether it may be None.
        other_variable: Another environment variable, read after its own.
        magics_only: Whether it is for the magics only, not for `Agent`.
    """

    name: str
    kind: Kind
    default: Any
    text: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    optional: bool = False
    other_variable: str = ""
    magics_only: bool = False

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables that it is read from, in this order."""
        return (self.variable, *filter(None, [self.other_variable]))

    def read(self, text: str) -> Any:
        """The value that a text stands for; raises UnreadableSettingError."""
        if self.optional and text.strip().lower() == "none":
            return None
        if self.choices and text.strip() not in self.choices:
            raise self._unreadable(text)
        try:
            value = _READERS[self.kind](text)
        except UnreadableSettingError:
            raise
        except (ValueError, LookupError, RecursionError):
            raise self._unreadable(text) from None
        is_small = self.least is not None and not value >= self.least
        is_large = self.most is not None and not value <= self.most
        if is_small or is_large:
            raise self._unreadable(text)
        return value

    def _unreadable(self, text: str) -> UnreadableSettingError:
        if self.choices:
            guess = did_you_mean(text.strip(), self.choices) or ";"
            expected = f"unknown{guess} expected one of {', '.join(self.choices)}"
            return UnreadableSettingError(f"{shorten(text, 80)!r} is {expected}")
        # Request fields may contain keys.
        shown = "the value"
        if self.kind != "fields":
            shown = repr(shorten(text, 80))
        return UnreadableSettingError(f"{shown} is not {self.expected}")

    @property
    def expected(self) -> str:
        """What its values are, in words."""
        parts = [_EXPECTED[self.kind]]
        if self.least is not None:
            parts.append(f"of at least {self.least:g}")
        if self.most is not None:
            parts.append(f"and at most {self.most:g}")
        text = " ".join(parts)
        if self.optional:
            return f"{text}, or None"
        return text


def split_names(text: str) -> list[str]:
    """Names that are separated by commas, with or without spaces."""
    return [name for each in text.split(",") if (name := each.strip())]


def _fields(text: str) -> dict[str, Any]:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(text)  # noqa: TRY004 - as of a text that is not JSON
    check_fields(fields)
    return fields


BOUNDS: Mapping[str, tuple[float, float]] = {
    "calls": (1, 1_000_000),  # each has an id of nine characters
    "seconds": (0.001, 10**12),
    "memory": (10_000_000, 10**12),
    "depth": (10, 10**12),
}
"""The bounds that ``program_bounds`` may set, with the least and the greatest value of each."""


def check_bounds(given: Any) -> None:
    """Raise UnreadableSettingError unless these are bounds of a program by their names."""
    if not isinstance(given, Mapping):
        expected = ", ".join(BOUNDS)
        raise UnreadableSettingError(
            f"{given!r} is no mapping; expected bounds by name: {expected}"
        )
    for name, number in given.items():
        if name not in BOUNDS:
            guess = did_you_mean(str(name), BOUNDS) or ";"
            raise UnreadableSettingError(
                f"unknown bound {name!r}{guess} expected {', '.join(BOUNDS)}"
            )
        is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
        is_whole = name == "seconds" or isinstance(number, int)
        least, most = BOUNDS[name]
        if not (is_number and is_whole and least <= number <= most):
            kind = "a number" if name == "seconds" else "a whole number"
            expected = f"{kind} from {least:,} to {most:,}"
            raise UnreadableSettingError(f"{name} is {number!r}; expected {expected}")


def _bounds(text: str) -> dict[str, Any]:
    found = json.loads(text)
    check_bounds(found)
    return dict(found)


_READERS: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "secret": str,
    "flag": lambda text: _WORDS[text.strip().lower()],
    "choice": str.strip,
    "whole": int,
    "number": float,
    "names": split_names,
    "fields": _fields,
    "bounds": _bounds,
}


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise UnreadableSettingError if the fields of all requests contain another setting."""
    for name in ("model", "base_url", "api", "api_key", "effort", "timeout", "max_retries"):
        if name in fields:
            raise UnreadableSettingError(
                f"request contains {name!r}; set ArchytasNB.{name} instead"
            )


_LIST = (
    Setting(
        "model", "text", "",
        "The model's name at its endpoint, with a prefix for one of a provider ('groq:NAME', "
        "'anthropic:NAME', 'ollama:NAME', …), or 'local' for the embedded model.",
    ),
    Setting("base_url", "text", "", "The URL of the API.", other_variable="OPENAI_BASE_URL"),
    Setting("api_key", "secret", "", "The endpoint's API key.", other_variable="OPENAI_API_KEY"),
    Setting(
        "api", "choice", "auto",
        "Which API of an OpenAI-compatible endpoint is used: chat completions (chat) or the "
        "Responses API (responses). auto: the Responses API for OpenAI's reasoning models and "
        "where an endpoint asks for it, else chat completions.",
        choices=get_args(ApiName),
    ),
    Setting(
        "effort", "choice", "auto",
        "How much the model reasons before it replies, from none to max; auto: as much as it does "
        "by default. An endpoint that lacks a level gets the nearest one that it names, or none; "
        "the embedded model has no levels.",
        choices=get_args(EffortName),
    ),
    Setting(
        "local_model", "text", "",
        "The GGUF file of the embedded model: a path or hf:OWNER/REPO/FILE.",
    ),
    Setting(
        "local_safe", "flag", default=False,
        text="Always run the embedded model in safe mode: one thread, no extra buffers, no GPU.",
    ),
    Setting(
        "protocol", "choice", "auto",
        "How the model calls tools: function calling (native), JSON in its replies (react), or "
        "Python programs that run in a sandbox (program).",
        choices=get_args(ProtocolName),
    ),
    Setting(
        "instructions", "text", "",
        "Text that is added to the system prompt, or @ and the path of a file with it.",
    ),
    Setting(
        "tools", "names", [],
        "Tools that a question may use, as names or globs such as count_*; if empty, all enabled "
        "tools.",
    ),
    Setting(
        "approve", "choice", "ask",
        "What to do when a tool requires approval: ask you, run it, or refuse it.",
        choices=get_args(Policy),
    ),
    Setting(
        "allow", "names", [],
        "Tools that run without approval, even if there is nobody to ask.",
    ),
    Setting(
        "ask_user", "choice", "auto",
        "Whether the model has a tool for asking you questions. auto: yes with %agent, unless the "
        "model is small or one of your tools is named ask_user; no with Agent.",
        choices=("auto", "on", "off"),
    ),
    Setting(
        "ask_with", "choice", "auto",
        "How you are asked during a run: with buttons and fields (controls), or with a line to "
        "type (input). auto: with controls where they work while a cell runs, as in JupyterLab and "
        "Notebook 7 with ipykernel 7, else with a line. controls: the same, but look before each "
        "question whether they work now.",
        choices=("auto", "controls", "input"), magics_only=True,
    ),
    Setting(
        "ask_timeout", "number", None,
        "Seconds after which a call that waits for you with buttons is refused, and a question of "
        "the agent stays without an answer; None waits for as long as you take.",
        least=1, most=1e9, optional=True, magics_only=True,
    ),
    Setting(
        "context", "choice", "auto",
        "Which variables are described below the question, with types, shapes and columns. Unless "
        "this is none, the model also has tools to read variables. auto: mentioned with a small "
        "model, changed with any other.",
        choices=get_args(ContextName),
    ),
    Setting(
        "values", "choice", "all",
        "What the model may learn of values: all, numbers and booleans only (scalars), only names, "
        "types and the results of comparisons (none), or no comparisons either (strict). Results "
        "stay in variables, whose values are filled into the answer here.",
        choices=get_args(ValuesName),
    ),
    Setting(
        "compaction", "choice", "summary",
        "What becomes of the beginning of a conversation that is too long for the model: a summary "
        "that the model writes takes its place, or it is dropped. For small models it is dropped.",
        choices=get_args(CompactionName),
    ),
    Setting(
        "python", "choice", "off",
        "Whether the model may run code in the notebook: ask you first, run it and show what it "
        "changed (undoable), or run it unwatched (auto). This is not a sandbox. For small models, "
        "use the option or argument: the setting does not apply to them.",
        choices=get_args(PythonMode),
    ),
    Setting(
        "undo", "flag", None,
        "Watch what all tools change in the variables, for %agent_undo and %agent_diff; None: only "
        "if python is ask or undoable.",
        optional=True,
    ),
    Setting(
        "max_steps", "whole", 20, "Maximum number of model replies for one question.", least=1
    ),
    Setting(
        "max_errors", "whole", 5,
        "Maximum number of consecutive unusable replies and failed calls.", least=1,
    ),
    Setting(
        "max_seconds", "number", 600.0,
        "Maximum number of seconds for one question; None for no limit.",
        least=0.001, most=1e9, optional=True,
    ),
    Setting(
        "max_total_tokens", "whole", 1_000_000,
        "Maximum number of tokens, input and output together, for one question; None for no limit.",
        least=1, optional=True,
    ),
    Setting(
        "max_reply_tokens", "whole", None,
        "Maximum number of tokens in one reply; None for 1,024 with small models and 16,384 with "
        "others, or less if the endpoint allows less.",
        least=1, optional=True,
    ),
    Setting(
        "program_bounds", "bounds", {},
        "What one program of the model may use, where it differs from 1,000 calls, 5 seconds of "
        "computing, 100,000,000 bytes of memory and 200 nested calls of functions: a dict with "
        "some of calls, seconds, memory and depth, such as {'seconds': 30}; as JSON in the "
        "environment variable.",
    ),
    Setting(
        "timeout", "number", 300.0,
        "Seconds without receiving any data after which a request fails.", least=0.001, most=1e9,
    ),
    Setting(
        "max_retries", "whole", 3,
        "Maximum number of retries after a temporary failure of the endpoint.", least=0,
    ),
    Setting(
        "request", "fields", {},
        "Additional fields for every request to the endpoint, such as {'temperature': 0}, and the "
        "arguments 'headers' and 'query' of OpenAIModel; as JSON in the environment variable.",
    ),
    Setting("quiet", "flag", default=False,
        text="Show only the answer, no trace.", magics_only=True),
    Setting(
        "cassette", "text", "",
        "The file in which model replies are recorded and from which they are replayed.",
    ),
    Setting(
        "cassette_mode", "choice", "auto",
        "How the cassette is used; off ignores it. The mode of a test run takes precedence.",
        choices=("auto", "replay", "record", "off"),
    ),
    Setting(
        "discover", "flag", default=True,
        text="If no endpoint is configured, look for a model server on this machine; you are asked "
        "once before it is used.",
    ),
    Setting(
        "warm", "flag", default=False,
        text="Start the embedded model when the extension is loaded or this is set, and have it "
        "process the tools before the first question.",
        magics_only=True,
    ),
)  # fmt: skip
SETTINGS: Mapping[str, Setting] = {each.name: each for each in _LIST}
QUESTION_SETTINGS = (
    "protocol", "instructions", "tools", "max_steps", "max_errors", "max_seconds",
    "max_total_tokens", "max_reply_tokens", "program_bounds", "approve", "ask_user", "allow",
    "context", "values", "compaction", "python", "undo",
)  # fmt: skip
"""The settings of one question; all but ``tools`` are arguments of `Agent` as well."""
OTHER_VARIABLES = (f"{PREFIX}CASSETTE_REPORT", f"{PREFIX}CASSETTE_RERUN")
"""Variables that the pytest plugin sets for its kernels; they are no settings."""


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _State:
    """``configured`` is what ``%config`` sets in this kernel, by name; None without `%config`."""

    configured: Mapping[str, Any] | None = None


_state = _State()


def configure(configured: Mapping[str, Any] | None) -> None:
    """Have settings read from ``%config`` first; None if the extension is not loaded.

    The mapping is read when a setting is: it contains what is set then.
    """
    _state.configured = configured


def configured(name: str) -> Any:
    """What ``%config`` sets in this kernel; UNSET if it sets nothing."""
    if _state.configured is None:
        return UNSET
    found = _state.configured.get(name, UNSET)
    # An endpoint or a model that is configured as an empty text is not configured.
    if found == "" and name in _EMPTY_IS_UNSET:
        return UNSET
    return found


def value(name: str) -> Any:
    """The value of a setting now; raises ConfigurationError if it cannot be read."""
    found = configured(name)
    if found is UNSET:
        return from_environment(name)
    return found


def values(names: Iterable[str]) -> dict[str, Any]:
    """The values of these settings now; raises ConfigurationError if one cannot be read."""
    return {name: value(name) for name in names}


_EMPTY_IS_UNSET = ("model", "base_url", "api_key", "local_model")


def from_environment(name: str) -> Any:
    """What the environment sets, else the default; an empty variable counts as unset.

    Raises:
        ConfigurationError: The variable's value cannot be read.
    """
    setting = SETTINGS[name]
    for variable in setting.variables:
        text = os.environ.get(variable)
        if not text or not text.strip():
            continue
        try:
            return setting.read(text)
        except UnreadableSettingError as error:
            raise ConfigurationError(f"the environment variable {variable}: {error}") from None
    return copy(setting.default)


def where_to_set(name: str) -> str:
    """How a person sets it here, for error messages: the variable, and ``%config`` if it counts."""
    if configured(name) is not UNSET:  # it precedes every variable
        return f"%config ArchytasNB.{name}"
    variables = SETTINGS[name].variables
    variable = next((each for each in variables if os.environ.get(each)), variables[-1])
    if _state.configured is None:
        return variable
    return f"{variable} (or %config ArchytasNB.{name})"


_PREFIXES = re.compile(r"ARCHYTAS[_-]?NB[_-]?", re.IGNORECASE)
"""Spellings of the prefix of variables."""


def unknown_variables(names: Iterable[str]) -> dict[str, str]:
    """Environment variables that look like settings and are none, each with the nearest name."""
    known = {each.variable for each in SETTINGS.values()} | {*OTHER_VARIABLES}
    unknown: dict[str, str] = {}
    for name in names:
        prefix = _PREFIXES.match(name)
        if prefix is not None and name not in known:
            setting = nearest(name[prefix.end() :], SETTINGS)
            unknown[name] = ""
            if setting:
                unknown[name] = SETTINGS[setting].variable
    return unknown
