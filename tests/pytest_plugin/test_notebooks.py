"""A notebook is tested from its recording, without a model, and pytest reports each cassette."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.pytest_plugin.runs import (
    change,
    run_here,
    run_installed_pytest,
    run_pytest,
    write_notebook,
)
from tests.servers.plays import Say
from tests.servers.server import Server


def test_a_recorded_notebook_passes_strict_nbval_and_the_environment_is_restored(
    recorded: Path,
) -> None:
    (recorded.parent / "test_after.py").write_text(
        "import os\n"
        "def test_after(): assert os.environ['OPENAI_BASE_URL'] == 'mine'\n"
        "def test_no_mode(): assert not [name for name in os.environ if 'CASSETTE' in name]\n"
    )
    options = ("--nbval", "--agent-replay", "asks.ipynb", "test_after.py")
    for _ in range(2):
        done = run_pytest(recorded.parent, *options, OPENAI_BASE_URL="mine")
        assert done.code == 0, done.out
        assert "5 passed" in done.out
    assert "agent: replay" in done.lines
    assert "asks.ipynb  2 replayed, 200 + 20 tokens saved" in done.lines


def test_a_notebook_without_a_cassette_fails(recorded: Path) -> None:
    (recorded.parent / "cassettes" / "asks.jsonl").unlink()
    with Server(Say("Live!")) as server:
        folder, url = recorded.parent, server.url
        done = run_pytest(folder, "--nbval", "--agent-replay", "asks.ipynb", OPENAI_BASE_URL=url)
        assert done.code == 1
        assert server.asked == []
    assert "does not exist" in done.out
    assert "run: pytest --agent-update asks.ipynb" in done.out


def test_a_replay_refuses_requests_past_the_cassette(tmp_path: Path) -> None:
    """Whatever a notebook does in Python, the keys and the address of the endpoint are not there."""
    asks = "import os, openai\n(os.environ.get('OPENAI_API_KEY'), os.environ['OPENAI_BASE_URL'])"
    tries = "openai.OpenAI(api_key='x', max_retries=0).models.list()"
    write_notebook(tmp_path / "past.ipynb", asks, tries)
    with Server(Say("Live!")) as server:
        variables = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-4242"}
        done = run_pytest(tmp_path, "--nbval-lax", "--agent-replay", "past.ipynb", **variables)
        assert server.asked == []
    assert "APIConnectionError" in done.out
    assert "1 failed, 1 passed" in done.out


def test_unused_exchanges_are_reported_and_fail_with_strict(
    recorded: Path,
) -> None:
    change(recorded, "%agent What is it?", "1")
    done = run_pytest(recorded.parent, "--nbval-lax", "--agent-replay", "asks.ipynb")
    assert done.code == 0
    assert "asks.ipynb  2 unused" in done.lines
    assert "pytest --agent-update removes them" in done.out
    strict = run_pytest(
        recorded.parent, "--nbval-lax", "--agent-replay", "--agent-strict", "asks.ipynb"
    )
    assert strict.code == 1
    assert (
        "2 recorded exchanges were not used; pytest --agent-update asks.ipynb fixes both"
        in strict.out
    )


def test_a_part_of_a_notebook_has_no_unused_exchanges(recorded: Path) -> None:
    options = ("--nbval", "--agent-replay", "--agent-strict")
    done = run_pytest(recorded.parent, *options, "asks.ipynb::Cell 0", "asks.ipynb::Cell 1")
    assert (done.code, "2 passed" in done.out) == (0, True)


def test_live_asks_the_model_and_accepts_another_answer(recorded: Path) -> None:
    before = (recorded.parent / "cassettes" / "asks.jsonl").read_bytes(), recorded.read_bytes()
    with Server(Say("It is two.")) as server:
        done = run_pytest(
            recorded.parent, "--nbval", "--agent-live", "asks.ipynb", OPENAI_BASE_URL=server.url
        )
        assert len(server.chats) == 1
    assert done.code == 0, done.out
    assert (
        (recorded.parent / "cassettes" / "asks.jsonl").read_bytes(),
        recorded.read_bytes(),
    ) == before


@pytest.mark.parametrize("dist", [(), pytest.param(("--dist", "loadfile"), marks=pytest.mark.slow)])
def test_xdist_reports_as_one_process_does(recorded: Path, dist: tuple[str, ...]) -> None:
    for name in ("b", "c"):
        (recorded.parent / f"{name}.ipynb").write_bytes(recorded.read_bytes())
        cassette = recorded.parent / "cassettes"
        (cassette / f"{name}.jsonl").write_bytes((cassette / "asks.jsonl").read_bytes())
    folder = recorded.parent
    done = run_installed_pytest(folder, "--nbval", "--agent-replay", "-n", "2", *dist, ".")
    assert done.code == 0, done.out
    for name in ("asks", "b", "c"):
        assert f"{name + '.ipynb':10}  2 replayed, 200 + 20 tokens saved" in done.lines


def test_volatile_parts_may_differ_in_the_outputs_too(tmp_path: Path) -> None:
    """A date in a question stands in the trace as well; one declaration is enough."""
    cells = (
        "%load_ext archytas_nb",
        "import os\nnow = os.environ['NOW']",
        "%agent Is it {now}, really?",
    )
    write_notebook(tmp_path / "dated.ipynb", *cells)
    cassette = tmp_path / "cassettes" / "dated.jsonl"
    cassette.parent.mkdir()
    cassette.write_text('{"cassette": 2, "volatile": ["date"]}\n')
    with Server(Say("It is 2026-01-01.")) as server:
        done = run_pytest(
            tmp_path, "--agent-update", ".", OPENAI_BASE_URL=server.url, NOW="2026-01-01"
        )
    assert done.code == 0, done.out
    options = ("--nbval", "--agent-replay", "dated.ipynb")
    assert run_pytest(tmp_path, *options, NOW="2026-02-02").code == 0
    assert "the question has changed" in run_pytest(tmp_path, *options, NOW="tomorrow").out


def test_notebooks_may_share_a_cassette(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        cells = ("%load_ext archytas_nb\n%agent_cassette shared.jsonl", f"%agent Who is {name}?")
        write_notebook(tmp_path / f"{name}.ipynb", *cells)
    with Server(Say("First."), Say("Second.")) as server:
        done = run_pytest(tmp_path, "--agent-update", ".", OPENAI_BASE_URL=server.url)
        assert len(server.chats) == 2
    assert done.code == 0, done.out
    again = run_pytest(tmp_path, "--agent-update", "one.ipynb")
    assert "one.ipynb  1 replayed, 100 + 10 tokens saved" in again.lines
    strict = run_pytest(tmp_path, "--nbval", "--agent-replay", "--agent-strict", ".")
    assert strict.code == 0, strict.out


def test_the_bytes_of_a_figure_may_differ(tmp_path: Path) -> None:
    """Another machine has another version of the library that draws it."""
    draws = """%%tool
def draw() -> str:
    \"\"\"Draw.\"\"\"
    import os
    from IPython.display import Image, display
    display(Image(bytes.fromhex("89504e470d0a1a0a" + os.environ["BYTES"] * 40), format="png"))
    return "drawn"
"""
    write_notebook(tmp_path / "draws.ipynb", "%load_ext archytas_nb", draws, "%agent Draw.")
    with Server(Say(calls=(("draw", {}),)), Say("Done.")) as server:
        done = run_pytest(tmp_path, "--agent-record", ".", OPENAI_BASE_URL=server.url, BYTES="00")
    assert done.code == 0, done.out
    assert "data:image/png;base64,iVBOR" in (tmp_path / "draws.ipynb").read_text()
    done = run_pytest(tmp_path, "--nbval", "--agent-replay", ".", BYTES="ff")
    assert done.code == 0, done.out


def test_a_path_with_spaces_is_quoted_in_commands(recorded: Path) -> None:
    folder = recorded.parent / "mes données"
    (folder / "cassettes").mkdir(parents=True)
    recorded.rename(folder / "l'été 2.ipynb")
    (recorded.parent / "cassettes" / "asks.jsonl").rename(folder / "cassettes" / "l'été 2.jsonl")
    change(folder / "l'été 2.ipynb", "%agent What is it?", "%agent What is this?")
    done = run_pytest(recorded.parent, "--nbval", "--agent-replay", ".")
    command = done.out.partition(" and run: pytest ")[2].splitlines()[0]
    with Server(Say("It is this.")) as server:
        done = run_pytest(recorded.parent, *shlex.split(command), OPENAI_BASE_URL=server.url)
    assert "mes données/l'été 2.ipynb  1 recorded, 2 dropped" in done.lines


def test_a_run_without_options_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "ours = {name for name in sys.modules if name.startswith('archytas_nb')}\n"
        "def test(): assert ours == {'archytas_nb', 'archytas_nb.pytest_plugin', 'archytas_nb.version'}\n"
    )
    done = run_installed_pytest(tmp_path, "test_it.py")
    assert done.code == 0, done.out
    assert "agent" not in done.out.replace("archytas-nb", "")


def test_says_that_notebooks_are_not_run_without_nbval(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test(): pass\n")
    done = run_here(tmp_path, "-p", "nbval", "--agent-replay", "test_it.py")
    assert "agent: replay (notebooks are not run: add --nbval)" in done.lines
    done = run_here(tmp_path, "--agent-replay", "test_it.py")
    assert "agent: replay (notebooks are not run: nbval is not installed)" in done.lines
    (tmp_path / "it.ipynb").write_text("{}")
    done = run_here(tmp_path, "-p", "nbval", "-q", "--agent-replay", "it.ipynb")
    assert "it.ipynb is not run: add --nbval" in done.out


def test_a_change_fails_only_the_cell_that_asks_and_is_named(recorded: Path) -> None:
    changes = {
        "word": (
            "How often it",
            "How often that",
            "the text or schema of the tool 'one' has changed",
        ),
        "result": ("return 1 *", "return 3 *", "the result of the tool 'one' differs"),
        "prompt": ("What is it?", "What was it?", "the question has changed"),
    }
    folder, cassettes = recorded.parent, recorded.parent / "cassettes"
    for name, (old, new, _) in changes.items():
        (folder / f"{name}.ipynb").write_bytes(recorded.read_bytes())
        (cassettes / f"{name}.jsonl").write_bytes((cassettes / "asks.jsonl").read_bytes())
        change(folder / f"{name}.ipynb", old, new)
    done = run_pytest(folder, "--nbval", "--agent-replay", ".")
    assert done.code == 1
    assert "3 failed, 9 passed" in done.out
    for name, (_, _, message) in changes.items():
        assert f"{name}.ipynb::Cell 2" in done.out
        assert message in done.out
        command = f"pytest --agent-update {name}.ipynb"
        assert f"and run: {command}" in done.out
