"""In a real kernel: whatever a call does, the kernel, its streams and its variables are there in the next cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_kernel import Kernel, live_kernel

SETUP = '''
import asyncio, builtins, io, os, sys, threading, time
from pathlib import Path
import archytas_nb as nb
from archytas_nb.testing import ScriptedModel
keep = 42
here = os.getcwd()

@nb.tool
def act(code: str) -> str:
    """Do something.

    Args:
        code: What.
    """
    exec(code, globals())

def ask(tool, code):
    """Have a tool run code; print what the model read of it."""
    model = ScriptedModel((tool, {"code": code}), ("final_answer", "Done."))
    nb.Agent([act], python="unwatched", model=model).run("Go")
    print("READ", model.asked[-1].messages[-1]["content"])
'''

IN_THREAD = """
errors = []
def work():
    try:
        {}
    except BaseException as error:
        errors.append(error)
thread = threading.Thread(target=work)
thread.start()
thread.join()
raise errors[0]
"""

ENDS = {
    "exit": "exit()",
    "quit": "quit()",
    "exit and more": "exit()\nlater = 1",
    "ask_exit": "get_ipython().ask_exit()",
    "sys.exit": "sys.exit()",
    "SystemExit": "raise SystemExit",
    "the exit of Python": "__import__('_sitebuiltins').Quitter('exit', '')()",
    "exit_now": "get_ipython().exit_now = True",
    "do_shutdown": "get_ipython().kernel.do_shutdown(False)",
    "%reset": "get_ipython().run_line_magic('reset', '-f')",
    "reset": "get_ipython().reset()",
    "keeping the kernel": "exit(keep_kernel=True)",
    "stdout": "sys.stdout.close()",
    "stderr": "sys.stderr.close()",
    "in a thread": IN_THREAD.format("exit()"),
    "exit_now in a thread": IN_THREAD.format("get_ipython().exit_now = True"),
    "the loop": "get_ipython().kernel.io_loop.stop()",
    "stdout in a thread": IN_THREAD.format("sys.stdout.close()"),
}
"""What is an error for the model."""

REPLACES = {
    "all variables": "globals().clear()",
    "stdout": "sys.stdout = io.StringIO()",
    "stderr": "sys.stderr = None",
    "stdin": "sys.stdin = io.StringIO('y')",
    "the folder": "os.chdir('/')",
    "a setting": "os.environ['ARCHYTAS_NB_APPROVE'] = 'auto'",
    "input": "builtins.input = lambda *_: 'y'",
    "an error that is caught": "try:\n    exit()\nexcept BaseException:\n    pass",
}
"""What is put back after the call."""

LATER = {
    "a timer": "threading.Timer(0.1, get_ipython().ask_exit).start()",
    "a timer of exit_now": "threading.Timer(0.1, lambda: setattr(get_ipython(), 'exit_now', True)).start()",
    "a callback": "get_ipython().events.register('post_run_cell', lambda _: get_ipython().ask_exit())",
    "a callback of the loop": "asyncio.get_event_loop().call_later(0.1, sys.exit)",
    "a callback that stops the loop": "x = get_ipython().kernel.io_loop\nx.call_later(0.1, x.stop)",
    "a task": "async def end(): raise SystemExit\nasyncio.get_event_loop().create_task(end())",
    "a function": "def end(): get_ipython().ask_exit()",
}
"""What ends the kernel when the call has ended; the person calls a function that code has left."""

AFTER = "print('after', keep, os.getcwd() == here, 'lambda' in repr(input), sys.stdout.closed)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(tmp_path_factory.mktemp("kept")) as kernel:
        yield kernel


def printed(kernel: Kernel, code: str) -> str:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.printed


@pytest.mark.parametrize("tool", ["python", "act"])
def test_what_ends_something_is_an_error(kernel: Kernel, tool: str) -> None:
    kernel.run(SETUP)
    for what, code in ENDS.items():
        assert "READ" in (read := printed(kernel, f"ask({tool!r}, {code!r})")), what
        assert "Error: a run cannot" in read or "SystemExit" in read, what
        assert "after 42 True False False" in printed(kernel, AFTER), what


@pytest.mark.parametrize("tool", ["python", "act"])
def test_what_is_replaced_is_put_back_and_both_are_told(kernel: Kernel, tool: str) -> None:
    kernel.run(SETUP)
    for what, code in REPLACES.items():
        # A function of the person may.
        is_tools_own = tool == "act" and what in ("the folder", "input", "a setting")
        read = printed(kernel, f"ask({tool!r}, {code!r})")
        assert "READ" in read, what
        assert ("after the call" in read) != (is_tools_own or what == "an error that is caught"), (
            what
        )
        if is_tools_own:
            printed(
                kernel,
                "os.chdir(here)\nbuiltins.input = len\nos.environ.pop('ARCHYTAS_NB_APPROVE', '')",
            )
        assert "after 42 True False False" in printed(kernel, AFTER), what


def test_built_in_functions_are_put_back_whichever_code_replaces(kernel: Kernel) -> None:
    kernel.run(SETUP)
    read = printed(kernel, "ask('python', 'builtins.vars = builtins.map = builtins.all = None')")
    for name in ("vars", "map", "all"):
        assert f"The built-in {name} was put back after the call" in read
    assert "[0, 1] True" in printed(kernel, "print(list(map(int, '01')), all([]))")


def test_what_a_call_has_left_ends_nothing_later(kernel: Kernel) -> None:
    kernel.run(SETUP)
    for what, code in LATER.items():
        assert "READ" in printed(kernel, f"ask('python', {code!r})"), what
    kernel.run("end()")
    kernel.run("await asyncio.sleep(0.3)\ntime.sleep(0.3)")
    assert "after 42 True False False" in printed(kernel, AFTER)


def test_the_person_can_end_the_kernel_after_that(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        kernel.run(SETUP)
        printed(kernel, "ask('python', 'exit()')")
        assert "after 42" in printed(kernel, AFTER)
        kernel.run("%reset -f")
        assert kernel.run("keep").status == "error"
        kernel.run("get_ipython().exit_now")
        assert kernel.run("exit()").reply["payload"][0]["source"] == "ask_exit"
