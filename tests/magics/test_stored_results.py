"""A question that is asked again replaces the results that it stored, and no variable of the person."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.sampling import alternating

SETUP = '''
import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

_held = [list(range(5000))]  # in no variable of its own, so that a result is kept

def load() -> list[int]:
    """Load the rows; they are the same object each time."""
    return _held[0]

def load_new() -> list[int]:
    """Load the rows."""
    return list(_held[0])

ask = ("load_new", None), ("load", None), ("final_answer", "Done.")
agent = nb.Agent([load, load_new], model=ScriptedModel(*ask, *ask, *ask), context="none")
'''
ASK = "agent.run('Load them.', origin='cell')"


def run(shell: InteractiveShell, *cells: str) -> None:
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()


@pytest.fixture
def notebook(shell: InteractiveShell) -> InteractiveShell:
    run(shell, SETUP)
    return shell


def stored(shell: InteractiveShell) -> set[str]:
    return {name for name in shell.user_ns if name.startswith("load_") and name != "load_new"}


def test_the_results_of_a_question_have_the_same_names_when_it_is_asked_again(
    notebook: InteractiveShell,
) -> None:
    run(notebook, ASK)
    first = notebook.user_ns["load_new_1"]
    run(notebook, "load_1[0] + len(load_new_1)", "print(load_1)", ASK)
    assert stored(notebook) == {"load_1", "load_new_1"}
    assert notebook.user_ns["load_new_1"] is not first


def read_meanwhile(shell: InteractiveShell) -> list[Any]:
    """The value of `load_1` for a tool while the question is asked again, before `load` is called."""
    seen: list[Any] = []
    shell.user_ns["seen"] = seen
    read = "def load_new() -> list[int]:\n    '''Load.'''\n    seen.append(load_1)\n    return [*load_1]"
    run(shell, read, "agent.run('Load them.', origin='cell', tools=[load, load_new])")
    return seen


ASSIGNMENTS = [
    "load_1 = load()",
    "load_1, n = load(), 1",
    "(load_1 := load())",
    "for load_1 in [load()]: pass",
    "def keep_it():\n    global load_1\n    load_1 = load()\nkeep_it()",
    "globals()['load_1'] = load()",
    "exec('load_1 = load()')",
    "%time load_1 = load()",
    "%%time\nload_1 = load()",
    "match load():\n    case load_1: pass",
    "globals().update(load_1=load())",
    "get_ipython().push(dict(load_1=_held[0]))",
]


@pytest.mark.parametrize(("cell", "when"), alternating(ASSIGNMENTS, ["before", "after"]))
def test_a_variable_that_the_person_assigned_stays_also_if_it_holds_the_same_object(
    notebook: InteractiveShell, cell: str, when: str
) -> None:
    cells = [cell, ASK] if when == "before" else [ASK, cell]
    run(notebook, *cells)
    assert read_meanwhile(notebook) == [notebook.user_ns["_held"][0]]
    assert notebook.user_ns["load_1"] is notebook.user_ns["_held"][0]


def test_a_variable_that_held_the_result_before_the_question_stays(
    notebook: InteractiveShell,
) -> None:
    run(notebook, "load_1 = load()")
    notebook.history_manager.reset(new_session=False)  # nothing says who assigned it
    run(notebook, ASK)
    assert read_meanwhile(notebook) == [notebook.user_ns["_held"][0]]


def test_a_result_that_is_about_to_be_deleted_is_not_described(notebook: InteractiveShell) -> None:
    model = "model=ScriptedModel(*ask, *ask)"
    run(notebook, f"agent = nb.Agent([load, load_new], {model}, context='mentioned')")
    run(notebook, *["agent.run('Put them into load_1.', origin='cell')"] * 2)
    assert "load_1" in stored(notebook)
    first, again = (notebook.user_ns["agent"].model.asked[step].messages for step in (0, 3))
    assert first == again
