"""A preview: what a call did in a copy is what it then does in the notebook."""

from __future__ import annotations

import itertools
import os
import pathlib
import socket
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from archytas_nb.copies import lock
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import (
    ApprovalForm,
    CallOutcome,
    Delta,
    Preview,
    RunCalls,
    ToolCall,
)
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.trace.activity import Activity
from archytas_nb.trace.html import call_html
from archytas_nb.trace.view import RunView
from archytas_nb.undo.transaction import VariableWatch
from tests.sampling import few_of

Names = dict[str, Any]

pytestmark = pytest.mark.skipif(
    lock.machine().kind != "locked", reason="this machine cannot lock a copy"
)


class Reads:
    """A person who keeps the forms, and says the same to all of them."""

    there = True

    def __init__(self, answer: str = "y") -> None:
        self.answer = answer
        self.forms: list[ApprovalForm] = []

    def ask(self, prompt: str, form: Any = None) -> str:
        self.forms.append(form)
        return self.answer

    @property
    def preview(self) -> Preview:
        assert self.forms[-1].preview is not None
        return self.forms[-1].preview


def names_of_a_notebook() -> Names:
    frame = pd.DataFrame({"a": [1.0, None, 3.0, 4.0], "g": ["x", "y", "x", "y"]})
    names: Names = {"df": frame, "same": frame, "xs": [3, 1, 2], "d": {"k": [1]}, "n": 1}
    return names | {"pd": pd, "os": os, "socket": socket, "pathlib": pathlib}


CHANGES = (
    "df = df.dropna()",
    "df.loc[4] = [9.0, 'z']",
    "df['b'] = df.a * 2",
    "del df['g']",
    "df.loc[0, 'a'] = 17.0",
    "xs.append(4)\nxs.sort()",
    "d['k'].append(2); d['new'] = {}",
    "del n",
    "n = n + 1\nm = n",
    "total = df.a.sum()\nprint(total)",
)
"""Code that changes variables."""

EFFECTS = {
    "": (),
    "pathlib.Path('made.txt').write_text('x')": (("write", "made.txt"),),
    "os.remove('there.txt')": (("delete", "there.txt"),),
    "os.rename('there.txt', 'moved.txt')": (("move", "there.txt"),),
    "os.mkdir('folder')": (("write", "folder"),),
    "df.to_csv('table.csv') if 'df' in globals() else pd.Series([1]).to_csv('table.csv')": (
        ("write", "table.csv"),
    ),
    "socket.create_connection(('127.0.0.1', PORT), 5).close()": (("connect", "127.0.0.1"),),
}
"""Code that has an effect outside of the variables, and what it is."""

CASES = [*itertools.product(CHANGES, EFFECTS)]


def run(
    code: str, names: Names, person: Reads, *tools: Tool, seconds: float | None = 30.0
) -> CallOutcome:
    box = Toolbox(*tools)
    box.add(python_tool("ask"))
    executor = KernelExecutor(
        box, names, person=person, watch=VariableWatch(names), preview=seconds
    )
    return executor.run([ToolCall("q01s01c01", "python", {"code": code})])[0]


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() if each.is_file() else b"" for each in folder.iterdir()}


@pytest.mark.parametrize("cases", few_of(CASES[::11], CASES))
def test_what_is_foretold_is_what_happens(
    cases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = str(server.getsockname()[1])
        for change, effect in cases:
            for each in tmp_path.iterdir():
                each.rmdir() if each.is_dir() else each.unlink()
            (tmp_path / "there.txt").write_text("old")
            before = files(tmp_path)
            names = names_of_a_notebook()
            refusing = Reads("n")
            code = f"{change}\n{effect.replace('PORT', port)}"
            run(code, names, refusing)
            # Nothing has happened yet.
            assert files(tmp_path) == before
            with pytest.raises(BlockingIOError):
                server.accept()
            approving = Reads("y")
            done = run(code, names, approving)
            assert done.status == "done", done.text
            assert done.diff is not None
            for preview in (refusing.preview, approving.preview):
                if preview.why_not or preview.changes != done.diff.changes:
                    wrong.append((code, preview, done.diff.changes))
                expected = EFFECTS[effect]
                tried = preview.tried
                if len(tried) != len(expected) or any(
                    kind != had or name not in target
                    for (kind, name), (had, target) in zip(expected, tried, strict=True)
                ):
                    wrong.append((code, tried, expected))
            has_changed = files(tmp_path) != before
            if "PORT" in effect:
                server.accept()[0].close()
                has_changed = True
            assert has_changed is bool(effect)
    assert not wrong


def test_a_tool_is_tried_like_code_and_an_edit_is_tried_again() -> None:
    names: Names = {"rows": [1, 2, 3, 4]}

    def drop(n: int) -> str:
        """Drop rows.

        Args:
            n: How many
        """
        del names["rows"][:n]
        return f"dropped {n}"

    class Edits(Reads):
        def ask(self, prompt: str, form: Any = None) -> str:
            super().ask(prompt, form)
            return "n = 3" if len(self.forms) == 1 else "no"

    person = Edits()
    tool = Tool.from_function(drop, approve=True)
    executor = KernelExecutor(Toolbox(tool), names, person=person, preview=30.0)
    executor.run([ToolCall("q01s01c01", "drop", {"n": 1})])
    told = [str(each.preview.changes[0]) for each in person.forms if each.preview]
    assert len(told) == 2
    assert told[0] != told[1]
    assert names == {"rows": [1, 2, 3, 4]}


def test_until_the_person_is_asked_the_status_says_that_the_call_runs_in_a_copy() -> None:
    told: list[str] = []

    class Watches(Reads):
        def ask(self, prompt: str, form: Any = None) -> str:
            told.append("asked")
            return super().ask(prompt, form)

    def drop(n: int) -> int:
        """Drop rows.

        Args:
            n: How many
        """
        told.append("ran")
        return n

    tool = Tool.from_function(drop, approve=True)
    executor = KernelExecutor(
        Toolbox(tool), {}, person=Watches(), preview=30.0, on_progress=told.append
    )
    call = ToolCall("q01s01c01", "drop", {"n": 1})
    executor.run([call])
    assert told == ["in a copy first", "", "asked", "ran"]
    activity = Activity()
    activity.take(RunCalls(1, (call,)))
    activity.take(Delta("progress", told[0]))
    assert activity.status(RunView("")).startswith("running drop in a copy first")


def test_a_call_by_code_is_tried_as_after_its_approval_and_the_trial_is_no_effect() -> None:
    names: Names = {"rows": [1, 2, 3, 4]}

    def drop(n: int) -> int:
        """Drop rows.

        Args:
            n: How many
        """
        del names["rows"][:n]
        return len(names["rows"])

    person = Reads()
    outcome = run("drop(1)", names, person, Tool.from_function(drop, approve=True))
    assert [each.tool for each in person.forms] == ["python", "drop"]
    assert person.preview.error == ""
    assert [each.name for each in person.preview.changes] == ["rows"]
    assert outcome.effects == ()
    assert names["rows"] == [2, 3, 4]


@pytest.mark.parametrize(
    "code", ["while True: pass", "os._exit(1)", "raise SystemExit", "import time; time.sleep(60)"]
)
def test_without_a_preview_the_person_is_asked_and_told_why(code: str) -> None:
    names = names_of_a_notebook()
    person = Reads("n")
    run(code, names, person, seconds=1.0)
    assert person.preview.why_not
    assert person.preview.lines == [f"No preview: {person.preview.why_not}"]


def test_no_preview_without_a_lock_or_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    person = Reads("n")
    run("n = 2", names_of_a_notebook(), person, seconds=None)
    assert person.forms[-1].preview is None
    monkeypatch.setattr(lock, "machine", lambda *_: lock.Level("guarded", ("a lock",)))
    run("n = 2", names_of_a_notebook(), person)
    assert "a lock" in person.preview.why_not


def test_the_form_shows_what_it_would_change_try_and_print(tmp_path: Path) -> None:
    person = Reads("n")
    file = tmp_path / "report.csv"
    run(
        f"df = df.dropna()\nprint('hello')\ndf.to_csv({str(file)!r})", names_of_a_notebook(), person
    )
    form = person.forms[-1]
    for text in (form.text_with_preview, str(call_html(form))):
        for part in ("4", "3", "report.csv", "hello"):
            assert part in text
    assert "report.csv" not in form.text.partition("df.to_csv")[0]
