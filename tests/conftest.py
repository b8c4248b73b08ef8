"""Rules of every test: no server of the machine takes part, Ctrl-C works, processes share the work."""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.provisioning import unix_kernels
from tests.scripted import unused_answers

ROOT = Path(__file__).parent.parent
os.environ["ARCHYTAS_NB_DISCOVER"] = "0"  # for kernels and other processes that a test starts, too
unix_kernels.use()
if "PYTEST_XDIST_WORKER" in os.environ:  # elsewhere with the first kernel, if there is one
    unix_kernels.warm_up()

# What is learnt of endpoints is kept in a file, and two servers of tests may have the same port.
os.environ["XDG_STATE_HOME"] = _STATE = tempfile.mkdtemp(prefix="archytas-nb-state-")
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)

_UNWRITTEN = sys.dont_write_bytecode or not os.access(ROOT / "archytas_nb", os.W_OK)
if _UNWRITTEN and "PYTHONPYCACHEPREFIX" not in os.environ:
    # The tests start hundreds of kernels and pytest runs; each would compile the package anew where nothing may
    # be written beside it.
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="archytas-nb-pyc-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Property tests may take the time that they need: a busy machine is no failure. Before a release, each law is tried
# with more examples: pytest -m hypothesis --hypothesis-profile=whole
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", settings.get_profile("whole"), max_examples=40)
settings.load_profile("patient")

_load_certificates = ssl.SSLContext.load_verify_locations


def _load_named_certificates(
    context: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None
) -> None:
    """Load the certificates that a variable names, and not those of the machine.

    No test leaves the machine, and to load them takes longer than most tests, for each client of a server.
    """
    named = {os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")} - {None}
    if cadata or named & {cafile, capath}:
        _load_certificates(context, cafile, capath, cadata)


ssl.SSLContext.load_verify_locations = _load_named_certificates  # type: ignore[method-assign]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background deaf to Ctrl-C, and all that this starts would be deaf as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def embedded_models_are_given_back() -> Iterator[None]:
    """No server of a test outlives the run; one that another program uses goes on."""
    yield
    process = sys.modules.get("archytas_nb.models.embedded.process")
    if process is not None:
        process.stop()
        for child in process._children.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=30)


@pytest.fixture(scope="session", autouse=True)
def connections_are_closed() -> Iterator[None]:
    """No connection that waits for a next request outlives the run: Python would warn of it when it ends."""
    yield
    remote = sys.modules.get("archytas_nb.models.remote")
    if remote is not None:
        remote.close_clients()


@pytest.fixture(autouse=True)
def nothing_is_known_of_endpoints() -> Iterator[None]:
    """No test uses what another one has learnt."""
    yield
    with contextlib.suppress(OSError):
        Path(_STATE, "archytas-nb", "endpoints.json").unlink()


@pytest.fixture(autouse=True)
def every_scripted_answer_is_asked_for() -> Iterator[None]:
    """A test in which nobody is asked does not pass because its person would have answered."""
    unused_answers()
    yield
    assert not unused_answers(), "these answers were never asked for"


@pytest.fixture(autouse=True)
def the_main_module_stays() -> Iterator[None]:
    """A shell that a test makes is the main module; without a spec, no later test could start a process."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(scope="module", autouse=True)
def what_is_left_of_earlier_files_is_not_looked_at_again() -> None:
    """Make garbage collections fast: a shell that ends makes one, and so do tests that would see a leak.

    The modules and the records of earlier tests stay until the end, so each collection would go through more of them.
    """
    gc.collect()
    gc.freeze()


# ── several processes (pytest -n 4) ───────────────────────────────────────────────────────────────────

SERIAL = ("pytest.mark.local_model", "tests.chromium", "tests.lab.lab")
"""Files that contain one of these words use the real model or the browser: only one process runs them.

Those of one word follow each other, so that the model and the browser are loaded once."""

LONG = (
    "tests/pytest_plugin/",
    "tests/test_example_notebooks.py",
    "tests/docs/",
    "tests/test_silence.py",
    "tests/magics/test_canaries.py",
    "tests/test_invariants.py",
)
"""Files that take longest, and are therefore started first; the order of the others does not matter."""


def group_of(nodeid: str) -> str:
    """Tests of one group are run by one process, one after another: those of a file, and all serial files."""
    file = nodeid.partition("::")[0]
    return "serial" if _serial_rank(file) < len(SERIAL) else file


@functools.cache
def _serial_rank(file: str) -> int:
    """The place in `SERIAL` of the first word that a file contains; the number of words if it contains none."""
    path = ROOT / file
    text = path.read_text("utf-8") if path.suffix == ".py" else ""
    return next((place for place, word in enumerate(SERIAL) if word in text), len(SERIAL))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import every nth test file first, each process others, before all of them are collected.

    pytest rewrites each file for its messages, which takes longer than to import it, and keeps the result for the next
    process. Processes that go through the files in the same order would all rewrite all of them.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    folders = [Path(session.config.rootpath, each) for each in session.config.args]
    files = sorted({file for folder in folders for file in folder.rglob("test_*.py")})
    first, step = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[first::step]:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection shows it
            importlib.import_module(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process ends long before another."""

    def rank(item: pytest.Item) -> int:
        serial = _serial_rank(item.nodeid.partition("::")[0])
        if serial < len(SERIAL) or item.nodeid.startswith(LONG):
            return serial
        return len(SERIAL) + 1

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute the tests by group."""
    if config.getoption("dist") != "loadfile":  # what -n means here: notebooks are run by file
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return Groups(config, log)
