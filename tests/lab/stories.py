"""The notebooks that are run in JupyterLab."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat

from tests.batch.test_plan import PROMPT
from tests.lab.lab import REPOSITORY

# The cassette belongs to the quickstart alone.
_SETUP = """\
%load_ext archytas_nb
import os, time
for name in ("ARCHYTAS_NB_CASSETTE", "ARCHYTAS_NB_CASSETTE_MODE"):
    os.environ.pop(name, None)
from tests.lab.typist import Typist"""

_PENGUINS = """\
%load_ext archytas_nb
import time
import matplotlib.pyplot as plt
import pandas as pd
from palmerpenguins import load_penguins

penguins = load_penguins().dropna()"""

_PENGUIN_TOOLS = '''\
%%tool
def mass_by_species(unit: str = "g") -> pd.DataFrame:
    """Average the body mass of each species.

    Args:
        unit: "g" or "kg"
    """
    if unit not in ("g", "kg"):
        raise ValueError(f"unit is {unit!r}; expected 'g' or 'kg'")
    masses = penguins.groupby("species", as_index=False)["body_mass_g"]
    return masses.agg(["count", "mean"]).round({"mean": 0 if unit == "g" else 3})


def plot_masses() -> None:
    """Draw the body mass of each species as a box plot."""
    groups = {name: group["body_mass_g"] for name, group in penguins.groupby("species")}
    for name, group in groups.items():
        print(f"reading {len(group)} {name} penguins")
        time.sleep(1.5)
    _, axes = plt.subplots(figsize=(6, 1.9), layout="constrained")
    axes.boxplot(list(groups.values()), orientation="horizontal", tick_labels=list(groups))
    axes.set_xlabel("body mass, g")
    plt.show()'''

# A screenshot shows the question, not where its answer comes from: the script is the configured model.
_SCRIPT = """\
from tests.lab.typist import Typist

masses = Typist(
    ("I average the masses of each species.", "mass_by_species", {"unit": "pounds"}),
    ("It must be 'g' or 'kg'.", "mass_by_species", {"unit": "g"}),
    ("In kg, too.", "mass_by_species", {"unit": "kg"}),
    ("A picture says more than three numbers.", "plot_masses", {}),
    ("I have what I need.", "final_answer",
     "**Gentoo** penguins are the heaviest: 5,092 g on average, about 1.4 kg more than the others.\\n\\n"
     "| species | birds | mean mass | standard deviation | lightest |\\n|---|---:|---:|---:|---:|\\n"
     "| Adelie | 146 | 3,706 g | 458.620 g | 2,850 g |\\n"
     "| Chinstrap | 68 | 3,733 g | 384.335 g | 2,700 g |\\n"
     "| Gentoo | 119 | 5,092 g | 501.476 g | 3,950 g |"
    ),
)"""

_DELETE = '''\
%%tool
from archytas_nb import tool

rows = list(range(10))

@tool(approve=True)
def delete_rows(above: int) -> str:
    """Delete rows.

    Args:
        above: Rows with a greater number are deleted
    """
    rows[:] = [row for row in rows if row <= above]
    return f"{len(rows)} rows are left"'''

_DELETE_SCRIPT = """\
allowed = Typist(("Only five are wanted.", "delete_rows", {"above": 4}), ("final_answer", "Five rows are left."))
refused = Typist(("Away with them.", "delete_rows", {"above": -1}), ("final_answer", "I left them."))"""

_QUERY = '''\
%%tool
from archytas_nb import tool

def changes(sql: str, limit: int = 5, table: str = "penguins", note: str = "") -> str | bool:
    return "It changes the table penguins." if "DELETE" in sql else True

@tool(approve=changes)
def query(sql: str, limit: int = 5, table: str = "penguins", note: str = "") -> str:
    """Run a query.

    Args:
        sql: What to run
        limit: How many rows at most
        table: Which table
        note: What it is for
    """
    time.sleep(3 if limit == 10 else 0)
    return f"{limit} rows"'''

_QUERY_SCRIPT = """\
sql = "SELECT species, count(*) AS n  -- all of them\\nFROM penguins\\nWHERE island = 'Biscoe'\\nGROUP BY species"
delete = "DELETE FROM penguins\\nWHERE body_mass_g IS NULL"
edited = Typist(("I count them by species.", "query", {"sql": sql, "limit": 5}), ("final_answer",
    "Two species:\\n\\n```python\\nrows = query(limit=10)  # as you wanted\\nprint(f'{len(rows)} rows')\\n```"))
again = ("I take fewer.", "query", {"sql": delete, "limit": 3, "note": "tidy\u202e up"})
refused = Typist(("These are of no use.", "query", {"sql": delete, "note": "tidy\u202e up"}),
    again, ("final_answer", "Nothing was deleted."))
waits = Typist(("These are of no use.", "query", {"sql": delete}), ("final_answer", "Done."))"""

_PHASES = """\
from archytas_nb.loop.events import Delta, Notice

class Phases(Typist):
    def complete(self, ask):
        if ask.step == 1:
            for event in (
                Notice("progress", "Loading the local model qwen2.5-coder (3 s)"),
                Delta("status", "waiting for another question to the local model"),
                Delta("status", "reading the prompt: 512 of 2,048 tokens"),
                Notice("retry", "503 Service Unavailable. Trying again (1 of 3)", seconds=3),
            ):
                yield event
                time.sleep(3 if event.kind == "retry" else 1.5)
        return (yield from super().complete(ask))

thought = "I sleep now, and I say so in a sentence that takes a while to write. " * 2
phases = Phases((thought, "sleep", {"seconds": 3}), ("final_answer", "I slept."), pause=0.05)
fails = Typist(("I sleep.", "sleep", {"seconds": 0}), ("fail_task", "There is no table of flights."))"""

_SLEEP = '''\
%%tool
def sleep(seconds: float) -> str:
    """Sleep.

    Args:
        seconds: How long
    """
    print("good night")
    time.sleep(seconds)
    return "slept"'''

_FORMULA = r"""
answer = r"It is $\bar{x} = 3.5$ for \(n\) birds, and costs $5; \(\href{javascript:window.pwned=1}{x}\)."
model = Typist(("final_answer", answer))"""

_LARGE = '''\
%%tool
def read_log() -> str:
    """Read the log."""
    lines = [f"line {n:06} of a log that is five megabytes long" for n in range(110_000)]
    for line in lines:
        print(line)
    return "\\n".join(lines)


def count(n: int) -> int:
    """Count.

    Args:
        n: A number
    """
    return n'''

_LARGE_SCRIPT = """\
reads = Typist(("read_log", {}), ("final_answer", "The log is long."))
calls = [("count", {"n": n}) for n in range(300)]
counts = Typist(*calls, ("final_answer", "That was all."), piece=40, pause=0.01)"""


_ORDERS = '''\
%%tool
from archytas_nb import tool

@tool
def stock(item: str) -> int:
    """How many of an item there are.

    Args:
        item: Its name
    """
    time.sleep(2)
    return {"apples": 3, "pears": 40, "figs": 7}[item]

@tool(approve=True)
def order(item: str, amount: int) -> str:
    """Order an item.

    Args:
        item: Its name
        amount: How many
    """
    return f"{amount} {item} ordered"'''

_ORDER_SCRIPT = """\
def program(text):
    return f"```python\\n{text}\\n```"

counts = Typist(
    program(
        'names = ["apples", "pears", "plums"]\\n'
        "few = [each for each in names if stock(each) < 10]\\n"
        'answer(f"Few are left of {few}.")'
    ),
    program(
        "# There are no plums: ask for figs.\\n"
        'left = {each: stock(item=each) for each in ["apples", "pears", "figs"]}\\n'
        "few = sorted(left, key=left.get)[:2]\\n"
        "if left[few[0]] < 10:\\n"
        "    show(few)\\n"
        'answer(f"Few are left of {few[0]} ({left[few[0]]}) and {few[1]} ({left[few[1]]}).")'
    ),
    protocol="program",
)
orders = Typist(
    program(
        'for each in ["apples", "figs"]:\\n'
        "    order(item=each, amount=20 - left[each])\\n"
        'answer("Both are ordered.")'
    ),
    program('answer("Apples are ordered, figs are not.")'),
    protocol="program",
)"""


def write_all(folder: Path, hanging_url: str) -> None:
    """Write every notebook into a folder.

    Args:
        folder: Where they go.
        hanging_url: An endpoint that takes a request and never answers.
    """
    quickstart = nbformat.read(REPOSITORY / "notebooks" / "01_quickstart.ipynb", as_version=4)
    for cell in quickstart.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(quickstart, folder / "quickstart.ipynb")
    cassette = Path("cassettes", "01_quickstart.jsonl")  # as the notebook names it
    (folder / cassette.parent).mkdir()
    shutil.copy(REPOSITORY / "notebooks" / cassette, folder / cassette)
    question = "%agent --model masses Which penguins are the heaviest, and by how much?"
    write_notebook(folder / "penguins.ipynb", _PENGUINS, _PENGUIN_TOOLS, _SCRIPT, question)
    write_notebook(
        folder / "approval.ipynb",
        _SETUP,
        _DELETE,
        _DELETE_SCRIPT,
        "%agent --model allowed Keep the first five rows",
        "%agent --model refused Delete all rows",
    )
    write_notebook(
        folder / "query.ipynb",
        _SETUP,
        _QUERY,
        _QUERY_SCRIPT,
        "%agent --model edited How many penguins of each species live on Biscoe?",
        "%agent --model refused Remove the penguins that nobody has weighed",
        "%agent --new --model waits Remove them all",
    )
    write_controls(folder)
    write_tell(folder)
    write_notebook(
        folder / "programs.ipynb",
        _SETUP,
        _ORDERS,
        _ORDER_SCRIPT,
        "%config ArchytasNB.protocol = 'program'\n%agent --model counts Of what are few left?",
        "%agent --model orders Order what there is little of",
    )
    write_notebook(
        folder / "phases.ipynb",
        _SETUP,
        _SLEEP,
        _PHASES,
        "%agent --model phases Sleep a little",
        "%agent --new --model fails How many flights were there?",
    )
    hanging = (
        f'import archytas_nb as nb\nhanging = nb.OpenAIModel("tiny-1", {hanging_url!r}, "no-key")'
    )
    sleeping = 'sleeping = Typist(("sleep", {"seconds": 600}))\nquick = Typist(("final_answer", "Here I am."))'
    write_notebook(
        folder / "interrupts.ipynb",
        _SETUP,
        _SLEEP,
        f"{hanging}\n{sleeping}",
        "%agent --model hanging Will you ever answer?",
        "%agent --model sleeping Sleep for ten minutes",
        "%agent --model quick Are you there?",
    )
    write_notebook(
        folder / "formula.ipynb", _SETUP, _FORMULA, "%agent --model model What is the mean?"
    )
    write_notebook(
        folder / "large.ipynb",
        _SETUP,
        _LARGE,
        _LARGE_SCRIPT,
        "%agent --model reads What does the log say?",
        "len(read_log_1)",
        "%config ArchytasNB.max_total_tokens = 100_000_000\n%agent --new --model counts --max-steps 400 Count to three hundred",
        "# typed while it runs: ",
    )


def write_actions(folder: Path) -> None:
    """Write the notebook in which a person acts on answers."""
    script = (
        "rows = [1, 2, 3]\n"
        "one = Typist(('final_answer', 'There are three.'))\n"
        "two = Typist(('I add one.', 'python', {'code': 'rows.append(11)'}),\n"
        "    ('final_answer', 'Eleven is there.'))"
    )
    write_notebook(
        folder / "actions.ipynb",
        CONTROLS,
        script,
        "%agent --model one How many are there?",
        "%agent --model two --python undoable Add eleven",
        "len(rows)",
    )


def write_insert(folder: Path, name: str) -> None:
    """Write the notebook in which code becomes a cell by a click, also below a background run."""
    script = (
        "rows = [1, 2, 3]\n"
        "code = 'So:\\n```python\\nfor row in rows:\\n    print(row)\\n```\\nThat is all.'\n"
        "one = Typist(('python', {'code': 'rows.append(11)'}), ('final_answer', code))"
    )
    write_notebook(
        folder / name,
        CONTROLS,
        script,
        "%agent --model one --python undoable --background Write code",
        "'the next cell'",
        "'the last cell'",
    )


CONTROLS = f"{_SETUP}\n%config ArchytasNB.ask_with = 'auto'"

_APPROVED = """\
calls = [("delete_rows", {"above": above}) for above in (8, 7, 6, 5)]
once = Typist(*calls[:1], ("final_answer", "Nine rows are left."))
each = Typist(*calls, ("final_answer", "Six rows are left."))
other = Typist(*calls[:1], ("ask_user", {"question": "Which?", "choices": ["red", "blue"]}),
    ("final_answer", "As you like."))
waits = Typist(*calls)"""


def write_controls(folder: Path, name: str = "controls.ipynb") -> None:
    """Write the notebook in which a person is asked with controls."""
    write_notebook(
        folder / name,
        CONTROLS,
        _DELETE,
        _APPROVED,
        "%agent --model once Keep nine rows",
        "%agent --new --model each Keep six rows",
        "%agent --new --model other Which rows?",
        "%agent --new --model waits Keep none",
    )


_FORMS = '''\
from pathlib import Path
from archytas_nb import tool

@tool(approve=True)
def run_sql(sql: str, database: str = "staging", limit: int = 5) -> str:
    """Run SQL.

    Args:
        sql: What to run
        database: Where
        limit: How many rows at most
    """
    with Path("ran").open("a") as file:
        file.write("x")
    return "17 rows affected"'''

_FORMS_SCRIPT = """\
sql = "DELETE FROM measurements AS m\\nUSING measurements AS twin\\nWHERE m.id > twin.id"
thought = "Duplicates are removed with one statement, and the others are left as they are. "
calls = [(thought, "run_sql", {"sql": sql, "limit": n}) for n in range(20)]
often = Typist(*calls, ("final_answer", "Done."))"""


def write_forms(folder: Path, name: str) -> None:
    """Write the notebook in which one call after another waits, twenty times."""
    write_notebook(
        folder / name,
        CONTROLS,
        _FORMS,
        _FORMS_SCRIPT,
        "%agent --new --model often --max-steps 30 Remove the duplicates",
        "",
        "",
    )


_COMPUTE = """\
from pathlib import Path

@nb.tool
def compute() -> int:
    "Compute until the file 'enough' is there."
    rounds = 0
    while not Path("enough").exists():
        rounds += 1
    return 7

told = Typist(("compute", {}), ("final_answer", "It is seven."))"""


def write_tell(folder: Path) -> None:
    """Write the notebook in which an agent is told something while its tool computes."""
    write_notebook(
        folder / "tell.ipynb",
        f"import archytas_nb as nb\n{CONTROLS}\n{_COMPUTE}",
        "%agent --model told Compute",
        "[each['content'] for each in told.asked[-1].messages]",
    )


def write_map(folder: Path, url: str, name: str = "map.ipynb", setup: str = _SETUP) -> None:
    """Write the notebook in which an agent labels eight rows, asking the server at this address."""
    write_notebook(
        folder / name,
        setup,
        f"""\
import archytas_nb as nb
import pandas as pd
from tests.batch.test_map import Label

tiny = nb.OpenAIModel("tiny-1", {url!r}, "no-key")
df = pd.DataFrame({{"text": [f"row {{n}}" for n in range(8)]}}, index=list("abcdefgh"))""",
        # Each notebook has results of its own: what one has asked, the other would not ask again.
        f"%agent_map --on df --type Label --out labels --workers 2 --model tiny "
        f"--store {Path(name).stem}.sqlite Label {{text}}.",
        'labels[["label", "number", "status"]]',
    )


def write_plan(folder: Path) -> None:
    """Write the notebook in which a person decides on the plan of a map."""
    write_notebook(
        folder / "plan.ipynb",
        CONTROLS,
        """\
import archytas_nb as nb
from tests.batch.planner import Planner
from tests.batch.test_plan import PROGRAM, cost, data

@nb.tool(pure=True)
def price_of(product: str) -> float:
    "Get the price of a product."
    return float(len(product))

twice = PROGRAM.replace(")", ") * 2", 1)
planner = Planner(PROGRAM, twice, single=cost)
df = data(60)""",
        f"%agent_map --on df --type float --out out --plan --model planner --store plan.sqlite "
        f"{PROMPT}",
        "float(out.answer.sum()), len(planner.plans), set(out.by)",
    )


def write_notebook(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    nbformat.write(notebook, path)


def write_fix(folder: Path) -> None:
    """Write the notebook in which a cell fails and is corrected."""
    write_notebook(
        folder / "fix.ipynb",
        f"""\
import archytas_nb as nb
{CONTROLS}
from archytas_nb.testing import ScriptedModel

why = ScriptedModel(("final_answer", "It divides by zero."))
model = ScriptedModel(("final_answer", "x is zero.\\n```python\\nx = 2\\ny = 1 / x\\n```"))""",
        "x = 0\ny = 1 / x",
        "%agent --model why Why?",
        "%agent_fix --model model",
        "y,",
    )
