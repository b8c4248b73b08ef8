"""A notebook is tested from its recording, with no model at hand."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.servers.plays import Say
from tests.servers.server import Server

TOOL = '''def one() -> int:
    """Give one."""
    return 1
'''


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook that asks one question, recorded from a server."""
    cells = ["%load_ext archytas_nb", f"%%tool\n{TOOL}", "%agent What is it?"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    path = tmp_path / "asks.ipynb"
    nbformat.write(book, path)
    with Server(Say(calls=(("one", {}),)), Say("It is one.")) as server:
        done = run_python(
            *("-m", "jupyter", "execute", "--inplace", str(path)),
            ARCHYTAS_NB_CASSETTE=str(tmp_path / "cassettes" / "asks.jsonl"),
            OPENAI_BASE_URL=server.url,
        )
    assert done.returncode == 0, done.stderr
    return path


def run_python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ARCHYTAS", "OPENAI"))}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment | variables, check=False
    )


def nbval(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ("-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={path.parent}", "-c", os.devnull)
    return run_python(*arguments, "--nbval", *options, str(path))


def test_a_recorded_notebook_passes_strict_nbval_without_a_model(notebook: Path) -> None:
    done = nbval(notebook, "--agent-replay")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_a_changed_prompt_fails_the_cell_and_names_what_was_not_recorded(notebook: Path) -> None:
    notebook.write_text(notebook.read_text().replace("%agent What is it?", "%agent What is this?"))
    done = nbval(notebook, "--agent-replay")
    assert done.returncode == 1
    assert "holds no reply to this request" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_a_notebook_without_a_cassette_fails_instead_of_asking_a_model(notebook: Path) -> None:
    (notebook.parent / "cassettes" / "asks.jsonl").unlink()
    done = nbval(notebook, "--agent-replay")
    assert done.returncode == 1
    assert "does not exist" in done.stdout


def test_the_plugin_imports_nothing_of_the_package_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test(): assert not any('archytas_nb.' in name for name in sorted(sys.modules)"
        " if name not in ('archytas_nb._version', 'archytas_nb.pytest_plugin'))\n"
    )
    done = nbval(tmp_path / "test_it.py")
    assert done.returncode == 0, done.stdout
