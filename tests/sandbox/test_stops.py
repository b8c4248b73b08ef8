"""Programs that are interrupted, whose worker is lost, or that reach a bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random

import psutil
import pytest

from archytas_nb.loop.events import ProgramEnded, ProgramWaits
from archytas_nb.sandbox import pool
from archytas_nb.sandbox.session import Bounds
from tests.sandbox.programs import Programs, uncheck

TEN_CALLS = (
    "found = {}\nfor n in range(10):\n    found[n] = price('a' * n)\nlast = price('end')\nshow()"
)


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.session.close()


def worker(programs: Programs) -> int:
    [pid] = programs.session._interpreter.workers
    return pid


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.005)


@pytest.mark.parametrize("at", range(11))
def test_a_worker_that_is_killed_at_a_call_costs_the_rest_of_the_program(
    programs: Programs, at: int
) -> None:
    reply = programs.session.run(TEN_CALLS)
    for _ in range(at):
        assert isinstance(reply, ProgramWaits)
        reply = programs.session.resume([programs.call(each) for each in reply.calls])
    assert isinstance(reply, ProgramWaits)
    killed(worker(programs))
    ended = programs.session.resume([programs.call(each) for each in reply.calls])
    assert isinstance(ended, ProgramEnded)
    assert ended.lost
    assert not ended.interrupted
    assert programs.run("(len(found), n)").shown == (f"({at}, {min(at, 9)})",)


def test_a_worker_that_is_killed_between_programs_costs_nothing(programs: Programs) -> None:
    programs.run('a = price("ab")')
    killed(worker(programs))
    assert programs.run("a").shown == ("3.0",)
    killed(worker(programs))
    programs.next_question()
    assert programs.run("a").shown == ("3.0",)


def test_a_program_that_is_stopped_at_a_call_keeps_what_it_assigned(programs: Programs) -> None:
    reply = programs.session.run('a = price("ab")\nb = price("abc")\nshow()')
    assert isinstance(reply, ProgramWaits)
    reply = programs.session.resume([programs.call(each) for each in reply.calls])
    ended = programs.session.stop()
    assert (ended.interrupted, ended.error, ended.lost) == (True, None, "")
    assert ended.assigned_texts == {"a": "3.0"}
    assert programs.run("a").shown == ("3.0",)


def test_a_session_that_is_stopped_while_nothing_runs_stays_as_it_is(programs: Programs) -> None:
    programs.run("a = 1")
    assert programs.session.stop().interrupted
    assert programs.run("a").shown == ("1",)


def test_a_program_can_be_stopped_from_another_thread_while_it_computes(programs: Programs) -> None:
    programs.run("a = 1")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(programs.session.run, "a = 2\nwhile True:\n    pass\nshow()")
        time.sleep(0.3)
        programs.session.stop()
        running.exception(timeout=10)
    assert programs.run("a").shown == ("1",)


INTERRUPTED = """
import os, signal, threading, time
from archytas_nb.sandbox.session import Session
from archytas_nb.loop.events import ProgramWaits
from tests.sandbox.programs import TOOLS, Programs

programs = Programs()
programs.run("a = 1")
sent = []

def interrupt():
    time.sleep(0.5)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

reply = programs.session.run("b = price('ab')\\nwhile True:\\n    pass\\nshow()")
threading.Thread(target=interrupt).start()
try:
    programs.session.resume([programs.call(each) for each in reply.calls])
except KeyboardInterrupt:
    raised = time.monotonic() - sent[0]
    ended = programs.session.stop()
    stopped = time.monotonic() - sent[0]
assert ended.interrupted and not ended.error and not ended.lost, ended
assert ended.assigned_texts == {"b": "3.0"}, ended
assert programs.run("(a, b)").shown == ("(1, 3.0)",)
programs.session.close()
print(f"raised after {raised:.3f} s, stopped after {stopped:.3f} s")
"""


def test_an_interrupt_ends_a_program_that_computes_and_keeps_what_its_calls_gave() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_program_that_is_stopped_before_its_thread_begins_is_never_run(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.run("a = 1")
    late: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        late.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            programs.session.run("a = 2\nshow()")
    assert programs.session.stop().interrupted
    late[0].start()
    late[0].join()
    assert programs.run("a").shown == ("1",)


AT_ANY_MOMENT = """
import os, random, signal, sys, threading, time
from archytas_nb.loop.events import ProgramEnded, ProgramWaits
from tests.sandbox.programs import Programs

random.seed(5)
programs = Programs()
programs.run("base = 1")
text = "a = price('ab')\\nb = []\\nfor n in range(3):\\n    b.append(price('x'))\\nsum(range(20000))"
stops = []
for attempt in range(int(sys.argv[1])):
    is_over = threading.Event()

    def interrupt(delay=random.random() * 0.05):
        if not is_over.wait(delay):
            os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    try:
        interrupting.start()
        reply = programs.session.run(text)
        while isinstance(reply, ProgramWaits):
            reply = programs.session.resume([programs.call(each) for each in reply.calls])
        is_over.set()
        interrupting.join()
    except KeyboardInterrupt:
        started = time.monotonic()
        ended = programs.session.stop()
        stops.append(time.monotonic() - started)
        assert isinstance(ended, ProgramEnded) and ended.interrupted and not ended.lost, ended
        assert "b" not in ended.assigned or ended.assigned_texts["a"] == "3.0", ended
    assert programs.run("base").shown == ("1",)
programs.session.close()
print(f"{len(stops)} interrupts, stopped after at most {max(stops):.3f} s")
assert stops
"""


@pytest.mark.parametrize("attempts", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_an_interrupt_at_any_moment_leaves_a_session_that_can_be_used(attempts: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ANY_MOMENT, str(attempts)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("attempts", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_at_any_moment_costs_at_most_its_program(
    programs: Programs, attempts: int
) -> None:
    random = Random(7)
    programs.run("base = 1")
    text = "a = price('ab')\nb = []\nfor n in range(20):\n    b.append(price('x'))\nshow()"
    all_of_them = {"a": "3.0", "b": str([1.5] * 20), "n": "19"}
    started = time.monotonic()
    programs.run(text)
    whole = time.monotonic() - started
    lost = 0
    for _ in range(attempts):

        def kill(delay: float = random.random() * whole) -> None:
            time.sleep(delay)
            for pid in programs.session._interpreter.workers:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        ended = programs.run(text)
        killing.join()
        lost += bool(ended.lost)
        assert ended.error is None
        assert ended.lost or ended.assigned_texts == all_of_them
        assert programs.run("base").shown == ("1",)
    print(f"{lost} programs lost of {attempts}")


def test_variables_that_are_too_large_to_be_kept_cost_only_themselves(programs: Programs) -> None:
    programs.run("kept = 1")
    ended = programs.run("a = price('ab')\nb = 'a' * 60_000_000")
    assert "too large" in ended.lost
    assert ended.assigned_texts == {"a": "3.0"}
    programs.next_question()
    assert programs.run("(kept, a)").shown == ("(1, 3.0)",)


def test_a_large_variable_is_kept(programs: Programs) -> None:
    ended = programs.run("xs = list(range(10 ** 6))\nfor n in range(5):\n    y = price('a')")
    assert ended.assigned_texts["xs"].startswith("[0, 1, 2")
    programs.next_question()
    assert programs.run("(len(xs), xs[-1], y)").shown == ("(1000000, 999999, 1.5)",)


def test_sessions_of_several_threads_do_not_meet() -> None:
    def count(start: int) -> tuple[str, ...]:
        programs = Programs()
        for n in range(3):
            programs.run(
                f"found = [{start}] if {n} == 0 else found\nfound.append(price('a' * {n}))"
            )
        shown = programs.run("found").shown
        programs.session.close()
        return shown

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(count, range(6)))
    expected = [[start, *(n * 1.5 for n in range(3))] for start in range(6)]
    assert found == [(str(each),) for each in expected]


FORKED = """
import os, sys, threading
from archytas_nb.errors import ConfigurationError
from tests.sandbox.programs import Programs

is_used = sys.argv[1] == "used"
if is_used:
    parent = Programs()
    parent.run("a = 1")
child = os.fork()
if child == 0:
    try:
        made = Programs()
        print(made.run("1 + 1").shown, flush=True)
        made.session.close()
    except ConfigurationError as error:
        print("spawn" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
if is_used:
    print(parent.run("a").shown)
    parent.session.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.parametrize(("use", "said"), [("unused", "('2',)\n"), ("used", "True\n('1',)\n")])
def test_a_forked_process_runs_programs_or_says_why_it_cannot(use: str, said: str) -> None:
    done = subprocess.run(
        # Python 3.12 and later warn of each fork of a process that has threads.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, use],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (said, "")


EXIT = """
from archytas_nb.sandbox.session import Session
from tests.sandbox.programs import Programs
import psutil
programs = Programs()
programs.session.run("price('a')")
print(*[each.pid for each in psutil.Process().children(recursive=True)])
"""


def test_no_worker_is_left_when_a_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXIT], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    pids = [int(each) for each in done.stdout.split()]
    assert pids
    psutil.wait_procs([psutil.Process(each) for each in pids if psutil.pid_exists(each)], timeout=5)
    assert not any(psutil.pid_exists(each) for each in pids)


def test_the_package_does_not_load_the_sandbox_until_a_program_runs() -> None:
    text = (
        "import sys, archytas_nb, archytas_nb.driver\n"
        "from archytas_nb.sandbox.pool import is_available\n"
        "assert is_available()\n"
        "assert not any(each.startswith('pydantic_monty') for each in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", text], timeout=60, check=True)


def test_without_the_sandbox_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archytas_nb.errors import ConfigurationError

    monkeypatch.setattr(pool, "_pool", None)
    monkeypatch.setattr(pool, "_binary", lambda: "")
    assert not pool.is_available()
    with pytest.raises(ConfigurationError, match=r"pip install pydantic-monty.*protocol='react'"):
        Programs()


def test_without_the_sandbox_the_embedded_model_makes_one_call_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archytas_nb.agent import Agent
    from archytas_nb.models.embedded.model import EmbeddedModel

    setup = Agent([], EmbeddedModel())._setup.now()
    assert setup.protocol(setup.choice.choose()) == "program"
    monkeypatch.setattr(pool, "_binary", lambda: "")
    assert setup.protocol(setup.choice.choose()) == "react"


def test_a_closed_session_uses_no_worker(programs: Programs) -> None:
    programs.run("a = 1")
    assert programs.session._interpreter.workers
    programs.session.close()
    assert not programs.session._interpreter.workers


BOMBS = {
    "loop": "while True:\n    pass",
    "power": "9 ** 9 ** 9",
    "nested power": "x = 10\nwhile True:\n    x = x ** x",
    "shift": "1 << 10 ** 10",
    "text": "'a' * 10 ** 10",
    "doubled text": "s = 'a'\nwhile True:\n    s += s",
    "bytes": "b'a' * 10 ** 10",
    "list": "[0] * 10 ** 10",
    "doubled list": "x = [0]\nwhile True:\n    x += x",
    "comprehension": "[[n for n in range(10 ** 6)] for m in range(10 ** 6)]",
    "sum": "sum(n for n in range(10 ** 12))",
    "dict": "{n: str(n) * 100 for n in range(10 ** 9)}",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "two functions": "def f():\n    return g()\ndef g():\n    return f()\nf()",
    "nested list": "x = []\nfor n in range(10 ** 7):\n    x = [x]\nx == x",
    "join": "','.join(['a' * 10 ** 6] * 10 ** 6)",
    "format": "f'{1:10000000000}'",
    "replace": "('a' * 10 ** 6).replace('a', 'b' * 10 ** 6)",
    "print": "while True:\n    print('a' * 10 ** 5)",
    "show": "while True:\n    show('a')",
    "sorted": "sorted(range(10 ** 9))",
    "lookups": "while True:\n    try:\n        missing\n    except NameError:\n        pass",
    "caught": "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
}  # fmt: skip


SAMPLE = {"loop", "power", "list", "recursion", "nested list", "join", "print", "show", "caught"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in SAMPLE else pytest.mark.slow) for each in BOMBS]
)
def test_a_program_that_asks_for_too_much_ends_with_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(bounds=Bounds(seconds=0.3, calls=200))
    programs.run("kept = 1")
    biggest = 0
    is_over = threading.Event()

    def watch() -> None:
        nonlocal biggest
        while not is_over.wait(0.02):
            for pid in programs.session._interpreter.workers:
                try:
                    biggest = max(biggest, psutil.Process(pid).memory_info().rss)
                except psutil.Error:
                    continue

    watching = threading.Thread(target=watch)
    watching.start()
    started = time.monotonic()
    with monkeypatch.context() as patch:
        uncheck(patch)
        ended = programs.run(BOMBS[name])
    seconds = time.monotonic() - started
    is_over.set()
    watching.join()
    what = ended.error.text if ended.error is not None else ended.lost
    print(f"{name}: {seconds:.2f} s, {biggest / 1e6:.0f} MB, {what}")
    assert what
    assert biggest < 200e6
    assert programs.run("kept").shown == ("1",)
    programs.session.close()
