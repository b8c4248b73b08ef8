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

from archytas_nb import Agent
from archytas_nb.mcp.calls import run_call
from archytas_nb.skills import skills_in
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


MORE = '''%%tool
async def first(count: int):
    """Is this the first numbers?"""
    for each in range(count):
        yield each

def grow(frame: pd.DataFrame, by: int) -> int:
    """Grow a frame; says so."""
    print("growing")
    frame["a"] = frame["a"] * by
    return int(frame["a"].sum())'''
TIMED = "%%time\nframe.loc[0, 'a'] = 100\nfor each in [1]:\n    %tools"
CLEAN = 'text = """a\n  b"""\nframe = frame[frame["a"] > 5]\nlen(text) + len(frame)'


def test_files_of_a_notebook_with_all_that_is_not_python(book: Notebook, tmp_path: Path) -> None:
    """Each run and each cell stands in its place, and what failed is left out."""
    book.run('import pandas as pd\nframe = pd.DataFrame({"a": [1, 2, 3]})')
    book.run(MORE)
    book.shell.run_cell("frame = 1 / 0", store_history=True)
    undo = "--python undoable"
    book.ask("First 4?", ("first", {"count": 4}), ("final_answer", "0 to 3"))
    book.ask(f"{undo} By 5?", ("grow", {"frame": "frame", "by": 5}), ("final_answer", "30"))
    book.run(TIMED)
    book.ask(f"{undo} By 2?", ("grow", {"frame": "frame", "by": 2}), ("final_answer", "250"))
    book.ask(f"{undo} Clean it", ("python", {"code": CLEAN}), ("final_answer", "8"))
    book.ask("Hello?", ("final_answer", "hi"))
    for name in ("all.py", "test_all.py", "all.ipynb"):
        said = str(book.run(f"%agent_code {tmp_path / name} --runs all"))
        assert said.count("verified: ") == 4  # and one has no code
    for name in ("all.py", "test_all.py"):
        assert "1 / 0" not in (tmp_path / name).read_text()
    subprocess.run([sys.executable, tmp_path / "all.py"], check=True)
    pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*pytest_of, tmp_path / "test_all.py"], capture_output=True, text=True)
    assert "4 passed" in done.stdout, done.stdout
    cells = nbformat.read(tmp_path / "all.ipynb", as_version=4).cells
    outputs = [out["data"]["text/plain"] for cell in cells for out in cell.get("outputs", ())]
    assert outputs == ["[0, 1, 2, 3]", "30", "250", "8"]


def test_a_run_that_a_cell_uses_is_named(book: Notebook, tmp_path: Path) -> None:
    model = book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    assert len(model.asked) == 2
    from archytas_nb.testing import ScriptedModel

    book.shell.user_ns["scripted"] = ScriptedModel(GENTOO, ("final_answer", "5076"))
    book.run("%config ArchytasNB.protocol = 'react'\nrun = %agent -m scripted Gentoo?")
    book.run('MASSES["Emu"] = len(run.answer)')
    book.ask("Emu?", ("mean_mass", {"species": "Emu"}), ("final_answer", "4"))
    said = str(book.run(f"%agent_code {tmp_path / 'emu.py'}"))
    assert "'run' is the run of a question" in said


def test_a_call_of_another_program_stands_where_it_was_made(book: Notebook, tmp_path: Path) -> None:
    magics = book.shell.magics_manager.registry["ArchytasNB"]
    book.run("%config ArchytasNB.undo = True\nnumbers = [1]")
    book.run(PUSH)
    book.ask("Push 30?", ("push", {"value": 30}), ("final_answer", "2"))
    agent = Agent(namespace=book.shell.user_ns, context="none", protocol="native", undo=True)
    outcome, run = run_call(agent, "other program", "push", {"value": 55})
    assert outcome.value == 3
    assert run is not None
    magics.history.add_call(run, book.shell.execution_count - 1)
    book.ask("Push 40?", ("push", {"value": 40}), ("final_answer", "4"))
    for name in ("all.py", "test_all.py", "all.ipynb"):
        said = str(book.run(f"%agent_code {tmp_path / name} --runs all"))
        assert said.count("verified: 2 of 2") == 2
    check = f"{(tmp_path / 'all.py').read_text()}\nassert numbers == [1, 30, 55, 40]"
    subprocess.run([sys.executable, "-c", check], check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    assert "2 passed" in subprocess.run(tests, check=True, capture_output=True, text=True).stdout
    book.run("%agent_undo\nnumbers.append(0)")  # the last question; the call is still there
    book.run(f"%agent_code {tmp_path / 'all.py'} --runs all")
    assert "value=55" not in (tmp_path / "all.py").read_text()  # as nothing after it is chosen


PUSH = """%%tool
def push(value: int) -> int:
    'Push.'
    numbers.append(value)
    return len(numbers)"""


def test_runs_are_chosen_by_number(book: Notebook) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    book.ask("Adelie?", ADELIE, ("final_answer", "3700.5"))
    cell = book.shell.execution_count - 1
    book.run(f"%agent_code --runs {cell - 1}")
    assert "Gentoo" in book.next[-1]
    assert "Adelie" not in book.next[-1]
    book.run(f"%agent_code --runs {cell - 1}..{cell}")
    assert "Gentoo" in book.next[-1]
    assert "Adelie" in book.next[-1]
    with pytest.raises(UsageError, match=f"there are {cell - 1}, {cell}"):
        book.shell.run_line_magic("agent_code", "--runs 70")
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
    proved = book.next[-1].partition("# In the run, for ")[2].partition("\n")[0].rpartition(": ")[2]
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


KINDS = '''%%tool
import datetime, enum
from typing import Literal
class Color(enum.Enum):
    RED = "r"
    BLUE = "b"

def label(day: datetime.date, kind: Literal["dry", "wet"], color: Color) -> str:
    """A label."""
    return f"{day:%Y} {kind} {color.name}"

def shout(text: str) -> str:
    """Shout."""
    return text.upper()'''
SEND = '''%%tool
from archytas_nb import tool

@tool(approve=True)
def send(number: int) -> int:
    """Send."""
    return number'''


def test_parameters_have_the_types_of_the_tools(book: Notebook) -> None:
    book.run(KINDS)
    given = {"day": "2024-02-29", "kind": "dry", "color": "BLUE"}
    book.ask("dry BLUE on 2024-02-29?", ("label", given), ("final_answer", "ok"))
    assert str(book.run("%agent_code --as labelled")).startswith("verified: 2 of 2")
    book.run(book.next[-1])
    text = toolbox["labelled"].text
    assert "dry" in text
    names = book.shell.user_ns
    names["test_labelled"]()
    assert names["labelled"](color=names["Color"].RED, kind="wet") == "2024 wet RED"


def test_a_text_with_values_names_the_argument_and_one_thing_is_one_parameter(
    book: Notebook,
) -> None:
    book.run(KINDS)
    text = 'm = mean_mass("Gentoo")\nanswer(f"Gentoo ({shout(\'Gentoo\')}): {m}")'
    book.ask("Gentoo?", block(text), protocol="program")
    assert str(book.run("%agent_code --as told")).startswith("verified: 3 of 3")
    book.run(book.next[-1])
    assert book.shell.user_ns["told"]("Adelie") == "Adelie (ADELIE): 3700.5"


def test_what_python_code_defines_is_left_by_the_tool(book: Notebook) -> None:
    code = "import math\nclass Unit:\n    size = 2\nfor each in [1, 2]:\n    pass\nmath.floor(2.5)"
    book.ask("--python undoable Two?", ("python", {"code": code}), ("final_answer", "2"))
    assert str(book.run("%agent_code --as two")) == "verified: 4 of 4 values equal, no model asked"
    cell = book.next[-1]
    book.run("%agent_undo")
    book.run(cell)
    book.run("test_two()")
    assert book.shell.user_ns["Unit"].size == book.shell.user_ns["each"] == 2


def test_a_number_that_equals_nothing_is_tested_by_its_text(book: Notebook) -> None:
    book.run('MASSES["Emu"] = float("nan")')
    book.ask("Emu?", ("mean_mass", {"species": "Emu"}), ("final_answer", "unknown"))
    assert str(book.run("%agent_code --as heavy")).startswith("verified: 2 of 2")
    book.run(book.next[-1])
    book.run("test_heavy()")
    book.run('MASSES["Emu"] = 1.5')
    with pytest.raises(AssertionError):
        book.run("test_heavy()")


LATER = """%%tool
async def scaled(number: int) -> int:
    'Scale a number.'
    return number * SCALE"""


def test_an_import_of_a_later_cell_that_has_to_be_the_first(book: Notebook, tmp_path: Path) -> None:
    book.run("from __future__ import annotations\nSCALE = 3")
    book.run(LATER)
    book.ask("44?", ("scaled", {"number": 44}), ("final_answer", "132"))
    for name in ("all.py", "test_all.py"):
        assert "verified: 1 of 1" in str(book.run(f"%agent_code {tmp_path / name}"))
        subprocess.run([sys.executable, tmp_path / name], check=True)


def test_a_tool_that_calls_one_with_approval_requires_approval(book: Notebook) -> None:
    book.run(SEND)
    book.ask("--approve auto Send 70", ("send", {"number": 70}), ("final_answer", "sent"))
    assert "needs your approval" in str(book.run("%agent_code --as sent"))
    book.run(book.next[-1])
    assert toolbox["sent"].may_require_approval


def test_only_a_file_of_its_own_is_written_again(book: Notebook, tmp_path: Path) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    for name in ("all.py", "test_all.py", "all.ipynb"):
        file = tmp_path / name
        file.write_text("mine = 1\n")
        with pytest.raises(UsageError, match="did not write"):
            book.shell.run_line_magic("agent_code", str(file))
        assert file.read_text() == "mine = 1\n"
        file.write_text("")  # which holds nothing
        for _ in range(2):
            assert "verified: 1 of 1" in str(book.run(f"%agent_code {file}"))
        written = file.read_bytes()
        file.write_bytes(written.replace(b"\n", b"\r\n"))  # as by git
        assert "verified: 1 of 1" in str(book.run(f"%agent_code {file}"))
        edited = written.replace(b"Gentoo", b"Adelie")
        file.write_bytes(edited)
        with pytest.raises(UsageError, match="edited since"):
            book.shell.run_line_magic("agent_code", str(file))
        assert file.read_bytes() == edited
        assert "verified: 1 of 1" in str(book.run(f"%agent_code --force {file}"))
        assert file.read_bytes() == written


def test_a_script_shows_its_value_and_its_folder_is_made(book: Notebook, tmp_path: Path) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    file = tmp_path / "out" / "report.py"
    book.run(f"%agent_code {file}")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert "5076" in done.stdout


def test_a_name_that_is_taken_is_refused(book: Notebook) -> None:
    book.ask("Gentoo?", GENTOO, ("final_answer", "5076"))
    book.run("def test_gap():\n    pass")
    for name in ("größe", "final_answer"):
        with pytest.raises(UsageError, match="not a valid name of a tool"):
            book.shell.run_line_magic("agent_code", f"--as {name}")
    for name in ("print", "tool"):
        with pytest.raises(UsageError, match="the cell itself uses"):
            book.shell.run_line_magic("agent_code", f"--as {name}")
    with pytest.raises(UsageError, match="'test_gap' is a variable already"):
        book.shell.run_line_magic("agent_code", "--as gap")
    with pytest.raises(UsageError, match="a variable already"):
        book.shell.run_line_magic("agent_code", "--as mean_mass")
    with pytest.raises(UsageError, match="not a valid name"):
        book.shell.run_line_magic("agent_code", "--as 1st")


def test_a_proved_run_becomes_a_skill_with_its_test(
    book: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book.ask('--type float --out gap What: is "the gap"?', GENTOO, ADELIE, ("final_answer", 1375.5))
    said = str(book.run("%agent_code --as skill mass-gap"))
    assert "verified: 3 of 3" in said
    folder = tmp_path / ".agents/skills/mass-gap"
    [skill] = skills_in(["project"]).values()
    assert skill.description.startswith('Answers: What: is "the gap"?')
    assert sorted(skill.files()) == ["SKILL.md", "scripts/mass_gap.py", "scripts/test_mass_gap.py"]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "scripts"]
    assert "1 passed" in subprocess.run(tests, check=True, capture_output=True, text=True).stdout
    script = folder / "scripts/mass_gap.py"
    subprocess.run([sys.executable, script], check=True, capture_output=True)
    book.run("%agent_code --as skill mass-gap")  # it may be written again
    script.write_text(script.read_text() + "# edited\n")
    with pytest.raises(UsageError, match=r"mass_gap\.py"):
        book.run("%agent_code --as skill mass-gap")
    book.run("%agent_code --as skill mass-gap --force")
    for name in ("Mass", "../gap", "a--b", "x" * 65):
        with pytest.raises(UsageError, match="--as skill"):
            book.run(f"%agent_code --as skill {name}")


def test_a_run_that_is_not_proved_becomes_no_skill(
    book: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    book.ask("What is the gap?", ("final_answer", "I guess 3."))
    with pytest.raises(UsageError, match="proved"):
        book.run("%agent_code --as skill mass-gap")
    assert not (tmp_path / ".agents").exists()
