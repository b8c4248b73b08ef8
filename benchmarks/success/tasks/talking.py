"""Questions that need no tool, or that need the conversation before them."""

from __future__ import annotations

from benchmarks.success.checks import holds, left, tells
from benchmarks.success.task import Scene, task

# ── no tool needed ────────────────────────────────────────────────────────────────────────────────


@task("no tool needed", "choose")
def days_of_a_week() -> Scene:
    deleted: list[str] = []

    def delete_table(name: str) -> str:
        """Delete a table.

        Args:
            name: The table's name
        """
        deleted.append(name)
        return "deleted"

    def count_rows(name: str) -> int:
        """Count the rows of a table.

        Args:
            name: The table's name
        """
        return 100

    return Scene(
        [count_rows, delete_table],
        ("How many days does a week have?",),
        lambda done: left(deleted, []) or tells(done, 7),
        ([("final_answer", "A week has seven days.")],),
    )


@task("no tool needed", "choose")
def keyword_of_a_function() -> Scene:
    ran: list[str] = []

    def run_query(query: str) -> str:
        """Run a query on the data base.

        Args:
            query: The query in SQL
        """
        ran.append(query)
        return "3 rows"

    return Scene(
        [run_query],
        ("Which keyword begins the definition of a function in Python?",),
        lambda done: left(ran, []) or holds(done, "def"),
        ([("final_answer", "def")],),
    )


@task("no tool needed", "report")
def capital_of_france() -> Scene:
    booked: list[str] = []

    def book_flight(city: str) -> str:
        """Book a flight.

        Args:
            city: Where to
        """
        booked.append(city)
        return "booked"

    def temperature(city: str) -> float:
        """Measure the temperature in a city now.

        Args:
            city: The city's name
        """
        return 12.0

    return Scene(
        [temperature, book_flight],
        ("What is the capital of France?",),
        lambda done: left(booked, []) or holds(done, "Paris"),
        ([("final_answer", "Paris")],),
    )


@task("no tool needed", "report")
def a_little_sum() -> Scene:
    sent: list[str] = []

    def send_mail(to: str, text: str) -> str:
        """Send a mail.

        Args:
            to: Who gets it
            text: What it says
        """
        sent.append(to)
        return "sent"

    return Scene(
        [send_mail],
        ("What is 7 times 6?",),
        lambda done: left(sent, []) or tells(done, 42),
        ([("final_answer", "It is 42.")],),
    )


@task("no tool needed", "report")
def meaning_of_csv() -> Scene:
    uploaded: list[str] = []

    def upload(file: str) -> str:
        """Upload a file to the public archive.

        Args:
            file: The file's name
        """
        uploaded.append(file)
        return "uploaded"

    def size_of(file: str) -> int:
        """Look up the size of a file, in kilobytes.

        Args:
            file: The file's name
        """
        return 310

    return Scene(
        [size_of, upload],
        ("What do the letters CSV stand for, as in a CSV file?",),
        lambda done: left(uploaded, []) or holds(done, "comma", "separated"),
        ([("final_answer", "Comma-separated values")],),
    )


# ── follow-up ─────────────────────────────────────────────────────────────────────────────────────


@task("follow-up", "choose")
def the_same_for_apples() -> Scene:
    def stock_of(fruit: str) -> int:
        """Count what is in stock of a fruit.

        Args:
            fruit: The fruit, for example plums
        """
        return {"apples": 17, "pears": 43, "plums": 8}[fruit.lower()]

    return Scene(
        [stock_of],
        ("How many pears are in stock?", "And apples?"),
        lambda done: tells(done, 17),
        (
            [("stock_of", "pears"), ("final_answer", "There are 43 pears.")],
            [("stock_of", "apples"), ("final_answer", "There are 17 apples.")],
        ),
    )


@task("follow-up", "choose")
def tickets_to_there() -> Scene:
    booked: list[tuple[str, int]] = []

    def ticket_price(city: str) -> float:
        """Look up the price of a train ticket, in euros.

        Args:
            city: Where to
        """
        return {"Graz": 38.5, "Linz": 24.0}[city]

    def book_tickets(city: str, count: int) -> str:
        """Book train tickets.

        Args:
            city: Where to
            count: How many
        """
        booked.append((city, count))
        return "booked"

    return Scene(
        [ticket_price, book_tickets],
        ("What does a train ticket to Graz cost?", "Book two of them."),
        lambda done: left(booked, [("Graz", 2)]),
        (
            [("ticket_price", "Graz"), ("final_answer", "38.50 euros")],
            [("book_tickets", {"city": "Graz", "count": 2}), ("final_answer", "Both are booked.")],
        ),
    )


@task("follow-up", "report")
def phone_of_the_manager() -> Scene:
    def manager_of(branch: str) -> str:
        """Name the manager of a branch.

        Args:
            branch: The city of the branch
        """
        return {"Vienna": "Selma", "Basel": "Otto"}[branch]

    def phone_of(person: str) -> int:
        """Look up the phone number of a person.

        Args:
            person: The first name
        """
        return {"Selma": 7713, "Otto": 7120}[person]

    return Scene(
        [manager_of, phone_of],
        ("Who is the manager of the branch in Vienna?", "What is her phone number?"),
        lambda done: tells(done, 7713),
        (
            [("manager_of", "Vienna"), ("final_answer", "Selma")],
            [("phone_of", "Selma"), ("final_answer", "Her number is 7713.")],
        ),
    )


@task("follow-up", "report")
def one_more_of_the_same() -> Scene:
    ordered: list[tuple[str, int]] = []

    def order(item: str, count: int) -> str:
        """Order something for the office.

        Args:
            item: What, in the plural, for example pencils
            count: How many
        """
        ordered.append((item, count))
        return f"ordered: {count} {item}"

    return Scene(
        [order],
        ("Order 3 lamps for the office.", "Now order 2 chairs as well."),
        lambda done: left(ordered, [("lamps", 3), ("chairs", 2)]),
        (
            [
                ("order", {"item": "lamps", "count": 3}),
                ("final_answer", "Three lamps are ordered."),
            ],
            [("order", {"item": "chairs", "count": 2}), ("final_answer", "And two chairs.")],
        ),
    )


@task("follow-up", "report")
def houses_sold_there() -> Scene:
    def mean_price(town: str) -> int:
        """Mean price of the houses that were sold in a town, in euros.

        Args:
            town: The town's name
        """
        return {"Delft": 412000, "Leiden": 455000}[town]

    def count_sold(town: str) -> int:
        """Count the houses that were sold in a town.

        Args:
            town: The town's name
        """
        return {"Delft": 214, "Leiden": 365}[town]

    return Scene(
        [mean_price, count_sold],
        ("What is the mean price of a house in Leiden?", "And how many houses were sold there?"),
        lambda done: tells(done, 365),
        (
            [("mean_price", "Leiden"), ("final_answer", "It is 455,000 euros.")],
            [("count_sold", "Leiden"), ("final_answer", "365 houses were sold.")],
        ),
    )
