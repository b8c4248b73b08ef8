"""The progress line of a run is shown only where a person can see it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_kernel import live_kernel
from tests.terminal import spawned

SCRIPT = """
import sys, time
import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

def wait() -> str:
    '''Wait.'''
    print("printed by the tool")
    time.sleep(1.2)
    return "waited"

def ask(**options):
    agent = nb.Agent([wait], ScriptedModel(("wait", {}), ("final_answer", "Done.")), namespace={})
    return agent.run("Well?", **options)

def nested() -> str:
    '''Ask another agent.'''
    return str(ask())
"""
RUN = SCRIPT + "print(ask(**eval(sys.argv[1])))"
LINE = re.compile(r" wait( \d s)? · step 1 · \d s")
CLEAR = "\r\x1b[2K"


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(RUN)
    return str(path)


def shown(folder: Path, script: str, options: str, **environment: str) -> str:
    """Everything that was written to a terminal."""
    environment = {"PYTEST_CURRENT_TEST": "", **environment}
    with spawned(folder, script, options, **environment) as process:
        process.expect_exact("Done.")
        return str(process.before)


def test_a_terminal_shows_a_line_that_is_removed_before_other_output(
    tmp_path: Path, script: str
) -> None:
    sent = shown(tmp_path, script, "{}", TERM="xterm")
    assert LINE.search(sent)
    assert "printed by the tool" not in sent
    assert sent.endswith(CLEAR)  # and then the answer
    assert all(len(line) < 80 for line in sent.split(CLEAR))


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ("{'progress': False}", {"TERM": "xterm"}),
        ("{}", {"TERM": "dumb"}),
        ("{}", {"TERM": "xterm", "PYTEST_CURRENT_TEST": "x"}),
    ],
)
def test_shows_nothing_if_not_wanted_or_during_a_test(
    tmp_path: Path, script: str, options: str, environment: dict[str, str]
) -> None:
    assert shown(tmp_path, script, options, **environment) == ""


@pytest.mark.parametrize(("options", "is_shown"), [("{}", False), ("{'progress': True}", True)])
def test_a_pipe_gets_nothing_unless_requested(script: str, options: str, is_shown: bool) -> None:
    command = [sys.executable, script, options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "Done.\n"
    assert bool(LINE.search(done.stderr)) is is_shown
    assert is_shown or not done.stderr


def test_a_live_notebook_shows_the_line_below_the_cell(tmp_path: Path) -> None:
    with live_kernel(tmp_path, PYTEST_CURRENT_TEST="") as kernel:
        kernel.run(SCRIPT)
        kernel.run(
            "agent = nb.Agent([wait], ScriptedModel(('wait', {}), ('final_answer', 'Done.')))"
        )
        for code in ("str(ask())", "str(await agent.arun('Well?'))"):
            cell = kernel.run(code, person=True, cell_id="one")
            updates = [each["data"] for each in cell.of("update_display_data")]
            assert any(LINE.search(each.get("text/plain", "")) for each in updates)
            assert (updates[-1], cell.printed, cell.result) == ({}, "", "'Done.'")
        cell = kernel.run("str(ask(progress=False))", person=True, cell_id="one")
        assert cell.displayed == []
        cell = kernel.run("str(ask())")  # nbclient, papermill: nobody is there
        assert (cell.displayed, cell.printed) == ([], "")


def test_an_agent_in_a_tool_shows_nothing(tmp_path: Path) -> None:
    script = tmp_path / "nested.py"
    model = "ScriptedModel(('nested', {}), ('final_answer', 'Done.'))"
    script.write_text(
        f"{SCRIPT}\nrun = nb.Agent([nested], {model}, namespace={{}})('Well?')\n"
        "print(run.calls[0][1].text == 'Done.', run)"
    )
    sent = shown(tmp_path, str(script), "")
    assert " nested · step 1" in sent
    assert sent.endswith(f"{CLEAR}True ")
    assert " wait · step" not in sent
