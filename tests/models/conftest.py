"""A machine of its own for each test that starts servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from archytas_nb.models import endpoint, remote
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.embedded import process
from tests.models.fake_machine import PATIENCE

ROOT = Path(process.__file__).parents[3]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is shared with the user's machine, and nothing outlives the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(ROOT)]))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # where the stand-in for the engine is
    monkeypatch.setattr(process, "log_dir", lambda: tmp_path / "log")
    end_servers(6 * PATIENCE)  # those of other tests: the real engine takes its time
    yield tmp_path
    end_servers(PATIENCE)


def end_servers(seconds: float) -> None:
    """Give all servers back, and wait until they have ended."""
    process.stop()
    children = [*process._children.values()]
    process._children.clear()
    try:
        for child in children:
            child.wait(timeout=seconds)
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of any endpoint, before and after."""
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    capabilities_of.cache_clear()
    yield
    endpoint.close_clients()
