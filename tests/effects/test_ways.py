"""Every way of changing the disk that people use, with the library that does it."""

# The ways that people use are not always those that a linter likes.
# ruff: noqa: PTH102, PTH103, PTH104, PTH105, PTH107, SIM115

from __future__ import annotations

import asyncio
import bz2
import csv
import dbm.dumb
import gzip
import json
import lzma
import mmap
import multiprocessing
import os
import pathlib
import pickle
import shelve
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.effects.ledger import Ledger, undo, watched
from archytas_nb.effects.states import Store
from tests.effects.test_ledger import made, tree, untimed

Way = Callable[[Path], Any]


def _with(opened: Any, write: Callable[[Any], Any]) -> None:
    with opened as file:
        write(file)


def _mapped(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:1] = b"X"


def _database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table if not exists t (x)")
    connection.commit()
    connection.close()


def _shell(command: str) -> Way:
    return lambda folder: subprocess.run(command, shell=True, cwd=folder, check=True)


async def _async(folder: Path) -> None:
    await asyncio.to_thread((folder / "new").write_text, "x")


def _in_a_fork(folder: Path) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit((folder / "a").write_text, "x").result()


def _to_a_link(folder: Path) -> None:
    shutil.move(folder / "d", folder / "n")
    (folder / "d").symlink_to("n")


def _in_process(folder: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=Path(folder, "new").touch)
    process.start()
    process.join()


def _frame() -> Any:
    return pytest.importorskip("pandas").DataFrame({"a": [1, 2]})


def _array() -> Any:
    return pytest.importorskip("numpy").arange(3)


def _polars() -> Any:
    return pytest.importorskip("polars").DataFrame({"a": [1, 2]})


def _figure(path: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().plot([1, 2])
    figure.savefig(path)


def _parquet(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"a": [1]}), path)


def _duckdb(path: Path) -> None:
    pytest.importorskip("duckdb").sql(f"copy (select 1 as a) to '{path}'")


def _duckdb_file(path: Path) -> None:
    with pytest.importorskip("duckdb").connect(path) as connection:
        connection.execute("create or replace table t as select 1 as a")


def _hdf(path: Path, mode: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, mode) as file:
        file["x" if mode == "w" else "y"] = [1, 2]


def _excel(path: Path) -> None:
    pytest.importorskip("openpyxl")
    _frame().to_excel(path)


TOLD: dict[str, Way] = {
    "open w": lambda f: _with((f / "a").open("w"), lambda file: file.write("x")),
    "open a": lambda f: _with((f / "a").open("a"), lambda file: file.write("x")),
    "open x": lambda f: _with((f / "new").open("x"), lambda file: file.write("x")),
    "open r+": lambda f: _with((f / "a").open("r+"), lambda file: file.write("x")),
    "open wb": lambda f: _with((f / "a").open("wb"), lambda file: file.write(b"x")),
    "os.open": lambda f: os.close(os.open(f / "new", os.O_CREAT | os.O_WRONLY)),
    "os.open and truncate": lambda f: os.close(os.open(f / "a", os.O_WRONLY | os.O_TRUNC)),
    "write_text": lambda f: (f / "a").write_text("x"),
    "write_bytes": lambda f: (f / "a").write_bytes(b"x"),
    "touch": lambda f: (f / "new").touch(),
    "os.remove": lambda f: os.remove(f / "a"),
    "unlink": lambda f: (f / "a").unlink(),
    "os.rename": lambda f: os.rename(f / "a", f / "new"),
    "os.replace": lambda f: os.replace(f / "a", f / "b"),
    "Path.replace": lambda f: (f / "a").replace(f / "b"),
    "os.renames": lambda f: os.renames(f / "a", f / "n/m/new"),
    "rename a folder": lambda f: (f / "d").rename(f / "n"),
    "os.mkdir": lambda f: os.mkdir(f / "n"),
    "makedirs": lambda f: os.makedirs(f / "n/m/k"),
    "rmdir": lambda f: (f / "empty").rmdir(),
    "removedirs": lambda f: os.removedirs(f / "empty"),
    "truncate": lambda f: os.truncate(f / "a", 2),
    "chmod": lambda f: (f / "a").chmod(0o600),
    "symlink": lambda f: (f / "n").symlink_to("a"),
    "hard link": lambda f: os.link(f / "a", f / "n"),
    "write through a link": lambda f: (f / "l").write_text("x"),
    "write through a link to a folder": lambda f: (f / "ld/a").write_text("x"),
    "write in a folder by ..": lambda f: (f / "d/../d/e/../a").write_text("x"),
    "remove a link": lambda f: (f / "l").unlink(),
    "shutil.copy": lambda f: shutil.copy(f / "a", f / "b"),
    "shutil.copy2": lambda f: shutil.copy2(f / "a", f / "new"),
    "shutil.copyfile": lambda f: shutil.copyfile(f / "a", f / "new"),
    "shutil.copytree": lambda f: shutil.copytree(f / "d", f / "n"),
    "shutil.move": lambda f: shutil.move(f / "a", f / "d/new"),
    "shutil.move a folder": lambda f: shutil.move(f / "d", f / "n"),
    "a folder that becomes a link": _to_a_link,
    "shutil.rmtree": lambda f: shutil.rmtree(f / "d"),
    "make_archive": lambda f: shutil.make_archive(str(f / "n"), "zip", f / "d"),
    "unpack_archive": lambda f: shutil.unpack_archive(f / "z.zip", f / "n"),
    "zipfile": lambda f: _with(zipfile.ZipFile(f / "new", "w"), lambda z: z.writestr("x", "y")),
    "zipfile append": lambda f: _with(
        zipfile.ZipFile(f / "z.zip", "a"), lambda z: z.writestr("x", "y")
    ),
    "zipfile extract": lambda f: _with(
        zipfile.ZipFile(f / "z.zip"), lambda z: z.extractall(f / "n")
    ),
    "tarfile": lambda f: _with(tarfile.open(f / "new", "w:gz"), lambda t: t.add(f / "a", "a")),
    "gzip": lambda f: _with(gzip.open(f / "new", "w"), lambda file: file.write(b"x")),
    "bz2": lambda f: _with(bz2.open(f / "new", "w"), lambda file: file.write(b"x")),
    "lzma": lambda f: _with(lzma.open(f / "new", "w"), lambda file: file.write(b"x")),
    "json.dump": lambda f: _with((f / "a").open("w"), lambda file: json.dump([1], file)),
    "pickle.dump": lambda f: _with((f / "a").open("wb"), lambda file: pickle.dump([1], file)),
    "csv.writer": lambda f: _with((f / "a").open("w"), lambda file: csv.writer(file).writerow([1])),
    "shelve": lambda f: _with(shelve.Shelf(dbm.dumb.open(str(f / "n"))), lambda s: s.update(a=1)),
    "sqlite3, new": lambda f: _database(f / "new.db"),
    "sqlite3": lambda f: _database(f / "s.db"),
    "mmap": lambda f: _mapped(f / "a"),
    "mkstemp": lambda f: os.close(tempfile.mkstemp(dir=f)[0]),
    "mkdtemp": lambda f: tempfile.mkdtemp(dir=f),
    "asyncio.to_thread": lambda f: asyncio.run(_async(f)),
    "relative": lambda f: _relative(f),
    "pandas to_csv": lambda f: _frame().to_csv(f / "a"),
    "pandas to_json": lambda f: _frame().to_json(f / "new"),
    "pandas to_pickle": lambda f: _frame().to_pickle(f / "a"),
    "pandas to_html": lambda f: _frame().to_html(f / "new"),
    "pandas to_csv.gz": lambda f: _frame().to_csv(f / "new.gz"),
    "numpy save": lambda f: pytest.importorskip("numpy").save(f / "new", _array()),
    "numpy savez": lambda f: pytest.importorskip("numpy").savez(f / "new", _array()),
    "numpy savetxt": lambda f: pytest.importorskip("numpy").savetxt(f / "a", _array()),
    "numpy tofile": lambda f: _array().tofile(f / "a"),
    "pandas to_excel": lambda f: _excel(f / "new.xlsx"),
    "savefig": lambda f: _figure(f / "new.png"),
}
"""Ways that an event tells: what was there is kept, and all of it is undone."""

FOUND: dict[str, Way] = {
    "a shell, new": _shell("echo x > new"),
    "cp": _shell("cp a new"),
    "a process of multiprocessing": _in_process,
    "polars write_csv": lambda f: _polars().write_csv(f / "new"),
    "polars write_parquet": lambda f: _polars().write_parquet(f / "new"),
    "pyarrow": lambda f: _parquet(f / "new"),
    "duckdb copy": lambda f: _duckdb(f / "new.csv"),
    "duckdb, new": lambda f: _duckdb_file(f / "new.db"),
    "h5py, new": lambda f: _hdf(f / "new.h5", "w"),
}
"""Ways without an event that make something new, which the look at the folder finds."""

KEPT_IN_TIME: dict[str, Way] = {
    "a shell that overwrites": _shell("echo x > a"),
    "a fork": _in_a_fork,
    "rm": _shell("rm a"),
    "rm -r": _shell("rm -r d"),
    "rm *": _shell("rm -rf *"),
    "mv": _shell("mv a b"),
    "mv a folder": _shell("mv d n"),
    "sed -i": _shell("sed -i s/content/x/ a"),
    "truncate": _shell("truncate -s 0 a b"),
    "ln -sf": _shell("ln -sf b a"),
    "tar x": _shell("tar cf t.tar a && echo x > a && tar xf t.tar && rm t.tar && echo y > b"),
    "a script": _shell(f"{sys.executable} -c \"import shutil; shutil.rmtree('d')\""),
}
"""Ways of programs: before one starts, what it may change in the folder is kept."""

NOT_KEPT: dict[str, Way] = {
    "polars over a file": lambda f: _polars().write_csv(f / "a"),
    "pyarrow over a file": lambda f: _parquet(f / "a"),
    "duckdb copy over a file": lambda f: _duckdb(f / "a"),
    "h5py over a file": lambda f: _hdf(f / "a", "w"),
}
"""Ways of native code that change what was there: it is undone only if the code names the file."""


def _relative(folder: Path) -> None:
    before = pathlib.Path.cwd()
    os.chdir(folder)
    try:
        Path("a").write_text("x")
    finally:
        os.chdir(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    made(work)
    (work / "empty").mkdir()
    (work / "ld").symlink_to("d")
    with zipfile.ZipFile(work / "z.zip", "w") as file:
        file.writestr("inside", "x")
    connection = sqlite3.connect(work / "s.db")
    connection.execute("create table other (x)")
    connection.commit()
    connection.close()
    return work


@pytest.mark.parametrize("way", [*TOLD, *FOUND, *KEPT_IN_TIME, *NOT_KEPT])
def test_it_is_told_and_undone(way: str, folder: Path) -> None:
    before = untimed(tree(folder))
    store = Store()
    text = "frame.write_csv('a')" if way in NOT_KEPT else ""
    with watched(Ledger(store, folder, text=text)) as ledger:
        {**TOLD, **FOUND, **KEPT_IN_TIME, **NOT_KEPT}[way](folder)
    changed = set(tree(folder)) ^ set(before)
    changed |= {name for name, each in untimed(tree(folder)).items() if before.get(name) != each}
    told = [os.path.relpath(each.target, folder) for each in ledger.effects if each.after]
    assert sorted(told) == sorted(changed)
    assert changed
    assert [each for each, *_ in undo(ledger.effects, store) if each.after] == []
    assert untimed(tree(folder)) == before
    store.close()


@pytest.mark.parametrize("way", NOT_KEPT)
def test_it_is_told_that_it_cannot_be_undone(way: str, folder: Path) -> None:
    store = Store()
    with watched(Ledger(store, folder)) as ledger:
        NOT_KEPT[way](folder)
    now = untimed(tree(folder))
    [effect] = [each for each in ledger.effects if each.after]
    assert (Path(effect.target).name, effect.can_be_undone) == ("a", False)
    undo(ledger.effects, store)
    assert untimed(tree(folder)) == now
    store.close()


def test_what_is_too_much_to_be_kept_in_time_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archytas_nb.effects.ledger._MAX_ALL_SUSPECTED", 12)
    store = Store()
    with watched(Ledger(store, folder)) as ledger:
        _shell("rm a b")(folder)  # named, so they come first, of 12 bytes each
    kept = {Path(each.target).name: each.can_be_undone for each in ledger.effects if each.after}
    assert kept == {"a": True, "b": False}
    store.close()


def test_a_hard_link_that_changes_with_another_name_is_undone(folder: Path) -> None:
    os.link(folder / "a", folder / "other")
    before = untimed(tree(folder))
    store = Store()
    with watched(Ledger(store, folder)) as ledger:
        (folder / "a").write_text("x")
    assert {Path(each.target).name for each in ledger.effects} == {"a", "other"}
    assert undo(ledger.effects, store) == []
    assert untimed(tree(folder)) == before
    store.close()


@pytest.mark.parametrize("command", [[sys.executable, "-c", "pass"], ["true"]])
def test_a_program_is_told(command: list[str], folder: Path) -> None:
    with watched(Ledger(Store(), folder)) as ledger:
        subprocess.run(command, check=True)
    assert [(each.kind, each.target) for each in ledger.effects] == [("ran", " ".join(command))]
