"""How every kernel of a test is reached: through Unix sockets in a folder of its own.

Over TCP, jupyter_client looks for five free ports, and the kernel binds them a second later. Whatever takes one of
them in between, such as a connection of another test, ends the kernel before its first reply.

A provisioner is what jupyter_client asks to launch a kernel. The environment names this one (``tests/conftest.py``),
so it counts for whoever starts a kernel: a test, nbval, nbclient, papermill, ``jupyter execute``, JupyterLab.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

HERE = str(Path(__file__).parent)


def use() -> None:
    """Start kernels so from now on, in this process and in those that it starts."""
    if sys.platform == "win32" or HERE in sys.path:
        return
    sys.path.append(HERE)
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = HERE if path is None else os.pathsep.join([path, HERE])
    os.environ["JUPYTER_DEFAULT_PROVISIONER_NAME"] = "unix-kernels"


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

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sockets after the last end."""
        await super().cleanup(restart=restart)
        if not restart:
            shutil.rmtree(self._sockets, ignore_errors=True)
