"""A copy as a place for programs: what it reports, keeps and brings back, and how it ends."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from archytas_nb.copies import lock, place, prepared
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.lock import Level
from archytas_nb.copies.place import Copy, CopyError

linux = pytest.mark.skipif(lock.machine().kind != "locked", reason="needs a machine that can lock")


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    prepared.close()
    assert [
        each
        for each in psutil.Process().children(recursive=True)
        if "copies" in " ".join(each.cmdline())
    ] == []


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(params=["fork", _slow("message"), _slow("alone"), "guarded"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Copy]:
    """Makes copies in one of the ways that machines have."""
    way = request.param
    if way in ("fork", "message") and lock.machine().kind != "locked":
        pytest.skip("needs a machine that can lock")
    if way == "alone":
        monkeypatch.setattr(place, "CAN_FORK", False)

    def made(namespace: dict[str, Any], **options: Any) -> Copy:
        level = Level("guarded", ("a lock",)) if way in ("alone", "guarded") else None
        copy = Copy(namespace, folder=tmp_path, level=level, **options)
        if way in ("fork", "message"):
            monkeypatch.setattr(copy, "_ways", lambda: [(way, 20.0)])
        return copy

    return made


def test_reports_each_statement(make: Callable[..., Copy]) -> None:
    with make({"x": 20}) as copy:
        report = copy.run("y = x + 1\nprint('half')\ny * 2\nz = {}\nz['a'] = 1\n1 / 0\nnever = 1")
        assert [each.status for each in report.statements] == ["ok"] * 5 + ["failed", "not run"]
        assert report.statements[1].printed == "half\n"
        value = report.statements[2].value
        assert value is not None
        assert (value.text, value.object, value.is_data) == ("42", 42, True)
        error = report.statements[5].error
        assert error is not None
        assert (error.type, error.line, error.number) == ("ZeroDivisionError", "1 / 0", 6)
        assert report.bound == ("y", "z")
        assert report.ended is None
        # What succeeded is kept.
        assert copy.run("y + z['a']").statements[0].value.object == 22  # type: ignore[union-attr]


def test_brings_values_back_as_copies(make: Callable[..., Copy]) -> None:
    frame = pd.DataFrame({"g": list("aab"), "x": [1.0, 2.0, 4.0]})
    with make({"frame": frame}) as copy:
        copy.run("means = frame.groupby('g').x.mean()\nframe['x'] = 0\nf = lambda: 1")
        pd.testing.assert_series_equal(copy.value("means"), frame.groupby("g").x.mean())
        assert frame.x.tolist() == [1.0, 2.0, 4.0]
        with pytest.raises(CopyError, match="'f' cannot be brought back"):
            copy.value("f")
        with pytest.raises(CopyError, match="'nothing'"):
            copy.value("nothing")


def test_calls_tools_in_the_kernel(make: Callable[..., Copy]) -> None:
    called: list[Any] = []

    def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called.append((name, args, kwargs))
        if name == "fails":
            raise LookupError("not there")
        return {"sum": sum(args), **kwargs}

    with make({"add": sum}, call=call, tools=("add", "fails")) as copy:
        report = copy.run(
            "r = add(1, 2, of='x')\nr['sum']\ntry:\n    fails()\nexcept LookupError as e:\n    print(e)\nadd(lambda: 1)"
        )
        assert report.statements[1].value.object == 3  # type: ignore[union-attr]
        assert report.statements[2].printed == "not there\n"
        assert report.statements[3].error.type == "TypeError"  # type: ignore[union-attr]
        assert called == [("add", (1, 2), {"of": "x"}), ("fails", (), {})]


def test_a_copy_that_ended_is_made_again_and_calls_nothing_twice(make: Callable[..., Copy]) -> None:
    called: list[int] = []

    def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        called.append(args[0])
        return len(called)

    with make({}, call=call, tools=("count",)) as copy:
        copy.run("a = count(5)")
        report = copy.run("import os\nb = 2\nos._exit(3)\nc = 3")
        assert [each.status for each in report.statements] == ["ok", "ok", "failed", "not run"]
        assert report.ended == "exit"
        assert copy.run("(a, b, count(6))").statements[0].value.object == (1, 2, 2)  # type: ignore[union-attr]
        assert called == [5, 6]


@pytest.mark.parametrize(
    ("program", "ended"),
    [
        ("while True: pass", "time"),
        _slow("import time\nwhile True: time.sleep(1)", "time"),
        _slow("import os\nos._exit(0)", "exit"),
        ("import ctypes\nctypes.string_at(0)", "crash"),
        _slow("while True: print('x' * 10**6)", "output"),
        ("raise SystemExit", "exit"),
    ],
)
def test_a_program_that_does_not_end_is_ended(
    make: Callable[..., Copy], program: str, ended: str
) -> None:
    with make({}, limits=CopyLimits(seconds=1.5)) as copy:
        report = copy.run(program)
        assert report.ended == ended
        assert report.statements[-1].status == "failed"
        assert copy.run("1").statements[0].status == "ok"


def test_output_and_values_are_bounded(make: Callable[..., Copy]) -> None:
    limits = CopyLimits(printed=1000, text=100, value=10_000)
    with make({}, limits=limits) as copy:
        [printed, shown] = copy.run("print('x' * 10**6)\n'y' * 10**6").statements
        assert len(printed.printed) < 1100
        assert shown.value is not None
        assert len(shown.value.text) < 200
        assert not shown.value.is_data
        copy.run("big = bytes(10**6)")
        with pytest.raises(CopyError, match="too large"):
            copy.value("big")


@linux
@pytest.mark.parametrize(
    "program",
    [
        _slow("x = bytearray(3 * 10**9)"),
        _slow("x = [bytearray(10**7) for _ in range(300)]"),
        "a[:] = 1",
    ],
)
def test_memory_is_bounded(program: str, tmp_path: Path) -> None:
    # The third program writes to what it shares with the kernel, of which it then has its own.
    names = {"a": np.zeros(60_000_000)}
    names["a"][:] = 2
    with Copy(names, folder=tmp_path, limits=CopyLimits(memory=200 << 20)) as copy:
        copy._ways = lambda: [("fork", 1.0)]  # type: ignore[method-assign]
        report = copy.run(f"{program}\nimport time\ntime.sleep(2)")
        error = report.statements[0].error
        assert report.ended == "memory" or (error is not None and error.type == "MemoryError")
    assert names["a"][0] == 2


@linux
def test_a_fork_that_hangs_runs_again_by_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "_hung", set())
    monkeypatch.setattr(place.watch, "has_foreign_threads", lambda: False)
    held = threading.Lock()
    called: list[int] = []
    code = "n = note(1)\nimport logging\nwait()\n'done'"

    def wait() -> None:
        # In a fork nobody releases it; a message has another one.
        if os.getpid() != kernel:
            held.acquire()

    kernel = os.getpid()
    names = {"wait": wait}
    with Copy(
        names,
        folder=tmp_path,
        limits=CopyLimits(quiet=1),
        call=lambda *_: called.append(1),
        tools=("note",),
    ) as copy:
        begun = copy._begun
        tried: list[str] = []

        def only_a_fork_has_it(way: Any, allowed: Any) -> Any:
            tried.append(way)
            if way == "message":
                names["wait"] = print  # type: ignore[assignment]
            return begun(way, allowed)

        monkeypatch.setattr(copy, "_begun", only_a_fork_has_it)
        prepared.close()
        held.acquire()
        report = copy.run(code)
    assert tried == ["fork", "message"]
    assert (report.way, report.ended, report.statements[-1].status) == ("message", None, "ok")
    assert called == [1]


@linux
def test_a_copy_that_waits_is_not_taken_for_hung(tmp_path: Path) -> None:
    with Copy({}, folder=tmp_path, limits=CopyLimits(quiet=0.5)) as copy:
        copy._ways = lambda: [("fork", 1.0)]  # type: ignore[method-assign]
        report = copy.run("import time\ntime.sleep(1.5)\n1")
        assert report.ended is None


def test_an_interrupt_ends_the_copy(make: Callable[..., Copy], tmp_path: Path) -> None:
    stop = False
    copy = make({}, stopped=lambda: stop)
    copy.run("1")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        copy.run("while True: pass")
    timer.join()
    assert not copy._process.is_running  # type: ignore[union-attr]
    stop = True
    with pytest.raises(KeyboardInterrupt):
        copy.run("while True: pass")
    copy.close()
    with pytest.raises(CopyError, match="closed"):
        copy.run("1")


@pytest.mark.parametrize("effect", ["write", "start", _slow("connect"), _slow("delete")])
def test_names_what_a_program_tried(make: Callable[..., Copy], tmp_path: Path, effect: str) -> None:
    (tmp_path / "raw.csv").write_text("x")
    programs = {
        "write": ("open('{0}/new.csv', 'w')", "{0}/new.csv"),
        "start": ("import subprocess\nsubprocess.run(['rm', 'x'])", "rm"),
        "connect": ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "127.0.0.1"),
        "delete": ("import os\nos.remove('{0}/raw.csv')", "{0}/raw.csv"),
    }
    program, target = (text.format(tmp_path) for text in programs[effect])
    with make({}) as copy:
        report = copy.run(program)
    assert report.statements[-1].error.type == "PermissionError"  # type: ignore[union-attr]
    assert any(each.kind == effect and target in each.target for each in report.tried), report.tried
    assert (tmp_path / "raw.csv").read_text() == "x"
    assert not (tmp_path / "new.csv").exists()


def test_figures_come_back(make: Callable[..., Copy]) -> None:
    with make({}) as copy:
        report = copy.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert [each.status for each in report.statements] == ["ok"] * 3, report
    [figure] = report.figures
    assert figure.startswith(b"\x89PNG")


def test_reads_the_project_without_its_secrets(make: Callable[..., Copy], tmp_path: Path) -> None:
    for name in (
        "data.csv",
        "sub/more.csv",
        ".env",
        "sub/server.pem",
        "sub/credentials.json",
        "token.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    program = f"import os\nos.chdir({str(tmp_path)!r})\n" + "\n".join(
        f"try: print(open({name!r}).read())\nexcept PermissionError: print('no')"
        for name in (
            "data.csv",
            "sub/more.csv",
            "token.py",
            ".env",
            "sub/server.pem",
            "sub/credentials.json",
        )
    )
    with make({}) as copy:
        report = copy.run(program)
    printed = "".join(each.printed for each in report.statements)
    assert printed.split() == ["text"] * 3 + ["no"] * 3


@linux
def test_a_secret_that_is_made_later_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/data.txt").write_text("data")
    with Copy({"sub": str(tmp_path / "sub")}, folder=tmp_path) as copy:
        assert copy.run("open(sub + '/data.txt').read()").statements[0].value.object == "data"  # type: ignore[union-attr]
        for name in ("sub/.env", "credentials.json"):
            (tmp_path / name).write_text("secret")
            error = copy.run(f"open({str(tmp_path / name)!r}).read()").statements[0].error
            assert error is not None
            assert error.type == "PermissionError"


@linux
def test_a_large_project_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archytas_nb.copies import readable

    monkeypatch.setattr(readable, "MOST_ENTRIES", 30)
    monkeypatch.setattr(readable, "SMALL", 5)
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(20):
            (tmp_path / folder / f"{number}.txt").write_text(folder)
    with Copy({"root": str(tmp_path)}, folder=tmp_path) as copy:
        tried = "\n".join(
            f"try: print(open(root + '/{each}/0.txt').read())\nexcept OSError: print('no')"
            for each in "abc"
        )
        printed = "".join(each.printed for each in copy.run(tried).statements).split()
    assert printed.count("no") == 1


def test_what_cannot_be_sent_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "CAN_FORK", False)
    with Copy({"lock": threading.Lock()}, folder=tmp_path, level=Level("guarded")) as copy:
        with pytest.raises(CopyError, match=r"'lock' \(lock\) cannot be sent") as caught:
            copy.run("lock.locked()")
        assert "\n" not in str(caught.value)
        assert copy.run("1 + 1").statements[0].status == "ok"


@linux
def test_a_copy_goes_on_without_what_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thread pool runs in the kernel, so another copy by fork could hang.
    monkeypatch.setattr(place.watch, "has_foreign_threads", lambda: True)
    with Copy({"lock": threading.Lock()}, folder=tmp_path) as copy:
        copy.run("x = 1")
        with pytest.raises(CopyError, match=r"'lock' \(lock\) cannot be sent"):
            copy.run("lock.locked()")
        report = copy.run("x")
    assert (report.way, report.statements[0].value.object) == ("message", 1)  # type: ignore[union-attr]


@linux
def test_what_does_not_end_in_a_fork_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "_hung", set())
    monkeypatch.setattr(place.watch, "has_foreign_threads", lambda: False)
    kernel = os.getpid()
    names = {
        "lock": threading.Lock(),
        "hang": lambda pid: (
            os.getppid() == pid and threading.Lock().acquire() and threading.Event().wait()
        ),
    }
    with Copy(names, folder=tmp_path, limits=CopyLimits(quiet=0.5)) as copy:
        copy._kept.append(f"hang({kernel})")
        with pytest.raises(CopyError, match="what had run does not end") as caught:
            copy.run("lock.locked()")
    assert "\n" not in str(caught.value)


def _used() -> tuple[int, int, int, set[str]]:
    gc.collect()
    folders = {
        each.name
        for each in Path(place.scratch.tempfile.gettempdir()).glob(f"archytas-copy-{os.getpid()}-*")
    }
    return (
        len(list(Path("/proc/self/fd").iterdir())),
        len(psutil.Process().children(recursive=True)),
        threading.active_count(),
        folders,
    )


@linux
@pytest.mark.parametrize("way", ["fork", "message"])
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_many_copies_leave_nothing(way: str, count: int, tmp_path: Path) -> None:
    def once(number: int) -> None:
        with Copy({"n": number}, folder=tmp_path) as copy:
            copy._ways = lambda: [(way, 20.0)]  # type: ignore[method-assign, list-item, misc]
            ending = ["n", "import os; os._exit(1)", "1 / 0"][number % 3]
            copy.run(ending)

    once(0)
    before = _used()
    for number in range(count):
        once(number)
    assert _used() == before


_KERNEL = """
import os, pathlib, sys, threading, time
from archytas_nb.copies.place import Copy
def live():
    copy = Copy({}, folder=pathlib.Path.cwd())
    copy._ways = lambda: [(sys.argv[1], 20.0)]
    pid = copy.run("import os\\nos.getpid()").statements[-1].value.object
    print(pid, flush=True)
    copy.run(sys.argv[2])
if sys.argv[3] == "thread":
    threading.Thread(target=live).start()
else:
    live()
"""


@linux
@pytest.mark.parametrize(
    ("way", "thread", "program"),
    [
        pytest.param(*each, marks=() if number in (0, 7) else pytest.mark.slow)
        for number, each in enumerate(
            itertools.product(
                ("fork", "message"),
                ("main", "thread"),
                (
                    "while True: pass",
                    "import time\ntime.sleep(60)",
                    "import ctypes\nctypes.PyDLL(None).sleep(60)",
                ),
            )
        )
    ],
)
def test_no_copy_outlives_a_kernel_that_is_killed(
    way: str, thread: str, program: str, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-c", _KERNEL, way, program, thread]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=tmp_path, text=True) as kernel:
        assert kernel.stdout is not None
        copy = psutil.Process(int(kernel.stdout.readline()))
        others = psutil.Process(kernel.pid).children(recursive=True)
        kernel.kill()
    assert psutil.wait_procs([copy, *others], timeout=30)[1] == []


@linux
def test_a_copy_in_a_thread_lives_on_when_the_thread_has_ended(tmp_path: Path) -> None:
    made: list[Copy] = []

    def make() -> None:
        made.append(Copy({}, folder=tmp_path))
        made[0]._ways = lambda: [("fork", 1.0)]  # type: ignore[method-assign]
        made[0].run("x = 1")

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    time.sleep(0.1)
    with made[0] as copy:
        assert copy.run("x").statements[0].value.object == 1  # type: ignore[union-attr]


def test_copies_in_several_threads_are_apart(make: Callable[..., Copy]) -> None:
    results: dict[int, Any] = {}

    def run(number: int) -> None:
        with make({"n": number}) as copy:
            copy.run("m = n * 2")
            results[number] = copy.value("m")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {0: 0, 1: 2, 2: 4, 3: 6}


@linux
@pytest.mark.parametrize("way", ["fork", "message"])
def test_a_copy_that_is_forgotten_ends(way: str, tmp_path: Path) -> None:
    with Copy({}, folder=tmp_path) as first:
        first._ways = lambda: [(way, 20.0)]  # type: ignore[method-assign, list-item, misc]
        first.run("1")
    before = _used()
    copy = Copy({}, folder=tmp_path)
    copy._ways = lambda: [(way, 20.0)]  # type: ignore[method-assign, list-item, misc]
    copy.run("1")
    del copy
    assert _used() == before


@pytest.mark.parametrize("way", ["fork", "message"])
@linux
def test_a_program_that_ends_leaves_no_folder_of_its_copies(way: str, tmp_path: Path) -> None:
    code = (
        "import pathlib, tempfile\nfrom archytas_nb.copies.place import Copy\n"
        f"tempfile.tempdir = {str(tmp_path)!r}\ncopy = Copy({{}}, folder=pathlib.Path.cwd())\n"
        f"copy._ways = lambda: [({way!r}, 20.0)]\nprint(copy.run('1').statements[0].status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert (done.stdout, done.stderr, list(tmp_path.iterdir())) == ("ok\n", "", [])


def test_scratch_folders_of_killed_kernels_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.scratch.tempfile, "tempdir", str(tmp_path))
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    )
    stale, mine = (
        tmp_path / f"archytas-copy-{dead.stdout.strip()}-x",
        tmp_path / f"archytas-copy-{os.getpid()}-y",
    )
    deep = stale
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    mine.mkdir()
    place.scratch.sweep()
    assert (stale.exists(), mine.exists()) == (False, True)


def test_says_what_the_machine_can_lock() -> None:
    assert lock.lines()[0].startswith(lock.machine().kind)
    assert lock.machine(0).kind == "guarded"
    assert "Landlock" in lock.machine(0).missing[0]
