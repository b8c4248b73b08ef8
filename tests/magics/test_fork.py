"""`%agent_fork`: branches of a question, each with the variables and files that it left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.errors import RunError, RunInterrupted
from archytas_nb.namespace import Cell
from archytas_nb.testing import ScriptedModel

NAMES = ("a", "b", "c", "d")
BEGIN = "a = [0]; b = {}; c = 0; d = a"


@pytest.fixture
def notebook(shell: InteractiveShell) -> InteractiveShell:
    """A notebook with a tool that runs statements, whose changes are watched."""

    def change(statement: str) -> str:
        """Change the variables.

        Args:
            statement: What to run
        """
        exec(statement, shell.user_ns)
        return "done"

    nb.tool(change, repeat=True)
    shell.run_line_magic("config", "ArchytasNB.undo = True")
    exec(BEGIN, shell.user_ns)
    return shell


def script(shell: InteractiveShell, *statements: str, answer: str = "ok") -> ScriptedModel:
    calls = [("change", {"statement": each}) for each in statements]
    model = shell.user_ns["script"] = ScriptedModel(*calls, ("final_answer", answer))
    return model


def state(names: dict[str, Any]) -> dict[str, str]:
    """The values of the variables, and which of them are one object."""
    found = {name: repr(names[name]) for name in NAMES if name in names}
    same = [f"{x}{y}" for x in found for y in found if x < y and names[x] is names[y]]
    return {**found, "same": str([each for each in same if "c" not in each])}


def after(*statements: str) -> dict[str, str]:
    """The values of the variables when only this was run."""
    names: dict[str, Any] = {}
    for each in (BEGIN, *statements):
        exec(each, names)
    return state(names)


def ask(shell: InteractiveShell, *statements: str, answer: str = "ok") -> Any:
    script(shell, *statements, answer=answer)
    return shell.run_line_magic("agent", "--model script --new change them")


def fork(shell: InteractiveShell, line: str, *statements: str, answer: str = "ok") -> Any:
    model = script(shell, *statements, answer=answer)
    shell.run_line_magic("agent_fork", f"-m script {line}")
    model.check()
    return model


statements = st.integers(1, 10**6).flatmap(
    lambda n: st.sampled_from(
        [
            f"a.append({n})", f"b[{n % 3}] = {n}", f"c = {n}", f"a = [{n}]", "d = b",
            f"b = dict(b, new={n})", "b.clear()", f"d = [a, {n}]", f"e = {n}", "a[:] = a[:1]", "d = a",
        ]
    )
)  # fmt: skip


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(statements, min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(statements, max_size=3)), min_size=1, max_size=3
    ),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_each_branch_has_the_variables_that_its_steps_make(notebook, first, forks, visits) -> None:
    for name in ("a", "b", "c", "d", "e"):
        notebook.user_ns.pop(name, None)
    exec(BEGIN, notebook.user_ns)
    ask(notebook, *first)
    branches = [first]
    at = 0
    for step, more in forks:
        kept = branches[at][: step % (len(branches[at]) + 1)]
        fork(notebook, str(len(kept) + 1), *more)
        branches.append([*kept, *more])
        at = len(branches) - 1
        assert state(notebook.user_ns) == after(*branches[at])
    for visit in visits:
        at = visit % len(branches)
        notebook.run_line_magic("agent_fork", f"--to {at + 1}")
        assert state(notebook.user_ns) == after(*branches[at])
    notebook.run_line_magic("agent_undo", "")
    assert state(notebook.user_ns) == after()
    notebook.run_line_magic("agent_undo", "--redo")
    assert state(notebook.user_ns) == after(*branches[at])


def test_the_model_reads_the_first_steps_and_what_it_is_told(notebook) -> None:
    ask(notebook, "c = 1", "c = 2", answer="two")
    model = fork(notebook, "2 use three", "c = 3", answer="three")
    sent = str(model.asked[0].messages)
    assert "c = 1" in sent
    assert "c = 2" not in sent
    assert "use three" in str(model.asked[0].messages[-1]["content"])
    assert sent.index("c = 1") < sent.index("use three")
    assert notebook.user_ns["c"] == 3
    run = notebook.find_line_magic("agent").__self__.history.last
    assert [call.input["statement"] for call, _ in run.calls] == ["c = 1", "c = 3"]
    assert [each.number for each in run.steps] == [1, 2, 3]
    ids = [call.id for call, _ in run.calls]
    assert len(set(ids)) == 2
    assert run.usage.requests == 2  # what the first step cost is not counted again
    script(notebook, answer="yes")
    notebook.run_line_magic("agent", "--model script was it three?")
    assert "three" in str(notebook.user_ns["script"].asked[0].messages)
    assert "c = 2" not in str(notebook.user_ns["script"].asked[0].messages)


def test_both_branches_are_listed_and_can_be_continued(notebook) -> None:
    ask(notebook, "c = 1", answer="Eins.")
    fork(notebook, "1", "c = 2", answer="Zwei.")
    listed = str(notebook.run_line_magic("agent_fork", ""))
    assert "Eins." in listed
    assert "Zwei." in listed
    notebook.run_line_magic("agent_fork", "--to 1")
    model = script(notebook, answer="yes")
    notebook.run_line_magic("agent", "--model script and now?")
    sent = str(model.asked[0].messages)
    assert "Eins." in sent
    assert "Zwei." not in sent
    assert notebook.user_ns["c"] == 1


def test_what_the_person_changed_since_is_kept_and_told(notebook, capsys) -> None:
    ask(notebook, "c = 1", "a.append(1)")
    notebook.user_ns["c"] = 77
    fork(notebook, "1", "b[1] = 2")
    assert notebook.user_ns["c"] == 77
    assert notebook.user_ns["a"] == [0]
    assert "c" in capsys.readouterr().out


def test_files_are_those_of_the_branch(notebook, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    ask(notebook, f"import pathlib; pathlib.Path({str(file)!r}).write_text('one')")
    assert file.read_text() == "one"
    fork(notebook, "1", "c = 5")
    assert not file.exists()
    notebook.run_line_magic("agent_fork", "--to 1")
    assert file.read_text() == "one"
    assert notebook.user_ns["c"] == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [("0", "1 to 2"), ("9 x", "1 to 2"), ("x", "number"), ("--to 3", "no branches")],
)
def test_a_step_that_is_not_there_changes_nothing(notebook, line: str, said: str) -> None:
    ask(notebook, "c = 1")
    script(notebook)
    with pytest.raises((UsageError, ValueError), match=said):
        notebook.run_line_magic("agent_fork", line)
    assert notebook.user_ns["c"] == 1
    assert notebook.user_ns["script"].asked == []


def test_without_watched_changes_there_is_no_way_back(notebook) -> None:
    notebook.run_line_magic("config", "ArchytasNB.undo = False")
    ask(notebook, "c = 1")
    with pytest.raises(UsageError, match="did not watch"):
        notebook.run_line_magic("agent_fork", "1")
    assert notebook.user_ns["c"] == 1


def test_a_branch_that_comes_to_nothing_leaves_the_other_one_as_it_was(notebook) -> None:
    ask(notebook, "c = 1", "a.append(1)", answer="one")
    notebook.user_ns["script"] = ScriptedModel(nb.ModelError("gone"))
    with pytest.raises((RunError, nb.ModelError)):
        notebook.run_line_magic("agent_fork", "-m script 1")
    assert notebook.user_ns["c"] == 1
    assert notebook.user_ns["a"] == [0, 1]
    assert "one" in str(notebook.run_line_magic("agent_history", ""))


def test_a_branch_that_was_interrupted_has_its_variables_and_is_undone(notebook) -> None:
    ask(notebook, "a.append(1)", "c = 1")
    notebook.user_ns["script"] = ScriptedModel(
        ("change", {"statement": "a.append(7)"}), KeyboardInterrupt()
    )
    with pytest.raises(RunInterrupted):
        notebook.run_line_magic("agent_fork", "-m script 2")
    assert state(notebook.user_ns) == after("a.append(1)", "a.append(7)")
    notebook.run_line_magic("agent_fork", "--to 1")
    assert state(notebook.user_ns) == after("a.append(1)", "c = 1")
    notebook.run_line_magic("agent_fork", "--to 2")
    notebook.run_line_magic("agent_undo", "")
    assert state(notebook.user_ns) == after()


def test_the_buttons_of_a_question_go_when_it_is_forked(
    notebook: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(notebook, "c = 1")
    magics = notebook.magics_manager.registry["ArchytasNB"]
    closed: list[bool] = []
    monkeypatch.setattr(magics.after, "close", lambda: closed.append(True))
    fork(notebook, "1", "c = 2")
    assert closed == [True]


def test_a_click_asks_nothing_while_another_question_is_answered(
    notebook: InteractiveShell,
) -> None:
    ask(notebook, "c = 1")
    magics = notebook.magics_manager.registry["ArchytasNB"]
    _, setup, _ = magics._last_asked
    asking = magics.history.begin("", Cell("", "", 1), new=False)
    with pytest.raises(UsageError, match="already answering"):
        magics._ask_below("Again?", setup, "", {})
    magics.history.end(asking, None)
