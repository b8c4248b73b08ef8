"""Each notebook of the project replays exactly, without network access to models.

nbval tests in place that the outputs are reproduced.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.pytest_plugin.runs import run_installed_pytest, run_pytest, run_python
from tests.sampling import few_of

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NOBODY = "http://127.0.0.1:9/v1"
VERSION = re.compile(r'"version": "3[0-9.]+"')
"""The Python that a notebook was run with last, which is the machine's."""


def without_times(path: Path) -> str:
    """A notebook without the time stamps that ``jupyter execute`` always adds."""
    book = json.loads(VERSION.sub('"version": ""', path.read_text("utf-8")))
    for cell in book["cells"]:
        cell["metadata"].pop("execution", None)
    return json.dumps(book)


def copied(folder: Path, *notebooks: Path) -> None:
    """Copy notebooks and the files next to them into a folder."""
    shutil.copytree(
        FOLDER, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.ipynb", ".*")
    )
    for each in notebooks:
        shutil.copy(each, folder)


FEW = [path for path in NOTEBOOKS if path.stem[:2] in {"03", "04"}]
"""Figures and frames, and approvals; nbval replays all notebooks in every run."""


@pytest.mark.parametrize("notebooks", few_of(FEW, NOTEBOOKS))
def test_an_update_asks_no_model_and_changes_no_notebook_or_cassette(
    notebooks: list[Path], tmp_path: Path
) -> None:
    copied(tmp_path, *notebooks)
    done = run_pytest(tmp_path, "--agent-update", ".", OPENAI_BASE_URL=NOBODY)
    assert done.code == 0, done.out
    for original in notebooks:
        saved = (tmp_path / original.name).read_text("utf-8")
        assert VERSION.sub("", saved) == VERSION.sub("", original.read_text("utf-8")), original.name
    cassettes = {path.name: path.read_bytes() for path in (FOLDER / "cassettes").iterdir()}
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "cassettes").iterdir()
    } == cassettes


EXECUTED = [
    pytest.param(each, id=each.stem, marks=[] if each.stem == "01_quickstart" else pytest.mark.slow)
    for each in NOTEBOOKS
]
"""The README tells to run the first one."""


@pytest.mark.parametrize("original", EXECUTED)
def test_run_all_needs_no_model_and_reproduces_a_notebook_except_for_times(
    original: Path, tmp_path: Path
) -> None:
    copied(tmp_path, original)
    notebook = tmp_path / original.name
    # Nothing sets the cassette or its mode but the notebook itself.
    variables = {"OPENAI_BASE_URL": NOBODY, "ARCHYTAS_NB_DISCOVER": "0"}
    done = run_python("-m", "jupyter", "execute", "--inplace", str(notebook), **variables)
    assert done.code == 0, done.out
    assert without_times(notebook) == without_times(original)


@pytest.mark.slow
@pytest.mark.parametrize("original", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_replays_strictly_alone_and_twice(original: Path, tmp_path: Path) -> None:
    copied(tmp_path, original)
    for _ in range(2):
        done = run_installed_pytest(
            tmp_path, "--nbval", "--agent-replay", "--agent-strict", original.name
        )
        assert done.code == 0, done.out
