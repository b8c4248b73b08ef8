"""The permissions that a person gives by "do not ask again": for a tool as they read it.

    given                                covers the calls of
    by the person in this notebook       their own questions, also of replies that are replayed
    by the person in a chat              questions from the same chat
    in a recording                       replies of the same recording
    about a call of another program      nothing else

A permission is for a state of the tool, which is read before each call: its function, its
description, its check, and the code that a call can reach. That is, from the function on, each
function whose name the code mentions: among its global variables, in modules and classes, in what
it closes over and in what wraps it. Functions of Python and of installed packages are read, but not
what they call. Data is not code: a global variable with another value is the same tool. A default
and a captured variable count, because nobody sees them in the question, unless the tool itself
assigns it.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from json import dumps  # bound now: code of a model may put a tool in its place
from typing import Any, Literal
from weakref import ReferenceType, ref

from archytas_nb.namespace import FROM_OUTSIDE
from archytas_nb.objects.equality import is_atom, is_from_library
from archytas_nb.tools.tool import Tool
from archytas_nb.undo.content import DICT, FUNCTION
from archytas_nb.undo.fingerprint import fingerprint

# ── who gave it ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a question, which decides who can permit the calls of its run.

    Attributes:
        kind: The person in this notebook, one in a chat, another program, or a recording.
        of: Which chat, or which recording; None where there is only one.
    """

    kind: Literal["notebook", "chat", "program", "recording"]
    of: object = None

    @property
    def can_permit(self) -> bool:
        """Whether a permission can cover later calls; those of other programs are each asked."""
        return self.kind != "program"


NOTEBOOK = Source("notebook")


# ── the tool as it is now ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ToolState:
    """A tool at one moment; two are equal if all that is read of them is equal.

    Attributes:
        name: Its name.
        tool: Which tool it is; one that is defined again is another one.
        function: The function that a call calls.
        parts: The parts that were read, by their names in messages.
    """

    name: str
    tool: object
    function: object
    parts: dict[str, object] = field(hash=False)

    def changed_from(self, before: ToolState) -> str:
        """The difference from an earlier state, as the beginning of a sentence."""
        names = [*self.parts, *(name for name in before.parts if name not in self.parts)]
        missing = object()
        changed = [
            name
            for name in names
            if self.parts.get(name, missing) != before.parts.get(name, missing)
        ]
        if self.function != before.function or not changed:
            return "it was defined again"
        return f"{', '.join(changed[:_MOST_NAMED])} changed"


_MOST_NAMED = 3


def state_of(tool: Tool) -> ToolState:
    """Read the state of a tool."""
    reading = _Reading()
    reading.parts["its description"] = (
        tool.text,
        tool.description,
        dumps(tool.schema(), sort_keys=True, default=repr),
    )
    reading.follow("its code", tool.function)
    if callable(tool.approve):
        reading.follow("its check", tool.approve)
    return ToolState(tool.name, _Identity(tool), _same(tool.function), reading.parts)


def codes_of(tool: Tool) -> tuple[dict[str, int], set[str]]:
    """The code that a call can reach: its digests, equal in every process, and its modules."""
    reading = _Reading()
    reading.follow("its code", tool.function)
    if callable(tool.approve):
        reading.follow("its check", tool.approve)
    return {name: each for name, each in reading.parts.items() if type(each) is int}, (
        reading.modules
    )


class _Reading:
    """Follows the names in code to the functions that a call can reach."""

    def __init__(self) -> None:
        self.parts: dict[str, object] = {}
        self.modules: set[str] = set()  # of the user's, in which there are such functions
        self._seen: dict[int, Any] = {}  # keeps them, so that each id stays that of one object
        self._todo: list[tuple[str, Any]] = []

    def follow(self, label: str, value: Any) -> None:
        """Read a function, and whatever it reaches."""
        self._todo.append((label, value))
        while self._todo:
            label, each = self._todo.pop()
            if id(each) in self._seen:
                continue
            self._seen[id(each)] = each
            try:
                self._read(label, each)
            except FROM_OUTSIDE:
                raise
            except BaseException as error:  # noqa: BLE001 - a class may raise anything
                self._note(_part(label, "unreadable parts"), type(error).__name__)

    def _note(self, label: str, content: object) -> None:
        """Keep a part; other objects of the same name get a number."""
        number = 2
        name = label
        while name in self.parts:
            name = f"{label} ({number})"
            number += 1
        self.parts[name] = content

    def _read(self, label: str, value: Any) -> None:
        kind = type(value)
        if kind is types.FunctionType:
            self._read_function(label, value)
        elif issubclass(kind, types.MethodType):
            self._todo.append((label, value.__func__))
            bound = value.__self__
            if isinstance(bound, type):
                self._todo.append(("", bound))
            else:
                self._read_object(bound)
        elif issubclass(kind, functools.partial):
            given = (*value.args, *value.keywords.values())
            self._note(_part(label, "given arguments"), _same((value.args, value.keywords)))
            self._todo += [(label, value.func), *_named(given)]
        elif kind is types.BuiltinFunctionType:
            self._note(label, _same(value))
        elif issubclass(kind, (staticmethod, classmethod)):
            self._todo.append((label, value.__func__))
        elif issubclass(kind, property):
            self._todo += [(label, each) for each in (value.fget, value.fset) if each is not None]
        elif issubclass(kind, type):
            self._read_class(value)
        else:
            wrapped = _attributes_of(value).get("__wrapped__")  # as that of functools.cache
            if wrapped is not None:
                self._todo.append((label, wrapped))
            self._read_object(value)

    def _read_function(self, label: str, function: types.FunctionType) -> None:
        self._seen[id(function.__globals__)] = function.__globals__  # only what it mentions counts
        own = dict(DICT.pairs(FUNCTION.read(function)))
        code: types.CodeType = own["__code__"]
        self._note(label, fingerprint(code).digest)
        defaults = (*(own["__defaults__"] or ()), *(own["__kwdefaults__"] or {}).values())
        self._note(_part(label, "defaults"), _same(defaults))
        if is_from_library(function.__module__):
            return
        self.modules.add(function.__module__)
        codes = list(all_codes(code))
        assigned = {name for each in codes for name in _assigned_in(each)}
        for name, cell in zip(code.co_freevars, own["__closure__"] or (), strict=False):
            value = _content_of(cell)
            if _is_code(value):
                self._todo.append((f"the function {name!r}", value))
            elif name not in assigned:
                self._note(_part(label, f"captured variable {name!r}"), _same(value))
                self._read_object(value)
        self._todo += _named(defaults)
        if own.get("__wrapped__") is not None:
            self._todo.append((label, own["__wrapped__"]))
        names = dict.fromkeys(name for each in codes for name in each.co_names)
        for name in names:
            if name in function.__globals__:
                self._reach(name, function.__globals__[name], names)

    def _reach(self, name: str, value: Any, names: Iterable[str]) -> None:
        """The functions to which a global variable leads: itself, or those of a module."""
        if type(value) is types.ModuleType:
            inside = vars(value)
            for each in names:
                if each in inside and _is_code(inside[each]):
                    self._todo.append((f"the function '{name}.{each}'", inside[each]))
                elif type(inside.get(each)) is types.ModuleType and inside[each] is not value:
                    self._reach_once(f"{name}.{each}", inside[each], names)
        elif _is_code(value):
            self._todo.append((f"the function {name!r}", value))
        else:
            self._read_object(value)

    def _reach_once(self, name: str, module: types.ModuleType, names: Iterable[str]) -> None:
        if id(module) not in self._seen:
            self._seen[id(module)] = module
            self._reach(name, module, names)

    def _read_object(self, value: Any) -> None:
        """The methods of an object of a class of the user's, and the functions that it holds."""
        kind = type(value)
        if kind in (list, tuple, set, dict):
            if len(value) <= _MOST_ITEMS and id(value) not in self._seen:
                self._todo += _named(value.values() if kind is dict else value)
        elif not is_from_library(kind.__module__):
            self._todo += [(f"the class {kind.__name__!r}", kind)]
            self._todo += _named(_attributes_of(value).values())

    def _read_class(self, cls: type) -> None:
        for base in cls.__mro__:
            if is_from_library(base.__module__) or (id(base) in self._seen and base is not cls):
                continue
            self._seen[id(base)] = base
            for name, each in vars(base).items():
                if _is_code(each) and not isinstance(each, type):
                    self._todo.append((f"the method '{base.__name__}.{name}'", each))


_MOST_ITEMS = 10_000  # more are data, and not the functions among which a tool chooses


def _named(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The code among some values, with its names."""
    for each in values:
        if _is_code(each):
            yield f"the function {getattr(each, '__name__', type(each).__name__)!r}", each


def _part(label: str, what: str) -> str:
    """The name of a part of a function, for messages."""
    if label.startswith("its "):
        return f"its {what}"
    return f"the {what} of {label}"


_CODE = (
    types.FunctionType, types.MethodType, functools.partial, staticmethod, classmethod, property,
    type, types.BuiltinFunctionType,
)  # fmt: skip


def _is_code(value: Any) -> bool:
    """Whether a value leads to code: it does not hold only data."""
    return issubclass(type(value), _CODE) or "__wrapped__" in _attributes_of(value)


def _attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object itself, whatever its class says; empty if it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 - a class may have any descriptor in its place
        return {}
    return found if type(found) is dict else {}


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and all code inside it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from all_codes(each)


@functools.lru_cache(maxsize=4096)
def _assigned_in(code: types.CodeType) -> frozenset[str]:
    """The variables of enclosing functions that the code assigns itself, such as a counter."""
    stores = [each for each in dis.get_instructions(code) if each.opname == "STORE_DEREF"]
    return frozenset(each.argval for each in stores)


def _content_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has no value yet
        return None


class _Identity:
    """The identity of a value: equal for the same object, without keeping it alive if possible."""

    __slots__ = ("_id", "_kept")

    def __init__(self, value: Any) -> None:
        self._id = id(value)
        self._kept: Any = value
        with suppress(TypeError):  # a list, or another plain container: it is kept
            self._kept = ref(value)

    def __eq__(self, other: object) -> bool:
        is_same = isinstance(other, _Identity) and self._id == other._id
        return is_same and self._is_alive() and other._is_alive()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._id)

    def _is_alive(self) -> bool:
        return not isinstance(self._kept, ReferenceType) or self._kept() is not None


def _same(value: Any) -> object:
    """A key that is equal for the same value: an atom itself, or the identity of an object."""
    kind: Any = type(value)
    if kind in (tuple, frozenset):
        return kind, tuple(map(_same, value))
    if kind is dict:
        return kind, tuple((_same(key), _same(each)) for key, each in value.items())
    if is_atom(kind):
        return kind, repr(value)
    if kind is types.MethodType:  # each lookup makes another one
        return kind, _Identity(value.__func__), _Identity(value.__self__)
    return _Identity(value)


# ── permissions ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission to run a tool in this state without asking.

    Attributes:
        source: Who gave it.
        tool: The tool as it was.
    """

    source: Source
    tool: ToolState


@dataclass(eq=False)
class Permissions:
    """The permissions of a run, a map, or the whole kernel.

    Attributes:
        copied: The names of tools that are permitted to copies in another process, whose functions
            are other objects than those that the person read.
    """

    copied: frozenset[str] = frozenset()
    _given: list[Permission] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        return Permissions, (self.copied | {each.tool.name for each in self._given},)

    def give(self, permission: Permission) -> None:
        """Add one; it replaces that for an earlier state of the same function."""
        now = permission.tool
        self._given = [
            each
            for each in self._given
            if each.source != permission.source
            or (each.tool.name, each.tool.function) != (now.name, now.function)
        ]
        self._given.append(permission)

    def covers(self, sources: Iterable[Source], tool: ToolState) -> bool:
        """Whether a tool in this state may run without a question."""
        if tool.name in self.copied:
            return True
        return any(Permission(each, tool) in self._given for each in sources)

    def changed(self, sources: Iterable[Source], tool: ToolState) -> str:
        """The changes since a tool of this name was permitted; empty if none was."""
        sources = tuple(sources)
        earlier = [
            each.tool
            for each in self._given
            if each.source in sources and each.tool.name == tool.name
        ]
        if not earlier:
            return ""
        same = [each for each in earlier if each.function == tool.function]
        return tool.changed_from((same or earlier)[-1])


IN_NOTEBOOK = Permissions()
"""The permissions of this kernel."""
