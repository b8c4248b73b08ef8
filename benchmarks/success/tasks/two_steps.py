"""Two steps, where the second needs what the first found."""

from __future__ import annotations

from benchmarks.success.checks import tells
from benchmarks.success.task import Scene, task


@task("two steps", "choose")
def orders_of_a_customer() -> Scene:
    ids = {"Mara Lind": "C-118", "Jon Berg": "C-204"}
    orders = {"C-118": 23, "C-204": 6}

    def customer_id(name: str) -> str:
        """Find the id of a customer.

        Args:
            name: First and last name
        """
        return ids[name]

    def count_orders(customer_id: str) -> int:
        """Count the orders of a customer.

        Args:
            customer_id: The customer's id
        """
        return orders[customer_id]

    return Scene(
        [customer_id, count_orders],
        ("How many orders has Mara Lind placed?",),
        lambda done: tells(done, 23),
        (
            [
                ("customer_id", "Mara Lind"),
                ("count_orders", "C-118"),
                ("final_answer", "She placed 23 orders."),
            ],
        ),
    )


@task("two steps", "choose")
def warmth_at_the_head_office() -> Scene:
    def head_office(company: str) -> str:
        """Name the city of a company's head office.

        Args:
            company: The company's name
        """
        return {"Nordwind": "Tromso", "Solara": "Sevilla"}[company]

    def temperature(city: str) -> float:
        """Measure the temperature in a city now, in degrees Celsius.

        Args:
            city: The city's name
        """
        return {"Tromso": -6.5, "Sevilla": 33.4}[city]

    return Scene(
        [temperature, head_office],
        ("How warm is it now in the city where the company Solara has its head office?",),
        lambda done: tells(done, 33.4),
        (
            [
                ("head_office", "Solara"),
                ("temperature", "Sevilla"),
                ("final_answer", "33.4 degrees"),
            ],
        ),
    )


@task("two steps", "report")
def copies_by_number() -> Scene:
    def isbn_of(title: str) -> str:
        """Find the ISBN of a book.

        Args:
            title: The book's title
        """
        return {"Emma": "978-0141439587", "Dracula": "978-0141439846"}[title]

    def copies(isbn: str) -> int:
        """Count the copies in the shop.

        Args:
            isbn: The ISBN of the book
        """
        return {"978-0141439587": 14, "978-0141439846": 31}[isbn]

    return Scene(
        [isbn_of, copies],
        ("How many copies of Dracula are in the shop?",),
        lambda done: tells(done, 31),
        ([("isbn_of", "Dracula"), ("copies", "978-0141439846"), ("final_answer", "31 copies")],),
    )


@task("two steps", "report")
def phone_in_a_room() -> Scene:
    def phone_number(room: str) -> int:
        """Look up the number of the phone in a room.

        Args:
            room: The room's code
        """
        return {"B12": 5521, "D07": 5874}[room]

    def room_of(person: str) -> str:
        """Find the room that a person works in.

        Args:
            person: The first name
        """
        return {"Ida": "D07", "Jon": "B12"}[person]

    return Scene(
        [phone_number, room_of],
        ("What is the phone number of the room that Ida works in?",),
        lambda done: tells(done, 5874),
        ([("room_of", "Ida"), ("phone_number", "D07"), ("final_answer", "It is 5874.")],),
    )


@task("two steps", "report")
def images_behind_a_classifier() -> Scene:
    def count_images(dataset: str) -> int:
        """Count the images of a dataset.

        Args:
            dataset: The dataset's name
        """
        return {"meadow-small": 2150, "meadow-full": 38600}[dataset]

    def training_data_of(classifier: str) -> str:
        """Name the dataset that a classifier was trained on.

        Args:
            classifier: The classifier's name
        """
        return {"owl": "meadow-full", "wren": "meadow-small"}[classifier]

    return Scene(
        [count_images, training_data_of],
        ("How many images has the dataset that the classifier owl was trained on?",),
        lambda done: tells(done, 38600),
        (
            [
                ("training_data_of", "owl"),
                ("count_images", "meadow-full"),
                ("final_answer", "38,600 images"),
            ],
        ),
    )
