"""No kernel of a test can lose a port that was chosen for it: it is not reached through a port."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_kernel import live_kernel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are Unix sockets elsewhere")


def test_a_kernel_listens_in_a_folder_of_its_own_which_it_keeps(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        reached = kernel.run(
            "from ipykernel.kernelapp import IPKernelApp as App;"
            "print(App.instance().transport, App.instance().ip)"
        )
        transport, place = reached.printed.split()
        assert transport == "ipc"
        assert len({*Path(place).parent.iterdir()}) == 5
        kernel.manager.restart_kernel(now=True)
        kernel.client.wait_for_ready(timeout=60)
        assert kernel.run("1 + 1").result == "2"
    assert not Path(place).parent.exists()


def test_other_programs_start_kernels_so(tmp_path: Path) -> None:
    code = (
        "from jupyter_client.provisioning import KernelProvisionerFactory as Factory;"
        "factory = Factory.instance();"
        "name = factory.default_provisioner_name;"
        "print(name, factory.get_provisioner_entries()[name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["unix-kernels", "unix_kernels:UnixKernels"]
