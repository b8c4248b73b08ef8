"""Actions that are done once for each thing that was named, and no more."""

from __future__ import annotations

from benchmarks.success.checks import entry_of, left
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import bare

# ── exactly once ──────────────────────────────────────────────────────────────────────────────────


@task("exactly once", "blind")
def one_payment_to_smith_and_sons() -> Scene:
    paid: list[tuple[str, float]] = []

    def pay(company: str, euros: float) -> str:
        """Pay a company.

        Args:
            company: The company's name
            euros: The amount in euros
        """
        paid.append((company, euros))
        return f"{euros:.2f} euros were paid to {company}"

    return Scene(
        [pay],
        ("Pay 80.40 euros to Smith and Sons.",),
        lambda done: left(paid, [("Smith and Sons", 80.4)]),
        (
            [
                ("pay", {"company": "Smith and Sons", "euros": 80.4}),
                ("final_answer", "It is paid."),
            ],
        ),
    )


@task("exactly once", "blind")
def one_visit_with_its_length() -> Scene:
    visits: list[tuple[str, int]] = []

    def register_visit(patient: str, minutes: int) -> str:
        """Register a visit in the diary of the practice.

        Args:
            patient: The patient's family name
            minutes: How long the visit takes
        """
        visits.append((bare(patient, "Ms.", "Ms"), minutes))
        return f"visit {len(visits)} is registered"

    def visits_today() -> list[str]:
        """List the visits of today."""
        return [f"{patient}: {minutes} minutes" for patient, minutes in visits]

    return Scene(
        [visits_today, register_visit],
        ("Register a visit of three quarters of an hour for Ms Ortega-Lima.",),
        lambda done: left(visits, [("Ortega-Lima", 45)]),
        (
            [
                ("register_visit", {"patient": "Ortega-Lima", "minutes": 45}),
                ("final_answer", "The visit is registered."),
            ],
        ),
    )


@task("exactly once", "blind")
def fr_message_a_deux_personnes() -> Scene:
    sent: list[tuple[str, str]] = []

    def send_message(to: str, text: str) -> str:
        """Send one person a message.

        Args:
            to: The person's first name
            text: The message
        """
        sent.append((to, "".join(bare(text).rstrip(".").split())))
        return "sent"

    text = "Réunion à 15 h"
    return Scene(
        [send_message],
        ("Envoie le message « Réunion à 15 h » à Claire et à Hugo.",),
        lambda done: left(sorted(sent), [("Claire", "Réunionà15h"), ("Hugo", "Réunionà15h")]),
        (
            [
                ("send_message", {"to": "Claire", "text": text}),
                ("send_message", {"to": "Hugo", "text": text}),
                ("final_answer", "C'est envoyé."),
            ],
        ),
    )


@task("exactly once", "blind")
def zh_transfer_to_two_people() -> Scene:
    sent: list[tuple[str, float]] = []

    def transfer(to: str, yuan: float) -> str:
        """Transfer money to one person (转账).

        Args:
            to: The person's name in Chinese
            yuan: The amount in yuan
        """
        sent.append((to, yuan))
        return "transferred"

    return Scene(
        [transfer],
        ("请给王芳和李明各转账200元。",),
        lambda done: left(sorted(sent), sorted([("王芳", 200.0), ("李明", 200.0)])),
        (
            [
                ("transfer", {"to": "王芳", "yuan": 200}),
                ("transfer", {"to": "李明", "yuan": 200}),
                ("final_answer", "已经给两个人转账了。"),
            ],
        ),
    )


@task("exactly once", "blind")
def de_stunden_einer_abteilung() -> Scene:
    booked: list[tuple[str, int]] = []
    known = ["Forschung und Entwicklung", "Forschung", "Einkauf"]

    def book_time(department: str, minutes: int) -> str:
        """Book working time for a department.

        Args:
            department: The department's name
            minutes: The working time in minutes
        """
        booked.append((entry_of(known, department, "department"), minutes))
        return "booked"

    return Scene(
        [book_time],
        ("Buche 7,5 Stunden für die Abteilung Forschung und Entwicklung.",),
        lambda done: left(booked, [("Forschung und Entwicklung", 450)]),
        (
            [
                ("book_time", {"department": "Forschung und Entwicklung", "minutes": 450}),
                ("final_answer", "Die Zeit ist gebucht."),
            ],
        ),
    )
