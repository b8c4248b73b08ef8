"""How often a newcomer's question gets a right number, a marked wrong one, or an unmarked one.

    python -m benchmarks.success.newcomer choose|report|all [--cache FOLDER] [--json FILE]

Sixty questions about three tables that packages bundle, with computed answers, as somebody asks who
has never read how. Every second question is only for reporting (`report`): do not look at what
becomes of them while you tune. A number is right if it is the expected one as it is rounded there,
to two digits at least. A wrong answer is *marked* if the run says that a number of it comes from
nowhere. Needs pandas, vega_datasets and scikit-learn.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archytas_nb import Agent
from archytas_nb.errors import RunError
from archytas_nb.numbers import numbers_in
from archytas_nb.provenance import nowhere
from benchmarks.success.frames import KeptModel

LEAST_PRECISION = 0.05
"""Half a unit of the last digit, as a part of the number: one digit alone would be luck."""


@functools.cache
def tables() -> Mapping[str, Any]:
    """The three tables, by the names that a newcomer gives them."""
    from sklearn.datasets import load_iris
    from vega_datasets import local_data

    iris = load_iris(as_frame=True)
    flowers = iris.frame.drop(columns="target")
    flowers["species"] = iris.target_names[iris.target]
    return {"cars": local_data.cars(), "weather": local_data.seattle_weather(), "flowers": flowers}


def questions() -> list[tuple[str, str, Any]]:
    """Each question: its table, its text, and the expected number or name."""
    cars, weather, flowers = tables().values()
    rain = weather[weather["weather"] == "rain"]
    year = weather["date"].dt.year
    month = weather["date"].dt.month
    usa, japan, europe = (cars[cars["Origin"] == each] for each in ("USA", "Japan", "Europe"))
    setosa, virginica = (flowers[flowers["species"] == s] for s in ("setosa", "virginica"))
    mpg, power, weight = "Miles_per_Gallon", "Horsepower", "Weight_in_lbs"
    long, wide = "petal length (cm)", "petal width (cm)"
    sepal = "sepal length (cm)"
    return [
        ("cars", "How many cars are in the table?", len(cars)),
        ("cars", "What is the average horsepower of the cars?", cars[power].mean()),
        ("cars", "How many cars come from Japan?", len(japan)),
        ("cars", "What is the mean weight of American cars in pounds?", usa[weight].mean()),
        ("cars", "Which country makes the lightest cars on average?", "Japan"),
        ("cars", "How many cars have no value for miles per gallon?", cars[mpg].isna().sum()),
        ("cars", "What is the highest horsepower?", cars[power].max()),
        ("cars", "What is the name of the heaviest car?", cars.loc[cars[weight].idxmax(), "Name"]),
        ("cars", "How many cars have more than 6 cylinders?", (cars["Cylinders"] > 6).sum()),
        ("cars", "What is the median acceleration?", cars["Acceleration"].median()),
        (
            "cars",
            "By how many miles per gallon are Japanese cars better than American ones on average?",
            japan[mpg].mean() - usa[mpg].mean(),
        ),
        (
            "cars",
            "What share of the cars is from Europe, in percent?",
            100 * len(europe) / len(cars),
        ),
        (
            "cars",
            "How strongly are horsepower and weight correlated?",
            cars[power].corr(cars[weight]),
        ),
        (
            "cars",
            "What is the average mpg of cars with 4 cylinders?",
            cars.loc[cars["Cylinders"] == 4, mpg].mean(),
        ),
        ("cars", "How many different car names are there?", cars["Name"].nunique()),
        ("cars", "What does the lightest car weigh?", cars[weight].min()),
        (
            "cars",
            "How many cars were made in 1970?",
            (cars["Year"].dt.year == 1970).sum(),
        ),
        ("cars", "What is the standard deviation of the displacement?", cars["Displacement"].std()),
        (
            "cars",
            "What is the average horsepower of cars that weigh more than 4000 lbs?",
            cars.loc[cars[weight] > 4000, power].mean(),
        ),
        (
            "cars",
            "How many European cars do more than 30 miles per gallon?",
            (europe[mpg] > 30).sum(),
        ),
        ("weather", "How many days are in the data?", len(weather)),
        ("weather", "What was the hottest temperature?", weather["temp_max"].max()),
        ("weather", "On how many days did it snow?", (weather["weather"] == "snow").sum()),
        ("weather", "What is the average wind?", weather["wind"].mean()),
        ("weather", "How much precipitation fell in total?", weather["precipitation"].sum()),
        ("weather", "How many days had no precipitation?", (weather["precipitation"] == 0).sum()),
        (
            "weather",
            "What is the average maximum temperature on rainy days?",
            rain["temp_max"].mean(),
        ),
        (
            "weather",
            "How many sunny days were there in 2014?",
            ((weather["weather"] == "sun") & (year == 2014)).sum(),
        ),
        (
            "weather",
            "What was the mean of the minimum temperature in January?",
            weather.loc[month == 1, "temp_min"].mean(),
        ),
        ("weather", "Which kind of weather was most frequent?", weather["weather"].mode()[0]),
        (
            "weather",
            "Which year had the most precipitation?",
            int(weather.groupby(year)["precipitation"].sum().idxmax()),
        ),
        ("weather", "How cold was the coldest night?", abs(weather["temp_min"].min())),
        (
            "weather",
            "What percentage of days was foggy?",
            100 * (weather["weather"] == "fog").mean(),
        ),
        (
            "weather",
            "What is the biggest difference between the high and the low of one day?",
            (weather["temp_max"] - weather["temp_min"]).max(),
        ),
        ("weather", "On how many days was it below zero?", (weather["temp_min"] < 0).sum()),
        (
            "weather",
            "What is the average daily precipitation in November?",
            weather.loc[month == 11, "precipitation"].mean(),
        ),
        ("weather", "What was the strongest wind?", weather["wind"].max()),
        ("weather", "What is the median of the maximum temperature?", weather["temp_max"].median()),
        (
            "weather",
            "How much warmer was 2015 than 2012, by the mean maximum temperature?",
            weather.loc[year == 2015, "temp_max"].mean()
            - weather.loc[year == 2012, "temp_max"].mean(),
        ),
        (
            "weather",
            "How many days had more than 20 mm of precipitation?",
            (weather["precipitation"] > 20).sum(),
        ),
        ("flowers", "How many flowers were measured?", len(flowers)),
        ("flowers", "How many species are there?", flowers["species"].nunique()),
        ("flowers", "What is the average petal length?", flowers[long].mean()),
        ("flowers", "What is the mean petal length of setosa?", setosa[long].mean()),
        ("flowers", "Which species has the longest petals on average?", "virginica"),
        ("flowers", "How wide is the widest petal?", flowers[wide].max()),
        (
            "flowers",
            "By how many cm are the petals of virginica longer than those of setosa on average?",
            virginica[long].mean() - setosa[long].mean(),
        ),
        (
            "flowers",
            "What is the correlation of petal length and petal width?",
            flowers[long].corr(flowers[wide]),
        ),
        ("flowers", "How many flowers have a sepal longer than 6 cm?", (flowers[sepal] > 6).sum()),
        ("flowers", "What is the median sepal width?", flowers["sepal width (cm)"].median()),
        ("flowers", "What is the shortest sepal?", flowers[sepal].min()),
        ("flowers", "What is the standard deviation of petal width?", flowers[wide].std()),
        (
            "flowers",
            "How many virginica flowers have petals longer than 5.5 cm?",
            (virginica[long] > 5.5).sum(),
        ),
        (
            "flowers",
            "What is the mean ratio of petal length to petal width?",
            (flowers[long] / flowers[wide]).mean(),
        ),
        (
            "flowers",
            "How many times as wide are the petals of virginica as those of setosa, by the means?",
            virginica[wide].mean() / setosa[wide].mean(),
        ),
        ("flowers", "How many values are missing?", 0),
        (
            "flowers",
            "What share of all flowers has a petal width below 1 cm, in percent?",
            100 * (flowers[wide] < 1).mean(),
        ),
        ("flowers", "What is the sum of all petal lengths?", flowers[long].sum()),
        (
            "flowers",
            "What is the largest sepal length of setosa?",
            setosa[sepal].max(),
        ),
        (
            "flowers",
            "Which species varies most in petal length?",
            flowers.groupby("species")[long].std().idxmax(),
        ),
    ]


def is_right(answer: str, expected: Any) -> bool:
    """Whether an answer has the expected number, rounded, or the name."""
    if isinstance(expected, str):
        return expected.casefold() in answer.casefold()
    for number in numbers_in(answer):
        for reading in number.readings:
            is_close = reading.half <= LEAST_PRECISION * reading.value or not reading.value
            if reading.is_of(float(expected)) and (is_close or float(expected).is_integer()):
                return True
    return False


def asked(table: str, question: str, expected: Any, model: Any) -> dict[str, Any]:
    """The result of a question."""
    agent = Agent([], model=model, namespace={table: tables()[table].copy()})
    try:
        run = agent.run(f"{question} (table: {table})", progress=False)
    except RunError as error:
        run = error.run
    marks = nowhere(run.sources)
    kind = "refused"
    if run.answer:
        is_number = not isinstance(expected, str)
        if is_right(run.answer, expected):
            kind = "right, marked" if marks else "right"
        elif is_number and not any(True for _ in numbers_in(run.answer)):
            kind = "no number"
        else:
            kind = "wrong, marked" if marks else "wrong, unmarked"
    return {
        "table": table,
        "question": question,
        "expected": str(expected),
        "answer": run.answer or run.reason,
        "kind": kind,
        "marks": marks,
        "repairs": run.repairs,
        "requests": run.usage.requests,
        "programs": [each.program for each in run.steps if each.program],
    }


def counted(results: Sequence[Mapping[str, Any]]) -> str:
    """How many questions became of each kind."""
    kinds = Counter(each["kind"] for each in results)
    return ", ".join(f"{kind}: {number}" for kind, number in kinds.most_common())


def main() -> None:
    """Ask the questions and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("half", choices=("choose", "report", "all"))
    parser.add_argument("--cache", type=Path, help="a folder for the replies of the model")
    parser.add_argument("--json", type=Path, help="a file for the results")
    given = parser.parse_args()
    chosen = questions()
    if given.half != "all":
        chosen = chosen[given.half == "report" :: 2]
    model = KeptModel(given.cache)
    results = []
    for each in chosen:
        results.append(asked(*each, model))
        if given.half == "choose":
            last = results[-1]
            print(f"{last['kind']}: {last['question']} {last['answer']!r} ({last['expected']})")
        if given.json:
            given.json.write_text(json.dumps(results, indent=1, default=str))
    print(f"{given.half}: {counted(results)}, of {len(results)}")


if __name__ == "__main__":
    sys.exit(main())
