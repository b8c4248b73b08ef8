"""For choosing: tools that fail, for a reason that their message names or only for a while."""

from __future__ import annotations

import re

from benchmarks.success.checks import key_of, left, tells
from benchmarks.success.task import Scene, task

# ── recover ───────────────────────────────────────────────────────────────────────────────────────


@task("recover", "choose")
def power_used_in_march() -> Scene:
    used = {"2024-02": 318, "2024-03": 276}

    def power_used(month: str) -> int:
        """Look up how much electricity our home used in a month, in kilowatt hours.

        Args:
            month: The month and the year
        """
        if not re.fullmatch(r"\d{4}-\d\d", month):
            raise ValueError(
                f"month is {month!r}; expected year-month in digits, for example 2023-11"
            )
        return used[key_of(used, month, "month")]

    return Scene(
        [power_used],
        ("How many kilowatt hours of electricity did we use in March 2024?",),
        lambda done: tells(done, 276),
        (
            [
                ("power_used", "March 2024"),
                ("power_used", "2024-03"),
                ("final_answer", "276 kilowatt hours"),
            ],
        ),
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
            raise ValueError(
                f"date is {date!r}; expected day.month.year in digits, for example 31.12.2023"
            )
        day = (int(parts[1]), int(parts[2]), int(parts[3]))
        if day not in tides:
            raise ValueError(
                f"no tide is known of {date}; expected a day from 08.03.2024 to 10.03.2024"
            )
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


# ── retry ─────────────────────────────────────────────────────────────────────────────────────────


@task("retry", "choose")
def exposure_of_a_star() -> Scene:
    tries: list[str] = []
    taken: list[tuple[str, float]] = []

    def take_exposure(star: str, seconds: float) -> str:
        """Take a picture of a star with the telescope.

        Args:
            star: The star's name
            seconds: How long the exposure lasts
        """
        tries.append(key_of(["Bellara", "Oneth"], star, "star"))
        if len(tries) == 1:
            raise OSError(
                "the shutter was stuck and no picture was taken; it is free now, try again"
            )
        taken.append((tries[-1], float(seconds)))
        return "the picture is taken"

    return Scene(
        [take_exposure],
        ("Point the telescope at the star Bellara and take an exposure of 90 seconds.",),
        lambda done: left(taken, [("Bellara", 90.0)]),
        (
            [
                ("take_exposure", {"star": "Bellara", "seconds": 90}),
                ("take_exposure", {"star": "Bellara", "seconds": 90}),
                ("final_answer", "The exposure of Bellara is taken."),
            ],
        ),
        liar="An exposure of 90 seconds of Bellara is taken.",
    )


@task("retry", "choose")
def bikes_at_two_stations() -> Scene:
    bikes = {"Mill Bridge": 9, "Opera": 14, "Zoo": 3}
    tries: list[str] = []

    def free_bikes(station: str) -> int:
        """Count the bikes that can be rented at a station now.

        Args:
            station: The station's name
        """
        tries.append(key_of(bikes, station, "station"))
        if tries.count("Opera") == 1 and tries[-1] == "Opera":
            raise ConnectionError("the station is sending its data at this moment; ask it again")
        return bikes[tries[-1]]

    return Scene(
        [free_bikes],
        ("how many bikes can i rent right now at mill bridge and opera together?",),
        lambda done: tells(done, 23),
        (
            [
                ("free_bikes", "Mill Bridge"),
                ("free_bikes", "Opera"),
                ("free_bikes", "Opera"),
                ("final_answer", "You can rent 23 bikes."),
            ],
        ),
    )


@task("retry", "choose")
def length_of_a_protein() -> Scene:
    lengths = {"QX7714": 386, "QX7720": 152}
    tries: list[str] = []

    def protein_length(accession: str) -> int:
        """Ask the archive how many amino acids a protein has.

        Args:
            accession: The protein's accession number
        """
        tries.append(key_of(lengths, accession, "protein"))
        if len(tries) <= 2:
            raise TimeoutError("the archive is busy and did not answer in time; try again")
        return lengths[tries[-1]]

    return Scene(
        [protein_length],
        ("How many amino acids does the protein QX7714 have?",),
        lambda done: tells(done, 386),
        ([*[("protein_length", "QX7714")] * 3, ("final_answer", "It has 386 amino acids.")],),
    )
