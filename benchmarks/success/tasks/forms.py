"""For reporting: several arguments that must all be right, and answers of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from benchmarks.success.checks import consulted, entry_of, first_fault, left, tells, valued
from benchmarks.success.task import Finished, Scene, task


@dataclass
class Crossing:
    """A passage by boat."""

    harbour: str
    minutes: int


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────


@task("arguments", "report")
def evening_ferry_with_bikes() -> Scene:
    booked: list[tuple[str, int, int, bool]] = []

    def book_crossing(
        departure: Literal["morning", "noon", "evening"],
        passengers: int,
        bicycles: int = 0,
        car: bool = False,
    ) -> str:
        """Book places on the ferry to the island.

        Args:
            departure: Which of the three ferries of the day
            passengers: The number of people
            bicycles: The number of bicycles that come along
            car: Whether a car comes along

        Returns:
            str: A confirmation
        """
        booked.append((departure, passengers, bicycles, car))
        return "the places are booked"

    return Scene(
        [book_crossing],
        ("Please book the evening ferry for 3 people with 2 bicycles. We have no car.",),
        lambda done: left(booked, [("evening", 3, 2, False)]),
        (
            [
                (
                    "book_crossing",
                    {"departure": "evening", "passengers": 3, "bicycles": 2, "car": False},
                ),
                ("final_answer", "Your evening ferry is booked."),
            ],
        ),
    )


@task("arguments", "report")
def moisture_of_three_probes() -> Scene:
    asked: list[tuple[tuple[str, ...], int]] = []
    at_ten = {"P1": 21.0, "P2": 18.5, "P5": 26.0, "P7": 30.5, "P9": 23.0}

    def mean_moisture(probes: list[str], depth_cm: int = 10) -> float:
        """Average the moisture that soil probes measure.

        Args:
            probes: Labels of the probes
            depth_cm: How deep below the surface, in centimetres: 10, 30 or 60

        Returns:
            float: Percent of volume
        """
        if depth_cm not in (10, 30, 60):
            raise ValueError(f"depth_cm is {depth_cm}; expected 10, 30 or 60")
        labels = [entry_of(at_ten, each, "probe") for each in probes]
        asked.append((tuple(sorted(labels)), depth_cm))
        mean = sum(at_ten[each] for each in labels) / len(labels)
        return round(mean + {10: 0.0, 30: 6.2, 60: 11.1}[depth_cm], 2)

    return Scene(
        [mean_moisture],
        ("What's the average soil moisture of the probes P2, P5 and P9 at a depth of 30 cm?",),
        lambda done: first_fault(tells(done, 28.7), consulted(asked, (("P2", "P5", "P9"), 30))),
        (
            [
                ("mean_moisture", {"probes": ["P2", "P5", "P9"], "depth_cm": 30}),
                ("final_answer", "On average 28.7 percent."),
            ],
        ),
    )


@task("arguments", "report")
def long_bike_trips() -> Scene:
    minutes = [12, 4, 80, 9, 26, 6, 18, 34, 7, 21, 15]
    trips = pd.DataFrame({"duration_min": minutes, "distance_km": [each / 5 for each in minutes]})
    docks = pd.DataFrame({"dock": ["Mill", "Quay", "Park"], "bikes": [14, 3, 9]})

    def quantile(table: pd.DataFrame, column: str, q: float = 0.5) -> float:
        """Quantile of a column of a table.

        Args:
            table: The table
            column: The column's name
            q: Which quantile, between 0 and 1

        Returns:
            float: The quantile
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q is {q}; expected a number between 0 and 1")
        return float(table[column].quantile(q))

    return Scene(
        [quantile],
        ("give me the 0.9 quantile of duration_min in the trips table",),
        lambda done: tells(done, 34),
        (
            [
                ("quantile", {"table": "trips", "column": "duration_min", "q": 0.9}),
                ("final_answer", "The 0.9 quantile is 34 minutes."),
            ],
        ),
        namespace={"docks": docks, "trips": trips},
    )


@task("arguments", "report")
def cloth_for_a_coat() -> Scene:
    asked: list[tuple[str, int, int, bool]] = []

    def fabric_needed(
        garment: Literal["skirt", "shirt", "coat"],
        size: int,
        fabric_width: int = 140,
        lined: bool = False,
    ) -> float:
        """Work out how much fabric a sewing pattern takes.

        Args:
            garment: What is sewn
            size: The European size, e.g. 38
            fabric_width: How wide the fabric is, in centimetres
            lined: Whether the garment gets a lining

        Returns:
            float: Metres of fabric
        """
        asked.append((garment, size, fabric_width, lined))
        area = {"skirt": 1.4, "shirt": 2.2, "coat": 3.6}[garment] * (1 + (size - 38) / 50)
        return round(area / fabric_width * 140 + (0.25 if lined else 0.0), 2)

    return Scene(
        [fabric_needed],
        (
            "I want to sew a lined coat in size 42, and my fabric is 150 cm wide. How many metres do I need?",
        ),
        lambda done: first_fault(consulted(asked, ("coat", 42, 150, True)), tells(done, 3.88)),
        (
            [
                (
                    "fabric_needed",
                    {"garment": "coat", "size": 42, "fabric_width": 150, "lined": True},
                ),
                ("final_answer", "You need 3.88 m."),
            ],
        ),
    )


# ── typed answer ──────────────────────────────────────────────────────────────────────────────────


@task("typed answer", "report")
def pool_on_a_sunday() -> Scene:
    asked: list[str] = []
    hours = {
        "Saturday": "open from 9 to 18",
        "Sunday": "closed all day",
        "Monday": "open from 7 to 21",
    }

    def pool_hours(day: str) -> str:
        """Look up when the swimming pool is open.

        Args:
            day: The day of the week

        Returns:
            str: The opening hours
        """
        day = entry_of(hours, day, "day")
        asked.append(day)
        return hours[day]

    return Scene(
        [pool_hours],
        ("Can I go swimming on Sunday, I mean is the pool open then?",),
        lambda done: first_fault(valued(done, False), consulted(asked, "Sunday")),
        ([("pool_hours", "Sunday"), ("final_answer", False)],),
        liar="false",
        output_type=bool,
    )


@task("typed answer", "report")
def crossing_as_a_record() -> Scene:
    takes = {"Ebeltoft": 55, "Kolby": 95}

    def crossing_time(harbour: str) -> str:
        """Look up how long the ferry takes from a harbour to the mainland.

        Args:
            harbour: The harbour where it starts

        Returns:
            str: What the timetable says
        """
        harbour = entry_of(takes, harbour, "harbour")
        return f"The ferry from {harbour} takes {takes[harbour]} minutes."

    return Scene(
        [crossing_time],
        ("How long does the crossing from Ebeltoft take?",),
        lambda done: valued(done, Crossing("Ebeltoft", 55)),
        (
            [
                ("crossing_time", "Ebeltoft"),
                ("final_answer", {"harbour": "Ebeltoft", "minutes": 55}),
            ],
        ),
        liar='{"harbour": "Ebeltoft", "minutes": 77}',
        output_type=Crossing,
    )


@task("typed answer", "report")
def free_plots_as_numbers() -> Scene:
    def free_plots() -> str:
        """Ask the garden club which allotment plots are free to rent.

        Returns:
            str: What the club says
        """
        return "Plots 4, 17 and 23 are free at the moment."

    def rent_of(plot: int) -> float:
        """Yearly rent of an allotment plot.

        Args:
            plot: The plot's number

        Returns:
            float: Euros
        """
        return {4: 180.0, 17: 210.0, 23: 165.0}[plot]

    def check(done: Finished) -> str:
        value = done.last.value
        same = (
            isinstance(value, list)
            and all(type(each) is int for each in value)
            and sorted(value) == [4, 17, 23]
        )
        return "" if same else f"the value is {value!r}, expected [4, 17, 23]"

    return Scene(
        [free_plots, rent_of],
        ("Which allotment plots could I rent right now?",),
        check,
        ([("free_plots", {}), ("final_answer", [4, 17, 23])],),
        liar="[7, 12]",
        output_type=list[int],
    )
