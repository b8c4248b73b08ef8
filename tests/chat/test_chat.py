"""One conversation, in the cells of a notebook and in a chat beside it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chat.client import Chat, talk
from tests.live_kernel import Kernel, live_kernel

CELLS = '''
%load_ext archytas_nb
import threading, time
from archytas_nb import tool
from archytas_nb.testing import ScriptedModel

numbers = [1, 2, 3]
threads = []

@tool
def total() -> int:
    """Add the numbers."""
    threads.append(threading.current_thread() is threading.main_thread())
    return sum(numbers)

@tool(approve=True)
def clear() -> str:
    """Remove all numbers."""
    numbers.clear()
    return "cleared"

@tool
def wait() -> str:
    """Wait."""
    time.sleep(3600)
    return ""

def play(*replies):
    global script
    script = ScriptedModel(*replies, protocol="native")
'''


def opened(kernel: Kernel) -> None:
    for code in (CELLS, "play()", "%agent_chat on --model script"):
        cell = kernel.run(code)
        assert cell.status == "ok", cell.error


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, runtime: Path) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("one")
    names = {"JUPYTER_RUNTIME_DIR": str(runtime), "JPY_SESSION_NAME": str(folder / "one.ipynb")}
    with live_kernel(folder, **names) as kernel:
        opened(kernel)
        yield kernel


def value(kernel: Kernel, expression: str) -> str:
    return kernel.run(expression).result


def play(kernel: Kernel, *replies: object) -> None:
    assert kernel.run(f"play(*{list(replies)!r})").status == "ok"


def test_a_question_of_the_chat_is_continued_in_a_cell(kernel: Kernel, runtime: Path) -> None:
    play(kernel, ("total", {}), ("final_answer", "It is 6."), ("final_answer", "Six, as I said."))

    async def work(chat: Chat) -> None:
        assert await chat.ask("@Notebook What is the total?") == "end_turn"
        assert chat.text == "It is 6."
        assert chat.calls == [("total {}", "completed", "6")]

    talk(runtime, work)
    assert value(kernel, "threads[-1]") == "True"
    assert "Six, as I said." in str(kernel.run("%agent --model script And again?").messages)
    read = value(kernel, "str(script.asked[-1].messages)")
    assert "What is the total?" in read
    assert "And again?" in read
    assert "@Notebook" not in read


def test_a_question_of_a_cell_is_continued_in_the_chat(kernel: Kernel, runtime: Path) -> None:
    play(kernel, ("final_answer", "A lot."), ("final_answer", "A lot, I said."))
    kernel.run("%agent --model script How much is it?")

    async def work(chat: Chat) -> None:
        await chat.ask("How much, please?")
        assert chat.text == "A lot, I said."

    talk(runtime, work)
    assert "How much is it?" in value(kernel, "str(script.asked[-1].messages)")


@pytest.mark.parametrize(
    ("button", "numbers", "status"),
    [("run", "[]", "completed"), ("refuse with a reason", "[1, 2, 3]", "failed")],
)
def test_a_button_of_the_chat_approves_or_refuses(
    kernel: Kernel, runtime: Path, button: str, numbers: str, status: str
) -> None:
    kernel.run("numbers[:] = [1, 2, 3]")
    play(kernel, ("clear", {}), ("final_answer", "Done."))

    async def work(chat: Chat) -> None:
        assert await chat.ask("Clear them.") == "end_turn"
        [(call, names)] = chat.asked
        assert call.title == "clear"
        assert names == [
            "run",
            "run, and do not ask again in this run",
            "run, and do not ask again in the chat",
            "refuse with a reason",
            "stop",
        ]
        assert [each[1] for each in chat.calls] == [status]

    talk(runtime, work, choose=lambda *_: button)
    assert value(kernel, "numbers") == numbers


@pytest.mark.parametrize("values", ["none", "all"])
def test_values_are_shown_in_the_chat_and_not_told_to_the_model(
    kernel: Kernel, runtime: Path, values: str
) -> None:
    kernel.run(f"%config ArchytasNB.values = {values!r}\nnumbers[:] = [918273645]")
    kernel.run("%config ArchytasNB.protocol = 'native'")
    play(kernel, ("total", {}), ("clear", {}), ("final_answer", "It is {total_1} in {numbers}."))

    async def work(chat: Chat) -> None:
        assert await chat.ask("What is the total?") == "end_turn"
        assert ("918273645" in chat.text) == (values == "none")
        assert chat.calls[0][1:] == ("completed", "918273645")

    talk(runtime, work, choose=lambda *_: "refuse with a reason")
    told = value(kernel, "str([[each.messages, each.tools] for each in script.asked])")
    kernel.run("%config ArchytasNB.values = 'all'\n%config ArchytasNB.protocol = 'auto'")
    assert "What is the total?" in told
    assert ("918273645" in told) == (values == "all")


def test_a_question_waits_for_the_running_cell_and_says_so(kernel: Kernel, runtime: Path) -> None:
    play(kernel, ("final_answer", "Now."))
    gate = runtime / "gate"
    code = f"import pathlib; print('runs')\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(.05)"
    kernel.client.execute(code)
    while kernel.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass

    async def work(chat: Chat) -> None:
        asking = asyncio.create_task(chat.ask("When?"))
        while not chat.updates:
            assert not asking.done()
            await asyncio.sleep(0.05)
        assert "running" in chat.text
        gate.touch()
        assert await asking == "end_turn"
        assert chat.text.endswith("Now.")

    talk(runtime, work)
    kernel.client.get_shell_msg(timeout=60)


def test_a_question_that_is_cancelled_is_interrupted_and_nothing_else(
    kernel: Kernel, runtime: Path
) -> None:
    play(kernel, ("wait", {}), ("clear", {}), ("final_answer", "Here."))
    kernel.run("numbers[:] = [1]")

    async def work(chat: Chat) -> None:
        for question in ("Wait.", "Clear them."):
            asking = asyncio.create_task(chat.ask(question))
            while not chat.updates:
                await asyncio.sleep(0.05)
            if question == "Clear them.":
                await chat.is_asked.wait()
            await chat.agent.cancel(session_id=chat.session)
            assert await asking == "cancelled"
        assert await chat.ask("Where?") == "end_turn"
        assert chat.text == "Here."

    talk(runtime, work)
    assert value(kernel, "numbers") == "[1]"


def test_an_error_is_told_in_the_chat(kernel: Kernel, runtime: Path) -> None:
    play(kernel)

    async def work(chat: Chat) -> None:
        assert await chat.ask("Nobody has an answer.") == "end_turn"
        assert chat.text

    talk(runtime, work)


def test_two_notebooks_are_told_apart_and_a_restart_is_noticed(
    kernel: Kernel, runtime: Path, tmp_path: Path
) -> None:
    notebook = tmp_path / "two.ipynb"
    names = {"JUPYTER_RUNTIME_DIR": str(runtime), "JPY_SESSION_NAME": str(notebook)}
    mine = Path(value(kernel, "import os; os.environ['JPY_SESSION_NAME']").strip("'"))
    with live_kernel(tmp_path, **names) as other:
        opened(other)
        play(kernel, ("final_answer", "One."), ("final_answer", "One again."))
        play(other, ("final_answer", "Two."), ("final_answer", "Two again."))

        async def work(chat: Chat) -> None:
            await chat.ask("Who?")
            assert chat.text == "Two."
            assert {*chat.asked[0][1][:-1]} == {str(mine), str(notebook)}
            await chat.ask("Who?", mine)  # it names the other one
            assert chat.text == "One."
            await chat.ask("Who?")
            assert chat.text == "One again."
            await chat.ask("Who?", notebook)
            assert chat.text == "Two again."
            other.manager.restart_kernel(now=True)
            other.client.wait_for_ready(timeout=60)
            await chat.ask("Who?")  # it does not go to another notebook
            assert str(notebook) in chat.text
            assert "%agent_chat on" in chat.text
            opened(other)
            play(other, ("final_answer", "Two, anew."))
            await chat.ask("Who?")
            assert chat.text == "Two, anew."
            assert len(chat.asked) == 1

        talk(runtime, work, choose=lambda *_: str(notebook))


def test_nobody_is_heard_without_the_token(kernel: Kernel, runtime: Path) -> None:
    [file] = [
        each for each in runtime.glob("archytas_nb-chat-*") if "one.ipynb" in each.read_text()
    ]
    if os.name == "posix":
        assert file.stat().st_mode & 0o077 == 0
    kernel.run("script = ScriptedModel(('final_answer', 'Never.'))")
    where = urlsplit(json.loads(file.read_text())["url"])
    for line in (
        b'{"token": "", "question": "Who?"}\n',
        b'{"question": "Who?"}\n',
        b"[]\n",
        b"POST / HTTP/1.1\r\n",
        b'{"token": "\xff"}\n',
        b'{"token": "\\ud800", "question": "Who?"}\n',
        b'{"token": NaN, "question": "Who?"}\n',
        b"[" * 100_000 + b"\n",
        b'{"question": "' + b"x" * 200_000 + b'"}\n',
        b"",
    ):
        with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
            with suppress(OSError):  # it has ended before all was sent
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b""
    assert value(kernel, "script") == "ScriptedModel(1 replies left)"


@pytest.mark.parametrize("question", [r'"\ud83d"', '"a \xff"', "NaN", "[]", "3", "null"])
def test_a_question_that_is_no_text_is_refused_with_the_reason(
    kernel: Kernel, runtime: Path, question: str
) -> None:
    [file] = [
        each for each in runtime.glob("archytas_nb-chat-*") if "one.ipynb" in each.read_text()
    ]
    kernel.run("script = ScriptedModel(('final_answer', 'Never.'))")
    registered = json.loads(file.read_text())
    where = urlsplit(registered["url"])
    line = f'{{"token": "{registered["token"]}", "question": {question}}}\n'.encode("latin-1")
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        connection.sendall(line)
        [end] = connection.makefile().readlines()
    assert json.loads(end)["end"] == "failed"
    assert "not asked" in json.loads(end)["text"]
    assert value(kernel, "script") == "ScriptedModel(1 replies left)"


def test_no_chat_is_opened_for_a_model_that_cannot_answer(kernel: Kernel) -> None:
    kernel.run("import sys; sys.modules['xllamacpp'] = None")
    cell = kernel.run("%agent_chat on --model local")
    kernel.run("del sys.modules['xllamacpp']")
    assert cell.status == "error"
    assert "xllamacpp" in cell.error


def test_nothing_listens_after_off(kernel: Kernel, runtime: Path) -> None:
    assert "%agent_chat off" in value(kernel, "%agent_chat")
    assert kernel.run("%agent_chat off").status == "ok"
    names = "{each.name for each in threading.enumerate()}"
    assert "archytas_nb chat" not in value(kernel, names)

    async def work(chat: Chat) -> None:
        assert await chat.ask("Anybody?") == "end_turn"
        assert "%agent_chat on" in chat.text

    talk(runtime, work)
