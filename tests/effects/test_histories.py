"""Files after random histories of runs, cells and another process, and after a kill at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.effects.ledger import Effect, Ledger, undo, watched
from archytas_nb.effects.states import Store
from tests.effects.test_ledger import PLACES, STEPS, made, move, tree, untimed

PROGRAMS = (
    "rm -rf {0}",
    "mv {0} {1}",
    "cp -r {0} {1}",
    "echo x > {0}",
    "mkdir -p {0}",
    "ln -sf {1} {0}",
)
COMMANDS = st.builds(
    lambda command, one, other: command.format(one, other),
    st.sampled_from(PROGRAMS),
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, list[Any]]]:
    """Runs, cells and other processes in any order; a run's code may start programs, too."""
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        who = draw(st.sampled_from(["run", "run", "cell", "process"]))
        what: Any = COMMANDS if who == "process" else STEPS
        if who == "run":
            what = st.one_of(STEPS, COMMANDS)
        parts.append((who, draw(st.lists(what, min_size=1, max_size=3))))
    return parts


def carry_out(folder: Path, step: Any) -> None:
    if isinstance(step, str):
        subprocess.run(step, shell=True, cwd=folder, capture_output=True, check=False)
    else:
        move(folder, step)


def is_at(place: str, paths: set[Path], folder: Path) -> bool:
    """Whether a place is one of some paths, or in one, or holds one."""
    path = folder / place
    return any(each == path or each in path.parents or path in each.parents for each in paths)


@settings(max_examples=40, deadline=None)
@given(histories())
def test_undo_gives_back_the_earlier_tree_or_lists_what_it_leaves(
    history: list[tuple[str, list[Any]]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name, "work"), Path(name, "kept")
        for each in (folder, kept):
            each.mkdir()
        made(folder)
        store = Store(kept)
        runs: list[tuple[tuple[Effect, ...], dict[str, Any]]] = []
        others: set[Path] = set()  # what cells and other processes have changed
        for who, steps in history:
            before = untimed(tree(folder))
            ledger = Ledger(store, folder)
            with watched(ledger) if who == "run" else nullcontext():
                for step in steps:
                    carry_out(folder, step)
            after = untimed(tree(folder))
            if who == "run":
                runs.append((ledger.effects, before))
            else:
                others |= {folder / n for n in before | after if before.get(n) != after.get(n)}
        left: set[Path] = set()
        for effects, before in reversed(runs):
            now = untimed(tree(folder))
            found = undo(effects, store)
            left |= {Path(each.effect.target) for each in found if each.effect.before is not None}
            undone = untimed(tree(folder))
            own = {Path(each.target) for each in effects}
            for place in before | now | undone:
                if not is_at(place, own, folder):  # not of this run
                    assert undone.get(place) == now.get(place), place
                elif not is_at(place, left | others, folder):
                    assert undone.get(place) == before.get(place), place
        if not others:
            assert left == set()
            assert not runs or untimed(tree(folder)) == runs[0][1]


WORKER = """
    import os, pathlib, shutil, signal, sys
    from archytas_nb.effects.ledger import Ledger, undo, watched
    from archytas_nb.effects.states import Store

    folder, kept = map(pathlib.Path, sys.argv[1:3])
    events = 0

    def count(event, args):
        global events
        if event == "open" or event.startswith(("os.", "shutil.")):
            events += 1
            if events == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)

    store = Store(kept)
    shutil.copyfile  # imported
    sys.addaudithook(count)
    with watched(Ledger(store, folder)) as ledger:
        for name in ("a", "b"):
            part = folder / f"{name}.new"
            part.write_bytes(b"new " + name.encode() * 3_000)
            part.replace(folder / name)
        os.remove(folder / "c")
    undo(ledger.effects, store)
    print(events)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_kill_while_files_are_kept_or_put_back_loses_none(tmp_path: Path) -> None:
    steps = killed(tmp_path / "whole", 0)
    assert steps > 30
    for step in range(1, steps + 1, 3):
        killed(tmp_path / str(step), step)


def killed(place: Path, step: int) -> int:
    """Kill a process before one of its steps, and check the files; returns how many it made."""
    folder, kept = place / "work", place / "kept"
    for each in (folder, kept):
        each.mkdir(parents=True)
    old = {name: b"old " + name.encode() * 5_000 for name in ("a", "b", "c")}
    new = {name: b"new " + name.encode() * 3_000 for name in ("a", "b")}
    for name, content in old.items():
        (folder / name).write_bytes(content)
    command = [sys.executable, "-c", textwrap.dedent(WORKER), folder, kept, str(step)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if step else 0), done.stderr
    contents = [each.read_bytes() for each in kept.iterdir()]
    for name, content in old.items():
        path = folder / name
        now = path.read_bytes() if path.exists() else None
        assert now in (content, new.get(name))
        # What is not there any more is in the store, whole.
        assert now == content or content in contents
    return int(done.stdout or 0)
