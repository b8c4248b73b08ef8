"""The values that a program names, as a message: pickled, with buffers for arrays and tables."""

from __future__ import annotations

import ast
import importlib
import io
import pickle
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from archytas_nb.copies.channel import Data

_WORD = re.compile(r"[^\W\d]\w*")


class NotSentError(Exception):
    """Variables cannot be sent; the message says which, and why."""


class Parcel(NamedTuple):
    """Variables as a message.

    Attributes:
        names: The names of the values.
        head: The pickle.
        buffers: The separate buffers.
    """

    names: tuple[str, ...]
    head: bytes
    buffers: list[Data]


class Named(NamedTuple):
    """The variables of a kernel that a program names.

    Attributes:
        used: The variables that its code uses.
        mentioned: The variables whose names are words in its texts, as `query` reads them.
    """

    used: tuple[str, ...]
    mentioned: tuple[str, ...]


def named(source: str, namespace: Mapping[str, Any]) -> Named:
    """The variables that a program names; none if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Named((), ())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words = set(_WORD.findall(source)) - used
    return Named(
        tuple(name for name in namespace if name in used),
        tuple(name for name in namespace if name in words and not name.startswith("_")),
    )


class _Bounded(io.RawIOBase):
    """Takes a pickle until it is too late, or too large."""

    def __init__(self, deadline: float, most: int) -> None:
        self.parts: list[bytes] = []
        self._deadline = deadline
        self._most = most

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._most -= len(part)
        if self._most < 0 or time.monotonic() > self._deadline:
            raise NotSentError("they take too long")
        self.parts.append(part)
        return len(part)


def pack(namespace: Mapping[str, Any], wanted: Named, seconds: float, most: int) -> Parcel:
    """Pickle the variables that a program uses, and of those that it mentions what can be pickled.

    Args:
        namespace: The variables of the kernel.
        wanted: The variables that the program names.
        seconds: How long it may take.
        most: How many bytes it may be.

    Raises:
        NotSentError: One cannot be sent, or they are too large.
    """
    deadline = time.monotonic() + seconds
    if wanted.mentioned:
        with suppress(NotSentError):
            return _packed(namespace, (*wanted.used, *wanted.mentioned), deadline, most)
    try:
        return _packed(namespace, wanted.used, deadline, most)
    except NotSentError as error:
        for name in wanted.used:
            with suppress(NotSentError):
                _packed(namespace, (name,), deadline, most)
                continue
            kind = type(namespace[name]).__name__
            raise NotSentError(f"{name!r} ({kind}) cannot be sent to it: {error}") from None
        raise


def _packed(
    namespace: Mapping[str, Any], names: Collection[str], deadline: float, most: int
) -> Parcel:
    file = _Bounded(deadline, most)
    buffers: list[Data] = []
    left = most

    def take(buffer: pickle.PickleBuffer) -> None:
        nonlocal left
        raw = buffer.raw()
        left -= raw.nbytes
        if left < 0:
            raise NotSentError("they are too large")
        buffers.append(raw)

    try:
        pickler = _pickler()(file, protocol=5, buffer_callback=take)
        pickler.dump({name: namespace[name] for name in names})
    except NotSentError:
        raise
    except Exception as error:  # noqa: BLE001 - an object raises anything when it is pickled
        text = " ".join(str(error).split())[:200]
        raise NotSentError(text or type(error).__name__) from None
    return Parcel(tuple(names), b"".join(file.parts), buffers)


def _pickler() -> Any:
    """The pickler that also sends functions and classes of the notebook, if it is installed."""
    with suppress(ImportError):
        return importlib.import_module("cloudpickle").Pickler
    return pickle.Pickler
