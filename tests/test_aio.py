"""Runs in an event loop with slow real servers: the loop is not blocked, and cancelling ends the request."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.loop.events import Answered, Delta
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel, live_kernel
from tests.servers.plays import Say, Status
from tests.servers.server import Exchange, Server
from tests.terminal import wait_until

SECONDS = 20.0


def count(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which one
    """
    return 3


class Waiting:
    """Answers when it is allowed to, and reports when it was asked."""

    def __init__(self, number: int, *plays: Any) -> None:
        self.may, self._all = threading.Event(), threading.Semaphore(0)
        self._number, self._plays = number, plays

    def play(self, exchange: Exchange) -> None:
        self._all.release()
        assert self.may.wait(SECONDS)
        asked = sum(message["role"] == "tool" for message in exchange.body["messages"])
        self._plays[asked].play(exchange)

    async def all_asked(self) -> None:
        for _ in range(self._number):
            while not self._all.acquire(blocking=False):
                await asyncio.sleep(0.01)


class Silent:
    """Sends nothing until the client goes away."""

    def play(self, exchange: Exchange) -> None:
        exchange.wait_for_the_client_to_leave()


def agent(server: Server, *tools: Any) -> nb.Agent:
    return nb.Agent([*tools], nb.OpenAIModel("tiny-1", server.url), protocol="native", namespace={})


def scripted(*script: Any, tools: Any = (count,)) -> nb.Agent:
    return nb.Agent(tools, ScriptedModel(*script), namespace={})


async def until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def test_five_agents_in_one_loop_run_concurrently_without_blocking_it() -> None:
    play = Waiting(5, Say(calls=(("count", {"fruit": "apples"}),)), Say("Three."))

    async def main(server: Server) -> None:
        tasks = [asyncio.create_task(agent(server, count).arun("How many?")) for _ in range(5)]
        await play.all_asked()  # none of them was answered yet, and this coroutine goes on
        assert not any(task.done() for task in tasks)
        play.may.set()
        runs = await asyncio.gather(*tasks)
        assert [(run.answer, run.calls[0][1].value) for run in runs] == [("Three.", 3)] * 5

    with Server(then=play) as server:
        asyncio.run(main(server))
        assert len(server.chats) == 10


@pytest.mark.parametrize(
    "play", [Silent(), Say("A long answer.", stall=True)], ids=["silent", "stalls"]
)
def test_cancelling_ends_the_request_at_the_server_and_keeps_the_conversation(
    play: Any,
) -> None:
    async def main(server: Server) -> None:
        it = agent(server, count)
        await it.arun("First?")
        task = asyncio.create_task(it.arun("How many?"))
        await until(lambda: len(server.chats) == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.chats[2].left.wait(SECONDS)
        assert [exchange.question for exchange in it.exchanges] == ["First?", "How many?"]
        assert [call.name for step in it.exchanges[1].steps for call in step.calls] == ["count"]
        assert (await it.arun("Again?")).answer == "All is well."

    call = Say(calls=(("count", {"fruit": "apples"}),))
    with Server(Say("One."), call, play) as server:
        asyncio.run(main(server))
        assert server.complaints == []


def test_cancelling_ends_the_wait_before_a_retry() -> None:
    async def main(server: Server) -> None:
        it = agent(server)
        stream = it.astream("How many?")
        events = [event async for event in _until_retry(stream)]
        task = asyncio.create_task(anext(stream))  # which waits for the retry
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events
        it.reset()  # it is not busy any more
        assert (await it.arun("Again?")).answer == "All is well."

    with Server(Status(429, "later", headers={"Retry-After": "25"})) as server:
        asyncio.run(main(server))


async def _until_retry(stream: Any) -> Any:
    async for event in stream:
        yield event
        if getattr(event, "kind", "") == "retry":
            return


def test_a_model_that_cannot_be_stopped_delays_cancellation_only_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archytas_nb.aio._STOP_SECONDS", 0.01)
    asked, may = threading.Event(), threading.Event()

    class Deaf(ScriptedModel):
        def complete(self, ask: Any) -> Any:
            asked.set()
            may.wait(SECONDS)
            return (yield from super().complete(ask))

    async def main() -> None:
        it = nb.Agent([], Deaf(("final_answer", "1"), ("final_answer", "2")), namespace={})
        task = asyncio.create_task(it.arun("One?"))
        await until(asked.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RuntimeError, match="already answering a question"):
            it.run("Two?")
        may.set()

        def is_free() -> bool:
            try:
                it.reset()
            except RuntimeError:
                return False
            return True

        await until(is_free)
        assert (await it.arun("Two?")).answer == "2"

    asyncio.run(main())


def test_one_agent_answers_one_question_at_a_time() -> None:
    play = Waiting(1, Say("Yes."))

    async def main(server: Server) -> None:
        it = agent(server)
        first = asyncio.create_task(it.arun("First?"))
        await play.all_asked()
        for ask in (it.arun("Second?"), anext(it.astream("Third?"))):
            with pytest.raises(RuntimeError, match="already answering a question"):
                await ask
        play.may.set()
        assert (await first).answer == "Yes."

    with Server(then=play) as server:
        asyncio.run(main(server))


def test_a_stream_has_the_events_of_run_and_then_the_run() -> None:
    script = ("count", {"fruit": "apples"}), '{"tool": "final_answer", "tool_input": 3}'

    async def main() -> None:
        stream, seen = scripted(*script).astream("How many?", output_type=int), []
        events = [event async for event in stream]
        assert any(isinstance(event, Delta) for event in events)
        assert [event for event in events if not isinstance(event, Delta)] == stream.run.events
        assert stream.run.events == scripted(*script).run("How many?", output_type=int).events
        assert stream.run.output == 3
        assert events[-1] == Answered("3")
        await scripted(*script).arun("How many?", output_type=int, observers=[seen.append])
        assert seen == events

    asyncio.run(main())


def test_leaving_a_stream_ends_its_run_and_allows_the_next_question_at_once() -> None:
    async def main() -> None:
        it = scripted(
            ("count", {"fruit": "apples"}), ("final_answer", "One."), ("final_answer", "Two.")
        )
        async for event in it.astream("One?"):
            if type(event).__name__ == "CallOutcomes":
                break
        assert (await it.arun("Two?")).answer == "One."
        assert [type(each.ending).__name__ for each in it.exchanges] == ["Interrupted", "Answered"]

    asyncio.run(main())


def test_raises_the_same_errors_as_run() -> None:
    async def main() -> None:
        with pytest.raises(nb.TaskFailed, match="no fruit"):
            await scripted(("fail_task", "no fruit")).arun("How many?")
        with pytest.raises(TypeError, match="write max_steps=…"):
            await scripted().arun("How many?", max_step=3)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="empty"):
            scripted().astream(" ")

    asyncio.run(main())


def test_tools_run_in_the_loops_thread_and_async_tools_do_not_block_it() -> None:
    threads: list[int] = []
    may, ended = threading.Event(), threading.Event()

    def here() -> str:
        """Say where it runs."""
        threads.append(threading.get_ident())
        return "here"

    async def wait() -> str:
        """Wait."""
        try:
            while not may.is_set():
                await asyncio.sleep(0.01)
        finally:
            ended.set()
        return "waited"

    async def main() -> None:
        it = scripted(("here", {}), ("wait", {}), ("final_answer", "Yes."), tools=[here, wait])
        task = asyncio.create_task(it.arun("Well?"))
        await until(lambda: threads)
        may.set()  # by a coroutine of the same loop
        run = await task
        assert [outcome.text for _, outcome in run.calls] == ["here", "waited"]
        assert threads == [threading.get_ident()]

    async def cancelled() -> None:
        may.clear()
        ended.clear()
        it = scripted(("wait", {}), tools=[wait])
        task = asyncio.create_task(it.arun("Well?"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.wait(SECONDS)
        assert [each.status for step in it.exchanges[0].steps for each in step.outcomes] == [
            "interrupted"
        ]

    asyncio.run(main())
    asyncio.run(cancelled())


# ── where a person interrupts ─────────────────────────────────────────────────────────────────────

SCRIPT = """
import asyncio, time
from pathlib import Path
import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

def wait() -> str:
    '''Wait.'''
    Path("begun").touch()
    time.sleep(60)
    return "waited"

agent = nb.Agent([wait], ScriptedModel(("wait", {})), namespace={})

async def main():
    await asyncio.gather(agent.arun("Well?"), asyncio.sleep(60))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print(type(agent.exchanges[0].ending).__name__)
"""


def test_ctrl_c_in_a_tool_ends_a_script_as_in_any_asyncio_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        wait_until((tmp_path / "begun").exists)
        process.send_signal(signal.SIGINT)
        assert process.communicate()[0] == "Interrupted\n"
    assert process.returncode == 0


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kernel, Path]]:
    folder = tmp_path_factory.mktemp("kernel")
    with live_kernel(folder) as kernel:
        kernel.run(SCRIPT.partition("async def")[0])
        yield kernel, folder / "begun"


def test_five_concurrent_agents_in_a_notebook(kernel: tuple[Kernel, Path]) -> None:
    cell = kernel[0].run("""
import threading
def where() -> bool:
    '''Say where it runs.'''
    return threading.current_thread() is threading.main_thread()

agents = [nb.Agent([where], ScriptedModel(("where", {}), ("final_answer", str(n)))) for n in range(5)]
runs = await asyncio.gather(*[each.arun("Well?") for each in agents])
[(run.answer, run.calls[0][1].value) for run in runs]
""")
    assert cell.result == str([(str(n), True) for n in range(5)]), cell.error


def test_an_interrupt_in_a_notebook_ends_a_tool_or_a_request_but_not_the_kernel(
    kernel: tuple[Kernel, Path],
) -> None:
    shell, begun = kernel
    ask = "agent.arun('Well?')"
    for code in (ask, f"asyncio.gather({ask})", f"asyncio.create_task({ask})"):
        begun.unlink(missing_ok=True)
        shell.run("agent = nb.Agent([wait], ScriptedModel(('wait', {}), ('final_answer', 'Two.')))")
        cell = shell.run(f"await {code}", interrupt_when=lambda _: begun.exists())
        assert cell.status == "error"
        assert shell.run("type(agent.exchanges[0].ending).__name__").result == "'Interrupted'"
    with Server(then=Silent()) as server:
        shell.run(f"agent = nb.Agent([], nb.OpenAIModel('tiny-1', {server.url!r}))")
        cell = shell.run(f"await {ask}", interrupt_when=lambda _: bool(server.chats))
        assert cell.status == "error"
        assert server.chats[0].left.wait(SECONDS)
    assert shell.run("1 + 1").result == "2"
