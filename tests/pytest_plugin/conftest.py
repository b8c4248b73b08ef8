"""One recording for all tests of the plugin that begin with a recorded notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.runs import CELLS, run_pytest, write_notebook
from tests.servers.plays import Say
from tests.servers.server import Server


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A notebook that asks one question, and its cassette, as they were recorded from a server."""
    folder = Path(tmp_path_factory.mktemp("recording"))
    write_notebook(folder / "asks.ipynb", *CELLS)
    with Server(Say(calls=(("one", {}),)), Say("It is one.")) as server:
        done = run_pytest(folder, "--agent-record", "asks.ipynb", OPENAI_BASE_URL=server.url)
    assert done.code == 0, done.out
    assert "1 passed" in done.out
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def recorded(tmp_path: Path, recording: dict[str, bytes]) -> Path:
    """A copy of the recorded notebook, with its cassette beside it."""
    for name, data in recording.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path / "asks.ipynb"
