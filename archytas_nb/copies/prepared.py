"""Prepared processes: each begins without objects, and gets those that a program names.

Where a process can fork, one is kept: it imports the libraries that the kernel uses, has no threads
and no objects, and forks a copy for each question. It speaks JSON over its socket; the descriptors
of a copy are sent with it. Elsewhere, a process is started for each question.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from archytas_nb.copies import audit
from archytas_nb.copies.begin import Beginning, serve
from archytas_nb.copies.channel import receive

_LENGTH = struct.Struct("<Q")
_MOST = 16 << 20
_STARTING = 30.0
"""Seconds that a process may take to start and to import what the kernel has."""


class NotPreparedError(Exception):
    """No process could be prepared; the message says why."""


def libraries(namespace: Mapping[str, Any]) -> list[str]:
    """The installed modules that the variables of a kernel are, or come from.

    Modules of the project are not among them: to import one may have an effect.
    """
    found = []
    for value in list(namespace.values()):
        kind = type(value)
        name = value.__name__ if isinstance(value, ModuleType) else getattr(kind, "__module__", "")
        if isinstance(name, str) and _is_installed(name):
            found.append(name)
    return list(dict.fromkeys(found))


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    if not isinstance(file, str) or name.partition(".")[0] == "archytas_nb":
        return False
    paths = sysconfig.get_paths()
    return any(Path(file).is_relative_to(paths[each]) for each in ("purelib", "platlib"))


def command(what: str) -> list[str]:
    """The command for a process with this one's import path, which calls a function below."""
    source = (
        f"import sys; sys.path[:] = {sys.path!r}; from archytas_nb.copies import prepared;"
        f" prepared.{what}"
    )
    return [sys.executable, "-I", "-B", "-c", source]


def plain_environment() -> dict[str, str]:
    """The environment without what may be a secret."""
    return {name: text for name, text in os.environ.items() if audit.is_plain(name)}


def _send(line: socket.socket, content: Any, descriptors: Collection[int] = ()) -> None:
    data = (
        pickle.dumps(content, 5) if isinstance(content, Beginning) else json.dumps(content).encode()
    )
    socket.send_fds(line, [_LENGTH.pack(len(data))], list(descriptors))
    line.sendall(data)


def _receive(line: socket.socket) -> tuple[bytes, list[int]]:
    head, descriptors, _, _ = socket.recv_fds(line, _LENGTH.size, 4)
    while head and len(head) < _LENGTH.size:
        head += line.recv(_LENGTH.size - len(head))
    if not head:
        raise EOFError
    data = bytearray()
    (length,) = _LENGTH.unpack(head)
    while len(data) < length:
        chunk = line.recv(min(1 << 16, length - len(data)))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data), descriptors


class Template:
    """The prepared process of this kernel, as the kernel has it."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        self._line = mine
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._waiting = 0
        self._owner = os.getpid()
        is_main = threading.current_thread() is threading.main_thread()
        with its:
            self._process = subprocess.Popen(  # noqa: S603 - this Python and this package
                command(f"main({its.fileno()}, is_main={is_main})"),
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=plain_environment(),
                start_new_session=True,
            )
        self._waiting = 1

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked for something, by this process."""
        return os.getpid() == self._owner and self._process.poll() is None

    def prepare(self, names: Collection[str]) -> None:
        """Let it import libraries; it is not waited for."""
        new = [each for each in names if each not in self._asked]
        if new:
            with self._lock, self._whole(), suppress(OSError):
                self._asked.update(new)
                _send(self._line, {"import": new})
                self._waiting += 1

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Whether it has done all that it was asked for, after some seconds at most."""
        end = time.monotonic() + seconds
        with self._lock, self._whole():
            while self._waiting:
                left = max(0.0, end - time.monotonic())
                if not select.select((self._line,), (), (), left)[0]:
                    return False
                try:
                    _receive(self._line)
                except (EOFError, OSError):
                    return False
                self._waiting -= 1
        return True

    def fork(self, beginning: Beginning, descriptors: tuple[int, int, int]) -> int:
        """Let it fork a copy, and return the process id.

        Raises:
            NotPreparedError: It does not answer.
        """
        if not self.is_ready(_STARTING):
            self.close()
            raise NotPreparedError("the process for copies did not start")
        answer = self._ask(beginning, descriptors)
        if "pid" not in answer:
            raise NotPreparedError(f"the process for copies cannot fork: {answer.get('error')}")
        return int(answer["pid"])

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """End the process if a message was interrupted: the rest would be read as the next one."""
        try:
            yield
        except NotPreparedError:
            raise
        except BaseException:
            self.close()
            raise

    def _ask(self, content: Any, descriptors: Collection[int] = ()) -> dict[str, Any]:
        with self._lock, self._whole():
            try:
                _send(self._line, content, descriptors)
                answer: dict[str, Any] = json.loads(_receive(self._line)[0])
            except (EOFError, OSError) as error:
                raise NotPreparedError(f"the process for copies ended: {error}") from None
        return answer

    def status(self, pid: int) -> int:
        """The status of a copy that has ended, or is about to end."""
        with suppress(NotPreparedError):
            return int(self._ask({"wait": pid}).get("status", 0))
        return 0

    def close(self) -> None:
        """End it; its copies end with it."""
        if os.getpid() == self._owner:
            with suppress(OSError):
                self._process.kill()
            self._process.wait()
        self._line.close()


_template: Template | None = None
_making = threading.Lock()


def template() -> Template:
    """The prepared process of this kernel; it is started if there is none.

    Raises:
        NotPreparedError: It cannot be started.
    """
    global _template  # noqa: PLW0603 - there is one
    with _making:
        if _template is None or not _template.is_alive:
            try:
                _template = Template()
            except OSError as error:
                raise NotPreparedError(f"a process for copies cannot be started: {error}") from None
        return _template


def close() -> None:
    """End the prepared process, if there is one."""
    global _template  # noqa: PLW0603
    with _making:
        if _template is not None:
            _template.close()
        _template = None


def _forget() -> None:
    """A forked child has no process of its own, and must not hold that of its parent."""
    global _template, _making
    if _template is not None:
        _template.close()
    _template, _making = None, threading.Lock()


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# The other side


@dataclass
class _Served:
    """The state of the prepared process."""

    line: socket.socket
    pids: set[int]


def main(descriptor: int, *, is_main: bool) -> None:
    """Be the prepared process.

    Args:
        descriptor: Its end of the socket.
        is_main: Whether the main thread of the kernel started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    if is_main:  # with another thread, it would end; the end of the socket ends it, too
        with suppress(OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    line = socket.socket(fileno=descriptor)
    served = _Served(line, set())
    _send(line, {"started": True})
    with suppress(EOFError, OSError):
        while True:
            _serve(served, *_receive(line))
    for pid in served.pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def alone() -> NoReturn:
    """Be a copy that is asked by the standard input, and reports by the standard output."""
    reading, writing, null = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(null, each)
    frame = receive(reading)
    beginning: Beginning = pickle.loads(frame.head)  # noqa: S301 - the kernel's own
    _main(beginning, reading, writing, None)


def _serve(served: _Served, data: bytes, descriptors: list[int]) -> None:
    if not data.startswith(b"{"):
        beginning = pickle.loads(data)  # noqa: S301 - the kernel's own
        _fork(served, beginning, descriptors)
        return
    request = json.loads(data)
    if "import" in request:
        for name in request["import"]:
            with suppress(BaseException):
                __import__(name)
        _send(served.line, {"imported": True})
    elif "wait" in request:
        status = 0
        with suppress(ChildProcessError):
            _, status = os.waitpid(request["wait"], 0)
        served.pids.discard(request["wait"])
        _send(served.line, {"status": status})


def _fork(served: _Served, beginning: Beginning, descriptors: list[int]) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        _send(served.line, {"error": str(error)})
        return
    if pid == 0:
        _become(served, beginning, descriptors)
    served.pids.add(pid)
    for each in descriptors:
        os.close(each)
    _send(served.line, {"pid": pid})


def _become(served: _Served, beginning: Beginning, descriptors: list[int]) -> NoReturn:
    try:
        served.line.close()
        reading, writing, life = descriptors
        _main(beginning, reading, writing, life)
    finally:
        os._exit(1)


def _main(beginning: Beginning, reading: int, writing: int, life: int | None) -> NoReturn:
    sys.path[:] = beginning.path
    with suppress(OSError):
        os.chdir(beginning.working)
    main_module = ModuleType("__main__")
    sys.modules["__main__"] = main_module
    serve(beginning, vars(main_module), reading, writing, life, is_main=True)
