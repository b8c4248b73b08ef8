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
from typing import Any, Generic, NamedTuple, Protocol

from archytas_nb.kernel import content
from archytas_nb.kernel.content import Kind, Parts, brief, is_of
from archytas_nb.loop.events import NotCovered

BYTES = 1 << 30  # maximum that one snapshot copies
OBJECTS = 100_000  # maximum that are watched inside others, or searched for code

_MADE_IN_PYTHON = 1 << 9  # a flag of types
_BASES = {object, abc.ABC, Generic, Protocol, types.SimpleNamespace, collections.OrderedDict}
_BASES |= {collections.defaultdict, collections.Counter, enum.Enum}
_BASES |= {cls for cls, _ in content.CONTAINERS}

_NOT_PLAIN = {__name__.partition(".")[0], "numpy", "pandas", "polars", "matplotlib", "torch", "jax"}


@functools.lru_cache(4096)
def kinds_of(cls: Any) -> tuple[tuple[Kind, ...], str]:
    """How objects of a type are watched, and what of them is not; both empty if immutable."""
    if content.is_atom(cls):
        return (), ""
    kinds = [kind for base, kind in content.CONTAINERS if issubclass(cls, base)]
    kinds += [kind for names, kind in content.DATA if is_of(cls, *names)]
    bases = [each for each in cls.__mro__ if each not in _BASES]
    if cls is types.SimpleNamespace or (bases and all(map(_is_plain, bases))):
        kinds.append(content.ATTRIBUTES)
    return tuple(kinds), _not_covered(cls, kinds)


def _is_plain(cls: type) -> bool:
    """Whether a class keeps its state in attributes: the user's, dataclasses, scikit-learn's."""
    root = cls.__module__.partition(".")[0]
    if not cls.__flags__ & _MADE_IN_PYTHON or root in _NOT_PLAIN or _has_slots(cls):
        return False
    if "__dataclass_fields__" in vars(cls) or root == "sklearn":
        return True
    file = str(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
    installed = "site-packages" in file or "dist-packages" in file
    return root == "__main__" or not (installed or root in sys.stdlib_module_names)


def _has_slots(cls: type) -> bool:
    own = {name: each for name, each in vars(cls).items() if name != "__dict__"}
    return any(isinstance(each, types.MemberDescriptorType) for each in own.values())


def _not_covered(cls: Any, kinds: list[Kind]) -> str:
    if kinds:
        reads_all = content.ATTRIBUTES in kinds or is_of(cls, "pandas", "NDFrame")
        plain = cls.__name__ == "ndarray" or is_of(cls, "polars", "DataFrame", "Series")
        more = cls.__dictoffset__ and not (reads_all or plain)
        more = more or any(map(_has_slots, cls.__mro__))
        return f"its attributes, because its class is {cls.__name__!r}" if more else ""
    if issubclass(cls, (types.ModuleType, type)):
        return "class" if issubclass(cls, type) else "module"
    if issubclass(cls, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


class Record(NamedTuple):
    """An object at the time of the snapshot."""

    within: Record | None  # what contains it
    key: Any  # where in it, or its name
    value: Any  # the object itself
    kind: Kind
    parts: Parts
    kept: tuple[Any, ...] = ()  # what restores data; begins with None if too large
    size: int = 0  # bytes that were copied

    @property
    def name(self) -> str:
        """How it is reached, such as ``config['columns'][0]``."""
        places, record = [], self
        while record.within is not None:
            places.append(record.within.kind.place(record.key))
            record = record.within
        text = "".join([record.key, *places[::-1]])
        return text if len(text) <= 200 else f"{text[:99]}…{text[-100:]}"

    @property
    def is_kept(self) -> bool:
        """Whether it can be restored."""
        return not self.kept or self.kept[0] is not None

    def changes(self) -> tuple[Parts | None, list[str]]:
        """What it contains now, and how that differs from the snapshot, as texts."""
        try:
            now = self.kind.read(self.value)
            return now, self.kind.differences(self.parts, now)
        except Exception:  # noqa: BLE001  (an object may raise anything)
            return None, ["it cannot be read any more"]


class Snapshot:
    """What named objects contain, and what can be reached from them.

    Args:
        roots: The objects by name.
        budget: Maximum number of bytes to copy.

    Attributes:
        records: The objects that are watched, in the order in which they were reached.
        not_watched: What may change without being detected.
        not_kept: What is watched, but was too large to copy and cannot be restored.
    """

    def __init__(self, roots: Mapping[str, Any], budget: int = BYTES) -> None:
        self.records: list[Record] = []
        self.not_watched: list[NotCovered] = []
        self.not_kept: list[NotCovered] = []
        self._bytes, self._left = budget, OBJECTS
        self._lists: dict[int, Any] = {}  # with keys and elements, by the number of the record
        self._seen: dict[int, Any] = {}  # kept, so that no id is reused
        todo: list[tuple[Record | None, Any, Any]] = [(None, *each) for each in roots.items()]
        todo.reverse()
        while todo:
            within, key, value = todo.pop()
            cls: Any = type(value)
            kinds, why = kinds_of(cls)
            if not (kinds or why) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if why:
                self._note(Record(within, key, value, content.SEQUENCE, ()), why)
            for kind in kinds:
                record, children = self._record(within, key, value, kind)
                todo += [(record, place, each) for place, each in reversed(children)]

    def _record(
        self, within: Record | None, key: Any, value: Any, kind: Kind
    ) -> tuple[Record, list[tuple[Any, Any]]]:
        """Add an object; returns it, and the objects inside to add next, by key."""
        record, children = Record(within, key, value, kind, ()), list[tuple[Any, Any]]()
        try:
            kept, size = kind.keep(value, self._bytes) if kind.keep else ((), 0)
            record = Record(within, key, value, kind, kind.read(value), kept, size)
            children += itertools.islice(kind.children(value, record.parts), self._left + 1)
        except Exception as error:  # noqa: BLE001  (an object that raises is not watched)
            self._note(record, f"reading it raised {type(error).__name__}")
            return record, []
        self.records.append(record)
        self._bytes -= size
        if not record.is_kept:
            self.not_kept.append(NotCovered(record.name, f"{brief(value)} is too large to be kept"))
        if len(children) > self._left:
            self._note(record, f"its objects are compared by identity only: over {OBJECTS:,}")
            return record, []
        self._left -= len(children)
        return record, [] if self._add_flat_lists(children) else children

    def _note(self, record: Record, why: str) -> None:
        self.not_watched.append(NotCovered(record.name, why))

    def _add_flat_lists(self, children: list[tuple[Any, Any]]) -> bool:
        """Add objects all at once if they are lists of immutable values: there may be many."""
        lists = [each for _, each in children]
        if {*map(type, lists)} != {list} or not content.only_atoms(itertools.chain(*lists)):
            return False
        ids = dict(zip(map(id, lists), lists, strict=True))
        if len(ids) < len(lists) or not self._seen.keys().isdisjoint(ids):
            return False
        self._seen |= ids
        self._lists[len(self.records) - 1] = children, list(map(tuple, lists))
        return True

    def changed(self) -> Iterator[tuple[Record, Parts | None, list[str]]]:
        """The objects whose content has changed, with what it is now and the change as texts."""
        for number, record in enumerate(self.records):
            for each in record, *self._lists_in(record, number):
                now, words = each.changes()
                if words:
                    yield each, now, words

    def _lists_in(self, record: Record, number: int) -> Iterator[Record]:
        """Lists that were added all at once, if any of them has changed."""
        children, parts = self._lists.get(number, ([], []))
        lists, flat = [each for _, each in children], itertools.chain.from_iterable
        is_same = [*map(len, lists)] == [*map(len, parts)]
        if not is_same or not all(map(operator.is_, flat(lists), flat(parts))):
            for (key, each), old in zip(children, parts, strict=True):
                yield Record(record, key, each, content.SEQUENCE, old)

    def keep_only(self, records: list[Record]) -> None:
        """Keep only these records, and free everything else."""
        self.records = records
        self._lists.clear()
        self._seen.clear()


def restore(records: Iterable[Record]) -> list[NotCovered]:
    """Restore contents in the same objects; returns what could not be restored."""
    tried, failed = list(records), {}
    for number, record in enumerate(tried):
        try:
            if record.is_kept:
                record.kind.restore(record.value, record.kept or record.parts)
            else:
                failed[number] = "it was too large to be kept"
        except Exception as error:  # noqa: BLE001  (an object may raise anything)
            failed[number] = f"{type(error).__name__}: {error}"
    for number, record in enumerate(tried):
        if number not in failed and (words := record.changes()[1]):
            failed[number] = f"still changed: {'; '.join(words)}"
    return [NotCovered(tried[number].name, why) for number, why in failed.items()]
