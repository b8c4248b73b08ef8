"""For choosing: comparisons over several calls, by order, by difference and by ratio."""

from __future__ import annotations

from typing import Literal

from benchmarks.success.checks import consulted, key_of, left, names, tells
from benchmarks.success.task import Scene, task

Month = Literal[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@task("compare", "choose")
def second_in_the_race() -> Scene:
    minutes = {"Tomas": 24.1, "Priya": 22.8, "Wen": 27.3, "Aldo": 23.5}
    log: list[str] = []

    def finishing_time(runner: str) -> float:
        """Look up in how many minutes a runner finished the office run.

        Args:
            runner: The runner's first name
        """
        log.append(key_of(minutes, runner, "runner"))
        return minutes[log[-1]]

    return Scene(
        [finishing_time],
        (
            (
                "Tomas, Priya, Wen and Aldo ran the office run. Who of them was the second fastest? Answer "
                "with the first name only."
            ),
        ),
        lambda done: names(done, "Aldo", "Tomas", "Priya", "Wen") or consulted(log, *minutes),
        (
            [
                ("finishing_time", "Tomas"),
                ("finishing_time", "Priya"),
                ("finishing_time", "Wen"),
                ("finishing_time", "Aldo"),
                ("final_answer", "Aldo"),
            ],
        ),
        liar="Aldo",
    )


@task("compare", "choose")
def more_rain_in_june() -> Scene:
    rain = {
        ("Dorna", "May"): 40.2,
        ("Dorna", "June"): 83.4,
        ("Velp", "May"): 55.7,
        ("Velp", "June"): 61.9,
    }

    def rainfall(town: str, month: Month) -> float:
        """Look up how much rain fell in a town in a month of last year, in millimetres.

        Args:
            town: The town's name
            month: The month
        """
        town = key_of(["Dorna", "Velp"], town, "town")
        if (town, month) not in rain:
            raise ValueError(f"nothing is known of {month}; expected May or June")
        return rain[town, month]

    return Scene(
        [rainfall],
        ("How many millimetres more rain did Dorna get than Velp in June of last year?",),
        lambda done: tells(done, 21.5),
        (
            [
                ("rainfall", {"town": "Dorna", "month": "June"}),
                ("rainfall", {"town": "Velp", "month": "June"}),
                ("final_answer", "Dorna got 21.5 millimetres more."),
            ],
        ),
    )


@task("compare", "choose")
def times_as_many_visitors() -> Scene:
    visitors = {"February": 950, "March": 1620, "April": 3080, "May": 4275}

    def museum_visitors(month: Month) -> int:
        """Count the visitors of the museum in a month of this year.

        Args:
            month: The month
        """
        return visitors[key_of(visitors, month, "month")]

    return Scene(
        [museum_visitors],
        ("How many times as many visitors did the museum have in May as in February?",),
        lambda done: tells(done, 4.5),
        (
            [
                ("museum_visitors", "May"),
                ("museum_visitors", "February"),
                ("final_answer", "It had 4.5 times as many visitors in May."),
            ],
        ),
    )


@task("compare", "choose")
def sensor_that_drifts_most() -> Scene:
    drifts = {"T-1": 0.08, "T-2": 0.35, "T-3": 0.21}
    log: list[str] = []
    sent: list[str] = []

    def list_sensors() -> list[str]:
        """List the temperature sensors of the greenhouse."""
        return list(drifts)

    def sensor_drift(sensor: str) -> float:
        """Look up how far a sensor drifted since its last calibration, in degrees.

        Args:
            sensor: The sensor's code
        """
        log.append(key_of(drifts, sensor, "sensor"))
        return drifts[log[-1]]

    def send_to_calibration(sensor: str) -> str:
        """Send a sensor to the calibration service.

        Args:
            sensor: The sensor's code
        """
        sent.append(key_of(drifts, sensor, "sensor"))
        return f"{sent[-1]} is on its way"

    return Scene(
        [list_sensors, send_to_calibration, sensor_drift],
        (
            (
                "Find out which temperature sensor of the greenhouse drifted the most, and send that one to "
                "calibration."
            ),
        ),
        lambda done: left(sent, ["T-2"]) or consulted(log, *drifts),
        (
            [
                ("list_sensors", {}),
                ("sensor_drift", "T-1"),
                ("sensor_drift", "T-2"),
                ("sensor_drift", "T-3"),
                ("send_to_calibration", "T-2"),
                (
                    "final_answer",
                    "T-2 drifted the most, by 0.35 degrees; it is on its way to calibration.",
                ),
            ],
        ),
    )
