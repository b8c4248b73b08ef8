"""``%agent_code``: the next cell, a notebook, a script, a test and a tool with its proof."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.tools.toolbox import toolbox
from tests.code.notebook import Notebook

DATA = 'MASSES = {"Gentoo": 5076.0, "Adelie": 3700.5, "Chinstrap": 3733.25}'
UNUSED = "nothing_needs_it = 1 / 1"
TOOLS = '''%%tool
def mean_mass(species: str) -> float:
    """The mean mass.

    Args:
        species: Its name
    """
    return MASSES[species]

def longest(names: list[str]) -> str:
    """The longest of some names."""
    return max(names, key=len)

async def later(number: int) -> int:
    """Wait for a number."""
    return number * 3'''
GENTOO = ("mean_mass", {"species": "Gentoo"})
ADELIE = ("mean_mass", {"species": "Adelie"})


@pytest.fixture
def book(shell: InteractiveShell) -> Notebook:
    notebook = Notebook(shell)
    for cell in (DATA, UNUSED, TOOLS):
        notebook.run(cell)
    return notebook


def test_the_code_goes_into_the_next_cell_and_runs_there(book: Notebook) -> None:
    book.ask("--type float --out gap Gentoo and Adelie?", GENTOO, ADELIE, ("final_answer", 1375.5))
    assert str(book.run("%agent_code")) == "verified: 3 of 3 values equal, no model asked"
    [code] = book.next
    book.run("del gap")
    book.run(code)
    assert book.shell.user_ns["gap"] == 1375.5


def test_files_hold_what_the_code_needs_and_run_by_themselves(
    book: Notebook, tmp_path: Path
) -> None:
    book.ask("--type float --out gap Gentoo and Adelie?", GENTOO, ADELIE, ("final_answer", 1375.5))
    book.ask("And Chinstrap?", ("mean_mass", {"species": "Chinstrap"}), ("final_answer", "3733.25"))
    book.ask("Three times 25?", ("later", {"number": 25}), ("final_answer", "75"))
    for name in ("all.py", "test_all.py", "all.ipynb"):
        said = str(book.run(f"%agent_code {tmp_path / name} --runs all"))
        assert said.count("verified: ") == 3
        assert "nothing_needs_it" not in (tmp_path / name).read_text()
    subprocess.run([sys.executable, tmp_path / "all.py"], check=True)
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        tmp_path / "test_all.py",
    ]
    assert "3 passed" in subprocess.run(tests, check=True, capture_output=True, text=True).stdout
    cells = nbformat.read(tmp_path / "all.ipynb", as_version=4).cells
    outputs = [out["data"]["text/plain"] for cell in cells for out in cell.get("outputs", ())]
    assert outputs == ["1375.5", "3733.25", "75"]


def test_runs_are_chosen_by_number(book: Notebook) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    book.ask("Adelie?", ADELIE, ("final_answer", "3700.5"))
    book.run("%agent_code --runs 1")
    assert "Gentoo" in book.next[-1]
    assert "Adelie" not in book.next[-1]
    book.run("%agent_code --runs 1..2")
    assert "Gentoo" in book.next[-1]
    assert "Adelie" in book.next[-1]
    with pytest.raises(UsageError, match="there are 1, 2"):
        book.shell.run_line_magic("agent_code", "--runs 7")
    with pytest.raises(UsageError, match="expected last, all"):
        book.shell.run_line_magic("agent_code", "--runs some")
    with pytest.raises(UsageError, match="neither a notebook"):
        book.shell.run_line_magic("agent_code", "report.txt")


PROGRAM = """\
masses = {each: mean_mass(species=each) for each in ["Gentoo", "Adelie"]}
first = max(masses, key=masses.get)
answer(f"{first}: {masses[first]}")"""


def block(text: str) -> str:
    return f"```python\n{text}\n```"


RUNS: list[tuple[str, str, Any, dict[str, str], str]] = [
    # the question with options, the protocol, the replies, other arguments, what they give
    ("How heavy are Gentoo?", "react", (GENTOO, ("final_answer", "5076")),
     {"species": "Adelie"}, "3700.5"),
    ("How heavy are Adelie?", "native", (ADELIE, ("final_answer", "3700.5")),
     {"species": "Gentoo"}, "5076.0"),
    ("--type float Gentoo less Adelie?", "react", (GENTOO, ADELIE, ("final_answer", 1375.5)),
     {"species_2": "Chinstrap"}, "1342.75"),
    ("--type float Adelie and Gentoo together?", "native",
     (ADELIE, GENTOO, ("final_answer", 8776.5)), {"species": "Chinstrap"}, "8809.25"),
    ("Which is heavier, Gentoo or Adelie?", "program", (block(PROGRAM),),
     {"species": "Chinstrap"}, "'Chinstrap: 3733.25'"),
    ("Three times 25?", "react", (("later", {"number": 25}), ("final_answer", "75")),
     {"number": "30"}, "90"),
    ("--type float How heavy are Chinstrap?", "program",
     (block('answer(mean_mass("Chinstrap"))'),), {"species": "Gentoo"}, "5076.0"),
    ("Gentoo and Chinstrap?", "react",
     (GENTOO, ("mean_mass", {"species": "Chinstrap"}), ("final_answer", "both")),
     {"species_2": "Gentoo"}, "{'gentoo': 5076.0, 'chinstrap': 5076.0}"),
    ("--type int Three times 40?", "program", (block("answer(later(40))"),),
     {"number": "50"}, "150"),
    ("--type float Gentoo over Adelie?", "react",
     (GENTOO, ADELIE, ("final_answer", 5076.0 / 3700.5)), {"species": "Adelie"}, "1.0"),
]  # fmt: skip


@pytest.mark.parametrize("case", RUNS, ids=range(len(RUNS)))
def test_a_run_becomes_a_tool_with_its_proof(book: Notebook, case: Any) -> None:
    import asyncio
    import inspect

    question, protocol, replies, other, expected = case
    book.ask(question, *replies, protocol=protocol)
    assert str(book.run("%agent_code --as made")).startswith("verified")
    book.run(book.next[-1])
    names = book.shell.user_ns
    assert "made" in str(book.run("%tools"))
    assert "test_made" not in str(book.run("%tools"))
    names["test_made"]()  # with the recorded arguments
    proved = book.next[-1].partition("# Proved for ")[2].partition("\n")[0].rpartition(": ")[2]
    assert proved
    assert proved not in toolbox["made"].text  # which is sent, and this is a value
    given = {name: int(each) if each.isdigit() else each for name, each in other.items()}
    value = names["made"](**given)
    if inspect.isawaitable(value):
        value = asyncio.run(value)
    assert repr(value) == expected
    changed = book.next[-1].replace("return ", "return not ")
    book.run(changed)
    with pytest.raises(AssertionError):
        names["test_made"]()


def test_a_name_that_is_taken_is_refused(book: Notebook) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    with pytest.raises(UsageError, match="a variable already"):
        book.shell.run_line_magic("agent_code", "--as mean_mass")
    with pytest.raises(UsageError, match="not a valid name"):
        book.shell.run_line_magic("agent_code", "--as 1st")
