"""A run as a page: what is folded, what is bounded, what is left out."""

from __future__ import annotations

import re

import pytest

from archytas_nb.loop.events import Output
from archytas_nb.trace.html import html
from archytas_nb.trace.steps import fold
from tests.trace.hostile import faults_of
from tests.trace.samples import SAMPLES, answer, call, long_run, png


def visible(page: str) -> str:
    """The page without its tags."""
    return re.sub(r"<[^>]+>", "", page)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_well_formed(name: str) -> None:
    """Each kind of run gives harmless HTML in which every element is closed."""
    assert faults_of(html(fold(*SAMPLES[name]))) == []


def test_steps_are_folded_and_errors_are_not() -> None:
    """One <details> for each step; the one with the error is open."""
    page = html(fold(*SAMPLES["recovered"]))
    assert re.findall(r"<details( open)?>", page) == [" open", ""]


def test_a_page_says_what_the_text_says() -> None:
    """Question, calls, outcomes and answer are in the page, in order."""
    page = visible(html(fold(*SAMPLES["answered"], protocol="react")))
    parts = [
        "How many Gentoo",
        "sample-1.5b · react",
        "count_species(",
        "124",
        "I count",
        "There are 124 Gentoo",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_a_data_frame_is_a_table() -> None:
    """The returned frame is drawn as a table, and what the model read of it is folded under it."""
    page = html(fold(*SAMPLES["rich"]))
    assert page.count("<table") == 1
    assert "as the model read it" in page
    assert "color: red" not in page


def test_five_megabytes_do_not_reach_the_page() -> None:
    """Huge outputs and arguments are cut, and the page says how much is missing."""
    page = html(fold(*SAMPLES["huge"]))
    assert len(page) < 60_000
    assert "characters left out" in page


def test_three_hundred_steps_with_long_outputs_stay_bounded() -> None:
    """Every step is there, the early ones in one fold, and together they do not exceed about a megabyte."""
    events = [
        each for n in range(1, 301) for each in call(n, "f", {"n": n}, f"{n}\n" + "z" * 50_000)
    ]
    page = html(fold("q", [*events, *answer(301, "done")]))
    assert len(page) < 1_500_000
    assert "288 earlier steps" in page
    assert page.count("<summary") == 301
    assert faults_of(page) == []


def test_errors_among_the_early_steps_are_counted() -> None:
    """The fold over the early steps says how many of them went wrong."""
    assert "88 earlier steps, 5 with an error" in html(fold("q", long_run(100, 1)))


def test_images_are_bounded_too() -> None:
    """An image that does not fit is named with its size."""
    big = "A" * 5_000_000
    outputs = (Output("display", {"image/png": big}), Output("display", {"image/png": png()}))
    page = html(fold("q", call(1, "f", {}, "x", outputs=outputs)))
    assert "[image/png, 3.8 MB: left out]" in page
    assert page.count("<img") == 1
    assert len(page) < 20_000


def test_nothing_depends_on_the_clock() -> None:
    """Seconds, tokens and ids are not on the page."""
    page = html(fold(*SAMPLES["answered"]))
    assert "q01s01" not in page
    assert not re.search(r"\b\d+(\.\d+)? s\b|token", visible(page))


def test_the_path_of_a_model_is_not_shown() -> None:
    """A model that names itself by a path on somebody's machine is shown by its file's name."""
    assert "(/home" not in html(fold("q", [], model="/home/a/m-1.5b.gguf"))
    assert "m-1.5b · react" in html(fold("q", [], model="/home/a/m-1.5b.gguf", protocol="react"))


def test_a_number_with_a_full_stop_is_no_list() -> None:
    """Markdown reads "124." as the beginning of a list; a person does not."""
    assert "<p>124.</p>" in html(fold(*SAMPLES["rejected"]))
