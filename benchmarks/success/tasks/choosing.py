"""One call is enough: the right one of many tools."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import names, tells
from benchmarks.success.task import Scene, task


@task("choose a tool", "choose")
def sunshine_among_instruments() -> Scene:
    def rain(month: str) -> float:
        """Millimetres of rain in a month.

        Args:
            month: The month's name
        """
        return 61.0

    def sunshine(month: str) -> int:
        """Hours of sunshine in a month.

        Args:
            month: The month's name
        """
        return {"May": 213, "June": 240}[month]

    def highest_wind(month: str) -> float:
        """Fastest wind in a month, in kilometres per hour.

        Args:
            month: The month's name
        """
        return 88.0

    def frost_days(month: str) -> int:
        """Days with frost in a month.

        Args:
            month: The month's name
        """
        return 2

    def snow(month: str) -> int:
        """Centimetres of snow that fell in a month.

        Args:
            month: The month's name
        """
        return 0

    def humidity(month: str) -> int:
        """Mean relative humidity in a month, in percent.

        Args:
            month: The month's name
        """
        return 71

    def pressure(month: str) -> int:
        """Mean air pressure in a month, in hectopascal.

        Args:
            month: The month's name
        """
        return 1015

    def foggy_days(month: str) -> int:
        """Days with fog in a month.

        Args:
            month: The month's name
        """
        return 4

    return Scene(
        [rain, highest_wind, frost_days, snow, humidity, sunshine, pressure, foggy_days],
        ("How long did the sun shine in May?",),
        lambda done: tells(done, 213),
        ([("sunshine", "May"), ("final_answer", "The sun shone for 213 hours.")],),
    )


@task("choose a tool", "choose")
def lines_of_a_document() -> Scene:
    documents = {"notes": "Buy milk.\nCall Ida.\nWrite the report. Send it.\nSleep.\nWake up."}

    def count_words(document: str) -> int:
        """Count the words of a document.

        Args:
            document: The document's name
        """
        return len(documents[document].split())

    def count_lines(document: str) -> int:
        """Count the lines of a document.

        Args:
            document: The document's name
        """
        return len(documents[document].splitlines())

    def count_sentences(document: str) -> int:
        """Count the sentences of a document.

        Args:
            document: The document's name
        """
        return documents[document].count(".")

    def count_characters(document: str) -> int:
        """Count the characters of a document.

        Args:
            document: The document's name
        """
        return len(documents[document])

    def longest_word(document: str) -> str:
        """Find the longest word of a document.

        Args:
            document: The document's name
        """
        return max(documents[document].split(), key=len)

    def author(document: str) -> str:
        """Say who wrote a document.

        Args:
            document: The document's name
        """
        return "Mara"

    return Scene(
        [count_words, count_sentences, count_characters, longest_word, count_lines, author],
        ("How many lines does the document notes have?",),
        lambda done: tells(done, 5),
        ([("count_lines", "notes"), ("final_answer", "It has 5 lines.")],),
    )


@task("choose a tool", "report")
def shelf_of_a_book() -> Scene:
    def author_of(title: str) -> str:
        """Name the author of a book.

        Args:
            title: The book's title
        """
        return "Jane Austen"

    def year_of(title: str) -> int:
        """Say when a book was published.

        Args:
            title: The book's title
        """
        return 1815

    def publisher_of(title: str) -> str:
        """Name the publisher of a book.

        Args:
            title: The book's title
        """
        return "Murray"

    def rating_of(title: str) -> float:
        """Mean rating of a book by our readers.

        Args:
            title: The book's title
        """
        return 4.1

    def copies_of(title: str) -> int:
        """Count our copies of a book.

        Args:
            title: The book's title
        """
        return 3

    def shelf_of(title: str) -> str:
        """Say where a book stands: the code of its shelf.

        Args:
            title: The book's title
        """
        return {"Emma": "K27", "Ulysses": "B04"}[title]

    def language_of(title: str) -> str:
        """Say in which language a book is written.

        Args:
            title: The book's title
        """
        return "English"

    return Scene(
        [author_of, year_of, publisher_of, rating_of, copies_of, shelf_of, language_of],
        ("Where does the book Emma stand?",),
        lambda done: names(done, "K27"),
        ([("shelf_of", "Emma"), ("final_answer", "On shelf K27.")],),
    )


@task("choose a tool", "report")
def missing_values_of_a_column() -> Scene:
    people = pd.DataFrame(
        {"age": [31.0, None, 45.0, None, None, 28.0, 60.0], "height": [170.0] * 7}
    )

    def column_mean(column: str) -> float:
        """Mean of a column of the table people.

        Args:
            column: The column's name
        """
        return float(people[column].mean())

    def column_max(column: str) -> float:
        """Greatest value of a column of the table people.

        Args:
            column: The column's name
        """
        return float(people[column].max())

    def column_min(column: str) -> float:
        """Least value of a column of the table people.

        Args:
            column: The column's name
        """
        return float(people[column].min())

    def count_missing(column: str) -> int:
        """Count the missing values of a column of the table people.

        Args:
            column: The column's name
        """
        return int(people[column].isna().sum())

    def count_unique(column: str) -> int:
        """Count the different values of a column of the table people.

        Args:
            column: The column's name
        """
        return int(people[column].nunique())

    def count_rows() -> int:
        """Count the rows of the table people."""
        return len(people)

    return Scene(
        [column_mean, column_max, column_min, count_unique, count_rows, count_missing],
        ("How many people in the table did not tell their age?",),
        lambda done: tells(done, 3),
        ([("count_missing", "age"), ("final_answer", "3 people.")],),
    )


@task("choose a tool", "report")
def space_on_a_server() -> Scene:
    def cpu_load(server: str) -> int:
        """Load of a server's processors, in percent.

        Args:
            server: The server's name
        """
        return 37

    def used_memory(server: str) -> int:
        """Memory that a server uses, in gigabytes.

        Args:
            server: The server's name
        """
        return 52

    def free_disk(server: str) -> int:
        """Space that is free on a server's disk, in gigabytes.

        Args:
            server: The server's name
        """
        return {"atlas": 186, "vega": 940}[server]

    def running_jobs(server: str) -> int:
        """Count the jobs that run on a server.

        Args:
            server: The server's name
        """
        return 9

    def days_since_restart(server: str) -> int:
        """Days since a server was restarted.

        Args:
            server: The server's name
        """
        return 71

    def users_on(server: str) -> int:
        """Count the users who are logged in on a server.

        Args:
            server: The server's name
        """
        return 4

    return Scene(
        [cpu_load, used_memory, running_jobs, free_disk, days_since_restart, users_on],
        ("How many gigabytes can I still save on the disk of the server atlas?",),
        lambda done: tells(done, 186),
        ([("free_disk", "atlas"), ("final_answer", "186 gigabytes are free.")],),
    )
