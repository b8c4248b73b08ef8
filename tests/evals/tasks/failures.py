"""For choosing: tools that fail for a reason that their message names."""

from __future__ import annotations

import re

from tests.evals.checks import key_of, tells
from tests.evals.task import Scene, task


@task("recover", "choose")
def power_used_in_march() -> Scene:
    used = {"2024-02": 318, "2024-03": 276}

    def power_used(month: str) -> int:
        """Look up how much electricity our home used in a month, in kilowatt hours.

        Args:
            month: The month and the year
        """
        if not re.fullmatch(r"\d{4}-\d\d", month):
            raise ValueError(f"month is {month!r}; expected year-month in digits, for example 2023-11")
        return used[key_of(used, month, "month")]

    return Scene(
        [power_used],
        ("How many kilowatt hours of electricity did we use in March 2024?",),
        lambda done: tells(done, 276),
        ([("power_used", "March 2024"), ("power_used", "2024-03"), ("final_answer", "276 kilowatt hours")],),
    )


@task("recover", "choose")
def tide_on_a_day() -> Scene:
    tides = {(8, 3, 2024): 4.12, (9, 3, 2024): 4.36, (10, 3, 2024): 4.58}

    def high_tide(port: str, date: str) -> float:
        """Look up how high the high tide was in a port, in metres.

        Args:
            port: The port's name
            date: The day
        """
        key_of(["Ellery"], port, "port")
        parts = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", date.strip())
        if not parts:
            raise ValueError(f"date is {date!r}; expected day.month.year in digits, for example 31.12.2023")
        day = (int(parts[1]), int(parts[2]), int(parts[3]))
        if day not in tides:
            raise ValueError(f"no tide is known of {date}; expected a day from 08.03.2024 to 10.03.2024")
        return tides[day]

    return Scene(
        [high_tide],
        ("How high was the high tide in the port of Ellery on 9 March 2024?",),
        lambda done: tells(done, 4.36),
        (
            [
                ("high_tide", {"port": "Ellery", "date": "2024-03-09"}),
                ("high_tide", {"port": "Ellery", "date": "09.03.2024"}),
                ("final_answer", "It was 4.36 metres high."),
            ],
        ),
    )


@task("recover", "choose")
def blank_before_the_sample() -> Scene:
    absorbances = {"D2": 0.318, "D3": 0.642}
    blanks: list[str] = []

    def measure_absorbance(sample: str) -> float:
        """Measure the absorbance of a sample with the photometer.

        Args:
            sample: The sample's code
        """
        sample = key_of(absorbances, sample, "sample")
        if not blanks:
            raise RuntimeError(
                "the photometer has no blank yet; use measure_blank first, then measure the sample"
            )
        return absorbances[sample]

    def measure_blank() -> str:
        """Measure a blank with the photometer."""
        blanks.append("blank")
        return "the blank is measured"

    return Scene(
        [measure_absorbance, measure_blank],
        ("Please measure the absorbance of sample D3.",),
        lambda done: tells(done, 0.642),
        (
            [
                ("measure_absorbance", "D3"),
                ("measure_blank", {}),
                ("measure_absorbance", "D3"),
                ("final_answer", "The absorbance of D3 is 0.642."),
            ],
        ),
    )


@task("recover", "choose")
def air_by_station_id() -> Scene:
    stations = {"Brenley": "ST309", "Oakmoor": "ST117"}
    dust = {"ST117": 12, "ST309": 38}

    def fine_dust(station: str) -> int:
        """Look up the fine dust in the air now, in micrograms per cubic metre.

        Args:
            station: The measuring station
        """
        if station.strip().upper() not in dust:
            raise ValueError(f"station is {station!r}; expected the id of a station, which find_station tells")
        return dust[station.strip().upper()]

    def find_station(town: str) -> str:
        """Find the id of the measuring station in a town.

        Args:
            town: The town's name
        """
        return stations[key_of(stations, town, "town")]

    return Scene(
        [fine_dust, find_station],
        ("How much fine dust is there in the air of Brenley at the moment?",),
        lambda done: tells(done, 38),
        (
            [
                ("fine_dust", "Brenley"),
                ("find_station", "Brenley"),
                ("fine_dust", "ST309"),
                ("final_answer", "There are 38 micrograms per cubic metre."),
            ],
        ),
    )
