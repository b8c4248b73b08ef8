"""Fingerprints of values: equal ones for equal contents, whatever objects hold them.

A `Snapshot` compares objects with themselves and keeps them alive. A fingerprint keeps nothing, and
is also valid for another object with the same content. Values that cannot be read have none.
"""

from __future__ import annotations

import array
import datetime as dt
import functools
import marshal
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from archytas_nb.functions.origin import is_mark
from archytas_nb.namespace import FROM_OUTSIDE
from archytas_nb.objects.equality import is_atom, is_from_library, is_of
from archytas_nb.undo.content import DICT, FUNCTION
from archytas_nb.undo.snapshot import kinds_of
from archytas_nb.undo.tables import Contents, digest_of_bytes

MAX_VALUES = 1_000_000
"""How many values inside of one are read, besides those of plain types in one container."""

_MAX_DEPTH = 200
_BY_NAME = (
    types.ModuleType, types.BuiltinFunctionType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.MethodWrapperType,
)  # fmt: skip
_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
_NESTED = frozenset({list, tuple, dict})
_PLAIN_OR_NESTED = _PLAIN | _NESTED
_NOT_CONTENT = frozenset(
    {"__module__", "__qualname__", "__firstlineno__", "__static_attributes__", "__annotate_func__"}
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A hash of the content of a value.

    Attributes:
        digest: A hash of the content.
        unread: The parts that could not be read, and are compared by identity.
    """

    digest: int
    unread: tuple[str, ...] = ()


class _TooLargeError(Exception):
    """The value has more parts than may be read."""


def fingerprint(value: Any) -> Fingerprint:
    """The fingerprint of a value, even if reading the value raises."""
    reading = _Reading()
    try:
        digest = reading.digest(value, 0)
    except FROM_OUTSIDE:
        raise
    except _TooLargeError:
        return Fingerprint(id(value), (f"it has more than {MAX_VALUES:,} values",))
    except BaseException as error:  # noqa: BLE001  (an object may raise anything)
        return Fingerprint(id(value), (f"reading it raised {type(error).__name__}",))
    return Fingerprint(digest_of_bytes(digest), tuple(dict.fromkeys(reading.unread)))


class _Reading:
    def __init__(self) -> None:
        self.unread: list[str] = []
        self._known: dict[int, bytes] = {}
        self._alive: list[Any] = []  # whose ids are in `_known`
        self._path: set[int] = set()
        self._left = MAX_VALUES

    def digest(self, value: Any, depth: int) -> bytes:
        """The digest of a value."""
        cls: Any = type(value)
        self._left -= 1
        if self._left < 0:
            raise _TooLargeError
        if cls is types.CodeType:
            return _code_digest(value)
        if _is_constant(cls):
            return _named(cls, _atom(value))
        plain = _plain(value) if cls in _NESTED else None
        if plain is not None:
            return _named(cls, plain)
        if id(value) in self._known:
            return self._known[id(value)]
        if id(value) in self._path or depth > _MAX_DEPTH:
            return b"\x00again"
        self._path.add(id(value))
        try:
            found = self._composite(value, depth + 1)
        finally:
            self._path.discard(id(value))
        self._known[id(value)] = found
        self._alive.append(value)
        return found

    def all(self, name: bytes, values: Iterable[Any], depth: int) -> bytes:
        """The digest of several values, in their order."""
        parts = [name, *(self.digest(each, depth) for each in values)]
        return _joined(parts)

    def _composite(self, value: Any, depth: int) -> bytes:
        """The digest of an object by its name, or by all that it contains."""
        cls: Any = type(value)
        if isinstance(value, _BY_NAME):
            return _named(cls, str(getattr(value, "__qualname__", None) or value).encode())
        if isinstance(value, (type, types.FunctionType)) and is_from_library(value.__module__):
            return _named(cls, f"{value.__module__}.{value.__qualname__}".encode())
        if is_of(cls, "pydantic", "BaseModel"):
            own = (vars(value), value.__pydantic_extra__, value.__pydantic_private__)
            return self.all(_named(cls, b""), own, depth)
        data = _contents(value, self, depth)
        if data is not None:
            return _named(cls, data)
        return self._by_kinds(value, depth)

    def _by_kinds(self, value: Any, depth: int) -> bytes:
        """The digest of an object by its contents; by its identity if none can be read."""
        cls: Any = type(value)
        kinds, why = kinds_of(value)
        if why and why not in ("class", "module", "function"):
            self.unread.append(why)
        if not kinds:
            if not why:
                self.unread.append(cls.__name__)
            return _named(cls, str(id(value)).encode())
        parts = [_named(cls, b"")]
        for kind in kinds:
            read = kind.read(value)
            if isinstance(value, (set, frozenset)):
                parts += sorted(self.digest(item, depth) for item in set(read))
            elif kind.keyed:
                parts.append(self._keyed(kind, read, depth))
            else:
                parts.append(self.all(b"items", read, depth))
        return _joined(parts)

    def _keyed(self, kind: Any, read: tuple[Any, ...], depth: int) -> bytes:
        found: list[bytes] = []
        is_code = kind is FUNCTION
        for key, each in DICT.pairs(read):
            if type(key) is str and (key in _NOT_CONTENT or (is_code and key == "__doc__")):
                continue
            found += [self.digest(key, depth), self.digest(each, depth)]
        return _joined(found)


@functools.lru_cache(maxsize=4096)
def _code_digest(code: types.CodeType) -> bytes:
    """The digest of code, without its place; code never changes, so the digest is cached."""
    named = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = tuple(each for each in code.co_consts if not is_mark(each))
    parts = (code.co_code, constants, *named, code.co_flags, code.co_exceptiontable)
    return _Reading().all(b"code", parts, 0)


def _named(cls: Any, content: bytes) -> bytes:
    return f"{cls.__module__}.{cls.__qualname__}:".encode() + content


def _joined(parts: list[bytes]) -> bytes:
    """A short digest of several: each has its length, so that no two lists are the same."""
    whole = b"".join([b"%d:%b" % (len(each), each) for each in parts])
    return digest_of_bytes(whole).to_bytes(16)


def _plain(value: Any) -> bytes | None:
    """A list, tuple or dict of plain values at the speed of C; None for any other value.

    Raises:
        _TooLargeError: There are too many containers in it.
    """
    todo = [(value, 0)]
    count = 0
    while todo:
        each, depth = todo.pop()
        count += 1
        if count > MAX_VALUES:
            raise _TooLargeError
        inside = each
        if type(each) is dict:
            inside = (*each, *each.values())
        kinds = set(map(type, inside))
        if depth > _MAX_DEPTH or not kinds <= _PLAIN_OR_NESTED:
            return None
        if not kinds <= _PLAIN:
            todo += [(part, depth + 1) for part in inside if type(part) in _NESTED]
    return b"plain" + digest_of_bytes(marshal.dumps(value, 2)).to_bytes(16)


def _is_constant(cls: Any) -> bool:
    """Whether the values of a type do not change; a dtype has attributes, which nobody sets."""
    if is_atom(cls):
        return True
    return is_of(cls, "numpy", "dtype") or is_of(cls, "pandas", "ExtensionDtype")


def _atom(value: Any) -> bytes:
    cls: Any = type(value)
    if cls is str:
        return value.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]
    if cls is bytes:
        return value  # type: ignore[no-any-return]
    if is_of(cls, "pandas", "CategoricalDtype"):
        # The text of the type leaves out some of many categories.
        categories = None if value.categories is None else list(value.categories)
        return repr((categories, value.ordered)).encode("utf-8", "surrogatepass")
    if cls in (dt.datetime, dt.time) and value.tzinfo is not None:
        offset = value.utcoffset()
        zone = ""  # that of a fixed offset has no content besides it, whatever its class is
        kind: Any = type(value.tzinfo)
        if is_of(kind, "zoneinfo", "ZoneInfo"):
            zone = str(value.tzinfo)
        return f"{value.replace(tzinfo=None)!r} {offset!r} {zone}".encode()
    if is_of(cls, "numpy", "generic"):
        return f"{value.dtype.str}:".encode() + value.tobytes()  # type: ignore[no-any-return]
    return repr(value).encode("utf-8", "surrogatepass")


def _contents(value: Any, reading: _Reading, depth: int) -> bytes | None:
    """The digest of an array, a table or a buffer; None for other values."""
    cls: Any = type(value)
    if isinstance(value, (bytearray, memoryview, array.array)):
        return bytes(value)
    libraries = ("numpy", "pandas", "polars")
    if not any(is_of(cls, each, "ndarray", "DataFrame", "Series", "Index") for each in libraries):
        return None

    def of_objects(values: Any) -> int:
        plain = _plain(tuple(values))
        if plain is not None:
            return digest_of_bytes(plain)
        reading._left -= len(values)  # noqa: SLF001
        if reading._left < 0:  # noqa: SLF001
            raise _TooLargeError
        return digest_of_bytes(_joined([reading.digest(each, depth) for each in values]))

    return repr(Contents(of_objects).of(value)).encode("utf-8", "surrogatepass")
