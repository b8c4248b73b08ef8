"""Rows are asked about in other processes: any executor, a real Dask cluster among them."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pandas as pd
import pytest

from archytas_nb import Agent, ConfigurationError, OpenAIModel, Tool
from archytas_nb.tools.variables import LiveNamespace
from tests.batch.planner import Planner
from tests.batch.shop import Shop
from tests.servers.plays import Say, Status
from tests.servers.server import Server

FACTOR = 10


@dataclass
class Found:
    label: Literal["short", "long"]
    size: int


class Sizes:
    """Asks for the tool ``size`` and answers with what it gave."""

    def play(self, exchange: Any) -> None:
        last = exchange.body["messages"][-1]
        if last["role"] == "tool":
            Say(f'{{"label": "short", "size": {last["content"]}}}', raw=True).play(exchange)
        else:
            text = last["content"].split("\n\n")[-1].strip()
            Say(calls=(("size", {"text": text, "unit": "tens"}),)).play(exchange)


def size(text: str, unit: Literal["ones", "tens"]) -> int:
    """Count characters.

    Args:
        text: The text
        unit: What is counted
    """
    return len(text) * (FACTOR if unit == "tens" else 1)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    # It sets variables of the environment for its processes in this one, and leaves them there: no
    # kernel that is started after it would be as the one from which kernels are forked.
    with mock.patch.dict(os.environ), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own and of its libraries
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
        )
        with cluster, distributed.Client(cluster) as client:
            yield client.get_executor()


def agent(server: Server, *tools: Any, **options: Any) -> Agent:
    return Agent(
        list(tools), model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"), **options
    )


def test_a_dask_cluster_gives_the_same_frame_as_threads(dask: Any, tmp_path: Path) -> None:
    data = pd.Series(["a", "bb", "ccc"] * 4, index=range(5, 17))
    store = str(tmp_path / "map.sqlite")
    # Its type annotations are texts, and its module stays here: it travels as a whole.
    here: dict[str, Any] = {"FACTOR": 10, "Literal": Literal, "__name__": "__main__"}
    source = (
        "from __future__ import annotations\n"
        "def size(text: str, unit: Literal['ones', 'tens']) -> int:\n    '''Count.\n\n    Args:\n"
        "        text: The text\n        unit: The unit\n    '''\n    return len(text) * FACTOR\n"
    )
    exec(source, here)
    with Server(then=Sizes()) as server:
        for tool in (size, here["size"]):
            asked = {"output_type": Found, "progress": False}
            near = agent(server, tool).map(data, "Measure.", **asked, store=None)
            far = agent(server, tool).map(data, "Measure.", **asked, store=store, executor=dask)
            pd.testing.assert_frame_equal(near.drop(columns="seconds"), far.drop(columns="seconds"))
            assert list(far["size"]) == [10, 20, 30] * 4
        number = len(server.chats)
        agent(server, here["size"]).map(
            data, "Measure.", output_type=Found, store=store, progress=False
        )
        assert len(server.chats) == number


def test_a_process_pool_does_too_and_its_failures_are_rows() -> None:
    shop = Shop(lambda row, asked: Status(400, "no") if row == 2 else None)
    with Server(then=shop) as server, ProcessPoolExecutor(2) as pool:
        out = agent(server).map([f"row {n}" for n in range(5)], "Go.", executor=pool, store=None)
    assert [each["status"] for each in out] == ["done", "done", "failed", "done", "done"]


def reads_a_variable(frame: pd.DataFrame) -> int:
    """Count rows.

    Args:
        frame: The frame
    """
    return len(frame)


def reads_all_variables(names: LiveNamespace) -> int:
    """Count variables."""
    return len(names)


@pytest.mark.parametrize("tool", [reads_a_variable, reads_all_variables])
def test_a_tool_that_needs_variables_is_refused_in_other_processes(tool: Any) -> None:
    with Server() as server, ProcessPoolExecutor(1) as pool:
        with pytest.raises(ConfigurationError, match=tool.__name__):
            agent(server, tool).map(["row 1"], "Go.", executor=pool, store=None)
        assert not server.chats


def test_a_tool_can_be_pickled_with_its_options() -> None:
    tool = Tool.from_function(size, name="measure", timeout=3.0, max_chars=50, pure=True)
    copy = pickle.loads(pickle.dumps(tool))
    assert copy.spec() == tool.spec()
    assert copy.text == tool.text
    assert (copy.timeout, copy.max_chars, copy.repeat, copy.pure) == (3.0, 50, False, True)
    assert copy.call({"text": "abc", "unit": "tens"}).value == 30


class Late:
    """Refuses the request, but only after an event."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def play(self, exchange: Any) -> None:
        self.released.wait(30)
        Status(400, "late").play(exchange)


@pytest.mark.parametrize("kind", ["processes", "threads", "dask"])
def test_an_interrupt_of_a_map_with_an_executor_returns_what_is_there(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    late = Late()
    shop = Shop(lambda row, asked: late if row >= 6 and not late.released.is_set() else None)

    def interrupt() -> None:
        while len(shop.asked) < 8:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    store = str(tmp_path / "map.sqlite")
    with Server(then=shop) as server, contextlib.ExitStack() as stack:
        if kind == "dask":
            executor = request.getfixturevalue("dask")
        else:
            pool = ProcessPoolExecutor if kind == "processes" else ThreadPoolExecutor
            executor = stack.enter_context(pool(2))
        rows = [f"row {n}" for n in range(14)]
        asked = {"executor": executor, "store": store, "progress": False}
        thread = threading.Thread(target=interrupt)
        thread.start()
        out = agent(server).map(rows, "Go.", workers=4, **asked)
        late.released.set()
        thread.join()
        whole = agent(server).map(rows, "Go.", **asked)
    statuses = [each["status"] for each in out]
    assert set(statuses[:6]) <= {"done", "open"}
    assert "done" in statuses[:6]
    assert statuses[6:] == ["open"] * 8
    assert {each["status"] for each in whole} == {"done"}
    done = [row for row, status in enumerate(statuses) if status == "done"]
    assert [shop.paid[row] for row in done] == [1] * len(done)


class Programs:
    """Writes a program for all rows; a row that is asked by itself is of size 0."""

    def play(self, exchange: Any) -> None:
        if "run once for each row" in str(exchange.body["messages"][0]):
            program = (
                "if row.text is None:\n    give_up('it is missing')\n"
                "answer({'label': 'short', 'size': size(text=row.text, unit='tens')})"
            )
            Say(f"```python\n{program}\n```", raw=True).play(exchange)
        else:
            Say('{"label": "long", "size": 0}', raw=True).play(exchange)


class Copying(Executor):
    """Runs at once, on copies of what it is given, as another process would."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            work, given = pickle.loads(pickle.dumps((fn, args)))
            future.set_result(pickle.loads(pickle.dumps(work(*given, **kwargs))))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("kind", ["copies", pytest.param("dask", marks=pytest.mark.slow)])
def test_a_plan_runs_in_other_processes_with_the_same_result(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    texts = ["a" * (number % 9 + 1) for number in range(40)]
    frame = pd.DataFrame({"text": texts})
    frame.loc[7, "text"] = None
    asked: dict[str, Any] = {"output_type": Found, "progress": False, "plan": True, "verify": 0}
    tool = Tool.from_function(size, pure=True)
    executor = Copying() if kind == "copies" else request.getfixturevalue("dask")
    with Server(then=Programs()) as server:
        near = agent(server, tool).map(frame, "Measure {text}.", **asked, store=None)
        store = str(tmp_path / "map.sqlite")
        far = agent(server, tool).map(
            frame, "Measure {text}.", **asked, store=store, executor=executor
        )
        assert len(server.chats) == 4
        again = agent(server, tool).map(frame, "Measure {text}.", **asked, store=store)
        assert len(server.chats) == 4
    pd.testing.assert_frame_equal(near.drop(columns="seconds"), far.drop(columns="seconds"))
    pd.testing.assert_frame_equal(far, again)
    assert list(far.index[far["by"] == "agent"]) == [7]
    assert list(far["size"])[:8] == [10, 20, 30, 40, 50, 60, 70, 0]


def test_a_repaired_program_runs_elsewhere_too_and_calls_are_shared_within_one_map() -> None:
    sizes: list[str] = []

    def size_of(text: str) -> int:
        """Measure a text.

        Args:
            text: It
        """
        sizes.append(text)
        return len(text)

    frame = pd.DataFrame({"text": ["a", "bb"] * 20, "number": range(40)})
    with ThreadPoolExecutor(1) as executor:
        for count in (1, 2):
            model = Planner(
                "answer(size_of(text=row.text) / 0)",
                "answer(size_of(text=row.text) + row.number * 0)",
            )
            out = Agent([Tool.from_function(size_of, pure=True)], model=model).map(
                frame, "How long is {text}?", output_type=int, plan=True, verify=0, store=None,
                executor=executor, progress=False,
            )  # fmt: skip
            assert list(out["answer"]) == [1, 2] * 20
            assert sorted(sizes) == sorted(["a", "bb"] * count)
