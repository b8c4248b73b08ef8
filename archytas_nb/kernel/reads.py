"""What the calls of a run have read: the variables that they name and their functions use.

Only fingerprints are kept. What a function does beyond its arguments and variables (files, the
network, the time, random numbers) is recognised by the names that its code uses.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.kernel.fingerprint import Fingerprint, fingerprint
from archytas_nb.kernel.python import compiled, python
from archytas_nb.kernel.shell import Namespace
from archytas_nb.kernel.transaction import is_users_name
from archytas_nb.kernel.values import contained, is_from_library
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import is_hidden

_NAME = re.compile(r"[^\W\d]\w*")
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_TIME = "the time"
_RANDOM = "random numbers"
_FILES = "files"
_NETWORK = "the network"
_DATABASE = "a database"
_MODULES = {
    **dict.fromkeys(["random", "secrets"], _RANDOM),
    **dict.fromkeys(["time"], _TIME),
    **dict.fromkeys(["glob", "shutil", "tempfile", "fileinput"], _FILES),
    **dict.fromkeys(
        ["requests", "httpx", "aiohttp", "urllib", "urllib3", "socket", "ftplib", "smtplib"],
        _NETWORK,
    ),
    **dict.fromkeys(["sqlite3", "sqlalchemy", "duckdb", "psycopg", "psycopg2"], _DATABASE),
    "subprocess": "other processes",
}
_MEMBERS = {
    **dict.fromkeys(["now", "today", "utcnow", "perf_counter", "monotonic"], _TIME),
    **dict.fromkeys(["random", "default_rng", "RandomState"], _RANDOM),
    **dict.fromkeys(
        ["read_csv", "read_parquet", "read_excel", "read_json", "read_table", "read_feather",
         "read_pickle", "scan_csv", "scan_parquet", "loadtxt", "genfromtxt", "read_text",
         "read_bytes", "iterdir", "listdir", "getenv", "environ"],
        _FILES,
    ),
    **dict.fromkeys(["read_sql", "read_sql_query", "read_sql_table"], _DATABASE),
    **dict.fromkeys(["urlopen"], _NETWORK),
}  # fmt: skip


@dataclass(slots=True)
class _Read:
    """A variable that was read: where it is, and what it contained at first and at the end."""

    where: Mapping[str, Any]
    name: str
    first: Fingerprint | None
    last: Fingerprint | None = None

    def now(self) -> Fingerprint | None:
        """What it contains now; None if there is none."""
        if self.name not in self.where:
            return None
        return fingerprint(self.where[self.name])


@dataclass(slots=True)
class Reads:
    """What the calls of a run have read.

    Args:
        tools: The tools of the run, by name.
        namespace: The variables.

    Attributes:
        effects: What else they depend on, such as files, with the function that uses it.
        looked: The variables whose description the model has read.
    """

    tools: Mapping[str, Tool]
    namespace: Namespace
    effects: dict[str, str] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)
    _variables: dict[str, _Read] = field(default_factory=dict)
    _functions: dict[str, Fingerprint] = field(default_factory=dict)
    _walked: set[int] = field(default_factory=set)

    def calls(self, calls: Sequence[ToolCall]) -> None:
        """Note what calls are about to read."""
        for call in calls:
            with contained():  # an object of the user may raise anything
                self._call(call)

    def code(self, text: str) -> None:
        """Note what code is about to read: a program, or that of the tool for Python."""
        with contained():
            for code in compiled(text):
                self._code(code, self.namespace, "the code")

    def end(self) -> None:
        """Note what the variables contain when the run has ended: it may have changed them."""
        for each in self._variables.values():
            with contained():
                each.last = each.now()

    def _call(self, call: ToolCall) -> None:
        tool = self.tools.get(call.name)
        if tool is None:
            return
        named = set(_NAME.findall(json.dumps(call.input, ensure_ascii=False, default=str)))
        for name in named:
            self._variable(self.namespace, name)
        if is_from_library(tool.function.__module__) and tool.function is not python:
            self.looked |= {each for each in named if each in self._variables}
            return
        if tool.function is python:
            given = call.input
            self.code(str(given.get("code", "") if isinstance(given, dict) else given))
            return
        if tool.name not in self._functions:
            self._functions[tool.name] = fingerprint(tool.function)
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
        self._code(inner.__code__, inner.__globals__, title)

    def _code(self, code: types.CodeType, where: Mapping[str, Any], title: str) -> None:
        for kind, name in _used(code):
            if kind == "member":
                self._effect(_MEMBERS.get(name), name, title)
            elif name in ("open", "input") and (name not in where or is_hidden(name)):
                self._effect(_FILES if name == "open" else "what a person enters", name, title)
            elif kind == "module":
                self._effect(_MODULES.get(name.partition(".")[0]), name, title)
            elif name in where:
                self._global(where, name, title)

    def _global(self, where: Mapping[str, Any], name: str, title: str) -> None:
        value = where[name]
        if isinstance(value, types.ModuleType):
            self._effect(_MODULES.get(value.__name__.partition(".")[0]), value.__name__, title)
        elif inspect.isroutine(value) or isinstance(value, functools.partial):
            module = str(getattr(value, "__module__", "") or "").partition(".")[0]
            self._effect(_MODULES.get(module) or _MEMBERS.get(name), name, title)
            if not is_from_library(getattr(value, "__module__", None)):
                self._variable(where, name)
                self._function(value, title)
        elif isinstance(value, type) and is_from_library(value.__module__):
            return
        else:
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
            first = fingerprint(where[name])
            self._variables[key] = _Read(where, name, first, first)

    def _effect(self, what: str | None, name: str, title: str) -> None:
        if what is not None:
            self.effects.setdefault(what, f"{title!r} uses {name!r}")

    # ── later ─────────────────────────────────────────────────────────────────────────────────────

    def changed(self) -> list[str]:
        """The variables and functions that are not as they were when the run had ended."""
        found = [key for key, each in self._variables.items() if not _is_same(each)]
        found += [name for name in self._functions if self._is_other(name) and name not in found]
        return found

    @property
    def changed_by_run(self) -> set[str]:
        """The variables that the run read and changed."""
        return {key for key, each in self._variables.items() if each.first != each.last}

    @property
    def unread(self) -> dict[str, str]:
        """The variables of which something cannot be read, and why."""
        return {
            key: each.last.unread[0]
            for key, each in self._variables.items()
            if each.last is not None and each.last.unread
        }

    def _is_other(self, name: str) -> bool:
        """Whether the function of a tool was defined differently since."""
        tool = self.tools[name]
        parts = tool.source_name.split(".")
        now = self.namespace.get(parts[0])
        if len(parts) > 1 or now is None or now is tool.function or not callable(now):
            now = tool.function
        return fingerprint(now).digest != self._functions[name].digest


def _is_same(read: _Read) -> bool:
    now = read.now()
    return now is not None and read.last is not None and now.digest == read.last.digest


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
