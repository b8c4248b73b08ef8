"""Two and three steps, where each needs what the one before it found."""

from __future__ import annotations

import pandas as pd

from tests.evals.checks import tells
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
        ("Load the file trees.csv, keep the rows whose kind is oak, and sum up their column volume.",),
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
