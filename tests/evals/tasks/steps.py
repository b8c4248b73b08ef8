"""Two and three steps, where each needs what the one before it found; and comparisons over several calls."""

from __future__ import annotations

import pandas as pd

from tests.evals.checks import left, names, tells
from tests.evals.task import Scene, task

# ── two steps ─────────────────────────────────────────────────────────────────────────────────────


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
        ([("customer_id", "Mara Lind"), ("count_orders", "C-118"), ("final_answer", "She placed 23 orders.")],),
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
        ([("head_office", "Solara"), ("temperature", "Sevilla"), ("final_answer", "33.4 degrees")],),
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


# ── three steps ───────────────────────────────────────────────────────────────────────────────────


@task("three steps", "choose")
def budget_behind_an_employee() -> Scene:
    def employee_id(name: str) -> int:
        """Find the id of an employee.

        Args:
            name: The first name
        """
        return {"Tove": 71, "Emil": 12}[name]

    def department_of(employee_id: int) -> str:
        """Name the department of an employee.

        Args:
            employee_id: The employee's id
        """
        return {71: "Optics", 12: "Legal"}[employee_id]

    def budget_of(department: str) -> int:
        """Look up the yearly budget of a department in euros.

        Args:
            department: The department's name
        """
        return {"Optics": 84500, "Legal": 23000}[department]

    return Scene(
        [employee_id, department_of, budget_of],
        ("What is the budget of the department that Tove works in?",),
        lambda done: tells(done, 84500),
        (
            [
                ("employee_id", "Tove"),
                ("department_of", 71),
                ("budget_of", "Optics"),
                ("final_answer", "84,500 euros"),
            ],
        ),
    )


@task("three steps", "choose")
def rows_left_after_cleaning() -> Scene:
    files = {"lakes.csv": pd.DataFrame({"name": list("abcdefgh"), "depth": [1, None, 3, 4, None, 6, None, 8]})}

    def read_table(file: str) -> pd.DataFrame:
        """Read a table from a file.

        Args:
            file: The file's name
        """
        return files[file].copy()

    def drop_missing(table: pd.DataFrame) -> pd.DataFrame:
        """Leave out the rows of a table that have missing values.

        Args:
            table: The table
        """
        return table.dropna()

    def count_rows(table: pd.DataFrame) -> int:
        """Count the rows of a table.

        Args:
            table: The table
        """
        return len(table)

    return Scene(
        [read_table, drop_missing, count_rows],
        ("Read the file lakes.csv, leave out the rows with missing values, and say how many rows remain.",),
        lambda done: tells(done, 5),
        (
            [
                ("read_table", "lakes.csv"),
                ("drop_missing", {"table": "read_table_1"}),
                ("count_rows", {"table": "drop_missing_1"}),
                ("final_answer", "5 rows remain."),
            ],
        ),
    )


@task("three steps", "report")
def seats_behind_a_player() -> Scene:
    def team_of(player: str) -> str:
        """Name the team of a player.

        Args:
            player: The last name
        """
        return {"Okafor": "Herons", "Silva": "Lynxes"}[player]

    def stadium_of(team: str) -> str:
        """Name the stadium of a team.

        Args:
            team: The team's name
        """
        return {"Herons": "Harbour Park", "Lynxes": "Hill Arena"}[team]

    def seats_of(stadium: str) -> int:
        """Count the seats of a stadium.

        Args:
            stadium: The stadium's name
        """
        return {"Harbour Park": 18250, "Hill Arena": 40100}[stadium]

    return Scene(
        [team_of, stadium_of, seats_of],
        ("How many seats has the stadium of the team that Okafor plays in?",),
        lambda done: tells(done, 18250),
        (
            [
                ("team_of", "Okafor"),
                ("stadium_of", "Herons"),
                ("seats_of", "Harbour Park"),
                ("final_answer", "18,250 seats"),
            ],
        ),
    )


@task("three steps", "report")
def timber_of_one_kind() -> Scene:
    files = {"trees.csv": pd.DataFrame({"kind": ["oak", "elm", "oak", "fir"], "volume": [12.5, 3.0, 20.25, 9.0]})}

    def load_table(file: str) -> pd.DataFrame:
        """Load a table from a file.

        Args:
            file: The file's name
        """
        return files[file].copy()

    def rows_where(table: pd.DataFrame, column: str, value: str) -> pd.DataFrame:
        """Keep the rows of a table that have a value in a column.

        Args:
            table: The table
            column: The column's name
            value: The value
        """
        return table[table[column] == value]

    def column_sum(table: pd.DataFrame, column: str) -> float:
        """Add up a column of a table.

        Args:
            table: The table
            column: The column's name
        """
        return float(table[column].sum())

    return Scene(
        [load_table, rows_where, column_sum],
        (
            "Load the file trees.csv, keep the rows whose column kind is oak, "
            "and tell me the sum of the column volume of these rows.",
        ),
        lambda done: tells(done, 32.75),
        (
            [
                ("load_table", "trees.csv"),
                ("rows_where", {"table": "load_table_1", "column": "kind", "value": "oak"}),
                ("column_sum", {"table": "rows_where_1", "column": "volume"}),
                ("final_answer", "The sum is 32.75."),
            ],
        ),
    )


# ── compare ───────────────────────────────────────────────────────────────────────────────────────


@task("compare", "choose")
def cheapest_flour() -> Scene:
    prices = {"Adler": 1.95, "Bach": 1.15, "Cramer": 1.60}
    ordered: list[str] = []

    def price_of_flour(shop: str) -> float:
        """Ask a shop for its price of a bag of flour, in euros.

        Args:
            shop: The shop's name
        """
        return prices[shop]

    def order_flour(shop: str) -> str:
        """Order a bag of flour.

        Args:
            shop: The shop's name
        """
        ordered.append(shop)
        return f"ordered at {shop}"

    return Scene(
        [price_of_flour, order_flour],
        (
            "Compare the prices of flour in the shops Adler, Bach and Cramer, and order a bag in the cheapest one.",
        ),
        lambda done: left(ordered, ["Bach"]),
        (
            [
                ("price_of_flour", "Adler"),
                ("price_of_flour", "Bach"),
                ("price_of_flour", "Cramer"),
                ("order_flour", "Bach"),
                ("final_answer", "Ordered at Bach."),
            ],
        ),
    )


@task("compare", "choose")
def heavier_species() -> Scene:
    def average(species: str, measure: str) -> float:
        """Average a measure over the penguins of a species.

        Args:
            species: Adelie, Chinstrap or Gentoo
            measure: flipper_length_mm or body_mass_g
        """
        table = {"Adelie": (190.0, 3700.7), "Chinstrap": (195.8, 3733.1), "Gentoo": (217.2, 5076.0)}
        return table[species][["flipper_length_mm", "body_mass_g"].index(measure)]

    return Scene(
        [average],
        ("Which species is heavier on average, Adelie or Chinstrap? Answer with its name only.",),
        lambda done: names(done, "Chinstrap", "Adelie", "Gentoo") or _read(done, "average", 2),
        (
            [
                ("average", {"species": "Adelie", "measure": "body_mass_g"}),
                ("average", {"species": "Chinstrap", "measure": "body_mass_g"}),
                ("final_answer", "Chinstrap"),
            ],
        ),
        liar="Chinstrap",
    )


@task("compare", "report")
def fastest_courier() -> Scene:
    days = {"Pelican": 4, "Swift": 2, "Stork": 6}
    booked: list[str] = []

    def days_to_graz(courier: str) -> int:
        """Ask a courier how many days a parcel to Graz takes.

        Args:
            courier: The courier's name
        """
        return days[courier]

    def send_parcel(courier: str) -> str:
        """Send the parcel.

        Args:
            courier: The courier's name
        """
        booked.append(courier)
        return f"handed over to {courier}"

    return Scene(
        [days_to_graz, send_parcel],
        (
            "Find out which of the couriers Pelican, Swift and Stork is fastest, and send the parcel with that one.",
        ),
        lambda done: left(booked, ["Swift"]),
        (
            [
                ("days_to_graz", "Pelican"),
                ("days_to_graz", "Swift"),
                ("days_to_graz", "Stork"),
                ("send_parcel", "Swift"),
                ("final_answer", "Sent with Swift."),
            ],
        ),
    )


@task("compare", "report")
def tallest_tower() -> Scene:
    def height_of(tower: str) -> float:
        """Look up the height of a tower in metres.

        Args:
            tower: The tower's name
        """
        return {"Alba": 88.5, "Brio": 61.0, "Corvo": 102.25}[tower]

    return Scene(
        [height_of],
        ("Which tower is the tallest: Alba, Brio or Corvo? Answer with its name only.",),
        lambda done: names(done, "Corvo", "Alba", "Brio") or _read(done, "height_of", 3),
        ([("height_of", "Alba"), ("height_of", "Brio"), ("height_of", "Corvo"), ("final_answer", "Corvo")],),
        liar="Corvo",
    )


def _read(done: object, tool: str, times: int) -> str:
    """Whether the tool answered for that many different inputs: a lucky guess is no comparison."""
    inputs = {repr(call.input) for call, outcome in done.calls if call.name == tool and outcome.status == "done"}
    return "" if len(inputs) >= times else f"{tool} was asked about {len(inputs)} things, expected {times}"
