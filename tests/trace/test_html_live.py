"""The pieces of a live page."""

from __future__ import annotations

import re

from archytas_nb.trace.html import html
from archytas_nb.trace.html_live import live_answer, live_earlier, live_question, live_step
from archytas_nb.trace.progress import Streamed
from archytas_nb.trace.steps import fold
from tests.trace.samples import SAMPLES


def text(page: str) -> str:
    """A page without tags and styles."""
    return re.sub(r"<[^>]+>", "", re.sub(r"<style>.*?</style>", "", page))


def test_a_step_looks_live_as_it_does_when_the_run_is_over() -> None:
    """The same words in the same order, so that nothing jumps when the static output takes its place."""
    view = fold(*SAMPLES["parallel"])
    static = text(html(view))
    for step in view.steps:
        if not step.empty:
            assert text(live_step(step, newest=False)) in static
    assert text(live_question(view)) in static


def test_the_newest_step_is_open_and_shows_what_is_streamed() -> None:
    """The call that is being written, with its input; the output of a running tool."""
    [step, _] = fold(*SAMPLES["answered"]).steps
    writing = live_step(
        step, Streamed(thought="Why not?", tool="head", given='{"n": '), newest=True
    )
    assert "<details open>" in writing
    assert "Why not?head …{&quot;n&quot;: ▍" in text(writing)
    assert "30 %" in text(live_step(step, Streamed(output="30 %"), newest=True))
    assert "<details>" in live_step(step, newest=False)
    [_, last] = fold(*SAMPLES["answered"]).steps
    assert "2 thinking" in text(live_step(last, newest=True))
    assert "2 answering" in text(live_step(last, Streamed(answer="There"), newest=True))


def test_an_answer_that_is_being_written_is_markdown_already() -> None:
    """With a cursor at its end; nothing where none has begun."""
    assert "<strong>124</strong>" in live_answer("There are **124**")
    assert text(live_answer("There")).strip() == "There▍"
    assert live_answer("") == ""


def test_steps_that_are_not_listed_any_more_are_counted() -> None:
    """Nothing is said where all are listed."""
    assert text(live_earlier(1200)) == "… 1,200 earlier steps"
    assert live_earlier(0) == ""
