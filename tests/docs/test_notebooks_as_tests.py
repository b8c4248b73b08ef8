"""Who follows the page gets what the page says, with a notebook of their own in a folder of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from archytas_nb.cassettes.match import PATTERNS
from archytas_nb.errors import MissCause
from tests.pytest_plugin.runs import change, run_pytest, write_notebook
from tests.servers.plays import Say
from tests.servers.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "notebooks-as-tests.md").read_text("utf-8")
COMMANDS = [
    line.removeprefix("pytest ").split()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("pytest ")
]
SCRUB = next(
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "cassette_scrub" in block
)
TOOL = '''%%tool
def average(measure: str) -> float:
    """Average a measure.

    Args:
        measure: What to average
    """
    return 217.2
'''


def test_the_commands_of_the_page_record_replay_and_update_a_notebook(tmp_path: Path) -> None:
    record, replay, update = COMMANDS
    assert [each[-1] for each in COMMANDS] == ["penguins.ipynb"] * 3
    cells = (
        "%load_ext archytas_nb",
        SCRUB,
        TOOL,
        "%agent What is the mean flipper length that customer-7 asks for?",
    )
    notebook = write_notebook(tmp_path / "penguins.ipynb", *cells)
    plays = [Say(calls=(("average", {"measure": "flipper"}),)), Say("It is 217.2 mm.")]
    with Server(*plays) as server:
        done = run_pytest(tmp_path, *record, OPENAI_BASE_URL=server.url)
    assert done.code == 0, done.out
    cassette = tmp_path / "cassettes" / "penguins.jsonl"
    assert "customer-7" not in cassette.read_text()
    assert run_pytest(tmp_path, *replay).code == 0
    change(notebook, "return 217.2", "return 218.4")
    missed = run_pytest(tmp_path, *replay)
    assert missed.code == 1
    assert re.search(r"no reply to this request.*?the tool 'average'", missed.out, re.DOTALL)
    [sample] = re.findall(r"    (CassetteMiss: .*? penguins\.ipynb)\n\n", PAGE, re.DOTALL)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", missed.out)
    assert " ".join(sample.split()) in " ".join(printed.split())
    assert f"and run: pytest {' '.join(update)}" in missed.out
    with Server(Say("It is 218.4 mm.")) as server:
        done = run_pytest(tmp_path, *update, OPENAI_BASE_URL=server.url)
        assert len(server.chats) == 1
    assert "penguins.ipynb  1 replayed, 1 recorded, 1 dropped" in done.out
    assert run_pytest(tmp_path, *replay, "--agent-strict").code == 0


@pytest.mark.parametrize("name", [*get_args(MissCause), *PATTERNS])
def test_every_cause_and_every_placeholder_stands_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE
