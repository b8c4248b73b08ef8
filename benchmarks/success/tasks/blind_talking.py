"""Questions that lean on the one before or need no tool, and answers that must have a type."""

from __future__ import annotations

from benchmarks.success.checks import consulted, entry_of, key_of, left, names, valued
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import any_of, says

# ── follow-up ─────────────────────────────────────────────────────────────────────────────────────


@task("follow-up", "blind")
def another_town_in_another_unit() -> Scene:
    table = {"Oslo": 4.0, "Visby": 9.5}

    def temperature_in(town: str) -> float:
        """Measure the temperature in a town, in degrees Celsius.

        Args:
            town: The town's name
        """
        return table[entry_of(table, town, "town")]

    def celsius_to_fahrenheit(celsius: float) -> float:
        """Convert degrees Celsius to degrees Fahrenheit.

        Args:
            celsius: Degrees Celsius
        """
        return round(celsius * 1.8 + 32, 2)

    return Scene(
        [temperature_in, celsius_to_fahrenheit],
        ("How many degrees Celsius are there in Oslo?", "And in Visby, in degrees Fahrenheit?"),
        lambda done: says(done, 49.1),
        (
            [("temperature_in", "Oslo"), ("final_answer", "There are 4 °C.")],
            [
                ("temperature_in", "Visby"),
                ("celsius_to_fahrenheit", 9.5),
                ("final_answer", "There it has 49.1 °F."),
            ],
        ),
    )


@task("follow-up", "blind")
def better_mark_than_the_first() -> Scene:
    table = {"Ida": 3, "Tom": 2}
    log: list[str] = []

    def mark_of(pupil: str) -> int:
        """Look up the mark of a pupil in chemistry; 1 is the best mark and 6 the worst.

        Args:
            pupil: The pupil's name
        """
        found = key_of(table, pupil, "pupil")
        log.append(found)
        return table[found]

    return Scene(
        [mark_of],
        (
            "Which mark does Ida have in chemistry?",
            "Who has the better mark, she or Tom? Answer with the name only.",
        ),
        lambda done: consulted(log, "Ida", "Tom") or names(done, "Tom", "Ida"),
        (
            [("mark_of", "Ida"), ("final_answer", "She has a 3.")],
            [("mark_of", "Tom"), ("final_answer", "Tom")],
        ),
    )


@task("follow-up", "blind")
def crates_for_the_branch_just_found() -> Scene:
    managers = {"Berger": "Field and Stream", "Okafor": "Lake and Hill"}
    sent: list[tuple[str, int]] = []

    def branch_of(manager: str) -> str:
        """Look up which branch a manager runs.

        Args:
            manager: The manager's family name
        """
        return managers[key_of(managers, manager, "manager")]

    def send_crates(branch: str, crates: int) -> str:
        """Send crates to a branch.

        Args:
            branch: The branch's name
            crates: How many crates
        """
        sent.append((branch, crates))
        return "on their way"

    return Scene(
        [branch_of, send_crates],
        ("Which branch does Okafor run?", "Send that branch 20 crates."),
        lambda done: left(sent, [("Lake and Hill", 20)]),
        (
            [("branch_of", "Okafor"), ("final_answer", "Lake and Hill")],
            [
                ("send_crates", {"branch": "Lake and Hill", "crates": 20}),
                ("final_answer", "They are on their way."),
            ],
        ),
    )


@task("follow-up", "blind")
def fr_et_celui_de_lyon() -> Scene:
    rooms = {"Lyon": "Le Chêne et l'Olive", "Lille": "Les Deux Tours"}
    phones = {"Le Chêne et l'Olive": "04 55 12", "Les Deux Tours": "03 61 90"}

    def hotel_in(city: str) -> str:
        """Look up the hotel of the company in a city.

        Args:
            city: The city's name
        """
        return rooms[key_of(rooms, city, "city")]

    def phone_of(hotel: str) -> str:
        """Look up the phone number of a hotel.

        Args:
            hotel: The hotel's name
        """
        return phones[key_of(phones, str(hotel).replace("’", "'"), "hotel")]

    return Scene(
        [phone_of, hotel_in],
        (
            "Comment s'appelle l'hôtel de l'entreprise à Lyon ?",
            "Et quel est son numéro de téléphone ?",
        ),
        lambda done: any_of(done, "04 55 12", "045512", "04-55-12", "04.55.12"),
        (
            [("hotel_in", "Lyon"), ("final_answer", "Il s'appelle Le Chêne et l'Olive.")],
            [("phone_of", "Le Chêne et l'Olive"), ("final_answer", "C'est le 04 55 12.")],
        ),
    )


@task("follow-up", "blind")
def zh_price_of_the_other_room() -> Scene:
    table = {"单人间": 268, "双人间": 395}

    def price_of_room(kind: str) -> int:
        """Look up the price of a hotel room for one night, in yuan (房价).

        Args:
            kind: The kind of the room in Chinese
        """
        return table[key_of(table, kind, "kind of room")]

    return Scene(
        [price_of_room],
        ("单人间一晚多少钱?", "那双人间呢?"),
        lambda done: says(done, 395),
        (
            [("price_of_room", "单人间"), ("final_answer", "一晚268元。")],
            [("price_of_room", "双人间"), ("final_answer", "一晚395元。")],
        ),
    )


# ── typed answer ──────────────────────────────────────────────────────────────────────────────────


@task("typed answer", "blind")
def minutes_of_a_flight() -> Scene:
    table = {"LX-318": 2.25, "LX-319": 3.0}

    def hours_of(flight: str) -> float:
        """Look up how long a flight takes, in hours.

        Args:
            flight: The flight's number
        """
        return table[key_of(table, flight, "flight")]

    return Scene(
        [hours_of],
        ("How many minutes does the flight LX-318 take?",),
        lambda done: valued(done, 135),
        ([("hours_of", "LX-318"), ("final_answer", 135)],),
        liar="77",
        output_type=int,
    )


@task("typed answer", "blind")
def members_with_and_in_their_names() -> Scene:
    members = ["Bosnia and Herzegovina", "Trinidad and Tobago", "Malta"]

    def members_of(group: str) -> list[str]:
        """List the member countries of a group.

        Args:
            group: The group's name
        """
        return list(members)

    return Scene(
        [members_of],
        ("Which countries are members of the group C-4?",),
        lambda done: left(
            sorted(done.last.value) if isinstance(done.last.value, list) else done.last.value,
            sorted(members),
        ),
        ([("members_of", "C-4"), ("final_answer", members)],),
        liar='["Malta"]',
        output_type=list[str],
    )


@task("typed answer", "blind")
def not_passed_with_a_high_mark() -> Scene:
    log: list[str] = []

    def mark_of(student: str) -> float:
        """Look up the mark of a student, from 1.0, the best, to 5.0; 4.0 is just enough to pass.

        Args:
            student: The student's name
        """
        log.append(student)
        return 4.3

    return Scene(
        [mark_of],
        ("Has the student Lind passed? Answer with true or false.",),
        lambda done: valued(done, False) or left(len(log) > 0, True),
        ([("mark_of", "Lind"), ("final_answer", False)],),
        liar="true",
        output_type=bool,
    )


@task("typed answer", "blind")
def zh_price_in_yuan() -> Scene:
    table = {"P-30": 1980, "P-31": 2450}

    def price_of(item: str) -> int:
        """Look up the price of an item in fen, of which 100 make a yuan (价格,单位:分).

        Args:
            item: The item's number
        """
        return table[key_of(table, item, "item")]

    return Scene(
        [price_of],
        ("商品P-30的价格是多少元?",),
        lambda done: valued(done, 19.8),
        ([("price_of", "P-30"), ("final_answer", 19.8)],),
        liar="77.0",
        output_type=float,
    )


@task("typed answer", "blind")
def ja_name_of_a_station() -> Scene:
    table = {"3-21": "みどり駅", "3-22": "さくら駅"}

    def station_at(stop: str) -> str:
        """Look up the name of the station at a stop (停留所の駅名).

        Args:
            stop: The stop's number
        """
        return table[key_of(table, stop, "stop")]

    return Scene(
        [station_at],
        ("停留所3-22の駅名は何ですか。駅名だけを答えてください。",),
        lambda done: left(str(done.last.value).strip("「」。 ").removesuffix("駅"), "さくら"),
        ([("station_at", "3-22"), ("final_answer", "さくら駅")],),
        output_type=str,
    )


# ── no tool needed ────────────────────────────────────────────────────────────────────────────────


@task("no tool needed", "blind")
def minutes_of_three_and_a_half_hours() -> Scene:
    log: list[str] = []

    def start_machine(name: str) -> str:
        """Start a machine.

        Args:
            name: The machine's name
        """
        log.append(name)
        return "started"

    return Scene(
        [start_machine],
        ("How many minutes are three and a half hours?",),
        lambda done: says(done, 210) or left(log, []),
        ([("final_answer", "210 minutes.")],),
    )


@task("no tool needed", "blind")
def eggs_in_fifteen_boxes() -> Scene:
    log: list[str] = []

    def price_of(item: str) -> float:
        """Look up the price of an item, in euros.

        Args:
            item: The item's name
        """
        log.append(item)
        return 3.20

    return Scene(
        [price_of],
        ("A box holds 12 eggs. How many eggs are in 15 boxes?",),
        lambda done: says(done, 180),
        ([("final_answer", "180 eggs.")],),
    )


@task("no tool needed", "blind")
def es_metros_en_centimetros() -> Scene:
    log: list[str] = []

    def delete_plan(name: str) -> str:
        """Delete a floor plan.

        Args:
            name: The name of the plan
        """
        log.append(name)
        return "deleted"

    return Scene(
        [delete_plan],
        ("¿Cuántos centímetros son 2,75 metros?",),
        lambda done: says(done, 275) or left(log, []),
        ([("final_answer", "Son 275 centímetros.")],),
    )


@task("no tool needed", "blind")
def ja_good_morning_in_french() -> Scene:
    log: list[str] = []

    def send_mail(to: str) -> str:
        """Send a mail (メールを送る).

        Args:
            to: Who gets it
        """
        log.append(to)
        return "sent"

    return Scene(
        [send_mail],
        ("英語の「Good morning」は、フランス語で何と言いますか。",),
        lambda done: any_of(done, "bonjour", "ボンジュール") or left(log, []),
        ([("final_answer", "「Bonjour」と言います。")],),
    )
