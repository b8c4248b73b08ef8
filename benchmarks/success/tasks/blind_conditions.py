"""Actions that depend on a reading in another unit or on another scale; several must not happen."""

from __future__ import annotations

from benchmarks.success.checks import consulted, key_of, left
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import bare, says

# ── conditional ───────────────────────────────────────────────────────────────────────────────────


@task("conditional", "blind")
def valve_of_a_tank_in_kilopascals() -> Scene:
    log: list[str] = []
    opened: list[str] = []

    def pressure_in(tank: str) -> float:
        """Measure the pressure in a tank, in bar.

        Args:
            tank: The tank's name
        """
        log.append(bare(tank, "the", "tank"))
        return 1.9

    def bar_to_kpa(bar: float) -> float:
        """Convert a pressure from bar to kilopascals.

        Args:
            bar: The pressure in bar
        """
        return round(bar * 100, 3)

    def open_valve(tank: str) -> str:
        """Open the valve of a tank.

        Args:
            tank: The tank's name
        """
        opened.append(str(tank).strip())
        return "the valve is open"

    return Scene(
        [pressure_in, bar_to_kpa, open_valve],
        (
            (
                "If the pressure in the tank 3-B is above 250 kPa, open its valve. "
                "How high is the pressure, in kPa?"
            ),
        ),
        lambda done: left(opened, []) or consulted(log, "3-B") or says(done, 190),
        (
            [
                ("pressure_in", "3-B"),
                ("bar_to_kpa", 1.9),
                ("final_answer", "It is 190 kPa: the valve stays closed."),
            ],
        ),
    )


@task("conditional", "blind")
def lessons_for_a_bad_mark() -> Scene:
    marks = {"Emil": 5, "Ida": 2}
    enrolled: list[str] = []

    def mark_in_physics(pupil: str) -> int:
        """Look up the mark of a pupil in physics; 1 is the best mark and 6 the worst.

        Args:
            pupil: The pupil's name
        """
        return marks[key_of(marks, pupil, "pupil")]

    def enrol_in_extra_lessons(pupil: str) -> str:
        """Enrol a pupil in the extra lessons.

        Args:
            pupil: The pupil's name
        """
        enrolled.append(pupil)
        return "enrolled"

    return Scene(
        [mark_in_physics, enrol_in_extra_lessons],
        ("Look up Emil's mark in physics. If it is worse than 4, enrol him in the extra lessons.",),
        lambda done: left(enrolled, ["Emil"]),
        (
            [
                ("mark_in_physics", "Emil"),
                ("enrol_in_extra_lessons", "Emil"),
                ("final_answer", "His mark is 5: he is enrolled."),
            ],
        ),
    )


@task("conditional", "blind")
def no_congratulations_for_the_fifth() -> Scene:
    log: list[str] = []
    sent: list[str] = []

    def rank_of(team: str) -> int:
        """Look up the rank of a team in the final table.

        Args:
            team: The team's name
        """
        log.append(bare(team, "the", "team"))
        return 5

    def send_congratulations(team: str) -> str:
        """Send a team a card with congratulations.

        Args:
            team: The team's name
        """
        sent.append(team)
        return "sent"

    return Scene(
        [send_congratulations, rank_of],
        (
            (
                "Send congratulations to the team Rovers and Sons if it is among the first three. "
                "Which rank does it have?"
            ),
        ),
        lambda done: left(sent, []) or consulted(log, "Rovers and Sons") or says(done, 5),
        (
            [
                ("rank_of", "Rovers and Sons"),
                ("final_answer", "It has rank 5, so nothing was sent."),
            ],
        ),
    )


@task("conditional", "blind")
def heating_below_fifty_degrees_fahrenheit() -> Scene:
    on: list[str] = []

    def temperature_in(greenhouse: str) -> float:
        """Measure the temperature in a greenhouse, in degrees Celsius.

        Args:
            greenhouse: The greenhouse's name
        """
        return 8.0

    def celsius_to_fahrenheit(celsius: float) -> float:
        """Convert degrees Celsius to degrees Fahrenheit.

        Args:
            celsius: Degrees Celsius
        """
        return round(celsius * 1.8 + 32, 2)

    def switch_on_heating(greenhouse: str) -> str:
        """Switch on the heating of a greenhouse.

        Args:
            greenhouse: The greenhouse's name
        """
        on.append(bare(greenhouse, "the", "greenhouse"))
        return "the heating is on"

    return Scene(
        [temperature_in, celsius_to_fahrenheit, switch_on_heating],
        (
            (
                "If it is colder than 50 °F in the greenhouse G-4, switch on its heating. "
                "Tell me the temperature in °F."
            ),
        ),
        lambda done: left(on, ["G-4"]) or says(done, 46.4),
        (
            [
                ("temperature_in", "G-4"),
                ("celsius_to_fahrenheit", 8),
                ("switch_on_heating", "G-4"),
                ("final_answer", "It had 46.4 °F: the heating is on."),
            ],
        ),
    )


@task("conditional", "blind")
def de_roboter_laden() -> Scene:
    charged: list[str] = []
    table = {"Max und Moritz": 130, "Max": 400}

    def battery_minutes(robot: str) -> int:
        """Look up how many minutes the battery of a robot will last.

        Args:
            robot: The robot's name
        """
        return table[key_of(table, bare(robot), "robot")]

    def charge(robot: str) -> str:
        """Send a robot to its charger.

        Args:
            robot: The robot's name
        """
        charged.append(bare(robot))
        return "it is charging"

    return Scene(
        [charge, battery_minutes],
        (
            (
                "Prüfe, wie lange der Akku des Roboters „Max und Moritz“ noch reicht. "
                "Reicht er keine 2,5 Stunden mehr, dann lade den Roboter."
            ),
        ),
        lambda done: left(charged, ["Max und Moritz"]),
        (
            [
                ("battery_minutes", "Max und Moritz"),
                ("charge", "Max und Moritz"),
                ("final_answer", "Er reicht noch 130 Minuten und wird geladen."),
            ],
        ),
    )


@task("conditional", "blind")
def ja_no_order_with_enough_stock() -> Scene:
    log: list[str] = []
    ordered: list[str] = []

    def stock_of(item: str) -> int:
        """Count the pieces of an item in stock (在庫数).

        Args:
            item: The item's number
        """
        log.append(bare(item, "商品"))
        return 23

    def order(item: str) -> str:
        """Order an item (発注する).

        Args:
            item: The item's number
        """
        ordered.append(item)
        return "ordered"

    return Scene(
        [stock_of, order],
        ("商品C-51の在庫が20個より少なければ発注してください。在庫は何個ですか。",),
        lambda done: left(ordered, []) or consulted(log, "C-51") or says(done, 23),
        (
            [
                ("stock_of", "C-51"),
                ("final_answer", "在庫は23個なので、発注していません。"),
            ],
        ),
    )


@task("conditional", "blind")
def es_aviso_de_saldo() -> Scene:
    log: list[str] = []
    warned: list[str] = []

    def balance_of(client: str) -> int:
        """Look up the balance of a client's account, in cents.

        Args:
            client: The client's name
        """
        log.append(str(client).strip())
        return 18500

    def send_warning(client: str) -> str:
        """Warn a client that the account is nearly empty.

        Args:
            client: The client's name
        """
        warned.append(client)
        return "sent"

    return Scene(
        [send_warning, balance_of],
        (
            (
                "Si el saldo de García e Hijos es inferior a 200 euros, envíale un aviso; "
                "si no, no hagas nada. ¿Cuál es el saldo en euros?"
            ),
        ),
        lambda done: (
            left(warned, ["García e Hijos"]) or consulted(log, "García e Hijos") or says(done, 185)
        ),
        (
            [
                ("balance_of", "García e Hijos"),
                ("send_warning", "García e Hijos"),
                ("final_answer", "El saldo es de 185 euros; he enviado el aviso."),
            ],
        ),
    )
