"""In a real JupyterLab: a program that runs, fails, is approved in a loop and is finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab.lab import DARK, LIGHT


def test_a_program_is_seen_while_it_runs_fails_waits_and_when_it_is_finished(
    sit: Any, pictures: Path
) -> None:
    def both(desk: Any, name: str, cell: int) -> None:
        desk.picture(pictures / f"program-{name}.png", cell)
        desk.change_theme(DARK)
        desk.picture(pictures / f"program-{name}-dark.png", cell)
        desk.change_theme(LIGHT)

    desk = sit("programs.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.wait_for_text('stock(item="pears")')
    both(desk, "running", 3)
    desk.wait_for_text("KeyError")
    both(desk, "failed", 3)
    desk.wait_until_run(3)
    finished = desk.text(3)
    assert "Few are left of apples (3) and figs (7)." in finished
    both(desk, "finished", 3)
    desk.unfold()
    assert desk.faint_texts(".archytas-nb-trace") == []
    both(desk, "unfolded", 3)

    desk.run_cell(4)
    desk.wait_for_text("waiting for approval")
    desk.page.locator(".jp-Stdin").wait_for()
    waiting = desk.text(4)
    assert "amount = 17" in waiting
    both(desk, "approval", 4)
    desk.answer("y")
    desk.wait_for_text("amount = 13")
    both(desk, "approval-second", 4)
    desk.answer("n")
    desk.wait_until_run(4)
    assert "Apples are ordered, figs are not." in desk.text(4)
    both(desk, "refused", 4)
