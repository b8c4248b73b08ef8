"""A tool may wait for what the notebook's own loop does: it works, or fails at once; nothing hangs."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel, live_kernel

SECONDS = 20.0

# ── what an async tool may wait for ───────────────────────────────────────────────────────────────


def lock() -> Callable[[], Awaitable[str]]:
    it = asyncio.Lock()

    async def hold() -> None:
        async with it:
            await asyncio.sleep(0.1)

    async def tool() -> str:
        async with it:
            return "got it"

    tool.task = asyncio.create_task(hold())  # type: ignore[attr-defined]
    return tool


def event() -> Callable[[], Awaitable[str]]:
    it = asyncio.Event()

    async def tool() -> str:
        await asyncio.wait_for(it.wait(), SECONDS)
        return "got it"

    asyncio.get_running_loop().call_later(0.1, it.set)
    return tool


def polled() -> Callable[[], Awaitable[str]]:
    found: list[str] = []

    async def tool() -> str:
        while not found:
            await asyncio.sleep(0.01)
        return found[0]

    asyncio.get_running_loop().call_later(0.1, found.append, "got it")
    return tool


def items() -> Callable[[], Awaitable[str]]:
    it: asyncio.Queue[str] = asyncio.Queue(1)

    async def put() -> None:
        for each in ("first", "got it"):
            await it.put(each)

    async def tool() -> str:
        await it.get()
        return await it.get()

    tool.task = asyncio.create_task(put())  # type: ignore[attr-defined]
    return tool


def future() -> Callable[[], Awaitable[str]]:
    loop = asyncio.get_running_loop()
    it: asyncio.Future[str] = loop.create_future()

    async def tool() -> str:
        return await it

    loop.call_later(0.1, it.set_result, "got it")
    return tool


def server() -> Callable[[], Awaitable[str]]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got it")
        writer.close()

    async def tool() -> str:
        opened = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with opened:
            port = opened.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            read = await reader.read()
            writer.close()
            return read.decode()

    return tool


def thread() -> Callable[[], Awaitable[str]]:
    it = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def tool() -> str:
        await asyncio.to_thread(loop.call_soon_threadsafe, it.set)
        await it.wait()
        return "got it"

    return tool


def in_a_group() -> Callable[[], Awaitable[str]]:
    first, second = event(), lock()

    async def tool() -> str:
        return (await asyncio.gather(first(), second()))[1]

    return tool


WAITS = [lock, event, polled, items, future, server, thread, in_a_group]


def agent(tool: Any, **options: Any) -> nb.Agent:
    model = ScriptedModel(("tool", {}), ("final_answer", "Done."))
    return nb.Agent([nb.tool(tool, name="tool")], model, namespace={}, **options)


def outcome(run: Run[Any]) -> Any:
    return run.calls[0][1]


@pytest.mark.parametrize("wait", WAITS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("way", ["run", "arun", "approved"])
def test_an_async_tool_gets_what_the_loop_around_it_does(way: str, wait: Any) -> None:
    async def main() -> Any:
        # A policy is called on the thread of the loop, and so is the tool.
        it = agent(wait(), approve=(lambda *_: "") if way == "approved" else None)
        if way == "run":
            return it.run("Go.")
        return await it.arun("Go.")

    run = asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert outcome(run).value == "got it"


def test_other_tasks_go_on_and_the_loop_works_after_it() -> None:
    """Many callbacks are due when the loop is turned, and run once each."""

    async def main() -> None:
        ran: list[int] = []
        loop = asyncio.get_running_loop()
        for n in range(50):
            loop.call_soon(ran.append, n)
        task = asyncio.current_task()
        assert agent(event()).run("Go.").answer == "Done."
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert ran == list(range(50))

    asyncio.run(main())


def test_runs_inside_of_callbacks_of_a_turned_loop() -> None:
    async def main() -> list[str]:
        answers: list[str] = []

        def ask() -> None:
            answers.append(outcome(agent(lock()).run("Go.")).value)

        for _ in range(3):
            asyncio.get_running_loop().call_soon(ask)
        answers.append(outcome(agent(event()).run("Go.")).value)
        return answers

    assert asyncio.run(main()) == ["got it"] * 4


def test_a_tool_that_waits_for_its_own_cell_fails() -> None:
    async def main() -> Any:
        cell = asyncio.current_task()
        assert cell is not None

        async def tool() -> None:
            await asyncio.gather(cell)

        return agent(tool).run("Go.")

    failed = outcome(asyncio.run(asyncio.wait_for(main(), SECONDS)))
    assert failed.status == "error"
    assert "arun" in failed.text


def test_a_blocking_step_ends_at_the_limit_on_the_thread_of_the_loop() -> None:
    async def tool() -> None:
        time.sleep(SECONDS)

    async def main(*, is_free: bool) -> Any:
        it = nb.Agent(
            [nb.tool(tool, timeout=0.2)],
            ScriptedModel(("tool", {}), ("final_answer", "Done.")),
            namespace={},
        )
        return await it.arun("Go.") if is_free else it.run("Go.")

    started = time.monotonic()
    for is_free in (True, False):
        ended = outcome(asyncio.run(main(is_free=is_free)))
        assert ended.status == "error"
        assert "stopped after 0.2 s" in ended.text
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize("blocks", [True, False])
def test_an_interrupt_ends_a_tool_on_a_turned_loop(blocks: bool) -> None:
    async def tool() -> None:
        if blocks:
            time.sleep(SECONDS)
        await asyncio.sleep(SECONDS)

    async def main() -> Any:
        main_thread = threading.get_ident()
        timer = threading.Timer(0.3, signal.pthread_kill, [main_thread, signal.SIGINT])
        timer.start()
        it = agent(tool)
        try:
            it.run("Go.")
        except KeyboardInterrupt:
            return it.exchanges[-1].steps[-1].outcomes[0]
        finally:
            timer.join()

    assert asyncio.run(main()).status == "interrupted"


# ── waits of a plain function, which blocks the loop ──────────────────────────────────────────────


def run_in_loop(loop: asyncio.AbstractEventLoop) -> Any:
    return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "got it"), loop).result(SECONDS)


def event_of_a_thread(loop: asyncio.AbstractEventLoop) -> Any:
    it = threading.Event()
    loop.call_later(0.1, it.set)
    return it.wait(SECONDS)


def queue_of_a_thread(loop: asyncio.AbstractEventLoop) -> Any:
    it: queue.Queue[int] = queue.Queue()
    loop.call_soon_threadsafe(lambda: it.put(1))
    return it.get(timeout=SECONDS)


def future_of_a_thread(loop: asyncio.AbstractEventLoop) -> Any:
    it: Future[int] = Future()
    loop.call_soon_threadsafe(it.set_result, 1)
    return it.result(SECONDS)


@pytest.mark.parametrize(
    "wait",
    [run_in_loop, event_of_a_thread, queue_of_a_thread, future_of_a_thread],
    ids=lambda each: each.__name__,
)
@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited:RuntimeWarning")
def test_a_function_that_waits_in_vain_fails_and_names_the_way(wait: Any) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        run = agent(lambda: wait(loop)).run("Go.")
        await asyncio.sleep(0.15)
        return run

    failed = outcome(asyncio.run(main()))
    assert failed.status == "error"
    assert "arun" in failed.text


def test_a_function_that_waits_for_a_thread_goes_on_waiting() -> None:
    def tool() -> str:
        done: Future[str] = Future()
        threading.Timer(1.3, done.set_result, ["from a thread"]).start()
        return done.result(SECONDS)

    async def main() -> Any:
        asyncio.get_running_loop().call_soon(bool)
        return agent(tool).run("Go.")

    assert outcome(asyncio.run(main())).value == "from a thread"


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with live_kernel(tmp_path) as kernel:
        yield kernel


@pytest.mark.slow
def test_a_kernel_runs_no_other_cell_while_its_loop_is_turned(kernel: Kernel) -> None:
    kernel.run("import asyncio, archytas_nb as nb; from archytas_nb.testing import ScriptedModel")
    first = kernel.client.execute(
        "order = ['begun']\n"
        "event = asyncio.Event(); asyncio.get_running_loop().call_later(1, event.set)\n"
        "@nb.tool\nasync def f() -> str:\n    '''F.'''\n    await event.wait(); return 'got it'\n"
        "m = ScriptedModel(('f', {}), ('final_answer', 'Done.'))\n"
        "run = nb.Agent([f], m).run('go'); order.append('ended')"
    )
    assert first
    kernel.client.execute("order.append('next')")
    shown = kernel.run("print(order, run.calls[0][1].value)").printed
    assert shown.strip() == "['begun', 'ended', 'next'] got it"
