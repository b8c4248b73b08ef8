"""In a real JupyterLab: a program that runs, fails, is approved in a loop and is finished."""

from __future__ import annotations

from typing import Any


def test_a_program_is_seen_while_it_runs_fails_waits_and_when_it_is_finished(sit: Any) -> None:
    desk = sit("programs.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.wait_for_text('stock(item="pears")')
    desk.picture("program-running", 3, dark=True)
    desk.wait_for_text("KeyError")
    desk.picture("program-failed", 3, dark=True)
    desk.wait_until_run(3)
    finished = desk.text(3)
    assert "Few are left of apples (3) and figs (7)." in finished
    desk.picture("program-finished", 3, dark=True)
    desk.unfold()
    assert desk.faint_texts(".anb-trace") == []
    desk.picture("program-unfolded", 3, dark=True)

    desk.run_cell(4)
    desk.wait_for_text("waiting for approval")
    desk.page.locator(".jp-Stdin").wait_for()
    waiting = desk.text(4)
    assert "amount = 17" in waiting
    desk.picture("program-approval", 4, dark=True)
    desk.answer("y")
    desk.wait_for_text("amount = 13")
    desk.picture("program-approval-second", 4, dark=True)
    desk.answer("n")
    desk.wait_until_run(4)
    assert "Apples are ordered, figs are not." in desk.text(4)
    desk.picture("program-refused", 4, dark=True)
