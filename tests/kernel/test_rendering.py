"""Rendering a result is bounded: in time by the limits of its call, in memory whatever the object does."""

from __future__ import annotations

import asyncio
import itertools
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

HARD = 30.0
"""Seconds: a hard bound, which only an endless loop passes."""


class Endless:
    """Whatever is asked of it never ends."""

    def __repr__(self) -> str:
        for _ in itertools.count():
            time.sleep(0.001)
        return ""


class EndlessText(Exception):
    def __str__(self) -> str:
        return repr(Endless())


class EndlessIter(dict[str, int]):
    def __iter__(self) -> Iterator[str]:
        repr(Endless())
        return iter(())

    items = __iter__  # type: ignore[assignment]


class EndlessLen(list[int]):
    def __len__(self) -> int:
        repr(Endless())
        return 0


class EndlessPng:
    def _repr_png_(self) -> bytes:
        repr(Endless())
        return b""


class EndlessSpoken:
    def _repr_llm_(self) -> str:
        return repr(Endless())


class EndlessItems(list[int]):
    """Says that it has one item, and yields more and more."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class EndlessSet(set[int]):
    def __iter__(self) -> Iterator[int]:
        for n in itertools.count():
            yield n
            time.sleep(0.001)


class EndlessFigure:
    """Not matplotlib's, and its attributes never come."""

    @property
    def figure(self) -> Any:
        return repr(Endless())

    def __repr__(self) -> str:
        return "a figure"


def call(
    make: Callable[[], Any], timeout: float | None = None, seconds: float | None = None
) -> CallOutcome:
    def made() -> Any:
        return make()

    tool = replace(Tool.from_function(made), timeout=timeout)
    [outcome] = KernelExecutor(Toolbox(tool), {}).run(
        [ToolCall("q01s01c01", "made", None)], seconds=seconds
    )
    return outcome


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archytas_nb.kernel.execute._SECONDS_TO_RENDER", 0.5)


class EndlessType(type):
    """A class of which nothing can be asked."""

    def __getattribute__(cls, name: str) -> Any:
        return repr(Endless())


class EndlessName(type):
    """A class whose name never comes."""

    __name__ = property(lambda cls: repr(Endless()))  # type: ignore[assignment]


@pytest.mark.parametrize("meta", [EndlessType, EndlessName])
def test_a_result_whose_class_never_answers_is_stopped_too(meta: type[type]) -> None:
    value = meta("Value", (), {"__repr__": lambda _: repr(Endless())})()
    began = time.monotonic()
    outcome = call(lambda: value, timeout=0.3)
    assert time.monotonic() - began < HARD
    assert outcome.status in ("done", "error")


ENDLESS = [Endless, EndlessIter, EndlessLen, EndlessPng, EndlessSpoken, EndlessSet]


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("limits", [{"timeout": 0.3}, {"seconds": 0.3}])
def test_rendering_that_never_ends_is_stopped_at_the_limit_of_its_call(
    kind: Any, limits: Any
) -> None:
    value = kind()
    began = time.monotonic()
    outcome = call(lambda: value, **limits)
    assert time.monotonic() - began < HARD
    assert outcome.status == "done", "what the tool did is done"
    assert outcome.value is value
    assert kind.__name__ in outcome.text


def test_an_error_message_that_never_ends_is_stopped() -> None:
    def fail() -> None:
        raise EndlessText

    outcome = call(fail, timeout=0.3)
    assert (outcome.status, type(outcome.error)) == ("error", EndlessText)
    assert "EndlessText" in outcome.text


def test_the_result_of_an_async_tool_is_rendered_within_its_limit() -> None:
    async def later() -> Endless:
        await asyncio.sleep(0)
        return Endless()

    assert call(later, timeout=0.3).status == "done"


@pytest.mark.parametrize("on_main", [True, False])
def test_the_model_reads_which_limit_stopped_the_rendering(on_main: bool) -> None:
    def run() -> CallOutcome:
        return call(Endless, timeout=0.3)

    with ThreadPoolExecutor(1) as pool:
        outcome = run() if on_main else pool.submit(run).result()
    assert outcome.text == (
        "It returned a value of type 'Endless', which could not be shown: "
        "stopped after 0.3 s, which is this tool's timeout."
    )


def test_an_interrupt_stops_the_rendering() -> None:
    class Interrupted(Endless):
        def __repr__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return super().__repr__()

    assert call(Interrupted).status == "interrupted"


def test_a_call_that_used_up_its_time_still_has_time_to_render(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archytas_nb.kernel.execute._SECONDS_TO_RENDER", HARD)

    class Slow:
        def __repr__(self) -> str:
            time.sleep(1.5)
            return "slow, but sure"

    def late() -> Slow:
        time.sleep(0.3)
        return Slow()

    assert call(late, timeout=1.5).text.startswith("slow, but sure")


def test_reads_no_attribute_of_a_result_that_is_not_a_figure() -> None:
    assert call(EndlessFigure).text.startswith("a figure")


def test_reads_no_more_items_than_a_container_claims() -> None:
    assert render(EndlessItems([1])).text.startswith("[0, 1, 2, 3")


@pytest.mark.parametrize(
    "inside",
    [
        lambda text: text,
        lambda text: {"row": [text]},
        lambda text: [[text[n:]] for n in range(0, 1_000_000, 10_000)],
    ],
)
def test_a_generator_of_large_items_is_read_up_to_a_limit(
    inside: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archytas_nb.tools.render.MAX_BYTES", 10_000_000)
    made = 0

    def items() -> Iterator[Any]:
        nonlocal made
        while True:
            made += 1
            yield inside(b"x" * 1_000_000)

    async def items_later() -> Any:
        for item in items():
            yield item

    outcome = call(items)
    assert "the rest was not read" in outcome.text
    assert made <= 12
    assert "the rest was not read" in call(items_later).text
    assert made <= 24


def test_a_value_of_many_long_texts_is_shown_without_being_copied_whole() -> None:
    text = "x" * 1_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = render([text] * 1000)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
    )  # KB, of 1 GB of text
    assert not shown.whole
    assert len(shown.text) <= 8000
