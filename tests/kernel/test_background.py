"""Async tools of one reply run at the same time, each to one outcome, and none runs on in silence."""

import asyncio
import contextvars
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from archytas_nb.kernel import background
from tests.kernel.tools import run_all, run_one, text_of


@pytest.fixture
def interrupt_soon() -> Iterator[None]:
    timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    yield
    timer.join()


class Sleeper:
    """An async tool that sleeps, and remembers how that ended."""

    def __init__(self, seconds: float = 30) -> None:
        self.seconds = seconds
        self.started = threading.Event()
        self.ended = ""

    async def __call__(self) -> str:
        """Sleep on the loop."""
        self.started.set()
        try:
            await asyncio.sleep(self.seconds)
            self.ended = "slept"
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # cleaning up takes a while
            self.ended = "cancelled"
            raise
        return "slept"


def meeting(parties: int) -> Callable[[], object]:
    """A tool that ends only when so many run at the same time."""
    here: list[asyncio.Event] = []

    async def meet() -> str:
        mine = asyncio.Event()
        here.append(mine)
        if len(here) == parties:
            for each in here:
                each.set()
        await mine.wait()
        return "met"

    return meet


def test_consecutive_async_calls_run_concurrently_and_keep_their_order() -> None:
    meet = meeting(3)
    outcomes = run_all({"a": meet, "b": meet, "c": meet}, timeout=20)
    assert [(each.status, each.value) for each in outcomes] == [("done", "met")] * 3


def test_a_sync_tool_between_async_ones_runs_alone() -> None:
    order: list[str] = []

    def step(name: str) -> Callable[[], object]:
        async def work() -> None:
            order.append(f"{name} begins")
            await asyncio.sleep(0.02)
            order.append(f"{name} ends")

        return work

    def sync() -> None:
        order.append("sync")

    run_all({"a": step("a"), "b": step("b"), "s": sync, "c": step("c")})
    assert order[:2] == ["a begins", "b begins"]
    assert sorted(order[2:4]) == ["a ends", "b ends"]
    assert order[4:] == ["sync", "c begins", "c ends"]


def test_a_failing_call_does_not_affect_the_others() -> None:
    async def fail() -> None:
        raise SystemExit("leave")

    async def work() -> int:
        await asyncio.sleep(0.05)
        return 1

    failed, worked = run_all({"fail": fail, "work": work})
    assert (failed.status, worked.status, worked.value) == ("error", "done", 1)
    assert run_one(work).value == 1


@pytest.mark.usefixtures("interrupt_soon")
def test_an_interrupt_cancels_and_awaits_all_calls_and_keeps_finished_results() -> None:
    first, second = Sleeper(), Sleeper()

    async def quick() -> str:
        return "quick"

    outcomes = run_all({"first": first, "quick": quick, "second": second, "behind": Sleeper()})
    assert [each.status for each in outcomes] == [
        "interrupted",
        "done",
        "interrupted",
        "interrupted",
    ]
    assert (first.ended, second.ended) == ("cancelled", "cancelled")
    assert "still running" not in outcomes[0].text


def test_each_call_is_stopped_at_its_timeout_and_awaited() -> None:
    sleeper = Sleeper()
    late, quick = run_all({"late": sleeper, "quick": Sleeper(0.01)}, timeout=0.2)
    assert "stopped after 0.2 s, which is this tool's timeout" in late.text
    assert (quick.status, sleeper.ended) == ("done", "cancelled")


def test_a_timeout_error_of_the_tool_is_its_own() -> None:
    async def own() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)

    outcome = run_one(own, timeout=20)
    assert outcome.text.startswith("TimeoutError")


def test_a_call_that_swallows_its_timeout_is_an_error() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    outcome = run_one(stubborn, timeout=0.1)
    assert outcome.status == "error"
    assert "and finished" in outcome.text


def test_a_call_that_blocks_the_loop_is_reported_and_the_next_gets_another_loop() -> None:
    release = threading.Event()

    async def block() -> None:
        release.wait(60)

    async def work() -> str:
        return "worked"

    try:
        outcome = run_one(block, timeout=0.1)
        assert outcome.status == "error"
        assert "is still running" in outcome.text
        assert run_one(work).value == "worked"
    finally:
        release.set()


def test_a_call_that_waits_for_a_blocked_loop_never_runs() -> None:
    release, ran = threading.Event(), threading.Event()

    async def block() -> None:
        release.wait(60)

    async def note() -> None:
        ran.set()

    outcomes = run_all({"block": block, "note": note}, timeout=0.1)
    release.set()
    assert [each.status for each in outcomes] == ["error", "error"]
    assert not ran.wait(0.5)


@pytest.mark.usefixtures("interrupt_soon")
def test_a_call_that_blocks_the_loop_does_not_delay_an_interrupt() -> None:
    release = threading.Event()

    async def block() -> None:
        release.wait(60)

    try:
        outcome = run_one(block)
        assert outcome.status == "interrupted"
        assert "still running" in outcome.text
    finally:
        release.set()


def test_a_leftover_task_cannot_end_the_loop() -> None:
    async def leave() -> None:
        async def bad() -> None:
            raise SystemExit

        asyncio.get_running_loop().call_soon(lambda: (_ for _ in ()).throw(SystemExit))
        leave.task = asyncio.create_task(bad())  # type: ignore[attr-defined]
        await asyncio.sleep(0.02)

    async def work() -> str:
        return "worked"

    run_one(leave)
    assert run_one(work, timeout=20).value == "worked"


def test_a_tool_sees_the_context_variables_of_the_cell() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("cell")

    async def read() -> str:
        return variable.get()

    variable.set("this cell")
    assert run_one(read).value == "this cell"


def test_output_of_tasks_and_worker_threads_belongs_to_its_call() -> None:
    def talker(name: str) -> Callable[[], object]:
        async def talk() -> None:
            for n in range(5):
                print(name, n)
                await asyncio.sleep(0.001)
            await asyncio.create_task(asyncio.to_thread(print, f"{name} in a thread"))

        return talk

    outcomes = run_all({name: talker(name) for name in ("a", "b", "c")})
    for name, outcome in zip("abc", outcomes, strict=True):
        expected = "".join(f"{name} {n}\n" for n in range(5)) + f"{name} in a thread\n"
        assert text_of(outcome.outputs) == expected
        assert outcome.text.endswith(expected.strip())


def test_output_that_cannot_be_assigned_is_added_to_the_last_call() -> None:
    async def threads() -> None:
        thread = threading.Thread(target=print, args=("from a thread",))
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.001)

    async def quiet() -> None:
        await asyncio.sleep(0.01)

    first, last = run_all({"threads": threads, "quiet": quiet})
    assert first.outputs == ()
    assert "Shown while these 2 calls ran, by one of them:\nfrom a thread" in last.text
    assert run_one(threads).text == "from a thread"


def test_the_time_of_the_run_limits_all_async_calls() -> None:
    started = time.monotonic()
    outcomes = run_all({"a": Sleeper(), "b": Sleeper()}, seconds=0.2)
    assert all("what was left of this run's time" in each.text for each in outcomes)
    assert time.monotonic() - started < 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX systems only")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_async_tools_run_in_a_forked_child() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "late"

    assert run_one(later).text == "late"  # the loop's thread runs in the parent
    with background._lock:  # and its lock may be held by any thread of it
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # whoever hangs is ended
            os._exit(0 if run_one(later).text == "late" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run_one(later).text == "late"
