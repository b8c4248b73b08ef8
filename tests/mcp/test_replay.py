"""A notebook that uses a tool of a server and one of its own is a test like any other."""

from __future__ import annotations

import shlex
from pathlib import Path

import nbformat

from tests.pytest_plugin.runs import CELLS, ONE, run_pytest, write_notebook
from tests.servers.plays import Say
from tests.servers.server import Server

PROGRAM = "```python\nanswer(demo_add(a=one(times=5), b=4))\n```"


def test_a_run_and_a_program_with_both_kinds_of_tools_are_replayed(
    tmp_path: Path, demo: list[str]
) -> None:
    folder = tmp_path / "book"
    folder.mkdir()
    write_notebook(
        folder / "both.ipynb",
        CELLS[0],
        ONE,
        f"%agent_mcp add demo -- {shlex.join(demo)}",
        "%agent What is one and two?",
        "%agent --new\n%config ArchytasNB.protocol = 'program'\n%agent What is five and four?",
    )
    calls = (("one", {}), ("demo_add", {"a": 1, "b": 2}))
    with Server(Say(calls=calls), Say("It is three."), Say(PROGRAM, raw=True)) as server:
        done = run_pytest(folder, "--agent-record", "both.ipynb", OPENAI_BASE_URL=server.url)
    assert done.code == 0, done.out
    cells = nbformat.read(folder / "both.ipynb", 4).cells
    assert "It is three." in str(cells[3].outputs)
    assert "demo_add" in str(cells[3].outputs)
    assert "9" in cells[4].outputs[0].data["text/plain"]
    done = run_pytest(folder, "--nbval", "--agent-replay", "--agent-strict", "both.ipynb")
    assert done.code == 0, done.out
    assert "5 passed" in done.out
