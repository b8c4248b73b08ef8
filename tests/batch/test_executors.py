"""Whatever an executor does with the rows of a map, none is lost, wrong, or silently done twice."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, Tool
from archytas_nb.batch import elsewhere
from archytas_nb.errors import ExecutorError
from archytas_nb.loop.events import AskModel, ModelReply, Usage, WireCall
from tests.batch.executors import TREATMENTS, Faulty, ended

PAID: Counter[int] = Counter()
OPEN_NOW: list[int] = []
MOST: list[int] = [0]
_LOCK = threading.Lock()


def pay(number: int) -> str:
    """Pay.

    Args:
        number: The row
    """
    with _LOCK:
        PAID[number] += 1
        OPEN_NOW.append(number)
        MOST[0] = max(MOST[0], len(OPEN_NOW))
    time.sleep(0.001)
    OPEN_NOW.remove(number)
    return f"paid {number}"


def look(number: int) -> int:
    """Look something up.

    Args:
        number: The row
    """
    return number + 1000


class Model:
    """Calls all tools that there are, then answers with what they gave."""

    name, protocol, price, is_scripted = "m", "native", None, True

    def complete(self, ask: AskModel) -> Iterator[Any]:
        yield from ()
        usage = Usage(1, 10, 0, 5)
        results = [each["content"] for each in ask.messages if each["role"] == "tool"]
        names = [
            each["function"]["name"]
            for each in ask.tools
            if each["function"]["name"] in ("pay", "look")
        ]
        if len(results) < len(names):
            question = next(str(each["content"]) for each in ask.messages if each["role"] == "user")
            number = int(question.split()[-1])
            call = WireCall(names[len(results)], json.dumps({"number": number}))
            return ModelReply("", (call,), finish="tool_calls", usage=usage)
        return ModelReply(" ".join(map(str, results)) or "nothing", usage=usage)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_PAUSE", 0.001)


PURE = Tool.from_function(look, pure=True)
PAYING = Tool.from_function(pay)
ANSWERS = {"look": "{0}", "pay": "paid {1}"}


def answer(number: int, tools: list[Tool]) -> str:
    return " ".join(ANSWERS[each.name].format(number + 1000, number) for each in tools) or "nothing"


@settings(max_examples=25)
@given(
    plan=st.lists(st.sampled_from(TREATMENTS), min_size=1, max_size=12).map(
        lambda plan: [*plan, "run"]
    ),
    tools=st.sampled_from([[PURE], [PAYING], [PURE, PAYING], []]),
    limits=st.sampled_from([{}, {"budget": "10000000 tokens"}]),
    workers=st.integers(1, 6),
    retry=st.booleans(),
)
def test_no_row_is_lost_or_wrong_and_what_may_not_run_twice_does_not(
    plan: list[str], tools: list[Tool], limits: dict[str, Any], workers: int, retry: bool
) -> None:
    PAID.clear()
    numbers = range(14)
    executor = Faulty(plan)
    agent = Agent(tools, model=Model())
    given: dict[str, Any] = {"workers": workers, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        given["store"] = f"{folder}/map.sqlite"
        try:
            out = agent.map(
                [f"row {each}" for each in numbers],
                "Go.",
                executor=executor,
                retry=retry,
                **limits,
                **given,
            )
        except ExecutorError:
            out = [{"status": "unsaid"}] * len(
                numbers
            )  # no row was done; what is known is in the file
        ended([executor])
        paid = dict(PAID)
        first = {number: row["status"] for number, row in zip(numbers, out, strict=True)}
        assert set(first.values()) <= {"done", "failed", "unknown", "open", "unsaid"}
        is_paying = PAYING in tools
        for number, row in zip(numbers, out, strict=True):
            if row["status"] == "done":
                assert row["answer"] == answer(number, tools)
                assert not is_paying or paid[number] >= 1
            if is_paying and not retry:
                assert paid.get(number, 0) <= 1
                assert paid.get(number, 0) == 0 or row["status"] not in ("failed", "open")
            if row["status"] == "unknown":
                assert is_paying
                assert not retry
                assert "pay" in row["error"]
            if row["status"] == "failed":
                assert "executor" in row["error"] or "lost" in row["error"]

        # Unknown rows stay as they are until the person wants them again; nothing else is asked twice.
        again = agent.map([f"row {each}" for each in numbers], "Go.", **limits, **given)
        for number, row in zip(numbers, again, strict=True):
            assert row["status"] == "done" or (
                row["status"] == "unknown" and first[number] in ("unknown", "unsaid")
            )
            if is_paying and first[number] in ("done", "unknown"):
                assert PAID[number] == paid.get(number, 0)
        whole = agent.map([f"row {each}" for each in numbers], "Go.", retry=True, **given)
        assert [row["answer"] for row in whole] == [answer(each, tools) for each in numbers]
