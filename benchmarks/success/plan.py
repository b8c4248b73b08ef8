"""Right rows, seconds and requests of planned maps with a real model, beside asking row by row.

python -m benchmarks.success.plan                          the model that `%agent` would take, all tables
python -m benchmarks.success.plan loans --single 12        one table; 12 rows are asked row by row
python -m benchmarks.success.plan --model gpt-6-luna --json out.json

A table has 200 rows, and the right answers are computed here. Row by row, a random sample of the rows is asked, the same
in every run; its seconds and requests are extrapolated to all rows.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import archytas_nb as nb
from archytas_nb.loop.events import AskModel, ModelReply

ROWS = 200
SEED = 33


@dataclass
class Scene:
    """A table with its tools and the right answers.

    Attributes:
        frame: The rows.
        prompt: What to do with each.
        output_type: The type of the answers.
        tools: The tools.
        expected: The right answer of each row.
        has_done: Whether the tools did for a row what they should have done, no more and no less.
    """

    frame: pd.DataFrame
    prompt: str
    output_type: type
    tools: Sequence[Any]
    expected: Sequence[Any]
    has_done: Callable[[int], bool] = lambda row: True


# ── lookup and arithmetic ─────────────────────────────────────────────────────────────────────────


def parcels() -> Scene:
    """Lookup and arithmetic: the price of a parcel."""
    chance = random.Random(SEED)
    rates = {"Kestrel": 4.2, "Osprey": 5.1, "Heron": 3.6, "Merlin": 7.75}
    surcharges = {1: 0.0, 2: 1.5, 3: 4.25, 4: 9.0}

    @nb.tool(pure=True)
    def rate_per_kg(carrier: str) -> float:
        """Look up what a carrier charges for a kilogram, in EUR.

        Args:
            carrier: The name of the carrier
        """
        return rates[carrier]

    @nb.tool(pure=True)
    def zone_surcharge(zone: int) -> float:
        """Look up the fixed surcharge of a zone, in EUR.

        Args:
            zone: The number of the zone
        """
        return surcharges[zone]

    frame = pd.DataFrame(
        {
            "carrier": [chance.choice(list(rates)) for _ in range(ROWS)],
            "zone": [chance.choice(list(surcharges)) for _ in range(ROWS)],
            "grams": [chance.randrange(120, 9000) for _ in range(ROWS)],
        }
    )
    expected = [
        each["grams"] / 1000 * rates[each["carrier"]] + surcharges[each["zone"]]
        for each in frame.to_dict("records")
    ]
    prompt = (
        "A parcel of {grams} grams goes to zone {zone} with {carrier}. What does it cost in EUR: "
        "its kilograms times the carrier's rate, plus the surcharge of the zone?"
    )
    return Scene(frame, prompt, float, [rate_per_kg, zone_surcharge], expected)


# ── a condition with a side effect ────────────────────────────────────────────────────────────────


def loans() -> Scene:
    """A condition with a side effect: a reminder for each loan that is late."""
    chance = random.Random(SEED + 1)
    late = [max(0, chance.randrange(-30, 60)) for _ in range(ROWS)]
    sent: dict[str, list[int]] = {}

    @nb.tool(pure=True)
    def days_late(loan: str) -> int:
        """Look up by how many days a loan is late; 0 if it is not.

        Args:
            loan: The number of the loan, such as L-17
        """
        return late[int(loan.removeprefix("L-"))]

    @nb.tool
    def send_reminder(loan: str, days: int) -> str:
        """Send a reminder to the reader who has not returned a loan.

        Args:
            loan: The number of the loan, such as L-17
            days: By how many days it is late
        """
        sent.setdefault(loan, []).append(days)
        return f"A reminder for {loan} was sent."

    frame = pd.DataFrame(
        {
            "loan": [f"L-{number}" for number in range(ROWS)],
            "reader": [chance.choice(["Ada", "Ben", "Cleo", "Dov"]) for _ in range(ROWS)],
        }
    )
    expected = [each > 14 for each in late]

    def has_done(row: int) -> bool:
        reminders = sent.get(f"L-{row}", [])
        return reminders == ([late[row]] if expected[row] else [])

    prompt = (
        "If the loan {loan} of {reader} is more than 14 days late, send a reminder for it and "
        "answer true. Otherwise send nothing and answer false."
    )
    return Scene(frame, prompt, bool, [days_late, send_reminder], expected, has_done)


# ── free text with a judgement ────────────────────────────────────────────────────────────────────

_NOISE = (
    "The lift hummed", "A dog barked", "Somebody practised the trumpet", "The bar next door thumped", "Builders drilled",
    "The pipes knocked", "Children shouted in the corridor", "A fan rattled", "Trams screeched", "The neighbours argued",
)  # fmt: skip
_UNTIL = (
    "until three in the morning.", "and I hardly slept.", "all night long.", "right above our heads.", "from six o'clock on.",
    "so loudly that we moved out.", "through the wall.", "while the baby tried to sleep.", "every single night.",
    "and nobody stopped it.",
)  # fmt: skip
_OTHER = (
    "The breakfast was cold", "The towels were grey", "The view was splendid", "Our key did not work", "The bill was wrong",
    "The pillows were too soft", "The staff were kind", "The shower dripped on us", "The room smelled of paint",
    "The pool was closed",
)  # fmt: skip
_AND = (
    "on the first day.", "and we told the desk.", "as the brochure had said.", "when we arrived.", "for the whole week.",
    "although we had paid in advance.", "on both mornings.", "which surprised us.", "as it was last year.", "again.",
)  # fmt: skip


def comments() -> Scene:
    """Free text with a judgement: a refund for guests who complain about noise."""
    chance = random.Random(SEED + 2)
    rates = {"attic": 64.0, "garden": 88.0, "tower": 120.0}
    noisy = [(f"{one} {other}", True) for one in _NOISE for other in _UNTIL]
    others = [(f"{one} {other}", False) for one in _OTHER for other in _AND]
    texts = [*noisy, *others]
    chance.shuffle(texts)

    @nb.tool(pure=True)
    def rate_of(room: str) -> float:
        """Look up the rate of a room for a night, in EUR.

        Args:
            room: The name of the room
        """
        return rates[room]

    rooms = [chance.choice(list(rates)) for _ in texts]
    frame = pd.DataFrame({"comment": [text for text, _ in texts], "room": rooms})
    expected = [
        rates[room] / 4 if is_noisy else 0.0
        for (_, is_noisy), room in zip(texts, rooms, strict=True)
    ]
    prompt = (
        "A guest of the room {room} wrote: {comment} If the guest complains about noise, the "
        "refund is a quarter of the rate of the room, otherwise 0. How large is the refund?"
    )
    return Scene(frame, prompt, float, [rate_of], expected)


TABLES: dict[str, Callable[[], Scene]] = {
    each.__name__: each for each in (parcels, loans, comments)
}


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────


class Counted:
    """A model whose requests are counted."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        """Ask, and count."""
        self.requests += 1
        reply: ModelReply = yield from self._model.complete(ask)
        return reply


@dataclass
class Measured:
    """The measurements of a way of asking.

    Attributes:
        table, way: Which table, and how it was asked.
        rows, right: How many rows were asked, and how many were right.
        seconds, requests, tokens: What they took.
        plan: What is known of the plan.
        wrong: Some rows that were not right, with what they gave.
    """

    table: str
    way: str
    rows: int
    right: int
    seconds: float
    requests: int
    tokens: int
    plan: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """A row of the table of results, with seconds and requests for all rows."""
        times = ROWS / self.rows
        extrapolated = f" (from {self.rows} rows)" if times > 1 else ""
        return (
            f"| {self.table} | {self.way} | {self.right}/{self.rows} | {self.seconds * times:,.0f}"
            f"{extrapolated} | {self.requests * times:,.0f} | {self.tokens * times:,.0f} |"
        )


def measured(name: str, model: Any, rows: Sequence[int], **options: Any) -> Measured:
    """Map some rows of a table, and compare the answers with the right ones."""
    scene = TABLES[name]()
    counted = Counted(model)
    agent = nb.Agent(scene.tools, model=counted, context="none")
    frame = scene.frame.iloc[list(rows)]
    started = time.perf_counter()
    out = agent.map(
        frame, scene.prompt, output_type=scene.output_type, workers=1, store=None, **options,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    right = 0
    wrong = []
    for row, answer, error in zip(rows, out["answer"], out["error"], strict=True):
        expected = scene.expected[row]
        is_right = not pd.isna(answer) and abs(float(answer) - float(expected)) < 0.005
        if is_right and scene.has_done(row):
            right += 1
        else:
            wrong.append(f"{frame.loc[row].to_dict()}: {answer!r} {error}, expected {expected!r}")
    plan = out.attrs.get("plan", {})
    tokens = int(out["tokens"].sum()) + plan.get("tokens", 0)
    way = "planned" if options.get("plan") else "row by row"
    return Measured(
        name, way, len(rows), right, seconds, counted.requests, tokens, plan, wrong[:10]
    )


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.success.plan", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help=", ".join(TABLES))
    parser.add_argument(
        "--model", help="a name that %%agent --model takes; what %%agent would choose by default"
    )
    parser.add_argument("--single", type=int, default=12, help="rows that are asked row by row")
    parser.add_argument(
        "--verify", type=int, default=0, help="rows that a plan is compared on before it is used"
    )
    parser.add_argument(
        "--auto",
        action="store_true",
        help="ask row by row where a plan is not used; by default, such rows count as not right",
    )
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args(arguments)
    model = nb.Agent([], model=given.model).chosen_model()
    results = []
    for name in given.tables or TABLES:
        chance = random.Random(SEED)
        sample = sorted(chance.sample(range(ROWS), given.single))
        ways: list[tuple[Sequence[int], dict[str, Any]]] = [
            (range(ROWS), {"plan": "auto" if given.auto else True, "verify": given.verify}),
            (sample, {}),
        ]
        for rows, options in ways:
            if not rows:
                continue
            found = measured(name, model, rows, **options)
            results.append(found)
            print(found.line, *found.wrong, sep="\n  ", flush=True)
            if found.plan:
                print(json.dumps(found.plan, indent=1), flush=True)
            if given.json:
                text = json.dumps([asdict(each) for each in results], indent=1)
                given.json.write_text(text + "\n", encoding="utf-8")
    print(
        "\n| table | way | right | seconds | requests | tokens |\n| --- | --- | --- | ---: | ---: | ---: |"
    )
    print(*(each.line for each in results), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
