"""Programs in a real kernel that is interrupted, or whose tool does not return."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Cell, Kernel, live_kernel

pytestmark = pytest.mark.slow

SETUP = '''
import time
from pathlib import Path
import archytas_nb as nb
from archytas_nb.errors import RunInterrupted
from archytas_nb.testing import ScriptedModel

begun = []

def quick(number: int) -> int:
    """Give a number back.

    Args:
        number: Any number
    """
    begun.append(number)
    return number

def endless(number: int) -> int:
    """Wait.

    Args:
        number: Any number
    """
    begun.append(number)
    Path("begun").touch()
    while True:
        time.sleep(0.1)

def ask(program, tools=(quick, endless), **options):
    model = ScriptedModel(f"```python\\n{program}\\n```", "```python\\nanswer([a, len(begun)])\\n```",
        protocol="program")
    global agent
    agent = nb.Agent(list(tools), model=model, protocol="program", **options)
    return agent.run("Which?")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stops")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    with live_kernel(folder) as started:
        assert started.run(SETUP).status == "ok"
        assert started.run("ask('a = 1\\nanswer(a)').answer").result == "'1'"
        yield started


class VariableWatch:
    """Interrupts when something is so for a while, and notes when."""

    def __init__(self, is_so: Callable[[], bool], patience: float = 0.0) -> None:
        self.sent = 0.0
        self._is_so = is_so
        self._patience = patience
        self._since = 0.0

    def __call__(self, _: Cell) -> bool:
        if not self._is_so():
            return False
        self._since = self._since or time.monotonic()
        self.sent = time.monotonic()
        return self.sent - self._since >= self._patience


def is_free_after(kernel: Kernel, program: str, watch: VariableWatch) -> float:
    """Seconds from the interrupt of a program until the kernel has run the next cell."""
    stopped = kernel.run(f"begun.clear()\nask({program!r})", interrupt_when=watch)
    assert stopped.status == "error"
    assert "RunInterrupted" in stopped.error or "KeyboardInterrupt" in stopped.error
    assert kernel.run("6 * 7").result == "42"
    return time.monotonic() - watch.sent


COMPUTING = "a = quick(number=7)\nprint('now')\nwhile True:\n    pass\nanswer(a)"
IN_A_CALL = "a = quick(number=7)\nb = endless(number=8)\nanswer([a, b])"


def test_the_kernel_is_free_soon_after_an_interrupt_while_a_program_computes(
    kernel: Kernel,
) -> None:
    watch = VariableWatch(lambda: True, patience=1.5)
    seconds = is_free_after(kernel, COMPUTING, watch)
    print(f"free after {seconds:.2f} s")
    assert kernel.run("begun").result == "[7]"
    assert kernel.run("agent.run('And now?').answer").result == "'[7, 1]'"


def test_the_kernel_is_free_soon_after_an_interrupt_in_a_call(kernel: Kernel, folder: Path) -> None:
    seconds = is_free_after(kernel, IN_A_CALL, VariableWatch((folder / "begun").exists))
    print(f"free after {seconds:.2f} s")
    assert kernel.run("begun").result == "[7, 8]"
    assert kernel.run("agent.run('And now?').answer").result == "'[7, 2]'"


def test_a_tool_that_never_returns_ends_at_its_timeout_and_the_program_goes_on() -> None:
    @nb.tool(timeout=0.5)
    def endless(number: int) -> int:
        """Wait.

        Args:
            number: Any number
        """
        while number:
            time.sleep(0.01)
        return 0

    program = "try:\n    endless(number=1)\nexcept Exception as error:\n    answer(str(error))"
    model = ScriptedModel(f"```python\n{program}\n```")
    agent = nb.Agent([endless], model=model, protocol="program", namespace={})
    started = time.monotonic()
    run = agent.run("Which?")
    print(f"ended after {time.monotonic() - started:.2f} s: {run.answer}")
    assert "0.5" in run.answer
    assert [outcome.status for _, outcome in run.calls] == ["error"]
