"""No kernel of a test can lose a port that was chosen for it, and one that is forked is as one that is started."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live_kernel import Kernel, live_kernel
from tests.provisioning.unix_kernels import WARM

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are Unix sockets elsewhere")

_WHAT_IT_IS = """
def what_it_is():
    import json, locale, os, signal, sys, warnings
    return json.dumps({
        "environment": {k: v for k, v in os.environ.items() if k not in ("TESTS_WARM_KERNEL", "JPY_PARENT_PID")},
        "its parent": os.getppid() == int(os.environ["JPY_PARENT_PID"]),
        "folder": os.getcwd(),
        "imports from": sys.path,
        "by": [sys.executable, sys.prefix, str(sys.flags), sys.argv[0], len(sys.orig_argv)],
        "texts": [sys.stdout.encoding, sys.getfilesystemencoding(), locale.getencoding()],
        "signals": [repr(signal.getsignal(each)).split(" at 0x")[0] for each in signal.valid_signals()],
        "session": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "warnings": [repr(each) for each in warnings.filters],
        "comms": sorted(get_ipython().kernel.comm_manager.targets),
        "names": sorted(get_ipython().user_ns),
    })
print(what_it_is())
"""


def what_it_is(kernel: Kernel) -> Any:
    return json.loads(kernel.run(_WHAT_IT_IS).printed)


def test_a_forked_kernel_is_as_one_that_is_started(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as forked, live_kernel(tmp_path, **{WARM: ""}) as started:
        assert forked.run("import sys; 'openai' in sys.modules").result == "True"
        assert started.run("import sys; 'openai' in sys.modules").result == "False"
        assert what_it_is(forked) == what_it_is(started)


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


def test_a_kernel_that_needs_another_beginning_is_started(tmp_path: Path) -> None:
    """A fork has begun already: it would not notice the variable."""
    with live_kernel(tmp_path, PYTHONUTF8="1") as kernel:
        assert kernel.run("import sys; sys.flags.utf8_mode").result == "1"


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
