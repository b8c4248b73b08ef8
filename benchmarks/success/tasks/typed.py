"""Questions that ask for a value of a type."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.success.checks import left, valued
from benchmarks.success.task import Scene, task


@dataclass
class Reading:
    """A measurement."""

    city: str
    celsius: float


@task("typed answer", "choose")
def fruits_as_a_list() -> Scene:
    def fruits() -> str:
        """Name the fruits that are in stock."""
        return "apples, pears and plums"

    return Scene(
        [fruits],
        ("Which fruits are in stock?",),
        lambda done: valued(done, ["apples", "pears", "plums"]),
        ([("fruits", None), ("final_answer", ["apples", "pears", "plums"])],),
        output_type=list[str],
        liar='["bananas"]',
    )


@task("typed answer", "choose")
def pears_as_a_number() -> Scene:
    stock = {"apples": 17, "pears": 43}

    def stock_of(fruit: str) -> str:
        """Count what is in stock of a fruit.

        Args:
            fruit: The fruit, for example apples
        """
        return f"There are {stock[fruit.lower()]} {fruit}."

    return Scene(
        [stock_of],
        ("How many pears are in stock?",),
        lambda done: valued(done, 43),
        ([("stock_of", "pears"), ("final_answer", 43)],),
        output_type=int,
        liar="77",
    )


@task("typed answer", "report")
def enough_plums() -> Scene:
    asked: list[str] = []

    def stock_of(fruit: str) -> int:
        """Count what is in stock of a fruit.

        Args:
            fruit: The fruit, for example apples
        """
        asked.append(fruit)
        return {"apples": 17, "plums": 8}[fruit.lower()]

    return Scene(
        [stock_of],
        ("Are there more than 5 plums in stock?",),
        lambda done: valued(done, True) or left(bool(asked), True),
        ([("stock_of", "plums"), ("final_answer", True)],),
        output_type=bool,
        liar="true",
    )


@task("typed answer", "report")
def reading_as_a_record() -> Scene:
    def temperature(city: str) -> float:
        """Measure the temperature in a city now, in degrees Celsius.

        Args:
            city: The city's name
        """
        return {"Oslo": -3.5, "Rome": 14.25}[city]

    return Scene(
        [temperature],
        ("How warm is it in Rome?",),
        lambda done: valued(done, Reading("Rome", 14.25)),
        ([("temperature", "Rome"), ("final_answer", {"city": "Rome", "celsius": 14.25})],),
        output_type=Reading,
        liar='{"city": "Rome", "celsius": 99}',
    )


@task("typed answer", "report")
def years_of_floods() -> Scene:
    def floods_of(river: str) -> str:
        """Say in which years a river flooded.

        Args:
            river: The river's name
        """
        return {"Elster": "It flooded in 1998, 2004 and 2013.", "Mulde": "It flooded in 2002."}[
            river
        ]

    return Scene(
        [floods_of],
        ("In which years did the river Elster flood?",),
        lambda done: valued(done, [1998, 2004, 2013]),
        ([("floods_of", "Elster"), ("final_answer", [1998, 2004, 2013])],),
        output_type=list[int],
        liar="[1990, 2010]",
    )
