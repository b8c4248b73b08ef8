"""The code of all runs of the example notebooks, as a script and as a notebook, runs by itself.

The rows of notebook 09 are answered by a model each, without calls: they have no code.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from tests.pytest_plugin.runs import run_installed_pytest, run_python
from tests.test_example_notebooks import FOLDER, NOBODY, copied

SLOW = pytest.mark.slow
EXAMPLES = [
    pytest.param("01_quickstart", 6, 0),
    pytest.param("02_tools_in_depth", 6, 0, marks=SLOW),
    pytest.param("03_data_analysis", 6, 0, marks=SLOW),
    pytest.param("04_approval_and_safety", 0, 9, marks=SLOW),
    pytest.param("05_testing_your_notebook", 6, 0, marks=SLOW),
    pytest.param("06_other_models", 6, 0, marks=SLOW),
    pytest.param("08_your_data", 6, 0),
]
"""Those in which tools are called with %agent, with the least number of proofs and of runs that are not proved,
as a tool that they call needs your approval; each run is proved three times, alone and for two files."""
PROVE = 'print(get_ipython().run_line_magic("agent_code", ""))'
"""Unlike the magic alone it leaves `_` as it is, which the next cell may use."""
UNPROVED = "needs your approval; run the code yourself"


def shown(cell: dict[str, object]) -> str:
    """The output of a cell, as text."""
    return json.dumps(cell["outputs"])


def executed(notebook: Path) -> list[dict[str, object]]:
    """The cells of a notebook that was run, without a model, as a user runs it."""
    variables = {"OPENAI_BASE_URL": NOBODY, "ARCHYTAS_NB_DISCOVER": "0"}
    done = run_python("-m", "jupyter", "execute", "--inplace", str(notebook), **variables)
    assert done.code == 0, done.out
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return [each for each in cells if each["cell_type"] == "code"]


def runs_by_itself(folder: Path) -> None:
    """Both files run, and nbval compares what the cells put out now with the values of the runs."""
    done = run_python(str(folder / "all.py"))
    assert done.code == 0, done.out
    done = run_installed_pytest(folder, "--nbval", "all.ipynb")
    assert done.code == 0, done.out


@pytest.mark.parametrize(("name", "proofs", "unproved"), EXAMPLES)
def test_the_code_of_all_runs_is_proved_and_runs_by_itself(
    name: str, proofs: int, unproved: int, tmp_path: Path
) -> None:
    """All runs are proved, and together they are a script, and a notebook for nbval."""
    original = FOLDER / f"{name}.ipynb"
    copied(tmp_path, original)
    notebook = tmp_path / original.name
    book = nbformat.read(notebook, as_version=4)
    cells = []
    for cell in book.cells:
        cells.append(cell)
        if cell.cell_type == "code" and re.search(r"%agent (?!_)", cell.source):
            cells.append(nbformat.v4.new_code_cell(PROVE))
    files = ("all.py", "all.ipynb")
    cells += [nbformat.v4.new_code_cell(f"%agent_code {file} --runs all") for file in files]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=book.metadata), notebook)

    ran = executed(notebook)
    texts = [shown(each) for each in ran if "agent_code" in "".join(each["source"])]
    text = "\n".join(texts)
    found = re.findall(r"verified: (\d+) of (\d+) values", text)
    assert len(found) >= proofs
    assert all(equal == of for equal, of in found)
    assert text.count("not verified") == text.count(UNPROVED) == unproved, text
    runs_by_itself(tmp_path)


KEEP = "kept.append(agent)"
WRITE = """\
from pathlib import Path
from IPython.lib.pretty import pretty
from archytas_nb.code.derive import derive
from archytas_nb.code.files import FilePart, write

runs = [run for agent in dict.fromkeys(kept) for run in agent._conversation.runs]
codes = [derive(run.recorded()) for run in runs]
parts = [FilePart(source) for source in setup] + [FilePart(code.body, code) for code in codes]
write(Path("all.py"), parts, globals(), pretty)
write(Path("all.ipynb"), parts, globals(), pretty)
[str(run.verify()) for run in runs]"""


@SLOW
def test_the_code_of_agents_in_plain_python_runs_by_itself(tmp_path: Path) -> None:
    """All runs of a notebook without magics are proved, and are a script and a notebook."""
    original = FOLDER / "07_plain_python.ipynb"
    copied(tmp_path, original)
    sources = [each.source for each in nbformat.read(original, 4).cells if each.cell_type == "code"]
    setup = sources[:2]
    sources = [f"{each}\n{KEEP}" if "agent." in each else each for each in sources]
    sources = [f"setup = {setup}\nkept = []", *sources, WRITE]
    write(tmp_path / original.name, sources)
    ran = executed(tmp_path / original.name)
    assert "not verified" not in shown(ran[-1])
    found = re.findall(r"verified: (\d+) of (\d+) values", shown(ran[-1]))
    assert found == [("1", "1"), ("1", "1"), ("3", "3"), ("2", "2")]  # and one called nothing
    runs_by_itself(tmp_path)


PLAN = """\
import json
from pathlib import Path

answers = krill["answer"].astype(object).where(krill["by"] == "program", None)
Path("plan.json").write_text(json.dumps([krill.attrs["plan"]["code"], repr(answers.to_list())]))"""


@SLOW
def test_the_code_of_a_planned_map_runs_by_itself(tmp_path: Path) -> None:
    original = FOLDER / "10_planned_map.ipynb"
    copied(tmp_path, original)
    sources = [each.source for each in nbformat.read(original, 4).cells if each.cell_type == "code"]
    write(tmp_path / original.name, [*sources, PLAN])
    executed(tmp_path / original.name)
    code, answers = json.loads((tmp_path / "plan.json").read_text("utf-8"))
    assert answers.count("None") == 2
    script = "\n\n".join([*sources[:2], code])
    (tmp_path / "all.py").write_text(f"{script}\n\nassert answers == {answers}\n", "utf-8")
    assert run_python(str(tmp_path / "all.py")).code == 0


def write(path: Path, sources: list[str]) -> None:
    """Write a notebook of code cells."""
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
