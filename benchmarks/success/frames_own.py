"""Sixty questions about five tables as people have them, in four languages, with computed answers.

Dates and amounts are text, values are missing, units are mixed, there are categories and a
MultiIndex. Every second question is for choosing what is built, the others (`blind`) only for
reporting: do not look at what becomes of them while you tune.

An answer is right if it has each expected number, rounded as it was asked for, and each expected
name, in this order or in another.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Asked:
    """A question about variables.

    Attributes:
        id: What names it.
        level: A word that groups it.
        question: The text for the model.
        variables: Gives the variables.
        is_right: Whether an answer is right.
        label: The right answer, for people.
        output_type: The type of the answer; None for text.
    """

    id: str
    level: str
    question: str
    variables: Callable[[], Mapping[str, Any]]
    is_right: Callable[[Any], bool]
    label: str = ""
    output_type: Any = None


Expected = float | str | tuple[float | str, ...]


@functools.cache
def tables() -> Mapping[str, Any]:
    """The five tables, by name."""
    import numpy as np
    import pandas as pd
    from palmerpenguins import load_penguins
    from vega_datasets import local_data

    chance = np.random.default_rng(7)
    size = 160
    days = pd.date_range("2023-01-02", periods=size, freq="4D")
    amounts = chance.gamma(2.0, 180.0, size).round(2) + 900 * (np.arange(size) % 17 == 0)
    german = [f"{each:,.2f}".translate(str.maketrans(",.", ".,")) + " €" for each in amounts]
    orders = pd.DataFrame(
        {
            "Order No": [f"A-{1000 + each}" for each in range(size)],
            "Order date": days.strftime("%d.%m.%Y"),
            "Amount": german,
            "Items": pd.array(chance.integers(1, 9, size), dtype="Int64"),
            "status": chance.choice(["shipped", "Shipped", "SHIPPED ", "open", "returned"], size),
            "Country": chance.choice(["Germany", "France", "Spain", "Austria"], size),
        }
    )
    orders.loc[orders.index % 23 == 5, "Items"] = pd.NA
    orders.loc[orders.index % 31 == 3, "Country"] = None

    walks = 60
    numbers = chance.uniform(3, 30, walks).round(1)
    units = chance.choice(["km", "mi"], walks, p=[0.75, 0.25])
    levels = pd.CategoricalDtype(["easy", "moderate", "hard"], ordered=True)
    hikes = pd.DataFrame(
        {
            "trail": [f"Trail {each:02}" for each in range(walks)],
            "distance": [f"{number} {unit}" for number, unit in zip(numbers, units, strict=True)],
            "ascent_m": chance.integers(50, 1800, walks).astype(float),
            "difficulty": pd.Categorical(
                chance.choice(["easy", "moderate", "hard"], walks), dtype=levels
            ),
            "dogs": chance.choice(["yes", "no"], walks),
            "time": [f"{hour}:{minute:02}" for hour, minute in
                     zip(chance.integers(1, 9, walks), chance.integers(0, 60, walks), strict=True)],
        }
    )  # fmt: skip
    hikes.loc[hikes.index % 11 == 4, "ascent_m"] = np.nan

    index = pd.MultiIndex.from_product(
        [["North", "South", "East", "West"], range(2018, 2025)], names=["region", "year"]
    )
    sales = pd.DataFrame(
        {
            "units": chance.integers(100, 900, len(index)),
            "revenue": chance.uniform(5_000, 60_000, len(index)).round(2),
        },
        index=index,
    )
    sales.loc[("East", 2020), "revenue"] = np.nan
    return {
        "orders": orders,
        "hikes": hikes,
        "sales": sales,
        "penguins": load_penguins(),
        "weather": local_data.seattle_weather(),
    }


def _amount(orders: Any) -> Any:
    texts = orders["Amount"].str.replace(" €", "").str.replace(".", "").str.replace(",", ".")
    return texts.astype(float)


def _dates(orders: Any) -> Any:
    import pandas as pd

    return pd.to_datetime(orders["Order date"], format="%d.%m.%Y")


def _km(hikes: Any) -> Any:
    number = hikes["distance"].str.split().str[0].astype(float)
    return number * hikes["distance"].str.endswith("mi").map({True: 1.609344, False: 1.0})


def _status(orders: Any) -> Any:
    return orders["status"].str.strip().str.lower()


def _minutes(hikes: Any) -> Any:
    hours = hikes["time"].str.split(":")
    return hours.str[0].astype(int) * 60 + hours.str[1].astype(int)


QUESTIONS: list[tuple[str, str, str, Callable[[Any], Expected]]] = [
    # orders
    ("en", "orders", "How many orders came from France?", lambda t: float((t["Country"] == "France").sum())),
    ("en", "orders", "What is the total amount of all orders in euros?", lambda t: _amount(t).sum()),
    ("de", "orders", "Wie viele Bestellungen haben den Status shipped (Schreibweise egal)?", lambda t: float((_status(t) == "shipped").sum())),
    ("de", "orders", "Wie hoch ist der durchschnittliche Betrag einer Bestellung aus Spain, auf zwei Stellen gerundet?", lambda t: round(_amount(t)[t["Country"] == "Spain"].mean(), 2)),
    ("fr", "orders", "Combien de commandes n'ont pas de pays (Country manquant) ?", lambda t: float(t["Country"].isna().sum())),
    ("fr", "orders", "Quel est le montant maximal d'une commande (Amount) en euros ?", lambda t: _amount(t).max()),
    ("es", "orders", "¿Cuántos pedidos se hicieron en 2024?", lambda t: float((_dates(t).dt.year == 2024).sum())),
    ("es", "orders", "¿Qué país (Country) tiene más pedidos?", lambda t: t["Country"].value_counts().idxmax()),
    ("en", "orders", "What is the median number of items per order, ignoring missing values?", lambda t: float(t["Items"].median())),
    ("de", "orders", "In welchem Monat (1-12) des Jahres 2023 gab es die meisten Bestellungen? Nenne die Zahl der Bestellungen in diesem Monat.", lambda t: float(_dates(t)[_dates(t).dt.year == 2023].dt.month.value_counts().max())),
    ("fr", "orders", "Combien d'articles (Items) ont été commandés au total depuis l'Autriche (Austria) ?", lambda t: float(t.loc[t["Country"] == "Austria", "Items"].sum())),
    ("es", "orders", "¿Cuántos pedidos tienen un importe (Amount) mayor que 1000 euros?", lambda t: float((_amount(t) > 1000).sum())),
    # hikes
    ("en", "hikes", "How many hikes are hard?", lambda t: float((t["difficulty"] == "hard").sum())),
    ("en", "hikes", "What is the mean ascent in metres of the easy hikes, rounded to one decimal? Leave out missing values.", lambda t: round(t.loc[t["difficulty"] == "easy", "ascent_m"].mean(), 1)),
    ("de", "hikes", "Wie viele Wanderungen sind mindestens moderate?", lambda t: float((t["difficulty"] >= "moderate").sum())),
    ("de", "hikes", "Bei wie vielen Wanderungen fehlt der Anstieg (ascent_m)?", lambda t: float(t["ascent_m"].isna().sum())),
    ("fr", "hikes", "Quel sentier (trail) a le plus grand dénivelé (ascent_m) ?", lambda t: t.loc[t["ascent_m"].idxmax(), "trail"]),
    ("fr", "hikes", "Combien de randonnées indiquent la distance en miles (mi) ?", lambda t: float(t["distance"].str.endswith("mi").sum())),
    ("es", "hikes", "¿Cuántas rutas permiten perros (dogs = yes) y son hard?", lambda t: float(((t["dogs"] == "yes") & (t["difficulty"] == "hard")).sum())),
    ("es", "hikes", "¿Cuál es la distancia media en km de todas las rutas (1 mi = 1.609344 km), redondeada a dos decimales?", lambda t: round(_km(t).mean(), 2)),
    ("en", "hikes", "What is the longest distance in km, if one mile is 1.609344 km? Round to two decimals.", lambda t: round(_km(t).max(), 2)),
    ("de", "hikes", "Wie viele Minuten dauert die längste Wanderung (Spalte time, Stunden:Minuten)?", lambda t: float(_minutes(t).max())),
    ("fr", "hikes", "Quelle est la durée moyenne (colonne time, heures:minutes) en minutes, arrondie à une décimale ?", lambda t: round(_minutes(t).mean(), 1)),
    ("es", "hikes", "¿Cuál es el desnivel mediano (ascent_m) de las rutas sin perros (dogs = no)?", lambda t: float(t.loc[t["dogs"] == "no", "ascent_m"].median())),
    # sales
    ("en", "sales", "What were the units of the region North in 2020?", lambda t: float(t.loc[("North", 2020), "units"])),
    ("en", "sales", "Which region has the highest total revenue?", lambda t: t.groupby("region")["revenue"].sum().idxmax()),
    ("de", "sales", "Wie viele units wurden 2023 insgesamt verkauft?", lambda t: float(t.xs(2023, level="year")["units"].sum())),
    ("de", "sales", "In welchem Jahr hatte South die meisten units?", lambda t: float(t.loc["South"]["units"].idxmax())),
    ("fr", "sales", "Quel est le revenu moyen (revenue) de la région West, arrondi à deux décimales ?", lambda t: round(t.loc["West"]["revenue"].mean(), 2)),
    ("fr", "sales", "Combien de valeurs manquent dans revenue ?", lambda t: float(t["revenue"].isna().sum())),
    ("es", "sales", "¿Cuál es la suma de units de la región East?", lambda t: float(t.loc["East"]["units"].sum())),
    ("es", "sales", "¿En qué año fue mayor el total de units de todas las regiones?", lambda t: float(t.groupby("year")["units"].sum().idxmax())),
    ("en", "sales", "What is the correlation between units and revenue, rounded to two decimals?", lambda t: round(t["units"].corr(t["revenue"]), 2)),
    ("de", "sales", "Um wie viele units ist der Verkauf im North von 2018 bis 2024 gewachsen?", lambda t: float(t.loc[("North", 2024), "units"] - t.loc[("North", 2018), "units"])),
    ("fr", "sales", "Quel est le revenu (revenue) par unité vendue dans la région South, toutes années confondues, arrondi à deux décimales ?", lambda t: round(t.loc["South"]["revenue"].sum() / t.loc["South"]["units"].sum(), 2)),
    ("es", "sales", "¿Cuántas combinaciones de región y año tienen más de 500 units?", lambda t: float((t["units"] > 500).sum())),
    # penguins
    ("en", "penguins", "What is the mean body mass of the Gentoo penguins in grams, rounded to one decimal?", lambda t: round(t.loc[t["species"] == "Gentoo", "body_mass_g"].mean(), 1)),
    ("en", "penguins", "How many penguins have no recorded sex?", lambda t: float(t["sex"].isna().sum())),
    ("de", "penguins", "Wie viele Pinguine gibt es auf der Insel Dream?", lambda t: float((t["island"] == "Dream").sum())),
    ("de", "penguins", "Welche Art (species) hat im Mittel die längsten Flossen (flipper_length_mm)?", lambda t: t.groupby("species")["flipper_length_mm"].mean().idxmax()),
    ("fr", "penguins", "Quelle est la médiane de bill_length_mm des femelles (female) ?", lambda t: float(t.loc[t["sex"] == "female", "bill_length_mm"].median())),
    ("fr", "penguins", "Combien de manchots Adelie ont été mesurés en 2008 ?", lambda t: float(((t["species"] == "Adelie") & (t["year"] == 2008)).sum())),
    ("es", "penguins", "¿Cuál es la desviación típica (muestral) de body_mass_g, redondeada a un decimal?", lambda t: round(t["body_mass_g"].std(), 1)),
    ("es", "penguins", "¿Cuántos pingüinos pesan más de 5000 g?", lambda t: float((t["body_mass_g"] > 5000).sum())),
    ("en", "penguins", "What is the Pearson correlation between flipper length and body mass, rounded to three decimals?", lambda t: round(t["flipper_length_mm"].corr(t["body_mass_g"]), 3)),
    ("de", "penguins", "Wie viel Prozent der Chinstrap-Pinguine sind weiblich (female), auf eine Stelle gerundet?", lambda t: round((t.loc[t["species"] == "Chinstrap", "sex"] == "female").mean() * 100, 1)),
    ("fr", "penguins", "Quel est l'écart entre la masse moyenne (body_mass_g) des mâles et celle des femelles, arrondi à une décimale ?", lambda t: round(t.groupby("sex")["body_mass_g"].mean()["male"] - t.groupby("sex")["body_mass_g"].mean()["female"], 1)),
    ("es", "penguins", "¿En qué isla vive el pingüino más pesado?", lambda t: t.loc[t["body_mass_g"].idxmax(), "island"]),
    # weather
    ("en", "weather", "On how many days did it rain, that is, weather is rain?", lambda t: float((t["weather"] == "rain").sum())),
    ("en", "weather", "What was the highest temp_max?", lambda t: float(t["temp_max"].max())),
    ("de", "weather", "Wie viel Niederschlag (precipitation) fiel 2014 insgesamt, auf eine Stelle gerundet?", lambda t: round(t.loc[t["date"].dt.year == 2014, "precipitation"].sum(), 1)),
    ("de", "weather", "An welchem Datum war der Wind am stärksten? Antworte im Format JJJJ-MM-TT.", lambda t: str(t.loc[t["wind"].idxmax(), "date"].date())),
    ("fr", "weather", "Quelle est la moyenne de temp_min en janvier (toutes les années), arrondie à deux décimales ?", lambda t: round(t.loc[t["date"].dt.month == 1, "temp_min"].mean(), 2)),
    ("fr", "weather", "Combien de jours sans précipitation (precipitation = 0) en 2012 ?", lambda t: float(((t["precipitation"] == 0) & (t["date"].dt.year == 2012)).sum())),
    ("es", "weather", "¿En qué año llovió más en total (suma de precipitation)?", lambda t: float(t.groupby(t["date"].dt.year)["precipitation"].sum().idxmax())),
    ("es", "weather", "¿Cuál es la diferencia media entre temp_max y temp_min, redondeada a dos decimales?", lambda t: round((t["temp_max"] - t["temp_min"]).mean(), 2)),
    ("en", "weather", "In which month (1-12) is the mean wind the highest over all years?", lambda t: float(t.groupby(t["date"].dt.month)["wind"].mean().idxmax())),
    ("de", "weather", "Wie viele Tage lang hielt die längste Folge von Tagen mit Niederschlag (precipitation > 0) an?", lambda t: float(_longest(t["precipitation"] > 0))),
    ("fr", "weather", "Combien de types de temps (weather) différents y a-t-il ?", lambda t: float(t["weather"].nunique())),
    ("es", "weather", "¿Cuántos días de nieve (weather = snow) hubo en 2012?", lambda t: float(((t["weather"] == "snow") & (t["date"].dt.year == 2012)).sum())),
]  # fmt: skip
"""The language, the table, the question, and what its answer is computed with."""


def _longest(days: Any) -> int:
    groups = (days != days.shift()).cumsum()
    return int(days.groupby(groups).sum().max())


def questions(half: Literal["choose", "blind"]) -> Iterator[Asked]:
    """The questions of a half: of each table every second one."""
    first = 0 if half == "choose" else 1
    for place in range(first, len(QUESTIONS), 2):
        language, name, text, compute = QUESTIONS[place]
        yield _asked(place, language, name, text, compute)


def _asked(
    place: int, language: str, name: str, text: str, compute: Callable[[Any], Expected]
) -> Asked:
    table = tables()[name]
    expected = compute(table)
    return Asked(
        f"{name[:4]}{place:02}",
        language,
        text,
        lambda: {name: table.copy()},
        lambda answer: has(str(answer), expected),
        str(expected),
    )


def has(answer: str, expected: Expected) -> bool:
    """Whether an answer has each expected number or name."""
    if isinstance(expected, tuple):
        return all(has(answer, each) for each in expected)
    if isinstance(expected, str):
        return expected.casefold() in answer.casefold()
    decimals = len(f"{float(expected):.10f}".rstrip("0").partition(".")[2])
    found = (_number(each) for each in re.findall(r"-?\d[\d.,]*", answer))
    return any(round(each, decimals) == round(float(expected), decimals) for each in found)


def _number(text: str) -> float:
    text = text.rstrip(".,")
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", text):
        return float(text.replace(",", ""))
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return float("nan")
