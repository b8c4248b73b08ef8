"""Figures that a tool leaves open belong to its output, once, and do not show up elsewhere."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.tools import run_all, run_one

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    before = pyplot.get_backend()
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def plot() -> None:
    pyplot.figure()
    pyplot.plot([1, 2])


def test_an_open_figure_is_displayed_sent_to_the_model_and_closed() -> None:
    outcome = run_one(plot)
    [output] = outcome.outputs
    assert output.kind == "display"
    assert base64.b64decode(str(output.data["image/png"]))[:4] == b"\x89PNG"
    assert outcome.images == (output.data["image/png"],)
    assert outcome.text.startswith("1 image (")
    assert "<Figure" not in outcome.text
    assert pyplot.get_fignums() == []


def test_earlier_figures_are_left_alone() -> None:
    mine = pyplot.figure()
    assert len(run_one(plot).outputs) == 1
    assert pyplot.get_fignums() == [mine.number]


def test_a_returned_figure_or_axes_is_not_shown_twice() -> None:
    def figure() -> object:
        return pyplot.figure()

    def axes() -> object:
        return pyplot.figure().add_subplot()

    for function in (figure, axes):
        outcome = run_one(function)
        assert (len(outcome.images), outcome.outputs) == (1, ())
        assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    "wrap",
    [
        lambda figure: (figure, 3),
        lambda figure: [figure],
        lambda figure: {"plot": figure, "n": [1]},
        lambda figure: {"plots": [figure.add_subplot()]},
        lambda figure: (figure, figure.add_subplot()),
    ],
)
def test_a_figure_inside_a_returned_container_is_drawn_once_and_announced(wrap: Any) -> None:
    def draw() -> object:
        return wrap(pyplot.figure())

    outcome = run_one(draw)
    assert (len(outcome.images), outcome.outputs) == (1, ())
    assert "[image: " in outcome.text
    assert "1 image (" in outcome.text
    assert "shown to the user, attached" in outcome.text
    assert "<Figure" not in outcome.text
    assert pyplot.get_fignums() == []


def test_of_many_returned_figures_those_not_drawn_with_the_result_are_shown_as_output() -> None:
    def draw() -> object:
        return [pyplot.figure(figsize=(1, 1)) for _ in range(12)]

    outcome = run_one(draw)
    assert outcome.text.count("[image: Figure]") == 5
    assert len(outcome.outputs) == 7


def test_figures_of_a_failing_tool_are_shown() -> None:
    def fail() -> None:
        plot()
        raise RuntimeError("too late")

    outcome = run_one(fail)
    assert (outcome.status, len(outcome.outputs)) == ("error", 1)
    assert pyplot.get_fignums() == []


def test_draws_at_most_ten_figures_and_closes_all() -> None:
    def many() -> None:
        for _ in range(15):
            pyplot.figure(figsize=(1, 1))

    outcome = run_one(many)
    assert len([each for each in outcome.outputs if each.kind == "display"]) == 10
    assert "15 figures were left open; 10 of them are shown" in outcome.text
    assert pyplot.get_fignums() == []


def test_figures_of_concurrent_tools_are_added_to_the_last() -> None:
    async def one() -> None:
        plot()

    first, last = run_all({"one": one, "two": one})
    assert first.outputs == ()
    assert [each.kind for each in last.outputs] == ["display", "display"]
    assert "Shown while these 2 calls ran" in last.text


def test_skips_a_figure_that_cannot_be_drawn() -> None:
    def broken() -> str:
        pyplot.figure().text(0, 0, "$\\nonsense{$")
        return "done"

    outcome = run_one(broken)
    assert (outcome.status, outcome.value, outcome.outputs) == ("done", "done", ())
