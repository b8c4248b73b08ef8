"""Several arguments: defaults, lists, enums, and tables that are passed by the name of their variable."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from benchmarks.success.checks import left, tells
from benchmarks.success.task import Scene, task

Currency = Literal["EUR", "USD", "GBP"]


@task("arguments", "choose")
def table_on_the_terrace() -> Scene:
    booked: list[tuple[Any, ...]] = []

    def book_table(
        day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
        time: str,
        guests: int,
        terrace: bool = False,
    ) -> str:
        """Book a table in the restaurant.

        Args:
            day: The day of this week
            time: The time, for example 18:00
            guests: How many people come
            terrace: Whether the table is outside
        """
        booked.append((day, time, guests, terrace))
        return "booked"

    return Scene(
        [book_table],
        ("Book a table for 4 people on Friday at 19:30, outside on the terrace.",),
        lambda done: left(booked, [("Friday", "19:30", 4, True)]),
        (
            [
                ("book_table", {"day": "Friday", "time": "19:30", "guests": 4, "terrace": True}),
                ("final_answer", "It is booked."),
            ],
        ),
    )


@task("arguments", "choose")
def median_of_a_list() -> Scene:
    asked: list[list[float]] = []

    def median(values: list[float]) -> float:
        """Compute the median of numbers.

        Args:
            values: The numbers
        """
        asked.append(values)
        ordered = sorted(values)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    return Scene(
        [median],
        ("What is the median of 31, 4.5, 18, 77 and 22.5?",),
        lambda done: tells(done, 22.5) or left(asked[:1], [[31, 4.5, 18, 77, 22.5]]),
        ([("median", [31, 4.5, 18, 77, 22.5]), ("final_answer", "The median is 22.5.")],),
    )


@task("arguments", "choose")
def mean_of_a_named_table() -> Scene:
    sales = pd.DataFrame({"price": [10.0, 20.0], "rain": [99.0, 99.0]})
    weather = pd.DataFrame({"rain": [3.0, 8.5, 1.25], "wind": [20.0, 31.0, 12.0]})

    def column_mean(table: pd.DataFrame, column: str) -> float:
        """Mean of a column of a table.

        Args:
            table: The table
            column: The column's name
        """
        return float(table[column].mean())

    return Scene(
        [column_mean],
        ("What is the mean of the column rain in the table weather?",),
        lambda done: tells(done, 4.25),
        (
            [
                ("column_mean", {"table": "weather", "column": "rain"}),
                ("final_answer", "It is 4.25."),
            ],
        ),
        namespace={"sales": sales, "weather": weather},
    )


@task("arguments", "report")
def money_in_another_currency() -> Scene:
    rates = {"EUR": 1.0, "USD": 1.25, "GBP": 0.8}

    def convert(amount: float, source: Currency, target: Currency, fee: float = 0.0) -> float:
        """Convert an amount of money.

        Args:
            amount: How much
            source: The currency that it is in
            target: The currency that is wanted
            fee: What the bank keeps, in the source currency
        """
        return round((amount - fee) / rates[source] * rates[target], 2)

    return Scene(
        [convert],
        ("How many US dollars do I get for 310 euros, when the bank keeps a fee of 10 euros?",),
        lambda done: tells(done, 375),
        (
            [
                ("convert", {"amount": 310, "source": "EUR", "target": "USD", "fee": 10}),
                ("final_answer", "You get 375 dollars."),
            ],
        ),
    )


@task("arguments", "report")
def labels_on_items() -> Scene:
    labels: dict[int, str] = {}
    used: list[str] = []

    def put_label(
        item_ids: list[int], label: Literal["fragile", "heavy", "cold"], note: str = ""
    ) -> str:
        """Put a label on items of the store.

        Args:
            item_ids: The numbers of the items
            label: The label
            note: A note for the store
        """
        used.append(label)
        labels.update(dict.fromkeys(item_ids, label))
        return f"{len(item_ids)} items labelled"

    return Scene(
        [put_label],
        ("Put the label fragile on the items 3, 8 and 11.",),
        lambda done: left(labels, {3: "fragile", 8: "fragile", 11: "fragile"}),
        (
            [
                ("put_label", {"item_ids": [3, 8, 11], "label": "fragile"}),
                ("final_answer", "All three are done."),
            ],
        ),
    )


@task("arguments", "report")
def long_trips_of_a_named_table() -> Scene:
    trips = pd.DataFrame(
        {"distance": [3.1, 14.0, 12.5, 8.8, 40.2, 11.9], "passengers": [1, 2, 1, 4, 2, 3]}
    )
    stations = pd.DataFrame({"distance": [1.0, 2.0], "name": ["North", "South"]})

    def count_above(table: pd.DataFrame, column: str, limit: float) -> int:
        """Count the rows of a table whose value in a column is above a limit.

        Args:
            table: The table
            column: The column's name
            limit: The limit
        """
        return int((table[column] > limit).sum())

    return Scene(
        [count_above],
        ("How many rows of the table trips have a distance above 12?",),
        lambda done: tells(done, 3),
        (
            [
                ("count_above", {"table": "trips", "column": "distance", "limit": 12}),
                ("final_answer", "3 of them."),
            ],
        ),
        namespace={"stations": stations, "trips": trips},
    )


@task("arguments", "report")
def split_for_training() -> Scene:
    splits: list[tuple[Any, ...]] = []

    def split_dataset(dataset: str, test_share: float, stratify_by: str = "", seed: int = 0) -> str:
        """Split a dataset into a part for training and a part for testing.

        Args:
            dataset: The dataset's name
            test_share: The share of the rows that is for testing, for example 0.5 for one half
            stratify_by: The column whose values are to be as frequent in both parts
            seed: The seed of the random numbers
        """
        splits.append((dataset, test_share, stratify_by, seed))
        return f"{dataset} is split"

    return Scene(
        [split_dataset],
        (
            "Split the dataset wine, stratified by the column grade: 20 percent for testing. Use the seed 7.",
        ),
        lambda done: left(splits, [("wine", 0.2, "grade", 7)]),
        (
            [
                (
                    "split_dataset",
                    {"dataset": "wine", "test_share": 0.2, "stratify_by": "grade", "seed": 7},
                ),
                ("final_answer", "It is split."),
            ],
        ),
    )
