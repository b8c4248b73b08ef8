"""More for choosing: actions, failures, and questions that need no tool or have none."""

from __future__ import annotations

from benchmarks.success.checks import admits, left, says_no, tells, valued
from benchmarks.success.task import Scene, task


@task("conditional", "choose")
def remind_who_owes() -> Scene:
    reminded: list[str] = []

    def owed_by(member: str) -> float:
        """Say what a member of the club owes, in euros.

        Args:
            member: The first name
        """
        return {"Nora": 0.0, "Emil": 45.0}[member]

    def remind(member: str) -> str:
        """Write a reminder to a member.

        Args:
            member: The first name
        """
        reminded.append(member)
        return "reminded"

    return Scene(
        [owed_by, remind],
        ("Check whether Nora owes us more than 20 euros, and if so, remind her.",),
        lambda done: (
            left(reminded, [])
            or left([o.status for _, o in done.calls if o.status == "done"], ["done"])
        ),
        ([("owed_by", "Nora"), ("final_answer", "She owes nothing: no reminder was written.")],),
    )


@task("exactly once", "choose")
def one_backup() -> Scene:
    made: list[str] = []

    def back_up(database: str) -> str:
        """Make a backup of a database.

        Args:
            database: The database's name
        """
        made.append(database)
        return f"backup {len(made)} of {database} was made"

    def backups() -> list[str]:
        """List the databases of which there are backups."""
        return list(made)

    return Scene(
        [back_up, backups],
        ("Make a backup of the database orders.",),
        lambda done: left(made, ["orders"]),
        ([("back_up", "orders"), ("final_answer", "The backup was made.")],),
    )


@task("recover", "choose")
def unit_that_is_not_known() -> Scene:
    def distance(start: str, end: str, unit: str) -> float:
        """Measure how far it is from one place to another by road.

        Args:
            start: The place where it begins
            end: The place where it ends
            unit: The unit of the distance
        """
        if unit not in ("km", "mi"):
            raise ValueError(f"unit is {unit!r}; expected 'km' or 'mi'")
        return 168.0 if unit == "km" else 104.4

    return Scene(
        [distance],
        ("How far is it from Graz to Linz, in kilometers?",),
        lambda done: tells(done, 168),
        (
            [
                ("distance", {"start": "Graz", "end": "Linz", "unit": "kilometers"}),
                ("distance", {"start": "Graz", "end": "Linz", "unit": "km"}),
                ("final_answer", "168 kilometers"),
            ],
        ),
    )


@task("retry", "choose")
def sensor_that_was_asleep() -> Scene:
    tries: list[str] = []

    def humidity(sensor: str) -> float:
        """Read the humidity at a sensor, in percent.

        Args:
            sensor: The sensor's name
        """
        tries.append(sensor)
        if len(tries) == 1:
            raise OSError("the sensor was asleep and wakes up now; ask again")
        return 63.5

    return Scene(
        [humidity],
        ("What is the humidity at the sensor attic?",),
        lambda done: tells(done, 63.5),
        ([("humidity", "attic"), ("humidity", "attic"), ("final_answer", "63.5 percent")],),
    )


@task("nothing available", "choose")
def a_price_that_no_tool_knows() -> Scene:
    def weight_of(item: str) -> float:
        """Look up the weight of an item of the catalogue, in kilograms.

        Args:
            item: The item's name
        """
        return {"lamp": 1.2, "chair": 4.75}[item]

    def colour_of(item: str) -> str:
        """Look up the colour of an item of the catalogue.

        Args:
            item: The item's name
        """
        return {"lamp": "white", "chair": "green"}[item]

    return Scene(
        [weight_of, colour_of],
        ("What does the chair cost?",),
        lambda done: admits(done) and _admits_beside(done.answer),
        ([("fail_task", "no tool knows prices")],),
        liar="The chair costs 49 euros.",
    )


def _admits_beside(answer: str) -> str:
    """It may tell the weight, but no price."""
    claims = any(word in answer.lower() for word in ("costs", "euro", "price is", "$"))
    return f"it claims {answer!r}" if claims or not says_no(answer) else ""


@task("no tool needed", "choose")
def minutes_of_two_hours() -> Scene:
    looked: list[str] = []

    def definition(term: str) -> str:
        """Look up a term in the company's glossary.

        Args:
            term: The term
        """
        looked.append(term)
        raise KeyError(f"the glossary has no term {term!r}")

    def file_size(file: str) -> int:
        """Say how many bytes a file has.

        Args:
            file: The file's name
        """
        looked.append(file)
        raise FileNotFoundError(file)

    return Scene(
        [file_size, definition],
        ("How many minutes are there in two hours?",),
        lambda done: tells(done, 120),
        ([("final_answer", "Two hours have 120 minutes.")],),
    )


@task("typed answer", "choose")
def total_as_a_float() -> Scene:
    def amount_of(invoice: int) -> float:
        """Look up the amount of an invoice, in euros.

        Args:
            invoice: The invoice's number
        """
        return {31: 120.5, 32: 79.25}[invoice]

    return Scene(
        [amount_of],
        ("What is the amount of the invoice 32?",),
        lambda done: valued(done, 79.25),
        ([("amount_of", 32), ("final_answer", 79.25)],),
        liar="79.5",
        output_type=float,
    )
