"""`%agent --python`, `%agent_undo`, `%agent_why` and `%agent_why`, in a real IPython with a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb import conversation
from archytas_nb.loop.events import AskModel, Kept
from archytas_nb.testing import ScriptedModel


@pytest.fixture
def ask(shell: InteractiveShell) -> Any:
    """Runs %agent with code as the script, in a cell, and gives back its value."""
    shell.user_ns["df"] = pd.DataFrame({"x": [1.0, 2.0]})

    def ask(line: str, *codes: str, small: bool = False, options: str = "") -> Any:
        script = [("python", {"code": each}) for each in codes]
        model = ScriptedModel(*script, ("final_answer", "Done."))
        model.is_small = small
        ask.model = shell.user_ns["script"] = model
        shell.user_ns["ask"] = ask
        done = shell.run_cell(f"%agent --model script {options} {line}", store_history=True)
        done.raise_error()
        return done.result

    ask.shell = shell
    return ask


def code_runs(ask: Any) -> str:
    """Where the code of the offered tool runs; empty if none is offered, and none is told of."""
    request: AskModel = ask.model.asked[0]
    system, question = (str(request.messages[at]["content"]) for at in (0, -1))
    told = [
        place for place in ("in a copy of", "in the notebook") if f"(Code runs {place}" in question
    ]
    assert len(told) == ("Run Python: " in system), "the tool and its place are told together"
    return "".join(told)


def magic(ask: Any, line: str) -> str:
    return repr(ask.shell.run_line_magic(*(line.split(" ", 1) if " " in line else (line, ""))))


def test_the_tool_is_offered_by_the_option_or_the_setting_and_to_small_models_by_the_option(
    ask: Any,
) -> None:
    ask("hello", options="--new --context changed")
    assert code_runs(ask) == "in a copy of"
    ask("hello", options="--new --python off")
    assert code_runs(ask) == ""
    ask("hello", options="--new --python unwatched")
    assert code_runs(ask) == "in the notebook"
    ask.shell.run_line_magic("config", "ArchytasNB.python = 'undoable'")
    ask("hello", options="--new")
    assert code_runs(ask) == "in the notebook"
    ask("hello", small=True, options="--new")
    assert code_runs(ask) == ""
    ask("hello", small=True, options="--new --python undoable")
    assert code_runs(ask) == "in the notebook"


def test_undo_puts_the_variables_back_and_forgets_the_question(
    ask: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    df = ask.shell.user_ns["df"]
    run = ask("--python undoable double it", "df['y'] = df.x * 2", "total = df.y.sum()\ntotal")
    assert "column 'y' added" in capsys.readouterr().out
    assert run.calls[1][1].value == 6
    table = magic(ask, "agent_why")
    for part in ("df", "changed", "column 'y' added", "total", "created"):
        assert part in table
    said = magic(ask, "agent_undo")
    assert said.splitlines() == ["removed: double it", "restored: df", "deleted: total"]
    assert ask.shell.user_ns["df"] is df
    assert list(df.columns) == ["x"]
    assert "total" not in ask.shell.user_ns
    assert "no questions have been asked" in magic(ask, "agent_history")


def test_questions_are_undone_one_by_one_in_the_order_of_time(ask: Any) -> None:
    for number in (1, 2, 3):
        ask(f"--python undoable step {number}", f"df['c{number}'] = {number}")
    names = ask.shell.user_ns
    magic(ask, "agent_undo")
    assert list(names["df"].columns) == ["x", "c1", "c2"]
    names["df"]["mine"] = 0
    kept, hint = magic(ask, "agent_undo").splitlines()[1:]
    assert kept.startswith("kept: df (it was changed since: column 'mine' added")
    assert "--force" in hint
    assert list(names["df"].columns) == ["x", "c1", "c2", "mine"]
    assert magic(ask, "agent_undo --force") == "restored: df"
    assert list(names["df"].columns) == ["x", "c1"]
    assert magic(ask, "agent_undo").splitlines()[1] == "restored: df"


def test_what_was_undone_is_brought_back_until_the_next_question(ask: Any) -> None:
    names = ask.shell.user_ns
    df = names["df"]
    for number in (1, 2):
        ask(f"--python undoable step {number}", f"df['c{number}'] = {number}\nmade{number} = [1]")
    made = names["made2"]
    for _ in range(2):
        magic(ask, "agent_undo")
    assert list(df.columns) == ["x"]
    assert "no questions" in magic(ask, "agent_history")
    names["mine"] = 5
    said = magic(ask, "agent_undo --redo").splitlines()
    assert said == ["brought back: step 1", "restored: made1, df"]
    magic(ask, "agent_undo --redo")
    assert list(df.columns) == ["x", "c1", "c2"]
    assert names["made2"] is made
    assert names["mine"] == 5
    assert "step 1" in magic(ask, "agent_history")
    assert "step 2" in magic(ask, "agent_history")
    assert "nothing to redo" in magic(ask, "agent_undo --redo")
    assert "deleted: made2" in magic(ask, "agent_undo")
    ask("another")
    assert "nothing to redo" in magic(ask, "agent_undo --redo")


def test_a_question_has_the_number_of_its_cell_everywhere(ask: Any) -> None:
    magic(ask, "config ArchytasNB.python='undoable'")
    shell = ask.shell
    one, two = (
        ScriptedModel(("python", {"code": f"n = {n}"}), ("final_answer", "ok")) for n in (1, 2)
    )
    shell.user_ns |= {"one": one, "two": two}
    shell.run_cell("%agent -m one First.\n%agent -m two Second.", store_history=True)
    cell = len(shell.history_manager.input_hist_parsed) - 1
    rows = [line.split()[:2] for line in magic(ask, "agent_history").splitlines()[1:3]]
    assert rows == [[str(cell), "First."], [f"{cell}.2", "Second."]]
    lines = magic(ask, "agent_why n").splitlines()
    assert lines[0].startswith(f"cell {cell}.2, step 1")
    assert lines[1].startswith(f"before that: cell {cell}, step 1")
    for number, value in ((str(cell), 1), (f"{cell}.2", 2)):
        given: list[str] = []
        shell.set_next_input = lambda text, replace=False, given=given: given.append(text)
        magic(ask, f"agent_code --runs {number}")
        assert f"n = {value}" in given[0]
        assert f"n = {3 - value}" not in given[0]
    said = magic(ask, f"agent_code --runs {cell}..{cell}")
    assert said.startswith(f"cell {cell}: ")
    assert f"cell {cell}.2: " in said
    assert magic(ask, f"agent_check --runs {cell}.2").startswith(f"cell {cell}.2: ")
    with pytest.raises(UsageError, match=rf"there are {cell}, {cell}\.2"):
        magic(ask, f"agent_code --runs {cell + 1}")


def test_why_says_what_was_not_watched_also_after_the_undo_and_in_a_new_conversation(
    ask: Any,
) -> None:
    ask("hello", "df['y'] = 1", options="--python unwatched --out kept")
    cell = len(ask.shell.history_manager.input_hist_parsed) - 1
    assert magic(ask, "agent_why df").splitlines()[-1] == f"not watched: cell {cell}"
    assert "not watched" in magic(ask, "agent_undo")
    assert magic(ask, "agent_why df").splitlines()[-1] == f"not watched: cell {cell} (removed)"
    ask("--new again")
    assert f"cell {cell} (removed)" in magic(ask, "agent_why df")


def test_why_says_which_questions_changed_a_file(
    ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ask("--python undoable Write", "import pathlib\npathlib.Path('new.txt').write_text('x')")
    ask("--python undoable Rename", "import os\nos.rename('new.txt', 'other.txt')")
    last, first = magic(ask, "agent_why new.txt").splitlines()
    assert "deleted" in last
    assert "new.txt new" in first
    assert first.startswith("before that: ")
    assert "other.txt" in magic(ask, f"agent_why {tmp_path}/other.txt")
    magic(ask, "agent_undo")
    assert "(removed)" in magic(ask, "agent_why other.txt")
    with pytest.raises(UsageError, match=r"absent\.txt"):
        magic(ask, "agent_why absent.txt")


def test_what_could_not_be_put_back_is_listed(ask: Any) -> None:
    names = ask.shell.user_ns
    ask("--python undoable rebind", "n = 1\nnumbers = iter([1])", "next(numbers)")
    names["n"] = 5
    said = magic(ask, "agent_undo")
    assert "deleted: numbers" in said
    assert "kept: n (it was reassigned since: 5)" in said
    assert "not watched: numbers" in said
    assert names["n"] == 5


def test_older_runs_are_let_go_and_undo_says_so(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "RUNS", 1)
    ask("--python undoable one", "df['a'] = 1")
    ask("--python undoable two", "df['b'] = 1")
    assert "restored: df" in magic(ask, "agent_undo")
    assert "can no longer be undone" in magic(ask, "agent_undo")
    assert "a" in ask.shell.user_ns["df"]
    for name in ("x", "y", "z"):
        ask(f"--python off --out {name} what")
    assert "deleted: z" in magic(ask, "agent_undo")
    assert "deleted: y" in magic(ask, "agent_undo")
    assert "can no longer be undone" in magic(ask, "agent_undo")
    assert "x" in ask.shell.user_ns


def test_other_tools_are_watched_where_undo_is_on(ask: Any) -> None:
    ask("hello", "x = 1", options="--python unwatched")
    assert "did not watch" in magic(ask, "agent_why")
    ask.shell.run_line_magic("config", "ArchytasNB.undo = True")
    ask("hello", "x = 2", options="--python unwatched")
    assert "reassigned" in magic(ask, "agent_why")


@pytest.mark.parametrize("mode", ["unwatched", "undoable"])
def test_undo_restores_the_variable_of_out(ask: Any, mode: str) -> None:
    names = ask.shell.user_ns
    names["gap"] = before = [1]
    ask(f"--python {mode} --out gap how much", "x = 1")
    ask(f"--python {mode} --out made how much")
    assert (names["gap"], names["made"]) == ("Done.", "Done.")
    assert ("what the calls of this question changed" in magic(ask, "agent_why")) is False
    cell = len(ask.shell.history_manager.input_hist_parsed) - 1
    said = magic(ask, "agent_why made").splitlines()
    assert said[0] == f"cell {cell}, --out: made created (str of 5 characters)"
    assert said[1:] == ([f"not watched: cell {cell - 1}"] if mode == "unwatched" else [])
    assert magic(ask, "agent_undo").splitlines()[1] == "deleted: made"
    assert "made" not in names
    assert ("not watched" in magic(ask, "agent_why")) is (mode == "unwatched")
    assert "gap" in magic(ask, "agent_undo").splitlines()[1]
    assert names["gap"] is before
    assert ("x" in names) is (mode == "unwatched")


def test_undo_is_refused_while_a_question_is_being_answered(ask: Any) -> None:
    run = ask("--python unwatched undo", "get_ipython().run_line_magic('agent_undo', '')")
    assert "is being answered" in run.calls[0][1].text


def test_why_names_runs_lines_and_cells_the_last_first(ask: Any) -> None:
    ask.shell.run_cell("arr = [1, 2]\nother = 5", store_history=True)
    first = len(ask.shell.history_manager.input_hist_parsed) - 1
    ask("--python undoable append", "x = 1\n\narr[0] = 7")
    ask.shell.run_cell("arr.append(3)\narr = arr * 2", store_history=True)
    lines = magic(ask, "agent_why arr").splitlines()
    assert lines[0] == f"cell {first + 2}"
    assert f"cell {first + 1}, step 1, python line 3" in lines[1]
    assert lines[2] == f"before that: cell {first}"
    assert len(lines) == 3
    ask("append", "arr.append(4)", options="--python unwatched")
    assert magic(ask, "agent_why arr").splitlines()[-1] == f"not watched: cell {first + 3}"
    with pytest.raises(UsageError, match=r"no variable is named 'ar', did you mean 'arr'\?"):
        magic(ask, "agent_why ar")


def test_why_of_an_object_with_two_names_says_so_and_names_the_line(ask: Any) -> None:
    ask.shell.run_cell("config = {'a': 1}\nalias = config\nsmall = same = 1", store_history=True)
    ask("--python undoable one", "config['a'] = 2")
    ask("--python undoable two", "x = 1\nalias['a'] = 3")
    ask.shell.run_cell("late = config", store_history=True)
    last = len(ask.shell.history_manager.input_hist_parsed) - 1
    lines = magic(ask, "agent_why config").splitlines()
    one, two = f"cell {last - 2}, step 1, python line", f"cell {last - 1}, step 1, python line"
    assert lines[0] == f"{two} 2: alias changed (['a']: 2 → 3)"
    assert lines[1] == f"before that: {one} 1: config changed (['a']: 1 → 2)"
    assert lines[3].startswith("the same object is also bound to: alias, late; cells may have")
    assert "python line 1: config changed" in magic(ask, "agent_why alias")
    assert magic(ask, "agent_why late").endswith("by that name (%agent_why config)")
    assert "the same object" not in magic(ask, "agent_why small")


def test_undo_of_an_older_run_keeps_what_a_later_one_changed(ask: Any) -> None:
    names = ask.shell.user_ns
    first = ask("--python undoable one", "df['a'] = 1")
    second = ask("--python undoable two", "df['b'] = 1")
    [note] = first.undo()
    assert isinstance(note, Kept)
    assert str(note) == "df (it was changed since: column 'b' added)"
    assert list(names["df"].columns) == ["x", "a", "b"]
    assert second.undo() == ()
    assert first.undo() == ()
    assert list(names["df"].columns) == ["x"]
    assert first.redo() == ()
    assert second.redo() == ()
    assert list(names["df"].columns) == ["x", "a", "b"]


def test_code_leaves_the_history_of_ipython_alone(ask: Any) -> None:
    shell = ask.shell
    before = len(shell.user_ns["In"]), shell.user_ns.get("_")
    ask("--python unwatched sum", "df.x.sum()", "np = 1\nnp")
    assert len(shell.user_ns["In"]) == before[0] + 1
    assert "df.x.sum()" not in str(shell.user_ns["In"])
    assert shell.user_ns["_"] is not np.float64(3.0)


def test_a_diff_is_shown_at_its_call_in_text_and_html(
    ask: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ask("--python undoable add", "df['<b>'] = 1")
    assert "Δ df changed: column '<b>' added" in capsys.readouterr().out
    data: Any = run._repr_mimebundle_()[0]
    assert "column &#x27;&lt;b&gt;&#x27; added" in data["text/html"].replace("&#39;", "&#x27;")
    assert "<b>" not in data["text/html"]


def test_usage(ask: Any) -> None:
    with pytest.raises(UsageError):
        ask("--python perhaps hello")
    assert "no questions have been asked" in magic(ask, "agent_why")
