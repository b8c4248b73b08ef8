"""The files that tell other programs where a kernel listens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archytas_nb.kernel.registered import register, registered, remove_dead


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a folder" / "one.ipynb"))
    return tmp_path


def test_a_kernel_that_is_alive_is_found_and_its_file_stays(runtime: Path) -> None:
    path = register("test", "http://127.0.0.1:1", "token")
    (runtime / "archytas_nb-test-1.json").write_text("no file of a kernel")
    [found] = registered("test")
    assert (found.url, found.token, found.pid) == ("http://127.0.0.1:1", "token", os.getpid())
    assert found.folder == runtime / "a folder"
    assert registered("other") == []
    assert remove_dead("test") == []
    assert path.exists()
    assert path.stat().st_mode & 0o077 == 0


def test_another_process_with_the_same_number_is_not_the_kernel(runtime: Path) -> None:
    path = register("test", "http://127.0.0.1:1", "token")
    os.utime(path, (1, 1))  # it was written before this process was started
    assert registered("test") == []
    assert path.exists()
    [dead] = remove_dead("test")
    assert dead.token == "token"
    assert not path.exists()
