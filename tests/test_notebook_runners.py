"""Notebooks run without a person by papermill, with parameters, and by nbclient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.servers.plays import Say
from tests.servers.server import Server

ASKS = "%agent How many {species} are there?"


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook with a parameter that its prompt contains."""
    cells = [
        nbformat.v4.new_code_cell('species = "Gentoo"', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("%load_ext archytas_nb\n%agent_cassette counts.jsonl"),
        nbformat.v4.new_code_cell(ASKS),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), tmp_path / "n.ipynb"
    )
    return tmp_path / "n.ipynb"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("OPENAI_API_KEY", "ARCHYTAS_NB_CASSETTE", "ARCHYTAS_NB_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)

    def name(url: str, mode: str = "") -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", mode)

    return name


def run(notebook: Path, species: str) -> str:
    """Run it with papermill; return the output of the last cell."""
    done = papermill.execute_notebook(
        notebook,
        notebook.with_name(f"{species}.ipynb"),
        {"species": species},
        cwd=notebook.parent,
        progress_bar=False,
    )
    return "".join(output["data"]["text/plain"] for output in done.cells[-1].outputs)


# papermill's own dependencies warn in their own code
pytestmark = pytest.mark.filterwarnings("default:::papermill", "default::DeprecationWarning")


def test_each_papermill_parameter_gets_its_own_recorded_answer(
    notebook: Path, endpoint: Any
) -> None:
    """In mode auto, a new prompt is asked live and added; the recordings for other parameters stay."""
    with Server(Say("There are 124."), Say("There are 152.")) as server:
        endpoint(server.url)
        assert "124" in run(notebook, "Gentoo")
        assert "152" in run(notebook, "Adelie")
        assert len(server.chats) == 2
    endpoint("http://127.0.0.1:9/v1", "replay")
    assert "124" in run(notebook, "Gentoo")
    assert "152" in run(notebook, "Adelie")
    with pytest.raises(papermill.PapermillExecutionError) as caught:
        run(notebook, "Chinstrap")
    said = str(caught.value)
    assert "the question has changed" in said
    assert "How many Chinstrap are there?" in said
    assert "%agent_cassette counts.jsonl --mode auto" in said


def test_nbclient_replays_and_a_new_prompt_is_a_miss(notebook: Path, endpoint: Any) -> None:
    with Server(Say("There are 124.")) as server:
        endpoint(server.url)
        run(notebook, "Gentoo")
    endpoint("http://127.0.0.1:9/v1", "replay")
    book = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(book, resources=resources).execute()
    [output] = book.cells[-1].outputs
    assert output["output_type"] == "display_data"
    assert "There are 124." in output["data"]["text/html"]
    book.cells[0].source = 'species = "Adelie"'
    with pytest.raises(CellExecutionError, match="the question has changed"):
        NotebookClient(book, resources=resources).execute()
