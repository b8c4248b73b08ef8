"""For choosing: several arguments that must all be right, and answers of a type."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from benchmarks.success.checks import consulted, first_fault, key_of, left, tells, unordered, valued
from benchmarks.success.task import Scene, task

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
Risk = Literal["low", "moderate", "high", "extreme"]

# ── arguments ─────────────────────────────────────────────────────────────────────────────────────


@task("arguments", "choose")
def alarm_on_two_days() -> Scene:
    alarms: list[tuple[str, list[str], str]] = []

    def set_alarm(time: str, days: list[Day], label: str = "") -> str:
        """Set an alarm that rings every week.

        Args:
            time: When it rings, for example 22:15
            days: The days on which it rings
            label: What the alarm is called
        """
        alarms.append((time, sorted(days), label.lower()))
        return "the alarm is set"

    return Scene(
        [set_alarm],
        ('Set an alarm for 06:45 every Tuesday and Thursday, with the label "swim".',),
        lambda done: left(alarms, [("06:45", ["Thursday", "Tuesday"], "swim")]),
        (
            [
                ("set_alarm", {"time": "06:45", "days": ["Tuesday", "Thursday"], "label": "swim"}),
                ("final_answer", "The alarm is set."),
            ],
        ),
    )


@task("arguments", "choose")
def sample_of_the_readings() -> Scene:
    readings = pd.DataFrame({"volts": [0.1 * each for each in range(200)]})
    calibration = pd.DataFrame({"offset": [0.01, 0.02, 0.03]})
    drawn: list[tuple[int, int, int, bool]] = []

    def draw_sample(
        table: pd.DataFrame, count: int, seed: int = 0, replacement: bool = False
    ) -> str:
        """Draw a random sample of the rows of a table.

        Args:
            table: The table
            count: How many rows are drawn
            seed: The seed of the random numbers
            replacement: Whether a row can be drawn more than once
        """
        drawn.append((len(table), count, seed, replacement))
        return f"{count} rows were drawn"

    return Scene(
        [draw_sample],
        (
            "Draw a random sample of 50 rows from the table readings, with replacement and with seed 7.",
        ),
        lambda done: left(drawn, [(200, 50, 7, True)]),
        (
            [
                ("draw_sample", {"table": "readings", "count": 50, "seed": 7, "replacement": True}),
                ("final_answer", "50 rows were drawn."),
            ],
        ),
        namespace={"readings": readings, "calibration": calibration},
    )


@task("arguments", "choose")
def regression_without_intercept() -> Scene:
    area = np.arange(40.0, 120.0, 2.0)
    age = np.arange(40.0) * 17 % 23
    houses = pd.DataFrame(
        {"price": 3.1 * area - 0.8 * age, "area": area, "age": age, "rooms": area // 20}
    )
    flats = houses.head(12)
    fits: list[tuple[int, str, list[str], bool]] = []

    def fit_line(
        table: pd.DataFrame, target: str, features: list[str], intercept: bool = True
    ) -> dict[str, float]:
        """Fit a linear regression and return its coefficients.

        Args:
            table: The table with the data
            target: The column that is predicted
            features: The columns that it is predicted from
            intercept: Whether the model has an intercept
        """
        target = key_of(table.columns, target, "column")
        features = sorted(key_of(table.columns, each, "column") for each in features)
        inputs = table[features].assign(intercept=1.0) if intercept else table[features]
        found = np.linalg.lstsq(inputs.to_numpy(float), table[target].to_numpy(float), rcond=None)[
            0
        ]
        fits.append((len(table), target, features, intercept))
        return {
            name: round(float(each), 3) for name, each in zip(inputs.columns, found, strict=True)
        }

    return Scene(
        [fit_line],
        (
            (
                "Fit a linear regression without an intercept on the DataFrame houses: price is the target, "
                "area and age are the features."
            ),
        ),
        lambda done: left(fits[-1:], [(40, "price", ["age", "area"], False)]),
        (
            [
                (
                    "fit_line",
                    {
                        "table": "houses",
                        "target": "price",
                        "features": ["area", "age"],
                        "intercept": False,
                    },
                ),
                ("final_answer", "The coefficients are 3.1 for area and -0.8 for age."),
            ],
        ),
        namespace={"flats": flats, "houses": houses},
    )


@task("arguments", "choose")
def insured_parcel() -> Scene:
    asked: list[tuple[float, list[float], bool]] = []

    def shipping_cost(
        weight_grams: float,
        length_cm: float,
        width_cm: float,
        height_cm: float,
        insured: bool = False,
    ) -> float:
        """Compute what it costs to ship a parcel, in euros.

        Args:
            weight_grams: The weight in grams
            length_cm: The length in centimetres
            width_cm: The width in centimetres
            height_cm: The height in centimetres
            insured: Whether the parcel is insured
        """
        sides = sorted(float(each) for each in (length_cm, width_cm, height_cm))
        asked.append((float(weight_grams), sides, insured))
        return round(
            4.35 + weight_grams * 0.0012 + sum(sides) * 0.02 + (2.5 if insured else 0.0), 2
        )

    return Scene(
        [shipping_cost],
        ("What does it cost to ship an insured parcel of 2.5 kg that measures 40 x 30 x 20 cm?",),
        lambda done: first_fault(
            left(asked[-1:], [(2500.0, [20.0, 30.0, 40.0], True)]), tells(done, 11.65)
        ),
        (
            [
                (
                    "shipping_cost",
                    {
                        "weight_grams": 2500,
                        "length_cm": 40,
                        "width_cm": 30,
                        "height_cm": 20,
                        "insured": True,
                    },
                ),
                ("final_answer", "It costs 11.65 euros."),
            ],
        ),
    )


# ── typed answer ──────────────────────────────────────────────────────────────────────────────────


@task("typed answer", "choose")
def seedlings_on_two_plots() -> Scene:
    seedlings = {"A": 48, "B": 67, "C": 52}

    def count_seedlings(plot: str) -> int:
        """Count the seedlings on a plot of the trial.

        Args:
            plot: The plot's letter
        """
        return seedlings[key_of(seedlings, plot, "plot")]

    return Scene(
        [count_seedlings],
        ("How many seedlings are there on the plots A and B together?",),
        lambda done: valued(done, 115),
        ([("count_seedlings", "A"), ("count_seedlings", "B"), ("final_answer", 115)],),
        liar="77",
        output_type=int,
    )


@task("typed answer", "choose")
def ferries_that_are_late() -> Scene:
    delays = {"Albatross": 35, "Selkie": 5, "Northwind": 0, "Marlin": 42}
    log: list[str] = []

    def todays_ferries() -> list[str]:
        """List the ferries that sail today."""
        return list(delays)

    def delay_minutes(ferry: str) -> int:
        """Look up how late a ferry is today, in minutes.

        Args:
            ferry: The ferry's name
        """
        log.append(key_of(delays, ferry, "ferry"))
        return delays[log[-1]]

    return Scene(
        [todays_ferries, delay_minutes],
        ("Which of today's ferries are more than 20 minutes late? List their names.",),
        lambda done: (
            unordered(done.last.value or [], ["Albatross", "Marlin"]) or consulted(log, *delays)
        ),
        (
            [
                ("todays_ferries", {}),
                ("delay_minutes", "Albatross"),
                ("delay_minutes", "Selkie"),
                ("delay_minutes", "Northwind"),
                ("delay_minutes", "Marlin"),
                ("final_answer", ["Albatross", "Marlin"]),
            ],
        ),
        liar='["Albatross", "Marlin"]',
        output_type=list[str],
    )


@task("typed answer", "choose")
def fire_risk_of_a_district() -> Scene:
    dryness = {"Brenn": 64, "Moosach": 22, "Steig": 91}
    log: list[str] = []

    def dryness_index(district: str) -> int:
        """Measure how dry a forest district is, from 0 to 100.

        Args:
            district: The district's name
        """
        log.append(key_of(dryness, district, "district"))
        return dryness[log[-1]]

    def fire_risk(index: int) -> str:
        """Say which risk of fire goes with a dryness index.

        Args:
            index: The dryness index, from 0 to 100
        """
        log.append(f"index {index}")
        return (
            "low"
            if index < 30
            else "moderate"
            if index < 60
            else "high"
            if index < 85
            else "extreme"
        )

    return Scene(
        [fire_risk, dryness_index],
        ("What is the risk of fire in the forest district Brenn at the moment?",),
        lambda done: valued(done, "high") or consulted(log, "Brenn", "index 64"),
        ([("dryness_index", "Brenn"), ("fire_risk", 64), ("final_answer", "high")],),
        liar="high",
        output_type=Risk,
    )
