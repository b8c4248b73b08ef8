"""Whatever ends a map, each row is in the result once, and little is paid twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, ConfigurationError, OpenAIModel
from archytas_nb.batch.store import RowResult, Store, _naming
from tests.batch.shop import Shop
from tests.servers.plays import Drop, Hang, Play, Say, Status
from tests.servers.server import Server

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from archytas_nb import Agent, OpenAIModel
url, store, budget = sys.argv[1:]
agent = Agent([], model=OpenAIModel("tiny-1", base_url=url, api_key="none"), max_reply_tokens=300)
out = agent.map([f"row {n}" for n in range(ROWS)], "Label it.", store=store, workers=8,
                budget=budget or None, progress=False)
print(sum(each["status"] == "done" for each in out))
"""
ROWS = 400


def run(server: Server, store: Path, budget: str = "") -> subprocess.Popen[str]:
    script = SCRIPT.replace("ROWS", str(ROWS))
    command = [sys.executable, "-c", script, server.url, str(store), budget]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("budget", ["", "180000 tokens"])
def test_killed_at_any_moment_nothing_that_was_done_is_lost(
    tmp_path: Path, kills: int, budget: str
) -> None:
    shop, chance = Shop(latency=0.03), random.Random(kills)
    store = tmp_path / "map.sqlite"
    with Server(then=shop) as server:
        for _ in range(kills):
            seen = shop.asked.total()
            process = run(server, store, budget)
            while shop.asked.total() == seen and process.poll() is None:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 4 / kills))
            process.send_signal(signal.SIGKILL)
            process.communicate()
        process = run(server, store, budget)
        out, _ = process.communicate(timeout=120)
    if budget:
        assert shop.charged <= 180_000
    else:
        assert int(out) == ROWS
        assert len(shop.paid) == ROWS
    assert shop.paid.total() <= len(shop.paid) + kills * 8
    assert [path.name for path in tmp_path.iterdir()] == ["map.sqlite"]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.integers(500, 20_000),
    count=st.integers(1, 25),
    workers=st.integers(1, 16),
    written=st.integers(1, 900),
    faults=st.lists(st.sampled_from(["429", "drop", "cut", "500"]), max_size=4),
)
def test_a_budget_is_never_exceeded(
    budget: int, count: int, workers: int, written: int, faults: list[str]
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


def test_server_faults_under_many_workers_cost_nothing_twice(tmp_path: Path) -> None:
    storm = {"until": time.monotonic() + 1.0}

    def fault(row: int, asked: int) -> Play | None:
        if time.monotonic() < storm["until"]:
            return Status(429, "slow down", headers={"Retry-After": "0.2"})
        if row % 5 == 1 and asked < 2:
            return Drop()
        return Hang() if row % 50 == 7 and not shop.paid[row] and storm["until"] else None

    shop = Shop(fault, latency=0.01)
    asked = {"workers": 16, "store": str(tmp_path / "map.sqlite"), "progress": False}
    with Server(then=shop) as server:
        model = OpenAIModel("tiny-1", base_url=server.url, api_key="none", timeout=0.5)
        agent, data = Agent([], model=model), [f"row {n}" for n in range(200)]
        first = agent.map(data, "Label it.", **asked)
        assert {each["status"] for each in first} == {"done", "failed"}
        storm["until"] = 0.0
        second = agent.map(data, "Label it.", **asked)
    assert {each["status"] for each in second} == {"done"}
    assert shop.paid.total() <= 200 + 16  # on a busy machine a reply may come after its timeout


def test_a_full_disk_ends_the_map_and_loses_only_what_was_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, put, full = Shop(), Store.put, {"after": 20}

    def failing(store: Store, *results: tuple[str, RowResult]) -> None:
        full["after"] -= 1
        if full["after"] < 0:
            with _naming(store._path):
                raise sqlite3.OperationalError("database or disk is full")
        put(store, *results)

    monkeypatch.setattr(Store, "put", failing)
    asked = {"workers": 4, "store": str(tmp_path / "map.sqlite"), "progress": False}
    with Server(then=shop) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        data = [f"row {n}" for n in range(100)]
        with pytest.raises(ConfigurationError, match=r"map\.sqlite"):
            agent.map(data, "Label it.", **asked)
        assert shop.paid.total() <= 20 + 2 * 4
        monkeypatch.setattr(Store, "put", put)
        out = agent.map(data, "Label it.", **asked)
    assert {each["status"] for each in out} == {"done"}
    assert shop.paid.total() <= 100 + 2 * 4


def test_a_small_disk_is_named_before_anything_is_paid(tmp_path: Path) -> None:
    """The kernel's own limit of a file's size stands for a full disk."""
    script = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))\n"
    shop = Shop()
    with Server(then=shop) as server:
        command = [sys.executable, "-c", script + SCRIPT.replace("ROWS", "9"), server.url]
        done = subprocess.run(
            [*command, str(tmp_path / "map.sqlite"), ""], capture_output=True, text=True, cwd=ROOT
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
