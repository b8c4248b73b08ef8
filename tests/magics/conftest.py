import atexit
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from archytas_nb import settings
from archytas_nb.cassettes import switch
from tests.live_kernel import NO_ENDPOINT, Kernel, live_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for a file of tests, with the extension loaded, no model named and a question sent as it is."""
    folder = Path(tmp_path_factory.mktemp("kernel"))
    with live_kernel(folder, ARCHYTAS_NB_CONTEXT="none") as kernel:
        assert kernel.run("%load_ext archytas_nb").status == "ok"
        yield kernel


COUNT = '''%%tool
def count(species: str) -> int:
    """Count the penguins of one species.

    Args:
        species: The species
    """
    return penguins.count(species)
'''


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """An IPython of this process, as in a terminal, with the extension loaded and an empty toolbox."""
    import archytas_nb as nb

    for name in (*NO_ENDPOINT, *(key for key in os.environ if key.startswith("ARCHYTAS_NB_"))):
        monkeypatch.delenv(name, raising=False)
    # What a test configures holds for the process, and would record all that the tests after it ask.
    monkeypatch.setattr(switch, "_state", switch._State())
    monkeypatch.setattr(settings, "_state", settings._State())
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("ARCHYTAS_NB_CONTEXT", "none")  # a question is sent as it is
    before = nb.toolbox.snapshot()
    nb.toolbox.restore(({}, set()))
    hook, main = sys.excepthook, sys.modules["__main__"]
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "archytas_nb")
    try:
        yield shell
    finally:
        atexit.unregister(shell.atexit_operations)
        # IPython collects garbage here, among all that the process holds: longer than most tests take.
        with mock.patch.object(gc, "collect"):
            shell.atexit_operations()
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()
        sys.excepthook, sys.modules["__main__"] = hook, main
        nb.toolbox.restore(before)
