"""The acts of code outside of its process, read from Python's audit events.

Python raises an event before anything happens. The kind of an event follows from its module; only
those of `_KINDS` have another one, and those of `_HARMLESS` none. So an event that a later Python
adds has the kind of its module.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

ActKind: TypeAlias = Literal[
    "write", "delete", "move", "change", "start", "signal", "connect", "listen", "read", "use"
]
"""What code is about to do: ``"change"`` is of rights, times or owners, ``"read"`` of a secret, and
``"use"`` of something that is not known."""
ACT_KINDS: tuple[str, ...] = get_args(ActKind)

_HARMLESS = {
    "os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr", "os.putenv",
    "os.unsetenv", "os.add_dll_directory", "os.chdir", "os.fchdir", "os.getpid", "os.path",
    "socket.__new__",  # it goes nowhere yet
    "socket.gethostname", "socket.getservbyname", "socket.getservbyport", "signal.pthread_kill",
    "shutil.unpack_archive",
    # Other events have told of their connections; these are only about the data that is sent.
    "http.client.send", "ftplib.sendcmd", "smtplib.send", "imaplib.send", "poplib.putline",
    "nntplib.putline", "telnetlib.Telnet.write",
}  # fmt: skip
_KINDS: dict[str, ActKind] = {
    "os.remove": "delete", "os.rmdir": "delete", "shutil.rmtree": "delete", "socket.bind": "listen",
    "os.rename": "move", "shutil.move": "move", "os.kill": "signal", "os.killpg": "signal",
    "os.chmod": "change", "os.chown": "change", "os.lchmod": "change", "os.utime": "change",
    "os.setxattr": "change", "os.removexattr": "change", "os.lockf": "change",
    "os.system": "start", "os.fork": "start", "os.forkpty": "start", "os.exec": "start",
    "os.posix_spawn": "start", "os.spawn": "start", "os.startfile": "start",
    "os.startfile/2": "start",
}  # fmt: skip
_BY_MODULE: dict[str, ActKind] = {
    "os": "write", "shutil": "write", "socket": "connect", "subprocess": "start", "pty": "start",
    "ftplib": "connect", "smtplib": "connect", "poplib": "connect", "imaplib": "connect",
    "nntplib": "connect", "telnetlib": "connect", "urllib": "connect", "http": "connect",
    "webbrowser": "start", "winreg": "change", "_winapi": "start", "fcntl": "change",
    "signal": "signal", "msvcrt": "change", "syslog": "write", "resource": "change",
    "_posixsubprocess": "start",
}  # fmt: skip
"""The kinds of events by module; events of other modules have no effect outside the process."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags with which a file is opened for writing."""


class Act(NamedTuple):
    """Something that code is about to do.

    Attributes:
        kind: The kind of act.
        target: The path, command or address.
    """

    kind: ActKind
    target: str


def act_of(event: str, args: tuple[Any, ...]) -> Act | None:
    """The act that an event announces; None if nothing happens outside."""
    kind = kind_of(event)
    if kind is None or (event == "open" and not is_writing(*args)):
        return None
    if kind == "start":
        return Act(kind, _command(args))
    if kind in ("connect", "listen"):
        return Act(kind, _address(args))
    if kind == "signal":
        return Act(kind, f"process {args[0]}" if args else "")
    if event.startswith("os.") and args and isinstance(args[0], int):
        return None  # a descriptor, which was checked when it was opened
    return Act(kind, _path_in(args))


def is_writing(path: Any = None, mode: Any = None, flags: Any = None, *_: Any) -> bool:
    """Whether what the event ``open`` says is for writing."""
    if isinstance(flags, int):
        if not flags & WRITING:
            return False
    elif not isinstance(mode, str) or not set(mode) & set("wax+"):
        return False
    return path != os.devnull and not isinstance(path, int)


@cache
def kind_of(event: str) -> ActKind | None:
    """The kind of the events of a name; None if nothing happens outside."""
    if event == "open":
        return "write"
    if event in _HARMLESS:
        return None
    return _KINDS.get(event) or _BY_MODULE.get(event.partition(".")[0])


def _text(value: Any) -> str | None:
    """A text, bytes or a path as a text; None for anything else."""
    if isinstance(value, (str, bytes, os.PathLike)):
        with suppress(Exception):  # a path of the user's may raise anything
            return os.fsdecode(value)
    return None


def _path_in(args: tuple[Any, ...]) -> str:
    return next((text for each in args if (text := _text(each)) is not None), "")


def _command(args: tuple[Any, ...]) -> str:
    """The command line that an event has, or else the program."""
    for each in args:
        if isinstance(each, (list, tuple)) and each:
            return " ".join(_text(part) or str(part) for part in each)
    # Of a program and its command line, the line is the second.
    texts = [text for each in args[:2] if (text := _text(each))]
    return texts[-1] if texts else "a copy of this process"


def _address(args: tuple[Any, ...]) -> str:
    """The host with the port, the path of a socket, or the URL."""
    for number, each in enumerate(args):
        if isinstance(each, tuple):
            return ":".join(map(str, each[:2]))
        text = _text(each)
        if text is not None:
            port = args[number + 1] if number + 1 < len(args) else None
            return f"{text}:{port}" if isinstance(port, int) and port else text
    return ""


def announcer(frame: FrameType | None) -> FrameType | None:
    """The function of Python's own that announces an act itself, with `sys.audit`.

    What it does until it returns is a part of this act, as what `shutil.rmtree` removes is.

    Args:
        frame: The frame of the code in which the event was raised.
    """
    if frame is None or "audit" not in frame.f_code.co_names:
        return None
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    return frame if module in sys.stdlib_module_names else None
