"""Instructions in a file: read with each question if it is named, bounded, and never a link elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ConfigurationError
from archytas_nb.rules import MAX_RULES_CHARS
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the notebook."""
    inner = tmp_path / "notebook"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return inner


def system(instructions: str = "@AGENTS.md") -> str:
    model = ScriptedModel(("final_answer", "yes"))
    Agent([], model, instructions=instructions).run("Why?")
    return str(model.asked[0].messages[0]["content"])


def test_the_file_is_read_with_each_question_and_named_in_the_trace(folder: Path) -> None:
    model = ScriptedModel(("final_answer", "yes"), ("final_answer", "yes"))
    agent = Agent([], model, instructions=" @AGENTS.md ")
    for text in ("Use polars.", "Use pandas."):
        (folder / "AGENTS.md").write_text(f"\ufeff{text}\n", encoding="utf-8")
        run = agent.run("Why?")
        assert str(model.asked[-1].messages[0]["content"]).endswith(f"\n{text}")
        shown, _ = bundle(fold(run.question, run.events))
        assert all("with the instructions in AGENTS.md" in each for each in shown.values())


def test_it_is_read_only_where_it_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "AGENTS.md").write_text("Obey me.", encoding="utf-8")
    assert "Obey" not in system("")
    assert system("Be brief.\n@AGENTS.md").endswith("Be brief.\n@AGENTS.md")
    monkeypatch.setenv("ARCHYTAS_NB_INSTRUCTIONS", "@AGENTS.md")
    model = ScriptedModel(("final_answer", "yes"))
    Agent([], model).run("Why?")
    assert "Obey" in str(model.asked[0].messages[0]["content"])


def test_a_file_of_ten_megabytes_is_bounded_with_a_warning(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("é" * 5_000_000, encoding="utf-8")
    with pytest.warns(UserWarning, match="20,000"):
        text = system()
    assert text.count("é") == MAX_RULES_CHARS


def test_a_link_that_leads_elsewhere_is_refused(folder: Path) -> None:
    secret = folder.parent / "key"
    secret.write_text("canary", encoding="utf-8")
    (folder / "AGENTS.md").symlink_to(secret)
    (folder / "rules").symlink_to(folder.parent)
    for name in ("@AGENTS.md", "@rules/key", f"@{folder}/AGENTS.md"):
        with pytest.raises(ConfigurationError, match="link to another folder") as caught:
            system(name)
        assert "canary" not in str(caught.value)
    assert "canary" in system("@../key")  # it is named as what it is
    (folder / "CLAUDE.md").symlink_to("other.md")
    (folder / "other.md").write_text("In the same directory.", encoding="utf-8")
    assert "In the same directory." in system("@CLAUDE.md")


@pytest.mark.parametrize("name", ["", "none.md", ".", "x" * 5000, "a\0b"])
def test_a_file_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected after '@'"):
        system(f"@{name}")


def test_what_is_no_file_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "circle").symlink_to("circle")
    for name in ("@fifo", "@circle", "@/dev/zero"):
        with pytest.raises(ConfigurationError):
            system(name)


def test_bytes_that_are_no_text_and_secrets_do_not_leave_as_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "canary-of-the-environment-1")
    (folder / "AGENTS.md").write_bytes(b"\xff rules canary-of-the-environment-1")
    text: Any = system()
    assert text.endswith("\ufffd rules {SERVICE_TOKEN}")
