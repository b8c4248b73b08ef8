"""The notebooks of this folder show every kind of trace; nbval holds each against its saved outputs, strictly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))
KINDS = {
    "a table": r"DataFrame 3 × 2",
    "a figure": r"\[image/png\]",
    "an error of the tool": r"ZeroDivisionError",
    "an input that does not fit": r"wrong arguments",
    "a tool that does not exist": r"no tool has this name",
    "a refusal": r"⊘ delete\(",
    "a question with nobody there": r"⊘ ask_user\(",
    "a repeated call": r"↺ share was not run",
    "a reply that could not be used": r"the reply could not be used",
    "a limit": r"Stopped by the limit max_steps=2",
    "a model that gives up": r"The model gave up",
    "an interrupt": r"■ Interrupted during a tool",
    "an endpoint that fails": r"The endpoint failed",
    "a retry": r"↻ the endpoint",
    "a compaction": r"≡ the conversation",
    "an answer that is not accepted": r"was not accepted",
    "a typed answer": r"^\[2, 3, 5, 7, 11\]$",
}


def executed(path: Path) -> list[str]:
    """The outputs of a notebook's cells, run now with nobody there, as the file has them but for times."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, record_timing=False).execute()
    outputs = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    return [
        json.dumps(each | {"metadata": {}, "traceback": []}, ensure_ascii=False) for each in outputs
    ]


OFTEN = "outcomes"
"""The longest of them; nbval runs each of them once."""
TWICE = [
    pytest.param(each, id=each.stem, marks=[] if each.stem == OFTEN else pytest.mark.slow)
    for each in NOTEBOOKS
]


@pytest.mark.parametrize("path", TWICE)
def test_a_notebook_that_is_run_twice_has_the_same_bytes(path: Path) -> None:
    first = executed(path)
    assert first
    assert first == executed(path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_trace_is_in_one_of_them(kind: str) -> None:
    every = [nbformat.read(path, as_version=4) for path in NOTEBOOKS]
    outputs = [
        each for notebook in every for cell in notebook.cells for each in cell.get("outputs", [])
    ]
    texts = [output["data"]["text/plain"] for output in outputs if "data" in output]
    assert any(re.search(KINDS[kind], text, re.MULTILINE) for text in texts)


def test_a_semicolon_and_quiet_leave_no_second_display() -> None:
    """The trace alone with a semicolon; with --quiet nothing but the value that is asked for."""
    notebook = nbformat.read(Path(__file__).parent / "answers.ipynb", as_version=4)
    outputs = {cell.source.split("\n")[-1]: cell.get("outputs", []) for cell in notebook.cells}
    [golden] = outputs["%agent --new --model model What is golden?;"]
    assert golden.output_type == "display_data"
    [value] = outputs["run"]
    assert value.output_type == "execute_result"
    assert value.data["text/plain"] == "Only 2."
