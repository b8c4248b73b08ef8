"""A copy by fork: the kernel as it is, with all its objects, locked before any code runs in it."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from archytas_nb.copies import audit, lock, scratch, watch
from archytas_nb.copies.channel import Frame, send
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.lock import Level
from archytas_nb.copies.process import CopyProcess
from archytas_nb.copies.program import Program
from archytas_nb.copies.readable import readable

_PIPE = 1 << 20


def start(
    namespace: Mapping[str, Any],
    folder: Path,
    level: Level,
    limits: CopyLimits,
    tools: Collection[str],
    stopped: Callable[[], bool],
) -> CopyProcess:
    """Fork the kernel.

    Raises:
        NotStartedError: It could not be forked or locked.
    """
    allowed = readable(folder)
    own = scratch.make()
    to_copy, from_copy, life = _pipe(), _pipe(), _pipe()
    parent = os.getpid()
    is_main = threading.get_native_id() == parent
    with warnings.catch_warnings():
        # Python warns of threads that a fork does not have; a copy that waits for one is ended.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            _prepare(parent, life[0], own, limits, is_main=is_main)
            kept = frozenset((to_copy[0], from_copy[1], life[0]))
            lock.lock(level, allowed, [own], kept, limits.bytes_of_memory())
        except BaseException as error:  # noqa: BLE001 - nothing may go on in a copy that is not locked
            _give_up(from_copy[1], error)
        _serve(namespace, to_copy[0], from_copy[1], tools, limits, own)
    for each in (to_copy[0], from_copy[1], life[0]):
        os.close(each)
    return CopyProcess(pid, from_copy[0], to_copy[1], life[1], own, limits, stopped, "fork")


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(ends[1], 1031, _PIPE)  # F_SETPIPE_SZ
    return ends


def _prepare(parent: int, life: int, own: Path, limits: CopyLimits, *, is_main: bool) -> None:
    """What a copy is before it is locked: deaf to the kernel's terminal, bounded, and mortal."""
    signal.set_wakeup_fd(-1)
    os.setsid()
    watch.end_with_parent(parent, life, is_main_thread=is_main)
    watch.bound(limits.bytes_of_memory(), limits.scratch)
    with suppress(Exception):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.settrace(None)
    sys.setprofile(None)
    # What the copy collects it would first have to write to, which makes it a page of its own.
    gc.freeze()
    asyncio.events._set_running_loop(None)  # noqa: SLF001 - the loop is that of the kernel
    audit.keep_to(own)


def _give_up(writing: int, error: BaseException) -> NoReturn:
    with suppress(BaseException):
        reason = f"{type(error).__name__}: {error}"
        send(writing, Frame(json.dumps({"what": "not locked", "reason": reason}).encode()))
    os._exit(1)


def _serve(
    namespace: Mapping[str, Any],
    reading: int,
    writing: int,
    tools: Collection[str],
    limits: CopyLimits,
    own: Path,
) -> NoReturn:
    try:
        held = namespace if type(namespace) is dict else dict(namespace)
        tried = audit.watch(own, is_refused=False)
        Program(held, reading, writing, tools, limits.bounds(), own, tried).serve()
    finally:
        os._exit(0)
