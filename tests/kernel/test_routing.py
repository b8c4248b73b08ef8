"""What is written on any way while a call runs belongs to it; afterwards everything is as it was."""

import contextlib
import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from archytas_nb.kernel.output import Capture, capture_paused, capturing, current_capture
from tests.kernel.tools import run_one, text_of


@contextlib.contextmanager
def caught() -> Iterator[Capture]:
    capture = Capture()
    with capturing([capture], capture):
        token = current_capture.set(capture)
        try:
            yield capture
        finally:
            current_capture.reset(token)


@pytest.fixture(autouse=True)
def streams_are_as_before() -> Iterator[None]:
    before = [(stream, dict(vars(stream))) for stream in (sys.stdout, sys.stderr)]
    yield
    assert [(sys.stdout, vars(sys.stdout)), (sys.stderr, vars(sys.stderr))] == before


def test_print_handlers_subprocesses_and_descriptors_are_all_heard_in_order() -> None:
    handler = logging.StreamHandler()  # made before, it holds the stream of then
    logger = logging.getLogger("tests.routing")
    logger.addHandler(handler)

    def tell() -> None:
        """Tell in all ways."""
        print("printed")
        os.system("echo system")
        print("then")
        subprocess.run(["echo", "subprocess"], check=True)
        os.write(1, b"descriptor\n")
        sys.stdout.writelines(["lines\n"])
        threading.Thread(target=print, args=("thread",)).start()
        logger.warning("logged")
        os.system("echo error >&2")

    try:
        outcome = run_one(tell)
    finally:
        logger.removeHandler(handler)
    assert (
        text_of(outcome.outputs) == "printed\nsystem\nthen\nsubprocess\ndescriptor\nlines\nthread\n"
    )
    assert text_of(outcome.outputs, "stderr") == "logged\nerror\n"


def test_a_handler_that_a_tool_makes_writes_to_the_real_stream_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[logging.Handler] = []

    def make() -> None:
        """Make a handler."""
        made.append(logging.StreamHandler())

    run_one(make)
    made[0].handle(logging.LogRecord("x", logging.WARNING, "", 0, "later", None, None))
    assert capsys.readouterr().err == "later\n"


def test_what_a_tool_leaves_running_prints_to_the_real_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def later() -> None:
        go_on.wait(20)
        print("later")

    def leave() -> None:
        """Leave a thread."""
        threads.append(threading.Thread(target=later))
        threads[0].start()

    outcome = run_one(leave)
    go_on.set()
    threads[0].join()
    assert outcome.outputs == ()
    assert capsys.readouterr().out == "later\n"


def test_a_thread_that_was_there_before_goes_on_printing_where_it_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun, printed = threading.Event(), threading.Event()

    def background() -> None:
        begun.wait(20)
        print("mine")
        printed.set()

    thread = threading.Thread(target=background)
    thread.start()

    def work() -> None:
        """Work."""
        begun.set()
        printed.wait(20)
        print("the tool's")

    outcome = run_one(work)
    thread.join()
    assert text_of(outcome.outputs) == "the tool's\n"
    assert capsys.readouterr().out == "mine\n"


def test_a_tool_that_redirects_its_output_itself_gets_it() -> None:
    def redirect() -> str:
        """Redirect."""
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("mine")
        print("not mine")
        return text.getvalue()

    outcome = run_one(redirect)
    assert (outcome.value, text_of(outcome.outputs)) == ("mine\n", "not mine\n")


def test_a_stream_that_takes_no_attributes_is_stood_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slotted:
        __slots__ = ("text",)

        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

    stream = Slotted()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        with caught() as capture:
            kept = sys.stdout
            print("inside")
            sys.stdout.flush()
        assert sys.stdout is stream
        print("outside")
        kept.write("later")
    assert capture.text() == "inside"
    assert stream.text == "outside\nlater"


def test_streams_that_are_not_there_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        with caught():
            print("nowhere")


def test_a_record_inside_a_record_takes_its_own_and_gives_back_the_rest() -> None:
    with caught() as outer:
        print("before")
        os.system("echo below before")
        with caught() as inner:
            print("inside")
            os.system("echo below inside")
        print("after")
        os.system("echo below after")
    assert inner.text() == "inside\nbelow inside"
    assert outer.text() == "before\nbelow before\nafter\nbelow after"


def test_nothing_is_captured_while_a_person_is_asked(capfd: pytest.CaptureFixture[str]) -> None:
    with caught() as capture:
        print("before")
        with capture_paused():
            print("question")
            sys.stdout.flush()
            os.system("echo shown")
        print("after")
    assert capture.text() == "before\nafter"
    assert capfd.readouterr().out == "question\nshown\n"


def test_who_watches_may_print_which_is_no_output_of_the_tool(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def talk() -> None:
        """Talk."""
        print("printed")
        os.system("echo below")

    outcome = run_one(talk, on_output=lambda text: print(f"seen: {text!r}"))
    assert text_of(outcome.outputs) == "printed\nbelow\n"
    shown = capfd.readouterr().out
    assert "seen: 'printed'" in shown
    assert "seen: 'below\\n'" in shown
    assert 'seen: "seen' not in shown


def test_a_forked_child_is_heard() -> None:
    def fork() -> None:
        """Fork."""
        child = os.fork()
        if child == 0:
            print("from the child")
            os._exit(0)
        os.waitpid(child, 0)

    assert text_of(run_one(fork).outputs) == "from the child\n"


def test_everything_is_put_back_when_the_tool_raises_or_exits() -> None:
    def leave() -> None:
        """Leave."""
        print("x")
        raise SystemExit

    before = [os.fstat(fd).st_ino for fd in (1, 2)]
    assert run_one(leave).status == "error"
    assert [os.fstat(fd).st_ino for fd in (1, 2)] == before
