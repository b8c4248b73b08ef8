"""Effects of calls on files are seen, told and undone, whatever causes them."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import archytas_nb.effects.ledger as effects
from archytas_nb.effects.ledger import Ledger, undo, watched
from archytas_nb.effects.states import Store

NAMES = ("a", "b", "c")
PLACES = [*NAMES, *(f"d/{name}" for name in NAMES), "d/e/a", "d", "d/e", "l"]


def tree(folder: Path) -> dict[str, Any]:
    """Everything in a folder: contents, rights, links and times of files."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        status = path.lstat()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", status.st_mode)
        else:
            found[name] = ("file", status.st_mode, status.st_mtime_ns, path.read_bytes())
    return found


def move(folder: Path, step: tuple[str, str, str]) -> None:
    """A step of a history; one that is not possible does nothing."""
    what, one, other = step
    source, target = folder / one, folder / other
    moves: dict[str, Callable[[], Any]] = {
        "write": lambda: source.write_text(other),
        "append": lambda: _write(source, "a", other),
        "in place": lambda: _write(source, "r+", other),
        "delete": source.unlink,
        "rename": lambda: source.rename(target),
        "replace": lambda: source.replace(target),
        "move": lambda: shutil.move(source, target),
        "copy": lambda: shutil.copy2(source, target),
        "copy tree": lambda: shutil.copytree(source, target),
        "folder": lambda: source.mkdir(parents=True),
        "remove folder": source.rmdir,
        "remove tree": lambda: shutil.rmtree(source),
        "link": lambda: source.symlink_to(other),
        "hard link": lambda: os.link(source, target),
        "rights": lambda: source.chmod(0o600 if one < other else 0o640),
        "time": lambda: os.utime(source, (len(other), len(other))),
        "truncate": lambda: os.truncate(source, 1),
        "zip": lambda: _zip(source, other),
        "open for writing": lambda: source.open("r+").close(),
        "thread": lambda: _in_thread(lambda: source.write_text(other)),
    }
    with suppress(OSError, shutil.Error):
        moves[what]()


def _write(path: Path, mode: str, text: str) -> None:
    with path.open(mode) as file:
        file.write(text)


def _zip(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", text)


def _in_thread(work: Callable[[], Any]) -> None:
    from contextvars import copy_context

    def attempt() -> None:
        with suppress(OSError):
            work()

    thread = threading.Thread(target=copy_context().run, args=(attempt,))
    thread.start()
    thread.join()


STEPS = st.tuples(
    st.sampled_from(
        [
            "write", "append", "in place", "delete", "rename", "replace", "move", "copy", "copy tree",
            "folder", "remove folder", "remove tree", "link", "hard link", "rights", "time", "truncate",
            "zip", "open for writing", "thread",
        ]
    ),
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
)  # fmt: skip


def made(folder: Path) -> None:
    (folder / "d/e").mkdir(parents=True)
    for name in ("a", "b", "d/a", "d/e/a"):
        (folder / name).write_text(f"content of {name}")
    (folder / "l").symlink_to("a")


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8))
@example([("rename", "l", "a"), ("rename", "a", "b")])  # a link to itself
def test_undo_gives_back_exactly_the_earlier_tree(steps: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        folder.mkdir()
        made(folder)
        before = tree(folder)
        store = Store(Path(name, "kept"))
        Path(name, "kept").mkdir()
        with watched(Ledger(store)) as ledger:
            for step in steps:
                move(folder, step)
        assert bool(ledger.effects) == (untimed(tree(folder)) != untimed(before)) or ledger.effects
        assert undo(ledger.effects, store) == []
        assert untimed(tree(folder)) == untimed(before)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=5), st.lists(STEPS, min_size=1, max_size=3))
def test_what_came_later_is_kept_and_listed(
    steps: list[tuple[str, str, str]], later: list[tuple[str, str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "work")
        folder.mkdir()
        made(folder)
        before = untimed(tree(folder))
        store = Store(Path(name, "kept"))
        Path(name, "kept").mkdir()
        with watched(Ledger(store)) as ledger:
            for step in steps:
                move(folder, step)
        after = untimed(tree(folder))
        for step in later:
            move(folder, step)
        now = untimed(tree(folder))
        left = {Path(each.target) for each, *_ in undo(ledger.effects, store)}
        undone = untimed(tree(folder))
        for place in before.keys() | after.keys() | now.keys():
            if now.get(place) != after.get(place):  # changed since
                assert undone.get(place) == now.get(place)
            elif not any(folder / place in (each, *each.parents) for each in left):
                assert undone.get(place) == before.get(place) or folder / place in left


def untimed(found: dict[str, Any]) -> dict[str, Any]:
    """A tree without the times, which writing into a folder and through links changes."""
    return {name: (*each[:2], *each[3:]) for name, each in found.items()}


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a database": lambda folder: _database(folder / "new.db"),
    "a child process": lambda folder: subprocess.run(
        [sys.executable, "-c", "open('new','w').write('x')"], cwd=folder, check=True
    ),
    "a pool": lambda folder: _in_pool(folder),
    "os.open": lambda folder: os.close(os.open(folder / "new", os.O_CREAT | os.O_WRONLY)),
    "a shell": lambda folder: os.system(f"echo x > {folder}/new"),
}


def _database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()


def _in_pool(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit((folder / "new").write_text, "x").result()


@pytest.mark.parametrize("how", [each for each in WRITERS if each != "a pool"])
def test_whatever_writes_is_seen_and_undone(how: str, tmp_path: Path) -> None:
    store = Store()
    with watched(Ledger(store, tmp_path)) as ledger:
        WRITERS[how](tmp_path)
    assert [each.kind for each in ledger.effects if each.after] == ["new"]
    undo(ledger.effects, store)
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_programs_and_connections_are_told(tmp_path: Path) -> None:
    import socket

    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    with watched(Ledger(Store())) as ledger:
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        socket.create_connection(("127.0.0.1", port)).close()
    server.close()
    assert [each.kind for each in ledger.effects] == ["ran", "connected"]
    assert ledger.effects[0].target == f"{sys.executable} -c pass"
    assert ledger.effects[1].target == f"127.0.0.1:{port}"
    assert not any(each.can_be_undone for each in ledger.effects)


def test_native_code_of_the_user_is_told_that_of_packages_is_not(tmp_path: Path) -> None:
    import ctypes

    own = tmp_path / "own.so"
    own.write_bytes(b"not a library")
    with watched(Ledger(Store(), tmp_path)) as ledger:
        for name in (own, Path(sys.prefix) / "lib/no-such-library.so", "no-such-library.so", None):
            with suppress(OSError):
                ctypes.CDLL(None if name is None else str(name))
        import xml.parsers.expat  # noqa: F401
    assert [(each.kind, each.target) for each in ledger.effects] == [("loaded", str(own))]


def test_reading_is_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "read"
    path.write_text("x")
    with watched(Ledger(Store(), tmp_path)) as ledger:
        path.read_text()
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"gone")
    assert ledger.effects == ()


def test_compiled_modules_are_no_effect_where_python_keeps_them_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "module_of_a_user.py").write_text("x = 1")
    code = """
import sys
from archytas_nb.effects.ledger import Ledger, watched
from archytas_nb.effects.states import Store
sys.path.insert(0, sys.argv[1])
with watched(Ledger(Store())) as ledger:
    import module_of_a_user
print(module_of_a_user.__cached__)
print(ledger.effects)
"""
    compiled = tmp_path / "compiled"
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    written, effects = shown.splitlines()
    assert Path(written).is_relative_to(compiled)
    assert Path(written).exists()
    assert effects == "()"


def test_a_new_file_is_its_own_copy_until_it_is_undone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    path, store = tmp_path / "new", Store(kept)
    with watched(Ledger(store, tmp_path)) as ledger:
        path.write_bytes(b"x" * 2_000)
    assert list(kept.iterdir()) == []
    assert undo(ledger.effects, store) == []
    assert not path.exists()
    assert [each.read_bytes() for each in kept.iterdir()] == [b"x" * 2_000]
    assert undo([each.reversed for each in ledger.effects], store) == []
    assert path.read_bytes() == b"x" * 2_000


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_path_through_a_link_is_the_one_that_the_system_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a/b")
    monkeypatch.chdir(tmp_path)
    for name in ("new", "link/new", "link/../new", "./new", "a/../new", "a//new", "link/."):
        entry = effects.entry_of(name)
        assert entry == effects.entry_of(f"{tmp_path}/{name}")
        with suppress(IsADirectoryError):
            Path(name).write_text("x")
        assert entry.samefile(name)
        assert entry.resolve() == entry
    assert effects.entry_of("link") == effects.entry_of("./link") == tmp_path / "link"


def test_what_is_too_large_is_told_and_left(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 2000)
    store = Store(max_file=1000)
    with watched(Ledger(store)) as ledger:
        path.write_bytes(b"y" * 3000)
    [effect] = ledger.effects
    assert (effect.kind, effect.can_be_undone) == ("overwritten", False)
    assert [each for each, *_ in undo(ledger.effects, store)] == [effect]
    assert path.read_bytes() == b"y" * 3000


@pytest.mark.parametrize("has_run", [False, True])
def test_a_notebook_that_its_front_end_saves_is_no_effect(has_run: bool, tmp_path: Path) -> None:
    path = tmp_path / "work.ipynb"
    path.write_text("{}")
    with watched(Ledger(Store(), tmp_path)) as ledger:
        if has_run:
            subprocess.run(["true"], check=True)
        thread = threading.Thread(target=path.write_text, args=("{ }",))  # as another process
        thread.start()
        thread.join()
    assert [each.shown for each in ledger.effects if each.after] == [str(path)] * has_run


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions")
def test_a_private_file_is_never_readable_by_others_while_it_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = tmp_path / "key", Store()
    path.write_text("x")
    path.chmod(0o600)
    with watched(Ledger(store)) as ledger:
        path.unlink()
    modes = []
    copyfile = shutil.copyfile

    def copied(source: Path, target: Path) -> None:
        copyfile(source, target)
        modes.append(target.stat().st_mode & 0o777)

    monkeypatch.setattr("shutil.copyfile", copied)
    assert undo(ledger.effects, store) == []
    assert modes == [0o600]
    store.close()


FULL = """
import resource, signal, sys
from pathlib import Path
from archytas_nb.effects.ledger import Ledger, undo, watched
from archytas_nb.effects.states import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, store = Path(sys.argv[1]), Store()

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

limit(1_000)  # as on a disk with no room for more
with watched(Ledger(store, folder)) as ledger:
    (folder / "a").unlink()
assert [each.can_be_undone for each in ledger.effects] == [False]
limit(resource.RLIM_INFINITY)
with watched(Ledger(store, folder)) as ledger:
    (folder / "b").write_text("x")
limit(1_000)
assert [each.effect for each in undo(ledger.effects, store)] == [*ledger.effects]
assert [each.name for each in folder.iterdir()] == ["b"]
assert (folder / "b").read_text() == "x"
limit(resource.RLIM_INFINITY)
assert undo(ledger.effects, store) == []
assert (folder / "b").read_bytes() == b"b" * 5_000
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits")
def test_on_a_full_disk_nothing_is_left_half_written_and_undo_can_be_tried_again(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 5_000)
    subprocess.run([sys.executable, "-c", FULL, tmp_path], check=True)


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0 or os.name == "nt", reason="needs root")
@pytest.mark.parametrize("changes", [True, False])
def test_the_owner_of_a_path_comes_back(tmp_path: Path, *, changes: bool) -> None:
    path, store = tmp_path / "a", Store()
    path.write_text("x")
    os.chown(path, 1234, 4321)
    with watched(Ledger(store, tmp_path)) as ledger:
        if changes:
            os.chown(path, 0, 0)
        else:
            path.unlink()
    assert [each.kind for each in ledger.effects] == ["changed" if changes else "deleted"]
    assert undo(ledger.effects, store) == []
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a fork")
def test_a_fork_that_ends_leaves_what_was_kept(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from archytas_nb.effects.ledger import Ledger, undo, watched
from archytas_nb.effects.states import Store
path, store = Path(sys.argv[1]), Store()
with watched(Ledger(store)) as ledger:
    path.unlink()
if os.fork() == 0:
    sys.exit()
os.wait()
print(undo(ledger.effects, store))
"""
    path = tmp_path / "a"
    path.write_text("x")
    command = [sys.executable, "-c", code, path]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"[]\n"
    assert path.read_text() == "x"


def test_nothing_is_noted_of_others(tmp_path: Path) -> None:
    with watched(Ledger(Store())) as ledger:
        thread = threading.Thread(target=(tmp_path / "of another").write_text, args=("x",))
        thread.start()
        thread.join()
    assert ledger.effects == ()


def test_only_what_is_in_the_folder_for_caches_is_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache/")
    monkeypatch.setattr(effects, "_caches", effects._caches.__wrapped__)
    for name in ("cache", "cache-of-mine"):
        (tmp_path / name).mkdir()
    with watched(Ledger(Store())) as ledger:
        for name in ("cache", "cache-of-mine"):
            (tmp_path / name / "a").write_text("x")
    assert [each.target for each in ledger.effects] == [str(tmp_path / "cache-of-mine" / "a")]
