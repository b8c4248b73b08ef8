"""The buttons below the last question say what can be done now, whatever was done otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.live import TraceView

pytest.importorskip("ipywidgets")


class Immediately:
    """A main thread on which nothing else runs."""

    def submit(self, work: Callable[[], Any]) -> None:
        work()


@pytest.fixture
def notebook(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """A notebook with buttons, and a tool whose changes are watched."""

    def add(number: int) -> str:
        """Add a number to x."""
        shell.user_ns["x"] += number
        return "added"

    nb.tool(add, repeat=True)
    shell.run_line_magic("config", "ArchytasNB.undo = True")
    monkeypatch.setattr(TraceView, "takes_clicks", True)
    monkeypatch.setattr("archytas_nb.kernel.main_thread.MainThread", Immediately)
    return shell


DEEDS = (
    "ask",
    "ask",
    "%undo",
    "%undo",
    "%redo",
    "Undo",
    "Undo",
    "Redo",
    "Ask again",
    "chat",
    "%new",
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(DEEDS), max_size=9))
def test_what_is_offered_can_be_done_and_nothing_else_is(
    notebook: InteractiveShell, deeds: list[str]
) -> None:
    magics: Any = notebook.magics_manager.registry["ArchytasNB"]
    notebook.user_ns["x"] = 0
    calls = [("add", {"number": 1}), ("final_answer", "ok")]
    notebook.user_ns["script"] = ScriptedModel(*calls * 20)
    magics.history.reset()
    magics.after.close()
    with mock.patch("builtins.print"):
        for deed in deeds:
            row = magics.after._row
            match deed:
                case "ask":
                    notebook.run_line_magic("agent", "--model script one more")
                case "chat":
                    magics.ask_from_chat("one more", "script", lambda _: None)
                case "%undo":
                    notebook.run_line_magic("agent_undo", "")
                case "%redo":
                    notebook.run_line_magic("agent_undo", "--redo")
                case "%new":
                    notebook.run_line_magic("agent", "--new")
                case label if row is not None and label in labels(row):
                    before = notebook.user_ns["x"]
                    row.press(label)
                    assert "failed" not in row.widget.children[1].value
                    assert notebook.user_ns["x"] == before + (-1 if label == "Undo" else 1)
            check(magics)


def labels(row: Any) -> list[str]:
    return [each.description for each in row.widget.children[0].children]


def check(magics: Any) -> None:
    """The button to undo is there if the run can be undone, that to redo if it was."""
    if magics.after._row is None:
        return
    run, trace = magics.after._traces[-1]
    shown = labels(magics.after._row)
    assert ("Undo" in shown) == (magics.history.last is run)
    assert ("Keep as code" in shown) == ("Undo" in shown)
    assert not ("Undo" in shown and "Redo" in shown)
    assert ("Redo" in shown) <= bool(trace.view.undone)


def test_a_press_that_comes_too_late_undoes_no_other_question(
    notebook: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Callable[[], Any]] = []
    monkeypatch.setattr(Immediately, "submit", lambda _, work: waiting.append(work))
    magics: Any = notebook.magics_manager.registry["ArchytasNB"]
    notebook.user_ns["x"] = 0
    calls = [("add", {"number": 1}), ("final_answer", "ok")]
    notebook.user_ns["script"] = ScriptedModel(*calls, *calls)
    notebook.run_line_magic("agent", "--model script one")
    magics.after._row.press("Undo")
    notebook.run_line_magic("agent", "--model script another one")
    waiting.pop()()
    assert notebook.user_ns["x"] == 2
    assert magics.history.last is magics.after._traces[-1][0]
