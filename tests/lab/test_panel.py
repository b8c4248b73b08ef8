"""In a real JupyterLab: a call that waits for approval, what was decided on it, and the phases of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter, MarkdownExporter

from tests.lab.lab import DARK, LIGHT, Lab
from tests.lab.test_lab import STATIC, bundles

_APPROVED = r"approved by you( after \d+ s)?, edited limit 5 → 10"


def test_a_call_waits_in_the_trace_and_is_edited_refused_or_interrupted_there(
    lab: Lab, sit: Any, browser: Any, pictures: Path
) -> None:
    """The panel has every argument; after it, what was decided; of the lines typed the file keeps none."""
    desk = sit("query.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.wait_for_text("query · waiting for approval")
    desk.page.locator(".jp-Stdin").wait_for()
    seen = desk.text(3)
    for part in ("-- all of them FROM penguins WHERE island", "limit = 5", "table = 'penguins' (default)",
                 "waiting for you · step 1"):  # fmt: skip
        assert part in seen
    assert "The agent wants to run" not in seen  # as text it would be there twice
    desk.picture(pictures / "panel-pending.png", 3)
    desk.change_theme(DARK)
    desk.picture(pictures / "panel-pending-dark.png", 3)
    desk.change_theme(LIGHT)
    desk.answer("?")
    desk.answer("limit = 10")
    desk.wait_for_text("limit = 5 → 10")
    desk.picture(pictures / "panel-edited.png", 3)
    desk.watch_texts()
    desk.answer("y")
    desk.wait_until_shown("edited limit 5 → 10")
    desk.picture(pictures / "panel-approved.png", 3)
    desk.wait_until_run(3)
    finished = desk.text(3)
    assert re.search(rf"query\(sql=.*, limit=10\) \({_APPROVED}\)", finished)
    assert "waiting" not in finished
    desk.picture(pictures / "panel-finished.png", 3)

    desk.run_cell(4)
    desk.wait_for_text("It changes the table penguins.")
    assert "tidy\\u202e up" in desk.text(4)
    desk.picture(pictures / "panel-reason.png", 4)
    desk.answer("take three rows at most")
    desk.wait_for_text("limit = 3")
    desk.answer("n")
    desk.wait_until_run(4)
    assert re.search(r"refused by you( after \d+ s)?: take three rows at most", desk.text(4))
    desk.picture(pictures / "panel-refused.png", 4)

    desk.run_cell(5)
    desk.wait_for_text("It changes the table penguins.")
    desk.page.locator(".jp-Stdin").wait_for()
    desk.interrupt()
    desk.wait_until_run(5)
    stopped = desk.text(5)
    assert "Interrupted during" in stopped
    assert "waiting" not in stopped
    assert desk.page.locator(".jp-OutputArea-stdin-item").count() == 0
    desk.picture(pictures / "panel-interrupted.png", 5)
    desk.save()

    cells = lab.saved("query.ipynb")["cells"]
    for cell in cells[3:]:
        [trace] = bundles(cell["outputs"])
        assert set(trace) == STATIC
    assert [[each["output_type"] for each in cell["outputs"]] for cell in cells[3:]] == [
        ["display_data"],
        ["display_data"],
        ["display_data", "error"],
    ]
    book = nbformat.read(lab.work / "query.ipynb", as_version=4)
    page, _ = HTMLExporter().from_notebook_node(book)
    text, _ = MarkdownExporter().from_notebook_node(book)
    assert re.search(_APPROVED, re.sub("<[^>]+>", "", text))  # the 5 is struck through
    (pictures / "panel-export.md").write_text(text, encoding="utf-8")
    shown = browser.new_page(viewport={"width": 1000, "height": 1400})
    shown.set_content(page)
    shown.screenshot(path=pictures / "panel-export.png", full_page=True)
    shown.close()


def test_a_kernel_that_is_restarted_while_a_call_waits_leaves_no_box_that_looks_alive(
    lab: Lab, sit: Any, pictures: Path
) -> None:
    desk = sit("query.ipynb")
    for cell in (0, 1, 2, 5):
        desk.run_cell(cell)
    desk.wait_for_text("It changes the table penguins.")
    desk.wait_for_static_copy(5, "query")
    desk.restart_kernel()
    desk.save()
    desk.command("kernelmenu:shutdown")
    desk.close()
    reader = sit("query.ipynb", kernel=False)
    reader.wait_for_text("The run did not finish")
    reader.wait_for_copy("The run did not finish")
    reader.page.wait_for_timeout(1_000)  # in which a widget would say that it is not there
    read = reader.text(5)
    assert "query · approval was requested, but not given" in read
    assert "The run did not finish" in read
    assert "waiting" not in read
    assert "Error displaying widget" not in read
    reader.picture(pictures / "panel-restarted.png", 5)


def test_the_last_line_says_what_is_waited_for_in_each_phase(sit: Any, pictures: Path) -> None:
    desk = sit("phases.ipynb")
    desk.watch_texts()
    for cell in range(4):
        desk.run_cell(cell)
    places = []
    for name, words in (
        ("loading", "Loading the local model qwen2.5-coder"),
        ("busy", "waiting for another question to the local model · step 1"),
        ("reading", "reading the prompt: 512 of 2,048 tokens · step 1"),
        ("retry", "Trying again (1 of 3) · 2 s left"),
        ("writing", "writing · step 1"),
        ("running", "running sleep 2 s · step 1"),
    ):
        places.append(desk.wait_until_shown(words))
        desk.picture(pictures / f"status-{name}.png", 3)
    assert places == sorted(places)
    desk.wait_until_run(3)
    desk.run_cell(4)
    desk.wait_until_run(4)
    desk.picture(pictures / "status-failed.png", 4)
