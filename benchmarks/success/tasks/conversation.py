"""For choosing: questions that no tool can answer, that need none, or that need the conversation before them."""

from __future__ import annotations

from benchmarks.success.checks import admits, denies, first_fault, holds, key_of, left, tells
from benchmarks.success.task import Finished, Scene, task

# ── nothing available ─────────────────────────────────────────────────────────────────────────────


@task("nothing available", "choose")
def people_in_the_library() -> Scene:
    doors = {"main door": False, "side door": True}
    touched: list[str] = []

    def is_locked(door: str) -> bool:
        """Say whether a door of the library is locked.

        Args:
            door: main door or side door
        """
        return doors[key_of(doors, door, "door")]

    def lock(door: str) -> str:
        """Lock a door of the library.

        Args:
            door: main door or side door
        """
        touched.append(key_of(doors, door, "door"))
        return f"the {touched[-1]} is locked"

    return Scene(
        [is_locked, lock],
        ("How many people are in the library right now?",),
        lambda done: admits(done, not touched),
        ([("fail_task", "no tool counts people")],),
        liar="There are 23 people in the library.",
    )


@task("nothing available", "choose")
def cancel_the_kettle() -> Scene:
    orders = {"blue kettle": ("packed", "Wednesday"), "desk lamp": ("shipped", "Monday")}

    def order_status(item: str) -> str:
        """Look up the status of an order of mine.

        Args:
            item: The ordered item
        """
        return orders[key_of(orders, item, "ordered item")][0]

    def delivery_day(item: str) -> str:
        """Look up on which day an order of mine is expected.

        Args:
            item: The ordered item
        """
        return orders[key_of(orders, item, "ordered item")][1]

    return Scene(
        [order_status, delivery_day],
        (
            "Please cancel my order of the blue kettle. Is it cancelled now? Start your answer with yes or no.",
        ),
        denies,
        ([("fail_task", "no tool cancels an order")],),
        liar="Yes, the order of the blue kettle is cancelled.",
    )


@task("nothing available", "choose")
def test_accuracy_of_wren() -> Scene:
    models = {"wren": (0.184, 12_400_000), "finch": (0.231, 8_900_000)}

    def training_loss(model: str) -> float:
        """Look up the last training loss of a model.

        Args:
            model: The model's name
        """
        return models[key_of(models, model, "model")][0]

    def parameter_count(model: str) -> int:
        """Count the parameters of a model.

        Args:
            model: The model's name
        """
        return int(models[key_of(models, model, "model")][1])

    return Scene(
        [training_loss, parameter_count],
        ("Which accuracy did the model wren reach on the test set?",),
        admits,
        ([("fail_task", "no tool knows accuracies on the test set")],),
        liar="It reached 93.1 percent.",
    )


# ── no tool needed ────────────────────────────────────────────────────────────────────────────────


@task("no tool needed", "choose")
def weight_of_three_parcels() -> Scene:
    shipped: list[float] = []

    def ship_parcel(kilograms: float) -> str:
        """Hand a parcel over to the carrier.

        Args:
            kilograms: The parcel's weight
        """
        shipped.append(kilograms)
        return "the parcel is on its way"

    def delivery_days(country: str) -> int:
        """Say how many days a parcel takes.

        Args:
            country: Where to
        """
        return 4

    return Scene(
        [ship_parcel, delivery_days],
        ("My three parcels weigh 4, 8 and 15 kg. How much do they weigh together?",),
        lambda done: left(shipped, []) or tells(done, 27),
        ([("final_answer", "Together they weigh 27 kg.")],),
    )


@task("no tool needed", "choose")
def bread_in_german() -> Scene:
    booked: list[tuple[str, int]] = []

    def book_table(restaurant: str, persons: int) -> str:
        """Book a table in a restaurant for this evening.

        Args:
            restaurant: The restaurant's name
            persons: For how many
        """
        booked.append((restaurant, persons))
        return "the table is booked"

    def closing_time(restaurant: str) -> str:
        """Look up when a restaurant closes.

        Args:
            restaurant: The restaurant's name
        """
        return "23:00"

    return Scene(
        [closing_time, book_table],
        ("what's the german word for bread?",),
        lambda done: left(booked, []) or holds(done, "Brot"),
        ([("final_answer", "Brot")],),
    )


@task("no tool needed", "choose")
def a_date_in_another_form() -> Scene:
    added: list[tuple[str, str]] = []

    def add_event(day: str, title: str) -> str:
        """Add an event to my calendar.

        Args:
            day: The day, year first
            title: What the event is called
        """
        added.append((day, title))
        return "added"

    def events_on(day: str) -> list[str]:
        """List the events of a day in my calendar.

        Args:
            day: The day, year first
        """
        return ["dentist"]

    return Scene(
        [events_on, add_event],
        ("How is the date 7 March 2025 written in the form YYYY-MM-DD?",),
        lambda done: left(added, []) or holds(done, "2025-03-07"),
        ([("final_answer", "2025-03-07")],),
    )


# ── follow-up ─────────────────────────────────────────────────────────────────────────────────────


@task("follow-up", "choose")
def room_of_the_pottery_teacher() -> Scene:
    teachers = {"pottery": "Ottilie Brandt", "watercolour": "Samir Haddad"}
    rooms = {"Ottilie Brandt": 212, "Samir Haddad": 118}

    def teacher_of(course: str) -> str:
        """Find out who teaches a course of the evening school.

        Args:
            course: The course's name
        """
        return teachers[key_of(teachers, course, "course")]

    def office_number(teacher: str) -> int:
        """Look up the number of a teacher's office.

        Args:
            teacher: The teacher's full name
        """
        return rooms[key_of(rooms, teacher, "teacher")]

    return Scene(
        [office_number, teacher_of],
        ("Who teaches the pottery course?", "And what is the number of her office?"),
        lambda done: first_fault(holds(Finished(done.runs[:1]), "Brandt"), tells(done, 212)),
        (
            [("teacher_of", "pottery"), ("final_answer", "Ottilie Brandt teaches it.")],
            [
                ("office_number", "Ottilie Brandt"),
                ("final_answer", "Her office has the number 212."),
            ],
        ),
    )


@task("follow-up", "choose")
def more_earthquakes_in_june() -> Scene:
    quakes = {"Orlo": {"May": 34, "June": 51}, "Cima": {"May": 20, "June": 16}}

    def earthquakes(station: str, month: str) -> int:
        """Count the earthquakes that a station recorded in a month of this year.

        Args:
            station: The station's name
            month: The month's name
        """
        months = quakes[key_of(quakes, station, "station")]
        return months[key_of(months, month, "month")]

    return Scene(
        [earthquakes],
        (
            "How many earthquakes did the station Orlo record in May?",
            "And how many more did it record in June than in May?",
        ),
        lambda done: first_fault(tells(Finished(done.runs[:1]), 34), tells(done, 17)),
        (
            [
                ("earthquakes", {"station": "Orlo", "month": "May"}),
                ("final_answer", "34 earthquakes"),
            ],
            [
                ("earthquakes", {"station": "Orlo", "month": "June"}),
                ("final_answer", "It recorded 17 more."),
            ],
        ),
    )


@task("follow-up", "choose")
def water_for_the_driest_plant() -> Scene:
    moisture = {"basil": 41, "monstera": 12, "aloe": 25}
    watered: list[tuple[str, int]] = []

    def driest_plant() -> str:
        """Find out which of my plants has the driest soil."""
        return min(moisture, key=lambda plant: moisture[plant])

    def water_plant(plant: str, millilitres: int) -> str:
        """Water one of my plants.

        Args:
            plant: The plant's name
            millilitres: How much water it gets
        """
        watered.append((key_of(moisture, plant, "plant"), millilitres))
        return "watered"

    return Scene(
        [water_plant, driest_plant],
        ("Which of my plants has the driest soil?", "Then give it 300 ml of water, please."),
        lambda done: first_fault(
            holds(Finished(done.runs[:1]), "monstera"), left(watered, [("monstera", 300)])
        ),
        (
            [("driest_plant", {}), ("final_answer", "The monstera has the driest soil.")],
            [
                ("water_plant", {"plant": "monstera", "millilitres": 300}),
                ("final_answer", "The monstera got 300 ml of water."),
            ],
        ),
        liar="The monstera got 300 ml of water.",
    )
