"""``%agent_check``: which answers still hold, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.code.verify import Difference
from archytas_nb.errors import AnswerChanged, RunInterrupted
from tests.code.notebook import Notebook
from tests.pytest_plugin.runs import run_installed_pytest

DATA = """\
import pandas as pd
import time, random
frame = pd.DataFrame({"mass": [1.5, 2.5, 3.5], "name": ["a", "b", "c"]})
alias = frame
limit = 2
other = [10, 20]
third = {"deep": [[1], [2]]}
still = pd.Series([4, 5, 6])
words = ["one", "two"]"""
TOOLS = '''%%tool
def total() -> float:
    """The sum."""
    return float(frame["mass"].sum())

def above(offset: int) -> int:
    """How many are above the limit."""
    return _count(limit + offset)

def _count(bound):
    return sum(each > bound for each in other)

def deepest() -> int:
    """The deepest."""
    return third["deep"][1][0]

def size(values: pd.Series) -> int:
    """The sum of values."""
    return int(values.sum())

def join(sign: str) -> str:
    """The words."""
    return sign.join(words)

def now() -> float:
    """The time."""
    return time.time()

def dice() -> int:
    """A number."""
    return random.randint(1, 6)

def length(path: str) -> int:
    """The length of a file."""
    with open(path) as file:
        return len(file.read())'''


@pytest.fixture
def book(shell: InteractiveShell) -> Notebook:
    notebook = Notebook(shell)
    notebook.run(DATA)
    notebook.run(TOOLS)
    return notebook


def asked(book: Notebook) -> list[Any]:
    """Ten questions with an answer each."""
    return [
        book.ask("The sum?", ("total", None), ("final_answer", "7.5")),
        book.ask("Above?", ("above", {"offset": 0}), ("final_answer", "2")),
        book.ask("The deepest?", ("deepest", None), ("final_answer", "2")),
        book.ask("The size of still?", ("size", {"values": "still"}), ("final_answer", "15")),
        book.ask("The words?", ("join", {"sign": "-"}), ("final_answer", "one-two")),
        book.ask("The time?", ("now", None), ("final_answer", "now")),
        book.ask("A number?", ("dice", None), ("final_answer", "four")),
        book.ask("A file?", ("length", {"path": "/dev/null"}), ("final_answer", "0")),
        book.ask("Nothing?", ("final_answer", "nothing")),
        book.ask("Twice?", '```python\nanswer(size("still") * 2)\n```', protocol="program"),
    ]


def lines(book: Notebook) -> list[str]:
    return [line.partition(": ")[2] for line in str(book.run("%agent_check")).splitlines()]


def test_exactly_the_answers_whose_values_changed_are_reported(book: Notebook) -> None:
    models = asked(book)
    before = [len(model.asked) for model in models]
    first = lines(book)
    assert [line.partition(" (")[0] for line in first] == ["holds"] * 5 + ["cannot say"] * 4 + [
        "holds"
    ]
    assert [reason in line for line, reason in zip(first[5:9], WHY, strict=True)] == [True] * 4

    book.run("alias.loc[0, 'mass'] = 10.5")  # in place, through an alias
    book.run("limit = 15")  # by rebinding
    book.run("third['deep'][1].insert(0, 7)")  # in place, inside of another object
    book.run("still = pd.Series([4, 5, 6])\nunrelated = 1")  # the same content in another object
    found = lines(book)
    cell = book.shell.execution_count
    assert found[0] == f"7.5 → now 16.5 (frame changed, last mentioned in cell {cell - 5})"
    assert found[1] == f"2 → now 1 (limit changed in cell {cell - 4})"
    assert found[2] == f"2 → now 7 (third changed, last mentioned in cell {cell - 3})"
    assert found[3:] == first[3:]
    assert [len(model.asked) for model in models] == before  # no request was sent
    with pytest.raises(AnswerChanged, match=r"7\.5 → now 16\.5"):
        book.shell.run_line_magic("agent_check", "--strict")


WHY = ("the time", "random numbers", "files", "without calling a tool")


def test_an_input_that_changed_without_changing_the_value(book: Notebook) -> None:
    book.ask("The sum?", ("total", None), ("final_answer", "7.5"))
    book.run("frame['name'] = ['x', 'y', 'z']")
    [line] = lines(book)
    assert line.startswith("holds (frame changed")


def test_a_tool_that_was_defined_differently(book: Notebook) -> None:
    book.ask("The words?", ("join", {"sign": "-"}), ("final_answer", "one-two"))
    book.run(TOOLS)  # the same again
    assert lines(book) == ["holds (nothing it read has changed)"]
    book.run(TOOLS.replace("sign.join(words)", "sign.join(words[::-1])"))
    cell = book.shell.execution_count - 1
    assert lines(book) == [f"'one-two' → now 'two-one' (join changed in cell {cell})"]


def test_a_typed_answer_that_changed_has_both_values(book: Notebook) -> None:
    book.ask("--type float --out mean The sum?", ("total", None), ("final_answer", 7.5))
    book.run("frame['mass'] *= 2")
    cell = book.shell.execution_count - 1
    assert lines(book) == [f"7.5 → now 15.0 (frame changed, last mentioned in cell {cell})"]


def test_a_cell_is_named_as_that_of_the_change_only_if_it_was_seen(book: Notebook) -> None:
    book.ask("The sum?", ("total", None), ("final_answer", "7.5"))
    book.run("def halve():\n    frame['mass'] /= 2")
    book.run("halve()")
    book.run("frame.head(2)")
    cell = book.shell.execution_count - 1
    assert f"(frame changed, last mentioned in cell {cell})" in lines(book)[-1]
    book.ask(
        "--python undoable Double it.",
        ("python", {"code": "frame['mass'] *= 4"}),
        ("final_answer", "Done."),
    )
    assert f"(frame changed in cell {cell + 2})" in lines(book)[0]
    book.run("frame = frame * 2")
    assert f"(frame changed in cell {cell + 4})" in lines(book)[0]


def test_a_tool_whose_function_has_another_name_now(book: Notebook) -> None:
    book.ask("The words?", ("join", {"sign": "-"}), ("final_answer", "one-two"))
    book.run("del join\nwords.append('three')")
    assert lines(book)[0].startswith("'one-two' → now 'one-two-three' (words changed")
    book.run("join = 5")
    assert lines(book)[0].startswith("'one-two' → now 'one-two-three' (words changed")
    assert book.shell.user_ns["join"] == 5


def test_a_program_that_makes_other_calls_now_is_judged_by_its_answer(book: Notebook) -> None:
    program = """\
number = 0
while number < above(offset=1) + 1:
    number += 1
answer(number * 10)"""
    book.ask("How many?", f"```python\n{program}\n```", protocol="program")
    assert lines(book) == ["holds (nothing it read has changed)"]
    book.run("other.append(30)")
    assert lines(book)[0].startswith("30 → now 40 (other changed")
    book.run("other.append(1)\nother.remove(30)")  # the same calls, and the same answer
    assert lines(book)[0].startswith("holds (other changed")


STOP = '''%%tool
def stop(number: int) -> int:
    """Stop."""
    log.append(number)
    if number > 1:
        raise KeyboardInterrupt
    return number'''


def test_a_question_that_was_stopped_has_no_answer(book: Notebook) -> None:
    book.run("%config ArchytasNB.undo = True\nlog = []")
    book.run(STOP)
    with pytest.raises(RunInterrupted):
        book.ask("Stop?", ("stop", {"number": 1}), ("stop", {"number": 2}))
    assert str(book.run("%agent_check")) == "no question was answered in these runs"
    # A value is shown as it was before it was undone.
    assert "the variable 'log' was [1, 2] and is [1]" in str(book.run("%agent_code"))
    assert book.shell.user_ns["log"] == [1, 2]


def test_a_helper_of_a_tool_that_was_defined_differently(book: Notebook) -> None:
    book.ask("Above?", ("above", {"offset": 0}), ("final_answer", "2"))
    book.run("def _count(bound):\n    return 0")
    assert lines(book)[0].startswith("2 → now 0")


def test_code_that_fails_now(book: Notebook) -> None:
    book.ask("The sum?", ("total", None), ("final_answer", "7.5"))
    book.run("del frame")
    assert "NameError" in lines(book)[0]


def test_a_run_that_changed_its_own_input(book: Notebook) -> None:
    book.run(
        '%%tool\ndef grow() -> int:\n    """Grow."""\n    other.append(30)\n    return sum(other)'
    )
    book.ask("Grow?", ("grow", None), ("final_answer", "60"))
    assert lines(book) == ["holds (nothing it read has changed)"]
    book.run("other.append(1)")
    assert "the question itself changed 'other'" in lines(book)[0]
    assert lines(book)[0].startswith("cannot say")


class Counter:
    def __init__(self) -> None:
        self.number = 0

    def hit(self) -> int:
        """Hit."""
        self.number += 100
        return self.number


def test_a_tool_with_a_state_of_its_own_has_not_changed_by_being_called(book: Notebook) -> None:
    counter = Counter()
    book.shell.user_ns |= {"counter": counter}
    book.run("from archytas_nb import toolbox\ntoolbox.add(counter.hit)")
    book.ask("Hit?", ("hit", None), ("final_answer", "100"))
    assert lines(book) == ["holds (nothing it read has changed)"]
    counter.number = 7
    assert lines(book)[0].startswith("cannot say")


def test_a_program_with_faults_has_read_nothing(book: Notebook) -> None:
    faulty = "```python\nwith open('x') as file:\n    answer(nothing)\n```"
    right = '```python\nanswer(size("still"))\n```'
    book.ask("The size?", faulty, right, protocol="program")
    assert lines(book) == ["holds (nothing it read has changed)"]


ASKING = '''%%tool
def rows() -> int:
    """Rows."""
    return base.execute("select 5").fetchone()[0]

def thought() -> str:
    """Think."""
    return str(other_agent("hm?"))'''


DRAWN = """%%tool
def drawn() -> float:
    'Draw a row.'
    return float(frame.sample(1)["mass"].iloc[0])"""


def test_rows_that_are_drawn_are_random(book: Notebook) -> None:
    book.run(DRAWN)
    book.ask("Drawn?", ("drawn", None), ("final_answer", "2"))
    assert lines(book) == ["cannot say (it depends on random numbers: 'drawn' uses 'sample')"]


def test_what_asks_a_model_or_a_database_cannot_be_told(book: Notebook) -> None:
    book.run(
        "import sqlite3\nfrom archytas_nb import Agent\nfrom archytas_nb.testing import ScriptedModel"
    )
    book.run('base = sqlite3.connect(":memory:")')
    book.run("inner = ScriptedModel(('final_answer', 'a'))\nother_agent = Agent([], model=inner)")
    book.run(ASKING)
    book.ask("Rows?", ("rows", None), ("final_answer", "5"))
    book.ask("Think?", ("thought", None), ("final_answer", "a"))
    book.shell.user_ns["base"].close()
    found = lines(book)
    assert [line.partition(" (")[0] for line in found] == ["cannot say", "cannot say"]
    assert "a database" in found[0]
    assert "a model" in found[1]
    assert len(book.shell.user_ns["inner"].asked) == 1


def test_a_large_input_is_compared_as_a_whole(book: Notebook) -> None:
    book.run("still = pd.Series(range(1_000_000))\nwords = ['a', *map(str, range(1_500_000))]")
    book.ask("The size?", ("size", {"values": "still"}), ("final_answer", "many"))
    book.ask("The words?", ("join", {"sign": "-"}), ("final_answer", "many"))
    assert lines(book) == ["holds (nothing it read has changed)"] * 2
    book.run("still.iloc[-1] = 0\nwords[-1] = 'last'")
    assert all("last mentioned in cell" in each and " → now " in each for each in lines(book))


CHECKED = '''%load_ext archytas_nb
from archytas_nb.testing import ScriptedModel
numbers = [1, 2]
script = ScriptedModel(("total", None), ("final_answer", "3"))
def total() -> int:
    """The sum."""
    return sum(numbers)
from archytas_nb import toolbox
toolbox.add(total)'''


@pytest.mark.parametrize("changed", [False, True])
def test_pytest_says_whether_an_answer_of_a_report_is_stale(changed: bool, tmp_path: Path) -> None:
    cells = [CHECKED, "%config ArchytasNB.protocol = 'react'\n%agent -m script The sum?"]
    if changed:
        cells.append("numbers.append(4)")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    nbformat.write(book, tmp_path / "report.ipynb")
    done = run_installed_pytest(tmp_path, "--agent-check", "report.ipynb")
    assert done.code == int(changed), done.out
    assert ("3 → now 7" in done.out) == changed


def test_a_table_that_changed_says_which_cells() -> None:
    before = pd.DataFrame({"species": ["Adelie", "Gentoo"], "mean": [3700.7, 5092.4]})
    now = before.assign(mean=[3706.2, 5092.4])
    assert Difference("x", before, now).change == "1 cell changed: mean[Adelie] 3700.7 → 3706.2"
    assert "→ now" in Difference("x", before, now.head(1)).change
    many = pd.DataFrame({"n": range(9)})
    assert Difference("x", many, many + 1).change.endswith(", … 6 more")
