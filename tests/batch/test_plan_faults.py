"""Whatever happens to a planned map, no row is lost, and little is made or paid twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from archytas_nb import Agent, Tool
from archytas_nb.batch import plan as planning
from archytas_nb.batch.columns import Columns
from archytas_nb.batch.engine import Map
from archytas_nb.batch.map import questions_of
from archytas_nb.loop.events import AskModel, ModelReply, Usage
from archytas_nb.sandbox import rows as sandbox_rows
from archytas_nb.sandbox.bounds import RowBounds
from tests.batch.planner import Counting, Planner
from tests.batch.test_plan import PROGRAM, PROMPT, cost, data, expected, planned

ROOT = Path(__file__).parent.parent.parent


# ── what a program or a tool does ─────────────────────────────────────────────────────────────────


def test_a_program_that_never_ends_is_ended_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_rows.RowProgram.__init__, "__defaults__", (RowBounds(seconds=0.2),))
    model = Planner("while row.number >= 0:\n    last = 1\nanswer(last)", PROGRAM, single=cost)
    frame = data(40)
    out = planned(frame, model)
    assert "seconds" in model.plans[1][-1]["content"]
    assert list(out["answer"]) == expected(frame)


def test_a_program_that_gives_up_everywhere_is_not_used() -> None:
    model = Planner("give_up('too hard')\nanswer(row.number)")
    out = planned(data(40), model)
    assert set(out["status"]) == {"open"}
    assert not model.singles
    assert len(model.plans) == 4


def test_a_row_whose_tool_fails_is_asked_by_itself() -> None:
    frame = data(60)
    frame.loc[::20, "product"] = "gone"
    model = Planner(PROGRAM, single=cost)
    out = planned(frame, model)
    assert list(out["answer"]) == expected(frame)
    assert list(out.index[out["by"] == "agent"]) == [0, 20, 40]


def test_a_tool_that_works_again_is_called_when_the_map_is_run_again(tmp_path: Path) -> None:
    works = False

    def price_of(product: str) -> float:
        """Get a price.

        Args:
            product: The product
        """
        if not works:
            raise OSError("the database is away")
        return float(len(product))

    frame = data(60)
    tools = [Tool.from_function(price_of, pure=True)]
    model = Planner(PROGRAM)
    options: dict[str, Any] = {"verify": 0, "store": str(tmp_path / "map.sqlite")}
    out = planned(frame, model, tools, **options)
    assert set(out["status"]) == {"open"}
    works = True
    out = planned(frame, model, tools, **options)
    assert list(out["answer"]) == expected(frame)
    assert not model.singles


def test_the_answers_of_a_program_belong_to_the_names_of_its_columns(tmp_path: Path) -> None:
    first = pd.DataFrame({"large": range(100, 130), "small": range(30)})
    second = first.set_axis(["small", "large"], axis=1)
    options: dict[str, Any] = {"verify": 0, "store": str(tmp_path / "map.sqlite")}
    answers = []
    for frame in (first, second):
        model = Planner("answer(row.large - row.small)")
        out = planned(frame, model, prompt="How much larger is {large} than {small}?", **options)
        answers.append(list(out["answer"]))
    assert answers == [[100.0] * 30, [-100.0] * 30]


def test_a_tool_that_hangs_ends_at_its_timeout() -> None:
    released = threading.Event()

    def slow(number: int) -> int:
        """Wait.

        Args:
            number: How long
        """
        while number % 10 == 3 and not released.is_set():
            time.sleep(0.01)
        return number

    frame = data(30)
    tools = [Tool.from_function(slow, pure=True, timeout=0.5)]
    model = Planner("answer(slow(number=row.number))", single=lambda _: "-1.0")
    out = planned(frame, model, tools, verify=0)
    assert [int(each) for each in out["answer"]] == [
        -1 if number % 10 == 3 else number for number in range(30)
    ]


def test_a_frame_is_passed_from_tool_to_tool_as_it_is() -> None:
    prices = pd.DataFrame({"price": [2.0, 3.0]})
    loaded: list[int] = []

    def load() -> pd.DataFrame:
        """Load the prices."""
        loaded.append(1)
        return prices

    def price_at(table: pd.DataFrame, number: int) -> float:
        """Look up a price.

        Args:
            table: The prices
            number: The row
        """
        assert table is prices
        return float(table["price"].iloc[number])

    tools = [Tool.from_function(each, pure=True) for each in (load, price_at)]
    model = Planner("answer(price_at(table=load(), number=row.number % 2))")
    out = planned(data(30), model, tools, verify=0)
    assert list(out["answer"]) == [2.0, 3.0] * 15
    assert len(loaded) == 1


def test_a_worker_that_dies_costs_nothing_and_no_call_is_made_twice() -> None:
    from archytas_nb.sandbox import pool

    workers: list[int] = []
    checkout = pool.checkout

    def noted(**options: Any) -> Any:
        worker = checkout(**options)
        workers.append(worker.worker_pid)
        return worker

    made: Counter[int] = Counter()

    def place(number: int) -> int:
        """Place an order.

        Args:
            number: Its number
        """
        made[number] += 1
        return number

    def killing(number: int) -> int:
        """Look up.

        Args:
            number: A number
        """
        if number % 7 == 5 and number not in killed:
            killed.append(number)
            os.kill(workers[-1], signal.SIGKILL)
        return number

    killed: list[int] = []
    tools = [Tool.from_function(place), Tool.from_function(killing, pure=True)]
    program = "one = place(number=row.number)\nanswer(one + killing(number=row.number))"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "checkout", noted)
        out = planned(data(30), Planner(program), tools, verify=0, workers=1)
    assert list(out["answer"]) == [2 * number for number in range(30)]
    assert killed
    assert set(made.values()) == {1}


# ── side effects ──────────────────────────────────────────────────────────────────────────────────


class Orders:
    """A tool with side effects, which counts its calls for each row."""

    def __init__(self) -> None:
        self.made: Counter[int] = Counter()

    def tools(self, **options: Any) -> list[Tool]:
        def place(number: int) -> str:
            """Place an order.

            Args:
                number: Its number
            """
            self.made[number] += 1
            return f"placed {number}"

        return [Tool.from_function(place, **options)]


class Placing(Planner):
    """An agent that places the order of each row that it is asked about by itself."""

    def complete(self, ask: AskModel) -> Any:
        last = ask.messages[-1]
        if "run once for each row" in str(ask.messages[0]):
            return (yield from super().complete(ask))
        self.singles.append(str(last["content"]))
        number = int(
            str(ask.messages[-1]["content"]).split("order ")[1].split()[0].rstrip(".`)\"'")
        )
        if any("placed" in str(each["content"]) for each in ask.messages[1:]):
            return ModelReply("1.0", usage=Usage(1, 100, 0, 10))
        return ModelReply(
            f"```python\nplace(number={number})\nanswer(1.0)\n```", usage=Usage(1, 9, 0, 1)
        )


def test_side_effects_happen_once_for_each_row_also_where_it_is_repaired_and_compared() -> None:
    orders = Orders()
    programs = (
        "text = place(number=row.number)\nanswer(text)",  # it is of the wrong type
        "text = place(number=row.number)\nanswer(1.0 if text else 0.0)",
    )
    model = Placing(*programs)
    agent = Agent(orders.tools(), model=model, protocol="program")
    out = agent.map(
        data(60), "Place order {number} .", output_type=float, plan=True, store=None, progress=False
    )
    assert set(out["status"]) == {"done"}
    assert out.attrs["plan"]["agreement"]["agree"] == 10
    assert set(orders.made.values()) == {1}
    assert len(orders.made) == 60


def test_side_effects_are_not_repeated_where_a_map_ended_before_its_program_was_repaired(
    tmp_path: Path,
) -> None:
    orders = Orders()
    programs = (
        "text = place(number=row.number)\nanswer(text)",  # it is of the wrong type
        "text = place(number=row.number)\nanswer(1.0 if text else 0.0)",
    )

    class Ending(Placing):
        """Ends the map when it is asked for the second program, or for the first row by itself."""

        endings = 2

        def complete(self, ask: AskModel) -> Any:
            is_plan = "run once for each row" in str(ask.messages[0])
            asked = len(self.plans) if is_plan else 1
            if asked and self.endings == 2 - (not is_plan):
                self.endings -= 1
                raise KeyboardInterrupt
            return (yield from super().complete(ask))

    model = Ending(*programs)
    agent = Agent(orders.tools(), model=model, protocol="program")
    options: dict[str, Any] = {"output_type": float, "plan": True, "progress": False}
    options["store"] = str(tmp_path / "map.sqlite")
    for _ in range(3):
        out = agent.map(data(60), "Place order {number} .", **options)
    assert model.endings == 0
    assert set(out["status"]) == {"done"}
    assert out.attrs["plan"]["agreement"]["agree"] == 10
    assert orders.made == Counter(dict.fromkeys(range(60), 1))


def test_a_row_that_fails_after_a_side_effect_is_asked_by_itself_without_repeating_it() -> None:
    orders = Orders()
    program = (
        "text = place(number=row.number)\n"
        "if row.number % 10 == 4:\n    give_up('no idea')\n"
        "answer(1.0 if text else 0.0)"
    )
    agent = Agent(orders.tools(), model=Placing(program), protocol="program")
    out = agent.map(
        data(60), "Place order {number} .", output_type=float, plan=True, store=None, progress=False,
        verify=0,
    )  # fmt: skip
    assert set(out["status"]) == {"done"}
    assert (out["by"] == "agent").sum() == 6
    assert set(orders.made.values()) == {1}


def test_approval_is_asked_for_before_anything_is_asked_or_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archytas_nb import ConfigurationError
    from archytas_nb.batch import engine

    orders = Orders()
    model = Planner("answer(1.0 if place(number=row.number) else 0.0)")
    with pytest.raises(ConfigurationError, match="approval"):
        planned(data(30), model, orders.tools(approve=True), verify=0)
    assert not model.requests
    prompts: list[str] = []
    monkeypatch.setattr(engine, "confirm", lambda prompt, _person: prompts.append(prompt) or True)
    out = planned(data(30), model, orders.tools(approve=True), verify=0)
    assert set(out["status"]) == {"done"}
    assert len(prompts) == 1
    assert set(orders.made.values()) == {1}


# ── budgets and interrupts ────────────────────────────────────────────────────────────────────────


def test_the_budget_holds_for_the_rows_that_are_asked_one_by_one(tmp_path: Path) -> None:
    program = f"if row.number % 6 == 0:\n    give_up('a multiple')\n{PROGRAM}"
    frame = data(120)
    store = str(tmp_path / "map.sqlite")
    agent = Agent(
        Counting().tools(), model=Planner(program, single=cost, tokens=2000), max_reply_tokens=20
    )
    options: dict[str, Any] = {"output_type": float, "plan": True, "verify": 0, "progress": False}
    out = agent.map(frame, PROMPT, store=store, budget="25000 tokens", workers=1, **options)
    left = (out["status"] != "done").sum()
    assert 0 < left < 20
    assert (out["by"] == "program").sum() >= 100
    assert out["tokens"].sum() + out.attrs["plan"]["tokens"] <= 25_000
    whole = agent.map(frame, PROMPT, store=store, **options)
    assert list(whole["answer"]) == expected(frame)


class Stopping(Counting):
    """Interrupts the map at one of its calls."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.count = 0

    def tools(self, *, pure: bool = False, **options: Any) -> list[Tool]:
        def price_of(product: str, number: int) -> float:
            """Get a price.

            Args:
                product: The product
                number: The row
            """
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
            self.calls.append(number)
            return float(len(product))

        return [Tool.from_function(price_of, pure=pure, **options)]


@pytest.mark.parametrize("at", [1, 15, 40])
def test_an_interrupt_returns_what_is_done_and_the_rest_follows(tmp_path: Path, at: int) -> None:
    frame = data(60)
    program = "answer(price_of(product=row.product, number=row.number) * row.number)"
    stopping = Stopping(at)
    options: dict[str, Any] = {"verify": 0, "store": str(tmp_path / "map.sqlite")}
    model = Planner(program)
    out = planned(frame, model, stopping.tools(), **options)
    assert "open" in set(out["status"])
    whole = planned(frame, model, stopping.tools(), **options)
    assert list(whole["answer"]) == expected(frame)
    assert len(model.plans) == 1
    assert set(stopping.calls) == set(range(60))
    assert len(stopping.calls) <= 60 + 8  # the rows in progress


# ── kill -9 ───────────────────────────────────────────────────────────────────────────────────────

SCRIPT = """
import json, os, sys, time
import pandas as pd
from archytas_nb import Agent, Tool
from archytas_nb.loop.events import ModelReply, Usage
log, store, count = sys.argv[1:]
def note(what):
    with open(log, "a") as file:
        file.write(what + "\\n")
class Model:
    name, protocol, is_scripted, price = "m", "native", True, None
    def complete(self, ask):
        yield from ()
        if "run once for each row" in str(ask.messages[0]):
            note("plan")
            program = "if row.number % 8 == 0:\\n    give_up('no')\\nanswer(read(number=row.number) * 2)"
            return ModelReply(f"```python\\n{program}\\n```", usage=Usage(1, 10, 0, 1))
        number = str(ask.messages[-1]["content"]).split("number ")[1].split()[0]
        note("single " + number)
        time.sleep(0.005)
        return ModelReply(str(2 * int(number)), usage=Usage(1, 10, 0, 1))
def read(number: int) -> int:
    "Read a number.\\n\\n    Args:\\n        number: It"
    note(f"call {number}")
    time.sleep(0.002)
    return number
frame = pd.DataFrame({"number": range(int(count))})
out = Agent([Tool.from_function(read)], model=Model()).map(
    frame, "Double the number {number} .", output_type=int, plan=True, store=store, progress=False)
print(out[["answer", "status", "by", "tokens"]].to_json())
"""


@pytest.mark.parametrize(
    ("count", "kills"), [(120, 2), pytest.param(1500, 20, marks=pytest.mark.slow)]
)
def test_killed_at_any_moment_the_result_is_that_of_an_undisturbed_run(
    tmp_path: Path, count: int, kills: int
) -> None:
    def begin(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, tmp_path / f"{name}.log", tmp_path / name]
        return subprocess.Popen(
            [*map(str, command), str(count)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    undisturbed = begin("calm.sqlite").communicate(timeout=600)[0]
    lines = (tmp_path / "calm.sqlite.log").read_text().splitlines()
    chance = random.Random(kills)
    log = tmp_path / "killed.sqlite.log"
    process = begin("killed.sqlite")
    for kill in range(kills):
        target = len(lines) * (kill + chance.random()) / kills
        while process.poll() is None and _length(log) < target:
            time.sleep(0.002)
        process.kill()
        process.communicate()
        process = begin("killed.sqlite")
    result = process.communicate(timeout=600)[0]
    made = Counter(log.read_text().splitlines())
    assert result == undisturbed
    assert json.loads(result)["answer"] == {str(each): 2 * each for each in range(count)}
    twice = sum(made.values()) - len(made)
    print(f"{count=} {kills=} lost={len(set(lines) - set(made))} {twice=} most={kills * 8}")
    assert set(made) == set(lines)
    assert twice <= kills * 8


def _length(log: Path) -> int:
    if not log.exists():
        return 0
    return len(log.read_text().splitlines())


# ── how often a wrong program is caught ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(("verify", "computed"), [(10, 0.656), (30, 0.965)])
def test_the_rows_that_are_compared_show_a_tenth_of_wrong_rows_as_often_as_computed(
    verify: int, computed: float
) -> None:
    """The draw alone, without maps: what stands in the documentation for 10 and 30 rows."""
    setup = Agent([], model=Planner())._setup.for_rows()
    draws = 100
    caught = 0
    for salt in range(draws):
        items = [{"number": number, "salt": salt} for number in range(200)]
        prompt = "Say {number}."
        questions = questions_of(items, prompt)
        plan = planning.PlannedMap(
            Map(setup, questions, output_type=int),
            prompt,
            questions,
            Columns(items),
            planning.PlanOptions(verify=verify),
        )
        caught += any(items[each]["number"] % 10 == 0 for each in plan._verified)
    assert abs(caught / draws - computed) < 0.13


@pytest.mark.slow
@pytest.mark.parametrize(("verify", "least", "most"), [(10, 0.45, 0.82), (30, 0.85, 1.0)])
def test_a_program_that_is_wrong_in_a_tenth_is_caught_as_often_as_computed(
    verify: int, least: float, most: float
) -> None:
    program = "answer(row.number + 0.0 if row.number % 10 else -1.0)"
    maps = 60
    caught = 0
    for salt in range(maps):
        frame = pd.DataFrame({"number": range(1, 301), "salt": salt})
        model = Planner(program, single=lambda question: question.split("number ")[1].split()[0])
        out = planned(
            frame, model, prompt="Say the number {number} .", verify=verify, max_fallback=0.0
        )
        caught += not out.attrs["plan"]["used"]
    print(f"{verify=} caught={caught}/{maps} computed={1 - 0.9**verify:.2f}")
    assert least <= caught / maps <= most


def test_numbers_are_equal_apart_from_their_last_digits() -> None:
    assert planning.is_equal(0.1 + 0.2, 0.3)
    assert planning.is_equal({"a": [1, 0.3]}, {"a": [1, 0.1 + 0.2]})
    assert not planning.is_equal(38.79, 38.8)
    assert not planning.is_equal(None, 1.0)
    assert not planning.is_equal([1], [1, 2])
