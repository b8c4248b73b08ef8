"""Takes snapshots of live objects: of all mutable objects that named ones lead to.

A `Snapshot` finds what has changed since, and restores it in the same objects. When it is taken, it
lists what it cannot watch and what is too large to copy.
"""

from __future__ import annotations

import abc
import collections
import enum
import functools
import itertools
import operator
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

from archytas_nb.loop.events import NotCovered
from archytas_nb.namespace import FROM_OUTSIDE
from archytas_nb.objects.equality import (
    MADE_IN_PYTHON,
    Parts,
    is_atom,
    is_from_library,
    is_of,
    only_atoms,
    root_of,
)
from archytas_nb.undo import content
from archytas_nb.undo.content import Kind, short_value
from archytas_nb.undo.tables import DATA

BYTES = 1 << 30  # maximum that one snapshot copies
OBJECTS = 100_000  # maximum that are watched inside others
NOTES = 100  # maximum of objects in one variable that are listed as not watched

_BASES: set[type] = {object, abc.ABC, Generic, Protocol, types.SimpleNamespace}
_BASES |= {collections.OrderedDict, collections.Counter, collections.ChainMap}
_BASES |= {collections.UserDict, collections.UserList, collections.UserString}
_BASES |= {enum.Enum, enum.IntEnum, enum.StrEnum, enum.ReprEnum, enum.Flag, enum.IntFlag}
_BASES |= {cls for cls, _ in content.CONTAINERS}
"""Classes whose state is their attributes, or is read as that of a container."""

_NOT_PLAIN = {__name__.partition(".")[0], "numpy", "pandas", "polars", "matplotlib", "torch", "jax"}
_OF_THE_NOTEBOOK = {__name__.partition(".")[0], "IPython", "ipykernel"}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_READ_WHOLE = tuple(cls for cls, _ in content.FUNCTIONS)


def kinds_of(value: Any) -> tuple[tuple[Kind, ...], str]:
    """How an object is watched, and which parts are not; both empty if it is immutable."""
    cls: Any = type(value)
    if cls is types.FunctionType and not is_from_library(value.__module__):
        return (content.FUNCTION,), ""
    if issubclass(cls, type) and cls.__getattribute__ is type.__getattribute__:
        is_users = value.__flags__ & MADE_IN_PYTHON and not is_from_library(value.__module__)
        if is_users:
            return (content.CLASS,), ""
        return (), "class" if is_from_library(value.__module__) else "class with its own metaclass"
    if cls is dict and is_of_module(value):
        return (), "module"
    if cls is types.ModuleType:
        name = value.__dict__.get("__name__")
        is_users = name != "__main__" and not is_from_library(name)
        return (), "one of your modules" if is_users else "module"
    return kinds_of_type(cls)


def is_of_module(value: dict[Any, Any]) -> bool:
    """Whether a dict is the namespace of a module, such as that of the notebook."""
    name = value.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return getattr(module, "__dict__", None) is value


@functools.lru_cache(4096)
def kinds_of_type(cls: Any) -> tuple[tuple[Kind, ...], str]:
    """How the objects of a type are watched, and which parts are not."""
    if is_atom(cls):
        return (), ""
    kinds = [kind for base, kind in content.CONTAINERS if issubclass(cls, base)]
    kinds += [kind for names, kind in DATA if is_of(cls, *names)]
    kinds += [kind for base, kind in content.FUNCTIONS if issubclass(cls, base)]
    if _is_constant_of_library(cls) or (not kinds and _is_descriptor_of_python(cls)):
        kinds.append(content.ATTRIBUTES_ALONE)
    elif _is_plain(cls) and (cls.__dictoffset__ or content.slots_of(cls) or not kinds):
        kinds.append(content.ATTRIBUTES)
    return tuple(kinds), _not_covered(cls, kinds)


def _is_constant_of_library(cls: Any) -> bool:
    """Whether objects cannot change, except that attributes can be assigned to them."""
    if issubclass(cls, enum.Enum):
        return is_from_library(cls.__module__)
    expression = is_of(cls, "polars", "Expr", "LazyFrame", "DataType")
    return expression or is_of(cls, "pandas", "ExtensionDtype")


def _is_descriptor_of_python(cls: Any) -> bool:
    """Whether objects are descriptors of the standard library with attributes."""
    if not (hasattr(cls, "__get__") and cls.__dictoffset__ and cls.__flags__ & MADE_IN_PYTHON):
        return False
    return root_of(cls) in sys.stdlib_module_names


def _is_plain(cls: Any) -> bool:
    """Whether its objects have state in attributes besides the state that another kind reads."""
    is_read: set[type] = set()
    for each in filter(_is_read, cls.__mro__):
        is_read.update(each.__mro__)
    others = [each for each in cls.__mro__ if each not in _BASES and each not in is_read]
    return bool(others or cls.__dictoffset__) and all(map(_keeps_attributes, others))


def _is_read(cls: Any) -> bool:
    return is_atom(cls) or (cls.__name__ == "ndarray" and root_of(cls) == "numpy")


def _keeps_attributes(cls: type) -> bool:
    """Whether a class keeps its state in attributes: the user's, dataclasses, scikit-learn's."""
    if vars(cls).get("__slots__") == ():  # it has no state, as the abstract classes of Python
        return True
    root = root_of(cls)
    if not cls.__flags__ & MADE_IN_PYTHON or root in _NOT_PLAIN:
        return False
    is_known = "__dataclass_fields__" in vars(cls) or root == "sklearn"
    return is_known or not is_from_library(cls.__module__)


def _not_covered(cls: Any, kinds: list[Kind]) -> str:
    if issubclass(cls, content.CACHED):
        return "its cache"
    if kinds:
        reads_own = {content.ATTRIBUTES, content.ATTRIBUTES_ALONE} & {*kinds}
        is_data = is_of(cls, "pandas", "NDFrame") or is_of(cls, "polars", "DataFrame", "Series")
        if reads_own or is_data or issubclass(cls, _READ_WHOLE) or cls in _BASES:
            return ""
        has_more = cls.__dictoffset__ or content.slots_of(cls)
        if has_more:
            return f"its attributes, because its class is {cls.__name__!r}"
        return ""
    if root_of(cls) in _OF_THE_NOTEBOOK:
        return "notebook"
    if issubclass(cls, (types.ModuleType, type)):
        return "class" if issubclass(cls, type) else "module"
    if issubclass(cls, _FUNCTIONS):
        return "function"
    if cls.__module__ == "builtins":
        return str(cls.__name__)
    return f"{cls.__module__}.{cls.__name__}"


class SavedObject(NamedTuple):
    """An object at the time of the snapshot."""

    within: SavedObject | None  # what contains it
    key: Any  # where in it, or its name
    value: Any  # the object itself
    kind: Kind
    parts: Parts
    kept: tuple[Any, ...] = ()  # what restores data; begins with None if too large
    size: int = 0  # bytes that were copied

    @property
    def root(self) -> str:
        """The variable by which it is reached."""
        record = self
        while record.within is not None:
            record = record.within
        return str(record.key)

    @property
    def name(self) -> str:
        """How it is reached, such as ``config['columns'][0]``."""
        places = []
        record = self
        while record.within is not None:
            places.append(record.within.kind.place(record.key))
            record = record.within
        text = "".join([record.key, *places[::-1]])
        if len(text) <= 200:
            return text
        return f"{text[:99]}…{text[-100:]}"

    @property
    def is_kept(self) -> bool:
        """Whether it can be restored."""
        return not self.kept or self.kept[0] is not None

    def changes(self) -> tuple[Parts | None, list[str]]:
        """The current content, and its differences from the snapshot, as texts."""
        try:
            now = self.kind.read(self.value)
            return now, self.kind.differences(self.parts, now, self.kept, self.value)
        except FROM_OUTSIDE:
            raise
        except BaseException:  # noqa: BLE001  (an object may raise anything)
            return None, ["it can no longer be read"]


Found: TypeAlias = tuple[SavedObject | None, Any, Any]
"""An object, and where it was found: in which object, at which key."""


def _raised(error: BaseException) -> str:
    return f"reading it raised {type(error).__name__}"


class Snapshot:
    """The contents of named objects, and of all objects that can be reached from them.

    Args:
        roots: The objects by name.
        budget: Maximum number of bytes to copy.
        known: Objects by id that do not belong to it, and neither do objects that only they lead
            to.
        inside: More objects, and where they were found.

    Attributes:
        records: The objects that are watched, in the order in which they were reached.
        not_watched: The parts that may change without being detected.
        not_kept: The parts that are watched, but were too large to copy and cannot be restored.
        seen: The objects that were reached, and those that were known.
    """

    def __init__(
        self,
        roots: Mapping[str, Any],
        budget: int = BYTES,
        *,
        known: Mapping[int, Any] = types.MappingProxyType({}),
        inside: Iterable[Found] = (),
    ) -> None:
        self.records: list[SavedObject] = []
        self.not_watched: list[NotCovered] = []
        self.not_kept: list[NotCovered] = []
        self._bytes = budget  # that may still be copied
        self._left = OBJECTS  # that may still be watched
        self._lists: dict[int, Any] = {}  # with keys and elements, by the number of the record
        self.seen: dict[int, Any] = dict(known)  # by id; kept, so that no id is reused
        self._unlisted: dict[str, int] = {}  # how many notes there are in each variable
        todo: list[Found] = [*((None, *each) for each in roots.items()), *inside]
        todo.reverse()
        while todo:
            todo += reversed(self._add(*todo.pop()))
        for name, number in self._unlisted.items():
            if number > NOTES:
                more = f"{number - NOTES:,} more objects in it"
                self.not_watched.append(NotCovered(name, more))

    def _add(self, within: SavedObject | None, key: Any, value: Any) -> list[Found]:
        """Add an object as it can be watched; returns those inside to add next."""
        if id(value) in self.seen:
            return []
        cls: Any = type(value)
        is_users = False
        try:
            kinds, why = kinds_of(value)
            is_users = not is_from_library(cls.__module__)
        except FROM_OUTSIDE:
            raise
        except BaseException as error:  # noqa: BLE001  (a class may raise anything)
            kinds = ()
            why = _raised(error)
        if not (kinds or why):
            return []
        self.seen[id(value)] = value
        record = SavedObject(within, key, value, content.ATTRIBUTES, ())
        found = list[Found]()
        if why:
            self._note(record, why)
        if is_users and id(cls) not in self.seen:
            found.append((record, "__class__", cls))
        for kind in kinds:
            record, children = self._record(within, key, value, kind)
            found += [(record, place, each) for place, each in children]
        return found

    def _record(
        self, within: SavedObject | None, key: Any, value: Any, kind: Kind
    ) -> tuple[SavedObject, list[tuple[Any, Any]]]:
        """Add an object; returns it, and the objects inside to add next, by key."""
        record = SavedObject(within, key, value, kind, ())
        try:
            kept: Any = ()
            size = 0
            if kind.keep:
                kept, size = kind.keep(value, self._bytes)
            record = SavedObject(within, key, value, kind, kind.read(value), kept, size)
            children = self._new_children(record)
            is_flat = self._add_flat_lists(children)
        except FROM_OUTSIDE:
            raise
        except BaseException as error:  # noqa: BLE001  (an object may raise anything)
            self._note(record, _raised(error))
            return record, []
        self.records.append(record)
        self._bytes -= size
        if not record.is_kept:
            self.not_kept.append(
                NotCovered(record.name, f"{short_value(value)} is too large to be kept")
            )
        if len(children) > self._left:
            self._note(record, f"its objects are compared by identity only: over {OBJECTS:,}")
            return record, []
        self._left -= len(children)
        if is_flat:
            return record, []
        return record, children

    def _new_children(self, record: SavedObject) -> list[tuple[Any, Any]]:
        """The objects inside that are not watched yet; if there are too many, one too many."""
        found: dict[int, tuple[Any, Any]] = {}
        for key, each in record.kind.children(record.value, record.parts):
            if id(each) not in self.seen:
                found.setdefault(id(each), (key, each))
            if len(found) > self._left:
                break
        return [*found.values()]

    def _note(self, record: SavedObject, why: str) -> None:
        name = record.root
        self._unlisted[name] = self._unlisted.get(name, 0) + 1
        if self._unlisted[name] <= NOTES:
            self.not_watched.append(NotCovered(record.name, why))

    def _add_flat_lists(self, children: list[tuple[Any, Any]]) -> bool:
        """Add objects in one step if they are lists of immutable values: there may be many."""
        lists = [each for _, each in children]
        if not lists or len(lists) > self._left:
            return False
        if any(type(each) is not list for each in lists):
            return False
        if not only_atoms(itertools.chain.from_iterable(lists)):
            return False
        ids = dict(zip(map(id, lists), lists, strict=True))
        if len(ids) < len(lists) or not self.seen.keys().isdisjoint(ids):
            return False
        self.seen |= ids
        self._lists[len(self.records)] = children, list(map(tuple, lists))
        return True

    def changed(self) -> Iterator[tuple[SavedObject, Parts | None, list[str]]]:
        """The objects whose content has changed, with what it is now and the change as texts."""
        for number, record in enumerate(self.records):
            for each in record, *self._lists_in(record, number):
                now, words = each.changes()
                if words:
                    yield each, now, words

    def _lists_in(self, record: SavedObject, number: int) -> Iterator[SavedObject]:
        """Lists that were added in one step, if any of them has changed."""
        children, parts = self._lists.get(number, ([], []))
        lists = [each for _, each in children]
        flat = itertools.chain.from_iterable
        have_same_sizes = [*map(len, lists)] == [*map(len, parts)]
        if not have_same_sizes or not all(map(operator.is_, flat(lists), flat(parts))):
            for (key, each), old in zip(children, parts, strict=True):
                yield SavedObject(record, key, each, content.SEQUENCE, old)

    def keep_only(self, records: list[SavedObject]) -> None:
        """Keep only these records, and free everything else."""
        self.records = records
        self._lists.clear()
        self.seen.clear()


def restore(records: Iterable[SavedObject]) -> list[NotCovered]:
    """Restore contents in the same objects; returns what could not be restored."""
    tried = list(records)
    return [NotCovered(tried[number].name, why) for number, why in failures(tried).items()]


def failures(records: Iterable[SavedObject]) -> dict[int, str]:
    """Restore contents in the same objects; returns why some could not be, by their number."""
    tried = list(records)
    failed: dict[int, str] = {}
    for number, record in enumerate(tried):
        if not record.is_kept:
            failed[number] = "it was too large to be kept"
            continue
        try:
            record.kind.restore(record.value, record.kept or record.parts)
        except FROM_OUTSIDE:
            raise
        except BaseException as error:  # noqa: BLE001  (an object may raise anything)
            failed[number] = f"{type(error).__name__}: {error}"
    for number, record in enumerate(tried):
        if number not in failed and (words := record.changes()[1]):
            failed[number] = f"still changed: {'; '.join(words)}"
    return failed
