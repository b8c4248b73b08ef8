"""Snapshots of live objects: a walk from named objects to all that can change inside them.

A `Snapshot` finds what has changed and restores it in the same objects. What it cannot watch, and
what is too large to be kept, it lists when it is taken.
"""

from __future__ import annotations

import abc
import collections
import functools
import itertools
import operator
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias

from archytas_nb.kernel.content import (
    ATTRIBUTES,
    CONTAINERS,
    SEQUENCE,
    TABLES,
    Kind,
    Parts,
    Room,
    brief,
    is_atom,
    is_of,
    only_atoms,
)
from archytas_nb.loop.events import NotCovered

BYTES = 1 << 30  # how much one snapshot copies at most
_OBJECTS = 100_000  # how many objects inside others one snapshot watches

_MADE_IN_PYTHON = 1 << 9  # a flag of types
_BASES = {object, abc.ABC, Generic, Protocol, types.SimpleNamespace, collections.OrderedDict}
_BASES |= {collections.defaultdict, collections.Counter, *(cls for cls, _ in CONTAINERS)}
_NOT_PLAIN = {__name__.partition(".")[0], "numpy", "pandas", "polars", "matplotlib", "torch", "jax"}


@functools.lru_cache(4096)
def kinds_of(cls: Any) -> tuple[tuple[Kind, ...], str]:
    """How objects of a type are watched, and what of them is not; neither if they cannot change."""
    if is_atom(cls):
        return (), ""
    kinds = [kind for base, kind in CONTAINERS if issubclass(cls, base)]
    kinds += [kind for names, kind in TABLES if is_of(cls, *names)]
    bases = [each for each in cls.__mro__ if each not in _BASES]
    if cls is types.SimpleNamespace or (bases and all(map(_is_plain, bases))):
        kinds.append(ATTRIBUTES)
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
    return any(isinstance(each, types.MemberDescriptorType) for each in vars(cls).values())


def _not_covered(cls: Any, kinds: list[Kind]) -> str:
    if kinds:
        reads_all = ATTRIBUTES in kinds or is_of(cls, "pandas", "NDFrame")
        plain = cls.__name__ == "ndarray" or is_of(cls, "polars", "DataFrame", "Series")
        more = cls.__dictoffset__ and not (reads_all or plain)
        more = more or any(map(_has_slots, cls.__mro__))
        return f"its attributes, as it is of the class {cls.__name__!r}" if more else ""
    if issubclass(cls, (types.ModuleType, type)):
        return "class" if issubclass(cls, type) else "module"
    if issubclass(cls, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


class Record(NamedTuple):
    """An object as it was."""

    within: Record | None  # what it was found in
    key: Any  # where in it, or its name
    value: Any  # the object itself
    kind: Kind
    parts: Parts
    kept: Any = True  # what restores it; None where there was no room
    alive: Any = None  # what keeps hashed addresses valid
    size: int = 0  # how much was copied

    @property
    def name(self) -> str:
        """How it is reached, such as ``config['columns'][0]``."""
        places, record = [], self
        while record.within is not None:
            places.append(record.within.kind.place(record.key))
            record = record.within
        text = "".join([record.key, *places[::-1]])
        return text if len(text) <= 200 else f"{text[:99]}…{text[-100:]}"

    def read(self) -> Parts | None:
        """What it contains now; None where it cannot be read any more."""
        try:
            return self.kind.read(self.value)
        except Exception:  # noqa: BLE001  (whatever an object does)
            return None

    def changes(self, now: Parts | None) -> list[str]:
        """What has changed since, in words."""
        if now is None:
            return ["it cannot be read any more"]
        return self.kind.differences(self.parts, now)


_Lists: TypeAlias = list[tuple[Any, list[Any], Parts]]
"""Lists that hold no objects, with their keys and elements."""


class Snapshot:
    """What named objects contain, and what can be reached from them.

    Args:
        roots: The objects by name.
        budget: How many bytes are copied at most.

    Attributes:
        records: The objects that are watched, in the order in which they were reached.
        not_watched: What may change unseen.
        not_kept: What is watched, but cannot be restored as there was no room to copy it.
    """

    def __init__(self, roots: Mapping[str, Any], budget: int = BYTES) -> None:
        self.records: list[Record] = []
        self.not_watched: list[NotCovered] = []
        self.not_kept: list[NotCovered] = []
        self._room, self._left = Room(budget), _OBJECTS
        self._lists: dict[int, _Lists] = {}  # by the place of what they are in among the records
        self._seen: dict[int, Any] = {}  # the objects are held, so that no id is used again
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
                record = Record(within, key, value, SEQUENCE, ())
                self.not_watched.append(NotCovered(record.name, why))
            for kind in kinds:
                record, inside = self._record(within, key, value, kind)
                todo += [(record, place, each) for place, each in reversed(inside)]

    def _record(
        self, within: Record | None, key: Any, value: Any, kind: Kind
    ) -> tuple[Record, list[tuple[Any, Any]]]:
        """Add an object; returns it and those inside which are to be added, by key."""
        room, left = self._room.left, self._left
        record, inside = Record(within, key, value, kind, ()), list[tuple[Any, Any]]()
        try:
            parts, (kept, alive) = kind.read(value), kind.keep(value, self._room)
            why, why_not = kind.not_covered(value), f"{brief(value)} is too large to be kept"
            inside += itertools.islice(kind.inside(value, parts), left + 1)
        except Exception as error:  # noqa: BLE001  (an object that raises is not watched)
            why, kept = f"reading it raised {type(error).__name__}", True
        else:
            size = room - self._room.left
            record = record._replace(parts=parts, kept=kept, alive=alive, size=size)
            self.records.append(record)
        if len(inside) > left:
            why = f"its objects are compared by identity only: more than {_OBJECTS:,} in all"
            inside.clear()
        if kept is None:
            self.not_kept.append(NotCovered(record.name, why_not))
        if why:
            self.not_watched.append(NotCovered(record.name, why))
        self._left -= len(inside)
        return record, [] if self._are_simple(inside) else inside

    def _are_simple(self, inside: list[tuple[Any, Any]]) -> bool:
        """Add objects all at once if they are lists that hold no objects: there may be many."""
        lists = [each for _, each in inside]
        ids = dict(zip(map(id, lists), lists, strict=True))
        is_new = len(ids) == len(lists) and self._seen.keys().isdisjoint(ids)
        if not is_new or set(map(type, lists)) != {list} or not only_atoms(itertools.chain(*lists)):
            return False
        self._seen |= ids
        self._lists[len(self.records) - 1] = [(*each, tuple(each[1])) for each in inside]
        return True

    def changed(self) -> Iterator[tuple[Record, Parts | None, list[str]]]:
        """The objects whose content has changed, with what it is now and the change in words."""
        for number, record in enumerate(self.records):
            lists = self._lists.get(number, [])
            is_same = all(len(value) == len(old) for _, value, old in lists) and all(
                map(
                    operator.is_,
                    itertools.chain.from_iterable(value for _, value, _ in lists),
                    itertools.chain.from_iterable(old for _, _, old in lists),
                )
            )
            inside = () if is_same else (Record(record, *x[:2], SEQUENCE, x[2]) for x in lists)
            for each in record, *inside:
                now = each.read()
                if words := each.changes(now):
                    yield each, now, words

    def keep_only(self, records: list[Record]) -> None:
        """Free what the others hold."""
        self.records = records
        self._lists.clear()
        self._seen.clear()


def restore(records: Iterable[Record]) -> list[NotCovered]:
    """Restore contents in the same objects; returns what could not be restored."""
    failed, restored = [], []
    for record in records:
        if record.kept is None:
            failed.append(NotCovered(record.name, "it was too large to be kept"))
            continue
        try:
            record.kind.restore(record.value, record.parts, record.kept)
            restored.append(record)
        except Exception as error:  # noqa: BLE001  (whatever an object does)
            failed.append(NotCovered(record.name, f"{type(error).__name__}: {error}"))
    left = [(record.name, record.changes(record.read())) for record in restored]
    return failed + [
        NotCovered(name, f"still changed: {'; '.join(words)}") for name, words in left if words
    ]
