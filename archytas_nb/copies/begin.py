"""How a process becomes a copy: bounded, mortal and held, before any code runs in it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from archytas_nb.copies import audit, lock, threads, watch
from archytas_nb.copies.channel import Frame, send
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.lock import Level
from archytas_nb.copies.program import Program
from archytas_nb.copies.readable import Readable


@dataclass(frozen=True)
class Beginning:
    """The data that a process needs to become a copy.

    Attributes:
        level: The lock to use.
        limits: The limits of the copy.
        memory: How many bytes it may use in addition to those that it has.
        readable: The paths that it may read.
        scratch: The folder in which it may write.
        tools: The names of functions that run in the kernel.
        parent: The process that ends it with itself.
        path: The import path of Python.
        working: The working folder.
    """

    level: Level
    limits: CopyLimits
    memory: int
    readable: Readable
    scratch: Path
    tools: tuple[str, ...]
    parent: int
    path: tuple[str, ...]
    working: str


def serve(
    beginning: Beginning,
    namespace: dict[str, Any],
    reading: int,
    writing: int,
    life: int | None,
    *,
    is_main: bool,
) -> NoReturn:
    """Become a copy and run programs in it, until the kernel closes it.

    Args:
        beginning: The data that it needs.
        namespace: Its variables.
        reading: The descriptor with the questions of the kernel.
        writing: The descriptor for the answers.
        life: A descriptor that is closed when the kernel ends; None where nothing is forked.
        is_main: Whether the main thread of the parent forked this process.
    """
    try:
        tried = _become(beginning, reading, writing, life, is_main=is_main)
    except BaseException as error:  # noqa: BLE001 - nothing may go on in a copy that is not held
        with suppress(BaseException):
            reason = f"{type(error).__name__}: {error}"
            facts = {"what": "not locked", "reason": reason}
            send(writing, Frame(json.dumps(facts).encode("ascii")))
        os._exit(1)
    try:
        own, bounds = beginning.scratch, beginning.limits.bounds()
        Program(namespace, reading, writing, beginning.tools, bounds, own, tried).serve()
    finally:
        os._exit(0)


def _become(
    beginning: Beginning, reading: int, writing: int, life: int | None, *, is_main: bool
) -> list[tuple[str, str]]:
    signal.set_wakeup_fd(-1)
    with suppress(AttributeError, OSError):
        # Ctrl-C in a terminal is for the kernel.
        os.setsid()
    with suppress(Exception):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    watch.end_with_parent(beginning.parent, life, is_main_thread=is_main)
    watch.bound(beginning.memory, beginning.limits.scratch)
    sys.settrace(None)
    sys.setprofile(None)
    # Collecting an object writes to it, which would copy its page from the kernel.
    gc.freeze()
    asyncio.events._set_running_loop(None)  # noqa: SLF001 - the loop is that of the kernel
    # A log of the kernel that cannot be written is not a fault of the program.
    logging.raiseExceptions = False
    audit.keep_to(beginning.scratch)
    threads.instead_of_processes()
    is_locked = beginning.level.kind == "locked"
    if is_locked:
        kept = frozenset((reading, writing, *(() if life is None else (life,))))
        lock.lock(beginning.level, beginning.readable, [beginning.scratch], kept, beginning.memory)
    return audit.watch(beginning.scratch, is_refused=not is_locked)
