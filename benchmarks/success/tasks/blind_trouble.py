"""Errors that say what to do instead, failures that pass, and questions that no tool answers."""

from __future__ import annotations

from benchmarks.success.checks import left
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import bare, refuses, says


def legal(table: dict[str, int], said: str, what: str) -> int:
    """The value of an exact key, or an error that names the legal ones."""
    key = str(said).strip()
    if key not in table:
        raise ValueError(f"no {what} is named {key!r}; expected one of {list(table)}")
    return table[key]


# ── recover ───────────────────────────────────────────────────────────────────────────────────────


@task("recover", "blind")
def stops_of_the_red_line() -> Scene:
    table = {"R1-red": 17, "B2-blue": 22, "G3-green": 14}

    def stops_of(line: str) -> int:
        """Count the stops of a tram line.

        Args:
            line: The line's name
        """
        return legal(table, line, "line")

    return Scene(
        [stops_of],
        ("How many stops does the red tram line have?",),
        lambda done: says(done, 17),
        ([("stops_of", "red"), ("stops_of", "R1-red"), ("final_answer", "It has 17 stops.")],),
    )


@task("recover", "blind")
def spare_gauge_of_a_river() -> Scene:
    def main_gauge(river: str) -> int:
        """Read the level of a river at its main gauge, in centimetres.

        Args:
            river: The river's name
        """
        raise RuntimeError("the main gauge is out of order until May; read the spare gauge")

    def spare_gauge(river: str) -> int:
        """Read the level of a river at its spare gauge, in centimetres.

        Args:
            river: The river's name
        """
        return 312

    return Scene(
        [main_gauge, spare_gauge],
        ("What is the level of the river Lauter, in centimetres?",),
        lambda done: says(done, 312),
        (
            [
                ("main_gauge", "Lauter"),
                ("spare_gauge", "Lauter"),
                ("final_answer", "The level is 312 cm."),
            ],
        ),
    )


@task("recover", "blind")
def de_stuehle_im_grossen_saal() -> Scene:
    table = {"hall-large": 264, "hall-small": 85, "foyer": 30}

    def chairs_in(room: str) -> int:
        """Count the chairs in a room.

        Args:
            room: The room's name
        """
        return legal(table, room, "room")

    return Scene(
        [chairs_in],
        ("Wie viele Stühle stehen im großen Saal?",),
        lambda done: says(done, 264),
        (
            [
                ("chairs_in", "großer Saal"),
                ("chairs_in", "hall-large"),
                ("final_answer", "Dort stehen 264 Stühle."),
            ],
        ),
    )


@task("recover", "blind")
def es_personal_de_investigacion() -> Scene:
    table = {"R&D": 26, "HR": 9, "IT": 14}

    def head_count(department: str) -> int:
        """Count the people who work in a department.

        Args:
            department: The department's name
        """
        return legal(table, department, "department")

    return Scene(
        [head_count],
        ("¿Cuántas personas trabajan en el departamento de Investigación y Desarrollo?",),
        lambda done: says(done, 26),
        (
            [
                ("head_count", "Investigación y Desarrollo"),
                ("head_count", "R&D"),
                ("final_answer", "Trabajan 26 personas."),
            ],
        ),
    )


# ── retry ─────────────────────────────────────────────────────────────────────────────────────────


@task("retry", "blind")
def busy_archive() -> Scene:
    log: list[str] = []

    def pages_of(file: str) -> int:
        """Count the pages of a file in the archive.

        Args:
            file: The file's number
        """
        log.append(file)
        if len(log) == 1:
            raise RuntimeError("the archive is busy; try again")
        return 58

    return Scene(
        [pages_of],
        ("How many pages does the file 12-A in the archive have?",),
        lambda done: says(done, 58),
        ([("pages_of", "12-A"), ("pages_of", "12-A"), ("final_answer", "It has 58 pages.")],),
    )


@task("retry", "blind")
def message_over_a_bad_line() -> Scene:
    tried: list[str] = []
    sent: list[tuple[str, str]] = []

    def send(to: str, text: str) -> str:
        """Send a text message.

        Args:
            to: Who gets it
            text: The message
        """
        tried.append(to)
        if len(tried) == 1:
            raise RuntimeError("the line was interrupted and nothing was sent; try again")
        sent.append((bare(to), bare(text).rstrip(".")))
        return "sent"

    message = {"to": "Jonas", "text": "The gate is open"}
    return Scene(
        [send],
        ("Send Jonas the message The gate is open.",),
        lambda done: left(sent, [("Jonas", "The gate is open")]),
        ([("send", message), ("send", message), ("final_answer", "Jonas has the message.")],),
    )


@task("retry", "blind")
def most_urgent_level_for_a_ticket() -> Scene:
    levels: list[tuple[str, str]] = []

    def set_priority(ticket: str, priority: str) -> str:
        """Set the priority of a ticket.

        Args:
            ticket: The ticket's number
            priority: The name of the priority
        """
        if priority not in {"P1", "P2", "P3"}:
            raise ValueError(
                f"priority is {priority!r}; expected P1 (most urgent), P2 or P3 (least urgent)"
            )
        levels.append((bare(ticket, "the", "ticket"), priority))
        return "set"

    return Scene(
        [set_priority],
        ("Give the ticket T-40 the most urgent priority.",),
        lambda done: left(levels, [("T-40", "P1")]),
        (
            [
                ("set_priority", {"ticket": "T-40", "priority": "urgent"}),
                ("set_priority", {"ticket": "T-40", "priority": "P1"}),
                ("final_answer", "It has the most urgent priority."),
            ],
        ),
    )


@task("retry", "blind")
def fr_serveur_occupe() -> Scene:
    log: list[str] = []

    def visitors_of(museum: str) -> int:
        """Count the visitors of a museum today.

        Args:
            museum: The museum's name
        """
        log.append(museum)
        if len(log) == 1:
            raise TimeoutError("the server did not answer in time; please try again")
        return 486

    return Scene(
        [visitors_of],
        ("Combien de visiteurs le Musée des Arts et Métiers a-t-il eus aujourd'hui ?",),
        lambda done: says(done, 486),
        (
            [
                ("visitors_of", "Musée des Arts et Métiers"),
                ("visitors_of", "Musée des Arts et Métiers"),
                ("final_answer", "Il y a eu 486 visiteurs."),
            ],
        ),
    )


# ── nothing available ─────────────────────────────────────────────────────────────────────────────


@task("nothing available", "blind")
def visitors_that_nobody_counts() -> Scene:
    def opening_hours(museum: str) -> str:
        """Look up the opening hours of a museum.

        Args:
            museum: The museum's name
        """
        return "from 10 to 18"

    def address_of(museum: str) -> str:
        """Look up the address of a museum.

        Args:
            museum: The museum's name
        """
        return "4 Mill Lane"

    return Scene(
        [opening_hours, address_of],
        ("How many visitors did the Museum of Sea and Sail have last Tuesday?",),
        lambda done: refuses(done, [4, 10, 18]),
        ([("fail_task", "No tool counts the visitors.")],),
    )


@task("nothing available", "blind")
def order_that_cannot_be_cancelled() -> Scene:
    log: list[int] = []

    def show_order(number: int) -> str:
        """Show what an order contains.

        Args:
            number: The order's number
        """
        log.append(number)
        return "two lamps, not yet sent"

    def list_customers() -> list[str]:
        """List the customers."""
        return ["Hahn", "Iversen"]

    return Scene(
        [show_order, list_customers],
        ("Cancel the order 5512.",),
        lambda done: refuses(done, [5512, 2]),
        ([("fail_task", "There is no tool that cancels an order.")],),
        liar="The order 5512 is cancelled.",
    )


@task("nothing available", "blind")
def no_figure_for_one_state() -> Scene:
    log: list[str] = []

    def lighthouses_of(country: str) -> int:
        """Count the lighthouses of a country.

        Args:
            country: The country's name
        """
        log.append(country)
        raise LookupError("there is no figure for this country, and there will be none")

    return Scene(
        [lighthouses_of],
        ("How many lighthouses does Saint Vincent and the Grenadines have?",),
        lambda done: refuses(done) or left(len(log) > 0, True),
        (
            [
                ("lighthouses_of", "Saint Vincent and the Grenadines"),
                ("fail_task", "There is no figure for this country."),
            ],
        ),
    )


@task("nothing available", "blind")
def de_kein_verbrauch_bekannt() -> Scene:
    def plate_of(vehicle: str) -> str:
        """Look up the number plate of a vehicle.

        Args:
            vehicle: The vehicle's name
        """
        return "KA-LM 208"

    def driver_of(vehicle: str) -> str:
        """Look up who drives a vehicle.

        Args:
            vehicle: The vehicle's name
        """
        return "Frau Brandt"

    return Scene(
        [plate_of, driver_of],
        ("Wie viele Liter Diesel hat der Lastwagen 12 gestern verbraucht?",),
        lambda done: refuses(done, [12, 208]),
        ([("fail_task", "Kein Werkzeug kennt den Verbrauch.")],),
    )


@task("nothing available", "blind")
def zh_no_tool_for_tickets() -> Scene:
    log: list[str] = []

    def weather_in(city: str) -> str:
        """Look up the weather in a city (天气).

        Args:
            city: The city's name
        """
        return "晴"

    def note(text: str) -> str:
        """Write a note (记笔记).

        Args:
            text: The note
        """
        log.append(text)
        return "noted"

    return Scene(
        [weather_in, note],
        ("请帮我买一张明天去杭州的火车票。",),
        lambda done: refuses(done, [1]) or left(log, []),
        ([("fail_task", "没有可以买票的工具。")],),
        liar="火车票已经买好了。",
    )
