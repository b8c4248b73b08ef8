"""For reporting: comparisons over several calls."""

from __future__ import annotations

from benchmarks.success.checks import consulted, entry_of, first_fault, left, names, tells
from benchmarks.success.task import Finished, Scene, task


@task("compare", "report")
def glacier_that_shrank_more() -> Scene:
    lost = {"Hornbreen": 61.0, "Tellbreen": 84.5, "Foxfonna": 12.0}
    measured: list[str] = []

    def retreat_of(glacier: str) -> float:
        """How far the front of a glacier moved back last year.

        Args:
            glacier: The glacier's name

        Returns:
            float: Metres
        """
        glacier = entry_of(lost, glacier, "glacier")
        measured.append(glacier)
        return lost[glacier]

    return Scene(
        [retreat_of],
        (
            (
                "Hornbreen or Tellbreen - which of the two glaciers retreated further last year? Only the "
                "name, please."
            ),
        ),
        lambda done: first_fault(
            names(done, "Tellbreen", "Hornbreen", "Foxfonna"),
            consulted(measured, "Hornbreen", "Tellbreen"),
        ),
        (
            [
                ("retreat_of", "Hornbreen"),
                ("retreat_of", "Tellbreen"),
                ("final_answer", "Tellbreen"),
            ],
        ),
        liar="Tellbreen",
    )


@task("compare", "report")
def washer_that_is_done_first() -> Scene:
    remaining = {"A": 37, "B": 22, "C": 9}
    reserved: list[str] = []

    def minutes_left(machine: str) -> int:
        """How long a washing machine of the laundry still runs.

        Args:
            machine: The letter on the machine

        Returns:
            int: Minutes
        """
        return remaining[entry_of(remaining, machine, "machine")]

    def reserve(machine: str) -> str:
        """Reserve a washing machine as soon as it is done.

        Args:
            machine: The letter on the machine

        Returns:
            str: A confirmation
        """
        reserved.append(entry_of(remaining, machine, "machine"))
        return "reserved for you"

    def check(done: Finished) -> str:
        asked = {
            str(call.input)
            for call, out in done.calls
            if call.name == "minutes_left" and out.status == "done"
        }
        return left(reserved, ["C"]) or (
            "" if len(asked) >= 3 else f"{len(asked)} machines were looked at, expected 3"
        )

    return Scene(
        [minutes_left, reserve],
        (
            (
                "The washing machines A, B and C are all running. Check how long each still takes and reserve "
                "the one that finishes first."
            ),
        ),
        check,
        (
            [
                ("minutes_left", "A"),
                ("minutes_left", "B"),
                ("minutes_left", "C"),
                ("reserve", "C"),
                ("final_answer", "C is reserved, it is done in 9 minutes."),
            ],
        ),
        liar="I reserved machine C.",
    )


@task("compare", "report")
def run_with_the_lowest_loss() -> Scene:
    losses = {"amber": 0.412, "cobalt": 0.287, "jade": 0.335}
    asked: list[str] = []

    def list_runs() -> list[str]:
        """List the training runs of this project.

        Returns:
            list[str]: The names of the runs
        """
        return list(losses)

    def validation_loss(run: str) -> float:
        """Final validation loss of a training run.

        Args:
            run: The name of the run

        Returns:
            float: The loss; smaller is better
        """
        run = entry_of(losses, run, "run")
        asked.append(run)
        return losses[run]

    return Scene(
        [list_runs, validation_loss],
        (
            "Which of our training runs has the lowest validation loss? Answer with just the name of the run.",
        ),
        lambda done: first_fault(
            names(done, "cobalt", "amber", "jade"), consulted(asked, "amber", "cobalt", "jade")
        ),
        (
            [
                ("list_runs", {}),
                ("validation_loss", "amber"),
                ("validation_loss", "cobalt"),
                ("validation_loss", "jade"),
                ("final_answer", "cobalt"),
            ],
        ),
        liar="cobalt",
    )


@task("compare", "report")
def power_in_two_months() -> Scene:
    used = {"January": 1893, "April": 1140, "July": 736}

    def electricity_used(month: str) -> int:
        """Electricity that the school used in a month of this year.

        Args:
            month: The month's name in English

        Returns:
            int: Kilowatt-hours
        """
        return used[entry_of(used, month, "month")]

    def difference(first: float, second: float) -> float:
        """By how much two numbers differ.

        Args:
            first: One number
            second: The other number

        Returns:
            float: The difference, never negative
        """
        return abs(first - second)

    return Scene(
        [electricity_used, difference],
        ("How many more kilowatt-hours did the school use in January than in July?",),
        lambda done: tells(done, 1157),
        (
            [
                ("electricity_used", "January"),
                ("electricity_used", "July"),
                ("difference", {"first": 1893, "second": 736}),
                ("final_answer", "1157 kilowatt-hours more."),
            ],
        ),
    )
