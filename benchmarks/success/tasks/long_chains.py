"""For reporting: three steps, where each needs what the one before it found."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import entry_of, first_fault, holds, names, tells
from benchmarks.success.task import Scene, task


@task("three steps", "report")
def water_on_her_allotment() -> Scene:
    plots = {"Pavlina": 38, "Gustav": 14}

    def plot_of(gardener: str) -> int:
        """Find the number of the allotment plot that a gardener rents.

        Args:
            gardener: The gardener's first name

        Returns:
            int: The plot
        """
        return plots[entry_of(plots, gardener, "gardener")]

    def meter_on(plot: int) -> str:
        """Find the water meter that stands on an allotment plot.

        Args:
            plot: The plot's number

        Returns:
            str: The label of the meter
        """
        return {38: "WM-206", 14: "WM-113"}[plot]

    def read_meter(meter: str) -> float:
        """Read a water meter.

        Args:
            meter: The label of the meter

        Returns:
            float: Cubic metres
        """
        shown = {"WM-206": 61.75, "WM-113": 19.4}
        return shown[entry_of(shown, meter, "meter")]

    return Scene(
        [plot_of, meter_on, read_meter],
        ("What does the water meter on Pavlina's allotment plot read?",),
        lambda done: tells(done, 61.75),
        (
            [
                ("plot_of", "Pavlina"),
                ("meter_on", 38),
                ("read_meter", "WM-206"),
                ("final_answer", "It reads 61.75 cubic metres."),
            ],
        ),
    )


@task("three steps", "report")
def deepest_of_the_strong_quakes() -> Scene:
    catalogues = {
        2018: pd.DataFrame({"magnitude": [4.9, 3.3, 6.1], "depth_km": [18.0, 70.0, 41.5]}),
        2019: pd.DataFrame(
            {
                "magnitude": [3.1, 5.2, 4.4, 4.8, 2.9, 6.0],
                "depth_km": [95.0, 12.5, 88.0, 36.4, 120.0, 22.0],
            }
        ),
    }

    def load_quakes(year: int) -> pd.DataFrame:
        """Load the earthquakes of a year.

        Args:
            year: The year

        Returns:
            pd.DataFrame: A table with the columns magnitude and depth_km
        """
        return catalogues[year].copy()

    def stronger_than(quakes: pd.DataFrame, magnitude: float) -> pd.DataFrame:
        """Keep only the earthquakes above a magnitude.

        Args:
            quakes: A table of earthquakes
            magnitude: The magnitude that they must exceed

        Returns:
            pd.DataFrame: The table with fewer rows
        """
        return quakes[quakes["magnitude"] > magnitude]

    def greatest_depth(quakes: pd.DataFrame) -> float:
        """Depth of the deepest earthquake of a table.

        Args:
            quakes: A table of earthquakes

        Returns:
            float: Kilometres
        """
        return float(quakes["depth_km"].max())

    return Scene(
        [load_quakes, stronger_than, greatest_depth],
        (
            (
                "Load the earthquakes of 2019, keep the ones stronger than 4.5, and tell me how "
                "deep the deepest was."
            ),
        ),
        lambda done: tells(done, 36.4),
        (
            [
                ("load_quakes", 2019),
                ("stronger_than", {"quakes": "load_quakes_1", "magnitude": 4.5}),
                ("greatest_depth", {"quakes": "stronger_than_1"}),
                ("final_answer", "It was 36.4 km deep."),
            ],
        ),
    )


@task("three steps", "report")
def home_of_the_podcast_guest() -> Scene:
    newest = {"Tidal Talk": 88, "Loose Threads": 31}

    def latest_episode(podcast: str) -> int:
        """Find the latest episode of a podcast.

        Args:
            podcast: The podcast's name

        Returns:
            int: The number of the episode
        """
        return newest[entry_of(newest, podcast, "podcast")]

    def guest_in(episode: int) -> str:
        """Say who was the guest in an episode.

        Args:
            episode: The number of the episode

        Returns:
            str: First and last name
        """
        return {88: "Imke Sander", 87: "Rolf Tamm", 31: "Dario Venn"}[episode]

    def home_town(person: str) -> str:
        """Say which town a person lives in.

        Args:
            person: First and last name

        Returns:
            str: The town
        """
        towns = {"Imke Sander": "Varel", "Rolf Tamm": "Jever", "Dario Venn": "Lucca"}
        return towns[entry_of(towns, person, "person")]

    return Scene(
        [home_town, latest_episode, guest_in],
        (
            "Who was the guest in the latest episode of Tidal Talk, and which town does that person live in?",
        ),
        lambda done: first_fault(names(done, "Varel", "Jever", "Lucca"), holds(done, "Imke")),
        (
            [
                ("latest_episode", "Tidal Talk"),
                ("guest_in", 88),
                ("home_town", "Imke Sander"),
                ("final_answer", "The guest was Imke Sander, who lives in Varel."),
            ],
        ),
        liar="The guest was Rolf Tamm, who lives in Jever.",
    )
