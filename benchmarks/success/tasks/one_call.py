"""One call is enough, and there are few tools."""

from __future__ import annotations

from benchmarks.success.checks import tells
from benchmarks.success.task import Scene, task

# ── one call ──────────────────────────────────────────────────────────────────────────────────────


@task("one call", "choose")
def stock_of_pears() -> Scene:
    stock = {"apples": 17, "pears": 43, "plums": 8}

    def stock_of(fruit: str) -> int:
        """Count what is in stock of a fruit.

        Args:
            fruit: The fruit, for example apples
        """
        return stock[fruit.lower()]

    return Scene(
        [stock_of],
        ("How many pears are in stock?",),
        lambda done: tells(done, 43),
        ([("stock_of", "pears"), ("final_answer", "There are 43 pears.")],),
    )


@task("one call", "choose")
def temperature_of_a_city() -> Scene:
    measured = {"Oslo": -3.5, "Rome": 14.2, "Cairo": 27.9}

    def temperature(city: str) -> float:
        """Measure the temperature in a city now.

        Args:
            city: The city's name

        Returns:
            float: Degrees Celsius
        """
        return measured[city]

    def wind(city: str) -> float:
        """Measure the speed of the wind in a city now.

        Args:
            city: The city's name

        Returns:
            float: Kilometres per hour
        """
        return {"Oslo": 31.0, "Rome": 8.0, "Cairo": 12.0}[city]

    return Scene(
        [temperature, wind],
        ("How warm is it in Cairo right now?",),
        lambda done: tells(done, 27.9),
        ([("temperature", "Cairo"), ("final_answer", "27.9 degrees")],),
    )


@task("one call", "report")
def pages_of_a_book() -> Scene:
    pages = {"Emma": 474, "Ulysses": 732, "Dracula": 418}

    def pages_of(title: str) -> int:
        """Say how many pages a book of our library has.

        Args:
            title: The book's title
        """
        return pages[title]

    return Scene(
        [pages_of],
        ("How many pages does our copy of Dracula have?",),
        lambda done: tells(done, 418),
        ([("pages_of", "Dracula"), ("final_answer", "It has 418 pages.")],),
    )


@task("one call", "report")
def runtime_of_a_job() -> Scene:
    runtimes = {"import": 12.5, "train": 341.75, "export": 4.25}

    def runtime(job: str) -> float:
        """Look up how long a job took.

        Args:
            job: The job's name

        Returns:
            float: Seconds
        """
        return runtimes[job]

    def memory(job: str) -> float:
        """Look up how much memory a job took.

        Args:
            job: The job's name

        Returns:
            float: Megabytes
        """
        return {"import": 220.0, "train": 6100.5, "export": 90.0}[job]

    return Scene(
        [runtime, memory],
        ("How many seconds did the job train take?",),
        lambda done: tells(done, 341.75),
        ([("runtime", "train"), ("final_answer", "341.75 seconds")],),
    )


@task("one call", "report")
def error_of_a_forecast() -> Scene:
    errors = {"North": 4.85, "West": 6.35, "Coast": 9.1}

    def mean_absolute_error(region: str) -> float:
        """Look up the mean absolute error of the demand forecast for a region, in megawatts.

        Args:
            region: The region's name
        """
        return errors[region]

    def count_forecasts(region: str) -> int:
        """Count the demand forecasts that were made for a region.

        Args:
            region: The region's name
        """
        return {"North": 365, "West": 240, "Coast": 118}[region]

    return Scene(
        [mean_absolute_error, count_forecasts],
        ("What is the mean absolute error of the demand forecast for the region West?",),
        lambda done: tells(done, 6.35),
        ([("mean_absolute_error", "West"), ("final_answer", "It is 6.35 megawatts.")],),
    )
