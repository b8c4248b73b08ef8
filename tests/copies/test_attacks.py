"""No way out of a copy: attacks by the hundred, and every system call that is not allowed."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.copies import landlock, lock, seccomp
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.place import Copy, CopyError, CopyReport
from tests.copies import attacks
from tests.copies.world import CANARY, World, differences

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or lock.machine().kind != "locked" or platform.machine() != "x86_64",
    reason="needs a machine that can lock; the numbers of system calls are those of x86-64",
)

_SCRATCH = """
import tempfile
SCRATCH = tempfile.gettempdir(); SCRATCH_FILE = SCRATCH + '/file'
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def _said(report: CopyReport) -> str:
    return "".join(f"{each.printed}{each.value}{each.error}" for each in report.statements)


class _Attacker:
    """A copy in which one attack after the other is tried; a new one if it ends."""

    def __init__(self, world: World, level: lock.Level, way: str | None = None) -> None:
        self.world = world
        self._level = level
        self._way = way
        self._copy: Copy | None = None

    def attack(self, code: str) -> str:
        """The copy's report."""
        if self._copy is None:
            self._copy = Copy(
                self.world.names,
                folder=self.world.project,
                level=self._level,
                limits=CopyLimits(seconds=5, quiet=1, memory=1 << 30),
            )
            if self._way is not None:
                self._copy._ways = lambda: [(self._way, 20.0)]  # type: ignore[method-assign, list-item, misc]
            begun = self._copy.run(attacks.PRELUDE + _SCRATCH)
            assert all(each.status == "ok" for each in begun.statements), begun
        try:
            report = self._copy.run(code)
        except CopyError as error:
            self.close()
            return str(error)
        # What it leaves is not run again after the next one.
        if report.ended is not None or report.statements[0].status != "failed":
            self.close()
        return _said(report)

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
        self._copy = None


def _found(world: World, tried: dict[str, str], attacker: _Attacker) -> list[str]:
    """Each attack that had an effect or read a secret."""
    found = []
    before = world.state()
    for name, code in tried.items():
        said = attacker.attack(code)
        after = world.state()
        found += [f"{name}: {each}" for each in differences(before, after)]
        found += [f"{name} reads a secret: {said!r}"] * (CANARY in said)
        before = after
    attacker.close()
    found += [f"at the end: {each}" for each in differences(before, world.state())]
    return found


def _some(tried: dict[str, str], nth: int) -> dict[str, str]:
    return dict(list(tried.items())[::nth])


@pytest.mark.parametrize(
    "effect",
    [
        "import pathlib; pathlib.Path(RAW).write_text('x')", "import os; os.chmod(RAW, 0o777)", "import os; os.utime(RAW)", "import os; os.mkdir(PROJECT + '/attack')",
        "import os, signal; os.kill(KERNEL, signal.SIGUSR1)", "import os; os.setpriority(0, VICTIM, 19)", "MAP[0:4] = b'evil'; MAP.flush()",
        "SHARED[0:4] = b'evil'", "SOCKET.send(b'x')", "import socket; socket.create_connection(('127.0.0.1', TCP_PORT)).close()", "VALUE.value = 9",
        "import os; os.read(PIPE[0], 4)", "SOCKET.recv(1)", "READING.seek(0, 2)", "DB.rollback()", "SHM.buf[0] = 9", "import os; os.eventfd_write(EVENTFD, 1)",
        "import socket; s = socket.socket(1, 2); s.sendto(b'x', UNIX_DATAGRAM); s.close()", "OBJECT.append(1)", "import os; os.pwrite(MEMFD, b'evil', 0)",
    ],
)  # fmt: skip
def test_the_world_shows_an_effect(world: World, effect: str) -> None:
    before = world.state()
    assert differences(before, world.state()) == []
    # Here nothing is locked.
    exec(effect, dict(world.names))
    assert differences(before, world.state()) != []


def test_there_are_many_ways() -> None:
    assert attacks.ways() >= 150


def test_a_sample_of_attacks_has_no_effect(world: World) -> None:
    tried = _some(attacks.attacks(), 20) | _some(attacks.INHERITED, 4)
    assert _found(world, tried, _Attacker(world, lock.machine(), "fork")) == []


@pytest.mark.slow
@pytest.mark.parametrize("abi", range(1, landlock.NEWEST + 1))
def test_no_attack_has_an_effect_with_any_version_of_landlock(world: World, abi: int) -> None:
    level = lock.machine(abi)
    assert level.abi == min(abi, landlock.abi())
    tried = attacks.attacks() | {f"inherited {n}": code for n, code in attacks.INHERITED.items()}
    assert _found(world, tried, _Attacker(world, level, "fork")) == []


@pytest.mark.slow
def test_no_attack_has_an_effect_in_a_copy_by_message(world: World) -> None:
    names = {n: v for n, v in world.names.items() if isinstance(v, str | int)}
    world.names, kept = names, world.names
    attacker = _Attacker(world, lock.machine(), "message")
    tried = attacks.attacks()
    first = attacker.attack("1")
    assert first
    world.names = kept
    attacker.world = type("Names", (), {"names": names, "project": world.project})()  # type: ignore[assignment]
    assert _found(world, tried, attacker) == []


def test_every_other_system_call_is_refused(tmp_path: Path) -> None:
    allowed = {0: "allowed"}
    for table in (seccomp._ALLOWED, seccomp._BY_ARGUMENT, seccomp._PRETENDED):
        allowed |= {number: name for name, number in seccomp._numbers(table, 0).items()}
    # Two are for probes of the kernel alone: they pass all filters, and end a process that makes them.
    numbers = [n for n in range(700) if n not in allowed and n not in (335, 336)]
    code = f"[(n, *S(n, -1, -1, -1)) for n in {numbers}]"
    with Copy({}, folder=tmp_path) as copy:
        copy.run(attacks.PRELUDE)
        [statement] = copy.run(code).statements
    assert statement.value is not None
    results: list[tuple[int, int, int]] = statement.value.object
    assert len(results) > 300
    assert {(result, code) for _, result, code in results} <= {(-1, 1), (-1, 38)}


def test_a_second_thread_is_locked_as_well(world: World) -> None:
    names: dict[str, Any] = {"path": str(world.names["RAW"])}
    code = """
import threading
errors = []
def write():
    try: open(path, 'w')
    except OSError as error: errors.append(error.errno)
threads = [threading.Thread(target=write) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
errors
"""
    with Copy(names, folder=world.project) as copy:
        value = copy.run(code).statements[-1].value
    assert value is not None
    assert value.object == [13, 13, 13, 13]
