"""A cell that is run again goes back to its own place in its own conversation."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.live_kernel import Cell, Kernel, live_kernel
from tests.servers.plays import Say
from tests.servers.server import Server

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
# 08 shows changes of variables: what the first pass made, the second one binds again.
NOTEBOOKS = sorted(path for path in FOLDER.glob("*.ipynb") if not path.stem.startswith("08"))
NOBODY = "http://127.0.0.1:9/v1"
SHOWN = {"stream", "display_data", "update_display_data", "execute_result", "error"}


def outputs(cell: Cell) -> list[dict[str, Any]]:
    """The outputs of a cell, without the number of its execution."""
    shown: list[dict[str, Any]] = []
    for each in cell.messages:
        content = each["content"]
        if each["msg_type"] == "stream" and shown and shown[-1].get("name") == content["name"]:
            shown[-1]["text"] += content["text"]  # how a text is divided is a matter of time
        elif each["msg_type"] in SHOWN:
            shown.append(content)
    for content in shown:
        content.pop("execution_count", None)
        content.pop("transient", None)
        # IPython says so where an extension is loaded twice.
        content["text"] = (
            "" if "is already loaded" in content.get("text", "") else content.get("text")
        )
        content["traceback"] = [line for line in content.get("traceback", []) if "In[" not in line]
    return [each for each in shown if any(each.get(key) for key in ("text", "data", "traceback"))]


OFTEN = {"04_approval_and_safety", "05_testing_your_notebook"}
"""A call that was refused, and answers with types; the others are slow."""


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(each, id=each.stem, marks=[] if each.stem in OFTEN else pytest.mark.slow)
        for each in NOTEBOOKS
    ],
)
def test_run_all_twice_is_run_all_once(notebook: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    cassette = tmp_path / "cassettes" / f"{notebook.stem}.jsonl"
    recorded = cassette.read_bytes() if cassette.exists() else b""
    cells = [c for c in nbformat.read(notebook, as_version=4).cells if c.cell_type == "code"]
    used = {"ARCHYTAS_NB_CASSETTE": str(cassette)} if recorded else {}
    with live_kernel(
        tmp_path, OPENAI_BASE_URL=NOBODY, ARCHYTAS_NB_CASSETTE_MODE="auto", **used
    ) as kernel:
        passes = [
            [outputs(kernel.run(each.source, cell_id=each.id)) for each in cells] for _ in range(2)
        ]
    for cell, first, second in zip(cells, *passes, strict=True):
        assert second == first, cell.source
    if recorded:
        assert cassette.read_bytes() == recorded


# ── which conversation ────────────────────────────────────────────────────────────────────────────


class Notebook:
    """Cells that ask, in a kernel whose model says "Fine."."""

    def __init__(self, kernel: Kernel, server: Server) -> None:
        self.kernel, self.server = kernel, server
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}\n%agent --new")

    def ask(self, cell: str, line: str) -> list[str]:
        """Run a cell; return the questions that the model was sent."""
        self.cell = self.kernel.run(f"%agent {line}", cell_id=cell)
        assert self.cell.status == "ok", self.cell.error
        sent = self.server.chats[-1].body["messages"]
        return [each["content"] for each in sent if each["role"] == "user"]

    @property
    def head(self) -> str:
        [shown] = self.cell.displayed
        return str(shown["text/plain"]).partition("\n\n")[0]


@pytest.fixture
def notebook(kernel: Kernel) -> Any:
    with Server(then=Say("Fine.")) as server:
        yield Notebook(kernel, server)


def test_each_cell_continues_what_stands_above_it_in_its_own_conversation(
    notebook: Notebook,
) -> None:
    for _ in range(2):
        assert notebook.ask("w1", "one") == ["one"]
        assert notebook.ask("w2", "two") == ["one", "two"]
        assert notebook.ask("w3", "--new three") == ["three"]
        assert notebook.ask("w4", "four") == ["three", "four"]
    assert notebook.ask("w2", "zwei") == ["one", "zwei"]
    assert notebook.ask("w5", "five") == ["one", "zwei", "five"]
    assert notebook.ask("w4", "four") == ["three", "four"]


def test_a_cell_that_gets_or_loses_its_new_takes_what_follows_with_it(notebook: Notebook) -> None:
    for cell, line in (("x1", "one"), ("x2", "two"), ("x3", "three")):
        notebook.ask(cell, line)
    assert notebook.ask("x2", "--new two") == ["two"]
    assert notebook.ask("x3", "three") == ["two", "three"]
    assert notebook.ask("x2", "two") == ["one", "two"]
    assert notebook.ask("x3", "three") == ["one", "two", "three"]


def test_what_was_forgotten_is_not_sent_and_its_cells_keep_their_places(
    notebook: Notebook,
) -> None:
    for _ in range(2):
        assert notebook.ask("y1", "one") == ["one"]
        assert notebook.ask("y2", "two") == ["one", "two"]
        assert notebook.kernel.run("%agent_undo").result == "removed: two"
        assert notebook.ask("y3", "three") == ["one", "three"]
        assert notebook.head == "three\n(after: one)"
        assert notebook.kernel.run("%agent --new").result == "removed: 2 questions"
        assert notebook.ask("y4", "four") == ["four"]
        assert notebook.head == "four\n(new conversation)"
    notebook.kernel.run("%agent --new")
    assert notebook.ask("y4", "four") == ["four"]


def test_the_head_names_what_is_continued_only_where_that_is_not_obvious(
    notebook: Notebook,
) -> None:
    heads = {}
    for cell, line in (("z1", "--new one"), ("z2", "two"), ("z3", "--new three")):
        notebook.ask(cell, line)
        heads[cell] = notebook.head
    assert heads == {"z1": "one", "z2": "two", "z3": "three"}
    notebook.ask("z2", "two")
    assert notebook.head == "two\n(after: one)"
    assert "(after: one)" in notebook.cell.displayed[0]["text/markdown"]
    assert " · after: one</span>" in notebook.cell.displayed[0]["text/html"]
