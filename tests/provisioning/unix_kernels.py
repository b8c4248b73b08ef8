"""How every kernel of a test is started.

It is reached through Unix sockets in a folder of its own. Over TCP, jupyter_client looks for five free ports, and the
kernel binds them a second later. Whatever takes one of them in between, such as a connection of another test, ends
the kernel before its first reply.

It is forked from a process that has imported what kernels import (``warm.py``), where that process is like the one
that was asked for, and where the environment of the kernel names it.

A provisioner is what jupyter_client asks to launch a kernel. The environment names this one (``tests/conftest.py``),
so it counts for whoever starts a kernel: a test, nbval, nbclient, papermill, ``jupyter execute``, JupyterLab.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

HERE = Path(__file__).parent
WARM = "TESTS_WARM_KERNEL"
"""The variable with the socket of the process from which kernels are forked; where it is empty, they are started."""


def use() -> None:
    """Start kernels so from now on, in this process and in those that it starts."""
    if sys.platform == "win32" or str(HERE) in sys.path:
        return
    sys.path.append(str(HERE))
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(HERE) if path is None else os.pathsep.join([path, str(HERE)])
    os.environ["JUPYTER_DEFAULT_PROVISIONER_NAME"] = "unix-kernels"


def warm_up() -> None:
    """Start the process from which kernels are forked, those of this process and of the processes that it starts."""
    if WARM in os.environ:
        return
    if not hasattr(os, "pidfd_open"):
        os.environ[WARM] = ""
        return
    folder = tempfile.mkdtemp(prefix="warm-kernel-")
    address = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)  # who connects while it warms up waits
        command = [sys.executable, str(HERE / "warm.py"), str(listener.fileno())]
        warm = subprocess.Popen(
            command, stdin=subprocess.PIPE, cwd=folder, pass_fds=[listener.fileno()]
        )
    os.environ[WARM] = address

    @atexit.register
    def end() -> None:
        with warm:  # closes its stdin, and waits
            shutil.rmtree(folder, ignore_errors=True)


class UnixKernels(LocalProvisioner):
    """Launches a kernel that listens on Unix sockets."""

    _sockets = ""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Choose where the kernel listens, once: it stays there when it is restarted."""
        if not self._sockets:
            # Not below the folder of the test: a path of more than about a hundred characters is refused.
            self._sockets = tempfile.mkdtemp(prefix="kernel-")
            self.parent.transport, self.parent.ip = "ipc", f"{self._sockets}/channel"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork it, if that is the same."""
        self.process = forked(cmd, **kwargs)
        if self.process is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.pid = self.pgid = self.process.pid
        self.cwd = kwargs.get("cwd", Path.cwd())
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sockets after the last end."""
        await super().cleanup(restart=restart)
        if not restart:
            shutil.rmtree(self._sockets, ignore_errors=True)


def forked(
    command: list[str],
    *,
    env: dict[str, str],
    cwd: str | None = None,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    **_: Any,
) -> Forked | None:
    """A kernel that was forked; None if it is to be started."""
    address = env.get(WARM)
    if address is None:
        warm_up()
        address = os.environ[WARM]
    if not address or subprocess.PIPE in (stdin, stdout, stderr):
        return None
    request = {"command": command, "environment": env, "folder": str(cwd or Path.cwd())}
    text = json.dumps(request).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    with Path(os.devnull).open("r+") as nothing:
        given = (stdin or nothing, 1 if stdout is None else stdout, 2 if stderr is None else stderr)
        streams = [nothing if each == subprocess.DEVNULL else each for each in given]
        numbers = [each if isinstance(each, int) else each.fileno() for each in streams]
        socket.send_fds(connection, [len(text).to_bytes(8, "big")], numbers)
    connection.sendall(text)
    pid = int.from_bytes(connection.recv(8), "big")
    if pid == 0:
        connection.close()
        return None
    return Forked(connection, pid)


class Forked:
    """The parts of a `Popen` that jupyter_client and the tests need, for a process that is no child."""

    stdin = stdout = stderr = None

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """None while it runs, as far as is known; then 0, whatever its exit code is."""
        self._connection = connection
        self._process = os.pidfd_open(pid)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._process], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the kernel", timeout or 0)
            self.returncode = 0
            self._connection.close()
            os.close(self._process)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)
