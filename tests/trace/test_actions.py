"""The buttons below a finished run: what a press does, and that nothing is done twice or too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from archytas_nb.trace.actions import Action, ActionRow, Done

pytest.importorskip("ipywidgets")


class Waits:
    """A main thread that is busy until it is told to work."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, work: Callable[[], Any]) -> None:
        self.waiting.append(work)

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def labels(row: ActionRow) -> list[str]:
    return [each.description for each in row.widget.children[0].children]


def said(row: ActionRow) -> str:
    return str(row.widget.children[1].value)


def test_a_press_works_between_cells_once_and_its_button_may_become_another() -> None:
    done: list[str] = []

    def act(name: str) -> Callable[[], Done]:
        return lambda: (done.append(name), Done(f"did {name}", "x = 1"))[1]

    def undo() -> Done:
        row.change([Action("Redo", "%agent_undo --redo", act("redo")), again])
        return act("undo")()

    again = Action("Ask again", "", act("again"))
    between = Waits()
    row = ActionRow([Action("Undo", "%agent_undo", undo), again], between)
    stays = row.widget.children[0].children[1]
    row.press("Undo")
    row.press("Undo")
    row.press("Ask again")
    row.press("Unknown")
    assert done == []
    between.work()
    assert done == ["undo"]
    assert labels(row) == ["Redo", "Ask again"]
    assert row.widget.children[0].children[1] is stays
    assert "did undo" in said(row)
    assert "<pre" in said(row)
    row.press("Redo")
    between.work()
    assert done == ["undo", "redo"]


def test_what_fails_is_said_and_can_be_tried_again() -> None:
    def fails() -> Done:
        raise ValueError("<b>no</b>")

    between = Waits()
    row = ActionRow([Action("Undo", "", fails)], between)
    for _ in range(2):
        row.press("Undo")
        between.work()
    assert "Undo failed: &lt;b&gt;no&lt;/b&gt;" in said(row)
    assert labels(row) == ["Undo"]


def test_a_row_that_was_closed_does_nothing() -> None:
    done: list[int] = []
    between = Waits()
    row = ActionRow([Action("Undo", "", lambda: (done.append(1), Done())[1])], between)
    row.press("Undo")
    row.close()
    between.work()  # what was pressed before is still done: the person has asked for it
    row.press("Undo")
    between.work()
    assert done == [1]
    assert row.widget.comm is None
