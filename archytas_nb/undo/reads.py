"""Tracks what the calls of a run read: the variables that they name and their functions use.

Other inputs of a function (files, the network, the time, random numbers) are recognised by the
names that its code uses.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import json
import re
import reprlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from archytas_nb.functions.compiling import compiled
from archytas_nb.functions.door import DOORS, code_of
from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
from archytas_nb.namespace import Namespace, contained
from archytas_nb.objects.equality import is_from_library
from archytas_nb.tools.tool import Tool, definition_of
from archytas_nb.tools.variables import is_hidden, is_users_name
from archytas_nb.undo.content import short_value
from archytas_nb.undo.fingerprint import Fingerprint, fingerprint
from archytas_nb.words import collapse_whitespace, truncate_line

_NAME = re.compile(r"[^\W\d]\w*")
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_TIME = "the time"
_RANDOM = "random numbers"
_FILES = "files"
_NETWORK = "the network"
_DATABASE = "a database"
_MODEL = "a model"
_RUN = "the run that calls it"
_MODULES = {
    **dict.fromkeys(["random", "secrets"], _RANDOM),
    **dict.fromkeys(["time"], _TIME),
    **dict.fromkeys(["glob", "shutil", "tempfile", "fileinput"], _FILES),
    **dict.fromkeys(
        ["requests", "httpx", "aiohttp", "urllib", "urllib3", "socket", "ftplib", "smtplib"],
        _NETWORK,
    ),
    **dict.fromkeys(["sqlite3", "sqlalchemy", "duckdb", "psycopg", "psycopg2"], _DATABASE),
    **dict.fromkeys(["openai", "anthropic", f"{__name__.partition('.')[0]}.agent"], _MODEL),
    "subprocess": "other processes",
}
_MEMBERS = {
    **dict.fromkeys(["now", "today", "utcnow", "perf_counter", "monotonic"], _TIME),
    **dict.fromkeys(
        ["random", "default_rng", "RandomState", "sample", "shuffle", "urandom", "uuid1", "uuid4"],
        _RANDOM,
    ),
    **dict.fromkeys(
        ["read_csv", "read_parquet", "read_excel", "read_json", "read_table", "read_feather",
         "read_pickle", "scan_csv", "scan_parquet", "loadtxt", "genfromtxt", "read_text",
         "read_bytes", "iterdir", "listdir", "getenv", "environ"],
        _FILES,
    ),
    **dict.fromkeys(["read_sql", "read_sql_query", "read_sql_table"], _DATABASE),
    **dict.fromkeys(["urlopen"], _NETWORK),
}  # fmt: skip


class Unchanging:
    """A value that cannot change, kept itself in place of a fingerprint.

    So nothing is computed unless the answer is checked. `content` and
    `text` are those of `Noted`, `digest` and `unread` those of `Fingerprint`.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    @functools.cached_property
    def content(self) -> Fingerprint:
        """Its fingerprint."""
        return fingerprint(self._value)

    @functools.cached_property
    def text(self) -> str:
        """A short description."""
        return shown(self._value)

    @property
    def digest(self) -> int:
        """The hash of its content."""
        return self.content.digest

    @property
    def unread(self) -> tuple[str, ...]:
        """Nothing: all of it can be read."""
        return self.content.unread


Content: TypeAlias = Fingerprint | Unchanging


@dataclass(slots=True)
class _Read:
    """Something that was read, with its content at first, at the end, and now."""

    now: Callable[[], Content | None]  # None if it does not exist
    first: Content | None
    last: Content | None

    @property
    def has_changed(self) -> bool:
        """Whether it is not as it was when the run had ended."""
        return not _is_same(self.last, self.now())


@dataclass(frozen=True, slots=True)
class Noted:
    """The content of a value at one moment: its object may change later.

    Attributes:
        content: Its fingerprint.
        text: A short description.
    """

    content: Fingerprint
    text: str


@dataclass(slots=True)
class ReadTracker:
    """Tracks what the calls of a run read.

    Values that may change are kept as fingerprints only; small ones that cannot are kept
    themselves.

    Args:
        tools: The tools of the run, by name.
        namespace: The variables.

    Attributes:
        effects: Other things that they depend on, such as files, with the function that uses each.
        looked: The variables whose descriptions the model has read.
        returned: The result of each call, by its id.
        left: The content at the end of the variables that the calls have changed or created; None
            for one that was deleted.
    """

    tools: Mapping[str, Tool]
    namespace: Namespace
    effects: dict[str, str] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)
    returned: dict[str, Noted | Unchanging] = field(default_factory=dict)
    left: dict[str, Noted | Unchanging | None] = field(default_factory=dict)
    _variables: dict[str, _Read] = field(default_factory=dict)
    _functions: dict[str, _Read] = field(default_factory=dict)
    _walked: set[int] = field(default_factory=set)

    def calls(self, calls: Sequence[ToolCall]) -> None:
        """Record what calls are about to read."""
        for call in calls:
            with contained():  # an object of the user may raise anything
                self._call(call)

    def code(self, text: str) -> None:
        """Record what code is about to read: a program, or code for the tool `python`."""
        with contained():
            for code in compiled(text):
                self._code(code, self.namespace, "the code")

    def copy(self) -> ReadTracker:
        """The state so far, to return to if a program turns out not to run."""
        kept = {"effects": dict(self.effects), "_variables": dict(self._variables)}
        return replace(self, **kept)  # type: ignore[arg-type]

    def outcomes(self, outcomes: Iterable[CallOutcome]) -> None:
        """Note what calls have returned."""
        for each in outcomes:
            if each.status == "done":
                self.returned[each.call_id] = _noted(each.value)

    def end(self, diff: Diff) -> None:
        """Record the content of the variables at the end of the run, which may have changed them.

        Args:
            diff: The changes of the calls.
        """
        for each in (*self._variables.values(), *self._functions.values()):
            with contained():
                each.last = each.now()
        for name in variables_of(diff):
            is_there = name in self.namespace
            self.left[name] = _noted(self.namespace[name]) if is_there else None

    def _call(self, call: ToolCall) -> None:
        tool = self.tools.get(call.name)
        if tool is None:
            return
        if any(each.injected == "run" for each in tool.parameters):
            self.effects.setdefault(_RUN, repr(tool.name))
        named = set(_NAME.findall(json.dumps(call.input, ensure_ascii=False, default=str)))
        for name in named:
            self._variable(self.namespace, name)
        if is_from_library(tool.function.__module__) and not tool.runs_code:
            self.looked |= {each for each in named if each in self._variables}
            return
        if tool.runs_code:
            given = call.input
            self.code(str(given.get("code", "") if isinstance(given, dict) else given))
            return
        if tool.name not in self._functions:
            first = _content(tool.function)
            self._functions[tool.name] = _Read(partial(self._function_now, tool), first, first)
            self._function(tool.function, tool.name)

    def _function(self, function: Any, title: str) -> None:
        """Note what a function of the user reads, and the functions that it calls."""
        inner = function
        while isinstance(inner, (functools.partial, types.MethodType)):
            inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
        inner = inspect.unwrap(inner)
        if not inspect.isfunction(inner) or id(inner) in self._walked:
            return
        self._walked.add(id(inner))
        code = code_of(inner) if inner in DOORS else inner.__code__
        self._code(code, inner.__globals__, title)

    def _code(self, code: types.CodeType, where: Mapping[str, Any], title: str) -> None:
        for kind, name in _used(code):
            if kind == "member":
                self._effect(_MEMBERS.get(name), name, title)
            elif name in ("open", "input") and (name not in where or is_hidden(name)):
                self._effect(_FILES if name == "open" else "what a person enters", name, title)
            elif kind == "module":
                self._effect(_of_module(name), name, title)
            elif name in where:
                self._global(where, name, title)

    def _global(self, where: Mapping[str, Any], name: str, title: str) -> None:
        value = where[name]
        if isinstance(value, types.ModuleType):
            self._effect(_of_module(value.__name__), value.__name__, title)
        elif inspect.isroutine(value) or isinstance(value, functools.partial):
            module = getattr(value, "__module__", "")
            self._effect(_of_module(module) or _MEMBERS.get(name), name, title)
            if not is_from_library(getattr(value, "__module__", None)):
                self._variable(where, name)
                self._function(value, title)
        elif isinstance(value, type) and is_from_library(value.__module__):
            self._effect(_of_module(value.__module__), name, title)
        else:
            self._effect(_of_module(type(value).__module__), name, title)  # such as a connection
            self._variable(where, name)
            if isinstance(value, type):
                for each in vars(value).values():
                    self._function(getattr(each, "__func__", each), title)

    def _variable(self, where: Mapping[str, Any], name: str) -> None:
        is_users = name in where and is_users_name(name) and not hasattr(builtins, name)
        if not is_users or isinstance(where[name], types.ModuleType):
            return
        key = name
        if where is not self.namespace:
            key = f"{where.get('__name__', '')}.{name}"
        if key not in self._variables:
            first = _content(where[name])
            self._variables[key] = _Read(partial(_content_of, where, name), first, first)

    def _effect(self, what: str | None, name: str, title: str) -> None:
        if what is not None:
            self.effects.setdefault(what, f"{title!r} uses {name!r}")

    # ── later ─────────────────────────────────────────────────────────────────────────────────────

    def changed(self) -> list[str]:
        """The variables and functions that are not as they were when the run had ended."""
        return [name for name, each in self._all.items() if each.has_changed]

    def other_than_before(self) -> list[str]:
        """The variables and functions that differ from their first state in the run."""
        return [name for name, each in self._all.items() if not _is_same(each.first, each.now())]

    @property
    def names(self) -> set[str]:
        """The variables of the user's that were read."""
        return {name for name in self._variables if "." not in name}

    @property
    def _all(self) -> dict[str, _Read]:
        """The reads by name; a variable with the function of a tool counts as the function."""
        return self._variables | self._functions

    @property
    def changed_by_run(self) -> set[str]:
        """The variables and functions that the run read and changed."""
        return {name for name, each in self._all.items() if not _is_same(each.first, each.last)}

    @property
    def unread(self) -> dict[str, str]:
        """The variables of which something cannot be read, and why."""
        return {
            key: each.last.unread[0]
            for key, each in self._variables.items()
            if each.last is not None and each.last.unread
        }

    def _function_now(self, tool: Tool) -> Content:
        """The current function of a tool, which may have been redefined since."""
        parts = tool.source_name.split(".")
        now = self.namespace.get(parts[0])
        if len(parts) > 1 or now is None or not callable(now):
            now = tool.function
        return _content(now)


def _of_module(name: Any) -> str | None:
    """Further inputs of the functions of a module, besides variables; None if unknown."""
    name = str(name or "")
    return _MODULES.get(name) or _MODULES.get(name.partition(".")[0])


def variables_of(diff: Diff) -> list[str]:
    """The variables that have changed in part: ``log``, where ``log.values`` has."""
    found = (_NAME.match(each.name) for each in diff.changes)
    return list(dict.fromkeys(each[0] for each in found if each))


class _Bounded(reprlib.Repr):
    """The repr of a value: few items, few levels and the beginning of long texts."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 10
        self.maxstring = self.maxlong = self.maxother = 200

    def repr1(self, x: Any, level: int) -> str:
        """A value; a number of an array library as a person writes it: ``1.5``."""
        if _is_scalar(x):
            plain = x.item()
            x = plain if isinstance(plain, str) else _Written(str(x))
        return super().repr1(x, level)


class _Written(str):
    """A text in place of a value, shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def shown(value: Any) -> str:
    """A value, or its kind, on one line."""
    is_small = isinstance(value, (list, tuple, dict, set)) and len(value) <= 10
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    if is_plain or is_small or _is_scalar(value):
        return truncate_line(collapse_whitespace(_Bounded().repr(value)), 100)
    return short_value(value)


def _is_scalar(value: Any) -> bool:
    """Whether a value is one number, text or time of an array library, as numpy's are."""
    cls: Any = type(value)
    return hasattr(cls, "dtype") and hasattr(cls, "item") and getattr(value, "shape", None) == ()


_PLAIN = (type(None), bool, int, float, str, bytes)  # no set: a class may have no hash
_MAX_KEPT = 1000  # bytes of a value that is kept itself


def _unchanging(value: Any) -> Unchanging | None:
    """A value that cannot change; None if it may change or is too large to keep."""
    cls = type(value)
    if any(cls is each for each in _PLAIN):
        return Unchanging(value) if sys.getsizeof(value) <= _MAX_KEPT else None
    if cls is not types.FunctionType or value.__closure__ or value in DOORS:
        return None
    if definition_of(value) is None:
        return None
    # The function itself may get other code, as `%autoreload` does.
    copy = types.FunctionType(value.__code__, {}, value.__name__, value.__defaults__)
    for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        own = getattr(value, name)
        setattr(copy, name, dict(own) if isinstance(own, dict) else own)
    return Unchanging(copy)


def _content(value: Any) -> Content:
    """The current content of a value, for a comparison."""
    return _unchanging(value) or fingerprint(value)


def _noted(value: Any) -> Noted | Unchanging:
    if (unchanging := _unchanging(value)) is not None:
        return unchanging
    text = short_value(value)
    with contained():  # the user's code may write it
        text = shown(value)
    return Noted(fingerprint(value), text)


def _content_of(where: Mapping[str, Any], name: str) -> Content | None:
    """The content of a variable; None if there is none."""
    if name not in where:
        return None
    return _content(where[name])


def _is_same(one: Content | None, other: Content | None) -> bool:
    return one is not None and other is not None and one.digest == other.digest


@functools.lru_cache(maxsize=4096)
def _used(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """The names that code uses: of variables, of modules that it imports, and of members."""
    return tuple(dict.fromkeys(_instructions(code)))


def _instructions(code: types.CodeType) -> Iterator[tuple[str, str]]:
    for each in dis.get_instructions(code):
        if each.opname in _LOADS:
            yield "global", str(each.argval)
        elif each.opname in _ATTRIBUTES:
            yield "member", str(each.argval)
        elif each.opname == "IMPORT_NAME":
            yield "module", str(each.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant)
