"""Three things held against each other; a lower number is often the better one."""

from __future__ import annotations

from benchmarks.success.checks import consulted, entry_of, key_of, names
from benchmarks.success.task import Scene, task

# ── compare ───────────────────────────────────────────────────────────────────────────────────────


@task("compare", "blind")
def fewest_ships_of_three_states() -> Scene:
    table = {
        "Trinidad and Tobago": 61,
        "Antigua and Barbuda": 44,
        "Saint Kitts and Nevis": 58,
    }
    log: list[str] = []

    def ships_of(country: str) -> int:
        """Count the research ships of a country.

        Args:
            country: The country's name
        """
        found = entry_of(table, country, "country")
        log.append(found)
        return table[found]

    return Scene(
        [ships_of],
        (
            (
                "Which has the fewest research ships: Trinidad and Tobago, Antigua and Barbuda, or "
                "Saint Kitts and Nevis? Answer with the name of that country only."
            ),
        ),
        lambda done: consulted(log, *table) or names(done, "Antigua", "Trinidad", "Saint Kitts"),
        (
            [
                ("ships_of", "Trinidad and Tobago"),
                ("ships_of", "Antigua and Barbuda"),
                ("ships_of", "Saint Kitts and Nevis"),
                ("final_answer", "Antigua and Barbuda"),
            ],
        ),
    )


@task("compare", "blind")
def fastest_way_in_two_units() -> Scene:
    log: list[str] = []

    def minutes_by_ferry(start: str, end: str) -> int:
        """Look up how long the ferry takes between two towns, in minutes.

        Args:
            start: One town
            end: The other town
        """
        log.append("ferry")
        return 140

    def hours_by_train(start: str, end: str) -> float:
        """Look up how long the train takes between two towns, in hours.

        Args:
            start: One town
            end: The other town
        """
        log.append("train")
        return 2.5

    def minutes_by_bus(start: str, end: str) -> int:
        """Look up how long the bus takes between two towns, in minutes.

        Args:
            start: One town
            end: The other town
        """
        log.append("bus")
        return 165

    way = {"start": "Aberg", "end": "Bryn"}
    return Scene(
        [hours_by_train, minutes_by_bus, minutes_by_ferry],
        (
            (
                "What is the fastest way from Aberg to Bryn: train, bus or ferry? "
                "Answer with one of the three words."
            ),
        ),
        lambda done: (
            consulted(log, "ferry", "train", "bus") or names(done, "ferry", "train", "bus")
        ),
        (
            [
                ("hours_by_train", way),
                ("minutes_by_bus", way),
                ("minutes_by_ferry", way),
                ("final_answer", "ferry"),
            ],
        ),
    )


@task("compare", "blind")
def most_urgent_ticket() -> Scene:
    table = {"T-14": 3, "T-9": 2, "T-21": 5}
    log: list[str] = []

    def priority_of(ticket: str) -> int:
        """Look up the priority of a ticket, from 1, the most urgent, to 5, the least urgent.

        Args:
            ticket: The ticket's number
        """
        found = key_of(table, ticket, "ticket")
        log.append(found)
        return table[found]

    return Scene(
        [priority_of],
        ("Which of the tickets T-14, T-9 and T-21 is the most urgent one? Name only that ticket.",),
        lambda done: consulted(log, *table) or names(done, "T-9", "T-14", "T-21"),
        (
            [
                ("priority_of", "T-14"),
                ("priority_of", "T-9"),
                ("priority_of", "T-21"),
                ("final_answer", "T-9"),
            ],
        ),
    )


@task("compare", "blind")
def de_beste_note() -> Scene:
    table = {"Anna": 2.3, "Ben": 1.7, "Carla": 3.0}
    log: list[str] = []

    def grade_of(pupil: str) -> float:
        """Look up the grade of a pupil in mathematics, from 1.0, very good, to 6.0, insufficient.

        Args:
            pupil: The pupil's name
        """
        found = key_of(table, pupil, "pupil")
        log.append(found)
        return table[found]

    return Scene(
        [grade_of],
        ("Wer hat in Mathematik die beste Note: Anna, Ben oder Carla? Nenne nur den Namen.",),
        lambda done: consulted(log, *table) or names(done, "Ben", "Anna", "Carla"),
        (
            [
                ("grade_of", "Anna"),
                ("grade_of", "Ben"),
                ("grade_of", "Carla"),
                ("final_answer", "Ben"),
            ],
        ),
    )


@task("compare", "blind")
def es_mejor_puesto() -> Scene:
    table = {"Halcones": 4, "Tigres": 2, "Osos": 7}
    log: list[str] = []

    def rank_of(team: str) -> int:
        """Look up the rank of a team in the league.

        Args:
            team: The team's name, without an article
        """
        found = key_of(table, str(team).lower().removeprefix("los "), "team")
        log.append(found)
        return table[found]

    return Scene(
        [rank_of],
        (
            (
                "¿Qué equipo está mejor clasificado en la liga: Halcones, Osos o Tigres? "
                "Responde solo con el nombre del equipo."
            ),
        ),
        lambda done: consulted(log, *table) or names(done, "Tigres", "Halcones", "Osos"),
        (
            [
                ("rank_of", "Halcones"),
                ("rank_of", "Osos"),
                ("rank_of", "Tigres"),
                ("final_answer", "Tigres"),
            ],
        ),
    )


@task("compare", "blind")
def fr_livreur_le_moins_cher() -> Scene:
    table = {"Martin et Fils": 890, "Colis Vite": 945, "Dupont et Cie": 1005}
    log: list[str] = []

    def price_of_delivery(company: str) -> int:
        """Look up what a company takes for a delivery, in cents.

        Args:
            company: The company's name
        """
        found = key_of(table, company, "company")
        log.append(found)
        return table[found]

    return Scene(
        [price_of_delivery],
        (
            (
                "Quel livreur est le moins cher : Dupont et Cie, Colis Vite ou Martin et Fils ? "
                "Réponds seulement par son nom."
            ),
        ),
        lambda done: consulted(log, *table) or names(done, "Martin", "Dupont", "Colis Vite"),
        (
            [
                ("price_of_delivery", "Dupont et Cie"),
                ("price_of_delivery", "Colis Vite"),
                ("price_of_delivery", "Martin et Fils"),
                ("final_answer", "Martin et Fils"),
            ],
        ),
    )
