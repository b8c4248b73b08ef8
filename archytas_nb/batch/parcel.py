"""The data that a map sends to other processes, once to each, in the version of its keys.

A parcel is read by the work that a process of an executor does, not by the executor. So what cannot
be read there is a result like any other, with its reason, and no executor breaks by it.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import platform
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from archytas_nb.errors import ExecutorError
from archytas_nb.kernel.permission import codes_of
from archytas_nb.tools.tool import Tool
from archytas_nb.version import __version__
from archytas_nb.words import collapse_whitespace

MAX_BYTES = 256_000_000
"""The largest parcel."""

_KEPT = 4  # parcels that a process keeps


class Parcel(NamedTuple):
    """Work and what it needs.

    Attributes:
        digest: A hash that identifies it.
        data: The content, as bytes.
    """

    digest: str
    data: bytes


class RefusedError(Exception):
    """A process cannot do the work of a parcel; nothing of it was begun."""


class _Sent(NamedTuple):
    """The header, which any version of Python and of this package reads before the content."""

    python: tuple[str, ...]
    package: str
    codes: Mapping[str, Mapping[str, int]]
    modules: Mapping[str, str]
    content: bytes


def pack(work: Callable[..., Any], parts: Mapping[str, Any], tools: Iterable[Tool]) -> Parcel:
    """Pack work.

    Args:
        work: A function of this package, called there with the parts and what an attempt is about.
        parts: Its first arguments, by what they are called in a message.
        tools: The tools in them.

    Raises:
        ExecutorError: One of them cannot be sent, or they are too large.
    """
    tools = list(tools)
    given = tuple(parts.values())
    try:
        content = dumps((work, given, tools))
    except Exception as error:  # noqa: BLE001 - an object raises anything when it is pickled
        raise _not_sendable(parts, tools, error) from None
    if len(content) > MAX_BYTES:
        raise _too_large(parts, tools, len(content))
    codes = {}
    modules = set[str]()
    for tool in tools:
        codes[tool.name], reached = codes_of(tool)
        modules |= reached
    texts = {name: _text_of(name) for name in sorted(modules)}
    sent = _Sent(
        platform.python_version_tuple()[:2], __version__, codes,
        {name: text for name, text in texts.items() if text}, content,
    )  # fmt: skip
    data = pickle.dumps(tuple(sent))
    return Parcel(hashlib.sha256(data).hexdigest(), data)


def dumps(value: Any) -> bytes:
    """Pickle a value; what the notebook has defined goes along, if cloudpickle is installed."""
    return bytes((_cloudpickle() or pickle).dumps(value))


def sends_functions() -> bool:
    """Whether functions that no module has are sent themselves, and not by their names."""
    return _cloudpickle() is not None


def _cloudpickle() -> ModuleType | None:
    with suppress(ImportError):
        return importlib.import_module("cloudpickle")
    return None


def _text_of(module: str) -> str:
    """The hash that identifies the text of an imported module; empty for one of the notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or module in ("__main__", "__mp_main__"):
        return ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


# ── what cannot be sent ───────────────────────────────────────────────────────────────────────────


def _not_sendable(
    parts: Mapping[str, Any], tools: Sequence[Tool], error: Exception
) -> ExecutorError:
    """The error that names what cannot be sent: the tool before the setup that contains it."""
    named = {f"the tool {each.name!r}": each for each in tools} | dict(parts)
    for name, each in named.items():
        try:
            dumps(each)
        except Exception as why:  # noqa: BLE001
            return ExecutorError(
                f"{name} cannot be sent to the executor's processes: {described(why)}. Make what "
                "it needs inside the function, or leave out executor="
            )
    return ExecutorError(f"the rows cannot be sent to the executor: {described(error)}")


def _too_large(parts: Mapping[str, Any], tools: Sequence[Tool], size: int) -> ExecutorError:
    named = {f"the tool {each.name!r}": each for each in tools} or dict(parts)
    sizes = {name: len(dumps(each)) for name, each in named.items()}
    largest = max(sizes, key=lambda each: sizes[each])
    return ExecutorError(
        f"the data for the executor's processes has {size / 1e6:,.0f} MB, {largest} alone "
        f"{sizes[largest] / 1e6:,.0f} MB; expected {MAX_BYTES / 1e6:,.0f} MB at most. Load large "
        "data inside the function, from a file that the processes can read"
    )


def described(error: BaseException) -> str:
    """An error in one line; of several that led to it, the module that is missing."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    for each in chain:
        if isinstance(each, ImportError) and each.name:
            return (
                f"the module {each.name!r} is missing there ({collapse_whitespace(str(each), 200)})"
            )
    text = collapse_whitespace(str(error), 300)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ── in the other process ──────────────────────────────────────────────────────────────────────────

_opened = OrderedDict[str, Callable[..., Any]]()
_opening = threading.Lock()


def opened(digest: str, data: bytes | None) -> Callable[..., Any] | None:
    """The work of a parcel, which is read once; None where the process does not have it.

    Raises:
        RefusedError: It cannot be read here, or what would run is another version.
    """
    with _opening:
        if digest not in _opened:
            if data is None:
                return None
            _opened[digest] = _read(data)
            while len(_opened) > _KEPT:
                _opened.popitem(last=False)
        _opened.move_to_end(digest)
        return _opened[digest]


def _read(data: bytes) -> Callable[..., Any]:
    sent = _Sent(*pickle.loads(data))  # noqa: S301 - the map's own bytes
    here = platform.python_version_tuple()[:2]
    if sent.python != here or sent.package != __version__:
        there = f"Python {'.'.join(here)} and archytas_nb {__version__}"
        mine = f"Python {'.'.join(sent.python)} and archytas_nb {sent.package}"
        raise RefusedError(
            f"the executor's processes have {there}, this one {mine}. Use the same in both"
        )
    try:
        work, given, tools = pickle.loads(sent.content)  # noqa: S301
    except Exception as error:  # noqa: BLE001 - whatever a module does when it is imported
        raise RefusedError(
            f"the tools cannot be read in the executor's processes: {described(error)}. Install it "
            "there (on Dask: Client.upload_file), or define the tool in the notebook"
        ) from None
    for tool in tools:
        _check_version(tool, sent)
    return partial(work, *given)


def _check_version(tool: Tool, sent: _Sent) -> None:
    """Raise RefusedError if this process would run other code than the rows' keys stand for."""
    codes, modules = codes_of(tool)
    changed = [
        name for name, digest in sent.codes[tool.name].items() if codes.get(name, digest) != digest
    ]
    changed += [
        f"the file of the module {name!r}"
        for name in sorted(modules & sent.modules.keys())
        if _text_of(name) != sent.modules[name]
    ]
    if changed:
        raise RefusedError(
            f"the executor's processes have another version of the tool {tool.name!r}: "
            f"{changed[0]} differs. Restart them, or update its module there"
        )
