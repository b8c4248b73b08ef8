"""A process that has imported what kernels import, and becomes a kernel in a fraction of the time.

It runs as long as its stdin is open, and accepts connections at the socket whose descriptor is its argument. A request
is a length and a JSON object, with the three standard streams beside them; the reply is the process id of the kernel,
or 0 where a fork would not be what is asked for. The connection stays open: its end ends the kernel, as the end of a
parent does.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

AT_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ")
"""Variables that begin so count when a process begins, and a fork has begun already."""


def imports() -> None:
    """Import what kernels of the tests import, but for ipywidgets, which looks for a shell when it is imported."""
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel reads it when it is imported
    import ipykernel.ipkernel
    import ipykernel.kernelapp  # noqa: F401
    import openai  # noqa: F401

    import archytas_nb.magics  # noqa: F401


@dataclass
class Request:
    """A kernel that is asked for, and its standard streams."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]

    @classmethod
    def received(cls, connection: socket.socket) -> Request:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as rest:
            return cls(**json.loads(rest.read(int.from_bytes(size, "big"))), streams=streams)

    @property
    def fits(self) -> bool:
        """Whether a fork is what a new process would be."""
        wanted, here = self.environment, os.environ
        return self.command[:3] == [sys.executable, "-m", "ipykernel_launcher"] and all(
            wanted.get(each) == here.get(each)
            for each in {*wanted, *here}
            if each.startswith(AT_START)
        )

    def close(self) -> None:
        for each in self.streams:
            os.close(each)

    def prepare(self) -> None:
        """Be what a new process would be."""
        os.setsid()
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
        self.close()
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment, JPY_PARENT_PID=str(os.getppid()))
        sys.argv, sys.orig_argv = self.command[2:], self.command
        sys.path[0] = str(Path.cwd())  # as of "python -m"


@dataclass
class Kernel:
    """One that was forked.

    runs        both are waited for
    ended       it was reaped, and whoever asked for it may not yet have noticed
    abandoned   it was killed, and is not yet reaped
    """

    pid: int
    end: int
    connection: socket.socket
    runs: bool = True


class Warm:
    """The parent of the kernels."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._waiting = selectors.DefaultSelector()
        self._wait_for(listener, self._asked)
        self._wait_for(0, None)

    def _wait_for(self, it: socket.socket | int, act: Callable[[], Request | None] | None) -> None:
        self._waiting.register(it, selectors.EVENT_READ, act)

    def serve(self) -> Request | None:
        """Fork for each request; returns it in the child, and None in the parent at its end."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is None:
                    return None
                request = key.data()
                if request is not None:
                    return request

    def _asked(self) -> Request | None:
        connection, _ = self._listener.accept()
        request = Request.received(connection)
        if not request.fits:
            request.close()
            connection.sendall(bytes(8))
            connection.close()
            return None
        child = os.fork()
        if child == 0:
            connection.close()
            self._close()
            return request
        request.close()
        connection.sendall(child.to_bytes(8, "big"))
        kernel = Kernel(child, os.pidfd_open(child), connection)
        self._wait_for(kernel.end, partial(self._ended, kernel))
        self._wait_for(kernel.connection, partial(self._abandoned, kernel))
        return None

    def _ended(self, kernel: Kernel) -> None:
        self._waiting.unregister(kernel.end)
        os.close(kernel.end)
        os.waitpid(kernel.pid, 0)
        kernel.runs = False

    def _abandoned(self, kernel: Kernel) -> None:
        self._waiting.unregister(kernel.connection)
        kernel.connection.close()
        if kernel.runs:
            os.kill(kernel.pid, signal.SIGKILL)

    def _close(self) -> None:
        """Leave the child nothing of this."""
        for key in list(self._waiting.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            else:
                os.close(key.fd)
        self._waiting.close()


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        imports()
        gc.collect()
        gc.freeze()  # a collection in a child would write to, and so copy, every page
        request = Warm(listener).serve()
    if request is not None:
        request.prepare()
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
