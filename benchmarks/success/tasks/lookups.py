"""For choosing: one call is enough, of the only tool that fits or of the right one of several."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import key_of, left, tells
from benchmarks.success.task import Scene, task

# ── one call ──────────────────────────────────────────────────────────────────────────────────────


@task("one call", "choose")
def salt_in_the_rye_bread() -> Scene:
    grams = {
        "rye bread": {"flour": 640, "water": 455, "salt": 13},
        "plum cake": {"flour": 320, "butter": 180, "salt": 2},
    }

    def ingredient_grams(recipe: str, ingredient: str) -> int:
        """Look up how much of an ingredient a recipe of my cookbook takes, in grams.

        Args:
            recipe: The recipe's name
            ingredient: The ingredient's name
        """
        parts = grams[key_of(grams, recipe, "recipe")]
        return parts[key_of(parts, ingredient, "ingredient")]

    return Scene(
        [ingredient_grams],
        ("How many grams of salt go into the rye bread in my cookbook?",),
        lambda done: tells(done, 13),
        (
            [
                ("ingredient_grams", {"recipe": "rye bread", "ingredient": "salt"}),
                ("final_answer", "13 grams of salt."),
            ],
        ),
    )


@task("one call", "choose")
def correlation_in_the_harvest() -> Scene:
    harvest = pd.DataFrame(
        {
            "rainfall": [310, 402, 275, 518, 366, 447, 290, 405],
            "sunshine": [1710, 1480, 1820, 1390, 1655, 1600, 1745, 1390],
            "barley": [3.9, 4.4, 3.8, 5.1, 3.7, 5.3, 4.2, 4.0],
        }
    )
    prices = pd.DataFrame({"year": [2031, 2032, 2033], "barley": [188, 203, 197]})

    def correlation(table: pd.DataFrame, first: str, second: str) -> float:
        """Compute Pearson's correlation between two columns of a table.

        Args:
            table: The table
            first: The name of one column
            second: The name of the other column
        """
        first, second = key_of(table, first, "column"), key_of(table, second, "column")
        return round(float(table[first].corr(table[second])), 2)

    return Scene(
        [correlation],
        (
            "How strongly are rainfall and barley correlated in the table harvest? I need Pearson's coefficient.",
        ),
        lambda done: tells(done, correlation(harvest, "rainfall", "barley")),
        (
            [
                ("correlation", {"table": "harvest", "first": "rainfall", "second": "barley"}),
                (
                    "final_answer",
                    f"The correlation is {correlation(harvest, 'rainfall', 'barley')}.",
                ),
            ],
        ),
        namespace={"harvest": harvest, "prices": prices},
    )


@task("one call", "choose")
def porch_light_off() -> Scene:
    lights = {"porch": True, "hall": True, "garage": False}

    def switch_light(place: str, on: bool) -> str:
        """Switch a light of the house on or off.

        Args:
            place: Where the light is: porch, hall or garage
            on: Whether it is to be on
        """
        place = key_of(lights, place, "light")
        lights[place] = on
        return f"the light in the {place} is now {'on' if on else 'off'}"

    return Scene(
        [switch_light],
        ("Please turn off the light on the porch.",),
        lambda done: left(lights, {"porch": False, "hall": True, "garage": False}),
        (
            [
                ("switch_light", {"place": "porch", "on": False}),
                ("final_answer", "The light on the porch is off."),
            ],
        ),
        liar="The light on the porch is now off.",
    )


# ── choose a tool ─────────────────────────────────────────────────────────────────────────────────


@task("choose a tool", "choose")
def median_wait_at_the_clinic() -> Scene:
    waits = {"Linden": (34.5, 21.0, 118.0), "Harbourside": (27.2, 25.5, 64.0)}

    def mean_wait(clinic: str) -> float:
        """Compute the mean waiting time at a clinic, in minutes.

        Args:
            clinic: The clinic's name
        """
        return waits[key_of(waits, clinic, "clinic")][0]

    def median_wait(clinic: str) -> float:
        """Compute the median waiting time at a clinic, in minutes.

        Args:
            clinic: The clinic's name
        """
        return waits[key_of(waits, clinic, "clinic")][1]

    def longest_wait(clinic: str) -> float:
        """Find the longest waiting time at a clinic, in minutes.

        Args:
            clinic: The clinic's name
        """
        return waits[key_of(waits, clinic, "clinic")][2]

    return Scene(
        [mean_wait, median_wait, longest_wait],
        ("What is the median waiting time at the Linden clinic?",),
        lambda done: tells(done, 21),
        ([("median_wait", "Linden"), ("final_answer", "The median is 21 minutes.")],),
    )


@task("choose a tool", "choose")
def how_far_the_van_still_goes() -> Scene:
    vehicles = {"van": (48310, 22.5, 183, 2.9), "pickup": (112045, 51.0, 420, 2.6)}

    def odometer(vehicle: str) -> int:
        """Read how far a vehicle was driven in its life, in kilometres.

        Args:
            vehicle: van or pickup
        """
        return int(vehicles[key_of(vehicles, vehicle, "vehicle")][0])

    def fuel_level(vehicle: str) -> float:
        """Read how full a vehicle's tank is, in percent.

        Args:
            vehicle: van or pickup
        """
        return vehicles[key_of(vehicles, vehicle, "vehicle")][1]

    def remaining_range(vehicle: str) -> int:
        """Estimate how far a vehicle can drive before it must refuel, in kilometres.

        Args:
            vehicle: van or pickup
        """
        return int(vehicles[key_of(vehicles, vehicle, "vehicle")][2])

    def tyre_pressure(vehicle: str) -> float:
        """Read the tyre pressure of a vehicle, in bar.

        Args:
            vehicle: van or pickup
        """
        return vehicles[key_of(vehicles, vehicle, "vehicle")][3]

    return Scene(
        [odometer, fuel_level, remaining_range, tyre_pressure],
        ("how many km can I still drive with the van before I have to refuel?",),
        lambda done: tells(done, 183),
        ([("remaining_range", "van"), ("final_answer", "About 183 km.")],),
    )


@task("choose a tool", "choose")
def archive_a_note() -> Scene:
    notes = ["Garden plans", "Tax papers", "Gift ideas"]
    did: list[tuple[str, str]] = []

    def delete_note(title: str) -> str:
        """Delete one of my notes for ever.

        Args:
            title: The note's title
        """
        did.append(("delete", key_of(notes, title, "note")))
        return "the note is deleted"

    def archive_note(title: str) -> str:
        """Move one of my notes to the archive.

        Args:
            title: The note's title
        """
        did.append(("archive", key_of(notes, title, "note")))
        return "the note is archived"

    def pin_note(title: str) -> str:
        """Pin one of my notes to the top of the list.

        Args:
            title: The note's title
        """
        did.append(("pin", key_of(notes, title, "note")))
        return "the note is pinned"

    return Scene(
        [delete_note, archive_note, pin_note],
        ('Archive my note "Garden plans", I don\'t need it at hand any more.',),
        lambda done: left(did, [("archive", "Garden plans")]),
        ([("archive_note", "Garden plans"), ("final_answer", "The note is archived.")],),
        liar='Your note "Garden plans" is archived.',
    )
