"""Snapshots of live objects: a walk from named objects to all that can change inside them.

A `Snapshot` finds what has changed and puts it back into the same objects. What it cannot watch,
and what is too large to be kept, it lists when it is taken.
"""

from __future__ import annotations

import abc
import collections
import functools
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from archytas_nb.kernel import content, tables
from archytas_nb.kernel.content import Kind, Parts, Room, brief, is_atom, is_of
from archytas_nb.loop.events import NotCovered

BYTES = 1 << 30  # how much one snapshot copies at most
_OBJECTS = 100_000  # how many objects one snapshot watches

_MADE_IN_PYTHON = 1 << 9  # a flag of types
_BASES = {object, abc.ABC, Generic, Protocol, types.SimpleNamespace, collections.OrderedDict}
_BASES |= {collections.defaultdict, collections.Counter, *(cls for cls, _ in content.KINDS)}
_NOT_PLAIN = {__name__.partition(".")[0], "numpy", "pandas", "polars", "matplotlib", "torch", "jax"}


@functools.lru_cache(4096)
def kinds_of(cls: Any) -> tuple[Kind, ...] | None:
    """How objects of a type are watched; none where they cannot change, None where not at all."""
    if is_atom(cls):
        return ()
    kinds = [kind for base, kind in content.KINDS if issubclass(cls, base)]
    kinds += [kind for names, kind in tables.KINDS if is_of(cls, *names)]
    bases = [each for each in cls.__mro__ if each not in _BASES]
    if cls is types.SimpleNamespace or (bases and all(map(_is_plain, bases))):
        kinds.append(content.ATTRIBUTES)
    return tuple(kinds) or None


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


@functools.lru_cache(4096)
def _has_more(cls: Any, kinds: tuple[Kind, ...]) -> bool:
    """Whether objects of a class below a known one may hold what its kinds do not read."""
    if content.ATTRIBUTES in kinds or any(
        is_of(cls, *names) and cls.__name__ in names for names, _ in tables.KINDS
    ):
        return False
    return bool(cls.__dictoffset__) or any(map(_has_slots, cls.__mro__))


@dataclass(slots=True)
class Record:
    """An object as it was.

    Attributes:
        name: How it is reached, such as ``config['columns'][0]``.
        value: The object itself.
        kind: How it is read.
        parts: What it contained.
        kept: What is needed beside the parts to put it back; None where there was no room.
        after: What it contained when changes were looked for.
    """

    name: str
    value: Any
    kind: Kind
    parts: Parts
    kept: Any
    after: Parts = None

    def changes(self) -> list[str]:
        """What has changed since, in words."""
        try:
            self.after = now = self.kind.parts(self.value)
        except Exception as error:  # noqa: BLE001  (an object that was broken has changed)
            return [f"it cannot be read any more ({type(error).__name__})"]
        return (
            []
            if content.same_parts(self.parts, now)
            else content.differences(self.parts, now, self.kind.label)
        )

    def has_changed_again(self) -> bool:
        """Whether it has changed since changes were looked for."""
        try:
            return not content.same_parts(self.after, self.kind.parts(self.value))
        except Exception:  # noqa: BLE001  (it could not be read, or cannot be read now)
            return True


class Snapshot:
    """What named objects contain, and what can be reached from them.

    Args:
        roots: The objects by name.
        budget: How many bytes are copied at most.

    Attributes:
        records: The objects that are watched, in the order in which they were reached.
        not_watched: What may change unseen.
        not_kept: What is watched, but cannot be put back as there was no room to copy it.
        bytes: How much was copied.
    """

    def __init__(self, roots: Mapping[str, Any], budget: int = BYTES) -> None:
        self.records: list[Record] = []
        self.not_watched: list[NotCovered] = []
        self.not_kept: list[NotCovered] = []
        room = Room(budget)
        seen: dict[int, Any] = {}  # the objects are held, so that no id is used again
        todo = list(roots.items())[::-1]
        while todo:
            name, value = todo.pop()
            cls: Any = type(value)
            kinds = kinds_of(cls)
            if kinds == () or id(value) in seen:
                continue
            seen[id(value)] = value
            if kinds is None:
                self.not_watched.append(NotCovered(name, what_it_is(value)))
                continue
            if _has_more(cls, kinds):
                why = f"its attributes, as it is of the class {cls.__name__!r}"
                self.not_watched.append(NotCovered(name, why))
            if len(self.records) >= _OBJECTS:
                self.not_watched.append(
                    NotCovered(name, f"it holds more than {_OBJECTS:,} objects")
                )
                break
            for kind in kinds:
                todo += reversed(self._record(name, value, kind, room))
        self.bytes = room.used

    def _record(self, name: str, value: Any, kind: Kind, room: Room) -> list[tuple[str, Any]]:
        try:
            record = Record(name, value, kind, kind.parts(value), kind.keep(value, room))
            inside = [(name + place, each) for place, each in kind.places(value)]
            notes = [replace(each, name=name + each.name) for each in kind.notes(value)]
        except Exception as error:  # noqa: BLE001  (an object that raises is not watched)
            self.not_watched.append(NotCovered(name, f"reading it raised {type(error).__name__}"))
            return []
        if record.kept is None:
            self.not_kept.append(NotCovered(name, f"{brief(value)} is too large to be kept"))
        self.records.append(record)
        self.not_watched += notes
        return inside

    def changed(self) -> list[tuple[Record, list[str]]]:
        """The objects whose content has changed, and how, in words."""
        found = [(record, record.changes()) for record in self.records]
        return [(record, words) for record, words in found if words]


def restore(records: Iterable[Record]) -> list[NotCovered]:
    """Put contents back into the same objects; returns what could not be put back."""
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
    left = [(record.name, record.changes()) for record in restored]
    return failed + [
        NotCovered(name, f"still changed: {'; '.join(words)}") for name, words in left if words
    ]


def what_it_is(value: Any) -> str:
    """The kind of thing that is not watched: "module", "function", "sqlite3.Connection"."""
    cls = type(value)  # an object may say that it is of another class, or raise when it is asked
    if issubclass(cls, types.ModuleType):
        return "module"
    if issubclass(cls, type):
        return "class"
    if issubclass(cls, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return "function"
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
