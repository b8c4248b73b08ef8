"""Work of other threads runs between cells, and cells between it."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from archytas_nb.kernel.main_thread import MainThread


def test_it_needs_a_loop() -> None:
    with pytest.raises(RuntimeError):
        MainThread()


def test_a_cell_runs_between_pieces_of_work_that_wait() -> None:
    order: list[str] = []

    async def cell() -> None:
        for _ in range(5):  # what arrives passes through several turns of the loop
            await asyncio.sleep(0)
        order.append("cell")

    async def run() -> None:
        main = MainThread()
        futures = [main.submit(lambda: order.append("work")) for _ in range(50)]
        arrived = asyncio.ensure_future(cell())
        await asyncio.gather(arrived, *map(asyncio.wrap_future, futures))

    asyncio.run(run())
    assert order.count("work") == 50
    assert order.index("cell") < 50


def test_work_runs_in_order_in_the_context_of_its_cell_and_an_error_is_its_own() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    order: list[object] = []

    def work(number: int) -> int:
        order.append(
            (number, variable.get(), threading.current_thread() is threading.main_thread())
        )
        if number == 1:
            raise SystemExit(3)
        return number

    async def run() -> None:
        variable.set("cell")
        main = MainThread()
        variable.set("later")
        futures = [main.submit(lambda number=number: work(number)) for number in range(3)]  # type: ignore[misc]
        cancelled = main.submit(lambda: work(9))
        assert cancelled.cancel()
        after = main.submit(lambda: work(3))
        assert await asyncio.wrap_future(after) == 3
        assert isinstance(futures[1].exception(), SystemExit)
        assert futures[2].result() == 2

    asyncio.run(run())
    assert order == [(number, "cell", True) for number in range(4)]
