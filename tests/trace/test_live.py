"""How a run is shown while it happens, and what it sends over the wire of a real kernel."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    Answered,
    ApprovalForm,
    AskModel,
    CallOutcome,
    CallOutcomes,
    Delta,
    Event,
    Failed,
    Interrupted,
    Notice,
    Output,
    RunCalls,
    RunProgram,
    Started,
    ToolCall,
    Usage,
)
from archytas_nb.trace import live, reopened
from archytas_nb.trace.activity import Activity, Streamed
from archytas_nb.trace.fold import advance, fold, with_outcomes
from archytas_nb.trace.html import html, panel_html
from archytas_nb.trace.live import (
    TraceView,
    display_mode,
    live_now,
    live_question,
    live_reason,
    live_step,
    without_arguments,
)
from archytas_nb.trace.text import ending_lines, plain
from archytas_nb.trace.view import RunView, StepView
from archytas_nb.words import clock
from tests.live_kernel import Kernel, live_kernel
from tests.provisioning.unix_kernels import WARM
from tests.trace.samples import SAMPLES


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Everything that is displayed, as (data, metadata)."""
    import IPython.display

    seen: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        IPython.display, "display", lambda data, raw, metadata: seen.append((data, metadata))
    )
    return seen


def kernel_before_a_person(metadata: dict[str, str]) -> SimpleNamespace:
    return SimpleNamespace(_allow_stdin=True, get_parent=lambda channel: {"metadata": metadata})


@pytest.mark.parametrize(
    ("shell", "mode"),
    [
        (SimpleNamespace(), "terminal"),
        (SimpleNamespace(kernel=None), "terminal"),
        (SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=False)), "static"),
        (SimpleNamespace(kernel=kernel_before_a_person({"cellId": "a1"})), "live"),
        (SimpleNamespace(kernel=kernel_before_a_person({})), "static"),
    ],
)
def test_the_mode_follows_the_shell(shell: Any, mode: str) -> None:
    """No kernel, nobody to ask, somebody there."""
    assert display_mode(shell) == mode


def test_static_is_one_display_at_the_end(displayed: list[Any]) -> None:
    question, events = SAMPLES["answered"]
    with TraceView(question, "static") as view:
        for event in events[:-1]:
            view.on_event(event)
        assert displayed == []
        view.on_event(events[-1])
        view.close()
    ((data, metadata),) = displayed
    assert data["text/plain"] == plain(fold(question, events))
    assert metadata["archytas_nb"]["usage"]["requests"] == 2


def chart(number: int, size: int = 0) -> Output:
    data = {"application/vnd.plotly.v1+json": {"data": ["x" * size, number]}}
    return Output("display", data, {"width": 3}, display_id=f"id {number}")


def test_charts_follow_the_trace_with_their_metadata_and_a_note_counts_those_above_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is an output of the cell; it is shown once, and an update of it stays in its place."""
    import IPython.display

    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        IPython.display,
        "display",
        lambda data, metadata=None, display_id=None, **_: seen.update({display_id: data}),
    )
    displays = live.Displays()
    displays.show([chart(1), chart(2), chart(1)])
    displays.take(replace(chart(2), data={}))
    displays.take(Output("display", {"text/plain": "text"}, display_id="text"))
    assert seen == {"id 1": chart(1).data, "id 2": {}}
    displays.take(chart(3, 50_000_000))
    displays.show(map(chart, range(4, 200)))
    shown = [key for key in seen if key.startswith("id")]
    [note] = [data for key, data in seen.items() if not key.startswith("id")]
    assert len(shown) == live.MAX_DISPLAYS
    assert str(1 + 196 + 2 - live.MAX_DISPLAYS) in note["text/plain"]


def test_quiet_shows_nothing(displayed: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Quiet shows nothing, and still folds."""
    question, events = SAMPLES["answered"]
    view = TraceView(question, "quiet")
    for event in events:
        view.on_event(event)
    assert displayed == []
    assert capsys.readouterr().out == ""
    assert view.view == fold(question, events)


def test_drawing_never_raises_into_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A display that fails is logged; the run goes on."""

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("no display")

    monkeypatch.setattr(live, "bundle", broken)
    with caplog.at_level(logging.ERROR, logger="archytas_nb"):
        TraceView("q", "static").on_event(Answered("a"))
    assert "the trace could not be finished" in caplog.text
    assert "no display" in caplog.text


def test_an_interrupt_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's interrupt while a view draws is the run's business, not the view's."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    view = TraceView("q", "quiet")
    monkeypatch.setattr(live, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        view.on_event(Answered("a"))


@pytest.mark.parametrize(
    "name", [name for name in SAMPLES if name not in {"unreachable", "shortened"}]
)
def test_a_terminal_prints_the_lines_of_the_text(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question, events = SAMPLES[name]
    view = TraceView(question, "terminal")
    for event in events:
        view.on_event(event)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    run = fold(question, events)
    expected = plain(run)
    if isinstance(run.ending, (Failed, Interrupted)):
        expected = expected.removesuffix(ending_lines(run))
    assert printed == [line for line in expected.splitlines()[1:] if line.strip()]


def test_a_terminal_prints_each_step_as_soon_as_it_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A step's outcome is printed when it is there, and a retry's wait at once."""
    _, events = SAMPLES["recovered"]
    view = TraceView("q", "terminal")
    for event in events[:4]:
        view.on_event(event)
    assert 'mean_mass(species="Gento", unit="g") → error' in capsys.readouterr().out
    view.on_event(Notice("retry", "waiting 1 s"))
    assert capsys.readouterr().out == "   … waiting 1 s\n"


RUNNING = RunCalls(1, (ToolCall("a", "measure", {}),))
DONE = CallOutcomes((CallOutcome("done", "1", call_id="a"),))


def after(*events: Event) -> Activity:
    activity = Activity()
    for event in events:
        activity.take(event)
    return activity


def words(text: str) -> Delta:
    return Delta("text", text)


def test_a_reply_is_read_while_it_is_written() -> None:
    """Thought, tool and input of a call; the words of an answer; prose as what it may become."""
    call = after(words('{"thought": "I look.", "tool": "head", "tool_input": {"n": '))
    assert call.streamed() == Streamed(thought="I look.", tool="head", arguments='{"n": ')
    answer = after(words('{"thought": "", "tool": "final_answer", "tool_input": "There are 1'))
    assert answer.streamed() == Streamed(answer="There are 1")
    assert after(words("There "), words("are")).streamed() == Streamed(answer="There are")


def test_a_retry_drops_the_incomplete_reply() -> None:
    """After a retry, the reply is written anew; another notice takes nothing away."""
    begun = [AskModel(1, ()), Delta("reasoning", "hm"), words("There a")]
    assert after(*begun, Notice("repair", "x")).streamed() is not None
    assert after(*begun, Notice("retry", "once more")).streamed() is None
    assert after(*begun, Notice("retry", "once more"), words("Th")).streamed() == Streamed(
        answer="Th"
    )


def test_a_running_tool_shows_its_last_lines() -> None:
    lines = [Delta("output", f"line {n}\n") for n in range(100)]
    streamed = after(RUNNING, *lines).streamed()
    assert streamed is not None
    assert streamed.output.split("\n")[0] == "… 88 lines above"
    assert streamed.output.split("\n")[1:] == [f"line {n}" for n in range(88, 100)]
    assert after(RUNNING, *lines, DONE).streamed() is None
    assert after(RUNNING, Delta("output", "10 %\r20 %")).streamed() == Streamed(output="20 %")


@given(
    st.lists(
        st.text(max_size=30) | st.sampled_from(["x" * 50_000, "\n" * 30_000, "\x1b[31m"]),
        max_size=30,
    )
)
def test_printed_text_is_limited_however_much_there_is(pieces: list[str]) -> None:
    """Neither what is kept nor what is shown grows with the output."""
    activity = after(RUNNING, *(Delta("output", piece) for piece in pieces))
    assert sum(map(len, activity._output)) <= 60_000
    streamed = activity.streamed()
    assert streamed is None or len(streamed.output) <= 13 * 201
    assert streamed is None or streamed.output.count("\n") <= 12


def test_the_status_has_the_phase_the_step_the_time_and_the_tokens() -> None:
    """Each phase of a run in its own words, with the time that matters in it."""
    view = RunView("q", steps=(StepView(3),), usage=Usage(2, 1200, 0, 34))
    time = 0.0
    activity, form = Activity(lambda: time), ApprovalForm("measure", (), text="measure")
    retry = Notice("retry", "503. Trying again (1 of 3)", seconds=2.5)
    for event, later, expected in (
        (None, 0, "starting"),
        (AskModel(1, ()), 5, "waiting for the model"),
        (Notice("progress", "Loading the local model m (3 s)"), 0, "Loading the local model m (3 s)"),
        (Delta("status", "reading the prompt: 256 of 443 tokens"), 1, "reading the prompt: 256 of 443 tokens"),
        (Delta("reasoning", "hm"), 0, "thinking"),
        (words("The"), 0, "writing"),
        (retry, 0, "503. Trying again (1 of 3) · 3 s left"),
        (None, 1, "503. Trying again (1 of 3) · 2 s left"),
        (None, 2, "trying again"),
        (words("The"), 0, "writing"),
        (RUNNING, 0, "running measure"),
        (None, 75, "running measure for 1 min 15 s"),
        (Delta("person", "Run it?", form), 9, "waiting for you"),
        (Delta("person", ""), 0, "running measure"),  # the time counts from the answer
        (None, 3, "running measure for 3 s"),
        (DONE, 0, "waiting for the model"),
        (AskModel(0, ()), 0, "checking whether a tool fits"),
    ):  # fmt: skip
        if event:
            activity.take(event)
        time += later
        assert activity.status(view) == f"{expected} · step 3 · {clock(time)} · 1,234 tokens"
    assert Activity().status(RunView("q")) == "starting · 0 s"


def test_calls_of_one_reply_are_counted_and_each_has_its_mark_as_soon_as_it_ends() -> None:
    calls = tuple(ToolCall(each, "measure", {"at": each}) for each in "abc")
    begun = [AskModel(1, ()), RunCalls(1, calls)]
    activity = after(*begun)
    assert activity.phase == "running measure × 3"
    activity.take(Delta("ended", "", outcome=CallOutcome("error", "broken", call_id="b")))
    assert activity.phase == "running measure × 2"
    [step] = fold("q", begun).steps
    step = replace(step, calls=with_outcomes(step.calls, activity.outcomes))
    assert [call.status for call in step.calls] == [None, "error", None]
    assert "1 of 3 calls" in text(live_step(step, newest=True))
    done = CallOutcomes(tuple(CallOutcome("done", each, call_id=each) for each in "abc"))
    activity.take(done)
    assert activity.outcomes == []


def test_why_a_call_is_made_is_shown_while_the_person_is_asked_about_it() -> None:
    step = fold("q", SAMPLES["answered"][1][:3]).steps[-1]
    assert text(live_reason(step)) == step.thought
    assert live_reason(replace(step, thought="")) == ""


def test_the_form_of_a_call_stays_until_the_call_is_over() -> None:
    """Between two lines that a person types it does not vanish; then it says what was decided."""
    form = ApprovalForm("measure", (), text="measure")
    decided = replace(form, decision=Decision("approved"))
    asked, answered = Delta("person", "Run it?", form), Delta("person", "")
    assert after(RUNNING, asked).form is form
    assert after(RUNNING, asked, answered).form is form
    assert after(RUNNING, asked, answered, Delta("person", "", decided)).form is decided
    assert after(RUNNING, asked, answered, Delta("person", "Which year?")).form is None
    assert after(RUNNING, asked, DONE).form is None


def text(page: str) -> str:
    """A page without tags and styles."""
    return re.sub(r"<[^>]+>", "", re.sub(r"<style>.*?</style>", "", page))


def test_a_step_looks_the_same_live_and_after_the_run() -> None:
    view = fold(*SAMPLES["parallel"])
    static = text(html(view))
    for step in view.steps:
        if not step.empty:
            assert text(live_step(step, newest=False)) in static
            assert text(live_step(step, newest=True)) == text(live_step(step, newest=False))
    assert text(live_question(view)) in static


def test_what_happens_now_is_in_a_pane_of_one_height_and_the_steps_stay_folded() -> None:
    """The call that is being written, with its input; the output of a running tool; an answer."""
    [step, last] = fold(*SAMPLES["answered"]).steps
    call = Streamed(thought="Why not?", tool="head", arguments='{"n": ')
    assert "<details>" in live_step(step, call, newest=True)
    assert "Why not?head …{&quot;n&quot;: ▍" in text(live_now(last, call))
    assert "30 %" in text(live_now(step, Streamed(output="30 %")))
    for written in ('{"code": "x = 1\\nprint(\\"a', '{"code": "x = 1\\nprint(\\"a\\'):
        shown = text(live_now(last, Streamed(tool="python", arguments=written)))
        assert "x = 1\nprint(&quot;a▍" in shown.replace('"', "&quot;")
    partial = '{"code": "x = \\u00'  # within the escape of a character
    assert partial.replace('"', "&quot;") in text(live_now(last, Streamed(arguments=partial)))
    running = fold("q", SAMPLES["answered"][1][:3]).steps[-1]
    assert running.calls[0].status is None
    assert text(live_now(running, None)) == running.thought
    assert text(live_now(step, None)) == ""
    assert live_step(last, Streamed(reasoning="hm"), newest=True) == ""  # it has nothing to show
    heights = {
        re.search(r"height:([\d.]+em)", live_now(*each))[1]  # type: ignore[index]
        for each in ((None, None), (step, call), (last, Streamed(answer="There")))
    }
    assert len(heights) == 1


def test_a_program_is_shown_while_it_is_written() -> None:
    """Its thought and its lines; the cursor is at the end."""
    activity = after(
        Started("m", "program"),
        AskModel(1, ()),
        words("I look.\n```python\nx = look(n=1)\nans"),
    )
    streamed = activity.streamed()
    assert streamed == Streamed(thought="I look.", program="x = look(n=1)\nans")
    shown = text(live_step(StepView(1), streamed, newest=True))
    assert "I look." in shown.partition("  1  x = look")[0]
    assert re.search(r"1  x = look\(n=1\)\s+2  ans▍", shown)
    activity.take(RunProgram(1, "x = look(n=1)\nanswer(x)"))
    assert activity.streamed() is None


def test_the_lines_of_a_program_appear_one_after_another() -> None:
    """Executed lines with values, lines that wait for the end of a block, and the line as it comes."""
    question, events = SAMPLES["lines"]
    view = fold(question, [])
    activity = Activity()
    shown = []
    for event in events:
        view = advance(view, event)
        activity.take(event)
        if isinstance(event, AskModel) and event.is_continued:
            activity.take(words("ans"))
            view = advance(view, words("ans"))
            step = live_step(view.steps[-1], activity.streamed(), newest=True)
            assert text(step).startswith("… ")
            shown.append(text(step).partition("  1  ")[2])
    assert shown[0] == "ans▍"
    assert "▸ 38.8" in shown[1]
    assert re.search(r"twice = 2 \* bills  # 77.6\s+3  ans▍", shown[2])
    assert re.search(r"3  if twice &gt; 70:\s+4  ans▍", shown[3])
    assert re.search(r'4      note\(text="long"\)\s+5  ans▍', shown[4])


def test_a_call_that_waits_for_approval_is_marked_in_its_program() -> None:
    _, events = SAMPLES["program"]
    before = next(n for n, each in enumerate(events) if isinstance(each, RunCalls))
    view = fold("q", events[: before + 1])
    shown = live_step(without_arguments(view.steps[-1]), newest=True)
    assert re.search(r"… {1,2}3      bills\[each\]", text(shown))
    form = ApprovalForm("average", (), program="a = 1\nb = average()", line=2)
    assert "line 2  b = average()" in text(panel_html(form))


def test_a_streamed_answer_is_rendered_as_markdown() -> None:
    """With a cursor at its end."""
    assert "<strong>124</strong>" in live_now(None, Streamed(answer="There are **124**"))
    assert text(live_now(None, Streamed(answer="There"))).strip() == "There▍"


class SimulatedTime:
    """Stands for `time` and for the events that a layer's thread waits for: only waiting takes time."""

    def __init__(self, moment: float, happens: Callable[[], Any]) -> None:
        self.now, self._moment, self._happens = 0.0, moment, happens

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        ends = self.now + seconds + 0.005  # no thread wakes up at once
        if self.now <= self._moment < ends:
            self.now = self._moment
            self._happens()
        self.now = ends

    def is_set(self) -> bool:
        """Whether the run is over."""
        return self.now > 30

    def clear(self) -> None:
        """Whoever waits, waits to the end: the worst case."""

    set = clear


@pytest.mark.parametrize("moment", [2.0, 2.3, 2.6, 2.9])
def test_the_clock_of_a_running_tool_skips_no_second(
    moment: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second since a person approved the call is drawn, at whatever moment that was."""
    now = SimulatedTime(moment, lambda: layer.update(view, Delta("person", "")))
    activity, idle = Activity(now.monotonic), SimpleNamespace(start=lambda: None)
    display = SimpleNamespace(update=lambda *_, **__: None)
    threads = SimpleNamespace(RLock=nullcontext, Event=lambda: now, Thread=lambda **_: idle)
    monkeypatch.setattr(live, "time", now)
    monkeypatch.setattr(live, "threading", threads)
    monkeypatch.setattr(live, "Activity", lambda: activity)
    monkeypatch.setattr(live, "_display", lambda *_, **__: display)
    monkeypatch.setattr(live.LiveLayer, "_open", 0)
    monkeypatch.setattr(live.front_end, "places", [])
    view, drawn = RunView("q"), []
    layer = live.LiveLayer(view, live.Displays())
    layer._passed.observe(lambda change: drawn.append(change["new"]), "value")
    for event in (RUNNING, Delta("person", "Run it?")):
        layer.update(view, event)
    layer._tick()
    assert "running measure" in layer._phase.value
    shown = re.findall(r"> for (\d+) s", "".join(drawn))
    seconds = list(dict.fromkeys(map(int, shown)))
    assert seconds == list(range(1, len(seconds) + 1))
    assert len(seconds) >= 26


def test_what_the_clock_draws_is_sent_from_the_context_of_the_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ipykernel 7.0 keeps the cell there, and sends nothing from a thread without it."""
    cell: ContextVar[str] = ContextVar("cell")
    cell.set("the cell")
    seen: SimpleQueue[str | None] = SimpleQueue()
    display = SimpleNamespace(update=lambda *_, **__: None)
    monkeypatch.setattr(live, "_display", lambda *_, **__: display)
    monkeypatch.setattr(live.LiveLayer, "_open", 0)
    monkeypatch.setattr(live.LiveLayer, "_draw", lambda _: seen.put(cell.get(None)))
    layer = live.LiveLayer(RunView("q"), live.Displays())
    try:
        assert seen.get(timeout=30) == "the cell"
    finally:
        layer.finish(RunView("q"))


HERE = Path(__file__).parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PREPARE = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from tests.trace.samples import SAMPLES
from archytas_nb.trace.live import TraceView, display_mode

def show(question, events, mode=None):
    view = TraceView(question, mode or display_mode(get_ipython()))
    for event in events:
        view.on_event(event)
    return view
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager: KernelManager
    manager, client = start_new_kernel(kernel_name="python3")
    client.session.metadata = {"cellId": "a1"}  # as a notebook's front end names its cell
    try:
        run(client, PREPARE)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(
    client: BlockingKernelClient, code: str, *, allow_stdin: bool = True
) -> list[dict[str, Any]]:
    """Every message on iopub for one cell, but for status and input."""
    messages: list[dict[str, Any]] = []
    reply = client.execute_interactive(
        code, allow_stdin=allow_stdin, store_history=False, timeout=120, output_hook=messages.append
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return [each for each in messages if each["msg_type"] not in {"status", "execute_input"}]


def of_type(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in messages if each["msg_type"] == kind]


def open_comms(client: BlockingKernelClient) -> dict[str, Any]:
    reply = client.comm_info(reply=True, timeout=30)
    return dict(reply["content"]["comms"])


def test_without_a_person_a_run_is_one_display(kernel: BlockingKernelClient) -> None:
    """Headless, a run publishes exactly one display_data, and no widget."""
    messages = run(kernel, "view = show(*SAMPLES['recovered'])", allow_stdin=False)
    assert [each["msg_type"] for each in messages] == ["display_data"]
    data = messages[0]["content"]["data"]
    assert set(data) == {"text/plain", "text/markdown", "text/html"}
    assert messages[0]["content"]["metadata"]["archytas_nb"]["ending"] == "Answered"


def test_a_live_run_ends_as_a_static_display(kernel: BlockingKernelClient) -> None:
    messages = run(kernel, "view = show(*SAMPLES['recovered'])")
    static, live = of_type(messages, "display_data")
    final, emptied = of_type(messages, "update_display_data")
    for display, update in ((static, final), (live, emptied)):
        assert (
            update["content"]["transient"]["display_id"]
            == display["content"]["transient"]["display_id"]
        )
    assert set(live["content"]["data"]) == {WIDGET_VIEW}
    assert "had not finished" in static["content"]["data"]["text/plain"]
    assert "had not finished" in static["content"]["data"]["text/html"]
    assert set(final["content"]["data"]) == {"text/plain", "text/markdown", "text/html"}
    assert emptied["content"]["data"] == {"text/html": ""}
    opened = {each["content"]["comm_id"] for each in of_type(messages, "comm_open")}
    closed = {each["content"]["comm_id"] for each in of_type(messages, "comm_close")}
    kept = {live["content"]["data"][WIDGET_VIEW]["model_id"], *_parts_of(messages, live)}
    assert opened == closed | kept
    assert len(kept) < len(closed)


def _parts_of(messages: list[dict[str, Any]], live: dict[str, Any]) -> set[str]:
    """The parts of a finished run for a page that is opened again: a box, the page in it, its looks."""
    states: dict[str, Any] = {}
    for each in messages:
        content = each["content"]
        if each["msg_type"] in ("comm_open", "comm_msg"):
            states.setdefault(content["comm_id"], {}).update(content["data"].get("state", {}))
    box = states[live["content"]["data"][WIDGET_VIEW]["model_id"]]
    [page] = (each.removeprefix("IPY_MODEL_") for each in box["children"])
    assert "Gentoo" in states[page]["value"]
    looks = (box["layout"], states[page]["layout"], states[page]["style"])
    return {page, *(each.removeprefix("IPY_MODEL_") for each in looks)}


def test_only_the_last_finished_runs_are_kept_and_those_that_a_page_has_asked_for() -> None:
    """A page that is opened again asks for the state of every widget."""
    pytest.importorskip("ipywidgets")
    import ipywidgets

    def finish(number: int) -> Any:
        shown = ipywidgets.HTML("running")
        box = reopened.reopenable([shown], ipywidgets.Layout())
        reopened.keep(fold("q", SAMPLES["answered"][1]), number, box, shown)
        assert "running" not in shown.value
        return box

    asked = finish(0)
    asked.send_state()
    boxes = [finish(number) for number in range(1, 25)]
    is_open = [each.comm is not None for each in (asked, *boxes)]
    assert is_open == [True] + 4 * [False] + 20 * [True]


def test_a_page_that_is_opened_again_shows_that_a_run_was_undone(
    kernel: BlockingKernelClient,
) -> None:
    run(kernel, "view = show(*SAMPLES['recovered'])")
    messages = run(kernel, "view.mark_undone('Undone at 14:02', ['restored: x'])")
    [static] = of_type(messages, "update_display_data")
    assert "Undone at 14:02" in static["content"]["data"]["text/html"]
    states = [each["content"]["data"].get("state", {}) for each in of_type(messages, "comm_msg")]
    assert ["Undone at 14:02" in each.get("value", "") for each in states] == [True]


def test_live_and_headless_leave_the_same_output(kernel: BlockingKernelClient) -> None:
    """The saved output does not tell whether anybody watched."""
    live = of_type(run(kernel, "view = show(*SAMPLES['rich'])"), "update_display_data")
    headless = of_type(
        run(kernel, "view = show(*SAMPLES['rich'])", allow_stdin=False), "display_data"
    )
    assert live[0]["content"]["data"] == headless[0]["content"]["data"]


def test_an_unfinished_run_says_so(kernel: BlockingKernelClient) -> None:
    code = "view = show('q', SAMPLES['answered'][1][:4]); view.close()"
    update, _ = of_type(run(kernel, code), "update_display_data")
    assert "had not finished" in update["content"]["data"]["text/plain"]


def test_the_static_output_is_updated_during_a_run(kernel: BlockingKernelClient) -> None:
    code = "view = show('q', SAMPLES['recovered'][1][:5]); import time; time.sleep(4); view.close()"
    messages = run(kernel, code)
    first = of_type(messages, "update_display_data")[0]["content"]["data"]
    assert set(first) == {"text/plain", "text/markdown", "text/html"}
    for form in first.values():
        assert "had not finished" in form
        assert "mean_mass" in form


PIECES = 200
STREAMING = f"""
%load_ext archytas_nb
import json, time
from archytas_nb.loop.events import Delta, ModelReply

class Stream:
    '''Replies of two hundred pieces each, and a tool call or the answer in each.'''
    name, protocol = "stream", "react"

    def __init__(self, steps, pause):
        self.steps, self.pause, self.step = steps, pause, 0

    def complete(self, ask):
        self.step += 1
        last = self.step > self.steps
        thought = " ".join(f"token{{n}}" for n in range({PIECES}))
        tool, given = ("final_answer", "All is measured.") if last else ("measure", {{"n": self.step}})
        text = json.dumps({{"thought": thought, "tool": tool, "tool_input": given}})
        size = len(text) // {PIECES} + 1
        for at in range(0, len(text), size):
            yield Delta("text", text[at:at + size])
            time.sleep(self.pause) if self.pause else None
        return ModelReply(text)
"""
TOOL = '''%%tool
def measure(n: int) -> int:
    """Measure.

    Args:
        n: What to measure
    """
    return n * n'''


@dataclass
class Traffic:
    """The messages of one cell.

    Attributes:
        size: Bytes of all frames, as they came over the socket.
        times: When each message was made, in seconds.
        kinds: The type of each message.
        shown: Text of what is displayed at the end.
    """

    size: int = 0
    times: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    shown: str = ""

    @property
    def busiest_second(self) -> int:
        """The most messages in any window of one second."""
        times, first, most = sorted(self.times), 0, 0
        for last, each in enumerate(times):
            while each - times[first] >= 1:
                first += 1
            most = max(most, last - first + 1)
        return most


@pytest.fixture(scope="module")
def agent_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(Path(tmp_path_factory.mktemp("kernel"))) as kernel:
        for cell in (STREAMING, TOOL):
            done = kernel.run(cell)
            assert done.status == "ok", done.error
        yield kernel


def traffic(kernel: Kernel, cell: str) -> Traffic:
    """Run a cell as a notebook before a person does, and count what comes over the socket."""
    client: Any = kernel.client
    client.session.metadata = {"cellId": "a1"}  # as a notebook's front end names its cell
    asked, counted = client.execute(cell, allow_stdin=True), Traffic()
    ends = time.monotonic() + 240
    while time.monotonic() < ends:
        if not client.iopub_channel.socket.poll(1000):
            continue
        frames = client.iopub_channel.socket.recv_multipart()
        message = client.session.deserialize(client.session.feed_identities(frames)[1])
        if message["parent_header"].get("msg_id") != asked:
            continue
        counted.size += sum(map(len, frames))
        counted.times.append(message["header"]["date"].timestamp())
        counted.kinds.append(message["msg_type"])
        content = message["content"]
        counted.shown = content.get("data", {}).get("text/plain", counted.shown)
        if content.get("execution_state") == "idle":
            assert client.get_shell_msg(timeout=30)["content"]["status"] == "ok"
            return counted
    raise TimeoutError(f"the cell did not end; so far {len(counted.kinds)} messages")


TWO_THOUSAND_A_SECOND = 0.0005
"""A pause after each piece, in seconds."""


@pytest.mark.parametrize(
    ("steps", "pause"),
    [
        (100, 0),
        (20, TWO_THOUSAND_A_SECOND),
        pytest.param(100, TWO_THOUSAND_A_SECOND, marks=pytest.mark.slow),
    ],
)
def test_many_streamed_steps_stay_far_below_what_a_front_end_can_take(
    agent_kernel: Kernel, steps: int, pause: float
) -> None:
    """For a hundred steps less than 8 MB in all, and less than 500 messages in any second."""
    agent_kernel.run(f"model = Stream({steps}, {pause})")
    counted = traffic(
        agent_kernel,
        "%config ArchytasNB.max_total_tokens = 100_000_000\n"
        "%agent --model model --max-steps 200 Measure a hundred times",
    )
    print(
        f"{counted.size:,} bytes, {len(counted.kinds):,} messages, {counted.busiest_second} in the busiest second"
    )
    assert "All is measured." in counted.shown
    assert counted.kinds.count("comm_msg") > 20  # it was shown live
    kept = 4  # see `reopened`
    assert counted.kinds.count("comm_open") == counted.kinds.count("comm_close") + kept
    assert counted.size < 80_000 * steps
    assert counted.busiest_second < 500


ASKING = """\
from archytas_nb.testing import ScriptedModel
one, two, inner = (
    ScriptedModel(("ask_user", {"question": "Which?"}), ("final_answer", "Done.")) for _ in range(3)
)
outer = ScriptedModel(("again", {}), ("final_answer", "All done."))"""
AGAIN = '''%%tool
def again() -> str:
    """Ask in a run of its own, which is shown."""
    from archytas_nb import Agent
    from archytas_nb.trace.live import TraceView

    shown = TraceView("Inner?", "live")
    return Agent([], inner, ask_user=True).run("Inner?", observers=[shown.on_event]).answer'''


def test_a_cell_with_only_the_question_keeps_none_of_the_typed_lines(
    agent_kernel: Kernel,
) -> None:
    """It is displayed anew; not where the cell shows more, which would be lost, or the run is a tool's."""
    for code in ("%config ArchytasNB.ask_user = 'on'", ASKING, AGAIN):
        assert agent_kernel.run(code).status == "ok"

    def asked(code: str) -> list[dict[str, Any]]:
        return agent_kernel.run(code, person=True, answers=["this"], cell_id="one").messages

    messages = asked("%agent --new --model one Well?")
    kinds = [each["msg_type"] for each in messages]
    after = messages[kinds.index("clear_output") + 1 :]
    [final] = of_type(after, "display_data")
    assert "Done." in final["content"]["data"]["text/plain"]
    assert of_type(after, "update_display_data") == []
    for code, answer in (
        ("print('kept')\n%agent --new --model two Well?", "Done."),
        ("%agent --new --model outer Well?", "All done."),
    ):
        messages = asked(code)
        assert of_type(messages, "clear_output") == []
        shown = [each["content"]["data"] for each in of_type(messages, "update_display_data")]
        assert any(answer in each.get("text/plain", "") for each in shown)


NOTE_IMPORTS = """\
import sys
from IPython.display import display
from archytas_nb.testing import ScriptedModel

class Noted:
    def find_spec(self, name, path=None, target=None):
        if name in ("archytas_nb.driver", "archytas_nb.trace", "ipywidgets"):
            sys.meta_path.remove(self)
            display({"text/plain": "imports"}, raw=True)

%load_ext archytas_nb
known = ScriptedModel(("final_answer", "Yes."))
sys.meta_path.insert(0, Noted())"""


@pytest.mark.parametrize("name", ["known", "http:"])
def test_the_first_question_shows_a_line_before_it_imports_and_the_trace_takes_its_place(
    tmp_path: Path, name: str
) -> None:
    """A person sees that it has begun; a question that cannot be asked leaves no line."""
    with live_kernel(tmp_path, **{WARM: ""}) as kernel:  # a warm one has imported all
        assert kernel.run(NOTE_IMPORTS).status == "ok"
        asked = kernel.run(f"%agent --model {name} Well?", person=True, cell_id="one")
    shown = of_type(asked.messages, "display_data")
    first, imports = (each["content"] for each in shown[:2])
    assert first["data"]["text/plain"] == "starting"
    assert imports["data"]["text/plain"] == "imports"
    updates = [
        each["content"]["data"]
        for each in of_type(asked.messages, "update_display_data")
        if each["content"]["transient"] == first["transient"]
    ]
    if name == "known":
        assert "starting" in updates[0]["text/html"]  # until the page shows the widgets
        assert "Yes." in updates[-1]["text/plain"]
        assert "starting" not in updates[-1]["text/html"]
    else:
        assert asked.status == "error"
        assert updates == [{"text/html": ""}]
