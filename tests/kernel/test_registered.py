"""The files that tell other programs where a kernel listens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.registered import register, registered, remove_dead


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a folder" / "one.ipynb"))
    return tmp_path


def test_a_kernel_that_is_alive_is_found_and_its_file_stays(runtime: Path) -> None:
    held = register("test", "http://127.0.0.1:1", "token")
    (runtime / "archytas_nb-test-1.json").write_text("no file of a kernel")
    [found] = registered("test")
    assert (found.url, found.token, found.pid) == ("http://127.0.0.1:1", "token", os.getpid())
    assert found.folder == runtime / "a folder"
    assert registered("other") == []
    assert remove_dead("test") == []
    assert held.path.stat().st_mode & 0o077 == 0
    held.remove()
    assert not held.path.exists()
    held.remove()


REGISTER = """
import os, sys, time
from archytas_nb.kernel.registered import register
register("test", "http://127.0.0.1:1", "token")
if "fork" in sys.argv:
    begins, tells = os.pipe()
    if not os.fork():
        os.write(tells, b"!")
        time.sleep(3600)
    os.read(begins, 1)
print("ready", flush=True)
time.sleep(3600)
"""


@contextmanager
def another(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that is registered; it and its children are killed in the end."""
    command = [sys.executable, "-c", REGISTER, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("seconds", [-1e9, -3600, 3600, 1e9])
def test_no_clock_decides_whether_a_kernel_is_alive(runtime: Path, seconds: float) -> None:
    """As if the clock was set after it was registered, or as if the machine had slept."""
    with another():
        [path] = runtime.iterdir()
        now = path.stat().st_mtime
        os.utime(path, (now + seconds, max(0, now + seconds)))
        assert remove_dead("test") == []
        [found] = registered("test")
        assert found.token == "token"


def test_another_process_with_the_same_number_is_not_the_kernel(runtime: Path) -> None:
    with another():
        [path] = runtime.iterdir()
        text = path.read_text()
    left = json.loads(text)
    path.write_text(json.dumps({**left, "pid": os.getpid()}))  # a process that runs
    assert registered("test") == []
    assert path.exists()
    [dead] = remove_dead("test")
    assert dead.token == "token"
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_does_not_stand_for_a_kernel_that_was_killed(runtime: Path) -> None:
    with another("fork") as process:
        assert len(registered("test")) == 1
        process.kill()
        process.wait()
        assert registered("test") == []
        assert len(remove_dead("test")) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_does_not_remove_the_file_of_its_parent(runtime: Path) -> None:
    held = register("test", "http://127.0.0.1:1", "token")
    child = os.fork()
    if not child:
        held.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(registered("test")) == 1
    held.remove()


def test_without_locks_a_process_is_known_by_its_number(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = register("test", "http://127.0.0.1:1", "token")
    monkeypatch.setattr("archytas_nb.kernel.registered.is_held", lambda _: None)
    assert len(registered("test")) == 1
    held.remove()


@pytest.mark.parametrize("parent", ["a file", "a folder of others"])
def test_a_runtime_folder_that_cannot_be_made_is_one_error(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    blocked = runtime / "blocked"
    if parent == "a file":
        blocked.touch()
    else:
        blocked.mkdir(mode=0o500)
        if os.access(blocked, os.W_OK):
            pytest.skip("this user may write everywhere")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(blocked / "runtime"))
    assert registered("test") == []
    assert remove_dead("test") == []
    with pytest.raises(ConfigurationError, match="JUPYTER_RUNTIME_DIR"):
        register("test", "http://127.0.0.1:1", "token")


def test_a_working_folder_that_was_removed_is_one_error(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    gone = runtime / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="working folder"):
        register("test", "http://127.0.0.1:1", "token")
