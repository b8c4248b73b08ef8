"""Questions in the background: cells and calls in any order, and no update is lost that was not told."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient

from archytas_nb import Agent
from archytas_nb.background import BackgroundInbox, BackgroundRun, CellChanges, known_to
from archytas_nb.driver import ask, notebook_executor
from archytas_nb.errors import ModelError
from archytas_nb.kernel.main_thread import MainThread
from archytas_nb.loop import events as ev
from archytas_nb.loop.stop import Stop
from archytas_nb.prepare import read_question
from archytas_nb.run import Run
from tests.live_kernel import Kernel, live_kernel

TOOLS = '''
running = []

def read() -> int:
    """Read x."""
    assert not running
    return x

def write(value: int) -> str:
    """Write x.

    Args:
        value: The value
    """
    global x, writes
    assert not running
    x = value
    writes += 1
    return "written"
'''


class Counter:
    """A model that reads x and writes it back with 100 more, unless it was told of a change.

    Each reply waits until it is let go.
    """

    name = "counter"
    protocol = "react"
    is_scripted = True

    def __init__(self, writes: int, fails_at: int = -1) -> None:
        self.places = threading.Semaphore(0)
        self.asked: list[str] = []
        self._writes = writes
        self._fails_at = fails_at

    def complete(self, request: ev.AskModel) -> Iterator[ev.Delta]:
        last = str(request.messages[-1]["content"])
        self.asked.append(last)
        stop = Stop.current.get()
        while not self.places.acquire(timeout=0.005):
            if stop is not None and stop.event.is_set():
                raise KeyboardInterrupt
        if len(self.asked) == self._fails_at:
            raise ModelError("the endpoint is gone")
        yield ev.Delta("text", "…")
        return ev.ModelReply(json.dumps(self._action(last)))

    def _action(self, last: str) -> dict[str, Any]:
        self._writes -= "written" in last
        must_look = "Not run" in last or "changed x" in last or "written" in last
        if not self._writes:
            return {"thought": "", "tool": "final_answer", "tool_input": "Done."}
        found = [int(word) for word in last.replace("\n", " ").split() if word.isdecimal()]
        if len(self.asked) == 1 or must_look or not found:
            return {
                "thought": "",
                "tool": "read",
                "tool_input": {},
            }
        return {"thought": "", "tool": "write", "tool_input": {"value": found[-1] + 100}}


class Notebook:
    """A notebook in which cells and a run in the background share `x`."""

    def __init__(self, model: Any, *, repeat: bool = True) -> None:
        self.names: dict[str, Any] = {"x": 0, "writes": 0, "y": 0}
        exec(TOOLS, self.names)
        tools = [self.names["read"], self.names["write"]]
        from archytas_nb import Tool

        tools = [Tool.from_function(each, repeat=repeat) for each in tools]
        agent = Agent(
            tools,
            model,
            namespace=self.names,
            context="none",
            python="off",
            max_steps=200,
        )
        setup = agent._setup.now()
        question = read_question(self.names, "Add to x!", names_variables=False)
        self.run: Run[Any] = Run("Add to x!")
        stopped = Stop()

        def known() -> set[str]:
            return known_to(self.run, ())

        self.inbox = BackgroundInbox(known)
        self.changes = CellChanges(self.names, known, self.inbox.note)
        self.main = MainThread(lambda: self.changes.is_running)
        self.ended = 0
        events = ask(
            setup, self.run, question, None, self.inbox, [],
            lambda prepared, run, show: notebook_executor(prepared, run, show, inbox=self.inbox),
        )  # fmt: skip
        self.background = BackgroundRun(
            self.run, events, self.main, stopped, self.changes, self._end
        )
        self.inbox.on_stop = self.background.stop

    def _end(self) -> None:
        self.ended += 1

    def cell(self, code: str) -> None:
        self.changes.begun(SimpleNamespace(raw_cell=code))
        self.names["running"].append(code)
        try:
            exec(code, self.names)
        finally:
            self.names["running"].pop()
            self.changes.ended()

    def callback(self, code: str) -> None:
        """What a widget, a timer or a thread runs, of which no cell tells."""
        exec(code, self.names)

    async def async_cell(self, code: str) -> None:
        """A cell that waits in its middle."""
        self.changes.begun(SimpleNamespace(raw_cell=code))
        self.names["running"].append(code)
        await asyncio.sleep(0.002)
        exec(code, self.names)
        self.names["running"].pop()
        self.changes.ended()

    async def step(self, model: Counter) -> None:
        asked = len(model.asked)
        model.places.release()
        while len(model.asked) == asked and not self.background.is_over:
            await asyncio.sleep(0.001)

    async def over(self) -> None:
        while not self.background.is_over:
            await asyncio.sleep(0.001)


def told(run: Run[Any]) -> list[str]:
    kinds = ("told", "late")
    found = [each.text for each in run.events if isinstance(each, ev.Notice) and each.kind in kinds]
    outcomes = [o.text for e in run.events if isinstance(e, ev.CallOutcomes) for o in e.outcomes]
    return [each for each in (*found, *outcomes) if "changed x" in each]


actions = st.lists(
    st.sampled_from(["cell", "cell", "async cell", "callback", "other", "reply", "step", "step"]),
    max_size=14,
)


@settings(max_examples=50, deadline=None)
@given(actions, st.integers(1, 3), st.sampled_from(["", "", "", "stop", "fail"]), st.integers(0, 9))
def test_no_update_is_lost_in_any_order_of_cells_and_calls(  # noqa: C901 - a case per action
    schedule: list[str], writes: int, accident: str, when: int
) -> None:
    async def play() -> tuple[Notebook, int]:
        model = Counter(writes, fails_at=when if accident == "fail" else -1)
        notebook = Notebook(model)
        notebook.background.start()
        cells = 0
        for place, each in enumerate(schedule):
            if accident == "stop" and place == when:
                notebook.inbox.stop()
            match each:
                case "cell" | "callback":
                    run = notebook.cell if each == "cell" else notebook.callback
                    run("x += 1")
                    cells += 1
                case "async cell":
                    await notebook.async_cell("x = x + 1")
                    cells += 1
                case "other":
                    notebook.cell("y += 1")
                case "reply":
                    model.places.release()
                case "step":  # a reply, and all that the run does until it waits for the next one
                    await notebook.step(model)
            await asyncio.sleep(0)
        if accident == "stop":
            notebook.inbox.stop()
        for _ in range(200):
            model.places.release()
        await asyncio.wait_for(notebook.over(), 60)
        return notebook, cells

    notebook, cells = asyncio.run(play())
    names = notebook.names
    assert names["x"] == cells + 100 * names["writes"]
    assert notebook.ended == 1
    assert not any("AssertionError" in each for each in map(str, notebook.run.events))
    assert not any("y" in each.split("changed ")[1].split()[0] for each in told(notebook.run))
    if accident == "stop":
        assert notebook.run.status in ("interrupted", "answered")
    elif accident == "fail" and when <= len(notebook.run.steps) and when > 0:
        assert notebook.run.status == "failed"
    else:
        assert notebook.run.status == "answered"
        assert names["writes"] == writes


class Stubborn(Counter):
    """A model that makes the same call again and again, and answers with what it reads."""

    def _action(self, last: str) -> dict[str, Any]:
        if len(self.asked) < 4:
            return {"thought": "", "tool": "read", "tool_input": {}}
        return {"thought": "", "tool": "final_answer", "tool_input": last}


def test_an_equal_call_is_made_again_after_a_cell_has_changed_what_it_reads() -> None:
    async def play() -> Notebook:
        model = Stubborn(0)
        notebook = Notebook(model, repeat=False)
        notebook.background.start()
        await notebook.step(model)
        notebook.cell("x = 41")
        await notebook.step(model)  # this call was written before: it is not run
        await notebook.step(model)
        await notebook.step(model)
        return notebook

    run = asyncio.run(play()).run
    read = [outcome.value for _, outcome in run.calls if outcome.status == "done"]
    assert read == [0, 41]
    assert "41" in run.answer


def test_a_change_after_the_last_request_is_told_to_the_person() -> None:
    class Last(Counter):
        def _action(self, last: str) -> dict[str, Any]:
            if len(self.asked) == 1:
                return {"thought": "", "tool": "read", "tool_input": {}}
            return {"thought": "", "tool": "final_answer", "tool_input": "It is 0."}

    async def play() -> Notebook:
        model = Last(0)
        notebook = Notebook(model)
        notebook.background.start()
        model.places.release()
        while len(model.asked) < 2:
            await asyncio.sleep(0.001)
        notebook.cell("x = 5")
        model.places.release()
        await notebook.over()
        return notebook

    notebook = asyncio.run(play())
    assert notebook.run.answer == "It is 0."
    [late] = [each for each in notebook.run.events if isinstance(each, ev.Notice)]
    assert late.kind == "late"
    assert "x" in late.text


def test_a_call_that_names_a_variable_which_a_cell_has_bound_is_not_run() -> None:
    inbox = BackgroundInbox(lambda: {"known"})
    inbox.note({"other", "known", "third"})
    assert inbox.stale([ev.ToolCall("1", "python", {"code": "print(1)"})]).count("known") == 1
    assert inbox.stale([ev.ToolCall("1", "python", {"code": "print(1)"})]) == ""
    assert "other" in inbox.stale([ev.ToolCall("1", "python", {"code": "other = 2"})])
    assert inbox.stale([ev.ToolCall("1", "python", {"code": "other = 2"})]) == ""


def test_what_a_cell_changes_after_it_has_run_another_one_is_noted() -> None:
    names: dict[str, Any] = {"x": [1], "y": [1], "z": [1]}
    noted: list[str] = []
    changes = CellChanges(names, lambda: ["x"], noted.extend)
    changes.ended()  # that of the cell that has asked
    changes.begun(SimpleNamespace(raw_cell="y, %run other.ipynb"))
    names["y"].append(2)
    changes.begun(SimpleNamespace(raw_cell="z"))
    names["z"].append(2)
    changes.ended()
    names["x"].append(2)
    changes.ended()
    assert noted == ["y", "z", "x"]
    assert not changes.is_running
    names["x"].append(3)  # by the run
    changes.look()
    changes.begun(SimpleNamespace(raw_cell="1"))
    changes.ended()
    assert noted == ["y", "z", "x"]


def test_a_cell_that_waits_runs_the_calls_itself() -> None:
    async def play() -> Notebook:
        model = Counter(2)
        notebook = Notebook(model)
        notebook.background.start()
        for _ in range(50):
            model.places.release()
        notebook.background.wait()  # as a cell, which keeps the loop
        return notebook

    notebook = asyncio.run(play())
    assert notebook.run.status == "answered"
    assert notebook.names["x"] == 200


# ── a real kernel ─────────────────────────────────────────────────────────────────────────────────

SETUP = """
%load_ext archytas_nb
import threading
from archytas_nb.testing import ScriptedModel
go = threading.Event()
class Held(ScriptedModel):
    def complete(self, ask):
        go.wait(30)
        return (yield from super().complete(ask))
x = 1
"""
TOOL = '''%%tool
def bump(by: int) -> int:
    """Add to x.

    Args:
        by: The number
    """
    global x
    x += by
    print("bumped")
    return x
'''


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(Path(tmp_path_factory.mktemp("kernel")), ARCHYTAS_NB_CONTEXT="none") as kernel:
        for each in (SETUP, TOOL):
            assert kernel.run(each).status == "ok"
        yield kernel


def begin(kernel: Kernel, line: str, *replies: str) -> Any:
    kernel.run("go.clear()")
    kernel.run(f"script = Held({', '.join(replies)})")
    return kernel.run(f"%agent --model script {line}", person=True, cell_id="asks")


def test_the_cell_returns_at_once_and_other_cells_run_meanwhile(kernel: Kernel) -> None:
    asked = begin(
        kernel, "--background --out n Add two!", '("bump", {"by": 2})', '("final_answer", "Three.")'
    )
    assert asked.status == "ok"
    assert kernel.run("print(x)").printed == "1\n"  # the model is still waited for
    assert "running" in kernel.run("%agent_runs").result
    assert "being answered" in kernel.run("%agent --new").printed
    refused = kernel.run("%agent --model script And now?", person=True, cell_id="other")
    assert "--wait" in refused.printed
    kernel.run("go.set()")
    waited = kernel.run("%agent_runs --wait", wait=60)
    assert "answered" in waited.result
    assert kernel.run("print(x, n)").printed.endswith("3 Three.\n")
    history = kernel.run("%agent_history")
    assert "Three." in history.result + str(history.displayed)
    kernel.run("x = 1")


def test_a_quiet_notebook_gets_its_cell_back_too(kernel: Kernel) -> None:
    asked = begin(kernel, "--quiet --background Add two!", '("final_answer", "Quiet.")')
    assert asked.status == "ok"
    assert asked.displayed
    assert "running" in kernel.run("%agent_runs").result
    kernel.run("go.set()")
    assert "Quiet." in kernel.run("%agent_runs --wait", wait=60).result


def test_a_run_ends_without_a_cell_and_the_next_cell_says_so(kernel: Kernel) -> None:
    begin(kernel, "--background Add two!", '("bump", {"by": 2})', '("final_answer", "Four.")')
    kernel.run("go.set()")
    for _ in range(200):
        cell = kernel.run("print('…')")
        if "Four." in cell.printed:
            break
    else:
        raise AssertionError("no sign that the run has ended")
    assert kernel.run("print(x)").printed == "3\n"
    kernel.run("x = 1")


def test_a_run_is_stopped_while_it_waits(kernel: Kernel) -> None:
    begin(kernel, "--background Wait!", '("final_answer", "x")')
    kernel.run("import threading; threading.Timer(0.2, go.set).start()")
    stopped = kernel.run("%agent_runs --stop", wait=60)
    assert stopped.status == "ok"
    assert "running" not in stopped.result


def test_a_cell_whose_wait_is_interrupted_ends_and_the_run_does_not(kernel: Kernel) -> None:
    begin(kernel, "--background Wait!", '("final_answer", "Still here.")')
    waited = kernel.run("%agent_runs --wait", interrupt_after=1)
    assert waited.status == "error"
    assert "the question continues" in waited.printed
    assert ".py" not in waited.error  # no frame of the package
    kernel.run("go.set()")
    assert "Still here." in kernel.run("%agent_runs --wait", wait=60).result


def test_where_there_are_no_buttons_nobody_is_asked_and_nothing_waits(kernel: Kernel) -> None:
    kernel.run(TOOL.replace("%%tool", "%%tool --approve").replace("bump", "drop"))
    begin(kernel, "--background Drop!", '("drop", {"by": 9})', '("final_answer", "Not dropped.")')
    kernel.run("go.set()")
    waited = kernel.run("%agent_runs --wait", wait=60)
    assert "Not dropped." in waited.result
    assert kernel.run("print(x)").printed.splitlines()[-1] == "1"


def test_an_error_of_the_model_ends_the_run_and_frees_the_conversation(kernel: Kernel) -> None:
    begin(kernel, "--background Fail!", "RuntimeError('no model')")
    kernel.run("go.set()")
    assert "running" not in kernel.run("%agent_runs --wait", wait=60).result
    begin(kernel, "--background Again!", '("final_answer", "Here.")')
    kernel.run("go.set()")
    assert "Here." in kernel.run("%agent_runs --wait", wait=60).result
    # After several questions in the background.
    assert kernel.run("%unload_ext archytas_nb").status == "ok"
    assert kernel.run("%load_ext archytas_nb").status == "ok"


@pytest.mark.parametrize("cell", ["n = 'mine'", "n.append(2)", "m.append(2)", "del n"])
def test_a_variable_that_a_cell_changes_meanwhile_is_kept_and_that_is_told(
    kernel: Kernel, cell: str
) -> None:
    kernel.run("n = m = [1]")
    begin(kernel, "--background --out n Count!", '("final_answer", "Five.")')
    kernel.run(cell)
    kernel.run("go.set()")
    waited = kernel.run("%agent_runs --wait", wait=60)
    assert "n was kept" in waited.result
    # All three are where the answer can be seen: the line of the next cell, the list, the trace.
    assert "n was kept" in waited.printed
    assert "n was kept" in trace_of(kernel)
    assert "Five." not in kernel.run("print(globals().get('n'))").printed
    place = re.search(r"Out\[\d+\]\.output", waited.result)
    assert place is not None
    assert kernel.run(f"print({place[0]})").printed == "Five.\n"


def trace_of(kernel: Kernel) -> str:
    """The last trace as text, as its updates have left it."""
    return kernel.run(
        "from archytas_nb.trace.text import plain; from archytas_nb.trace.html import html\n"
        "import gc; from archytas_nb.trace.live import TraceView\n"
        "views = [each.view for each in gc.get_objects() if isinstance(each, TraceView)]\n"
        "print(*[html(each) for each in views if each.question == 'Count!'])"
    ).printed


def test_the_rest_of_the_cell_that_asks_is_a_cell_like_others(kernel: Kernel) -> None:
    kernel.run("x = 1; go.clear(); script = Held(('bump', {'by': 2}), ('final_answer', 'ok'))")
    ask = "%agent --model script --background --context all --python off What is x?"
    kernel.run(f"{ask}\nx = 50", person=True, cell_id="rest")
    kernel.run("go.set()")
    assert "answered" in kernel.run("%agent_runs --wait", wait=60).result
    assert kernel.run("print(x)").printed == "50\n"
    told = kernel.run("print(script.asked[-1].messages[-1]['content'])").printed
    assert "changed x" in told
    kernel.run("x = 1")


def test_no_call_runs_while_the_cell_that_asks_waits_in_its_middle(kernel: Kernel) -> None:
    kernel.run("x = 1; go.set(); script = Held(('bump', {'by': 2}), ('final_answer', 'ok'))")
    ask = "%agent --model script --background Add two!"
    waits = "import asyncio\nbefore = x\nawait asyncio.sleep(0.5)\nprint(before, x)"
    assert kernel.run(f"{ask}\n{waits}", person=True, cell_id="waits").printed == "1 1\n"
    kernel.run("%agent_runs --wait", wait=60)
    assert kernel.run("print(x)").printed == "3\n"
    kernel.run("x = 1")


def test_a_cell_that_waits_has_changed_only_what_it_changed_before(kernel: Kernel) -> None:
    kernel.run("n = 0")
    replies = ['("bump", {"by": 2})', '("bump", {"by": 3})', '("final_answer", "Six.")']
    begin(kernel, "--background --out n To x, twice!", *replies)
    waited = kernel.run("n = 'mine'\ngo.set()\n%agent_runs --wait", wait=60)
    assert "n was kept" in waited.result
    assert kernel.run("print(x, n)").printed == "6 mine\n"
    assert "changed x" not in kernel.run("print(script.asked[-1].messages)").printed
    kernel.run("x = 1")


def cells_added(cell: Any) -> list[str]:
    payloads = cell.reply.get("payload", [])
    return [each["text"] for each in payloads if each["source"] == "set_next_input"]


def test_the_code_of_an_answer_is_added_by_the_next_cell_that_adds_none_itself(
    kernel: Kernel,
) -> None:
    answer = "Here:\\n```python\\nprint(1)\\n```"
    begin(kernel, "--background --cell Write!", f'("final_answer", "{answer}")')
    kernel.run("go.set()")
    adds = "get_ipython().set_next_input('own', replace=False)"
    waited = kernel.run(f"{adds}\n%agent_runs --wait", wait=60)
    assert cells_added(waited) == ["own"]
    assert cells_added(kernel.run("1")) == ["print(1)"]
    assert cells_added(kernel.run("1")) == []
    begin(kernel, "--background --cell Write!", *['("final_answer", "None.")'] * 2)
    kernel.run("go.set()")
    waited = kernel.run("%agent_runs --wait", wait=60)
    assert cells_added(waited) == []
    assert "no cell was added" in waited.result


def test_a_run_that_failed_leaves_its_variable_and_says_so(kernel: Kernel) -> None:
    kernel.run("n = 'mine'")
    begin(kernel, "--background --out n Fail!", "RuntimeError('no model')")
    kernel.run("go.set()")
    waited = kernel.run("%agent_runs --wait", wait=60)
    assert "n was not changed" in waited.result
    assert "✗" in waited.printed
    assert kernel.run("print(n)").printed == "mine\n"


def test_a_restart_of_the_kernel_ends_the_run(kernel: Kernel) -> None:
    begin(kernel, "--background Wait!", '("bump", {"by": 2})', '("final_answer", "x")')
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    assert kernel.run(SETUP).status == "ok"
    assert kernel.run("print(x)").printed == "1\n"
    assert "no question" in kernel.run("%agent_runs").result


def test_nbclient_waits_in_the_cell(tmp_path: Path) -> None:
    cells = [
        "%load_ext archytas_nb",
        "import archytas_nb.testing as t; script = t.ScriptedModel(('final_answer', 'Six.'))",
        "%agent --background --model script --out n What is 2 times 3?",
        "print(n)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert notebook.cells[3].outputs[0]["text"] == "Six.\n"
