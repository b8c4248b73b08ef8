"""Limits and interrupts reach the tool that runs, and leave handlers and timers as they were."""

from __future__ import annotations

import contextlib
import ctypes
import math
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from archytas_nb.errors import ToolTimeout
from archytas_nb.interrupts import ThreadTimer, defer_interrupts, guard_calls
from archytas_nb.loop.events import CallOutcome
from tests.kernel.tools import run_one
from tests.scripted import Scripted

# ── interrupts and limits of calls ─────────────────────────────────────────────────────────────────


def sleep() -> str:
    time.sleep(30)
    return "slept"


def spin() -> str:
    while True:
        pass


def stubborn() -> str:
    for _ in range(2):
        try:
            time.sleep(30)
        except BaseException:
            continue
    return "went on"


def brief() -> None:
    time.sleep(0.001)


def off_main(function: Callable[[], Any]) -> Any:
    """The result of a function on another thread."""
    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(function()))
    thread.start()
    thread.join(60)
    return box[0]


@pytest.fixture(autouse=True)
def handlers_and_timers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]
    yield
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_stops_a_tool_in_its_own_line() -> None:
    for function in (sleep, spin):
        outcome = run_one(function, timeout=0.1)
        assert outcome.status == "error"
        assert "ToolTimeout: stopped after 0.1 s, which is this tool's timeout" in outcome.text
        assert f"in {function.__name__}" in outcome.text


def test_a_tool_that_catches_every_exception_does_not_catch_its_limit() -> None:
    def careful() -> str:
        while True:
            try:
                time.sleep(30)
            except Exception:
                continue

    assert "stopped after 0.1 s" in run_one(careful, timeout=0.1).text


def test_a_limit_that_is_swallowed_is_raised_again_and_the_call_is_an_error() -> None:
    outcome = run_one(stubborn, timeout=0.1)
    assert (outcome.status, outcome.value) == ("error", None)
    assert "ignored the limit of 0.1 s, which is this tool's timeout, and finished" in outcome.text


@pytest.mark.parametrize("seconds", [1e12, math.inf])
def test_a_limit_too_long_for_a_timer_is_ignored(seconds: float) -> None:
    assert run_one(brief, timeout=seconds).status == "done"
    outcome: CallOutcome = off_main(lambda: run_one(brief, timeout=seconds))
    assert outcome.status == "done"


def test_off_the_main_thread_a_limit_stops_python_code() -> None:
    outcome: CallOutcome = off_main(lambda: run_one(spin, timeout=0.1))
    assert "stopped after 0.1 s, which is this tool's timeout" in outcome.text


def test_off_the_main_thread_code_in_c_finishes_first_and_the_outcome_says_so() -> None:
    ended = threading.Event()

    def nap() -> str:
        try:
            time.sleep(2)
        finally:
            ended.set()
        return "napped"

    outcome: CallOutcome = off_main(lambda: run_one(nap, timeout=0.1))
    assert ended.is_set()
    assert outcome.status == "error"
    assert (
        "ignored the limit of 0.1 s, which is this tool's timeout, and stopped only after 2"
        in outcome.text
    )


@pytest.mark.parametrize("on_main", [True, False])
def test_nothing_is_raised_after_the_tool_ended(on_main: bool) -> None:
    def work() -> set[str]:
        return {run_one(brief, timeout=0.0013).status for _ in range(100)}

    assert (work() if on_main else off_main(work)) <= {"done", "error"}


def test_a_timer_of_the_user_continues() -> None:
    fired = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: fired.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        assert run_one(sleep, timeout=0.1).status == "error"
        assert not fired.is_set()
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.45
        time.sleep(0.6)
        assert fired.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_time_of_a_run_limits_a_tool_without_its_own_limit() -> None:
    outcome = run_one(sleep, seconds=0.1)
    assert "which is what was left of this run's time" in outcome.text
    assert "0.1 s, which is this tool's timeout" in run_one(sleep, seconds=20, timeout=0.1).text


def test_a_call_is_not_run_if_no_time_is_left() -> None:
    outcome = run_one(sleep, seconds=0)
    assert (outcome.status, outcome.text) == ("not_run", "Not run: the time of this run is over.")


@pytest.mark.parametrize("on_main", [True, False])
def test_the_time_a_person_takes_does_not_count(on_main: bool) -> None:
    class Slow(Scripted):
        def ask(self, prompt: str, form: Any = None) -> str:
            time.sleep(0.6)
            return super().ask(prompt, form)

    def work() -> str:
        return "worked"

    def ask_then_work() -> str:
        from archytas_nb.kernel.person import ask_user

        return ask_user("Go on?")

    def both() -> list[CallOutcome]:
        return [
            run_one(work, approve=True, timeout=0.3, seconds=0.3, person=Slow("y")),
            run_one(ask_then_work, timeout=0.3, seconds=0.3, person=Slow("yes")),
        ]

    outcomes = both() if on_main else off_main(both)
    assert [(each.status, each.value) for each in outcomes] == [("done", "worked"), ("done", "yes")]


def test_an_interrupt_between_calls_is_recorded_and_one_in_a_tool_is_raised() -> None:
    with guard_calls() as watch:
        signal.raise_signal(signal.SIGINT)
        assert watch.interrupts == 1
        watch.raises = True
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            watch.raises = False
        assert (watch.interrupts, watch.raises) == (2, False)


def test_an_interrupt_stops_the_tool_even_if_the_previous_handler_only_records_it() -> None:
    noted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    try:
        assert run_one(sleep).status == "interrupted"
        assert noted.is_set()
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_an_alarm_after_the_tool_ended_is_ignored() -> None:
    with guard_calls() as watch:
        signal.raise_signal(signal.SIGALRM)
        with contextlib.suppress(ToolTimeout):
            watch.raises = True
            signal.raise_signal(signal.SIGALRM)  # no limit is set
            watch.raises = False
        assert not watch.expired


def test_an_interrupt_in_a_finaliser_is_raised_again() -> None:
    class Doomed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def lose() -> str:
        doomed = Doomed()
        del doomed
        time.sleep(30)
        return "slept"

    outcome = run_one(lose)
    assert (outcome.status, outcome.value) == ("interrupted", None)
    assert outcome.seconds < 20


def test_a_limit_in_a_finaliser_is_raised_again() -> None:
    class Slow:
        def __del__(self) -> None:
            time.sleep(0.3)

    def lose() -> str:
        slow = Slow()
        del slow
        time.sleep(30)
        return "slept"

    assert "stopped after 0.1 s" in run_one(lose, timeout=0.1).text


# ── interrupts that are deferred ───────────────────────────────────────────────────────────────────


def test_after_the_block_interrupts_are_raised_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="broken"), defer_interrupts():
        raise ValueError("broken")
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_recorded_by_the_innermost_block() -> None:
    with defer_interrupts() as outer:
        with defer_interrupts() as inner:
            signal.raise_signal(signal.SIGINT)
        assert (outer.interrupted, inner.interrupted) == (False, True)


def test_ignored_interrupts_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with defer_interrupts() as deferred:
            signal.raise_signal(signal.SIGINT)
        assert not deferred.interrupted
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_off_the_main_thread_deferring_changes_nothing() -> None:
    seen: list[object] = []

    def work() -> None:
        with defer_interrupts() as deferred:
            seen.extend([deferred.interrupted, signal.getsignal(signal.SIGINT)])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [False, before]


# ── limits where there is no signal ────────────────────────────────────────────────────────────────


class Due(BaseException):
    """The exception of an interrupt that is due."""


def test_a_thread_timer_raises_again_after_it_was_swallowed() -> None:
    def spin(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def work() -> str:
        raised = 0
        timer = ThreadTimer(lambda: Due if raised < 2 else None, 0.05)
        timer.start()
        try:
            for _ in range(2):
                try:
                    spin(30)
                except Due:
                    raised += 1
        finally:
            timer.stop()
        return f"raised {raised} times"

    assert off_main(work) == "raised 2 times"


def test_a_thread_timer_raises_nothing_that_is_not_due_or_after_its_stop() -> None:
    def work() -> str:
        for _ in range(100):
            short_timer()
        sum(range(100_000))
        return "quiet"

    assert off_main(work) == "quiet"
    short_timer()


def short_timer() -> None:
    """Sleep about as long as the time is, and raise nothing."""
    due = [True]
    timer = ThreadTimer(lambda: Due if due and due.pop() else None, 0.0005)
    try:
        try:
            timer.start()
            time.sleep(0.0005)
        finally:
            due.clear()
            stopped = False
            while not stopped:
                try:
                    timer.stop()
                    stopped = True
                except Due:
                    continue
    except Due:
        pass


def test_a_timer_thread_forwards_an_exception_raised_in_it_before_it_started() -> None:
    """CPython up to 3.12 finds a thread that has not begun under the id of its maker."""

    def work() -> str:
        for _ in range(30):
            timer = ThreadTimer(lambda: None, 60)
            end = time.monotonic() + 20
            try:
                timer.start()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Due)
                )
                while time.monotonic() < end:
                    pass
            except Due:
                timer.stop()
            else:
                return "lost"
        return "raised each time"

    assert off_main(work) == "raised each time"


def test_a_timer_whose_thread_cannot_be_started_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", fail)
    timer = ThreadTimer(lambda: Due, 0.0)
    with pytest.raises(RuntimeError):
        timer.start()
    timer.stop()


def test_a_debugger_can_trace_after_a_thread_timer_was_stopped() -> None:
    """A process of its own, because one that hangs here hangs in C."""
    script = """
        import sys
        from archytas_nb.interrupts import ThreadTimer

        class Due(BaseException):
            pass

        timer = ThreadTimer(lambda: Due, 0.0)
        try:
            timer.start()
            while True:
                pass
        except Due:
            timer.stop()
        sys.settrace(lambda frame, event, arg: None)
        print((lambda: "traced")())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "traced\n"
