"""Three steps, where each needs what the one before it found."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import tells
from benchmarks.success.task import Scene, task


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
    files = {
        "lakes.csv": pd.DataFrame(
            {"name": list("abcdefgh"), "depth": [1, None, 3, 4, None, 6, None, 8]}
        )
    }

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
        (
            "Read the file lakes.csv, leave out the rows with missing values, and say how many rows remain.",
        ),
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
    files = {
        "trees.csv": pd.DataFrame(
            {"kind": ["oak", "elm", "oak", "fir"], "volume": [12.5, 3.0, 20.25, 9.0]}
        )
    }

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
            "Load the file trees.csv, keep the rows whose kind is oak, and sum up their column volume.",
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


@task("three steps", "report")
def service_behind_a_sample() -> Scene:
    def run_of(sample: str) -> str:
        """Find the run of the laboratory in which a sample was measured.

        Args:
            sample: The sample's code
        """
        return {"S-40": "R-9", "S-41": "R-12"}[sample]

    def instrument_of(run: str) -> str:
        """Name the instrument that a run of the laboratory used.

        Args:
            run: The run's code
        """
        return {"R-9": "Helios", "R-12": "Selene"}[run]

    def last_service(instrument: str) -> int:
        """Say in which year an instrument was last serviced.

        Args:
            instrument: The instrument's name
        """
        return {"Helios": 2019, "Selene": 2022}[instrument]

    return Scene(
        [run_of, instrument_of, last_service],
        ("In which year was the instrument last serviced that measured the sample S-40?",),
        lambda done: tells(done, 2019),
        (
            [
                ("run_of", "S-40"),
                ("instrument_of", "R-9"),
                ("last_service", "Helios"),
                ("final_answer", "It was last serviced in 2019."),
            ],
        ),
    )
