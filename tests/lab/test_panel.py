"""In a real JupyterLab: a call that waits for approval, what was decided on it, and the phases of a run."""

from __future__ import annotations

import re
from typing import Any

import nbformat
from nbconvert import MarkdownExporter

from tests.lab.lab import Lab
from tests.lab.test_lab import STATIC, bundles

_APPROVED = r"approved by you( after \d+ s)?, edited limit 5 → 10"


def test_a_call_waits_in_the_trace_and_is_edited_refused_or_interrupted_there(
    lab: Lab, sit: Any
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
    desk.picture("panel-pending", 3, dark=True)
    desk.answer("?")
    desk.answer("limit = 10")
    desk.wait_for_text("limit = 5 → 10")
    desk.page.locator(".jp-Stdin").wait_for()
    assert desk.text(3).count("run? [y] run") == 1  # of what was answered, nothing is seen
    assert "All of the call" not in desk.text(3)
    desk.picture("panel-edited", 3)
    desk.watch_texts()
    desk.answer("y")
    desk.wait_until_shown("edited limit 5 → 10")
    desk.picture("panel-approved", 3)
    desk.wait_until_run(3)
    finished = desk.text(3)
    decided = r"\(approved by you( after \d+ s)?, you changed limit\)"
    assert re.search(rf"✎ query \(sql=.*, limit=10\) → 10 rows {decided}", finished)
    [trace] = bundles(desk.outputs(3))
    assert re.search(rf"query\(.*\) \({_APPROVED}\)", trace["text/plain"])
    assert "waiting" not in finished
    desk.picture("panel-finished", 3)

    desk.run_cell(4)
    desk.wait_for_text("It changes the table penguins.")
    assert "tidy\\u202e up" in desk.text(4)
    desk.picture("panel-reason", 4)
    desk.answer("take three rows at most")
    desk.wait_for_text("limit = 3")
    desk.answer("n")
    desk.wait_until_run(4)
    [trace] = bundles(desk.outputs(4))  # what is seen is cut sooner the longer the decision took
    assert re.search(r"refused by you( after \d+ s)?: take three rows at most", trace["text/plain"])
    desk.picture("panel-refused", 4)

    desk.run_cell(5)
    desk.wait_for_text("It changes the table penguins.")
    desk.page.locator(".jp-Stdin").wait_for()
    desk.interrupt()
    desk.wait_until_run(5)
    stopped = desk.text(5)
    assert "Interrupted during" in stopped
    assert "waiting" not in stopped
    assert desk.page.locator(".jp-OutputArea-stdin-item").count() == 0
    desk.picture("panel-interrupted", 5)
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
    text, _ = MarkdownExporter().from_notebook_node(book)
    assert re.search(_APPROVED, re.sub("<[^>]+>", "", text))  # the 5 is struck through


def test_a_kernel_that_is_restarted_while_a_call_waits_leaves_no_box_that_looks_alive(
    lab: Lab, sit: Any
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
    reader.wait_for_text("The run had not finished")
    reader.wait_for_copy("The run had not finished")
    reader.page.wait_for_timeout(1_000)  # in which a widget would say that it is not there
    read = reader.text(5)
    assert "query · not decided when this was saved" in read
    assert "The run had not finished" in read
    assert "waiting" not in read
    assert "Error displaying widget" not in read
    reader.picture("panel-restarted", 5)


def test_the_last_line_says_what_is_waited_for_in_each_phase(sit: Any) -> None:
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
        ("running", "running sleep for 2 s · step 1"),
    ):
        places.append(desk.wait_until_shown(words))
        desk.picture(f"status-{name}", 3)
    assert places == sorted(places)
    desk.wait_until_run(3)
    desk.run_cell(4)
    desk.wait_until_run(4)
    desk.picture("status-failed", 4)
