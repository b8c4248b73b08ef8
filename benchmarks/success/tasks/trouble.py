"""Tools that fail: for a reason that their message names, or only for a while."""

from __future__ import annotations

import re

import pandas as pd

from benchmarks.success.checks import left, tells
from benchmarks.success.task import Scene, task

# ── recover ───────────────────────────────────────────────────────────────────────────────────────


@task("recover", "choose")
def day_in_another_format() -> Scene:
    visitors = {"2024/03/05": 812, "2024/03/06": 640}

    def visitors_on(day: str) -> int:
        """Count the visitors of a day.

        Args:
            day: The day
        """
        if not re.fullmatch(r"\d{4}/\d\d/\d\d", day):
            raise ValueError(f"day is {day!r}; expected year/month/day, for example 2023/12/31")
        return visitors[day]

    return Scene(
        [visitors_on],
        ("How many visitors came on 2024-03-05?",),
        lambda done: tells(done, 812),
        (
            [
                ("visitors_on", "2024-03-05"),
                ("visitors_on", "2024/03/05"),
                ("final_answer", "812 came."),
            ],
        ),
    )


@task("recover", "choose")
def column_by_its_full_name() -> Scene:
    table = pd.DataFrame({"weight_kg": [60.0, 82.0, 71.0], "height_cm": [165.0, 181.0, 177.0]})

    def column_max(column: str) -> float:
        """Find the greatest value of a column of the table people.

        Args:
            column: The column's name
        """
        if column not in table:
            raise KeyError(f"no column is named {column!r}; the columns are {list(table.columns)}")
        return float(table[column].max())

    return Scene(
        [column_max],
        ("What is the greatest value of the column weight?",),
        lambda done: tells(done, 82),
        ([("column_max", "weight"), ("column_max", "weight_kg"), ("final_answer", "It is 82.")],),
    )


@task("recover", "report")
def station_by_its_code() -> Scene:
    rain = {"HAM-2": 14.5, "MUC-1": 3.25}

    def rain_at(station: str) -> float:
        """Measure the rain of today at a station, in millimetres.

        Args:
            station: The station
        """
        if station not in rain:
            raise ValueError(
                f"no station is {station!r}; use a code: 'HAM-2' for Hamburg, 'MUC-1' for Munich"
            )
        return rain[station]

    return Scene(
        [rain_at],
        ("How much did it rain today in Hamburg?",),
        lambda done: tells(done, 14.5),
        ([("rain_at", "Hamburg"), ("rain_at", "HAM-2"), ("final_answer", "14.5 millimetres")],),
    )


@task("recover", "report")
def row_that_is_full() -> Scene:
    reserved: list[tuple[str, int]] = []

    def reserve(row: str, seats: int) -> str:
        """Reserve seats in the theatre.

        Args:
            row: The letter of the row
            seats: How many seats
        """
        if row != "P":
            raise ValueError(f"row {row!r} is full; only row 'P' is free")
        reserved.append((row, seats))
        return "reserved"

    return Scene(
        [reserve],
        ("Reserve 2 seats in row M. If that row is full, take another row that is free.",),
        lambda done: left(reserved, [("P", 2)]),
        (
            [
                ("reserve", {"row": "M", "seats": 2}),
                ("reserve", {"row": "P", "seats": 2}),
                ("final_answer", "Two seats in row P."),
            ],
        ),
    )


@task("recover", "report")
def column_that_holds_text() -> Scene:
    listings = pd.DataFrame({"price": ["12.5", "9.25", "18.0"], "rooms": [2, 1, 3]})

    def column_mean(column: str) -> float:
        """Mean of a column of the table listings.

        Args:
            column: The column's name
        """
        if not pd.api.types.is_numeric_dtype(listings[column]):
            raise TypeError(
                f"the column {column!r} holds text; turn it into numbers first, with to_numbers"
            )
        return float(listings[column].mean())

    def to_numbers(column: str) -> str:
        """Turn the text in a column of the table listings into numbers.

        Args:
            column: The column's name
        """
        listings[column] = pd.to_numeric(listings[column])
        return f"the column {column} holds numbers now"

    return Scene(
        [column_mean, to_numbers],
        ("What is the mean of the column price in the table listings?",),
        lambda done: tells(done, 13.25),
        (
            [
                ("column_mean", "price"),
                ("to_numbers", "price"),
                ("column_mean", "price"),
                ("final_answer", "The mean is 13.25."),
            ],
        ),
    )


# ── retry ─────────────────────────────────────────────────────────────────────────────────────────


@task("retry", "choose")
def connection_that_comes_back() -> Scene:
    tries: list[str] = []

    def count_records(dataset: str) -> int:
        """Ask the server how many records a dataset has.

        Args:
            dataset: The dataset's name
        """
        tries.append(dataset)
        if len(tries) == 1:
            raise ConnectionError("the connection was reset; try again")
        return 5120

    return Scene(
        [count_records],
        ("How many records has the dataset rivers?",),
        lambda done: tells(done, 5120),
        (
            [
                ("count_records", "rivers"),
                ("count_records", "rivers"),
                ("final_answer", "5120 records"),
            ],
        ),
    )


@task("retry", "choose")
def file_that_was_locked() -> Scene:
    tries: list[str] = []
    saved: list[str] = []

    def save(file: str) -> str:
        """Save the notebook's results in a file.

        Args:
            file: The file's name
        """
        tries.append(file)
        if len(tries) == 1:
            raise TimeoutError("the file is locked by another program for a moment; try again")
        saved.append(file)
        return "saved"

    return Scene(
        [save],
        ("Save the results in the file summary.csv.",),
        lambda done: left(saved, ["summary.csv"]),
        ([("save", "summary.csv"), ("save", "summary.csv"), ("final_answer", "They are saved.")],),
    )


@task("retry", "report")
def server_that_is_busy_twice() -> Scene:
    tries: list[str] = []

    def balance_of(account: str) -> float:
        """Ask the bank for the balance of an account, in euros.

        Args:
            account: The account's name
        """
        tries.append(account)
        if len(tries) <= 2:
            raise TimeoutError("the server is busy; please try again")
        return 1834.5

    return Scene(
        [balance_of],
        ("What is the balance of the account travel?",),
        lambda done: tells(done, 1834.5),
        ([*[("balance_of", "travel")] * 3, ("final_answer", "1834.50 euros")],),
    )


@task("retry", "report")
def printer_that_warms_up() -> Scene:
    tries: list[str] = []
    printed: list[str] = []

    def print_page(document: str) -> str:
        """Print a document.

        Args:
            document: The document's name
        """
        tries.append(document)
        if len(tries) == 1:
            raise RuntimeError("the printer is warming up, nothing was printed; try again")
        printed.append(document)
        return "printed"

    return Scene(
        [print_page],
        ("Print the document agenda.",),
        lambda done: left(printed, ["agenda"]),
        ([("print_page", "agenda"), ("print_page", "agenda"), ("final_answer", "It is printed.")],),
    )


@task("retry", "report")
def map_service_that_times_out() -> Scene:
    tries: list[str] = []

    def elevation_of(village: str) -> int:
        """Ask the map service for the elevation of a village, in metres above the sea.

        Args:
            village: The village's name
        """
        tries.append(village)
        if len(tries) == 1:
            raise TimeoutError("the map service did not answer in time; try again")
        return 1482

    return Scene(
        [elevation_of],
        ("How high above the sea is the village Steinegg?",),
        lambda done: tells(done, 1482),
        (
            [
                ("elevation_of", "Steinegg"),
                ("elevation_of", "Steinegg"),
                ("final_answer", "1482 metres"),
            ],
        ),
    )
