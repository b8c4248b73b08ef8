"""Ctrl-C in a terminal stops what runs, prints one line, and keeps the conversation usable.

Tested in IPython and in plain Python, with a pseudo-terminal and a real server. Kernels have their own tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import pexpect
import pytest

from tests.servers.plays import Hang, Say
from tests.servers.server import Server

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals on Windows", allow_module_level=True)

from tests.terminal import IPYTHON, PYTHON, Terminal, spawned, terminal, wait_until

TOOLS = '''
import asyncio, pathlib, time
from archytas_nb import tool

def _tick(n):
    with open("ticks", "a") as file:
        file.write(f"{n}\\n")

@tool
def work() -> str:
    """Work on and on."""
    for n in range(2000):
        _tick(n)
        time.sleep(0.02)
    return "worked"

@tool
async def wait() -> str:
    """Wait on and on."""
    try:
        for n in range(2000):
            _tick(n)
            await asyncio.sleep(0.02)
    finally:
        await asyncio.sleep(0.1)
        pathlib.Path("cleaned up").touch()
    return "waited"

@tool
def stubborn() -> str:
    """Swallow what stops it, as a subprocess does."""
    try:
        work()
    except KeyboardInterrupt:
        return "went on"

@tool(approve=True)
def drop() -> str:
    """Throw away."""
    _tick(0)
    return "dropped"
'''


@dataclass
class Place:
    """A terminal in which questions are asked, and the server that answers."""

    name: str
    terminal: Terminal
    folder: Path
    server: Server

    def ask(self, question: str, *plays: Any, **interrupt: Any) -> list[str]:
        self.server.plays[:] = plays
        line = f"%agent {question}" if self.name == "ipython" else f"print(agent.run({question!r}))"
        return self.terminal.run(line, **interrupt)

    def ticks(self) -> str:
        file = self.folder / "ticks"
        return file.read_text() if file.exists() else ""

    def at_work(self) -> bool:
        """Whether a tool has begun."""
        return len(self.ticks()) > 5

    def was_told(self, printed: list[str], during: str) -> None:
        """The person reads one line, in plain Python below the frames that led to it."""
        *steps, said = printed
        line = f"RunInterrupted: stopped during {during}. The conversation is intact: ask again."
        assert said.removeprefix("archytas_nb.errors.") == line
        if self.name == "ipython":
            assert len(steps) == ("tool" in during), steps
        else:
            assert printed[0] == "^CTraceback (most recent call last):"
            assert sum(each.startswith("File ") for each in steps) <= 3, steps

    def goes_on(self) -> list[dict[str, Any]]:
        """Nothing is running, and the next question is answered with a history that a strict server accepts."""
        before = self.ticks()
        assert self.ask("And now?", Say("Here I am."))[0] == "Here I am."
        sleep(0.2)
        assert self.ticks() == before
        assert self.server.complaints == []
        messages: list[dict[str, Any]] = self.server.chats[-1].body["messages"]
        return messages


@pytest.fixture(scope="module", params=["ipython", "python"])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """One terminal for all tests in this file."""
    folder = Path(tmp_path_factory.mktemp("terminal"))
    (folder / "things.py").write_text(TOOLS)
    command = IPYTHON if request.param == "ipython" else PYTHON
    with Server() as server, terminal(folder, *command, OPENAI_BASE_URL=server.url) as at:
        if request.param == "ipython":
            assert at.run("%load_ext archytas_nb") == []
        at.run("import things, archytas_nb as nb; agent = nb.Agent()")
        yield Place(request.param, at, folder, server)


@pytest.fixture
def place(opened: Place) -> Place:
    """A terminal with a new conversation."""
    opened.terminal.run("%agent --new" if opened.name == "ipython" else "agent.reset()")
    for each in ("ticks", "cleaned up"):
        (opened.folder / each).unlink(missing_ok=True)
    opened.server.asked.clear()
    opened.server.then = Say("All is well.")
    return opened


@pytest.mark.parametrize("play", [Hang(), Say("Three, I think.", stall=True)])
def test_stops_a_hanging_request_and_closes_its_connection(place: Place, play: Any) -> None:
    printed = place.ask("Are you there?", play, interrupt_when=lambda: bool(place.server.chats))
    place.was_told(printed, "a request to the model")
    assert place.server.chats[-1].left.wait(5)
    messages = place.goes_on()
    [asked] = messages[1:]  # as if the other had not been asked
    assert asked["content"].startswith("And now?\n")


@pytest.mark.parametrize("tool", ["work", "wait", "stubborn"])
def test_stops_a_running_tool_and_does_not_run_the_next_call(place: Place, tool: str) -> None:
    printed = place.ask("Go!", Say(calls=((tool, {}), ("drop", {}))), interrupt_when=place.at_work)
    place.was_told(
        printed[:1] + printed[-1:] if place.name == "ipython" else printed, "a tool call"
    )
    assert (place.folder / "cleaned up").exists() is (tool == "wait")
    told = {
        each["tool_call_id"]: each["content"] for each in place.goes_on() if each["role"] == "tool"
    }
    assert [text.split()[0] for text in told.values()] == ["Interrupted", "Not"]
    assert place.ticks().count("\n") < 2000


def test_stops_a_question_to_the_person_and_does_not_run_its_call(place: Place) -> None:
    printed = place.ask("Drop it!", Say(calls=(("drop", {}),)), interrupt_at="run? [y] run")
    assert "RunInterrupted: stopped during a tool call." in printed[-1]
    assert place.ticks() == ""
    place.goes_on()


@pytest.mark.parametrize("opened", ["ipython"], indirect=True)
def test_shows_an_answer_once_and_no_empty_output(place: Place) -> None:
    at = place.terminal
    for line in ("%agent How are you?", "%agent How are you?;"):
        assert at.run(line) == ["All is well."]
    assert at.run("%agent --quiet How are you?") == [f"Out[{at.number - 1}]: All is well."]
    assert at.run("run = %agent How are you?") == ["All is well."]
    assert at.run("_.answer, run.answer") == [
        f"Out[{at.number - 1}]: ('All is well.', 'All is well.')"
    ]
    assert at.run("run") == [f"Out[{at.number - 1}]: All is well."]


@pytest.mark.parametrize("opened", ["ipython"], indirect=True)
def test_an_answer_cannot_control_the_terminal(place: Place) -> None:
    hostile = Say("Fine.\x1b]0;owned\x07\x1b[2J\x07")
    shown = "Fine.\ufffd"
    assert place.ask("How are you?", hostile)[0] == shown
    assert place.terminal.run("_")[0].endswith(f"]: {shown}")
    assert place.terminal.run("print(repr(_.answer))") == [repr("Fine.\x1b]0;owned\x07\x1b[2J\x07")]


def test_a_script_ends_at_once_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "things.py").write_text(TOOLS)
    (tmp_path / "script.py").write_text(
        "import things, archytas_nb as nb\nnb.Agent([things.wait]).run('Wait!')\nprint('not reached')\n"
    )
    with (
        Server(Say(calls=(("wait", {}),))) as server,
        spawned(tmp_path, "script.py", OPENAI_BASE_URL=server.url) as process,
    ):
        wait_until((tmp_path / "ticks").exists)
        process.send("\x03")
        process.expect(pexpect.EOF)
        process.close()
        assert "RunInterrupted: stopped during a tool call" in process.before
        assert "not reached" not in process.before
        assert process.exitstatus == 1
        assert (tmp_path / "cleaned up").exists()
