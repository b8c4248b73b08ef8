"""In a real JupyterLab and Notebook 7: keys belong to whoever has the focus, and a form waits for a deliberate act."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab import Desk, Lab
from tests.lab.stories import write_forms, write_insert

CELLS = "jupyterapp.shell.currentWidget.content.widgets"
FORM = ".anb-form"
LETTERS = "abcdefghijklmnopqrstuvwxyzabcd"
_ASKS, _NEXT = 3, 4
_COUNT_KEYS = """() => {
  window.keysElsewhere = 0
  if (window.keysAreCounted) return
  window.keysAreCounted = true
  document.addEventListener('keydown', event => {
    if (!event.target.closest('.anb-form') && event.key !== 'Shift') window.keysElsewhere++
  }, true)
}"""


class Classic(Desk):
    """A notebook that is open in Notebook 7."""

    def __init__(self, page: Any, lab: Lab, notebook: str) -> None:
        page.goto(lab.address_of(f"notebooks/{notebook}"))
        page.wait_for_function("window.jupyterapp?.restored.then(() => true)")
        super().__init__(page, notebook)

    def command(self, name: str, *, wait: bool = True, **given: str) -> None:
        if name != "docmanager:open":  # this would open another page
            super().command(name, wait=wait, **given)


@pytest.fixture
def seat(request: pytest.FixtureRequest, lab: Lab, browser: Any, sit: Any) -> Iterator[Desk]:
    """The notebook in which calls wait, in the front end that the parameter names."""
    name = f"forms-{request.param}.ipynb"
    write_forms(lab.work, name)
    (lab.work / "ran").write_text("")
    if request.param == "lab":
        yield sit(name)
        return
    pytest.importorskip("notebook")
    page = browser.new_page()
    page.set_default_timeout(60_000)
    yield Classic(page, lab, name)
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    page.close()


def be_in_next_cell(desk: Desk, mode: str) -> None:
    content = "jupyterapp.shell.currentWidget.content"
    desk.page.evaluate(f"{content}.activeCellIndex = {_NEXT}; {content}.mode = {mode!r}")
    if mode == "edit":
        desk.page.locator(".jp-Notebook .jp-Cell .cm-content").nth(_NEXT).click()
        desk.page.keyboard.press("Control+End")
    desk.page.evaluate(_COUNT_KEYS)


def press_keys(desk: Desk, mode: str) -> None:
    """Press what a person presses who works in the next cell, and check that all of it arrives."""
    keyboard = desk.page.keyboard
    before = desk.page.evaluate("keysElsewhere")
    if mode == "edit":
        source = desk.source(_NEXT)
        keyboard.type(LETTERS)
        keyboard.press("Enter")
        keyboard.type(LETTERS)
        keyboard.press("Space")
        expected = f"{source}{LETTERS}\n{LETTERS} "
        assert re.sub(r"\n +", "\n", desk.source(_NEXT)) == re.sub(r"\n +", "\n", expected)
    else:
        keyboard.type("kj" * 15)
        keyboard.press("Space")
        keyboard.press("Enter")
        keyboard.press("Escape")
    keyboard.press("Shift+Enter")
    pressed = len(LETTERS) * 2 + 3 if mode == "edit" else 30 + 4
    assert desk.page.evaluate("keysElsewhere") - before == pressed


def decide(desk: Desk, how: str) -> None:
    """Run the call that waits, by a deliberate act."""
    form = desk.page.locator(FORM)
    form.scroll_into_view_if_needed()
    run = form.get_by_role("button", name="Run", exact=True)
    run.and_(desk.page.locator(":enabled")).wait_for()
    if how == "mouse":
        run.click()
        return
    form.locator(".anb-waits").click()  # the focus is on the card
    desk.page.keyboard.press("Enter")
    desk.page.keyboard.press("Shift+Enter")
    desk.page.keyboard.press("Escape")
    form.locator(".anb-waits").click()
    assert form.is_visible()
    if how == "Control+Enter":
        desk.page.keyboard.press(how)
        return
    desk.page.keyboard.press("Tab")
    assert desk.page.evaluate("document.activeElement.textContent") == "Run"
    desk.page.keyboard.press(how)


@pytest.mark.parametrize(
    ("seat", "times"),
    [
        ("lab", 2),
        ("notebook", 1),
        pytest.param("lab", 20, marks=pytest.mark.slow),
        pytest.param("notebook", 20, marks=pytest.mark.slow),
    ],
    indirect=["seat"],
)
def test_keys_for_the_next_cell_run_nothing_and_all_of_them_arrive(
    seat: Desk, times: int, lab: Lab
) -> None:
    """In edit and in command mode, ten times each; then the call is run, each time in another way."""
    ran = lab.work / "ran"
    for cell in range(_ASKS):
        seat.run_cell(cell)
    seat.wait_until_run(_ASKS - 1)
    seat.run_cell(_ASKS)
    for number in range(times):
        mode = ("edit", "command")[number % 2]
        how = ("mouse", "Enter", "Space", "Control+Enter")[number // 2 % 4]
        be_in_next_cell(seat, mode)
        if mode == "edit":
            seat.page.keyboard.type(LETTERS, delay=30)  # the form appears meanwhile
        form = seat.page.wait_for_selector(FORM)
        assert form is not None
        focused = seat.page.evaluate("document.activeElement.className")
        assert "archytas-nb" not in focused
        assert seat.page.title().startswith("● ")
        be_in_next_cell(seat, mode)
        press_keys(seat, mode)
        seat.page.wait_for_timeout(800)  # what is pressed earlier was meant for something else
        assert form.evaluate("form => form.isConnected")
        assert ran.read_text() == "x" * number
        decide(seat, how)
        seat.page.wait_for_function("form => !form.isConnected", arg=form)
        seat.page.wait_for_timeout(200)
        assert ran.read_text() == "x" * (number + 1)
    if seat.page.locator(FORM).count():
        seat.page.locator(FORM).get_by_role("button", name="Stop").click()
    assert not [each for each in seat.console if "archytas" in each]


@pytest.mark.parametrize("front_end", ["lab", "notebook"])
def test_code_becomes_a_cell_below_its_own_by_a_click(
    front_end: str, lab: Lab, browser: Any, sit: Any
) -> None:
    """Also code of a question in the background, which has the same buttons as any other."""
    name = f"insert-{front_end}.ipynb"
    write_insert(lab.work, name)
    page = None
    if front_end == "lab":
        desk = sit(name)
    else:
        pytest.importorskip("notebook")
        page = browser.new_page()
        page.set_default_timeout(60_000)
        desk = Classic(page, lab, name)
    for cell in range(3):
        desk.run_cell(cell)
    desk.wait_for_text("That is all.")
    for cell in (3, 4):  # the notebook is trusted then; the person is elsewhere when they press
        desk.run_cell(cell)
        desk.wait_until_run(cell)
    output = desk.page.locator(".jp-Notebook .jp-Cell").nth(2)
    output.locator(".anb-answer pre").hover()
    output.get_by_role("button", name="Insert as cell").click()
    code = "for row in rows:\n    print(row)"
    desk.page.wait_for_function(
        f"{CELLS}.length === 6 && {CELLS}[3].model.sharedModel.source === {json.dumps(code)}"
    )
    assert desk.source(4) == "'the next cell'"
    buttons = output.locator(".anb-actions button:visible")
    buttons.get_by_text("Keep as code").click()
    output.locator(".anb-actions pre").hover()
    output.locator(".anb-actions").get_by_role("button", name="Insert as cell").click()
    desk.page.wait_for_function(f"{CELLS}.length === 7")
    assert "rows.append(11)" in desk.source(3)
    buttons.get_by_text("Undo").click()
    desk.wait_for_text("Undone at")
    if page is None:
        assert desk.console == []
    else:  # Notebook 7 has an error of its own
        page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
        page.close()
