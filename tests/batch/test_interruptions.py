"""Whatever ends a map, each row is in the result once, and little is paid twice."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, ConfigurationError, OpenAIModel
from archytas_nb.batch import limiter
from archytas_nb.batch import store as module
from archytas_nb.batch.engine import Outage
from tests.batch.shop import Shop
from tests.servers.plays import Drop, Play, Say, Status
from tests.servers.server import Exchange, Server

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from archytas_nb import Agent, OpenAIModel
url, store, budget, count = sys.argv[1:]
agent = Agent([], model=OpenAIModel("tiny-1", base_url=url, api_key="none"), max_reply_tokens=300)
out = agent.map([f"row {n}" for n in range(int(count))], "Label it.", store=store, workers=8,
                budget=budget or None, progress=False)
print(sum(each["status"] == "done" for each in out))
"""
WORKERS = 8
KERNELS = [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2)), 3]
FAULTS: tuple[Play, ...] = (
    Status(429, "slow", headers={"Retry-After": "0"}), Drop(), Say("half", raw=True, cut=1),
    Status(503, "busy", headers={"Retry-After": "0"}),
)  # fmt: skip


def run(server: Server, store: Path, rows: int, budget: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, server.url, str(store), budget, str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def sometimes(row: int, asked: int) -> Play | None:
    """Every seventh row fails once, in one of several ways."""
    return FAULTS[row % len(FAULTS)] if row % 7 == 3 and not asked else None


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("rows", "kills"), [(300, 2), pytest.param(3000, 20, marks=pytest.mark.slow)]
)
def test_killed_at_any_moment_no_row_is_lost_and_only_those_in_progress_are_paid_twice(
    tmp_path: Path, kernels: int, rows: int, kills: int
) -> None:
    chance = random.Random(kills)
    shop = Shop(sometimes, latency=0.03)
    store = tmp_path / "map.sqlite"
    with Server(then=shop) as server:
        processes = [run(server, store, rows) for _ in range(kernels)]
        for kill in range(kills):
            at = (kill + 1) % kernels  # the last one to start is the first to be killed
            wait_for(shop, rows * (kill + 0.5) / (kills + 1), processes)
            time.sleep(chance.uniform(0, 0.1))
            processes[at].kill()
            processes[at].communicate()
            processes[at] = run(server, store, rows)
        done = [process.communicate(timeout=600)[0].strip() for process in processes]
    twice = shop.paid.total() - rows
    print(
        f"{rows=} {kernels=} {kills=} lost={rows - len(shop.paid)} {twice=} most={kills * WORKERS}"
    )
    assert done == [str(rows)] * kernels
    assert len(shop.paid) == rows
    assert twice <= kills * WORKERS
    assert [path.name for path in tmp_path.iterdir()] == ["map.sqlite"]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("rows", "kills"),
    [
        pytest.param(300, 0, marks=pytest.mark.slow),
        (300, 2),
        pytest.param(3000, 20, marks=pytest.mark.slow),
    ],
)
def test_a_budget_holds_for_all_kernels_together_whoever_is_killed(
    tmp_path: Path, kernels: int, rows: int, kills: int
) -> None:
    chance = random.Random(kills)
    shop = Shop(sometimes, latency=0.03)
    store = tmp_path / "map.sqlite"
    budget = rows * 200  # too little for all rows, which take about 290 tokens each
    with Server(then=shop) as server:
        processes = [run(server, store, rows, f"{budget} tokens") for _ in range(kernels)]
        for kill in range(kills):
            at = (kill + 1) % kernels
            wait_for(shop, rows * (kill + 0.5) / (kills + 1) / 3, processes)
            time.sleep(chance.uniform(0, 0.1))
            processes[at].kill()
            processes[at].communicate()
            processes[at] = run(server, store, rows, f"{budget} tokens")
        for process in processes:
            process.communicate(timeout=600)
    over = shop.charged / budget - 1
    print(f"{rows=} {kernels=} {kills=} {budget=} charged={shop.charged} {over=:.1%}")
    most_of_a_row = 1500
    assert shop.charged <= budget + kernels * WORKERS * most_of_a_row
    assert shop.charged <= budget or kernels > 1
    assert shop.paid.total() - len(shop.paid) <= kills * WORKERS


def wait_for(shop: Shop, paid: float, processes: list[subprocess.Popen[str]]) -> None:
    """Until so many replies are paid, or all processes have ended."""
    while shop.paid.total() < paid and any(process.poll() is None for process in processes):
        time.sleep(0.01)


@pytest.fixture(scope="module")
def no_wait_before_a_retry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limiter, "_FIRST_WAIT", 0.01)
        yield


@settings(max_examples=12)
@given(
    budget=st.integers(500, 20_000),
    count=st.integers(1, 25),
    workers=st.integers(1, 16),
    written=st.integers(1, 900),
    faults=st.lists(st.sampled_from(["429", "drop", "cut", "500"]), max_size=4),
)
def test_a_budget_is_never_exceeded(
    no_wait_before_a_retry: None,
    budget: int,
    count: int,
    workers: int,
    written: int,
    faults: list[str],
) -> None:
    plays: dict[str, Play] = {
        "429": Status(429, "slow", headers={"Retry-After": "0"}), "drop": Drop(),
        "cut": Say("half", raw=True, cut=1), "500": Status(500, "no", headers={"Retry-After": "0"}),
    }  # fmt: skip
    shop = Shop(
        lambda row, asked: (
            plays[faults[asked]] if asked < min(len(faults), 3) and row % 3 == 0 else None
        ),
        written=lambda row: (row * 37) % written + 1,
    )
    with Server(then=shop) as server:
        model = OpenAIModel("tiny-1", base_url=server.url, api_key="none")
        agent = Agent([], model=model, max_reply_tokens=1000)
        asked = {"budget": f"{budget} tokens", "workers": workers, "store": None, "progress": False}
        out = agent.map([f"row {n}" for n in range(count)], "Label it.", **asked)
    assert shop.charged <= budget
    assert len(out) == count
    assert {each["status"] for each in out} <= {"done", "failed", "open"}


@dataclass(frozen=True)
class Held:
    """Say nothing until something has happened elsewhere."""

    until: Callable[[], bool]
    then: Play

    def play(self, exchange: Exchange) -> None:
        ends = time.monotonic() + 60
        while not self.until():
            assert time.monotonic() < ends, "what this request waits for has not happened"
            time.sleep(0.005)
        self.then.play(exchange)


def test_server_faults_under_many_workers_cost_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm of refusals, dropped connections, and a few that hang until the others are answered."""
    monkeypatch.setattr(limiter, "_FIRST_WAIT", 0.01)
    hanging = range(7, 100, 25)
    calm = False

    def fault(row: int, asked: int) -> Play | None:
        if calm:
            return None
        if row in hanging:
            return Held(lambda: len(shop.paid) == 100 - len(hanging), Drop())
        if row < 50 and not asked:
            return Status(429, "slow down", headers={"Retry-After": "0.05"})
        return Drop() if row % 5 == 1 and asked < 3 else None

    shop = Shop(fault, latency=0.01)
    asked = {"workers": 16, "store": str(tmp_path / "map.sqlite"), "progress": False}
    with Server(then=shop) as server:
        model = OpenAIModel("tiny-1", base_url=server.url, api_key="none")
        agent, data = Agent([], model=model), [f"row {n}" for n in range(100)]
        first = agent.map(data, "Label it.", **asked)
        assert [n for n, each in enumerate(first) if each["status"] == "failed"] == [*hanging]
        assert {each["status"] for each in first} == {"done", "failed"}
        calm = True
        second = agent.map(data, "Label it.", **asked)
    assert {each["status"] for each in second} == {"done"}
    assert shop.paid == Counter(range(100))


def test_an_outage_that_hits_all_workers_at_once_does_not_end_the_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that were in progress together have met one fault, however many workers there are."""
    monkeypatch.setattr(limiter, "_FIRST_WAIT", 0.0)
    hit = range(1, 17)

    def are_in_progress() -> bool:
        return all(shop.asked[row] for row in hit)

    def have_failed() -> bool:
        return all(shop.asked[row] == 4 for row in hit)

    def fault(row: int, asked: int) -> Play | None:
        if row in hit:
            return Held(are_in_progress, Drop())
        return Held(have_failed, Say("fine", raw=True)) if row else None

    shop = Shop(fault)
    with Server(then=shop) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        data = [f"row {n}" for n in range(60)]
        out = agent.map(data, "Label it.", store=None, workers=16, progress=False)
    assert [n for n, each in enumerate(out) if each["status"] == "failed"] == [*hit]
    assert {each["status"] for each in out} == {"done", "failed"}


@given(workers=st.integers(1, 40), data=st.data())
def test_an_endpoint_that_is_down_is_found_out_whatever_the_number_of_workers(
    workers: int, data: st.DataObject
) -> None:
    """The first row that fails, and four that began after it had failed."""
    outage = Outage()
    running = [outage.begin() for _ in range(workers)]
    is_down, ended = False, 0
    while not is_down:
        at = data.draw(st.integers(0, len(running) - 1))
        is_down = outage.end(running.pop(at), "endpoint")
        running.append(outage.begin())
        ended += 1
    assert ended >= 5


@given(ends=st.lists(st.tuples(st.integers(0, 7), st.booleans())))
def test_an_endpoint_is_not_down_while_one_row_in_five_is_answered(
    ends: list[tuple[int, bool]],
) -> None:
    outage = Outage()
    running = [outage.begin() for _ in range(8)]
    failed = 0
    for at, fails in ends:
        failed = failed + 1 if fails and failed < 4 else 0
        assert not outage.end(running.pop(at), "endpoint" if failed > 0 else "")
        running.append(outage.begin())


def test_a_full_disk_ends_the_map_and_loses_only_what_was_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = module._opened

    def small(path: Path) -> sqlite3.Connection:
        database = opened(path)
        database.execute("PRAGMA max_page_count=8")
        return database

    monkeypatch.setattr(module, "_opened", small)
    shop = Shop()
    asked = {"workers": 4, "store": str(tmp_path / "map.sqlite"), "progress": False}
    with Server(then=shop) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        data = [f"row {n}" for n in range(300)]
        with pytest.raises(ConfigurationError, match=r"map\.sqlite.*full"):
            agent.map(data, "Label it.", **asked)
        assert 20 < shop.paid.total() < 300
        monkeypatch.setattr(module, "_opened", opened)
        out = agent.map(data, "Label it.", **asked)
    assert {each["status"] for each in out} == {"done"}
    assert shop.paid.total() <= 300 + 4


def test_a_small_disk_is_named_before_anything_is_paid(tmp_path: Path) -> None:
    """The kernel's own limit of a file's size stands for a full disk."""
    script = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
    shop = Shop()
    with Server(then=shop) as server:
        command = [sys.executable, "-c", script + SCRIPT, server.url]
        done = subprocess.run(
            [*command, str(tmp_path / "map.sqlite"), "", "9"],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
    assert "map.sqlite" in done.stderr
    assert "ConfigurationError" in done.stderr
    assert not shop.asked


def test_a_rate_limit_is_kept() -> None:
    shop, began = Shop(), time.monotonic()
    with Server(then=shop) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        out = agent.map(
            [f"row {n}" for n in range(12)], "Label it.", store=None, rpm=600, workers=8
        )
    assert {each["status"] for each in out} == {"done"}
    assert time.monotonic() - began >= 11 * 60 / 600
