"""How well the right one of many tools is found, what that saves, and whether a model then calls it.

    python -m benchmarks.search                   the share of questions whose tools are among the first, and tokens
    python -m benchmarks.search --model local 20  the first 20 questions asked with 5, 50 and all tools

Questions and functions are those of the Berkeley function-calling leaderboard (``bfcl-eval``): its parts ``multiple``
and ``live_multiple``. A function that several questions have under one name is taken as the first has it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import archytas_nb as nb
from archytas_nb.batch.interval import wilson
from archytas_nb.loop.tokens import json_tokens, message_tokens
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.foreign import tool_of
from archytas_nb.tools.search import FOUND, best
from tests.bfcl import data, rows

PARTS = ("multiple", "live_multiple")
SIZES = (5, 50, 0)  # 0 for all
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


class Task(NamedTuple):
    """A question, the names of its tools, the right one, and its possible arguments."""

    question: str
    offered: tuple[str, ...]
    right: str
    arguments: dict[str, list[Any]]


def schema(given: Any) -> Any:
    """A schema of the leaderboard as JSON schema."""
    if isinstance(given, list):
        return [schema(each) for each in given]
    if not isinstance(given, dict):
        return given
    made = {
        key: schema(value) for key, value in given.items() if key not in ("optional", "default")
    }
    if isinstance(made.get("type"), str):
        made["type"] = _TYPES.get(made["type"], made["type"])
    return made


def legal(name: str) -> str:
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in name
    )[:64]


def read(part: str, called: list[Any]) -> tuple[nb.Toolbox, list[Task]]:
    """All functions of a part as tools, which note their calls, and its questions."""
    answers = {
        row["id"]: row["ground_truth"]
        for row in rows(data() / "possible_answer" / f"BFCL_v4_{part}.json")
    }
    tools = nb.Toolbox()
    tasks = []

    def send_to(name: str) -> Any:
        async def send(given: dict[str, Any]) -> str:
            called.append((name, given))
            return "Done."

        return send

    for row in rows(data() / f"BFCL_v4_{part}.json"):
        for each in row["function"]:
            name = legal(each["name"])
            if name not in tools:
                made = tool_of(
                    name,
                    each["description"],
                    schema(each["parameters"]),
                    send_to(name),
                    approve=False,
                )
                tools.add(made)
        [[right, arguments]] = answers[row["id"]][0].items()
        text = "\n".join(each["content"] for each in row["question"][0] if each["role"] == "user")
        tasks.append(
            Task(
                text,
                tuple(legal(each["name"]) for each in row["function"]),
                legal(right),
                arguments,
            )
        )
    return tools, tasks


def tokens(tools: nb.Toolbox, question: str, most: int | None) -> int:
    """The tokens of the first request."""
    model = ScriptedModel("It is done.", protocol="native")
    nb.Agent(tools, model, namespace={}, max_tools=most, context="none", python="off").run(
        question, progress=False
    )
    [request] = model.asked
    return message_tokens(request.messages) + json_tokens(request.tools)


def found(part: str) -> None:
    """Print how often the right tool is among the first, and what a request costs."""
    tools, tasks = read(part, [])
    by_name = dict(tools)
    started = time.perf_counter()
    ranks = [best(by_name, each.question, 10) for each in tasks]
    seconds = (time.perf_counter() - started) / len(tasks)
    print(
        f"{part}: {len(tools)} tools, {len(tasks)} questions, {seconds * 1000:.0f} ms for a search"
    )
    for most in (1, 3, FOUND, 10):
        hits = sum(task.right in rank[:most] for task, rank in zip(tasks, ranks, strict=True))
        print(f"  among the first {most}: {interval(hits, len(tasks))}")
    sample = random.Random(1).sample(tasks, 20)
    before = tokens(tools, sample[0].question, None)
    after = [tokens(tools, each.question, 20) for each in sample]
    print(
        f"  tokens of the first request: {before:,} with all, {sum(after) / len(after):,.0f} with a search"
    )


def interval(hits: int, of: int) -> str:
    low, high = wilson(hits, of)
    return f"{hits} of {of} ({hits / of:.1%}; 95 %: {low:.1%} to {high:.1%})"


def is_right(task: Task, call: tuple[str, dict[str, Any]]) -> bool:
    """Whether a call has the name and the arguments of the leaderboard's possible answers."""
    name, given = call
    if name != task.right or given.keys() - task.arguments.keys():
        return False
    for key, values in task.arguments.items():
        if key not in given:
            if "" not in values:
                return False
        elif not any(_alike(given[key], each) for each in values):
            return False
    return True


def _alike(value: Any, expected: Any) -> bool:
    if isinstance(value, str) and isinstance(expected, str):
        return value.strip().casefold() == expected.strip().casefold()
    if isinstance(value, dict) and isinstance(expected, dict):
        return all(
            any(_alike(value.get(key), each) for each in of)
            for key, of in expected.items()
            if key in value
        )
    return bool(value == expected)


def asked(model: str, number: int, sizes: Sequence[int], most: int | None) -> None:
    """Print how often a model calls the right tool first, by the number of tools."""
    called: list[Any] = []
    tools, tasks = read("multiple", called)
    names = [*tools]
    for size in sizes:
        right = named = 0
        started = time.perf_counter()
        for place, task in enumerate(tasks[:number]):
            others = [name for name in names if name not in task.offered]
            chosen = {
                *task.offered,
                *random.Random(place).sample(others, max(0, size - len(task.offered))),
            }
            offered = tools.only(*(name for name in names if name in chosen)) if size else tools
            called.clear()
            agent = nb.Agent(
                offered, model, namespace={}, max_steps=2, context="none", max_tools=most
            )
            try:
                agent.run(task.question, progress=False)
            except nb.ArchytasError as error:
                print(f"    {task.right}: {type(error).__name__}: {str(error)[:100]}", flush=True)
            first = called[0] if called else ("", {})
            named += first[0] == task.right
            is_done = is_right(task, first)
            right += is_done
            print(
                f"    {size or len(names)} {task.right}: {'right' if is_done else first}",
                flush=True,
            )
        seconds = (time.perf_counter() - started) / number
        shown = size or len(names)
        print(
            f"  {shown} tools: tool {interval(named, number)}, with arguments {interval(right, number)}, {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("number", nargs="?", type=int, default=20)
    parser.add_argument(
        "--sizes", type=json.loads, default=[*SIZES], help="numbers of tools; 0 for all"
    )
    parser.add_argument("--max-tools", type=json.loads, default=20)
    given = parser.parse_args()
    if given.model:
        asked(given.model, given.number, given.sizes, given.max_tools)
    else:
        for each in PARTS:
            found(each)
