"""Limits and interrupts reach the tool that runs, and leave handlers and timers as they were."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel.interrupts import guard_calls
from archytas_nb.loop.events import CallOutcome
from tests.kernel.people import Scripted
from tests.kernel.tools import run_one


def sleep() -> str:
    """Sleep."""
    time.sleep(30)
    return "slept"


def spin() -> str:
    """Compute for ever."""
    while True:
        pass


def stubborn() -> str:
    """Swallow whatever is raised, twice."""
    for _ in range(2):
        try:
            time.sleep(30)
        except BaseException:
            continue
    return "went on"


def brief() -> None:
    """Sleep about as long as the limit."""
    time.sleep(0.001)


def off_main(function: Callable[[], Any]) -> Any:
    """What a function gives on another thread."""
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
        """Retry whatever fails."""
        while True:
            try:
                time.sleep(30)
            except Exception:
                continue

    assert "stopped after 0.1 s" in run_one(careful, timeout=0.1).text


def test_a_tool_that_swallows_its_limit_is_told_again_and_is_no_success() -> None:
    outcome = run_one(stubborn, timeout=0.1)
    assert (outcome.status, outcome.value) == ("error", None)
    assert (
        "told to stop after 0.1 s, which is this tool's timeout, it went on to its end"
        in outcome.text
    )


@pytest.mark.parametrize("seconds", [1e12, math.inf])
def test_a_limit_that_no_timer_takes_is_as_good_as_none(seconds: float) -> None:
    assert run_one(brief, timeout=seconds).status == "done"
    outcome: CallOutcome = off_main(lambda: run_one(brief, timeout=seconds))
    assert outcome.status == "done"


def test_elsewhere_than_on_the_main_thread_a_limit_stops_python_code() -> None:
    outcome: CallOutcome = off_main(lambda: run_one(spin, timeout=0.1))
    assert "stopped after 0.1 s, which is this tool's timeout" in outcome.text


def test_elsewhere_a_tool_that_waits_in_c_ends_first_and_the_outcome_says_so() -> None:
    ended = threading.Event()

    def nap() -> str:
        """Nap."""
        try:
            time.sleep(2)
        finally:
            ended.set()
        return "napped"

    outcome: CallOutcome = off_main(lambda: run_one(nap, timeout=0.1))
    assert ended.is_set()
    assert outcome.status == "error"
    assert (
        "told to stop after 0.1 s, which is this tool's timeout, it stopped only after 2"
        in outcome.text
    )


def test_elsewhere_nothing_is_raised_into_a_thread_whose_tool_has_ended() -> None:
    def work() -> list[str]:
        return [run_one(brief, timeout=0.001).status for _ in range(100)]

    assert set(off_main(work)) <= {"done", "error"}


def test_the_same_on_the_main_thread() -> None:
    assert {run_one(brief, timeout=0.0015).status for _ in range(100)} <= {"done", "error"}


def test_a_timer_of_the_users_own_goes_on() -> None:
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


def test_the_time_of_a_run_bounds_a_tool_without_a_limit_of_its_own() -> None:
    outcome = run_one(sleep, seconds=0.1)
    assert "which is what was left of this run's time" in outcome.text
    assert "0.1 s, which is this tool's timeout" in run_one(sleep, seconds=20, timeout=0.1).text


def test_where_no_time_is_left_a_call_is_not_run() -> None:
    outcome = run_one(sleep, seconds=0)
    assert (outcome.status, outcome.text) == ("not_run", "Not run: the time of this run is over.")


@pytest.mark.parametrize("on_main", [True, False])
def test_the_time_that_a_person_takes_does_not_count(on_main: bool) -> None:
    class Slow(Scripted):
        def ask(self, prompt: str) -> str:
            time.sleep(0.6)
            return super().ask(prompt)

    def work() -> str:
        """Work."""
        return "worked"

    def ask_then_work() -> str:
        """Ask, then work."""
        from archytas_nb.kernel.approval import ask_user

        return ask_user("Go on?")

    def both() -> list[CallOutcome]:
        return [
            run_one(work, approve=True, timeout=0.3, seconds=0.3, person=Slow("y")),
            run_one(ask_then_work, timeout=0.3, seconds=0.3, person=Slow("yes")),
        ]

    outcomes = both() if on_main else off_main(both)
    assert [(each.status, each.value) for each in outcomes] == [("done", "worked"), ("done", "yes")]


def test_an_interrupt_between_calls_is_noted_and_one_in_a_tool_is_raised() -> None:
    with guard_calls() as watch:
        signal.raise_signal(signal.SIGINT)
        assert watch.interrupts == 1
        watch.raises = True
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            watch.raises = False
        assert (watch.interrupts, watch.raises) == (2, False)


def test_a_handler_that_only_notes_an_interrupt_as_asyncios_does_leaves_no_tool_running() -> None:
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


def test_an_alarm_after_the_tool_has_ended_is_raised_nowhere() -> None:
    with guard_calls() as watch:
        signal.raise_signal(signal.SIGALRM)
        with contextlib.suppress(ToolTimeout):
            watch.raises = True
            signal.raise_signal(signal.SIGALRM)  # no limit is set
            watch.raises = False
        assert not watch.expired


def test_an_interrupt_that_python_ignores_because_of_where_it_came_is_raised_again() -> None:
    class Doomed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def lose() -> str:
        """Lose an interrupt in a finaliser, then sleep."""
        doomed = Doomed()
        del doomed
        time.sleep(30)
        return "slept"

    outcome = run_one(lose)
    assert (outcome.status, outcome.value) == ("interrupted", None)
    assert outcome.seconds < 20


def test_a_limit_that_is_reached_in_a_finaliser_is_raised_again() -> None:
    class Slow:
        def __del__(self) -> None:
            time.sleep(0.3)

    def lose() -> str:
        """Lose the limit in a finaliser, then sleep."""
        slow = Slow()
        del slow
        time.sleep(30)
        return "slept"

    assert "stopped after 0.1 s" in run_one(lose, timeout=0.1).text
