"""An exception is raised in a thread in time, again where it was swallowed, and never after its end."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

from archytas_nb.kernel.interrupts import ThreadTimer


class Due(BaseException):
    """What is raised."""


def on_a_thread(work: Callable[[], str]) -> str:
    box: list[str] = []
    thread = threading.Thread(target=lambda: box.append(work()))
    thread.start()
    thread.join(60)
    return box[0]


def test_it_is_raised_at_a_line_of_python_and_again_where_it_was_swallowed() -> None:
    def work() -> str:
        raised = 0
        injection = ThreadTimer(lambda: Due, 0.05)
        injection.start()
        end = time.monotonic() + 30
        while raised < 2 and time.monotonic() < end:
            try:
                while time.monotonic() < end:
                    pass
            except Due:
                raised += 1
        injection.stop()
        return f"raised {raised} times"

    assert on_a_thread(work) == "raised 2 times"


def test_nothing_is_raised_where_it_is_not_due_or_after_it_was_stopped() -> None:
    def work() -> str:
        for _ in range(100):
            brief()
        sum(range(100_000))
        return "quiet"

    assert on_a_thread(work) == "quiet"
    brief()


def brief() -> None:
    """Sleep about as long as the time is; what is raised stays in here, as who uses it takes care."""
    due: list[bool] = []
    injection = ThreadTimer(lambda: Due if due else None, 0.0005)
    try:
        try:
            due[:] = [True]
            injection.start()
            time.sleep(0.0005)
        finally:
            due[:] = []
            stopped = False
            while not stopped:
                try:
                    injection.stop()
                    stopped = True
                except Due:
                    continue
    except Due:
        pass


def test_a_debugger_can_trace_after_it_was_stopped() -> None:
    """A process of its own, because one that hangs here hangs in C."""
    script = """
        import sys
        from archytas_nb.kernel.interrupts import ThreadTimer

        class Due(BaseException):
            pass

        injection = ThreadTimer(lambda: Due, 0.0)
        try:
            injection.start()
            while True:
                pass
        except Due:
            injection.stop()
        sys.settrace(lambda frame, event, arg: None)
        print((lambda: "traced")())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "traced\n"
