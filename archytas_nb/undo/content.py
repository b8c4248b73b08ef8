"""The contents of objects: how each type is read, compared, described in words and restored.

A `Kind` reads an object as a flat tuple of parts: its keys, then their values. Comparing
two readings finds every change, whatever code made it. Objects are read and restored by the methods
of the built-in type, never by those of a subclass, which may show something else.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import abc
import collections
import contextlib
import datetime as dt
import functools
import gc
import itertools
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from archytas_nb.functions.door import code_of, set_code
from archytas_nb.namespace import FROM_OUTSIDE, contained
from archytas_nb.objects.equality import (
    ATOMS,
    Parts,
    Summary,
    differing,
    is_atom,
    is_from_library,
    is_of,
    only_atoms,
    same_value,
    same_values,
)
from archytas_nb.words import count, truncate_line

_WORDED = 8  # maximum number of differences that are described
ROWS = "rows"
"""The key of the number of rows in a reading of a table."""
_EXAMINED = 1000  # maximum number of parts that are compared for the description


# ── in words ──────────────────────────────────────────────────────────────────────────────────────

_WITH_SHAPE = (
    ("numpy", "ndarray"),
    ("pandas", "DataFrame", "Series"),
    ("polars", "DataFrame", "Series"),
)


def short_value(value: Any) -> str:
    """A short description of a value. Text is not shown: it may be long, or a secret."""
    try:
        return _brief(value)
    except FROM_OUTSIDE:
        raise
    except BaseException:  # noqa: BLE001  (an object may raise anything)
        return str(type.__getattribute__(type(value), "__name__"))


def _brief(value: Any) -> str:
    # A class may define `__len__` or `__repr__`, and no code of the user may run for a description:
    # those of the built-in base are called.
    cls: Any = type(value)
    name: str = cls.__name__
    if cls is Summary:
        return str(value.text)
    if issubclass(cls, (str, bytes, bytearray)):
        base = next(each for each in (str, bytes, bytearray) if issubclass(cls, each))
        unit = "characters" if base is str else "bytes"
        return f"{name} of {base.__len__(value):,} {unit}"
    if issubclass(cls, type):
        return f"class {type.__getattribute__(value, '__name__')}"
    if cls in {type(None), bool, float, dt.date} or (cls is int and abs(value) < 1 << 64):
        return repr(value)
    for container in (list, tuple, dict, set, frozenset, collections.deque):
        if issubclass(cls, container):
            return f"{name} of {container.__len__(value):,}"
    if not any(is_of(cls, *each) for each in _WITH_SHAPE):
        return name
    if hasattr(cls, "dtype"):
        name = f"{name} {value.dtype}"
    shape = " × ".join(f"{each:,}" for each in value.shape)
    return f"{name} of {shape or 'no dimension'}"


def short_key(key: Any) -> str:
    """A key or a label as text."""
    text = f"<{type(key).__name__}>"
    if type(key) in ATOMS or (type(key) is tuple and only_atoms(key)):
        with contextlib.suppress(ValueError):  # an integer with too many digits for a text
            text = repr(key)
    return truncate_line(text, 40)


# ── kinds of objects ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Kind:
    """How objects of some types are read, compared and restored.

    Attributes:
        read: Returns the parts: the objects themselves, or a `Summary`.
        restore: Restores the parts, or the copy of `keep`; may be interrupted and called again.
        place: Returns the suffix by which a part is reached from its object, for a key.
        keyed: Whether the parts are keys and then values; if not, keys are positions.
        keep: Copies data, up to a number of bytes: returns what restores it, beginning with None
            if it is too large, and the size of the copy. None if the parts are enough.
        objects: Returns the mutable objects inside data, by key.
        held: Returns the mutable objects inside the copy of `keep`.
        counted: Returns how many values of a part of the data differ between the copy of `keep` and
            another object, and how many there are; None if that is not known.
        seen: Describes to a person how another object differs from the copy of `keep`, if rows have
            a new order or a few values differ; empty for any other difference.
    """

    read: Callable[[Any], Parts]
    restore: Callable[[Any, Any], None]
    place: Callable[[Any], str] = lambda key: f"[{short_key(key)}]"
    keyed: bool = True
    keep: Callable[[Any, int], tuple[tuple[Any, ...], int]] | None = None
    objects: Callable[[Any], Iterable[tuple[Any, Any]]] | None = None
    held: Callable[[tuple[Any, ...]], Iterable[Any]] | None = None
    counted: Callable[[tuple[Any, ...], Any, Any], tuple[int, int] | None] | None = None
    seen: Callable[[tuple[Any, ...], Any], tuple[str, ...]] | None = None

    def pairs(self, parts: Parts) -> Iterable[tuple[Any, Any]]:
        """The parts by key."""
        if not self.keyed:
            return enumerate(parts)
        return zip(*_halves(parts), strict=True)

    def children(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:
        """The mutable objects inside, by key."""
        if self.objects is not None:
            return self.objects(value)
        if only_atoms(parts):
            return ()
        pairs = self.pairs(parts)
        if self.keyed:
            keys, _ = _halves(parts)
            pairs = itertools.chain(pairs, zip(keys, keys, strict=True))
        return (pair for pair in pairs if not _is_simple(pair[1]))

    def same(self, old: Parts, new: Parts) -> bool:
        """Whether two readings have the same content in the same order."""
        return same_values(old, new)

    def differences(
        self, old: Parts, new: Parts, kept: tuple[Any, ...] = (), value: Any = None
    ) -> list[str]:
        """The first differences between two readings, as texts; empty if there are none.

        Args:
            old: A reading.
            new: Another one.
            kept: The copy of `keep` from the first reading; empty to count no values.
            value: The object of the second.
        """
        if self.same(old, new):
            return []

        def values(place: str) -> str:
            numbers = None
            if self.counted is not None and kept and kept[0] is not None:
                with contained():  # of objects that cannot be compared
                    numbers = self.counted(kept, value, place)
            if numbers is None or not numbers[0]:
                return "values"
            return f"{numbers[0]:,} of {count(numbers[1], 'value')}"

        if self.keyed:
            found, may_be_more = _of_keyed(self, old, new, values)
        else:
            found, may_be_more = _of_elements(old, new, self.place)
        if may_be_more:
            return [*found[:_WORDED], "and more"]
        if not found:
            return ["other objects, or another order"]
        left = len(found) - _WORDED
        if left > 0:
            return [*found[:_WORDED], f"{left:,} more"]
        return found


def _is_simple(value: Any) -> bool:
    cls: Any = type(value)
    try:
        return is_atom(cls)
    except FROM_OUTSIDE:
        raise
    except BaseException:  # noqa: BLE001  (a metaclass may raise anything when it is hashed)
        return False


def _of_elements(old: Parts, new: Parts, place: Callable[[Any], str]) -> tuple[list[str], bool]:
    """The differences of two sequences, and whether there may be more."""
    if len(old) != len(new):
        return [f"{len(old):,} → {len(new):,} elements"], False
    places = _first_places(old, new)
    found = [_change(place(each), old[each], new[each]) for each in places]
    return found, len(places) > _EXAMINED


def _first_places(old: Parts, new: Parts) -> list[int]:
    """The places where two tuples of the same length differ: all examined ones, and one more."""
    return list(itertools.islice(differing(old, new), _EXAMINED + 1))


def _change(
    place: str, before: Any, now: Any, values: Callable[[str], str] = lambda _: "values"
) -> str:
    old_text = short_value(before)
    new_text = short_value(now)
    what = f"{old_text} → {new_text}" if old_text != new_text else values(place)
    return f"{truncate_line(place, 60)}: {what}"


def _of_keyed(
    kind: Kind, old: Parts, new: Parts, values_in: Callable[[str], str]
) -> tuple[list[str], bool]:
    """The differences of two readings with keys, and whether there may be more.

    Values of keys that both readings begin or end with are compared by place, as there may be many;
    only those between them are compared by key.
    """
    keys, values = _halves(old)
    new_keys, new_values = _halves(new)
    head = _alike(keys, new_keys)
    rest = min(len(keys), len(new_keys)) - head
    tail = _alike(keys[len(keys) - rest :][::-1], new_keys[len(new_keys) - rest :][::-1])
    end = len(keys) - tail
    new_end = len(new_keys) - tail
    if max(end, new_end) - head > _EXAMINED:
        if len(keys) == len(new_keys):
            return ["other keys"], True
        return [f"{len(keys):,} → {len(new_keys):,} keys"], True

    by_place = [(at, at) for at in _first_places(values[:head], new_values[:head])]
    by_place += [
        (end + at, new_end + at) for at in _first_places(values[end:], new_values[new_end:])
    ]
    places = [at for at, _ in by_place]
    new_places = [at for _, at in by_place]
    one = {kind.place(keys[at]): values[at] for at in (*places, *range(head, end))}
    other = {
        kind.place(new_keys[at]): new_values[at] for at in (*new_places, *range(head, new_end))
    }
    return _of_places(one, other, values_in), len(by_place) > _EXAMINED


def _halves(parts: Parts) -> tuple[Parts, Parts]:
    """The keys and the values of a reading."""
    half = len(parts) // 2
    return parts[:half], parts[half:]


def _alike(one: Parts, other: Parts) -> int:
    """The number of equal elements at the start of two tuples."""
    least = min(len(one), len(other))
    return next(differing(one[:least], other[:least]), least)


def _of_places(
    one: dict[str, Any], other: dict[str, Any], values: Callable[[str], str]
) -> list[str]:
    """The parts that were added, renamed, removed and changed, as texts; rows come first."""
    gone = {place: before for place, before in one.items() if place not in other}
    found = []
    for place, now in other.items():
        if place in one:
            continue
        old_name = _renamed(gone, now)
        if old_name is None:
            found.append(f"{truncate_line(place, 60)} added")
        else:
            gone.pop(old_name)
            name = truncate_line(place.removeprefix("column "), 60)
            found.append(f"{truncate_line(old_name, 60)} → {name}")
    found += [f"{truncate_line(place, 60)} removed" for place in gone]

    is_resized = one.get(ROWS) != other.get(ROWS)  # different rows have different values
    for place, before in one.items():
        if place not in other or same_value(before, other[place]):
            continue
        are_values = isinstance(before, Summary) and short_value(before) == short_value(
            other[place]
        )
        if is_resized and are_values:
            continue
        text = _change(place, before, other[place], values)
        if place == ROWS:
            found.insert(0, text)
        else:
            found.append(text)
    return found


def _renamed(gone: dict[str, Any], now: Any) -> str | None:
    """The first place that is gone and had the same data, or None."""
    for place, before in gone.items():
        if type(before) is Summary and same_value(before, now):
            return place
    return None


# ── containers ────────────────────────────────────────────────────────────────────────────────────


def _read_list(value: Any) -> Parts:
    return tuple(list.__iter__(value))


def _restore_list(value: Any, parts: Parts) -> None:
    list.__setitem__(value, slice(None), parts)


def _read_deque(value: Any) -> Parts:
    return tuple(collections.deque.__iter__(value))


def _restore_deque(value: Any, parts: Parts) -> None:
    collections.deque.clear(value)
    collections.deque.extend(value, parts)


def _read_set(value: Any) -> Parts:
    elements = sorted(set.__iter__(value), key=id)
    return *elements, *elements


def _restore_set(value: Any, parts: Parts) -> None:
    before = set(parts)  # an element whose hash raises does so before anything is lost
    set.clear(value)
    set.update(value, before)


def _read_dict(value: Any) -> Parts:
    if issubclass(type(value), collections.OrderedDict):  # its keys are in an order that can change
        own = dict(collections.OrderedDict.items(value))
        return *own, *own.values()
    return *dict.keys(value), *dict.values(value)


def _restore_dict(value: Any, parts: Parts) -> None:
    before = dict(DICT.pairs(parts))
    if not issubclass(type(value), collections.OrderedDict):
        dict.clear(value)
        dict.update(value, before)
        return
    collections.OrderedDict.clear(value)
    for key, each in before.items():
        collections.OrderedDict.__setitem__(value, key, each)


def _read_default(value: Any) -> Parts:
    return "default_factory", value.default_factory


def _restore_default(value: Any, parts: Parts) -> None:
    value.default_factory = parts[1]


def _read_slice(value: Any) -> Parts:
    return "start", "stop", "step", value.start, value.stop, value.step


def _nothing(_value: Any, _parts: Parts) -> None:
    """Restore what cannot change."""


def _attribute(key: Any) -> str:
    if type(key) is str:
        return f".{key}"
    return f"[{short_key(key)}]"


DICT = Kind(_read_dict, _restore_dict)
SEQUENCE = Kind(_read_list, _restore_list, keyed=False)
CONTAINERS: tuple[tuple[type, Kind], ...] = (
    (list, SEQUENCE),
    (tuple, Kind(lambda value: tuple(tuple.__iter__(value)), _nothing, keyed=False)),
    (frozenset, Kind(lambda value: tuple(frozenset.__iter__(value)), _nothing, keyed=False)),
    (collections.deque, Kind(_read_deque, _restore_deque, keyed=False)),
    (dict, DICT),
    (collections.defaultdict, Kind(_read_default, _restore_default, _attribute)),
    (slice, Kind(_read_slice, _nothing, _attribute)),
    (set, Kind(_read_set, _restore_set, lambda key: f"{{{short_value(key)}}}")),
)


# ── objects with attributes ───────────────────────────────────────────────────────────────────────


@functools.lru_cache(4096)
def slots_of(cls: Any) -> dict[str, Any]:
    """The descriptors that read and write each attribute of ``__slots__``, by name."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if "__slots__" not in vars(base):
            continue
        for name, each in vars(base).items():
            if isinstance(each, types.MemberDescriptorType):
                found.setdefault(name, each)
    return found


def _dict_of(value: Any) -> dict[Any, Any]:
    """The attributes themselves; empty if there are only slots."""
    if not type(value).__dictoffset__:
        return {}
    own: dict[Any, Any] = object.__getattribute__(value, "__dict__")
    return own


def _read_attributes(value: Any) -> Parts:
    cls: Any = type(value)
    own = dict(_dict_of(value))
    for name, slot in slots_of(cls).items():
        try:
            own[name] = slot.__get__(value)
        except AttributeError:  # it has no value
            continue
    return "__class__", *own, cls, *own.values()


def _restore_attributes(value: Any, parts: Parts) -> None:
    before = dict(DICT.pairs(parts))
    cls = before.pop("__class__")
    if type(value) is not cls:
        object.__setattr__(value, "__class__", cls)
    for name, slot in slots_of(cls).items():
        if name in before:
            slot.__set__(value, before.pop(name))
        else:
            try:
                slot.__delete__(value)
            except AttributeError:  # it has no value now either
                continue
    own = _dict_of(value)
    dict.clear(own)
    dict.update(own, before)


def _is_of_library(value: Any) -> bool:
    """Whether an object is a class or a function of a library."""
    if issubclass(type(value), types.BuiltinFunctionType):
        return True
    kinds = (type, types.FunctionType)
    return issubclass(type(value), kinds) and is_from_library(value.__module__)


def _in_attributes(value: Any) -> Iterable[tuple[Any, Any]]:
    """The objects inside, without classes and functions of libraries."""
    parts = _read_attributes(value)
    for key, each in DICT.children(value, parts):
        if not _is_of_library(each):
            yield key, each


def _in_assigned_attributes(value: Any) -> Iterable[tuple[Any, Any]]:
    """The containers and the user's objects inside; others are of the library."""
    for key, each in _in_attributes(value):
        cls: Any = type(each)
        if cls in {list, dict, set} or not is_from_library(cls.__module__):
            yield key, each


ATTRIBUTES = Kind(_read_attributes, _restore_attributes, _attribute, objects=_in_attributes)
ATTRIBUTES_ALONE = Kind(
    _read_attributes, _restore_attributes, _attribute, objects=_in_assigned_attributes
)  # of objects whose own state cannot change


# ── functions and classes of the user ─────────────────────────────────────────────────────────────

_OF_FUNCTION = (
    "__code__",
    "__defaults__",
    "__kwdefaults__",
    "__name__",
    "__qualname__",
    "__module__",
    "__doc__",
)


def _read_function(value: Any) -> Parts:
    own = {name: getattr(value, name) for name in _OF_FUNCTION}
    own["__code__"] = code_of(value)
    own["__closure__"] = value.__closure__
    own |= value.__dict__
    return *own, *own.values()


def _restore_function(value: Any, parts: Parts) -> None:
    before = dict(DICT.pairs(parts))
    before.pop("__closure__")  # its cells are restored by themselves
    set_code(value, before.pop("__code__"))
    for name in _OF_FUNCTION[1:]:
        setattr(value, name, before.pop(name))
    value.__dict__.clear()
    value.__dict__.update(before)


def _read_cell(value: Any) -> Parts:
    try:
        return "cell_contents", value.cell_contents
    except ValueError:  # the variable has no value
        return ()


def _restore_cell(value: Any, parts: Parts) -> None:
    if parts:
        value.cell_contents = parts[1]
    else:
        del value.cell_contents


def _read_partial(value: Any) -> Parts:
    own = {"func": value.func, "args": value.args, "keywords": value.keywords}
    own |= _dict_of(value)
    return *own, *own.values()


def _restore_partial(value: Any, parts: Parts) -> None:
    own = dict(DICT.pairs(parts))
    state = own.pop("func"), own.pop("args"), own.pop("keywords"), own
    functools.partial.__setstate__(value, state)  # type: ignore[attr-defined]


def _read_proxy(value: Any) -> Parts:
    """The mapping itself, which can only be reached this way."""
    return tuple(gc.get_referents(value))


def _wrapper(*fixed: str) -> Kind:
    """The kind of objects with fixed parts, to which attributes may have been added."""

    def read(value: Any) -> Parts:
        own = {name: getattr(value, name) for name in fixed} | _dict_of(value)
        return *own, *own.values()

    def restore(value: Any, parts: Parts) -> None:
        before = dict(DICT.pairs(parts))
        own = _dict_of(value)
        own.clear()
        own.update((name, each) for name, each in before.items() if name not in fixed)

    return Kind(read, restore, _attribute)


def _read_class(value: Any) -> Parts:
    """The attributes of a class, without those that Python adds when the class is used."""
    own = {"__bases__": value.__bases__, _REGISTERED: _registered(value)}
    for name, each in type.__getattribute__(value, "__dict__").items():
        is_special = isinstance(name, str) and name.startswith("__") and name.endswith("__")
        is_noted = is_special and name not in ("__doc__", "__module__")
        if name != "_abc_impl" and (
            callable(each) or hasattr(type(each), "__get__") or not is_noted
        ):
            own[name] = each
    return *own, *own.values()


_REGISTERED = "the registered classes"


def _registered(value: Any) -> Parts:
    """The classes that were registered as subclasses of an abstract one."""
    if not isinstance(value, abc.ABCMeta):
        return ()
    references, *_ = _abc._get_dump(value)  # noqa: SLF001
    found = [each() for each in references]
    return tuple(sorted((each for each in found if each is not None), key=id))


def _restore_registered(value: Any, before: Parts) -> None:
    if _registered(value) != before:
        _abc._reset_registry(value)  # noqa: SLF001
        _abc._reset_caches(value)  # noqa: SLF001
        for each in before:
            abc.ABCMeta.register(value, each)


def _restore_class(value: Any, parts: Parts) -> None:
    before = dict(DICT.pairs(parts))
    now = dict(DICT.pairs(_read_class(value)))
    now.pop(_REGISTERED)
    _restore_registered(value, before.pop(_REGISTERED))
    if now.pop("__bases__") != (bases := before.pop("__bases__")):
        value.__bases__ = bases
    for name in now.keys() - before.keys():
        type.__delattr__(value, name)
    for name, each in before.items():
        if now.get(name, before) is not each:
            type.__setattr__(value, name, each)


def _in_class(value: Any) -> Iterable[tuple[Any, Any]]:
    """The objects inside, without descriptors that cannot change and objects of libraries."""
    own = dict(DICT.pairs(_read_class(value)))
    own.pop(_REGISTERED)
    bases = own.pop("__bases__")
    for base in bases:
        if not _is_of_library(base):
            yield "__bases__", base
    for name, each in own.items():
        cls = type(each)
        is_fixed = isinstance(each, _FIXED)
        inner = each
        if cls in (staticmethod, classmethod):  # since Python 3.13, each enum has the library's
            inner = each.__func__
        if not (is_fixed or _is_of_library(inner) or _is_simple(each)):
            yield name, each


CACHED: Any = type(functools.lru_cache(len))
FUNCTION = Kind(_read_function, _restore_function, _attribute)
CLASS = Kind(_read_class, _restore_class, _attribute, objects=_in_class)
FUNCTIONS: tuple[tuple[type, Kind], ...] = (
    (types.CellType, Kind(_read_cell, _restore_cell, _attribute)),
    (types.MethodType, _wrapper("__func__", "__self__")),
    (functools.partial, Kind(_read_partial, _restore_partial, _attribute)),
    (staticmethod, _wrapper("__func__")),
    (classmethod, _wrapper("__func__")),
    (property, _wrapper("fget", "fset", "fdel")),
    (CACHED, _wrapper()),
    (types.MappingProxyType, Kind(_read_proxy, _nothing, lambda _: "", keyed=False)),
)
"""The kinds that lead to functions of the user, and from them to other objects."""

_FIXED = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
"""Descriptors that have no state."""
