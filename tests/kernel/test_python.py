"""The tool `python`: code in the live namespace, the tools that it calls, and what is watched."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archytas_nb.agent import Agent
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import names_used, python_tool
from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.undo import transaction
from archytas_nb.undo.transaction import VariableWatch
from tests.scripted import Scripted

Names = dict[str, Any]


def run(
    code: str, names: Names | None = None, *tools: Any, mode: Any = "unwatched", person: Any = None,
    seconds: float | None = None, watched: bool = False,
) -> CallOutcome:  # fmt: skip
    names = {} if names is None else names
    box = Toolbox(*tools)
    box.add(python_tool(mode))
    executor = KernelExecutor(
        box, names, person=person, watch=VariableWatch(names) if watched else None
    )
    [outcome] = executor.run([ToolCall("q01s01c01", "python", {"code": code})], seconds)
    return outcome


def asked(*calls: Any, names: Names, tools: Any = (), **options: Any) -> Run:
    script = [("python", {"code": each}) if isinstance(each, str) else each for each in calls]
    model = ScriptedModel(*script, ("final_answer", "ok"))
    return Agent(tools, model, namespace=names, **options).run("go")


# ── running code ──────────────────────────────────────────────────────────────────────────────────


def test_the_value_of_the_last_expression_is_the_result() -> None:
    names: Names = {"x": 2}
    done = run("y = x * 3\nprint('printed')\ny + 1", names)
    assert (done.status, done.value, names["y"]) == ("done", 7, 6)
    assert done.text.split() == ["printed", "Returned:", "7"]
    assert run("y = 1", names).value is None
    assert run("", names).status == "done"


def test_code_with_await() -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\nz = [i async for i in g()]\nlen(z)"
    names: Names = {}
    run("async def g():\n    yield 1", names)
    assert run(code, names).value == 1
    assert names["z"] == [1]


def test_an_error_shows_its_lines_and_keeps_earlier_assignments() -> None:
    names: Names = {}
    failed = run("a = 1\ndef f():\n    return 1 / 0\nf()", names)
    assert failed.status == "error"
    assert names["a"] == 1
    for line in ("line 4, in <module>: f()", "line 3, in f: return 1 / 0"):
        assert line in failed.text
    assert "x = (" in run("y = 1\nx = (", names).text
    assert "y" not in names


@pytest.mark.parametrize("line", ["%matplotlib inline", "!ls", "files = !ls", "df?", "  %time x"])
def test_magics_are_refused_before_anything_runs(line: str) -> None:
    names: Names = {}
    refused = run(f"a = 1\n{line}", names)
    assert refused.status == "error"
    assert "a" not in names
    assert "refused" in refused.text or "indent" in refused.text
    assert run("'%s' % 1, 5 % 2", names).status == "done"


def test_interrupts_and_time_limits_stop_code() -> None:
    late = run("a = 1\nwhile True: pass", seconds=0.2)
    assert late.status == "error"
    # On a busy machine nothing may be left when the code begins.
    assert re.search(r"stopped after 0(\.\d+)? s", late.text)
    timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    names: Names = {"rows": []}
    stopped = run("rows.append(1)\nwhile True: pass", names, watched=True)
    assert stopped.status == "interrupted"
    assert [each.name for each in (stopped.diff or Diff()).changes] == ["rows"]


def test_a_person_sees_the_whole_code_and_the_names_that_it_uses() -> None:
    code = "\n".join([f"a{i} = df.x.sum()" for i in range(100)] + ["df['y'] = b"])
    person = Scripted("n")
    refused = run(code, {"df": 1}, mode="ask", person=person)
    assert refused.status == "refused"
    assert "a50 = df.x.sum()" in person.prompts[0]
    assert names_used("df['y'] = b\nimport os as o\ndef f(): pass\ndel c.d[0]") == (
        "reads b, c, df; assigns to c, df, f, o"
    )
    assert run("1 + 1", mode="ask", person=Scripted("y")).value == 2


def test_the_names_are_those_of_the_edited_code() -> None:
    person = Scripted("code = 'c = d'", "code = '1'", "y")
    assert run("a = b", {}, mode="ask", person=person).value == 1
    assert [re.findall(r"\(reads .*\)", each) for each in person.prompts] == [
        ["(reads b; assigns to a)"],
        ["(reads d; assigns to c)"],
        [],
    ]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(a, *b, c=d, **e):\n    g = a\n    return g + h", "reads d, h; assigns to f"),
        ("[x for x in y if x in z]", "reads y, z"),
        ("{k: v for k, v in y.items()}", "reads y"),
        ("(x for x in x)", "reads x"),
        ("[last := x for x in y]", "reads y; assigns to last"),
        ("f = lambda q: q + r", "reads r; assigns to f"),
        ("def f():\n    global g\n    g = 1", "assigns to f, g"),
        ("def f():\n    n = 1\n    def g():\n        nonlocal n\n        n = m\n    return g", "reads m; assigns to f"),
        ("def f():\n    rows[0] = 1\n    own = []\n    own[0] = 2\n    df.x = own", "reads df, rows; assigns to df, f, rows"),
        ("class A(B):\n    z = w\n    def m(self):\n        return self.z, z", "reads B, w, z; assigns to A"),
        ("class A:\n    rows[0] = 1", "reads rows; assigns to A, rows"),
        ("try:\n    pass\nexcept E as e:\n    pass", "reads E; assigns to e"),
        ("match x:\n    case {'a': y, **z}:\n        pass\n    case [*w]:\n        pass", "reads x; assigns to w, y, z"),
        ("await x\n[i async for i in y]", "reads x, y"),
        ("@deco\ndef f(a: T) -> U:\n    a()", "reads T, U, deco; assigns to f"),
        ("f = lambda x: x; g = lambda y: x", "reads x; assigns to f, g"),  # the second one reads it
        ("import a.b, c as d\nfrom e import f as g", "assigns to a, d, g"),
        ("for i in r:\n    del t", "reads r; assigns to i, t"),
        ("def f(rows):\n    return [lambda y: x + y + z for x in rows for z in x]", "assigns to f"),
        ("f = [lambda y: x + y + w for x in r]", "reads r, w; assigns to f"),
        ("x = [x for x in x]", "reads x; assigns to x"),
        ("x = (", "it is not valid Python and will not run"),
        ("1 + 1", ""),
    ],
)  # fmt: skip
def test_only_variables_of_the_namespace_are_named_not_those_of_functions(
    code: str, names: str
) -> None:
    assert names_used(code) == names


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no type parameters")
@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f[T](a: T, b) -> T:\n    c = a\n    return c + d", "reads d; assigns to f"),
        ("class A[T](B[T]):\n    def m(self, x: T):\n        return x + y", "reads B, y; assigns to A"),
    ],
)  # fmt: skip
def test_type_parameters_are_not_named(code: str, names: str) -> None:
    assert names_used(code) == names


# ── tools in code ─────────────────────────────────────────────────────────────────────────────────


def wipe(table: str) -> str:
    """Wipe a table."""
    wiped.append(table)
    return f"{table} is gone"


wiped: list[str] = []


@pytest.mark.parametrize(
    "code",
    [
        "wipe('a')", "[wipe(each) for each in ['a']]", "f = wipe\nf(table='a')", "helper()", "other('a')",
        "(lambda: wipe('a'))()", "list(map(wipe, ['a']))",
    ],
)  # fmt: skip
def test_a_tool_called_in_code_asks_for_its_approval_and_is_counted(code: str) -> None:
    box = Toolbox()
    tool = box.add(wipe, approve=True)
    names: Names = {"wipe": wipe, "other": wipe}
    exec("def helper(): return wipe('a')", names)
    wiped.clear()
    refused = run(code, names, tool, person=Scripted("n, not today"))
    assert refused.status == "error"
    assert "not today" in refused.text
    assert (wiped, refused.called) == ([], ())
    done = run(code, names, tool, person=Scripted("y"))
    assert done.status == "done", done.text
    assert (wiped, done.called) == (["a"], ("wipe",))
    assert names["wipe"] is names["other"] is wipe


def test_a_tool_without_a_name_in_the_namespace_has_its_own_during_the_call() -> None:
    names: Names = {}
    box = Toolbox()
    tool = box.add(wipe)
    assert run("wipe('b')", names, tool).value == "b is gone"
    assert "wipe" not in names
    run("keep = wipe\nwipe = 5", names, tool)
    assert names["wipe"] == 5
    assert names["keep"] is wipe  # which asks again when code calls it


def test_stop_at_the_question_of_a_tool_ends_the_code() -> None:
    box = Toolbox()
    tool = box.add(wipe, approve=True)
    code = "try:\n    wipe('a')\nexcept Exception:\n    b = 1"
    names: Names = {}
    assert run(code, names, tool, person=Scripted("stop")).status == "interrupted"
    assert "b" not in names


# ── what is watched ───────────────────────────────────────────────────────────────────────────────


def test_a_run_shows_what_it_changed_and_can_be_undone() -> None:
    frame = pd.DataFrame({"x": [1.0, None]})
    names: Names = {"df": frame}
    made = asked("df.loc[2] = 5.0", "m = len(df)", "m", names=names, python="undoable")
    assert [(each.name, each.kind) for each in made.diff.changes] == [
        ("df", "changed"),
        ("m", "created"),
    ]
    assert made.undo() == ()
    assert names["df"] is frame
    assert len(frame) == 2
    events = json.dumps(made.to_json())
    assert '{"event": "Change", "kind": "changed", "name": "df"' in events


def test_other_tools_are_watched_by_their_arguments_and_their_globals() -> None:
    names: Names = {"frame": pd.DataFrame({"x": [1]}), "rows": [1], "unused": np.zeros(3)}
    source = '''
def add(n: int) -> int:
    """Add."""
    rows.append(n)
    return 0

def fill(name: str) -> int:
    """Fill."""
    globals_of[name]["x"] = 5
    return 0
'''
    exec(source, names)
    hidden = {"globals_of": names}
    fill = type(names["fill"])(names["fill"].__code__, hidden, "fill")
    fill.__annotations__, fill.__doc__ = {"name": str, "return": int}, "Fill."
    calls = [("add", {"n": 1}), ("fill", {"name": "frame"})]
    made = asked(*calls, names=names, tools=[names["add"], fill], undo=True)
    assert [each.name for each in made.diff.changes] == ["rows", "frame"]
    made.undo()
    assert names["rows"] == [1]
    assert names["frame"].x[0] == 1


def test_no_variables_are_read_if_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        transaction, "Transaction", lambda *_: pytest.fail("there is a transaction")
    )
    made = asked("x = 1", names={}, python="unwatched")
    assert made.diff.changes == ()
    assert made.undo() == made.diff.not_watched
    assert [str(each) for each in made.undo()] == ["the changes of this question"]


def test_unwatched_objects_are_listed_once_and_libraries_are_not_shown() -> None:
    names: Names = {"np": np, "numbers": iter([1, 2])}
    made = asked("next(numbers)", "np.pi", names=names, python="undoable")
    assert {each.name for each in made.diff.not_watched} == {"np", "numbers"}
    assert [each.name for each in made.diff.unseen] == ["numbers"]
    assert [outcome.diff is not None for _, outcome in made.calls] == [True, False]


class Hostile:
    """Raises whatever it is asked, as proxies do outside of their context."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError


def test_objects_whose_methods_raise_do_not_stop_a_watched_run() -> None:
    names: Names = {"rows": [1], "box": [Hostile()]}
    exec("def outer():\n    def f(): return g\n    if 0: g = 1\n    return f\nf = outer()", names)
    names["proxy"] = Hostile()
    code = "proxy, box, f\nother = type(proxy)()\nproxy = type(proxy)()\nrows.append(1)\n0"
    made = asked(code, names=names, python="undoable")
    assert made.calls[0][1].status == "done", made.calls[0][1].text
    assert {each.name for each in made.diff.changes} == {"other", "proxy", "rows"}
    made.undo()
    assert names["rows"] == [1]
    assert "other" not in names


def test_the_model_is_told_what_its_code_does_outside_of_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.txt").write_text("x")

    def note(text: str) -> None:
        """Write a note.

        Args:
            text: The note
        """
        Path("note.txt").write_text(text)

    text = run(
        "from pathlib import Path\nPath('old.txt').unlink()\nPath('new.csv').write_text('1,2')"
    ).text
    assert {"old.txt: deleted", "new.csv: new, 3 B"} <= {*text.split("\n")}
    failed = run("from pathlib import Path\nPath('half.txt').write_text('x')\n1 / 0")
    assert failed.status == "error"
    assert "half.txt: new" in failed.text
    assert "Outside" not in run("sum([1, 2])").text
    # What a tool of the user writes is its own affair.
    calls = asked(("note", {"text": "hello"}), names={}, tools=[note]).calls
    assert [each.text for _, each in calls] == ["(no output)"]
    assert Path("note.txt").read_text() == "hello"


def test_a_question_tells_where_code_runs_once_and_again_when_that_changes() -> None:
    model = ScriptedModel(*["ok"] * 9, protocol="native")
    agent = Agent([], model, namespace={})
    places = []
    for mode in ("copy", "copy", "undoable", "ask", "ask", "copy", "off", "copy", "unwatched"):
        agent._configure(python=mode)
        agent.run(f"{mode}?")
        asked_last = model.asked[-1].messages[-1]["content"]
        [*_, place] = [
            each for each in asked_last.split("\n\n") if each.startswith("(Code runs")
        ] or [""]
        places.append(place)
    assert [bool(each) for each in places] == [1, 0, 1, 1, 0, 1, 0, 0, 1]
    copied, _, watched, approved, *_, unwatched = places
    assert "copy" in copied
    assert "approves" in approved
    assert "approves" not in watched
    assert "variables and of files" in watched
    assert "variables and of files" not in unwatched
    assert len({json.dumps(each.tools) for each in model.asked}) == 1
    agent._configure(ask_before=["delete", "network"])
    model._remaining = ["ok"]
    agent.run("And now?")
    assert "asked before it connects or deletes a file" in model.asked[-1].messages[-1]["content"]
