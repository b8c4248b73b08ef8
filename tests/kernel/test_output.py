"""All that a call prints and displays belongs to it, in order; afterwards everything is as before."""

import base64
import contextlib
import io
import itertools
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.output import (
    KEEP,
    KEEP_DISPLAYED,
    MAX_DISPLAY,
    MAX_IMAGES,
    MAX_OUTPUT_CHARS,
    Capture,
    capture_paused,
    capturing,
    current_capture,
)
from archytas_nb.loop.events import Output
from tests.kernel.tools import run_one, text_of

# ── the record of one call ─────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(min_size=1)), max_size=20))
def test_joins_consecutive_text_of_one_kind_in_order(
    pieces: list[tuple[str, str]],
) -> None:
    capture = Capture()
    for kind, text in pieces:
        capture.write(kind, text)  # type: ignore[arg-type]
    outputs = capture.outputs()
    assert "".join(str(each.data["text/plain"]) for each in outputs) == "".join(
        text for _, text in pieces
    )
    kinds = [each.kind for each in outputs]
    assert all(a != b for a, b in itertools.pairwise(kinds))


def test_keeps_the_beginning_and_the_end_of_endless_output() -> None:
    capture = Capture()
    capture.write("stdout", "first\n")
    for n in range(3000):
        capture.write("stdout" if n % 2 else "stderr", f"{n:04} " + "x" * 995)
    capture.write("stdout", "x" * 5_000_000 + "last\n")
    outputs = capture.outputs()
    kept = sum(len(str(each.data["text/plain"])) for each in outputs)
    assert 2 * KEEP <= kept <= 2 * KEEP + 100
    assert str(outputs[0].data["text/plain"]).startswith("first\n")
    assert str(outputs[-1].data["text/plain"]).endswith("last\n")
    assert f"{3_000_000 + 5_000_000 + 11 - 2 * KEEP:,} characters left out" in text_of(outputs)
    assert len(capture.text()) <= MAX_OUTPUT_CHARS


@pytest.mark.parametrize("between", ["", "text\n"])
def test_keeps_the_first_and_the_last_displays_of_a_long_series(between: str) -> None:
    capture = Capture()
    for n in range(1000):
        capture.display({"text/plain": str(n)})
        capture.write("stdout", between)
    shown = [each.data["text/plain"] for each in capture.outputs() if each.kind == "display"]
    assert (shown[:2], shown[-1]) == (["0", "1"], "999")
    assert KEEP_DISPLAYED - 2 <= len(shown) <= KEEP_DISPLAYED
    assert f"{1000 - len(shown)} displays left out" in text_of(capture.outputs())


def test_updates_a_display_in_place_and_clears_output() -> None:
    capture = Capture()
    capture.display({"text/plain": "0 %"}, given_id="bar")
    capture.write("stdout", "between\n")
    assert capture.update({"text/plain": "100 %"}, {}, "bar")
    assert not capture.update({"text/plain": "nobody's"}, {}, "other")
    assert capture.text() == "100 %\nbetween"
    capture.clear()
    assert capture.outputs() == ()
    capture.write("stdout", "new\n")
    assert capture.text() == "new"


def test_a_display_is_announced_updated_and_taken_back_and_the_next_one_takes_its_place() -> None:
    """A loop with `clear_output` leaves one display, not an empty place for each pass."""
    seen: list[Output] = []
    capture = Capture(on_display=seen.append)
    for n in range(3):
        capture.display({"application/json": n}, {"expanded": True}, "chart")
        capture.update({"application/json": n + 10}, {}, "chart")
        if n < 2:
            capture.clear()
    contents = [dict(each.data) for each in seen]
    expected: list[dict[str, object]] = []
    for n in range(3):
        expected += [{"application/json": n}, {"application/json": n + 10}, {}]
    assert contents == expected[:-1]
    assert len({each.display_id for each in seen}) == 1
    assert seen[0].metadata == {"expanded": True}


def test_of_a_display_that_is_too_large_the_text_is_kept_and_what_it_was() -> None:
    capture = Capture()
    chart = {
        "application/vnd.plotly.v1+json": {"data": ["x" * MAX_DISPLAY]},
        "text/plain": "a chart",
    }
    capture.display(chart)
    [kept] = capture.outputs()
    assert (kept.data, kept.left_out) == ({"text/plain": "a chart"}, "Plotly chart of 10.0 MB")
    assert capture.text() == "a chart"


def test_the_model_reads_what_a_person_sees() -> None:
    capture = Capture()
    capture.write("stderr", "10 %\r50 %\r100 %\n\x1b[31mred\x1b[0m\r\n")
    capture.display(
        {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "**bold**"}
    )
    html = "<style>p {}</style><p>shown <b>here</b></p>"
    capture.display({"text/plain": "<IPython.core.display.HTML object>", "text/html": html})
    assert capture.text() == "100 %\nred\n**bold**\nshown here"


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_000,
        "<" * 2_000_000,
        "\x1b[" * 1_000_000,
        "ipykernel_" * 200_000,
        "\r" * 2_000_000,
    ],
)
def test_reads_hostile_text_in_linear_time(text: str) -> None:
    capture = Capture()
    capture.write("stdout", text)
    capture.display({"text/html": text})
    assert len(capture.text()) <= MAX_OUTPUT_CHARS


def test_returns_a_bounded_number_of_images_in_base64() -> None:
    capture = Capture()
    for n in range(MAX_IMAGES + 3):
        capture.display({"image/png": b"\x89PNG" + bytes([n])})
    assert len(capture.images()) == MAX_IMAGES
    assert base64.b64decode(capture.images()[1]) == b"\x89PNG\x01"
    wrapped = Capture()
    wrapped.display({"image/png": "iVBO\nRw0K\n"})
    assert wrapped.images() == ("iVBORw0K",)


def test_removes_the_name_of_a_cells_file() -> None:
    capture = Capture()
    capture.write("stderr", "/tmp/ipykernel_123/456.py:4: UserWarning: careful\n")
    assert text_of(capture.outputs(), "stderr") == "<cell>:4: UserWarning: careful\n"


# ── routing ────────────────────────────────────────────────────────────────────────────────────────


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


def test_captures_print_logging_subprocesses_and_descriptors_in_order() -> None:
    handler = logging.StreamHandler()  # made before, it holds the stream of then
    logger = logging.getLogger("tests.routing")
    logger.addHandler(handler)

    def tell() -> None:
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
        made.append(logging.StreamHandler())

    run_one(make)
    made[0].handle(logging.LogRecord("x", logging.WARNING, "", 0, "later", None, None))
    assert capsys.readouterr().err == "later\n"


def test_a_thread_that_a_tool_leaves_running_prints_to_the_real_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def later() -> None:
        go_on.wait(20)
        print("later")

    def leave() -> None:
        threads.append(threading.Thread(target=later))
        threads[0].start()

    outcome = run_one(leave)
    go_on.set()
    threads[0].join()
    assert outcome.outputs == ()
    assert capsys.readouterr().out == "later\n"


def test_an_earlier_thread_continues_printing_to_the_real_stream(
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
        begun.set()
        printed.wait(20)
        print("the tool's")

    outcome = run_one(work)
    thread.join()
    assert text_of(outcome.outputs) == "the tool's\n"
    assert capsys.readouterr().out == "mine\n"


def test_work_for_an_earlier_pool_belongs_to_the_call_that_hands_it_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs, begun, go_on = threading.Event(), threading.Event(), threading.Event()

    def of_the_person() -> None:
        runs.set()
        begun.wait(20)
        print("mine")

    def late() -> None:
        go_on.wait(20)
        print("late")

    left = []
    with ThreadPoolExecutor(2) as pool:
        mine = pool.submit(of_the_person)
        runs.wait(20)
        pool.submit(abs, 1).result()  # both of its threads are there

        def work() -> None:
            begun.set()
            list(pool.map(print, ["the tool's"]))
            mine.result()
            left.append(pool.submit(late))

        outcome = run_one(work)
        go_on.set()
        left[0].result()
        pool.submit(print, "mine again").result()
    assert text_of(outcome.outputs) == "the tool's\n"
    assert capsys.readouterr().out == "mine\nlate\nmine again\n"


def test_a_tool_may_redirect_its_output_itself() -> None:
    def redirect() -> str:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("mine")
        print("not mine")
        return text.getvalue()

    outcome = run_one(redirect)
    assert (outcome.value, text_of(outcome.outputs)) == ("mine\n", "not mine\n")


def test_works_without_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        with caught():
            print("nowhere")


def test_captures_can_be_nested() -> None:
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


def test_text_that_a_callback_prints_is_not_output_of_the_tool(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def talk() -> None:
        print("printed")
        os.system("echo below")

    outcome = run_one(talk, on_output=lambda text: print(f"seen: {text!r}"))
    assert text_of(outcome.outputs) == "printed\nbelow\n"
    shown = capfd.readouterr().out
    assert "seen: 'printed'" in shown
    assert "seen: 'below\\n'" in shown
    assert 'seen: "seen' not in shown


def test_captures_a_forked_child() -> None:
    def fork() -> None:
        child = os.fork()
        if child == 0:
            print("from the child")
            os._exit(0)
        os.waitpid(child, 0)

    assert text_of(run_one(fork).outputs) == "from the child\n"


def test_streams_are_restored_when_the_tool_raises_or_exits() -> None:
    def leave() -> None:
        print("x")
        raise SystemExit

    before = [os.fstat(fd).st_ino for fd in (1, 2)]
    assert run_one(leave).status == "error"
    assert [os.fstat(fd).st_ino for fd in (1, 2)] == before


# ── Output widgets ─────────────────────────────────────────────────────────────────────────────────


class FakeOutput:
    """An Output widget as far as the kernel knows one: it takes messages while it names a parent."""

    def __init__(self) -> None:
        self.msg_id = ""

    def __enter__(self) -> None:
        self.msg_id = "the cell"

    def __exit__(self, *_: object) -> None:
        self.msg_id = ""


FakeOutput.msg_id = ""  # type: ignore[attr-defined]


@pytest.fixture
def widgets(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    made: dict[str, object] = {}
    module = SimpleNamespace(_instances=made)
    monkeypatch.setitem(sys.modules, "ipywidgets.widgets.widget", module)  # type: ignore[arg-type]
    return made


def test_what_is_shown_in_a_widget_belongs_to_the_widget(
    widgets: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    def tool() -> None:
        print("before")
        for name in ("one", "two"):
            widgets[name] = out = FakeOutput()
            with out:
                print("in", name)
            print("after", name)

    text = text_of(run_one(tool).outputs)
    assert text == "before\nafter one\nafter two\n"
    assert "in one" in capsys.readouterr().out


def test_a_call_inside_a_widget_that_a_cell_opened_is_captured(widgets: dict[str, object]) -> None:
    widgets["outer"] = outer = FakeOutput()

    def tool() -> None:
        print("captured")

    with outer:
        assert text_of(run_one(tool).outputs) == "captured\n"
