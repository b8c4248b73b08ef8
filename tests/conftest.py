"""What holds for every test: no server of the machine takes part in it, and Ctrl-C is heard."""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

os.environ["ARCHYTAS_NB_DISCOVER"] = "0"  # for kernels and other processes that a test starts, too

if "PYTHONPYCACHEPREFIX" not in os.environ:
    # The tests start hundreds of kernels and pytest runs; each would compile the package anew where nothing may
    # be written beside it.
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="archytas-nb-pyc-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background deaf to Ctrl-C, and all that this starts would be deaf as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def embedded_models_are_given_back() -> Iterator[None]:
    """No server of a test outlives the run; one that another program uses goes on."""
    yield
    process = sys.modules.get("archytas_nb.models.process")
    if process is not None:
        process.stop()
        for child in process._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=30)
