"""The settings: type, range, help, scope and environment variable of each are at its field.

`%agent` and `Agent` read them here. Precedence: the option of a question or argument of an agent,
``%config ArchytasNB`` in a kernel with the extension, the environment, the default. Changes take
effect with the next question. `Settings` are those of one question; the others are read where they
are used, since they hold keys, or belong to the notebook.

The kinds are written out: `%load_ext` imports this module in every notebook, and pydantic, whose
types could say the same, takes longer to import than all that the extension loads.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from archytas_nb.choices import (
    ApiName,
    AskBefore,
    CompactionName,
    ContextName,
    EffortName,
    Policy,
    ProtocolName,
    PythonMode,
    TraceName,
    ValuesName,
)
from archytas_nb.errors import ConfigurationError, argument_error, invalid_argument
from archytas_nb.words import did_you_mean, nearest, truncate_line

if TYPE_CHECKING:
    from archytas_nb.loop.limits import Limits

PREFIX = "ARCHYTAS_NB_"

Approve: TypeAlias = Policy | Callable[..., Any]
"""The policy for calls that require approval, or a function; see `kernel.approval`."""

Scope: TypeAlias = Literal["question", "model", "process", "notebook"]
"""The scope of a setting: a question, every request to a model, this process, or the magics."""


class _Unset:
    """The class of `UNSET`."""

    def __repr__(self) -> str:
        return "<setting>"

    def __reduce__(self) -> str:
        return "UNSET"  # unpickled, it is the same object


UNSET: Any = _Unset()
"""An argument that was left out: the setting of the same name applies."""


class UnreadableSettingError(ValueError):
    """A text does not stand for a value of the setting, or a value is none of it."""


# ── the kinds of values ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Kind:
    """The kind of values of a setting."""

    expected: ClassVar[str] = "text"
    """The texts that stand for values, in words."""

    @property
    def argument(self) -> str:
        """The values, in the words of Python."""
        return self.expected

    hides: ClassVar[bool] = False
    """Whether a wrong value is not shown: it may contain keys."""

    def read(self, text: str) -> Any:
        """The value that a text stands for; raises ValueError or LookupError."""
        return text

    def check(self, value: Any) -> Any:
        """The value, as it is used; raises ValueError or TypeError."""
        if not isinstance(value, str):
            raise TypeError
        return value


class Text(Kind):
    """A text."""


class Secret(Text):
    """A text that is not shown."""

    hides = True


class Flag(Kind):
    """True or False."""

    expected = "true or false"
    argument = "True or False"

    def read(self, text: str) -> bool:
        """True for 1, true, yes and on; False for 0, false, no and off."""
        return _WORDS[text.strip().lower()]

    def check(self, value: Any) -> bool:
        """The value; raises TypeError."""
        if not isinstance(value, bool):
            raise TypeError
        return value


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few names.

    Attributes:
        names: The names.
        or_flag: Whether an argument may also be True or False.
        or_function: Whether an argument may also be a function.
    """

    names: tuple[str, ...]
    or_flag: bool = False
    or_function: bool = False

    @property
    def argument(self) -> str:
        """The names, and what else there is."""
        others = ["True, False"] * self.or_flag + ["a function"] * self.or_function
        return ", or ".join([*others, f"one of {', '.join(map(repr, self.names))}"])

    def read(self, text: str) -> str:
        """The name; raises UnreadableSettingError."""
        name = text.strip()
        if name not in self.names:
            guess = did_you_mean(name, self.names) or ";"
            known = ", ".join(self.names)
            raise UnreadableSettingError(
                f"{truncate_line(text, 80)!r} is unknown{guess} expected one of {known}"
            )
        return name

    def check(self, value: Any) -> Any:
        """The value; raises ValueError."""
        is_other = (self.or_flag and isinstance(value, bool)) or (
            self.or_function and callable(value)
        )
        if not is_other and not (isinstance(value, str) and value in self.names):
            raise ValueError
        return value


@dataclass(frozen=True)
class Number(Kind):
    """A number from `least` to `most`; None for no end."""

    least: float | None = None
    most: float | None = None
    type: ClassVar[Any] = Real
    what: ClassVar[str] = "a number"

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The allowed numbers, in words."""
        parts = [self.what]
        if self.least is not None:
            parts.append(f"of at least {self.least:g}")
        if self.most is not None:
            parts.append(f"and at most {self.most:g}")
        return " ".join(parts)

    def read(self, text: str) -> Any:
        """The number; raises ValueError or TypeError."""
        return self.check(float(text))

    def check(self, value: Any) -> Any:
        """The number; raises TypeError, or ValueError where it is out of range."""
        if not isinstance(value, self.type) or isinstance(value, bool) or math.isnan(value):
            raise TypeError
        is_small = self.least is not None and value < self.least
        is_large = self.most is not None and value > self.most
        if is_small or is_large:
            raise ValueError
        return value


class Whole(Number):
    """A whole number."""

    type = Integral
    what = "a whole number"

    def read(self, text: str) -> Any:
        """The number; raises ValueError or TypeError."""
        return self.check(int(text))


class Names(Kind):
    """Names, as a list or as a text with commas."""

    expected = "names, separated by commas"
    argument = "a list of names"

    def read(self, text: str) -> list[str]:
        """The names between the commas."""
        return split_names(text)

    def check(self, value: Any) -> Any:
        """The names; raises TypeError."""
        if isinstance(value, str):
            return split_names(value)
        if not isinstance(value, Collection) or not all(isinstance(each, str) for each in value):
            raise TypeError
        return value


@dataclass(frozen=True)
class Choices(Names):
    """Some of a few names.

    Attributes:
        names: The names.
    """

    names: tuple[str, ...]

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The names."""
        return f"some of {', '.join(self.names)}, separated by commas"

    @property
    def argument(self) -> str:  # type: ignore[override]
        """The names, in the words of Python."""
        return f"a list of some of {', '.join(map(repr, self.names))}"

    def read(self, text: str) -> list[str]:
        """The names between the commas; raises UnreadableSettingError."""
        found: list[str] = self.check(split_names(text))
        return found

    def check(self, value: Any) -> Any:
        """The names; raises TypeError, or UnreadableSettingError for an unknown one."""
        found = super().check(value)
        for name in found:
            if name not in self.names:
                guess = did_you_mean(name, self.names) or ";"
                raise UnreadableSettingError(
                    f"{truncate_line(name, 80)!r} is unknown{guess} expected {self.expected}"
                )
        return found


class Fields(Kind):
    """Fields of all requests, without those that have a setting of their own."""

    expected = "a JSON object"
    hides = True

    def read(self, text: str) -> dict[str, Any]:
        """The fields; raises ValueError or TypeError."""
        return self.check(json.loads(text))

    def check(self, value: Any) -> dict[str, Any]:
        """The fields; raises TypeError, or UnreadableSettingError for a field with a setting."""
        if not isinstance(value, dict):
            raise TypeError
        for name in ("model", "base_url", "api", "api_key", "effort", "timeout", "max_retries"):
            if name in value:
                raise UnreadableSettingError(
                    f"request contains {name!r}; set ArchytasNB.{name} instead"
                )
        return value


@dataclass(frozen=True)
class Bounds(Kind):
    """Bounds by their names.

    Attributes:
        kinds: The kind of each bound, by its name.
        example: One of the bounds, as JSON.
    """

    kinds: Mapping[str, Number]
    example: str

    @property
    def expected(self) -> str:  # type: ignore[override]
        """A JSON object, with one of them."""
        return f"a JSON object such as {self.example}"

    def read(self, text: str) -> dict[str, Any]:
        """The bounds; raises ValueError."""
        return self.check(json.loads(text))

    def check(self, value: Any) -> dict[str, Any]:
        """The bounds; raises UnreadableSettingError."""
        if not isinstance(value, Mapping):
            expected = ", ".join(self.kinds)
            raise UnreadableSettingError(
                f"{value!r} is not a mapping; expected bounds by name: {expected}"
            )
        for name, number in value.items():
            kind = self.kinds.get(name)
            if kind is None:
                guess = did_you_mean(str(name), self.kinds) or ";"
                raise UnreadableSettingError(
                    f"unknown bound {name!r}{guess} expected {', '.join(self.kinds)}"
                )
            try:
                kind.check(number)
            except (TypeError, ValueError):
                expected = f"{kind.what} from {kind.least:,} to {kind.most:,}"
                raise UnreadableSettingError(f"{name} is {number!r}; expected {expected}") from None
        return dict(value)


BOUNDS: Mapping[str, Number] = {
    "calls": Whole(1, 1_000_000),  # each has an id of nine characters
    "seconds": Number(0.001, 10**12),
    "memory": Whole(10_000_000, 10**12),
    "depth": Whole(10, 10**12),
}
"""The bounds that ``program_bounds`` may set."""
FILE_BOUNDS: Mapping[str, Number] = {
    "all": Whole(0, 10**12),
    "entries": Whole(0, 1_000_000),
    "file": Whole(0, 10**12),
}
"""The bounds that ``file_bounds`` may set."""
_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def split_names(text: str) -> list[str]:
    """Names that are separated by commas, with or without spaces."""
    return [name for each in text.split(",") if (name := each.strip())]


# ── a setting ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name in ``%config ArchytasNB`` and as an argument of `Agent`.
        scope: The part of the extension that it belongs to.
        kind: The kind of its values.
        default: Its value if nothing is set.
        text: Its help.
        optional: Whether it may be None.
        other_variable: Another environment variable, read after its own; None for none.
    """

    name: str
    scope: Scope
    kind: Kind
    default: Any
    text: str
    optional: bool = False
    other_variable: str | None = None

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables that it is read from, in this order."""
        return (self.variable, *filter(None, [self.other_variable]))

    def _or_none(self, expected: str) -> str:
        return f"{expected}, or None" if self.optional else expected

    def read(self, text: str) -> Any:
        """The value that a text stands for; raises UnreadableSettingError."""
        if self.optional and text.strip().lower() == "none":
            return None
        try:
            return self.kind.read(text)
        except UnreadableSettingError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError):
            shown = "the value" if self.kind.hides else repr(truncate_line(text, 80))
            raise UnreadableSettingError(
                f"{shown} is not {self._or_none(self.kind.expected)}"
            ) from None

    def check(self, value: Any) -> Any:
        """An argument, as it is used; raises ValueError."""
        if self.optional and value is None:
            return None
        try:
            return self.kind.check(value)
        except UnreadableSettingError as error:
            raise argument_error(f"{self.name}: {error}") from None
        except (ValueError, TypeError):
            raise invalid_argument(self.name, value, self._or_none(self.kind.argument)) from None


def _setting(kind: Kind, default: Any, text: str, **more: Any) -> Any:
    """A field of `Settings`; the arguments are those of `Setting`."""
    made = partial(Setting, scope="question", kind=kind, default=default, text=text, **more)
    return field(default_factory=partial(copy, default), metadata={"setting": made})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one question, as they are when it is asked.

    Attributes:
        given: The names of those that were given with the question, or to its agent.
    """

    # fmt: off
    protocol: ProtocolName = _setting(
        Choice(get_args(ProtocolName)), "auto",
        "How the model calls tools: function calling (native), JSON in its replies (react), or "
        "Python programs that run in a sandbox (program).",
    )
    instructions: str = _setting(
        Text(), "",
        "Text that the extension adds to the system prompt, or @ and the path of a file with it.",
    )
    tools: Collection[str] = _setting(
        Names(), [],
        "Tools that a question may use, as names or globs such as count_*; if empty, all enabled "
        "tools.",
    )
    max_tools: int | None = _setting(
        Whole(1), 20,
        "With more tools of yours than this, the model reads only those that fit the question "
        "best, and searches for others with the tool find_tools. None: it reads all.",
        optional=True,
    )
    skills: Collection[str] = _setting(
        Names(), [],
        "Where the extension looks for skills, whose texts the model reads if it needs them. "
        "project: .agents/skills and .claude/skills in the working directory and above it, up to "
        "the root of the repository. user: the same in your home directory. A path: that folder. "
        "If empty, it looks nowhere.",
    )
    approve: Approve = _setting(
        Choice(get_args(Policy), or_function=True), "ask",
        "What to do when a tool requires approval: ask you, run it, or refuse it.",
    )
    allow: Collection[str] = _setting(
        Names(), [],
        "Tools that run without approval, even if there is nobody to ask.",
    )
    ask_user: bool | str = _setting(
        Choice(("auto", "on", "off"), or_flag=True), "auto",
        "Whether the model has a tool for asking you questions. auto: yes with %agent, unless the "
        "model is small or one of your tools is named ask_user; no with Agent.",
    )
    context: ContextName = _setting(
        Choice(get_args(ContextName)), "auto",
        "Which variables the extension describes below the question, with types, shapes and "
        "columns. Unless this is none, the model also has tools to read variables. auto: mentioned "
        "with a small model, changed with any other.",
    )
    values: ValuesName = _setting(
        Choice(get_args(ValuesName)), "all",
        "What the model may learn of values. scalars: numbers and booleans only. none: names, "
        "types and the results of comparisons. strict: no comparisons either. Results stay in "
        "variables, and the extension fills their values into the answer here.",
    )
    compaction: CompactionName = _setting(
        Choice(get_args(CompactionName)), "summary",
        "How the extension shortens a conversation that is too long for the model. summary: a "
        "summary that the model writes replaces the beginning. drop: it leaves the beginning out, "
        "as it always does for small models.",
    )
    python: PythonMode = _setting(
        Choice(get_args(PythonMode)), "copy",
        "Where the model may run code. off: nowhere. copy: in a copy of the kernel, where it can "
        "use all of your variables and change nothing. ask: in the notebook, after asking you. "
        "undoable: in the notebook immediately; you see its changes and can undo them. unwatched: "
        "the same, but nothing is watched. Only the copy is a sandbox. For small models, use the "
        "option or argument: the setting does not apply to them.",
    )
    undo: bool | None = _setting(
        Flag(), None,
        "Watch what all tools change in the variables, for %agent_undo and %agent_why; None: "
        "only if python is ask or undoable.",
        optional=True,
    )
    ask_before: Collection[AskBefore] = _setting(
        Choices(get_args(AskBefore)), [],
        "Before which acts of the model's code in the notebook the extension asks you. network: a "
        "connection. process: starting or ending a program. delete: removing what was there "
        "before. outside: a change outside of the working folder and folders. This stops honest "
        "code but is not a sandbox.",
    )
    folders: Collection[str] = _setting(
        Names(), [],
        "Folders besides the working folder in which code of the model may write without a "
        "question, and in which the extension looks for changes by other programs.",
    )
    file_bounds: Mapping[str, Any] = _setting(
        Bounds(FILE_BOUNDS, '{"file": 1000000}'), {},
        "How much the extension keeps of files, to undo their changes. By default, it keeps "
        "64,000,000 bytes of one file (file) and 512,000,000 bytes of all (all), and looks at "
        "5,000 entries of the folders (entries). A dict with some of these, such as {'file': "
        "1000000}; as JSON in the environment variable.",
    )
    preview: float | None = _setting(
        Number(0.001, 1e9), 2.0,
        "Maximum number of seconds for a preview; None for no previews. Before the extension asks "
        "you about a call, it tries the call in a copy of the kernel that can change nothing, and "
        "shows you the effects there.",
        optional=True,
    )
    max_steps: int = _setting(
        Whole(1), 20,
        "Maximum number of model replies for one question.",
    )
    max_errors: int = _setting(
        Whole(1), 5,
        "Maximum number of consecutive unusable replies and failed calls.",
    )
    max_seconds: float | None = _setting(
        Number(0.001, 1e9), 600.0,
        "Maximum number of seconds for one question; None for no limit.",
        optional=True,
    )
    max_total_tokens: int | None = _setting(
        Whole(1), 1000000,
        "Maximum number of tokens, input and output together, for one question; None for no limit.",
        optional=True,
    )
    max_reply_tokens: int | None = _setting(
        Whole(1), None,
        "Maximum number of tokens in one reply; None for 1,024 with small models and 16,384 with "
        "others, or less if the endpoint allows less.",
        optional=True,
    )
    program_bounds: Mapping[str, Any] = _setting(
        Bounds(BOUNDS, '{"seconds": 30}'), {},
        "How much one program of the model may use. By default, these are 1,000 calls (calls), 5 "
        "seconds of computing (seconds), 100,000,000 bytes of memory (memory) and 200 nested calls "
        "of functions (depth). A dict with some of these, such as {'seconds': 30}; as JSON in the "
        "environment variable.",
    )
    # fmt: on
    given: frozenset[str] = frozenset()

    @classmethod
    def now(cls, given: Mapping[str, Any] | None = None) -> Settings:
        """The given values, and the current settings.

        Raises:
            ConfigurationError: The value of an environment variable cannot be read.
            ValueError: A given value is invalid.
        """
        given = given or {}
        read = {name: value(name) for name in QUESTION_SETTINGS if name not in given}
        return cls(**read).but(**given)

    def again(self) -> Settings:
        """The same as they are now: those that were not given are read again; raises as `now`."""
        return Settings.now({name: getattr(self, name) for name in self.given})

    def but(self, **given: Any) -> Settings:
        """The same with other values; raises ValueError if one is invalid."""
        if not given:
            return self
        checked = {name: SETTINGS[name].check(each) for name, each in given.items()}
        return replace(self, **checked, given=self.given | given.keys())

    @property
    def allowed(self) -> frozenset[str]:
        """The names of the tools that run without approval."""
        return frozenset(self.allow)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folders besides the working folder in which code may write."""
        return tuple(Path(os.path.abspath(Path(each).expanduser())) for each in self.folders)  # noqa: PTH100 - it may be a link

    @property
    def asks_user(self) -> bool:
        """Whether the model has a tool for asking the user questions."""
        return self.ask_user in (True, "on")

    @property
    def limits(self) -> Limits:
        """The limits of the run."""
        from archytas_nb.loop.limits import Limits

        return Limits(**{each.name: getattr(self, each.name) for each in fields(Limits)})

    @property
    def hides_values(self) -> bool:
        """Whether the model may not see all values."""
        return self.values != "all"

    def python_for(self, *, by_setting: bool) -> PythonMode:
        """The place for code of a model, by the setting, or only by an option of the question."""
        if "python" not in self.given and (not by_setting or self._hides_variables):
            return "off"
        return self.python

    @property
    def _hides_variables(self) -> bool:
        """Whether code in a copy, which can read all variables, would tell what is hidden."""
        return self.python == "copy" and (self.context == "none" or self.hides_values)

    def watches(self, *, by_setting: bool) -> bool:
        """Whether a run watches changes of the variables; for `by_setting` see `python_for`."""
        if self.undo is None:
            return self.python_for(by_setting=by_setting) in ("ask", "undoable")
        return self.undo


QUESTION_SETTINGS = tuple(each.name for each in fields(Settings) if "setting" in each.metadata)
"""The settings of one question; all but ``tools`` are arguments of `Agent` as well."""
_OTHERS = (
    Setting(
        "model", "model", Text(), "",
        "The model's name at its endpoint, with a prefix for one of a provider ('groq:NAME', "
        "'anthropic:NAME', 'ollama:NAME', …), or 'local' for the embedded model.",
    ),
    Setting(
        "base_url", "model", Text(), "",
        "The URL of the API.", other_variable="OPENAI_BASE_URL",
    ),
    Setting(
        "api_key", "model", Secret(), "",
        "The endpoint's API key.", other_variable="OPENAI_API_KEY",
    ),
    Setting(
        "api", "model", Choice(get_args(ApiName)), "auto",
        "Which API of an OpenAI-compatible endpoint the extension uses: chat completions (chat) or "
        "the Responses API (responses). auto: the Responses API for OpenAI's reasoning models and "
        "where an endpoint asks for it, otherwise chat completions.",
    ),
    Setting(
        "effort", "model", Choice(get_args(EffortName)), "auto",
        "How much the model reasons before it replies, from none to max; auto: as much as it does "
        "by default. An endpoint that lacks a level gets the nearest one that it names, or none; "
        "the embedded model has no levels.",
    ),
    Setting(
        "local_model", "model", Text(), "",
        "The GGUF file of the embedded model: a path or hf:OWNER/REPO/FILE.",
    ),
    Setting(
        "local_safe", "model", Flag(), default=False,
        text="Always run the embedded model in safe mode: one thread, no extra buffers, no GPU.",
    ),
    Setting(
        "ask_with", "notebook", Choice(("auto", "controls", "input")), "auto",
        "How the extension asks you during a run. controls: with buttons and fields; before each "
        "question, it looks whether they work now. input: with a line to type. auto: with controls "
        "where they work while a cell runs, as in JupyterLab and Notebook 7 with ipykernel 7, "
        "otherwise with a line.",
    ),
    Setting(
        "ask_timeout", "notebook", Number(1, 1e9), None,
        "Seconds that a call or a question waits for your answer with buttons. After that, the "
        "call is not run, and the model reads that nobody answered. None: it waits for as long as "
        "you take.", optional=True,
    ),
    Setting(
        "timeout", "model", Number(0.001, 1e9), 300.0,
        "Seconds without receiving any data after which a request fails.",
    ),
    Setting(
        "max_retries", "model", Whole(0), 3,
        "Maximum number of retries after a temporary failure of the endpoint.",
    ),
    Setting(
        "request", "model", Fields(), {},
        "Additional fields for every request to the endpoint, such as {'temperature': 0}, and the "
        "arguments 'headers' and 'query' of OpenAIModel; as JSON in the environment variable.",
    ),
    Setting(
        "quiet", "notebook", Flag(), default=False,
        text="Show only the answer, no trace.",
    ),
    Setting(
        "trace", "notebook", Choice(get_args(TraceName)), "folded",
        "How a notebook shows the steps of a question. folded: in one line above the answer. "
        "steps: open. off: not at all. In any case, you see calls that failed in the end, calls "
        "that you refused or edited, and changes.",
    ),
    Setting(
        "cassette", "process", Text(), "",
        "The file in which the extension records the replies of models, and from which it replays "
        "them.",
    ),
    Setting(
        "cassette_mode", "process", Choice(("auto", "replay", "record", "off")), "auto",
        "How the cassette is used; off ignores it. The mode of a test run takes precedence.",
    ),
    Setting(
        "telemetry", "process", Choice(("off", "on", "contents")), "off",
        "Whether the extension describes runs, requests, calls and maps in spans of OpenTelemetry "
        "(extra otel). on: only names, numbers and classes of errors. contents: also the texts of "
        "questions, messages, arguments, results and answers, unless values is not all.",
    ),
    Setting(
        "discover", "model", Flag(), default=True,
        text="If no endpoint is configured, look for a model server on this machine; the extension "
        "asks you once before it uses one.",
    ),
    Setting(
        "warm", "notebook", Flag(), default=False,
        text="Start the embedded model when the extension is loaded or this is set, and have it "
        "process the tools before the first question.",
    ),
)  # fmt: skip
SETTINGS: Mapping[str, Setting] = {
    **{each.name: each for each in _OTHERS},
    **{
        each.name: each.metadata["setting"](each.name)
        for each in fields(Settings)
        if "setting" in each.metadata
    },
}
_VARIABLES = {name: setting.variables for name, setting in SETTINGS.items()}
OTHER_VARIABLES = (f"{PREFIX}CASSETTE_REPORT", f"{PREFIX}CASSETTE_RERUN")
"""Variables that the pytest plugin sets for its kernels; they are not settings."""


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
    """The value of ``%config`` in this kernel; UNSET if it sets none."""
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
    """The value of the environment, else the default; an empty variable counts as unset.

    Raises:
        ConfigurationError: The variable's value cannot be read.
    """
    setting = SETTINGS[name]
    for variable in _VARIABLES[name]:
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
