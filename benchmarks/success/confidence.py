"""How well the confidence of the embedded model tells whether its answers are right.

    python -m benchmarks.success.confidence [ROWS] [--store FILE] [--sets NAME …]

Three sets of labelled texts that packages bundle: names of cars and where they come from, places of
time zones and their continent, airports and their state. Prints for each the reliability picture,
the expected calibration error and the accuracy by coverage. Then a map with a threshold, chosen on
one half, sends the unsure rows of the other half to a second model, which is scripted and always
right: what that costs and wins. Needs pandas, vega_datasets and tzdata or the system's time zones.
"""

from __future__ import annotations

import argparse
import random
import sys
import zoneinfo
from collections.abc import Iterator
from typing import Any, Literal

from archytas_nb import Agent
from archytas_nb.batch.calibration import calibrated
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.testing import ScriptedModel

PRECISION = 0.9
"""The wished share of right answers, for which the threshold is chosen."""

Country = Literal["USA", "Europe", "Japan"]
Continent = Literal["Africa", "America", "Asia", "Australia", "Europe"]
State = Literal["Alaska", "California", "Florida", "Texas"]


def sets() -> Iterator[tuple[str, str, Any, list[tuple[str, str]]]]:
    """The labelled sets: a name, the prompt, the type, and texts with their labels."""
    from vega_datasets import local_data

    cars = local_data.cars().drop_duplicates("Name")
    prompt = "Where does the maker of this car come from?"
    yield "cars", prompt, Country, list(zip(cars["Name"], cars["Origin"], strict=True))
    places = [each.split("/") for each in sorted(zoneinfo.available_timezones())]
    known = [each for each in places if len(each) == 2 and each[0] in Continent.__args__]
    prompt = "On which continent is this place?"
    yield "places", prompt, Continent, [(name.replace("_", " "), part) for part, name in known]
    airports = local_data.airports()
    states = {"AK": "Alaska", "CA": "California", "FL": "Florida", "TX": "Texas"}
    chosen = airports[airports["state"].isin(states)]
    texts = chosen["name"] + " airport, " + chosen["city"]
    prompt = "In which state of the USA is this airport?"
    yield "airports", prompt, State, list(zip(texts, chosen["state"].map(states), strict=True))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int, nargs="?", default=80)
    parser.add_argument("--store", default=":memory:", help="a file for the results of the rows")
    parser.add_argument("--sets", nargs="*", help="the names of the sets; all without it")
    given = parser.parse_args()
    store = None if given.store == ":memory:" else given.store
    model = EmbeddedModel()
    for name, prompt, kind, labelled in sets():
        if given.sets and name not in given.sets:
            continue
        rows = random.Random(1).sample(labelled, given.rows)
        texts = [text for text, _ in rows]
        labels = dict(rows)
        found = Agent([], model=model).map(
            texts, prompt, output_type=kind, unsure=0, store=store, workers=1, progress=False
        )
        pairs = [
            (each["confidence"], each["answer"] == labels[text])
            for text, each in zip(texts, found, strict=True)
            if each["status"] == "done"
        ]
        print(f"{name}: {len(pairs)} of {len(rows)} answered")
        print(calibrated(pairs))
        tune, judged = pairs[::2], pairs[1::2]
        threshold = calibrated(tune).threshold(PRECISION)
        print(f"threshold for {PRECISION:.0%} right, from one half: {threshold}")
        if threshold is None:
            continue
        texts = texts[1::2]
        second = ScriptedModel(*_replies(texts, labels, found[1::2], threshold))
        sent = Agent([], model=model).map(
            texts, prompt, output_type=kind, unsure=threshold, then=second, store=store, workers=1,
            progress=False,
        )  # fmt: skip
        again = sum(each["by"] == "then" for each in sent)
        right = sum(each["answer"] == labels[t] for t, each in zip(texts, sent, strict=True))
        before = sum(is_right for _, is_right in judged)
        kept = [p for p in judged if p[0] is not None and p[0] >= threshold]
        print(
            f"other half: {before} of {len(judged)} right alone; {sum(r for _, r in kept)} of "
            f"{len(kept)} right that are sure; with the second model for {again} of "
            f"{len(texts)} rows {right} right"
        )


def _replies(texts: Any, labels: Any, found: Any, threshold: float) -> Iterator[tuple[str, Any]]:
    """The second model's replies: the labels of the rows that come to it."""
    for text, each in zip(texts, found, strict=True):
        if each["confidence"] is None or each["confidence"] < threshold:
            yield ("final_answer", labels[text])


if __name__ == "__main__":
    sys.exit(main())
