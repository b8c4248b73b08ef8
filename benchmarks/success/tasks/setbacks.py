"""For reporting: tools that fail, for a reason that their message names or only for a while."""

from __future__ import annotations

import re
from typing import Literal

from benchmarks.success.checks import left, tells
from benchmarks.success.task import Scene, task

# ── recover ───────────────────────────────────────────────────────────────────────────────────────


@task("recover", "report")
def number_plate_of_a_permit() -> Scene:
    permits = {"HX-7731": 46, "LB-2040": 203}

    def permit_days_left(plate: str) -> int:
        """How much longer a parking permit is valid.

        Args:
            plate: The number plate of the car

        Returns:
            int: Days
        """
        if not re.fullmatch(r"[A-Z]{2}-\d{4}", plate):
            raise ValueError(f"{plate!r} is no number plate; write it with a dash, like AB-1234")
        if plate not in permits:
            raise ValueError(f"there is no permit for {plate}")
        return permits[plate]

    return Scene(
        [permit_days_left],
        ("For how many more days is the parking permit of HX 7731 valid?",),
        lambda done: tells(done, 46),
        (
            [
                ("permit_days_left", "HX 7731"),
                ("permit_days_left", "HX-7731"),
                ("final_answer", "46 more days."),
            ],
        ),
    )


@task("recover", "report")
def counter_on_the_bridge() -> Scene:
    counted = {"Castle Gate": 1310, "Stone Bridge": 2875, "Canal Path": 964}

    def bikes_yesterday(counter: str) -> int:
        """Bicycles that passed one of the city's counters yesterday.

        Args:
            counter: The counter's name

        Returns:
            int: Bicycles
        """
        for name, bikes in counted.items():
            if name.lower() == counter.strip().lower():
                return bikes
        raise ValueError(f"no counter is named {counter!r}; the counters are {', '.join(counted)}")

    return Scene(
        [bikes_yesterday],
        ("how many bikes went past the bridge counter yesterday",),
        lambda done: tells(done, 2875),
        (
            [
                ("bikes_yesterday", "bridge"),
                ("bikes_yesterday", "Stone Bridge"),
                ("final_answer", "2,875 bikes went past."),
            ],
        ),
    )


@task("recover", "report")
def kiln_with_an_open_lid() -> Scene:
    lid = {"open": True}
    fired: list[str] = []

    def start_kiln(program: Literal["biscuit", "glaze"]) -> str:
        """Start the pottery kiln.

        Args:
            program: The firing program

        Returns:
            str: A confirmation
        """
        if lid["open"]:
            raise RuntimeError(
                "the lid of the kiln is open; close it first with close_lid, then start the kiln again"
            )
        fired.append(program)
        return f"the kiln runs the program {program}"

    def close_lid() -> str:
        """Close the lid of the pottery kiln.

        Returns:
            str: A confirmation
        """
        lid["open"] = False
        return "the lid is closed"

    return Scene(
        [start_kiln, close_lid],
        ("Start the kiln with the glaze program.",),
        lambda done: left((lid["open"], fired), (False, ["glaze"])),
        (
            [
                ("start_kiln", "glaze"),
                ("close_lid", {}),
                ("start_kiln", "glaze"),
                ("final_answer", "The kiln runs the glaze program."),
            ],
        ),
    )


# ── retry ─────────────────────────────────────────────────────────────────────────────────────────


@task("retry", "report")
def gauge_on_the_pier() -> Scene:
    tries: list[str] = []

    def water_level(gauge: str) -> float:
        """Ask a gauge for the water level.

        Args:
            gauge: Where the gauge stands

        Returns:
            float: Metres
        """
        tries.append(gauge)
        if len(tries) == 1:
            raise TimeoutError("the gauge did not answer in time; please try again")
        return 3.42

    return Scene(
        [water_level],
        ("What's the water level at the gauge on the pier?",),
        lambda done: tells(done, 3.42),
        (
            [
                ("water_level", "pier"),
                ("water_level", "pier"),
                ("final_answer", "The level is 3.42 m."),
            ],
        ),
    )


@task("retry", "report")
def labels_from_a_cold_printer() -> Scene:
    tries: list[int] = []
    printed: list[int] = []

    def print_labels(count: int) -> str:
        """Print labels for the seed packets.

        Args:
            count: How many labels

        Returns:
            str: A confirmation
        """
        tries.append(count)
        if len(tries) <= 2:
            raise ConnectionError("the printer is warming up and printed nothing; try again")
        printed.append(count)
        return f"{count} labels were printed"

    return Scene(
        [print_labels],
        ("Print 24 labels for the seed packets please.",),
        lambda done: left(printed, [24]),
        (
            [
                ("print_labels", 24),
                ("print_labels", 24),
                ("print_labels", 24),
                ("final_answer", "24 labels are printed."),
            ],
        ),
    )


@task("retry", "report")
def upload_to_a_busy_archive() -> Scene:
    tries: list[str] = []
    stored: list[str] = []

    def upload(file: str) -> str:
        """Upload a file of this notebook to the archive of the institute.

        Args:
            file: The file's name

        Returns:
            str: A confirmation
        """
        tries.append(file)
        if len(tries) == 1:
            raise ConnectionError(
                "503: the archive is busy for a moment, nothing was stored; try again"
            )
        stored.append(file)
        return f"{file} is stored"

    def delete_upload(file: str) -> str:
        """Delete a file from the archive of the institute.

        Args:
            file: The file's name

        Returns:
            str: A confirmation
        """
        stored.append(f"deleted {file}")
        return f"{file} is deleted"

    return Scene(
        [upload, delete_upload],
        ("upload spores.csv to the archive",),
        lambda done: left(stored, ["spores.csv"]),
        (
            [
                ("upload", "spores.csv"),
                ("upload", "spores.csv"),
                ("final_answer", "It is in the archive."),
            ],
        ),
    )
