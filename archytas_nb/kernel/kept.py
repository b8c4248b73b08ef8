"""Keeps what belongs to the person through every call: the kernel, its streams and its variables.

    the act of a call                         the result
    ────────────────────────────────────────  ──────────────────────────────────────────────────────
    ends the kernel, or resets it             a PermissionError, also in a thread, or later
    closes a stream                           the same
    raises SystemExit                         the call fails; a callback of it ends no event loop
    replaces a stream, or closes what is      it is put back after the call, and a line says so
    below, or removes all variables
    (code of a model) changes the folder,     the same
    replaces a built-in function, or sets an
    environment variable of this package

`os._exit` and signals end the process, as in any cell.
"""

from __future__ import annotations

import builtins
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any
from weakref import WeakSet

from archytas_nb.functions import door, origin
from archytas_nb.functions.door import Door
from archytas_nb.namespace import Namespace, current_shell

_STREAMS = ("stdin", "stdout", "stderr")
_ATTRIBUTES = ("keep_running", "keepkernel_on_exit")  # of a shell in a terminal, and of a kernel
_NONE = object()

_REFUSED = (
    "a run cannot {what}: the kernel, its streams and its variables belong to the user. Nothing "
    "was ended, and they are all there; answer the question instead."
)

_protected: WeakSet[Any] = WeakSet()
"""Shells."""


@contextmanager
def kept(namespace: Namespace, tell: Callable[[str], Any], *, runs_code: bool) -> Iterator[None]:
    """Keep what belongs to the person through the calls in the block.

    Args:
        namespace: The variables.
        tell: Called with a line that says what was put back.
        runs_code: Whether the block runs code of a model.
    """
    _protect()
    before = _Before(namespace, runs_code=runs_code)
    try:
        with _kept_open(sys.stdin), _kept_open(sys.stdout), _kept_open(sys.stderr):
            yield
    finally:
        for what in before.put_back():
            tell(f"{what} after the call: the streams and variables of the user stay unchanged.\n")


# ── acts that are refused ─────────────────────────────────────────────────────────────────────────


def _protect() -> None:
    """Install doors that refuse to end the kernel or a stream, except for the person."""
    origin.follow()
    for name in _STREAMS:
        close = inspect.getattr_static(type(getattr(sys, name, None)), "close", None)
        if type(close) is FunctionType and door.code_of(close) is close.__code__:
            door.shut(close, _refuse_closing)
    shell = current_shell()
    if shell is None or shell in _protected:
        return
    _protected.add(shell)
    kernel = getattr(shell, "kernel", None)
    for owner, name in ((shell, "ask_exit"), (shell, "reset"), (kernel, "do_shutdown")):
        method = inspect.getattr_static(type(owner), name, None)
        if type(method) is FunctionType:
            door.shut(method, _refuse)
    loop = getattr(getattr(kernel, "io_loop", None), "asyncio_loop", None)
    stop = inspect.getattr_static(type(loop), "stop", None)
    if type(stop) is FunctionType and door.code_of(stop) is stop.__code__:
        door.shut(stop, _refuse_stopping)
    with suppress(Exception):  # somebody else validates it
        shell._register_validator(_exit_now, ("exit_now",))  # noqa: SLF001


def _refuse(at: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The door of a method that ends something."""
    if origin.origin_of_call() is not None:
        what = "reset the variables" if at.body.__name__ == "reset" else "end the kernel"
        raise PermissionError(_REFUSED.format(what=what))
    return at.body(*args, **kwargs)


def _refuse_stopping(at: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The door of the method that stops an event loop: that of the kernel is not stopped."""
    io_loop = getattr(getattr(current_shell(), "kernel", None), "io_loop", None)
    is_kernels = args[0] is getattr(io_loop, "asyncio_loop", None)
    if is_kernels and origin.origin_of_call() is not None:
        raise PermissionError(_REFUSED.format(what="end the kernel"))
    return at.body(*args, **kwargs)


def _exit_now(_: Any, proposal: Any) -> Any:
    """The value of `exit_now` that somebody sets."""
    if proposal["value"] and origin.origin_of_call() is not None:
        raise PermissionError(_REFUSED.format(what="end the kernel"))
    return proposal["value"]


def _refuse_closing(at: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The door of the method that closes a stream."""
    streams = [getattr(sys, name, None) for name in _STREAMS]
    if any(args[0] is each for each in streams) and origin.origin_of_call() is not None:
        raise PermissionError(_REFUSED.format(what="close the streams of the kernel"))
    return at.body(*args, **kwargs)


@contextmanager
def _kept_open(stream: Any) -> Iterator[None]:
    """Let no call close a stream whose method is written in C."""
    close = getattr(stream, "close", None)
    attributes = getattr(stream, "__dict__", {})
    if close is None or type(getattr(close, "__func__", None)) is FunctionType:
        yield
        return

    def refuse() -> None:
        if origin.origin_of_call() is not None:
            raise PermissionError(_REFUSED.format(what="close the streams of the kernel"))
        close()

    with suppress(AttributeError, TypeError):  # its attributes are read-only
        stream.close = refuse
    try:
        yield
    finally:
        if attributes.get("close") is refuse:
            del stream.close


# ── restoring ─────────────────────────────────────────────────────────────────────────────────────


class _Before:
    """The kernel, streams and variables of the person, as they were before a call."""

    def __init__(self, namespace: Namespace, *, runs_code: bool) -> None:
        self._namespace = namespace
        self._variables = dict(namespace)
        self._streams = {name: getattr(sys, name, None) for name in _STREAMS}
        self._numbers = {name: _number(each) for name, each in self._streams.items()}
        self._shell = current_shell()
        self._attributes = {
            name: getattr(self._shell, name, _NONE)
            for name in ("keep_running", "keepkernel_on_exit")
        }
        self._loop = _running_loop()
        self._builtins: dict[str, Any] = {}
        self._folder = ""
        self._settings: dict[str, str] | None = None
        if runs_code:
            self._settings = _settings()
            self._builtins = dict(vars(builtins))
            self._folder = _folder()

    def put_back(self) -> Iterator[str]:
        """Restore the changes of a call, and return what they were."""
        yield from self._put_back_builtins()
        for name, value in self._attributes.items():
            if value is not _NONE and getattr(self._shell, name, _NONE) is not value:
                setattr(self._shell, name, value)
        payloads = getattr(getattr(self._shell, "payload_manager", None), "_payload", [])
        for each in [each for each in payloads if each.get("source") == "ask_exit"]:
            payloads.remove(each)
        if self._loop is not None and getattr(self._loop, "_stopping", False):
            self._loop._stopping = False  # noqa: SLF001
            yield "The event loop of the kernel was started again"
        yield from self._put_back_streams()
        yield from self._put_back_process()
        if self._are_removed():
            for name, value in self._variables.items():
                self._namespace.setdefault(name, value)
            yield "All variables had been removed, and were put back"

    def _put_back_builtins(self) -> Iterator[str]:
        # Nothing here may use a built-in function: the code may have replaced each of them.
        now = builtins.__dict__
        changed = [
            name
            for name, value in self._builtins.items()
            if name != "_" and now.get(name, _NONE) is not value
        ]
        now.update({name: self._builtins[name] for name in changed})
        for name in changed:
            yield f"The built-in {name} was put back"

    def _put_back_process(self) -> Iterator[str]:
        if self._settings is not None and _settings() != self._settings:
            for name in _settings().keys() - self._settings.keys():
                del os.environ[name]
            os.environ.update(self._settings)
            yield "The settings of the agent in the environment were put back"
        if self._folder and _folder() != self._folder:
            with suppress(OSError):  # it is gone
                os.chdir(self._folder)
                yield f"The working folder was set back to {self._folder!r}"

    def _put_back_streams(self) -> Iterator[str]:
        for name, stream in self._streams.items():
            if stream is None:
                continue
            if getattr(sys, name, None) is not stream:
                setattr(sys, name, stream)
                yield f"sys.{name} was put back"
            number = self._numbers[name]
            if number >= 0 and _is_closed(stream):
                mode = "r" if name == "stdin" else "w"
                with suppress(OSError):
                    opened = open(number, mode, buffering=1, closefd=False)  # noqa: SIM115
                    setattr(sys, name, opened)
                    yield f"sys.{name} was opened again"

    def _are_removed(self) -> bool:
        """Whether the namespace was emptied: nobody deletes what the shell itself keeps there."""
        hidden = getattr(self._shell, "user_ns_hidden", {})
        own = {each for each in self._variables if each in hidden or str(each).startswith("__")}
        return bool(own) and own.isdisjoint(self._namespace)


def _number(stream: Any) -> int:
    """The file descriptor of an open stream of text; -1 if it has none."""
    try:
        return -1 if stream.closed else int(stream.buffer.fileno())
    except Exception:  # noqa: BLE001 - a stream may raise anything
        return -1


def _is_closed(stream: Any) -> bool:
    try:
        return bool(stream.closed)
    except ValueError:  # the stream below was taken away
        return True


def _settings() -> dict[str, str]:
    """The environment variables that set what the agent asks about, among others."""
    return {name: text for name, text in os.environ.items() if name.startswith("ARCHYTAS_NB_")}


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - at each call
    except OSError:  # it was removed
        return ""


def _running_loop() -> Any:
    """The event loop that waits for this call; None if there is none, or it is to stop."""
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio is not None else None  # noqa: SLF001
    return None if getattr(loop, "_stopping", False) else loop
