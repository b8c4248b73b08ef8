"""A run tells what its calls did to files, and its undo puts them back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from archytas_nb import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.fold import fold
from archytas_nb.trace.text import plain
from tests.scripted import Scripted


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.csv").write_text("a\n1\n")
    return tmp_path


def ran(code: str) -> Run:
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "Done."))
    return Agent(model=model, python="undoable", namespace={"n": 1}).run("Do it.")


def test_code_that_deletes_and_writes_is_told_and_undone(folder: Path) -> None:
    run = ran("import os, pathlib\nos.remove('raw.csv')\npathlib.Path('out.txt').write_text('x')")
    assert {(each.kind, each.shown) for each in run.effects} == {
        ("deleted", "raw.csv"),
        ("new", "out.txt"),
    }
    shown = plain(fold(run.question, run.events))
    assert "raw.csv" in shown
    assert "%agent_undo restores" in shown
    run.undo()
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"raw.csv": "a\n1\n"}
    run.redo()
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"out.txt": "x"}


def test_what_you_changed_since_is_kept_unless_forced(folder: Path) -> None:
    run = ran("import pathlib\npathlib.Path('raw.csv').write_text('b')")
    (folder / "raw.csv").write_text("mine")
    left = run.undo()
    assert "raw.csv" in {each.name for each in left}
    assert (folder / "raw.csv").read_text() == "mine"
    run.undo(force=True)
    assert (folder / "raw.csv").read_text() == "a\n1\n"
    left = run.redo()  # what the run wrote was overwritten
    assert "was not kept" in str(*left)
    assert (folder / "raw.csv").read_text() == "a\n1\n"


def test_a_tool_that_writes_is_told_too(folder: Path) -> None:
    def save(name: str) -> str:
        """Save.

        Args:
            name: The file
        """
        (folder / name).write_text("x")
        return "saved"

    model = ScriptedModel(("save", {"name": "new.txt"}), ("final_answer", "Done."))
    run = Agent([save], model=model).run("Save it.")
    assert [(each.kind, each.shown) for each in run.effects] == [("new", "new.txt")]
    run.undo()
    assert not (folder / "new.txt").exists()


def test_what_a_program_does_that_a_tool_starts_is_told_and_undone(folder: Path) -> None:
    def tidy() -> str:
        """Tidy up."""
        (folder / "own.txt").write_text("x")
        subprocess.run("mv raw.csv old.csv; echo x > own.txt", shell=True, check=True)
        return "tidy"

    model = ScriptedModel(("tidy", {}), ("final_answer", "Done."))
    run = Agent([tidy], model=model).run("Tidy up.")
    assert {(each.kind, each.shown) for each in run.effects if each.before} == {
        ("deleted", "raw.csv"),
        ("new", "old.csv"),
        ("new", "own.txt"),
    }
    run.undo()
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"raw.csv": "a\n1\n"}


def test_a_run_that_only_reads_has_no_effects() -> None:
    run = ran("import csv, pathlib\nprint(pathlib.Path('raw.csv').read_text())\nn + 1")
    assert run.effects == ()


def test_a_known_secret_in_a_command_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "zz-0123456789abcdef0123456789")
    run = ran("import os, subprocess\nsubprocess.run(['true', os.environ['SERVICE_API_KEY']])")
    [effect] = run.effects
    assert effect.kind == "ran"
    assert "zz-0123456789abcdef" not in effect.target
    assert effect.target.startswith("true ")


def test_code_in_a_copy_has_no_effects_but_those_of_the_tools_that_it_calls(folder: Path) -> None:
    def save(name: str) -> str:
        """Save.

        Args:
            name: The file
        """
        (folder / name).write_text("x")
        return "saved"

    code = "import tempfile\nopen(tempfile.mkstemp()[1], 'w').close()\nn + 1\n"
    for more, effects in (("", []), ("save('new.txt')", ["new.txt"])):
        model = ScriptedModel(("python", {"code": code + more}), ("final_answer", "Done."))
        run = Agent([save], model=model, python="copy", namespace={"n": 1}).run("Do it.")
        assert run.status == "answered"
        assert [each.shown for each in run.effects] == effects


CODES = {
    "a new file": ("import pathlib\npathlib.Path('out.txt').write_text('x')\nn + 1", True),
    "a file that is added to": (
        "with open('raw.csv', 'a') as f:\n    f.write('2\\n')\nn + 1",
        True,
    ),
    "a deletion": ("import os\nos.remove('raw.csv')\nn + 1", True),
    "only a file": ("import pathlib\n_ = pathlib.Path('out.txt').write_text('x')", True),
    "the time": ("import pathlib, time\npathlib.Path('t').write_text(str(time.time_ns()))", False),
}


@pytest.mark.parametrize("name", CODES)
def test_a_proof_compares_the_files_that_the_run_wrote(name: str, folder: Path) -> None:
    code, holds = CODES[name]
    run = ran(code)
    before = {each.name: each.read_text() for each in folder.iterdir()}
    proof = run.verify()
    assert bool(proof.holds) is holds, str(proof)
    if not holds:
        assert "the file t was" in str(proof)
    assert {each.name: each.read_text() for each in folder.iterdir()} == before


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_proof_tells_the_cells_of_a_table_file_that_differ(
    kind: str, library: str, folder: Path
) -> None:
    pytest.importorskip(library)
    pytest.importorskip("pyarrow")
    write = f"to_{kind}" if library == "pandas" else f"write_{kind}"
    code = (
        f"import itertools, {library} as lib\n"
        "frame = lib.DataFrame({'a': [1, 2], 'b': [3, next(count)]})\n"
        f"frame.{write}('out.{kind}')\n1"
    )
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "Done."))
    namespace: dict[str, object] = {"times": [0, 1], "count": iter(range(4, 9))}
    run = Agent(model=model, python="undoable", namespace=namespace).run("Do it.")
    proof = run.verify()
    [change] = [each.change for each in proof.differences if "the file" in each.what]
    assert "b[row 1] 4 → 5" in change


def test_a_proof_takes_equal_tables_for_equal_files(folder: Path) -> None:
    pytest.importorskip("pandas")
    code = "import pandas, pathlib\ntext = next(texts)\npathlib.Path('out.csv').write_text(text)\n1"
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "Done."))
    texts = iter(["a,b\n1,2\n", "a,b\r\n1,2\r\n"])
    run = Agent(model=model, python="undoable", namespace={"texts": texts}).run("Do it.")
    proof = run.verify()
    assert not [each for each in proof.differences if "the file" in each.what]


def test_what_an_agent_in_a_tool_does_is_an_effect_of_the_tool(folder: Path) -> None:
    def ask_other() -> str:
        """Ask another agent."""
        ran("import os\nos.remove('raw.csv')")
        return "done"

    model = ScriptedModel(("ask_other", {}), ("final_answer", "Done."))
    run = Agent([ask_other], model=model).run("Ask.")
    assert [(each.kind, each.shown) for each in run.effects] == [("deleted", "raw.csv")]
    run.undo()
    assert (folder / "raw.csv").exists()


def test_a_recording_is_no_effect_of_the_call_in_which_it_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else undo would revert the recording, and a replay would show other effects."""
    person = Scripted("blue")
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    cassette = Cassette(folder / "cassettes" / "x.jsonl", "record")

    def recorded(*script: tuple[str, object]) -> Agent:
        model = CassetteModel(cassette, lambda: ScriptedModel(*script))
        return Agent([], model, namespace={}, ask_user=True)

    def colour() -> str:
        """Ask for a colour."""
        asks = recorded(("ask_user", {"question": "Which?"}), ("final_answer", "Blue."))
        return asks.run("Ask.").answer

    code = "import os, pathlib\nos.remove('raw.csv')\npathlib.Path('out.txt').write_text(colour())"
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "Done."))
    run = Agent([colour], model=model, python="undoable", namespace={}).run("Do it.")
    assert {(each.kind, each.shown) for each in run.effects} == {
        ("deleted", "raw.csv"),
        ("new", "out.txt"),
    }
    written = cassette.path.read_text()
    assert "Which?" in written
    run.undo()
    assert {each.name for each in folder.iterdir()} == {"raw.csv", "cassettes"}
    assert cassette.path.read_text() == written
