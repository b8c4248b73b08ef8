"""Two agents on the same variables: what a watched call changes is told apart from what others change."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from archytas_nb import tool
from archytas_nb.agent import Agent
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.undo import turns

Names = dict[str, Any]


def agent(names: Names, *codes: str, tools: Any = (), **options: Any) -> Agent:
    script = [("python", {"code": code}) for code in codes]
    return Agent(tools, ScriptedModel(*script, ("final_answer", "ok")), namespace=names, **options)


def at_the_same_time(*work: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * len(work)

    def run(number: int) -> None:
        results[number] = work[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(work))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
        assert not each.is_alive()
    assert not turns._uses
    return results


@pytest.mark.parametrize("other", ["undoable", "unwatched"])
def test_the_undo_of_one_agent_leaves_what_another_changes_meanwhile(other: Any) -> None:
    names: Names = {"a": [1], "b": [1], "began": threading.Event(), "time": time}
    slow = agent(names, "began.set(); time.sleep(0.3); a.append(2)", python="undoable")
    second = agent(names, "b.append(2); c = 1", python=other)

    def later() -> Run:
        assert names["began"].wait(30)
        return second.run("go")

    run, _ = at_the_same_time(lambda: slow.run("go"), later)
    assert [each.name for each in run.diff.changes] == ["a"]
    assert run.undo() == ()
    assert (names["a"], names["b"], names["c"]) == ([1], [1, 2], 1)


def test_many_agents_on_one_namespace_report_and_undo_what_is_theirs() -> None:
    names: Names = {f"x{i}": [0] for i in range(4)}
    agents = [
        agent(names, *[f"x{i}.append({n})" for n in range(8)], python="undoable") for i in range(4)
    ]
    runs = at_the_same_time(*[lambda each=each: each.run("go") for each in agents])
    for number, run in enumerate(runs):
        assert {each.name for each in run.diff.changes} == {f"x{number}"}
    for number, run in enumerate(runs):
        assert names[f"x{number}"] == [0, *range(8)]
        run.undo()
        assert names[f"x{number}"] == [0]


def test_calls_that_are_not_watched_run_side_by_side() -> None:
    names: Names = {"barrier": threading.Barrier(2)}
    agents = [agent(names, "barrier.wait(30)", python="unwatched") for _ in range(2)]
    for run in at_the_same_time(*[lambda each=each: each.run("go") for each in agents]):
        assert run.calls[0][1].status == "done", run.calls[0][1].text


def test_agents_on_other_variables_do_not_wait() -> None:
    barrier = threading.Barrier(2)
    agents = [agent({"barrier": barrier}, "barrier.wait(30)", python="undoable") for _ in range(2)]
    for run in at_the_same_time(*[lambda each=each: each.run("go") for each in agents]):
        assert run.calls[0][1].status == "done", run.calls[0][1].text


@pytest.mark.parametrize(
    "modes", [("undoable", "undoable"), ("undoable", "unwatched"), ("unwatched", "undoable")]
)
def test_a_call_that_waits_too_long_is_refused_with_the_reason(
    modes: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SECONDS", 0.2)
    names: Names = {"began": threading.Event(), "go_on": threading.Event(), "a": [1]}
    slow = agent(names, "began.set(); go_on.wait(60); a.append(2)", python=modes[0])
    second = agent(names, "b = 1", python=modes[1])

    def later() -> Run:
        assert names["began"].wait(30)
        try:
            return second.run("go")
        finally:
            names["go_on"].set()

    run, refused = at_the_same_time(lambda: slow.run("go"), later)
    assert run.calls[0][1].status == "done"
    assert refused.calls[0][1].status == "refused"
    assert "another agent is running a call on the same variables" in refused.calls[0][1].text
    assert "b" not in names


def test_an_undo_during_a_call_of_another_agent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SECONDS", 0.2)
    names: Names = {"began": threading.Event(), "go_on": threading.Event(), "a": [1]}
    first = agent(names, "a.append(2)", python="undoable").run("go")
    slow = agent(names, "began.set(); go_on.wait(60); a.append(3)", python="undoable")

    def later() -> None:
        assert names["began"].wait(30)
        with pytest.raises(RuntimeError, match="undo it when that call has ended"):
            first.undo()
        names["go_on"].set()

    run, _ = at_the_same_time(lambda: slow.run("go"), later)
    assert names["a"] == [1, 2, 3]
    assert run.undo() == ()
    assert first.undo() == ()
    assert names["a"] == [1]


def test_a_tool_may_ask_another_agent_about_the_same_variables() -> None:
    names: Names = {"a": [1]}

    def ask() -> str:
        """Ask another agent."""
        return agent(names, "a.append(2)", python="undoable").run("go").calls[0][1].status

    async def ask_and_wait() -> str:
        """Ask another agent, and wait."""
        run = await agent(names, "a.append(3)", python="unwatched").arun("go")
        thread = asyncio.to_thread(agent(names, "a.append(4)", python="undoable").run, "go")
        return " ".join(each.calls[0][1].status for each in (run, await thread))

    model = ScriptedModel(("ask", {}), ("ask_and_wait", {}), ("final_answer", "ok"))
    outer = Agent([ask, ask_and_wait], model, namespace=names, undo=True).run("go")
    assert [outcome.value for _, outcome in outer.calls] == ["done", "done done"]
    assert names["a"] == [1, 2, 3, 4]
    outer.undo()
    assert names["a"] == [1]


def test_a_thread_of_a_call_that_asks_another_agent_is_refused_and_nothing_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "SECONDS", 0.2)
    names: Names = {"a": [1]}
    inner = agent(names, "a.append(2)", python="undoable")
    statuses: list[str] = []

    def ask() -> int:
        """Ask another agent in a thread."""
        work = threading.Thread(target=lambda: statuses.append(inner.run("go").calls[0][1].status))
        work.start()
        work.join(60)
        return 0

    model = ScriptedModel(("ask", {}), ("final_answer", "ok"))
    outer = Agent([ask], model, namespace=names, undo=True).run("go")
    assert outer.calls[0][1].status == "done"
    assert statuses == ["refused"]


@pytest.mark.parametrize("pure", [True, False])
def test_a_map_in_a_watched_call_uses_its_turn(pure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SECONDS", 0.2)
    names: Names = {"a": [1]}

    def add(number: int) -> int:
        """Add one.

        Args:
            number: The number
        """
        names["a"].append(number)
        return number + 1

    def many() -> int:
        """Ask about many rows."""
        model = ScriptedModel(*[("add", {"number": 5}), ("final_answer", "2")] * 3)
        rows = Agent([tool(add, pure=pure)], model, namespace=names)
        return len(rows.map(["x", "y", "z"], "Add.", workers=1, store=None, progress=False))

    model = ScriptedModel(("many", {}), ("final_answer", "ok"))
    outer = Agent([many], model, namespace=names, undo=True).run("go")
    assert outer.calls[0][1].value == 3, outer.calls[0][1].text
    assert names["a"] == [1, 5, 5, 5]
    outer.undo()
    assert names["a"] == [1]
