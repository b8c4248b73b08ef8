"""The code of all runs of the example notebooks, as a script and as a notebook, runs by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from tests.pytest_plugin.runs import run_installed_pytest, run_python
from tests.test_example_notebooks import FOLDER, NOBODY, copied

EXAMPLES = [
    "01_quickstart",
    pytest.param("02_tools_in_depth", marks=pytest.mark.slow),
    pytest.param("03_data_analysis", marks=pytest.mark.slow),
    pytest.param("05_testing_your_notebook", marks=pytest.mark.slow),
    pytest.param("06_other_models", marks=pytest.mark.slow),
    "08_your_data",
]
"""Those in which tools are called with %agent and without approval."""


def proofs(cell: dict[str, object]) -> list[tuple[str, str]]:
    """How many values of how many were equal, for each run that a cell has proved."""
    text = json.dumps(cell["outputs"])
    assert "not verified" not in text, text
    return re.findall(r"verified: (\d+) of (\d+) values", text)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_code_of_all_runs_is_proved_and_runs_by_itself(name: str, tmp_path: Path) -> None:
    """All runs are proved, and together they are a script, and a notebook for nbval."""
    original = FOLDER / f"{name}.ipynb"
    copied(tmp_path, original)
    notebook = tmp_path / original.name
    book = nbformat.read(notebook, as_version=4)
    cells = []
    for cell in book.cells:
        cells.append(cell)
        if cell.cell_type == "code" and re.search(r"%agent (?!_)", cell.source):
            cells.append(nbformat.v4.new_code_cell("%agent_code"))
    files = ("all.py", "all.ipynb")
    cells += [nbformat.v4.new_code_cell(f"%agent_code {file} --runs all") for file in files]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=book.metadata), notebook)
    variables = {"OPENAI_BASE_URL": NOBODY, "ARCHYTAS_NB_DISCOVER": "0"}
    done = run_python("-m", "jupyter", "execute", "--inplace", str(notebook), **variables)
    assert done.code == 0, done.out

    ran = json.loads(notebook.read_text("utf-8"))["cells"]
    found = [proofs(each) for each in ran if "".join(each["source"]).startswith("%agent_code")]
    assert sum(map(len, found)) >= 6
    assert all(equal == of for each in found for equal, of in each)
    assert run_python(str(tmp_path / "all.py")).code == 0
    # nbval compares what the cells put out now with the values of the runs.
    done = run_installed_pytest(tmp_path, "--nbval", "all.ipynb")
    assert done.code == 0, done.out
