"""The lines about effects, for a person: one for each thing that was done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.effects.ledger import Effect, Ledger, watched
from archytas_nb.effects.states import MISSING, State, Store
from archytas_nb.effects.told import told
from tests.growth import assert_linear


def _make(folder: Path) -> None:
    for name in ("a", "b", "d/x", "d/e/y", "d/e/z"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}\n")


def _twice(folder: Path) -> None:
    (folder / "a").rename(folder / "n")
    (folder / "n").rename(folder / "m")


def _swap(folder: Path) -> None:
    (folder / "a").rename(folder / "n")
    (folder / "b").rename(folder / "a")
    (folder / "n").rename(folder / "b")


def _same(folder: Path) -> None:
    """Two files with the content of one that is gone: nobody can say which it is."""
    shutil.copy(folder / "a", folder / "m")
    shutil.copy(folder / "a", folder / "n")
    (folder / "a").unlink()


def _new_folder(folder: Path) -> None:
    for name in ("n/1", "n/2", "n/m/3"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


WAYS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "a new file": (lambda f: (f / "n").write_text("x" * 12_345), ["n new, 12 kB"]),
    "a deletion": (lambda f: (f / "a").unlink(), ["a deleted"]),
    "a renamed file": (lambda f: (f / "a").rename(f / "n"), ["a → n renamed"]),
    "renamed twice": (_twice, ["a → m renamed"]),
    "renamed over another": (lambda f: (f / "a").replace(f / "b"), ["a → b renamed, over a file"]),
    "swapped": (_swap, ["a overwritten, 13 B", "b overwritten, 13 B"]),
    "moved into a folder": (lambda f: shutil.move(f / "a", f / "d"), ["a → d/a renamed"]),
    "a renamed folder": (lambda f: (f / "d").rename(f / "n"), ["d → n renamed"]),
    "a renamed folder of a program": (
        lambda f: subprocess.run(["mv", "d", "n"], cwd=f, check=True),
        ["d → n renamed", "mv d n ran"],
    ),
    "a deleted folder": (lambda f: shutil.rmtree(f / "d"), ["d deleted folder, 3 files"]),
    "a new folder": (_new_folder, ["n new folder, 3 files"]),
    "a copied folder": (
        lambda f: shutil.copytree(f / "d", f / "n"),
        ["n new folder, 3 files"],
    ),
    "copies": (_same, ["a deleted", "m new, 13 B", "n new, 13 B"]),
    "a change in a folder": (lambda f: (f / "d/e/y").write_text("x"), ["d/e/y overwritten, 1 B"]),
    "rights": (lambda f: (f / "a").chmod(0o600), ["a changed, 13 B"]),
    "a program": (lambda _: os.system("true"), ["true ran"]),
}


def test_several_changes_of_a_path_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path)
    monkeypatch.chdir(tmp_path)
    effects: list[Effect] = []
    for work in (
        lambda: (tmp_path / "a").unlink(),
        lambda: (tmp_path / "a").write_text("x"),
        lambda: (tmp_path / "new").write_text("x"),
        lambda: (tmp_path / "new").unlink(),
    ):
        with watched(Ledger(Store(), tmp_path)) as ledger:
            work()
        effects += ledger.effects
    assert [(each.name, each.kind) for each in told(effects)] == [("a", "overwritten")]


def _many(number: int) -> list[Effect]:
    """Deleted files, half of them in a folder that is deleted, too."""
    was = State("file", 1, (1, 1, 1), 0o644, digest="x")
    paths = [f"/d{n % 2 * '/e'}/{n}" for n in range(number)]
    gone = [Effect("deleted", each, was, MISSING) for each in paths]
    return [Effect("deleted", "/d/e", State("folder"), MISSING), *gone]


def test_many_files_are_told_in_linear_time() -> None:
    assert len(told(_many(200))) == 101
    assert_linear(lambda number: told(_many(number)), 500)


@pytest.mark.parametrize("way", WAYS)
def test_each_thing_that_was_done_is_a_line(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path)
    monkeypatch.chdir(tmp_path)
    work, lines = WAYS[way]
    with watched(Ledger(Store(), tmp_path)) as ledger:
        work(tmp_path)
    found = [f"{each.name} {each.kind}" + "".join(f", {d}" for d in each.details)
             for each in told(ledger.effects)]  # fmt: skip
    assert sorted(found) == sorted(lines)
