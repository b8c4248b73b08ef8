"""A person pauses, continues and stops a map, and has it ask again about rows that failed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import pytest

from archytas_nb import Agent, OpenAIModel
from archytas_nb.batch import engine
from archytas_nb.trace import front_end
from archytas_nb.trace.header import StopButton
from archytas_nb.trace.map_panel import Column, MapPanel
from tests.batch.shop import Shop
from tests.front_end import find
from tests.servers.plays import Status
from tests.servers.server import Exchange, Server


class Label(TypedDict):
    """An answer of the shop."""

    label: str
    number: int


class Panel:
    """In place of the panel: a script acts when it is drawn, from another thread.

    Args:
        act: Called each time with the panel and the rows that failed.
    """

    is_shown = True
    was_stopped = False

    def __init__(self, act: Callable[[Panel, Sequence[tuple[str, str]]], object]) -> None:
        self._act = act
        self.closed = False

    def __call__(self, do: Any, pause: Any, retry: Any) -> Panel:
        self.do = do
        self.pause = pause
        self.retry = retry
        return self

    def press(self, work: Callable[[], object]) -> None:
        """Press a button as a front end does: on another thread, which only puts it in a queue."""
        thread = threading.Thread(target=self.do, args=(work,))
        thread.start()
        thread.join()

    def draw(self, failures: Sequence[tuple[str, str]], columns: Sequence[Column]) -> None:
        self.columns = columns
        self._act(self, failures)

    def close(self) -> None:
        self.closed = True


def ask(
    shop: Shop, act: Callable[[Panel, Sequence[tuple[str, str]]], object],
    monkeypatch: pytest.MonkeyPatch, rows: int = 8, workers: int = 2, **options: Any,
) -> list[Any]:  # fmt: skip
    monkeypatch.setattr(engine, "_LOOK", 0.01)
    panel = Panel(act)
    monkeypatch.setattr(engine, "map_panel", panel)
    with Server(then=shop) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        texts = [f"row {n}" for n in range(rows)]
        found: list[Any] = agent.map(texts, "Label", store=None, workers=workers, **options)
    assert panel.closed
    return found


def test_no_row_begins_while_a_map_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(latency=0.03)
    looks: list[int] = []

    def act(panel: Panel, _: Any) -> None:
        asked = sum(shop.asked.values())
        if not looks and asked:
            panel.press(lambda: panel.pause(True))
        if looks or asked:
            looks.append(asked)
        if len(looks) == 30:
            panel.press(lambda: panel.pause(False))

    found = ask(shop, act, monkeypatch)
    assert [each["status"] for each in found] == ["done"] * 8
    assert len(set(looks[15:30])) == 1
    assert looks[15] < 8


def test_what_failed_is_asked_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(lambda row, asked: Status(400, "no") if row == 3 and not asked else None, 0.02)
    pressed: list[str] = []

    def act(panel: Panel, failures: Sequence[tuple[str, str]]) -> None:
        if failures and not pressed:
            pressed.extend(row for row, _ in failures)
            for _ in range(3):
                panel.press(panel.retry)

    found = ask(shop, act, monkeypatch, rows=30, workers=1)
    assert [each["status"] for each in found] == ["done"] * 30
    assert ["row 3" in each for each in pressed] == [True]
    assert shop.asked == {n: 2 if n == 3 else 1 for n in range(30)}


def test_what_failed_is_asked_again_while_only_the_last_row_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = threading.Event()

    class Slow(Shop):
        def _answer(self, row: int, exchange: Exchange) -> None:
            if row == 7:
                again.wait(20)  # it ends only after row 1 was asked again
            super()._answer(row, exchange)
            if row == 1:
                again.set()

    shop = Slow(lambda row, asked: Status(400, "no") if row == 1 and not asked else None)
    looks: list[None] = []

    def act(panel: Panel, failures: Sequence[tuple[str, str]]) -> None:
        if failures and len(shop.asked) == 8:
            looks.append(None)
            if len(looks) == 20:  # the other worker has found no row since
                panel.press(panel.retry)

    found = ask(shop, act, monkeypatch)
    assert looks
    assert [each["status"] for each in found] == ["done"] * 8
    assert list(shop.paid)[-2:] == [1, 7]


def test_the_answers_so_far_are_counted_while_rows_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_GLANCE", 0.0)
    seen: list[dict[str, int]] = []

    def act(panel: Panel, _: Any) -> None:
        counted = [each for each in panel.columns if each.name == "label" and each.counts]
        seen.extend(dict(each.counts) for each in counted)

    ask(Shop(latency=0.03), act, monkeypatch, rows=24, workers=2, output_type=Label)
    sums = [sum(each.values()) for each in seen]
    assert sums == sorted(sums)
    assert len(set(sums)) >= 3
    for each in seen:
        assert set(each) <= {"even", "odd"}
        assert max(each.values()) <= 12


def test_the_last_failures_and_the_state_of_the_buttons_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[Any] = []
    states: list[bool] = []
    jobs: list[Callable[[], object]] = []
    retried: list[bool] = []

    class Handle:
        def update(self, data: dict[str, Any], **_: Any) -> None:
            shown.append(data)

    monkeypatch.setattr(front_end, "display", lambda _: Handle())
    monkeypatch.setattr(StopButton, "works", property(lambda _: True))
    panel = MapPanel(jobs.append, states.append, lambda: retried.append(True))
    panel.draw([])
    with pytest.raises(LookupError):
        find(panel.box, "Retry failed rows")
    panel.draw([("row <i>1</i>", "<script>no</script>")], [Column("topic", (("<b>x", 2),))])
    find(panel.box, "Pause").click()
    find(panel.box, "Retry failed rows").click()
    assert states == []  # nothing is done on the thread of the click
    for job in jobs:
        job()
    assert states == [True]
    assert retried == [True]
    find(panel.box, "Go on").click()
    jobs[-1]()
    assert states == [True, False]
    text = panel._failures.value
    assert "&lt;script&gt;no" in text
    assert "<i>1" not in text
    assert "&lt;b&gt;x 2" in text
    panel.close()
    assert shown == [{"text/html": ""}]
