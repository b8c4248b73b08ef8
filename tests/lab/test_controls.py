"""In a real JupyterLab: a person is asked with buttons and fields, while the cell runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.shop import Shop
from tests.batch.test_plan import data, expected
from tests.lab.lab import Lab, opened
from tests.lab.stories import CONTROLS, write_controls, write_map, write_plan
from tests.lab.test_lab import STATIC, bundles, trace_with_buttons
from tests.servers.plays import Hang, Status
from tests.servers.server import Server

FORM = ".anb-form"


def click(desk: Any, title: str) -> None:
    """Press a button of the form that waits, once it can have been read."""
    button = desk.page.locator(FORM).get_by_role("button", name=title, exact=True)
    button.wait_for()
    desk.page.wait_for_timeout(800)
    button.scroll_into_view_if_needed()
    button.click()


def test_a_call_is_run_refused_and_stopped_with_buttons_while_the_cell_runs(
    lab: Lab, sit: Any
) -> None:
    desk = sit("controls.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.wait_for_text("delete_rows waits for you")
    desk.page.locator(FORM).wait_for()
    desk.page.wait_for_timeout(600)
    desk.picture("controls", 3)
    assert desk.page.locator(".jp-Stdin").count() == 0
    click(desk, "Run")
    desk.wait_until_run(3)
    trace = trace_with_buttons(desk.outputs(3))
    assert "9 rows are left" in trace["text/plain"]
    desk.run_cell(4)
    desk.page.locator(FORM).wait_for()
    click(desk, "Refuse…")
    field = desk.page.locator(FORM).get_by_placeholder("Why? The agent reads this.")
    field.fill("two are enough")
    click(desk, "Refuse")
    desk.wait_for_text("two are enough")
    again = desk.page.locator(FORM).get_by_label("Run means")
    again.select_option("run, and do not ask again in this run")
    click(desk, "Run")
    desk.wait_until_run(4)
    trace = trace_with_buttons(desk.outputs(4))
    assert "6 rows are left" in trace["text/plain"]
    desk.run_cell(5)
    click(desk, "Edit")
    above = desk.page.locator(FORM).get_by_label("above")
    above.fill("many")
    desk.wait_for_text("expected an integer")
    assert desk.page.locator(f"{FORM} button", has_text="Run").first.is_disabled()
    assert above.get_attribute("aria-invalid") == "true"
    desk.picture("controls-edit", 5)
    above.fill("3")
    desk.wait_for_text("was: 8")
    above.press("Escape")
    desk.wait_for_text("1 change")  # the card, and the edits stay
    click(desk, "Edit")
    assert above.input_value() == "3"
    above.fill("2")
    desk.page.wait_for_timeout(800)
    above.press("Control+Enter")
    desk.wait_for_text("The agent asks you")
    desk.picture("controls-question", 5)
    click(desk, "blue")
    desk.wait_until_run(5)
    trace = trace_with_buttons(desk.outputs(5))
    assert "delete_rows(above=2)" in trace["text/plain"]
    assert "blue" in trace["text/plain"]
    desk.run_cell(6)
    click(desk, "Refuse…")
    desk.page.wait_for_timeout(800)
    form = desk.page.locator(FORM).element_handle()
    field.press("Enter")
    desk.page.wait_for_function("form => !form.isConnected", arg=form)
    desk.page.locator(FORM).locator(".anb-waits").click()
    desk.page.keyboard.press("Escape")  # which refuses nothing
    assert not desk.page.evaluate("document.activeElement.closest('.anb-form')")
    click(desk, "Stop")
    desk.wait_until_run(6)
    trace = trace_with_buttons(desk.outputs(6))
    assert "You stopped the run during the approval of delete_rows" in trace["text/plain"]
    assert "Not run: you stopped the run here" in trace["text/plain"]
    for cell in (3, 4, 5):  # their questions are not the last one any more
        [trace] = bundles(desk.outputs(cell))
        assert set(trace) == STATIC
    assert desk.page.locator(FORM).count() == 0


@pytest.mark.slow
def test_a_page_that_is_opened_again_says_what_can_be_done_and_then_shows_the_finished_trace(
    lab: Lab, sit: Any, browser: Any
) -> None:
    desk = sit("controls.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.page.locator(FORM).wait_for()
    desk.wait_for_static_copy(3, "delete_rows")
    desk.page.wait_for_timeout(1_000)
    desk.save()
    again = opened(lab, browser)
    again.evaluate("jupyterapp.commands.execute('docmanager:open', {path: 'controls.ipynb'})")
    traces = again.locator(".anb-trace:visible")
    traces.filter(has_text="had not finished when this was saved").first.wait_for()
    traces.filter(has_text="%agent_answer run delete_rows#").first.wait_for()
    click(desk, "Run")
    desk.wait_until_run(3)
    traces.filter(has_text="Nine rows are left.").first.wait_for()
    assert traces.filter(has_text="had not finished").count() == 0
    again.close()


@pytest.mark.slow
def test_a_form_that_is_being_edited_is_not_run_by_a_page_that_is_opened_again(
    lab: Lab, sit: Any, browser: Any
) -> None:
    """Such a page has no form; what was typed counts where it was typed, and an interrupt runs nothing."""
    write_controls(lab.work, "edited.ipynb")
    desk = sit("edited.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    click(desk, "Edit")
    above = desk.page.locator(FORM).get_by_label("above")
    above.fill("2")
    desk.wait_for_text("was: 8")
    desk.wait_for_static_copy(3, "delete_rows")
    desk.save()
    again = opened(lab, browser)
    again.evaluate("jupyterapp.commands.execute('docmanager:open', {path: 'edited.ipynb'})")
    traces = again.locator(".archytas-nb-trace:visible")
    traces.filter(has_text="%agent_answer run delete_rows#").first.wait_for()
    copy = traces.filter(has_text="%agent_answer run delete_rows#").first
    assert "8" in copy.inner_text()  # what would run from there: the call as the model made it
    assert again.locator(f"{FORM}:visible").count() == 0
    above.press("Control+Enter")
    desk.wait_until_run(3)
    traces.filter(has_text="you changed above").first.wait_for()
    assert "delete_rows(above=2)" in trace_with_buttons(desk.outputs(3))["text/plain"]
    again.close()
    desk.run_cell(6)
    click(desk, "Edit")
    desk.page.locator(FORM).get_by_label("above").fill("1")
    desk.wait_for_text("was: 8")
    desk.save()
    desk.page.reload()
    desk.page.wait_for_function("window.jupyterapp?.restored.then(() => true)")
    desk.page.evaluate("jupyterapp.commands.execute('docmanager:open', {path: 'edited.ipynb'})")
    traces = desk.page.locator(".archytas-nb-trace:visible")
    traces.filter(has_text="%agent_answer run delete_rows#").first.wait_for()
    assert desk.page.locator(f"{FORM}:visible").count() == 0
    desk.interrupt()
    desk.page.locator(".archytas-nb-trace:visible", has_text="interrupted").first.wait_for()
    desk.command("notebook:insert-cell-below")
    desk.type_into(1, "rows")  # below the first cell, which is active in a page that was loaded
    desk.run_cell(1)
    desk.wait_until_run(1)
    assert desk.text(1).endswith("[0, 1, 2]")


def test_an_agent_is_told_something_while_its_cell_computes(lab: Lab, sit: Any) -> None:
    desk = sit("tell.ipynb")
    for cell in range(2):
        desk.run_cell(cell)
    field = desk.page.get_by_placeholder("Tell the agent something")
    field.wait_for()
    field.fill("only <b>rows</b> of 2020")
    field.press("Enter")
    desk.wait_for_text("· with the next request")
    assert field.input_value() == ""
    field.fill("and round")
    field.press("Enter")
    desk.page.wait_for_timeout(300)
    desk.picture("tell", 1)
    (lab.work / "enough").touch()
    desk.wait_until_run(1)
    trace = trace_with_buttons(desk.outputs(1))
    assert "» only <b>rows</b> of 2020" in trace["text/plain"]
    assert "» and round" in trace["text/plain"]
    assert "<b>rows" not in trace["text/html"]
    desk.run_cell(2)
    desk.wait_until_run(2)
    shown = desk.outputs(2)[0]["data"]["text/plain"]
    assert r"only <b>rows</b> of 2020\n\nand round" in shown


def test_a_map_is_paused_continued_and_stopped_with_buttons(lab: Lab, sit: Any) -> None:
    hangs = [True]

    def fault(row: int, asked: int) -> Any:
        if row == 1 and not asked:
            return Status(400, "no <b>such</b> row")
        if row == 7 and hangs:
            return Hang()
        return None

    shop = Shop(fault, latency=0.3)
    with Server(then=shop) as server:
        write_map(lab.work, server.url, "map-panel.ipynb", CONTROLS)
        desk = sit("map-panel.ipynb")
        for cell in range(2):
            desk.run_cell(cell)
        desk.run_cell(2)
        page = desk.page
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Go on", exact=True).wait_for()
        page.get_by_role("button", name="Go on", exact=True).click()
        page.get_by_role("button", name="Retry failed rows", exact=True).click()
        desk.wait_for_text("7 of 8 rows done")
        desk.picture("map", 2, dark=True)
        page.get_by_role("button", name="Stop", exact=True).click()
        desk.wait_until_run(2)
        assert page.get_by_role("button", name="Pause", exact=True).count() == 0
        desk.picture("map-ended", 2, dark=True)
    assert shop.asked[1] == 2
    [line] = bundles(desk.outputs(2))
    assert "7 of 8 rows done" in line["text/plain"]
    assert "stopped by you" in line["text/plain"]


def test_rows_that_failed_are_looked_at_and_asked_again_when_a_map_has_ended(
    lab: Lab, sit: Any
) -> None:
    """The new result takes the place of the old one in its variable, and the button goes."""
    shop = Shop(lambda row, asked: Status(400, "withheld") if row in (1, 5) and not asked else None)
    with Server(then=shop) as server:
        write_map(lab.work, server.url, "map-again.ipynb", CONTROLS)
        desk = sit("map-again.ipynb")
        for cell in range(3):
            desk.run_cell(cell)
        desk.wait_until_run(2)
        again = desk.page.get_by_role("button", name="Retry 2", exact=True)
        again.wait_for()
        desk.page.locator("summary:visible").filter(has_text="withheld").click()
        desk.wait_for_text("text: row 5")
        desk.picture("map-failed", 2)
        again.click()
        desk.wait_for_text("8 of 8 rows done")
        again.wait_for(state="detached")
        assert "6 of 8" not in desk.text(2)  # it has the place of the old one
        desk.run_cell(3)
        desk.wait_until_run(3)
        desk.picture("map-again", 2)
    assert desk.text(3).count("done") == 8
    assert [shop.asked[row] for row in range(8)] == [1, 2, 1, 1, 1, 2, 1, 1]
    assert desk.console == []


def test_a_plan_is_changed_and_run_with_buttons(lab: Lab, sit: Any) -> None:
    write_plan(lab.work)
    desk = sit("plan.ipynb")
    for cell in range(2):
        desk.run_cell(cell)
    desk.run_cell(2)
    desk.wait_for_text("The program and the agent agree in 10 of 10 rows")
    desk.page.locator(FORM).wait_for()
    desk.page.wait_for_timeout(600)
    desk.picture("plan", 2, dark=True)
    first = desk.page.locator(FORM).get_by_role("button").first
    assert first.inner_text() == "Use the program for all 60"
    assert "mod-primary" in str(first.get_attribute("class"))
    assert desk.page.locator(".jp-Stdin").count() == 0
    click(desk, "Change the program…")
    field = desk.page.locator(FORM).get_by_placeholder("Your answer")
    field.fill("Twice as much.")
    click(desk, "Answer")
    desk.wait_for_text("The program and the agent differ in 10 of 10 rows")
    desk.page.wait_for_timeout(1000)
    desk.picture("plan-changed", 2, dark=True)
    assert desk.page.locator(f"{FORM} .mod-primary").count() == 0
    click(desk, "Use the program for all 60")
    desk.wait_until_run(2)
    assert desk.page.locator(FORM).count() == 0
    desk.wait_for_text("10 of 10 compared rows differ from the agent")
    desk.picture("plan-run", 2, dark=True)
    desk.run_cell(3)
    desk.wait_until_run(3)
    shown = desk.outputs(3)[0]["data"]["text/plain"]
    frame = data(60)
    assert shown == repr((2 * sum(expected(frame)), 2, {"program"}))
