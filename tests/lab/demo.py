"""Pictures of the pages, taken in JupyterLab, in the Chromium of this machine, with scripted replies.

``python -m tests.lab.demo docs/images/demo.gif`` takes the moving picture of the README: a question with a tool, a
chart, and the undo of a change. ``python -m tests.lab.demo docs/images/program.png`` takes that of a program, and
``docs/images/approval-form.png`` that of a call that waits.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.chromium import CHROMIUM, FLAGS
from tests.lab.lab import Desk, Lab, opened
from tests.lab.stories import write_notebook
from tests.servers.plays import Play, Say
from tests.servers.server import Server

_LOAD = """\
%load_ext archytas_nb

import matplotlib.pyplot as plt
from palmerpenguins import load_penguins

penguins = load_penguins()"""

_TOOL = '''\
%%tool
def condition(species: str) -> float:
    """How well fed the penguins of a species are, in grams per millimetre of flipper.

    Args:
        species: Adelie, Chinstrap or Gentoo
    """
    chosen = penguins[penguins["species"] == species]
    return round(float((chosen["body_mass_g"] / chosen["flipper_length_mm"]).mean()), 2)'''

_DRAW = """\
# The distribution for each species
fed = penguins.body_mass_g / penguins.flipper_length_mm
groups = {name: each.dropna() for name, each in fed.groupby(penguins.species)}
_, axes = plt.subplots(figsize=(6, 1.6), layout="constrained")
axes.boxplot(list(groups.values()), orientation="horizontal", tick_labels=list(groups))
axes.set_xlabel("g / mm")
plt.show()"""

_QUESTION = "%agent Which penguins are the best fed? Draw it, too."
_CHANGE = "%agent --python undoable Remove the rows without a mass."
_UNDO = "%agent_undo"
_PROGRAMS = """\
%load_ext archytas_nb
%config ArchytasNB.protocol = "program"
%config ArchytasNB.trace = "steps"
import archytas_nb as nb

@nb.tool
def stock(item: str) -> int:
    'How many pieces of an item there are.'
    return {"apples": 3, "pears": 40, "figs": 7}[item]"""

_FAILS = """\
names = ["apples", "pears", "plums"]
few = [each for each in names if stock(each) < 10]
answer(f"Few are left of {few}.")"""

_WORKS = """\
# There are no plums: ask for figs.
left = {each: stock(item=each) for each in ["apples", "pears", "figs"]}
few = sorted(left, key=left.get)[:2]
if left[few[0]] < 10:
    show(few)
answer(f"Few are left of {few[0]} ({left[few[0]]}) and {few[1]} ({left[few[1]]}).")"""

_APPROVED = """\
%load_ext archytas_nb
import archytas_nb as nb

@nb.tool(approve=True)
def delete_rows(above: int) -> str:
    'Delete the rows above a value.'
    return "deleted" """

_MODEL = "gpt-6-luna"
_SPECIES = ("Adelie", "Chinstrap", "Gentoo")
_WIDTH, _HEIGHT = 900, 560
_SECONDS = 0.25  # between two pictures
_PAUSE = 1.0  # of the model before each reply


@dataclass(frozen=True)
class Later:
    """A reply that takes the time of a real one."""

    reply: Say

    def play(self, exchange: Any) -> None:
        time.sleep(_PAUSE)
        self.reply.play(exchange)


def replies() -> list[Play]:
    """The script of the model."""
    return [
        Later(Say(calls=tuple(("condition", {"species": name}) for name in _SPECIES))),
        Later(Say(calls=(("python", {"code": _DRAW}),))),
        Later(
            Say(
                "**Gentoo** penguins are the best fed: 23.34 g for each millimetre of flipper, "
                "against 19.47 g for Adelie and 19.04 g for Chinstrap penguins."
            )
        ),
        Later(
            Say(calls=(("python", {"code": "penguins = penguins.dropna(subset=['body_mass_g'])"}),))
        ),
        Later(Say("I removed the two rows without a mass.")),
    ]


def taken(desk: Desk, index: int, pictures: list[tuple[Image.Image, float]], rest: float) -> None:
    """Run a cell, take pictures until it has ended, and hold the last one for some seconds."""
    desk.run_cell(index)
    while not desk.has_run(index):
        pictures.append((_picture(desk), _SECONDS))
        time.sleep(_SECONDS)
    time.sleep(1)
    pictures.append((_picture(desk), rest))


def _picture(desk: Desk) -> Image.Image:
    area = desk.page.locator(".jp-Notebook").bounding_box()
    assert area is not None
    clip = {"x": area["x"], "y": area["y"], "width": _WIDTH, "height": _HEIGHT}
    return Image.open(io.BytesIO(desk.page.screenshot(clip=clip))).convert("RGB")


@contextmanager
def asking(*plays: Play, cells: tuple[str, ...]) -> Iterator[Desk]:
    """An open notebook with these cells, whose model gives these replies."""
    with tempfile.TemporaryDirectory() as folder, Server(*plays, models=(_MODEL,)) as server:
        environment = {
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
            "ARCHYTAS_NB_MODEL": _MODEL,
        }
        with Lab(Path(folder, "lab"), environment).running() as lab, sync_playwright() as player:
            browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            write_notebook(lab.work / "notebook.ipynb", *cells)
            page = opened(lab, browser)
            desk = Desk(page, "notebook.ipynb")
            page.set_viewport_size({"width": _WIDTH + 80, "height": _HEIGHT + 120})
            yield desk
            browser.close()


def write_program(target: Path) -> None:
    """Take the picture of a question whose first program fails."""
    plays = [Say(f"```python\n{program}\n```", raw=True) for program in (_FAILS, _WORKS)]
    question = "%agent Of which items are few left?"
    with asking(*plays, cells=(_PROGRAMS, question)) as desk:
        for index in (0, 1):
            desk.run_cell(index)
            while not desk.has_run(index):
                time.sleep(_SECONDS)
        desk.look_at(1)
        time.sleep(1)
        desk.page.locator(".jp-Cell").nth(1).screenshot(path=str(target))


def write_form(target: Path) -> None:
    """Take the picture of a call that waits, with an argument that does not fit."""
    call = Say(calls=(("delete_rows", {"above": 3}),))
    with asking(call, Say("Done."), cells=(_APPROVED, "%agent Delete the rows above 3.")) as desk:
        desk.run_cell(0)
        while not desk.has_run(0):
            time.sleep(_SECONDS)
        desk.run_cell(1)
        form = desk.page.locator(".anb-form")
        form.wait_for()
        time.sleep(2)
        form.get_by_role("button", name="Edit", exact=True).click()
        form.get_by_label("above").fill("many")
        time.sleep(1)
        desk.page.locator(".jp-Cell").nth(1).screenshot(path=str(target))
        form.get_by_role("button", name="Stop").click()


def write(target: Path) -> None:
    """Take the pictures, leave out those that are equal to the one before, and write the file."""
    cells = (_LOAD, _TOOL, _QUESTION, _CHANGE, _UNDO)
    pictures: list[tuple[Image.Image, float]] = []
    with asking(*replies(), cells=cells) as desk:
        for index, rest in ((0, 0.5), (1, 0.5), (2, 4.0), (3, 2.5), (4, 3.0)):
            desk.look_at(index if index > 1 else 0)
            taken(desk, index, pictures, rest)
    frames: list[Image.Image] = []
    lasts: list[int] = []
    for picture, seconds in pictures:
        if frames and frames[-1].tobytes() == picture.tobytes():
            lasts[-1] += round(1000 * seconds)
        else:
            frames.append(picture)
            lasts.append(round(1000 * seconds))
    small = [each.quantize(64, dither=Image.Dither.NONE) for each in frames]
    small[0].save(
        target, save_all=True, append_images=small[1:], duration=lasts, loop=0, optimize=True
    )


PICTURES = {"demo.gif": write, "program.png": write_program, "approval-form.png": write_form}
"""The pictures of `docs/images`, and the function that takes each."""

if __name__ == "__main__":
    picture = Path(sys.argv[1])
    PICTURES[picture.name](picture)
