"""The processes of copies, begun by fork or from a prepared process, with pipes to the kernel."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from archytas_nb.copies import forked, prepared
from archytas_nb.copies.begin import Beginning
from archytas_nb.copies.channel import Frame, send
from archytas_nb.copies.process import CopyProcess, EndedBecause, Forked, Way, ended_by

_PIPE = 1 << 20


def connected(
    way: Way, namespace: Mapping[str, Any], beginning: Beginning, stopped: Callable[[], bool]
) -> CopyProcess:
    """A copy by fork of the kernel or of the prepared process.

    Raises:
        OSError: There is no process or descriptor left.
        NotPreparedError: There is no prepared process.
    """
    to_copy, from_copy, life = _pipe(), _pipe(), _pipe()
    its, mine = (to_copy[0], from_copy[1], life[0]), (from_copy[0], to_copy[1], life[1])
    try:
        child: Forked | _OfTemplate
        if way == "fork":
            child = Forked(forked.fork(namespace, beginning, its))
        else:
            template = prepared.template()
            child = _OfTemplate(template.fork(beginning, its), template)
    except BaseException:
        for each in mine:
            os.close(each)
        raise
    finally:
        for each in its:
            os.close(each)
    return CopyProcess(child, *mine, beginning, stopped, way)


def start_alone(beginning: Beginning, stopped: Callable[[], bool]) -> CopyProcess:
    """A copy in a process that is started for it, where nothing can be forked.

    Raises:
        OSError: It cannot be started.
    """
    process = subprocess.Popen(  # noqa: S603 - this Python and this package
        prepared.command("alone()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=prepared.plain_environment(),
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    assert process.stdout is not None  # noqa: S101 - for the type checker
    writing, reading = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    send(writing, Frame(pickle.dumps(beginning)))
    return CopyProcess(_Alone(process), reading, writing, None, beginning, stopped, "message")


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(ends[1], 1031, _PIPE)  # F_SETPIPE_SZ of Linux
    return ends


class _OfTemplate:
    """A child of the prepared process."""

    def __init__(self, pid: int, template: prepared.Template) -> None:
        self.pid = pid
        self._template = template

    def kill(self) -> None:
        # Its id stays its own until it is waited for.
        if self._template.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, 9)

    def wait(self) -> EndedBecause:
        return ended_by(self._template.status(self.pid))


class _Alone:
    """A process that was started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> EndedBecause:
        # Where there are signals, they are negative.
        return "exit" if self._process.wait() >= 0 else "crash"
