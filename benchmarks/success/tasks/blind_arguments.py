"""One call whose arguments stand in the question in another form."""

from __future__ import annotations

from benchmarks.success.checks import left
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import bare

# ── arguments ─────────────────────────────────────────────────────────────────────────────────────


@task("arguments", "blind")
def table_for_smith_and_sons() -> Scene:
    booked: list[tuple[str, int, int]] = []

    def book_table(name: str, people: int, hour: int) -> str:
        """Book a table for tonight.

        Args:
            name: In whose name
            people: How many come
            hour: The full hour at which they come, from 0 to 23
        """
        booked.append((name, people, hour))
        return "booked"

    return Scene(
        [book_table],
        ("Book a table for 6 people in the name of Smith and Sons, at 7 p.m. tonight.",),
        lambda done: left(booked, [("Smith and Sons", 6, 19)]),
        (
            [
                ("book_table", {"name": "Smith and Sons", "people": 6, "hour": 19}),
                ("final_answer", "The table is booked."),
            ],
        ),
    )


@task("arguments", "blind")
def oven_for_an_hour_and_a_half() -> Scene:
    timers: list[tuple[str, int]] = []

    def set_timer(device: str, minutes: int) -> str:
        """Set the timer of a device.

        Args:
            device: The device's name
            minutes: How long, in minutes
        """
        timers.append((bare(device, "the ").lower(), minutes))
        return "the timer runs"

    return Scene(
        [set_timer],
        ("Set the timer of the oven to one and a half hours.",),
        lambda done: left(timers, [("oven", 90)]),
        ([("set_timer", {"device": "oven", "minutes": 90}), ("final_answer", "It runs.")],),
    )


@task("arguments", "blind")
def de_ueberweisung_in_cent() -> Scene:
    sent: list[tuple[str, int, str]] = []

    def transfer(recipient: str, cents: int, reference: str) -> str:
        """Transfer money.

        Args:
            recipient: Who gets it
            cents: The amount in cents
            reference: What the transfer is for
        """
        sent.append((recipient, cents, bare(reference, "Rechnung")))
        return "transferred"

    return Scene(
        [transfer],
        ("Überweise 12,50 Euro an Müller und Söhne mit dem Verwendungszweck Rechnung 2024-117.",),
        lambda done: left(sent, [("Müller und Söhne", 1250, "2024-117")]),
        (
            [
                (
                    "transfer",
                    {
                        "recipient": "Müller und Söhne",
                        "cents": 1250,
                        "reference": "Rechnung 2024-117",
                    },
                ),
                ("final_answer", "Das Geld ist überwiesen."),
            ],
        ),
    )


@task("arguments", "blind")
def fr_chambre_pour_trois_nuits() -> Scene:
    booked: list[tuple[str, int]] = []

    def book_room(guest: str, nights: int) -> str:
        """Book a room for a guest.

        Args:
            guest: The family name of the guest
            nights: How many nights
        """
        booked.append((bare(guest, "Madame", "Mme"), nights))
        return "booked"

    return Scene(
        [book_room],
        ("Réserve une chambre pour trois nuits pour Madame Lefèvre-Dubois.",),
        lambda done: left(booked, [("Lefèvre-Dubois", 3)]),
        (
            [
                ("book_room", {"guest": "Lefèvre-Dubois", "nights": 3}),
                ("final_answer", "La chambre est réservée."),
            ],
        ),
    )


@task("arguments", "blind")
def zh_air_conditioning_in_celsius() -> Scene:
    settings: list[tuple[str, float]] = []

    def set_temperature(room: str, celsius: float) -> str:
        """Set the air conditioning of a room.

        Args:
            room: The room's number, such as B-3
            celsius: The temperature in degrees Celsius
        """
        settings.append((bare(room, "会议室"), round(celsius, 1)))
        return "set"

    def fahrenheit_to_celsius(fahrenheit: float) -> float:
        """Convert degrees Fahrenheit to degrees Celsius.

        Args:
            fahrenheit: Degrees Fahrenheit
        """
        return round((fahrenheit - 32) / 1.8, 2)

    return Scene(
        [set_temperature, fahrenheit_to_celsius],
        ("请把会议室B-3的空调设为68华氏度。",),
        lambda done: left(settings, [("B-3", 20.0)]),
        (
            [
                ("fahrenheit_to_celsius", 68),
                ("set_temperature", {"room": "B-3", "celsius": 20}),
                ("final_answer", "已经设好了。"),
            ],
        ),
    )


@task("arguments", "blind")
def ja_order_of_blue_items() -> Scene:
    ordered: list[tuple[str, int, str]] = []

    def order(item: str, quantity: int, colour: str) -> str:
        """Order an item (商品を注文する).

        Args:
            item: The item's number
            quantity: How many
            colour: One of red, blue, green
        """
        if colour not in {"red", "blue", "green"}:
            raise ValueError(f"colour is {colour!r}; expected red, blue or green")
        ordered.append((bare(item, "商品"), quantity, colour))
        return "ordered"

    return Scene(
        [order],
        ("商品A-204を15個、青色で注文してください。",),
        lambda done: left(ordered, [("A-204", 15, "blue")]),
        (
            [
                ("order", {"item": "A-204", "quantity": 15, "colour": "blue"}),
                ("final_answer", "注文しました。"),
            ],
        ),
    )
