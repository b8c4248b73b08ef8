"""Code of a model in a copy of the kernel: what it may use, what comes back, and that nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.copies import lock, prepared
from archytas_nb.errors import RunInterrupted
from archytas_nb.kernel.copied import copy_tool, without_keeping
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import html
from archytas_nb.trace.text import plain
from archytas_nb.undo.fingerprint import fingerprint
from tests.cassettes.tapes import no_model
from tests.scripted import Scripted

Names = dict[str, Any]

locked = pytest.mark.skipif(
    lock.machine().kind != "locked", reason="this machine cannot lock a copy"
)
pytestmark = locked


def codes(*code: str, names: Names, tools: Any = (), person: Any = None, **options: Any) -> Any:
    """The outcomes of code, one call after another, in one copy."""
    box = Toolbox(*tools)
    box.add(copy_tool())
    executor = KernelExecutor(box, names, person=person, **options)
    try:
        calls = [ToolCall(f"q01s{n:02}c01", "python", {"code": c}) for n, c in enumerate(code, 1)]
        return [executor.run([each])[0] for each in calls]
    finally:
        if executor.copy is not None:
            executor.copy.close()


def one(code: str, names: Names | None = None, **options: Any) -> CallOutcome:
    [outcome] = codes(code, names={} if names is None else names, **options)
    return outcome


def asked(*calls: Any, names: Names, tools: Any = (), **options: Any) -> Run[Any]:
    """A question whose model runs code and makes calls, and then answers with the last text."""
    *made, answer = calls
    script = [("python", {"code": each}) if isinstance(each, str) else each for each in made]
    model = ScriptedModel(*script, ("final_answer", answer))
    asking = {n: options.pop(n) for n in ("output_type",) if n in options}
    return Agent(tools, model, namespace=names, python="copy", **options).run("go", **asking)


def children() -> set[int]:
    return {each.pid for each in psutil.Process().children(recursive=True)}


# ── what the code has, and what stays as it was ───────────────────────────────────────────────────


def test_code_uses_all_variables_and_changes_none() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    names: Names = {"frame": frame, "pd": pd, "xs": [1], "Half": type("Half", (), {"x": 1})}
    before = {name: fingerprint(each) for name, each in names.items()}
    first, second, third = codes(
        "frame['b'] = frame.a * 2\nxs.append(frame.b.sum())\nprint('done')\nxs[-1]",
        "total = xs[-1] + frame.b.max()\ntotal",
        "del frame\nHalf.x = 5\ntotal + Half.x",
        names=names,
    )
    assert (first.status, first.value, first.printed) == ("done", 12, "done")
    assert second.value == 18
    assert third.value == 23
    assert {name: fingerprint(each) for name, each in names.items()} == before
    assert names["frame"] is frame


def test_an_error_has_its_class_and_its_line_and_what_was_before_it_is_kept() -> None:
    failed, after = codes("a = 41\nb = {}\nb['x']", "a + 1", names={})
    assert failed.status == "error"
    assert isinstance(failed.error, KeyError)
    assert failed.text.splitlines()[0] == "KeyError: 'x'"
    assert "line 3" in failed.text
    assert after.value == 42


def test_an_effect_outside_is_refused_and_named(tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("as it was")
    failed = one(f"open({str(file)!r}, 'w').write('gone')", {})
    assert failed.status == "error"
    assert "Refused, because this is a copy" in failed.text
    assert file.read_text() == "as it was"


def test_a_value_that_cannot_be_sent_is_told_as_text() -> None:
    outcome = one("import threading\nthreading.Lock()")
    assert outcome.status == "done"
    assert "lock" in outcome.text


def test_a_figure_is_shown_and_sent() -> None:
    pytest.importorskip("matplotlib")
    outcome = one("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()")
    pictures = [each for each in outcome.outputs if "image/png" in each.data]
    assert len(pictures) == 1
    assert len(outcome.images) == 1


def test_a_library_may_read_how_much_of_the_machine_it_has() -> None:
    pytest.importorskip("duckdb")
    frame = pd.DataFrame({"a": [1, 2, 3]})
    code = "import duckdb\nduckdb.query('select sum(a) s from frame').df().s[0]"
    assert one(code, {"frame": frame}).value == 6


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["xs.append(1)", "xs = []", "d['k'] = xs", "del d", "f.g = xs", "globals().clear()",
             "f()", "d.clear()", "import builtins; builtins.len = None", "s.add(3)"]
        ),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_nothing_that_code_does_to_variables_is_seen_in_the_notebook(lines: list[str]) -> None:
    names: Names = {"xs": [1, 2], "d": {"a": [1]}, "s": {1}}
    exec("def f():\n    d['called'] = True", names)
    before = {name: fingerprint(each).digest for name, each in names.items() if name != "f"}
    codes("\n".join(lines), "1", names=names)
    assert {n: fingerprint(names[n]).digest for n in before} == before
    assert len([1]) == 1
    assert not hasattr(names["f"], "g")


# ── what comes back ───────────────────────────────────────────────────────────────────────────────


def test_keep_makes_a_new_variable_that_undo_removes() -> None:
    names: Names = {"xs": [1, 2]}
    run = asked("ys = [x * 2 for x in xs]\nkeep('ys')", "ok", names=names)
    assert names["ys"] == [2, 4]
    assert [each.name for each in run.diff.changes] == ["ys"]
    run.undo()
    assert "ys" not in names


UNCHANGED = "nothing in the notebook has changed"


@pytest.mark.parametrize(
    ("code", "is_said"),
    [
        ("ys = [x * 2 for x in xs]\nkeep('ys')", False),  # it has changed
        ("ys = 1\nys", False),  # nobody would take that for a change
        ("xs = [9]", True),
        ("xs[0] = 9", True),
        ("del xs", True),
        ("xs = [9]\nys = 1\nkeep('ys')", False),
    ],
)
def test_what_looks_like_a_change_is_said_to_be_none(code: str, *, is_said: bool) -> None:
    assert (UNCHANGED in one(code, {"xs": [1, 2]}).text) is is_said


def test_keep_replaces_no_variable_of_the_notebook() -> None:
    names: Names = {"xs": [1, 2]}
    outcome = one("xs = 'other'\nkeep('xs')", names)
    assert names == {"xs": [1, 2]}
    assert "'xs'" in outcome.text


def test_a_typed_answer_may_name_a_variable_of_the_copy() -> None:
    names: Names = {"pd": pd, "frame": pd.DataFrame({"a": [3, 1]})}
    run = asked("best = frame.sort_values('a')", "best", names=names, output_type=pd.DataFrame)
    assert run.value.a.tolist() == [1, 3]
    assert "best" not in names


def test_an_argument_may_name_a_variable_of_the_copy() -> None:
    names: Names = {"pd": pd}

    def rows_of(table: pd.DataFrame) -> int:
        """Count rows.

        Args:
            table: Which
        """
        return len(table)

    run = asked(
        "part = pd.DataFrame({'a': [1, 2]})", ("rows_of", {"table": "part"}), "ok",
        names=names, tools=[rows_of],
    )  # fmt: skip
    assert run.calls[-1][1].value == 2


def test_hidden_values_stay_hidden() -> None:
    canary = "blue-heron-7731"
    names: Names = {"birds": [canary]}
    codes = ["print(birds[0])\nbirds[0]", "raise KeyError(birds[0])", "x = birds[0]\nkeep('x')"]
    calls = [("python", {"code": each}) for each in codes]
    model = ScriptedModel(*calls, ("final_answer", "ok"))
    Agent([], model, namespace=names, python="copy", values="none", protocol="native").run("go")
    assert len(model.asked) == 4
    assert canary not in str([each.messages for each in model.asked])
    assert names["x"] == canary


def test_the_code_of_a_run_keeps_nothing_by_a_function_that_the_notebook_lacks() -> None:
    assert (
        without_keeping("a = 1\nkeep('a')\nif a:\n    keep('b')") == "a = 1\npass\nif a:\n    pass"
    )


def test_secrets_of_variables_and_of_the_environment_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden-1")
    names: Names = {"db_password": "hidden-2", "x": 1}
    outcome = one("import os\n[*os.environ.values(), *map(str, globals().values())]", names)
    assert "hidden" not in str(outcome.value)
    assert os.environ["SOME_API_KEY"] == "hidden-1"
    assert names == {"db_password": "hidden-2", "x": 1}


def test_the_code_of_a_run_is_proved_and_checked_in_a_copy_again() -> None:
    names: Names = {"xs": [1, 2]}
    run = asked("xs.append(3)\ntotal = sum(xs)\ntotal", "It is 6.", names=names)
    assert "total = sum(xs)" in run.code()
    proof = run.verify()
    assert (proof.holds, proof.values, names) == (True, 1, {"xs": [1, 2]})
    assert run.check().status == "holds"
    names["xs"] = [1, 2, 5]
    checked = run.check()
    assert checked.status == "changed"
    assert "11" in checked.text({})
    assert names == {"xs": [1, 2, 5]}


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def tool(function: Any, **options: Any) -> Tool:
    return Tool.from_function(function, **options)


def test_a_pure_tool_runs_in_the_copy_and_others_in_the_kernel() -> None:
    seen: list[int] = []

    def here(n: int) -> int:
        """Note a number.

        Args:
            n: Which
        """
        seen.append(os.getpid())
        return n + 1

    def there(n: int) -> int:
        """Say where it runs.

        Args:
            n: Which
        """
        return os.getpid()

    tools = [tool(here), tool(there, pure=True)]
    outcome = one("(here(1), there(n=2))", {}, tools=tools)
    assert outcome.value[0] == 2
    assert outcome.value[1] != os.getpid()
    assert seen == [os.getpid()]
    assert outcome.called == ("here",)


@pytest.mark.parametrize("answer", ["y", "n, not today"])
def test_a_tool_that_needs_approval_asks_for_it(answer: str) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay.

        Args:
            amount: How much
        """
        paid.append(amount)
        return "paid"

    person = Scripted(answer)
    outcome = one("pay(amount=3)", {}, tools=[tool(pay, approve=True)], person=person)
    assert len(person.prompts) == 1
    if answer == "y":
        assert (outcome.value, paid) == ("paid", [3])
    else:
        assert paid == []
        assert isinstance(outcome.error, PermissionError)
        assert "not today" in outcome.text


def test_after_an_effect_in_the_kernel_code_sees_the_notebook_as_it_is_then() -> None:
    names: Names = {"xs": [1]}

    def add(n: int) -> None:
        """Add.

        Args:
            n: What
        """
        names["xs"].append(n)

    run = asked(
        "mine = 5\nsum(xs)", ("add", {"n": 10}), "sum(xs) + mine", "ok", names=names, tools=[add]
    )
    assert run.calls[2][1].value == 16
    assert "new copy" in run.calls[2][1].text


def test_a_watched_call_that_changes_nothing_leaves_the_copy() -> None:
    def size() -> int:
        """Say a size."""
        return 3

    run = asked(
        "import threading\nlock = threading.Lock()", ("size", None), "lock.locked()", "ok",
        names={}, tools=[size], undo=True,
    )  # fmt: skip
    assert run.calls[2][1].value is False


# ── the product around it ─────────────────────────────────────────────────────────────────────────


def test_the_trace_says_that_it_was_in_a_copy() -> None:
    run = asked("1 + 1", "ok", names={})
    view = fold(run.question, run.events)
    assert "(in a copy)" in plain(view)
    assert "in a copy" in str(html(view))


def test_a_machine_without_a_lock_asks_once_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    level = lock.Level("guarded", ("a lock",))
    monkeypatch.setattr(lock, "machine", lambda *_: level)
    person = Scripted("a")
    first, second = codes("1 + 1", "2 + 2", names={}, person=person)
    assert (first.value, second.value, first.place) == (2, 4, "guarded copy")
    assert len(person.prompts) == 1
    assert "a lock" in person.prompts[0]
    nobody = one("1", {}, person=Scripted(there=False))
    assert nobody.status in ("refused", "done")


@pytest.mark.parametrize(
    "hidden", [{"values": "strict"}, {"values": "scalars"}, {"context": "none"}]
)
def test_hidden_variables_offer_no_code_unless_it_is_asked_for(
    hidden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_PYTHON", "copy")
    for options, is_there in (({}, False), ({"python": "copy"}, True)):
        model = ScriptedModel(("final_answer", "ok"))
        Agent([], model, namespace={}, protocol="native", **hidden, **options).run("go")
        names = [each["function"]["name"] for each in model.asked[-1].tools]
        assert ("python" in names) is is_there


def test_a_tool_of_the_persons_own_takes_the_place_of_the_copy() -> None:
    def python(code: str) -> str:
        """Mine.

        Args:
            code: Text
        """
        return "mine"

    run = asked(("python", {"code": "1"}), "ok", names={}, tools=[python])
    assert run.calls[0][1].value == "mine"


def test_a_question_that_runs_no_code_starts_and_loads_nothing() -> None:
    script = (
        "import sys, os\n"
        "from archytas_nb import Agent\n"
        "from archytas_nb.testing import ScriptedModel\n"
        "os.fork = None\n"
        "Agent([], ScriptedModel(('final_answer', 'ok')), python='copy').run('go')\n"
        "loaded = [each for each in sys.modules if each.startswith('archytas_nb.copies')]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_interrupt_ends_the_copy() -> None:
    before = children()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(RunInterrupted) as raised:
        asked("while True: pass", "ok", names={})
    timer.cancel()
    assert raised.value.run.calls[0][1].status == "interrupted"
    assert children() <= before


def test_a_limit_of_time_ends_the_copy() -> None:
    before = children()
    run = asked("import time\ntime.sleep(100)", "ok", names={}, max_seconds=2.0)
    assert run.calls[0][1].status == "error"
    assert children() <= before


def test_nothing_is_left_when_the_question_has_ended() -> None:
    before = children()
    asked("x = 1", "x + 1", "ok", names={})
    assert children() <= before


def test_a_recording_replays_code_in_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    live = ScriptedModel(("python", {"code": "y = x * 2\ny"}), ("final_answer", "84"))
    runs = []
    for mode, model in (("record", lambda: live), ("replay", no_model)):
        recorded = CassetteModel(Cassette(path, mode), model)  # type: ignore[arg-type]
        runs.append(Agent([], recorded, namespace={"x": 42}, python="copy").run("go"))
    assert [each.calls[0][1].text for each in runs] == ["84", "84"]
    assert runs[0].events == runs[1].events


def test_agents_in_threads_have_copies_of_their_own_also_when_the_first_thread_has_ended() -> None:
    prepared.close()
    results: list[Any] = []

    def ask(n: int) -> None:
        run = asked(f"sum(xs) + {n}", "xs.append(1)\nlen(xs)", "ok", names={"xs": [1, 2]})
        results.append([outcome.value for _, outcome in run.calls])

    for count in (1, 4):  # the first one starts the process for copies
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert prepared.template().is_ready(30)
    assert sorted(results) == [[3, 3], [3, 3], [4, 3], [5, 3], [6, 3]]


def test_an_error_says_what_was_meant_or_what_is_there() -> None:
    fleet = pd.DataFrame({"Ship Name": ["Ida", "Uwe"], "Draught (m)": [2.0, None]})
    spelled, unknown, empty = codes(
        "fleet['draught (M)'].max()",
        "flete['Ship Name']",
        "deep = fleet[fleet['Draught (m)'] > 3]\ndeep['Ship Name'].iloc[0]",
        names={"fleet": fleet},
    )
    assert [each.status for each in (spelled, unknown, empty)] == ["error"] * 3
    assert "the column is 'Draught (m)' for 'draught (M)'" in spelled.text
    assert "fleet" in unknown.text.replace("flete", "")
    assert "deep: DataFrame, 0 rows, columns 'Ship Name', 'Draught (m)'" in empty.text


def test_a_result_says_what_the_code_did_not_do_though_it_raised_nothing() -> None:
    fleet = pd.DataFrame({"port": ["Kiel", "Husum"], "depth": [2.0, 5.0]})
    spelled, none, part, right, changed = codes(
        "len(fleet[fleet['port'] == 'kiel'])",
        "fleet['port'].isin(['Kiel', 'Bonn']).sum()",
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "fleet[fleet['depth'] > 3]['depth'] = 3\nfleet['depth'].max()",
        "len(fleet[fleet['port'] == 'Kiel'])",
        "fleet.loc[fleet['port'] == 'Kiel', 'port'] = 'Bonn'\nfleet['port'].iloc[0]",
        names={"fleet": fleet},
    )
    assert "(no value of fleet['port'] is 'kiel'; there is 'Kiel'.)" in spelled.text
    assert "(no value of fleet['port'] is 'Bonn'.)" in none.text
    assert "write fleet.loc[fleet['depth'] > 3, 'depth'] = 3" in part.text
    assert "no value" not in right.text
    assert (changed.value, "no value" in changed.text) == ("Bonn", False)
