"""For reporting: tools that change something, only where a condition holds and exactly once."""

from __future__ import annotations

import re
from typing import Literal

from benchmarks.success.checks import consulted, entry_of, first_fault, left, tells
from benchmarks.success.task import Scene, task

# ── conditional ───────────────────────────────────────────────────────────────────────────────────


@task("conditional", "report")
def vents_of_a_damp_greenhouse() -> Scene:
    opened: list[int] = []
    measured: list[int] = []

    def humidity_in(greenhouse: int) -> int:
        """Measure how humid the air in a greenhouse is.

        Args:
            greenhouse: The greenhouse's number

        Returns:
            int: Percent
        """
        measured.append(greenhouse)
        return {1: 64, 2: 88, 3: 71}[greenhouse]

    def open_vents(greenhouse: int) -> str:
        """Open the vents in the roof of a greenhouse.

        Args:
            greenhouse: The greenhouse's number

        Returns:
            str: A confirmation
        """
        opened.append(greenhouse)
        return "the vents are open"

    return Scene(
        [humidity_in, open_vents],
        ("Check the humidity in greenhouse 2. If it's over 80 percent, open the vents there.",),
        lambda done: first_fault(left(opened, [2]), consulted(measured, 2)),
        (
            [
                ("humidity_in", 2),
                ("open_vents", 2),
                ("final_answer", "It was 88 percent, the vents are open now."),
            ],
        ),
    )


@task("conditional", "report")
def lift_that_was_inspected() -> Scene:
    days = {"A": 402, "B": 77, "C": 131}
    booked: list[str] = []
    looked: list[str] = []

    def days_since_inspection(lift: str) -> int:
        """How long ago a lift of the building was inspected.

        Args:
            lift: The letter of the lift

        Returns:
            int: Days
        """
        lift = entry_of(days, re.sub(r"(?i)^lift\s+", "", lift), "lift")
        looked.append(lift)
        return days[lift]

    def book_inspection(lift: str) -> str:
        """Book the inspector for a lift. This costs 300 euros.

        Args:
            lift: The letter of the lift

        Returns:
            str: A confirmation
        """
        booked.append(lift)
        return "the inspector comes tomorrow"

    return Scene(
        [days_since_inspection, book_inspection],
        (
            (
                "Book an inspection for lift C only if the last one was more than 180 days ago. How many days "
                "ago was it?"
            ),
        ),
        lambda done: first_fault(left(booked, []), consulted(looked, "C"), tells(done, 131)),
        (
            [
                ("days_since_inspection", "C"),
                ("final_answer", "It was 131 days ago, so I booked nothing."),
            ],
        ),
    )


@task("conditional", "report")
def buffer_or_fresh_water() -> Scene:
    acidity = {"seahorse": 8.1, "reef": 7.6}
    done_to: list[tuple[str, str]] = []
    measured: list[str] = []

    def measure_ph(tank: str) -> float:
        """Measure the pH of the water in a tank of the aquarium.

        Args:
            tank: The tank's name, e.g. reef

        Returns:
            float: The pH
        """
        tank = entry_of(acidity, re.sub(r"(?i)\s*tank$", "", tank), "tank")
        measured.append(tank)
        return acidity[tank]

    def add_buffer(tank: str) -> str:
        """Add a dose of buffer to a tank, which raises its pH.

        Args:
            tank: The tank's name, e.g. reef

        Returns:
            str: A confirmation
        """
        done_to.append(("buffer", entry_of(acidity, re.sub(r"(?i)\s*tank$", "", tank), "tank")))
        return "buffer was added"

    def change_water(tank: str) -> str:
        """Replace a quarter of the water in a tank.

        Args:
            tank: The tank's name, e.g. reef

        Returns:
            str: A confirmation
        """
        done_to.append(("water", entry_of(acidity, re.sub(r"(?i)\s*tank$", "", tank), "tank")))
        return "a quarter of the water was replaced"

    return Scene(
        [measure_ph, add_buffer, change_water],
        (
            "Measure the pH in the seahorse tank. If it is below 7.8, add buffer; otherwise change the water.",
        ),
        lambda done: first_fault(
            left(done_to, [("water", "seahorse")]), consulted(measured, "seahorse")
        ),
        (
            [
                ("measure_ph", "seahorse"),
                ("change_water", "seahorse"),
                ("final_answer", "The pH is 8.1, so I changed the water."),
            ],
        ),
    )


# ── exactly once ──────────────────────────────────────────────────────────────────────────────────


@task("exactly once", "report")
def blood_for_the_ward() -> Scene:
    reserved: list[tuple[str, int]] = []
    shelf = {"A+": 20, "A-": 6, "B+": 11, "O+": 31, "O-": 8}

    def units_available(blood_type: Literal["A+", "A-", "B+", "O+", "O-"]) -> int:
        """Count the units of blood in the blood bank that are not reserved.

        Args:
            blood_type: The blood type

        Returns:
            int: Units
        """
        return shelf[blood_type] - sum(units for kind, units in reserved if kind == blood_type)

    def reserve_blood(blood_type: Literal["A+", "A-", "B+", "O+", "O-"], units: int) -> str:
        """Reserve units of blood in the blood bank.

        Args:
            blood_type: The blood type
            units: How many units

        Returns:
            str: A confirmation
        """
        reserved.append((blood_type, units))
        return f"{units} units of {blood_type} are reserved"

    return Scene(
        [units_available, reserve_blood],
        ("Reserve 3 units of O- for us.",),
        lambda done: left(reserved, [("O-", 3)]),
        (
            [
                ("reserve_blood", {"blood_type": "O-", "units": 3}),
                ("final_answer", "Three units of O- are reserved."),
            ],
        ),
    )


@task("exactly once", "report")
def draw_at_the_chess_club() -> Scene:
    recorded: list[tuple[str, str, str]] = []

    def record_game(
        white: str, black: str, result: Literal["white wins", "black wins", "draw"]
    ) -> str:
        """Enter the result of a game in the table of the chess club.

        Args:
            white: Who played the white pieces
            black: Who played the black pieces
            result: How the game ended

        Returns:
            str: A confirmation
        """
        recorded.append((white.strip().title(), black.strip().title(), result))
        return f"game {len(recorded)} was entered"

    return Scene(
        [record_game],
        (
            "Ilse had white against Bruno tonight and it ended in a draw. Can you put that in the club table?",
        ),
        lambda done: left(recorded, [("Ilse", "Bruno", "draw")]),
        (
            [
                ("record_game", {"white": "Ilse", "black": "Bruno", "result": "draw"}),
                ("final_answer", "The draw is in the table."),
            ],
        ),
    )


@task("exactly once", "report")
def two_songs_in_the_queue() -> Scene:
    queue: list[str] = []

    def add_to_queue(song: str) -> str:
        """Put a song at the end of the queue of the jukebox.

        Args:
            song: The song's title

        Returns:
            str: A confirmation
        """
        queue.append(song.strip().strip(".'\"").title())
        return "added"

    def skip_song() -> str:
        """Skip the song that plays now.

        Returns:
            str: A confirmation
        """
        queue.append("(skipped)")
        return "skipped"

    return Scene(
        [skip_song, add_to_queue],
        ("Put Blue Lantern on the jukebox, and after it Harbour Lights.",),
        lambda done: left(queue, ["Blue Lantern", "Harbour Lights"]),
        (
            [
                ("add_to_queue", "Blue Lantern"),
                ("add_to_queue", "Harbour Lights"),
                ("final_answer", "Both are in the queue."),
            ],
        ),
    )
