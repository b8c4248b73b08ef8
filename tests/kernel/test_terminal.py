"""In a terminal, without Jupyter: a person sees the question though output is captured, and types the answer."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")

SCRIPT = """
import os, sys, time
from archytas_nb.kernel.person import ask_user
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.toolbox import Toolbox

def pay(amount: int) -> str:
    '''Pay.

    Args:
        amount: How much
    '''
    print("printed by the tool")
    os.system("echo written by the tool")
    return f"paid {amount}"

def confirm() -> str:
    '''Ask in the middle of a tool.'''
    print("captured before")
    said = ask_user("Sure?")
    print("captured after")
    return said

box = Toolbox(ask_user, confirm)
box.add(pay, approve=True)
executor = KernelExecutor(box, {}, on_output=lambda text: print(f"LIVE {text!r}", flush=True))
def run(name, given=None):
    [outcome] = executor.run([ToolCall("c", name, given)])
    print("OUTCOME", outcome.status, repr(outcome.text), flush=True)
"""


class Terminal:
    """A script in a terminal of its own."""

    def __init__(self, folder: Path, code: str) -> None:
        script = folder / "script.py"
        script.write_text(SCRIPT + textwrap.dedent(code), encoding="utf-8")
        self.end, child = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(child)
        self.seen = ""

    def until(self, pattern: str) -> str:
        """Read until this was seen, and return all up to it; what follows is left for the next call."""
        deadline = time.monotonic() + 40
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.end], [], [], 0.2)
            try:
                self.seen += os.read(self.end, 4096).decode() if ready else ""
            except OSError:  # the script has ended
                found = re.search(pattern, self.seen)
                break
            assert time.monotonic() < deadline, self.seen
        assert found, self.seen
        seen, self.seen = self.seen[: found.end()].replace("\r\n", "\n"), self.seen[found.end() :]
        return seen

    def type(self, text: str) -> None:
        os.write(self.end, f"{text}\n".encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)


def test_a_call_is_approved_and_its_output_is_captured(
    tmp_path: Path,
) -> None:
    terminal = Terminal(tmp_path, "run('pay', 5)")
    try:
        assert "The agent wants to run pay:\n  amount = 5\nrun? [y] run" in terminal.until(
            "instead: "
        )
        terminal.type("y")
        seen = terminal.until("OUTCOME .*\n")
        assert (
            "OUTCOME done 'printed by the tool\\nwritten by the tool\\n\\nReturned: paid 5'" in seen
        )
        assert "LIVE 'printed by the tool'" in seen
        assert "\nprinted by the tool" not in seen
        assert "LIVE 'LIVE" not in seen
    finally:
        terminal.close()


def test_a_tool_asks_while_it_runs_and_capturing_goes_on(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "run('confirm')")
    try:
        assert "The agent asks: Sure?\n> " in terminal.until(r"> $")
        terminal.type("quite")
        seen = terminal.until("OUTCOME .*\n")
        assert "OUTCOME done 'captured before\\ncaptured after\\n\\nReturned: quite'" in seen
    finally:
        terminal.close()


@pytest.mark.parametrize(
    ("calls", "decided"),
    [
        ("run('pay', 5)", r"instead: "),
        ("run('ask_user', {'question': 'Sure?', 'default': 'yes'})", r"or answer: "),
        (
            "from archytas_nb.kernel.person import confirm; print('OUTCOME', confirm('Sure?'))",
            r"y/n\] ",
        ),
    ],
)
def test_what_is_typed_before_a_question_is_shown_is_no_answer(
    calls: str, decided: str, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path, f"print('READY', flush=True); time.sleep(1); {calls}")
    try:
        terminal.until("READY")
        terminal.type("y\ny\n\nyes\n")
        terminal.until(f"{decided}$")
        terminal.type("n")
        assert re.search("refused|'n'|False", terminal.until("OUTCOME .*\n"))
    finally:
        terminal.close()


def test_a_line_that_is_typed_twice_does_not_answer_the_next_question(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "run('pay', 5)\nrun('pay', 6)")
    try:
        terminal.until(r"instead: $")
        terminal.type("y\ny")
        terminal.until("OUTCOME done '.*paid 5.*\n")
        terminal.until(r"instead: $")
        terminal.type("n")
        assert "refused" in terminal.until("OUTCOME .*\n")
    finally:
        terminal.close()


def test_a_patched_input_answers_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "import builtins; builtins.input = lambda *_: 'y'\nrun('pay', 5)")
    try:
        terminal.until(r"instead: $")
        terminal.type("n")
        assert "refused" in terminal.until("OUTCOME .*\n")
    finally:
        terminal.close()


def test_ctrl_c_at_the_prompt_runs_nothing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "run('pay', 5)")
    try:
        terminal.until(r"instead: $")
        stop = threading.Event()

        def press() -> (
            None
        ):  # Python's readline misses a signal that comes just before it waits for a key
            while not stop.wait(1):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(terminal.process.pid, signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        try:
            assert "OUTCOME interrupted 'Not run: the user interrupted here.'" in terminal.until(
                "OUTCOME .*\n"
            )
        finally:
            stop.set()
            presser.join()
    finally:
        terminal.close()


def test_the_end_of_input_runs_nothing_and_the_next_question_is_asked(
    tmp_path: Path,
) -> None:
    terminal = Terminal(tmp_path, "run('pay', 6)\nrun('ask_user', {'question': 'Which?'})")
    try:
        terminal.until(r"instead: $")
        os.write(terminal.end, b"\x04")
        assert "nobody answered" in terminal.until("OUTCOME .*\n")
        terminal.until(r"> $")
        terminal.type("red")
        assert "OUTCOME done 'red'" in terminal.until("OUTCOME .*\n")
    finally:
        terminal.close()


def test_without_a_terminal_nobody_is_asked() -> None:
    code = SCRIPT + "run('pay', 5)\nrun('ask_user', {'question': 'Which?'})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], input="y\ny\n", env=environment,
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.count("OUTCOME refused") == 2
