"""For reporting: one call is enough, with few tools or with several to choose from."""

from __future__ import annotations

import re
from typing import Literal

from benchmarks.success.checks import entry_of, first_fault, left, tells
from benchmarks.success.task import Finished, Scene, task

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

# ── one call ──────────────────────────────────────────────────────────────────────────────────────


@task("one call", "report")
def brood_in_the_quarry_hive() -> Scene:
    frames = {"linden": 9, "orchard": 6, "quarry": 11}

    def brood_frames(hive: str) -> int:
        """Count the frames with brood in one of the beehives.

        Args:
            hive: The name of the hive, e.g. linden

        Returns:
            int: The number of frames
        """
        return frames[entry_of(frames, re.sub(r"(?i)\s*hive$", "", hive), "hive")]

    return Scene(
        [brood_frames],
        ("how many brood frames are in the quarry hive at the moment?",),
        lambda done: tells(done, 11),
        ([("brood_frames", "quarry"), ("final_answer", "There are 11 frames with brood.")],),
    )


@task("one call", "report")
def high_water_at_the_harbour() -> Scene:
    high = {"Skagen": "14:52", "Esbjerg": "09:17", "Husum": "11:40"}
    low = {"Skagen": "08:31", "Esbjerg": "15:26", "Husum": "17:58"}

    def high_tide(harbour: str) -> str:
        """Look up today's high water in the tide table.

        Args:
            harbour: Name of the harbour

        Returns:
            str: The time of day
        """
        return high[entry_of(high, harbour, "harbour")]

    def low_tide(harbour: str) -> str:
        """Look up today's low water in the tide table.

        Args:
            harbour: Name of the harbour

        Returns:
            str: The time of day
        """
        return low[entry_of(low, harbour, "harbour")]

    def check(done: Finished) -> str:
        said = re.findall(r"(?<!\d)\d{1,2}[:.]\d\d(?!\d)", done.answer)
        right = [each for each in said if re.fullmatch(r"(14|0?2)[:.]52", each)]
        wrong = [each for each in said if re.fullmatch(r"0?8[:.]31", each)]
        return "" if right and not wrong else f"the answer {done.answer!r} lacks 14:52"

    return Scene(
        [low_tide, high_tide],
        ("When is high water in Skagen today?",),
        check,
        ([("high_tide", "Skagen"), ("final_answer", "High water is at 14:52.")],),
        liar="High water is at 08:31.",
    )


@task("one call", "report")
def reads_of_a_sequenced_sample() -> Scene:
    reads = {"S05": 902115, "S06": 1410887, "S07": 1834220}

    def read_count(sample: str) -> int:
        """Number of sequencing reads that passed the filter for a sample.

        Args:
            sample: The sample's label, a letter and two digits

        Returns:
            int: The reads
        """
        return reads[entry_of(reads, sample, "sample")]

    def sequencing_date(sample: str) -> str:
        """Day on which a sample was sequenced.

        Args:
            sample: The sample's label, a letter and two digits

        Returns:
            str: The day
        """
        return {"S05": "3 May", "S06": "3 May", "S07": "9 May"}[entry_of(reads, sample, "sample")]

    return Scene(
        [read_count, sequencing_date],
        ("Sample S07 please - how many reads did we get out of it? The exact count.",),
        lambda done: tells(done, 1834220),
        ([("read_count", "S07"), ("final_answer", "S07 has 1,834,220 reads.")],),
    )


# ── choose a tool ─────────────────────────────────────────────────────────────────────────────────


@task("choose a tool", "report")
def trams_being_mended() -> Scene:
    depots = {"Ostend": (31, 5, 44, 12), "Harbour": (22, 8, 30, 9)}

    def trams_on_the_road(depot: str) -> int:
        """Count the trams of a depot that carry passengers right now.

        Args:
            depot: The depot's name

        Returns:
            int: How many trams
        """
        return depots[entry_of(depots, depot, "depot")][0]

    def drivers_on_shift(depot: str) -> int:
        """Count the drivers of a depot who are on shift.

        Args:
            depot: The depot's name

        Returns:
            int: How many drivers
        """
        return depots[entry_of(depots, depot, "depot")][2]

    def trams_in_repair(depot: str) -> int:
        """Count the trams that stand in the workshop of a depot for repair.

        Args:
            depot: The depot's name

        Returns:
            int: How many trams
        """
        return depots[entry_of(depots, depot, "depot")][1]

    def tracks(depot: str) -> int:
        """Count the tracks of a depot.

        Args:
            depot: The depot's name

        Returns:
            int: How many tracks
        """
        return depots[entry_of(depots, depot, "depot")][3]

    return Scene(
        [trams_on_the_road, drivers_on_shift, trams_in_repair, tracks],
        ("How many trams are being repaired at the Ostend depot?",),
        lambda done: tells(done, 5),
        ([("trams_in_repair", "Ostend"), ("final_answer", "Five trams are in repair.")],),
    )


@task("choose a tool", "report")
def where_on_the_dial() -> Scene:
    stations = ["Radio Heidekraut", "Radio Kormoran", "Heidekraut", "Kormoran"]

    def listeners(station: str) -> int:
        """Daily listeners of a radio station.

        Args:
            station: The station's name

        Returns:
            int: The listeners on an average day
        """
        return {"Heidekraut": 48200, "Kormoran": 15600}[
            entry_of(stations, station, "station").split()[-1]
        ]

    def transmitter_power(station: str) -> float:
        """Power of the transmitter of a radio station.

        Args:
            station: The station's name

        Returns:
            float: Kilowatts
        """
        return {"Heidekraut": 12.5, "Kormoran": 4.0}[
            entry_of(stations, station, "station").split()[-1]
        ]

    def frequency(station: str) -> float:
        """Frequency on which a radio station broadcasts.

        Args:
            station: The station's name

        Returns:
            float: Megahertz
        """
        return {"Heidekraut": 97.4, "Kormoran": 103.8}[
            entry_of(stations, station, "station").split()[-1]
        ]

    def now_playing(station: str) -> str:
        """Title that a radio station plays at this moment.

        Args:
            station: The station's name

        Returns:
            str: The title
        """
        return {"Heidekraut": "Paper Boats", "Kormoran": "the news"}[
            entry_of(stations, station, "station").split()[-1]
        ]

    return Scene(
        [listeners, transmitter_power, now_playing, frequency],
        ("What frequency do I have to tune to for Radio Heidekraut?",),
        lambda done: tells(done, 97.4),
        ([("frequency", "Radio Heidekraut"), ("final_answer", "97.4 MHz")],),
    )


@task("choose a tool", "report")
def p_value_of_an_experiment() -> Scene:
    stopped: list[str] = []
    known = ["checkout-blue", "search-chips"]

    def sample_size(experiment: str) -> int:
        """Number of users who took part in an A/B experiment.

        Args:
            experiment: The experiment's name

        Returns:
            int: Users in both arms together
        """
        return {"checkout-blue": 26480, "search-chips": 9120}[
            entry_of(known, experiment, "experiment")
        ]

    def uplift(experiment: str) -> float:
        """By how much the new variant of an A/B experiment did better.

        Args:
            experiment: The experiment's name

        Returns:
            float: Percent
        """
        return {"checkout-blue": 2.6, "search-chips": -0.4}[
            entry_of(known, experiment, "experiment")
        ]

    def stop_experiment(experiment: str) -> str:
        """End an A/B experiment for good and release the winning variant.

        Args:
            experiment: The experiment's name

        Returns:
            str: A confirmation
        """
        stopped.append(entry_of(known, experiment, "experiment"))
        return "stopped"

    def p_value(experiment: str) -> float:
        """Statistical significance of an A/B experiment, as a p-value.

        Args:
            experiment: The experiment's name

        Returns:
            float: Between 0 and 1
        """
        return {"checkout-blue": 0.018, "search-chips": 0.61}[
            entry_of(known, experiment, "experiment")
        ]

    return Scene(
        [stop_experiment, sample_size, uplift, p_value],
        ("Is the result of the experiment checkout-blue significant? I just need the p-value.",),
        lambda done: first_fault(left(stopped, []), tells(done, 0.018)),
        ([("p_value", "checkout-blue"), ("final_answer", "The p-value is 0.018.")],),
    )
