"""By no way of calling does code of a model run a tool unasked, and by none is the person asked for a call of their own."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing.pool
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.kernel.ways import RAISING, SETUP, Way, pairs

Names = dict[str, Any]

OFFERS = ("offered", "switched off", "of another agent")


class Person:
    """Gives one answer to every question, and counts them."""

    there = True

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked = 0

    def ask(self, *_: Any) -> str:
        self.asked += 1
        return self.answer


@pytest.fixture(scope="module")
def pools() -> Iterator[Names]:
    """Pools of the person, whose threads run before any code of a model does."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool, multiprocessing.pool.ThreadPool(1) as old:
        pool.submit(len, "").result()
        old.map(len, [""])
        yield {"pool": pool, "old_pool": old}


def namespace(pools: Names) -> Names:
    names: Names = {"__name__": "a_notebook", "ran": [], **pools}
    exec(compile(SETUP + RAISING, "a cell", "exec"), names)
    return names


def run(way: Way, names: Names, offer: str, person: Person, **options: Any) -> CallOutcome:
    """Run the code as that of a model whose agent has the tool, or has it not."""
    drop = Tool.from_function(names["drop"], approve=True)
    box = Toolbox(drop) if offer == "offered" else Toolbox(Tool.from_function(len_of))
    other = Toolbox(drop)
    if offer == "switched off":
        other.disable("drop")
    box.add(python_tool("auto"))
    executor = KernelExecutor(box, names, person=person, **options)
    [outcome] = executor.run([ToolCall("c", "python", {"code": way.code})])
    assert len(other) == 1  # it is there all the time
    return outcome


def len_of(text: str) -> int:
    """How long a text is.

    Args:
        text: The text.
    """
    return len(text)


def tried(way: Way, offer: str, pools: Names) -> list[str]:
    """What is wrong with a way; raises what the person's own call raises."""
    faults = []
    names = namespace(pools)
    ran = names["ran"]
    exec(compile(way.code, "a cell", "exec"), names)
    if not ran:
        return ["the person's own call does not run it"]
    names = namespace(pools)
    ran = names["ran"]
    person = Person("n")
    refused = run(way, names, offer, person)
    if ran:
        faults.append("it ran although it was refused")
    if not person.asked:
        faults.append("nobody was asked")
    if "PermissionError" not in refused.text:
        faults.append(f"the code was not told: {refused.text}")
    person = Person("y")
    run(way, names, offer, person)
    if not ran or not person.asked:
        faults.append("it did not run, or nobody was asked, although the answer was yes")
    ran.clear()
    person = Person("n")
    run(way, names, offer, person, approve="auto")
    if not ran or person.asked:
        faults.append("it did not run, or somebody was asked, although all is allowed")
    ran.clear()
    exec(compile(way.code, "a cell", "exec"), names)
    if not ran or person.asked:
        faults.append("afterwards, the person's own call does not run it, or is asked about")
    return faults


def faults_of(ways: list[Way], pools: Names) -> dict[str, Any]:
    faults: dict[str, Any] = {}
    for number, way in enumerate(ways):
        offer = OFFERS[number % len(OFFERS)]
        try:
            found = tried(way, offer, pools)
        except Exception as error:
            found = [repr(error)]
        if found:
            faults[f"{way}, {offer}"] = found
    return faults


def test_a_sample_of_the_ways_asks_and_only_for_code_of_a_model(pools: Names) -> None:
    sample = pairs()[:: max(len(pairs()) // 220, 1)]
    assert len(sample) >= 200
    assert faults_of(sample, pools) == {}
