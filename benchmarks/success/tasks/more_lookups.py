"""More for choosing: lookups, several steps, comparisons."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import first_fault, holds, left, names, tells
from benchmarks.success.task import Finished, Scene, task


@task("one call", "choose")
def rows_of_a_file() -> Scene:
    def row_count(file: str) -> int:
        """Count the rows of a file.

        Args:
            file: The file's name, with its ending
        """
        return {"sales.csv": 18250, "stores.csv": 96}[file]

    return Scene(
        [row_count],
        ("How many rows does sales.csv have?",),
        lambda done: tells(done, 18250),
        ([("row_count", "sales.csv"), ("final_answer", "sales.csv has 18250 rows.")],),
    )


@task("choose a tool", "choose")
def accuracy_of_a_model() -> Scene:
    def train(model: str) -> str:
        """Train a model anew. It takes hours.

        Args:
            model: The model's name
        """
        raise RuntimeError("training was started by mistake")

    def accuracy(model: str) -> float:
        """Say how accurate a trained model is on the test set, between 0 and 1.

        Args:
            model: The model's name
        """
        return {"forest": 0.873, "linear": 0.741}[model]

    def parameters(model: str) -> dict[str, int]:
        """List the parameters of a model.

        Args:
            model: The model's name
        """
        return {"trees": 200, "depth": 12}

    def features(model: str) -> list[str]:
        """List the features that a model uses.

        Args:
            model: The model's name
        """
        return ["age", "income", "region"]

    def size_of(model: str) -> float:
        """Say how large a saved model is, in megabytes.

        Args:
            model: The model's name
        """
        return 14.2

    return Scene(
        [train, parameters, features, accuracy, size_of],
        ("How good is the model forest on the test set?",),
        lambda done: "" if not tells(done, 0.873) else tells(done, 87.3),
        ([("accuracy", "forest"), ("final_answer", "Its accuracy is 0.873.")],),
        liar="It is quite good.",
    )


@task("arguments", "choose")
def share_above_a_threshold() -> Scene:
    scores = pd.Series([3.1, 7.7, 9.2, 4.4, 8.1, 6.0, 7.0, 2.5])

    def share_above(values: pd.Series, threshold: float, percent: bool = False) -> float:
        """Compute which share of values lies above a threshold.

        Args:
            values: The values
            threshold: What they must exceed
            percent: Whether the share is given in percent, in place of 0 to 1
        """
        share = float((values > threshold).mean())
        return share * 100 if percent else share

    return Scene(
        [share_above],
        ("What percentage of the values of scores lies above 6.5?",),
        lambda done: tells(done, 50) and tells(done, 0.5),
        (
            [
                ("share_above", {"values": "scores", "threshold": 6.5, "percent": True}),
                ("final_answer", "50 percent."),
            ],
        ),
        namespace={"scores": scores},
    )


@task("two steps", "choose")
def size_of_the_newest_release() -> Scene:
    def newest_release(project: str) -> str:
        """Find the newest release of a project.

        Args:
            project: The project's name
        """
        return {"heron": "4.2.1", "osprey": "1.9.0"}[project]

    def download_size(release: str) -> float:
        """Say how large the download of a release is, in megabytes.

        Args:
            release: The release's number, such as 1.0.3
        """
        return {"4.2.1": 37.4, "1.9.0": 12.6}[release]

    return Scene(
        [newest_release, download_size],
        ("How many megabytes is the newest release of the project heron?",),
        lambda done: tells(done, 37.4),
        (
            [
                ("newest_release", "heron"),
                ("download_size", "4.2.1"),
                ("final_answer", "It is 37.4 megabytes."),
            ],
        ),
    )


@task("three steps", "choose")
def parcel_of_a_customer() -> Scene:
    def customer_id(name: str) -> int:
        """Look up the number of a customer.

        Args:
            name: The customer's last name
        """
        return {"Okoye": 5512, "Larsen": 7733}[name]

    def last_order(customer: int) -> str:
        """Find the last order of a customer.

        Args:
            customer: The customer's number
        """
        return {5512: "A-19", 7733: "B-40"}[customer]

    def weight_of(order: str) -> float:
        """Say what an order weighs, in kilograms.

        Args:
            order: The order's code
        """
        return {"A-19": 12.75, "B-40": 3.5}[order]

    return Scene(
        [customer_id, last_order, weight_of],
        ("How heavy is the last order of the customer Larsen?",),
        lambda done: tells(done, 3.5),
        (
            [
                ("customer_id", "Larsen"),
                ("last_order", 7733),
                ("weight_of", "B-40"),
                ("final_answer", "It weighs 3.5 kilograms."),
            ],
        ),
    )


@task("compare", "choose")
def least_rain() -> Scene:
    def rain_in(month: str) -> float:
        """Look up the rain of a month, in millimetres.

        Args:
            month: The month's name in English
        """
        return {"April": 48.0, "May": 71.5, "June": 39.25}[month]

    def _asked_all(done: Finished) -> str:
        asked = {str(call.input) for call, outcome in done.calls if outcome.status == "done"}
        return "" if len(asked) >= 3 else f"{len(asked)} months were looked up, expected 3"

    return Scene(
        [rain_in],
        ("Which month had the least rain: April, May or June? Answer with its name only.",),
        lambda done: names(done, "June", "April", "May") or _asked_all(done),
        (
            [
                ("rain_in", "April"),
                ("rain_in", "May"),
                ("rain_in", "June"),
                ("final_answer", "June"),
            ],
        ),
        liar="June",
    )


@task("compare", "choose")
def how_much_more() -> Scene:
    def population(town: str) -> int:
        """Look up how many people live in a town.

        Args:
            town: The town's name
        """
        return {"Aarn": 8400, "Belm": 6150}[town]

    return Scene(
        [population],
        ("How many people live in Aarn and how many in Belm, and which of the two is larger?",),
        lambda done: first_fault(tells(done, 8400, 6150), holds(done, "Aarn")),
        (
            [
                ("population", "Aarn"),
                ("population", "Belm"),
                ("final_answer", "8400 live in Aarn and 6150 in Belm, so Aarn is larger."),
            ],
        ),
    )


@task("follow-up", "choose")
def and_on_the_other_day() -> Scene:
    asked: list[str] = []

    def visits(day: str) -> int:
        """Count the visits of the site on a day.

        Args:
            day: The day of the week, in English
        """
        asked.append(day)
        return {"Monday": 1204, "Tuesday": 986}[day]

    return Scene(
        [visits],
        ("How many visits were there on Monday?", "And on Tuesday?"),
        lambda done: tells(done, 986) or left(asked, ["Monday", "Tuesday"]),
        (
            [("visits", "Monday"), ("final_answer", "1204 visits.")],
            [("visits", "Tuesday"), ("final_answer", "986 visits.")],
        ),
    )
