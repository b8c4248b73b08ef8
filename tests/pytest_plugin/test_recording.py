"""A notebook is recorded and saved by one command, and costs nobody anything that goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from tests.pytest_plugin.runs import CELLS, change, run_pytest, run_python, write_notebook
from tests.servers.plays import Say, Status
from tests.servers.server import Server

CALL, ANSWER = Say(calls=(("one", {}),)), Say("It is one.")


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write_notebook(tmp_path / "asks.ipynb", *CELLS)


def record(notebook: Path, *plays: Say | Status, option: str = "--agent-record") -> str:
    with Server(*plays, then=Status(500)) as server:
        done = run_pytest(notebook.parent, option, notebook.name, OPENAI_BASE_URL=server.url)
        assert len(server.plays) == 0
    return done.out


def answers(notebook: Path) -> list[str]:
    lines = (
        (notebook.parent / "cassettes" / f"{notebook.stem}.jsonl").read_text("utf-8").splitlines()
    )
    return [json.loads(line)["reply"].get("text", "") for line in lines if '"exchange"' in line]


def test_an_update_without_changes_writes_nothing(recorded: Path) -> None:
    book = nbformat.read(recorded, as_version=4)
    assert "It is one." in book.cells[2].outputs[0].data["text/plain"]
    assert all("execution" not in cell.metadata for cell in book.cells)
    assert answers(recorded)[-1] == "It is one."
    before = recorded.read_bytes(), recorded.stat().st_mtime_ns
    assert "asks.ipynb  2 replayed" in record(recorded, option="--agent-update")
    assert (recorded.read_bytes(), recorded.stat().st_mtime_ns) == before


def test_an_update_asks_only_for_what_has_changed_and_drops_the_rest(
    tmp_path: Path,
) -> None:
    cells = ("%load_ext archytas_nb", *(f"%agent --new Question {each}?" for each in "abc"))
    notebook = write_notebook(tmp_path / "three.ipynb", *cells)
    record(notebook, Say("A."), Say("B."), Say("C."))
    change(notebook, "Question b?", "Question d?")
    said = record(notebook, Say("D."), option="--agent-update")
    assert "three.ipynb  2 replayed, 1 recorded, 1 dropped" in said
    assert answers(notebook) == ["A.", "D.", "C."]
    assert run_pytest(tmp_path, "--nbval", "--agent-replay", "--agent-strict", ".").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--agent-update", "--agent-record"])
def test_a_notebook_that_cannot_be_written_is_as_it_was(tmp_path: Path, option: str) -> None:
    """As on a full disk: its outputs have become longer than any file may be."""
    notebook = write_notebook(
        tmp_path / "long.ipynb", "%load_ext archytas_nb", "print('my long output ' * 20_000)"
    )
    notebook.chmod(0o640)
    before = notebook.read_bytes()
    limited = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "sys.argv[0] = 'pytest'\n"
        "runpy.run_module('pytest', run_name='__main__')"
    )
    arguments = ("-p", "no:cacheprovider", option, notebook.name)
    # What is compiled would be cut, too, and stay so for other processes.
    unwritten = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = run_python("-c", limited, *arguments, folder=tmp_path, **unwritten)
    assert done.code == 1, done.out
    assert "'" + str(notebook) + "' cannot be written" in done.out
    assert "Traceback" not in done.out
    assert (notebook.read_bytes(), notebook.stat().st_mode & 0o777) == (before, 0o640)
    assert [each for each in notebook.parent.iterdir() if each.suffix == ".part"] == []


def test_questions_about_the_last_error_and_earlier_cells_are_replayed_by_nbval(
    tmp_path: Path,
) -> None:
    """nbval by itself runs cells without their history, in which both are."""
    notebook = write_notebook(
        tmp_path / "errors.ipynb",
        "%load_ext archytas_nb\nx = [1]",
        "print('canary'); x[3]",
        "%config ArchytasNB.protocol = 'native'\n%agent Why?",
    )
    book = nbformat.read(notebook, as_version=4)
    book.cells[1].metadata.tags = ["raises-exception"]
    nbformat.write(book, notebook)
    said = record(notebook, Say(calls=(("cells", {}),)), Say("It has one item."))
    assert "errors.ipynb  2 recorded" in said
    cassette = tmp_path / "cassettes" / "errors.jsonl"
    before = cassette.read_bytes()
    assert b"IndexError: list index out of range" in before
    assert b"[2]\\nprint('canary'); x[3]\\nOutput:\\ncanary" in before
    assert run_pytest(tmp_path, "--nbval", "--agent-replay", "--agent-strict", ".").code == 0
    assert cassette.read_bytes() == before


def test_a_failing_notebook_is_not_saved_but_its_recording_is_kept(notebook: Path) -> None:
    write_notebook(notebook, *CELLS, "1 / 0")
    before = notebook.read_bytes()
    said = record(notebook, CALL, ANSWER)
    assert "ZeroDivisionError" in said
    assert (
        "asks.ipynb was not saved; the replies recorded so far are kept. Continue with pytest --agent-update."
        in said
    )
    assert notebook.read_bytes() == before
    write_notebook(notebook, *CELLS)
    assert "1 passed" in record(notebook, option="--agent-update")


def test_an_error_of_the_endpoint_loses_nothing(recorded: Path) -> None:
    before = recorded.read_bytes(), answers(recorded)
    assert "1 failed" in record(recorded, Status(401))
    assert (recorded.read_bytes(), answers(recorded)) == before


def test_a_failing_update_drops_nothing(tmp_path: Path) -> None:
    cells = ("%load_ext archytas_nb", "%agent --new A?", "%agent --new B?")
    notebook = write_notebook(tmp_path / "two.ipynb", *cells)
    record(notebook, Say("A."), Say("B."))
    write_notebook(notebook, "%load_ext archytas_nb", "1 / 0", *cells[1:])
    assert "1 failed" in record(notebook, option="--agent-update")
    assert answers(notebook) == ["A.", "B."]


def test_records_only_notebooks_with_an_agent_unless_they_are_named(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "other.ipynb", "1 + 1")
    loads = "get_ipython().run_line_magic('load_ext', 'archytas' + '_nb')"
    write_notebook(tmp_path / "asks.ipynb", loads, "%agent Who?")
    before = path.read_bytes()
    with Server(Say("Me.")) as server:
        done = run_pytest(tmp_path, "--agent-record", ".", OPENAI_BASE_URL=server.url)
    assert "1 passed" in done.out
    assert path.read_bytes() == before
    assert "1 passed" in run_pytest(tmp_path, "--agent-record", "other.ipynb").out


def test_a_notebook_that_cannot_be_run_is_a_short_error(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "elsewhere.ipynb", "%load_ext archytas_nb")
    book = nbformat.read(path, as_version=4)
    book.metadata["kernelspec"] = {"name": "conda-x", "display_name": "X", "language": "python"}
    nbformat.write(book, path)
    (tmp_path / "torn.ipynb").write_text('{"archytas_nb')
    done = run_pytest(tmp_path, "--agent-record", "-p", "no:logging", ".")
    assert "elsewhere.ipynb was not saved" in done.out
    assert "No such kernel named conda-x" in done.out
    assert "torn.ipynb was not saved" in done.out
    assert len(done.lines) < 30
    here = run_pytest(tmp_path, "--agent-record", "--nbval-current-env", "elsewhere.ipynb")
    assert here.code == 0, here.out


def test_nbconvert_saves_the_same_bytes(recorded: Path) -> None:
    before = recorded.read_bytes()
    options = (
        "--to",
        "notebook",
        "--execute",
        "--inplace",
        "--ExecutePreprocessor.record_timing=False",
    )
    done = run_python(
        *("-m", "jupyter", "nbconvert", *options, str(recorded)),
        ARCHYTAS_NB_CASSETTE=str(recorded.parent / "cassettes" / "asks.jsonl"),
        ARCHYTAS_NB_CASSETTE_MODE="replay",
    )
    assert done.code == 0, done.out
    assert recorded.read_bytes() == before
