"""For reporting: two steps, within one question or over two."""

from __future__ import annotations

import re
from typing import Literal

from benchmarks.success.checks import consulted, entry_of, first_fault, left, tells
from benchmarks.success.task import Scene, task

# ── two steps ─────────────────────────────────────────────────────────────────────────────────────


@task("two steps", "report")
def insurance_of_a_painting() -> Scene:
    numbered = {"Winter Harbour": "M-0417", "Girl with Heron": "M-0093"}

    def inventory_number(title: str) -> str:
        """Find the inventory number of a painting of the museum.

        Args:
            title: The title of the painting

        Returns:
            str: The inventory number
        """
        return numbered[entry_of(numbered, title, "painting")]

    def insured_value(inventory_number: str) -> int:
        """Look up for how much an object of the museum is insured.

        Args:
            inventory_number: The number of the object in the inventory, such as M-0001

        Returns:
            int: Euros
        """
        values = {"M-0417": 265000, "M-0093": 48000}
        return values[entry_of(values, inventory_number, "object")]

    return Scene(
        [inventory_number, insured_value],
        ("For how much is the painting Winter Harbour insured?",),
        lambda done: tells(done, 265000),
        (
            [
                ("inventory_number", "Winter Harbour"),
                ("insured_value", "M-0417"),
                ("final_answer", "It is insured for 265,000 euros."),
            ],
        ),
    )


@task("two steps", "report")
def segments_of_a_memory() -> Scene:
    memories = {
        ("danish", "portuguese"): "tm_fjord",
        ("danish", "polish"): "tm_amber",
        ("dutch", "polish"): "tm_delta",
    }

    def find_memory(source: str, target: str) -> str:
        """Find the translation memory of a pair of languages.

        Args:
            source: The language that is translated from, in English, e.g. Dutch
            target: The language that is translated into, in English, e.g. Polish

        Returns:
            str: The memory's name
        """
        pair = (source.strip().lower(), target.strip().lower())
        if pair not in memories:
            raise ValueError(f"there is no memory from {source} to {target}")
        return memories[pair]

    def count_segments(memory: str) -> int:
        """Count the segments that are stored in a translation memory.

        Args:
            memory: The memory's name

        Returns:
            int: Stored segments
        """
        sizes = {"tm_fjord": 20419, "tm_amber": 7750, "tm_delta": 51302}
        return sizes[entry_of(sizes, memory, "memory")]

    return Scene(
        [count_segments, find_memory],
        ("How many segments are in our Danish to Portuguese translation memory?",),
        lambda done: tells(done, 20419),
        (
            [
                ("find_memory", {"source": "Danish", "target": "Portuguese"}),
                ("count_segments", "tm_fjord"),
                ("final_answer", "20419 segments."),
            ],
        ),
    )


@task("two steps", "report")
def mirror_of_her_telescope() -> Scene:
    observers = {"Ferrante": "Lyra Two", "Okafor": "Big Owl", "Sundqvist": "Corvus"}

    def telescope_of(astronomer: str) -> str:
        """Name the telescope that an astronomer uses tonight.

        Args:
            astronomer: The last name

        Returns:
            str: The telescope
        """
        return observers[
            entry_of(observers, re.sub(r"(?i)^dr\.?\s+", "", astronomer), "astronomer")
        ]

    def mirror_diameter(telescope: str) -> float:
        """Diameter of the main mirror of a telescope.

        Args:
            telescope: The telescope's name

        Returns:
            float: Metres
        """
        mirrors = {"Lyra Two": 2.54, "Big Owl": 4.2, "Corvus": 1.06}
        return mirrors[entry_of(mirrors, telescope, "telescope")]

    def seeing() -> float:
        """Measure how much the air blurs the stars now.

        Returns:
            float: Arc seconds
        """
        return 0.8

    return Scene(
        [telescope_of, seeing, mirror_diameter],
        ("Ferrante is observing tonight. How large is the mirror of the telescope she uses?",),
        lambda done: tells(done, 2.54),
        (
            [
                ("telescope_of", "Ferrante"),
                ("mirror_diameter", "Lyra Two"),
                ("final_answer", "Its mirror has 2.54 metres."),
            ],
        ),
    )


# ── follow-up ─────────────────────────────────────────────────────────────────────────────────────


@task("follow-up", "report")
def the_other_hall_of_the_museum() -> Scene:
    halls = {"Egypt": {"Saturday": 512, "Sunday": 687}, "Rome": {"Saturday": 349, "Sunday": 420}}
    asked: list[tuple[str, str]] = []

    def visitors(hall: str, day: Literal["Saturday", "Sunday"]) -> int:
        """Count the visitors of a hall of the museum last weekend.

        Args:
            hall: The hall's name, e.g. Egypt
            day: The day

        Returns:
            int: Visitors
        """
        hall = entry_of(halls, re.sub(r"(?i)\s*hall$", "", hall), "hall")
        asked.append((hall, day))
        return halls[hall][day]

    return Scene(
        [visitors],
        (
            "How many visitors did the Egypt hall have on Saturday?",
            "And the Rome hall on the same day?",
        ),
        lambda done: first_fault(tells(done, 349), consulted(asked, ("Rome", "Saturday"))),
        (
            [("visitors", {"hall": "Egypt", "day": "Saturday"}), ("final_answer", "512 visitors.")],
            [
                ("visitors", {"hall": "Rome", "day": "Saturday"}),
                ("final_answer", "It had 349 visitors."),
            ],
        ),
    )


@task("follow-up", "report")
def lend_it_to_a_member() -> Scene:
    lent: list[tuple[str, str]] = []

    def bow_on(hook: int) -> str:
        """Say which bow of the archery club hangs on a hook.

        Args:
            hook: The hook's number

        Returns:
            str: The label of the bow
        """
        return {1: "Yew-4", 2: "Ash-9", 3: "Elm-2"}[hook]

    def lend_bow(bow: str, member: str) -> str:
        """Lend a bow of the archery club to a member.

        Args:
            bow: The label of the bow
            member: The member's first name

        Returns:
            str: A confirmation
        """
        lent.append((entry_of(["Yew-4", "Ash-9", "Elm-2"], bow, "bow"), member.strip().title()))
        return "lent"

    return Scene(
        [bow_on, lend_bow],
        ("Which bow hangs on hook 2?", "Great, lend it to Matteo."),
        lambda done: left(lent, [("Ash-9", "Matteo")]),
        (
            [("bow_on", 2), ("final_answer", "Ash-9 hangs there.")],
            [
                ("lend_bow", {"bow": "Ash-9", "member": "Matteo"}),
                ("final_answer", "Matteo has it."),
            ],
        ),
    )


@task("follow-up", "report")
def battery_of_that_buoy() -> Scene:
    def nearest_buoy(place: str) -> str:
        """Find the measuring buoy that floats nearest to a place on the coast.

        Args:
            place: The place's name

        Returns:
            str: The buoy's label
        """
        return {"Kettle Bay": "B-12", "Gull Point": "B-07"}[
            entry_of(["Kettle Bay", "Gull Point"], place, "place")
        ]

    def battery_of(buoy: str) -> int:
        """Say how full the battery of a measuring buoy is.

        Args:
            buoy: The buoy's label

        Returns:
            int: Percent
        """
        return {"B-12": 34, "B-07": 91}[entry_of(["B-12", "B-07"], buoy, "buoy")]

    return Scene(
        [nearest_buoy, battery_of],
        ("which buoy is closest to Kettle Bay?", "and how full is its battery?"),
        lambda done: tells(done, 34),
        (
            [("nearest_buoy", "Kettle Bay"), ("final_answer", "That is the buoy B-12.")],
            [("battery_of", "B-12"), ("final_answer", "It is at 34 percent.")],
        ),
    )
