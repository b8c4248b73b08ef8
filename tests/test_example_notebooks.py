"""Each notebook of the project replays to the byte, with the network to models refused, twice in a row."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.pytest_plugin.runs import run_pytest, run_python

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NOBODY = "http://127.0.0.1:9/v1"
VERSION = re.compile(r'"version": "3[0-9.]+"')
"""The Python that a notebook was run with last, which is the machine's."""


def without_times(path: Path) -> str:
    """A notebook without the time stamps of ``jupyter execute``, which cannot be told to leave them out."""
    book = json.loads(VERSION.sub('"version": ""', path.read_text("utf-8")))
    for cell in book["cells"]:
        cell["metadata"].pop("execution", None)
    return json.dumps(book)


@pytest.mark.parametrize("original", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_replays_twice_and_is_saved_as_it_was(original: Path, tmp_path: Path) -> None:
    notebook = tmp_path / original.name
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.ipynb", ".*"))
    shutil.copy(original, notebook)
    for each in (
        path for path in original.parent.iterdir() if path.suffix not in (".ipynb", "") and path.is_file()
    ):
        shutil.copy(each, tmp_path)
    for _ in range(2):
        done = run_pytest(tmp_path, "--nbval", "--agent-replay", "--agent-strict", original.name)
        assert done.code == 0, done.out
    done = run_pytest(tmp_path, "--agent-update", original.name, OPENAI_BASE_URL=NOBODY)
    assert done.code == 0, done.out
    assert VERSION.sub("", notebook.read_text("utf-8")) == VERSION.sub("", original.read_text("utf-8"))
    cassette = tmp_path / "cassettes" / f"{notebook.stem}.jsonl"
    assert not cassette.exists() or cassette.read_bytes() == (FOLDER / "cassettes" / cassette.name).read_bytes()
    variables = {"ARCHYTAS_NB_CASSETTE_MODE": "replay", "OPENAI_BASE_URL": NOBODY}
    variables |= {"ARCHYTAS_NB_CASSETTE": str(cassette)} if cassette.exists() else {}
    done = run_python("-m", "jupyter", "execute", "--inplace", str(notebook), **variables)
    assert done.code == 0, done.out
    assert without_times(notebook) == without_times(original)
