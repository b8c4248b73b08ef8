"""What goes on at this moment, from the events so far."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import (
    AskModel,
    CallOutcome,
    CallOutcomes,
    Delta,
    Event,
    Notice,
    RunCalls,
    ToolCall,
    Usage,
)
from archytas_nb.trace.progress import Progress, Streamed
from archytas_nb.trace.values import RunView, StepView

RUNNING = RunCalls(1, (ToolCall("a", "measure", {}),))
DONE = CallOutcomes((CallOutcome("done", "1", call_id="a"),))


def after(*events: Event) -> Progress:
    progress = Progress()
    for event in events:
        progress.take(event)
    return progress


def words(text: str) -> Delta:
    return Delta("text", text)


def test_a_reply_is_read_while_it_is_written() -> None:
    """Thought, tool and input of a call; the words of an answer; prose as what it may become."""
    call = after(words('{"thought": "I look.", "tool": "head", "tool_input": {"n": '))
    assert call.streamed() == Streamed(thought="I look.", tool="head", given='{"n": ')
    answer = after(words('{"thought": "", "tool": "final_answer", "tool_input": "There are 1'))
    assert answer.streamed() == Streamed(answer="There are 1")
    assert after(words("There "), words("are")).streamed() == Streamed(answer="There are")


def test_what_a_retry_makes_void_is_dropped() -> None:
    """After a retry, the reply is written anew; another notice takes nothing away."""
    begun = [AskModel(1, ()), Delta("reasoning", "hm"), words("There a")]
    assert after(*begun, Notice("repair", "x")).streamed() is not None
    assert after(*begun, Notice("retry", "once more")).streamed() is None
    assert after(*begun, Notice("retry", "once more"), words("Th")).streamed() == Streamed(
        answer="Th"
    )


def test_a_running_tool_shows_its_last_lines() -> None:
    """What it prints is shown as it comes, the lines above are counted, and all is gone with the outcome."""
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
def test_however_much_is_printed_little_is_held_and_shown(pieces: list[str]) -> None:
    """Neither what is kept nor what is shown grows with the output."""
    progress = after(RUNNING, *(Delta("output", piece) for piece in pieces))
    assert sum(map(len, progress._output)) <= 60_000
    streamed = progress.streamed()
    assert streamed is None or len(streamed.output) <= 13 * 201
    assert streamed is None or streamed.output.count("\n") <= 12


def test_the_status_says_what_is_done_the_step_the_time_and_the_tokens() -> None:
    """One line, without what is not known yet."""
    view = RunView("q", steps=(StepView(3),), usage=Usage(2, 1200, 0, 34))
    assert (
        after(RUNNING).status(view, 75.9) == "calling measure · step 3 · 1 min 15 s · 1,234 tokens"
    )
    assert after().status(RunView("q"), 0.2) == "starting · 0 s"
    assert after(AskModel(1, ())).status(RunView("q"), 1) == "asking the model · 1 s"
    waiting = after(RUNNING, Delta("person", "Run it?"))
    assert waiting.status(view, 75.9).startswith("waiting for your answer · step 3 · ")
    waiting.take(Delta("person", ""))
    assert waiting.status(view, 75.9).startswith("calling measure · ")
    assert (
        after(Notice("retry", "busy; trying again in 2 s"))
        .status(RunView("q"), 1)
        .startswith("busy; trying")
    )
