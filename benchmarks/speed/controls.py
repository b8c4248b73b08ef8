"""How fast a click or a text arrives while a cell runs: ``python -m benchmarks.speed.controls``.

Drives JupyterLab and Notebook 7 in Chromium. For each way in which the main thread can be busy: the
seconds from the start of the cell until its button is there, from a text to the line
that says it will be told, and from a click on Stop to the end of the cell. Then texts in a row while a
reply is streamed, and forms in a row, each answered with one click: how many arrived, and how often.

``--ipykernel FOLDER`` has the kernels import ipykernel from a folder, into which
``pip install --no-deps --target FOLDER ipykernel==7.0.1`` has put it; it may be given several times.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.chromium import CHROMIUM, FLAGS
from tests.lab.lab import REPOSITORY, Lab
from tests.servers.plays import Hang
from tests.servers.server import Server

PAGES = {"JupyterLab": "lab/tree", "Notebook": "notebooks"}
BUSY = ("sleep", "numpy", "model", "thread")

SETUP = """\
%load_ext archytas_nb
%config ArchytasNB.ask_with = 'auto'
import archytas_nb as nb
import threading, time
from pathlib import Path
import numpy as np
from tests.lab.typist import Typist

def sleep() -> int:
    "Sleep for a minute."
    time.sleep(60)
    return 1

def numpy() -> int:
    "Multiply matrices for a minute."
    ends = time.monotonic() + 60
    matrix = np.random.rand(1200, 1200)
    while time.monotonic() < ends:
        matrix = matrix @ matrix
        matrix /= np.abs(matrix).max()
    return 1

def thread() -> int:
    "Wait for a thread that sleeps for a minute."
    other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
    other.start()
    other.join()
    return 1

for each in (sleep, numpy, thread):
    nb.tool(each)
made = []

@nb.tool(approve=True)
def note(number: int) -> int:
    "Note a number."
    made.append(number)
    return number

models = {each: Typist((each, {})) for each in ("sleep", "numpy", "thread")}

class Writer(Typist):
    "Writes until all texts are sent, however slow the machine is."

    def _pieces(self, text):
        while text and not Path("sent").exists():
            yield "word "

words = Writer(("word", "note_nothing", {}), ("final_answer", "Done."))

@nb.tool
def note_nothing() -> int:
    "Do nothing."
    return 0
"""
_IDLE = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget
  return panel?.content?.widgets && panel.sessionContext?.session?.kernel?.status === 'idle'
}"""
_CONTENT = "jupyterapp.shell.currentWidget.content"


def notebook(url: str, clicks: int) -> Any:
    """The cells: the set-up, one for each way of being busy, the texts, the forms, and what was counted."""
    cells = [SETUP + f'models["model"] = nb.OpenAIModel("tiny-1", {url!r}, "no-key")']
    for busy in BUSY:
        cells[0] += f"\n{busy}_model = models[{busy!r}]"
        cells.append(f"%agent --new --model {busy}_model Go")
    calls = f'[("note", {{"number": n}}) for n in range({clicks})]'
    cells[0] += f'\nforms = Typist(*{calls}, ("final_answer", "Done."), piece=20, pause=0.01)'
    limits = f"--max-steps {clicks + 5}"
    cells += [
        "%agent --new --model words Write",
        "words.asked[-1].messages[-1]['content']",
        f"%config ArchytasNB.max_total_tokens = 100_000_000\n%agent --new --model forms {limits} Note them",
        "made",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return book


class Seat:
    """A page with the notebook."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def run(self, cell: int) -> None:
        """Run a cell, without waiting for it."""
        self.page.evaluate(f"{_CONTENT}.activeCellIndex = {cell}")
        self.page.evaluate("() => { void jupyterapp.commands.execute('notebook:run-cell') }")

    def wait_until_run(self, cell: int, seconds: float = 30) -> None:
        """Wait until a cell has its number, and the kernel nothing to do."""
        number = f"{_CONTENT}.widgets[{cell}].model.executionCount"
        self.page.wait_for_function(f"() => {number} && ({_IDLE})()", timeout=1_000 * seconds)

    def output(self, cell: int) -> str:
        """The text of what a cell returned."""
        outputs = self.page.evaluate(f"{_CONTENT}.widgets[{cell}].model.outputs.toJSON()")
        return "".join(str(each.get("data", {}).get("text/plain", "")) for each in outputs)

    def interrupt(self) -> None:
        """Kernel ▸ Interrupt."""
        self.page.evaluate("jupyterapp.commands.execute('notebook:interrupt-kernel')")

    def controls(self, cell: int) -> list[float | None]:
        """Seconds until the button is there, a text is told, and a stop has ended the cell."""
        began = time.monotonic()
        self.run(cell)
        stop = self.page.get_by_role("button", name="Stop", exact=True)
        field = self.page.get_by_placeholder("Tell the agent something")
        seconds: list[float | None] = []
        try:
            stop.wait_for(timeout=15_000)
            seconds.append(time.monotonic() - began)
            time.sleep(1)  # the tool has begun
            field.fill("only rows of 2020")
            began = time.monotonic()
            field.press("Enter")
            self.page.get_by_text("with the next request").first.wait_for(timeout=15_000)
            seconds.append(time.monotonic() - began)
            began = time.monotonic()
            stop.click()
            self.wait_until_run(cell, 15)
            seconds.append(time.monotonic() - began)
        except Error:
            self.interrupt()
            self.wait_until_run(cell)
        return seconds + [None] * (3 - len(seconds))

    def texts(self, cell: int, number: int, sent: Path) -> str:
        """Send texts in a row while a reply is streamed; how many the model was told, and how often.

        The reply ends when there is the file ``sent``.
        """
        self.run(cell)
        field = self.page.get_by_placeholder("Tell the agent something")
        field.wait_for()
        for n in range(number):
            field.fill(f"text {n}.")
            field.press("Enter")
            self.page.wait_for_function(
                "field => !field.value", arg=field.element_handle(), timeout=15_000
            )
        sent.touch()
        self.wait_until_run(cell, 120)
        self.run(cell + 1)
        self.wait_until_run(cell + 1)
        found = self.output(cell + 1)
        return _counted([found.count(f"text {n}.") for n in range(number)])

    def forms(self, cell: int, number: int) -> str:
        """Answer forms in a row with one click each; how many calls were made, and how often."""
        self.run(cell)
        run = self.page.locator(".anb-form").get_by_role("button", name="Run", exact=True)
        for _ in range(number):
            run.wait_for()
            button = run.element_handle()
            button.click()
            self.page.wait_for_function("each => !each.isConnected", arg=button)
        self.wait_until_run(cell, 60)
        self.run(cell + 1)
        self.wait_until_run(cell + 1)
        made = json.loads(self.output(cell + 1))
        return _counted([made.count(n) for n in range(number)])


def _counted(times: list[int]) -> str:
    """How many arrived once, and how many not at all or more often."""
    return f"{times.count(1)} once, {times.count(0)} lost, {sum(n > 1 for n in times)} twice"


@contextmanager
def seated(browser: Browser, lab: Lab, path: str, name: str) -> Iterator[Seat]:
    """The notebook in a page of its own, with the set-up run."""
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    page.set_default_timeout(60_000)
    page.goto(lab.address_of(f"{path}/{name}"))
    page.wait_for_function(_IDLE)
    seat = Seat(page)
    seat.run(0)
    seat.wait_until_run(0, 60)
    try:
        yield seat
    finally:
        page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
        page.close()


def version_in(folder: str | None) -> str:
    """The version of ipykernel in a folder, or of this environment."""
    if folder is None:
        return importlib.metadata.version("ipykernel")
    [found] = importlib.metadata.distributions(name="ipykernel", path=[folder])
    return found.version


def measured(folder: str | None, clicks: int, only: str) -> Iterator[tuple[str, ...]]:
    """The rows of the table for one ipykernel."""
    version = version_in(folder)
    more = {"PYTHONPATH": os.pathsep.join([*filter(None, [folder]), str(REPOSITORY)])}
    with (
        Server(then=Hang()) as hanging,
        tempfile.TemporaryDirectory() as home,
        Lab(Path(home), more).running() as lab,
        sync_playwright() as player,
    ):
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, path in PAGES.items():
            if only and name != only:
                continue
            (lab.work / "sent").unlink(missing_ok=True)
            nbformat.write(notebook(hanging.url, clicks), lab.work / f"{name}.ipynb")
            with seated(browser, lab, path, f"{name}.ipynb") as seat:
                works = []
                for cell, busy in enumerate(BUSY, 1):
                    seconds = seat.controls(cell)
                    works.append(seconds[0] is not None)
                    shown = ["none" if each is None else f"{each:.2f}" for each in seconds]
                    yield (version, name, busy, *shown)
                if clicks and any(works):
                    yield version, name, f"{clicks} texts", seat.texts(5, clicks, lab.work / "sent")
                    yield version, name, f"{clicks} forms", seat.forms(7, clicks)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ipykernel", action="append", metavar="FOLDER")
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--only", choices=list(PAGES), default="")
    options = parser.parse_args()
    print("| ipykernel | page | main thread | button after | Tell after | Stop after |")
    print("|---|---|---|---:|---:|---:|")
    for folder in options.ipykernel or [None]:
        for row in measured(folder, options.clicks, options.only):
            print(f"| {' | '.join(row)} |", flush=True)
    load = os.getloadavg()[0]
    print(f"\nload {load:.1f}")


if __name__ == "__main__":
    main()
