"""Questions that are answered by code on real tables; what is checked is the state that it leaves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
from palmerpenguins import load_penguins
from vega_datasets import local_data

from benchmarks.success.task import Finished, Scene, task

Names = dict[str, Any]


@functools.cache
def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    return load_penguins(), pd.read_json(local_data.cars.filepath)


def _code(
    name: str, question: str, code: str, check: Callable[[Names, pd.DataFrame, pd.DataFrame], Any]
) -> None:
    """Register a task: ``check`` is given the variables afterwards, and both tables as they were."""

    def build() -> Scene:
        penguins, cars = _tables()
        names: Names = {
            "penguins": penguins.copy(),
            "cars": cars.copy(),
            "pd": pd,
            "prices": {"tea": 2.0, "coffee": 3.0, "milk": 1.5},
            "readings": ["3.5", "n/a", "4.0", "", "5.25"],
        }

        def wrong(done: Finished) -> str:
            try:
                return "" if check(done.names, penguins, cars) else "the variables are not as asked"
            except Exception as error:
                return f"the variables cannot be read as asked: {error!r}"

        return Scene(
            [],
            (question,),
            wrong,
            ([("python", {"code": code}), ("final_answer", "It is done.")],),
            namespace=names,
            runs_code=True,
        )

    build.__name__ = name
    task("code", "report")(build)


_PENGUINS = "penguins is a data frame with the columns species, island, bill_length_mm, bill_depth_mm, flipper_length_mm, body_mass_g, sex and year. "
_CARS = "cars is a data frame with the columns Name, Miles_per_Gallon, Cylinders, Horsepower, Weight_in_lbs, Year (text such as 1970-01-01) and Origin (USA, Europe or Japan). "

_code(
    "code_drop_missing_mass",
    _PENGUINS + "Remove the rows without a body_mass_g from penguins.",
    "penguins = penguins.dropna(subset=['body_mass_g'])",
    lambda n, p, c: len(n["penguins"]) == 342 and n["penguins"].shape[1] == 8,
)
_code(
    "code_rename_column",
    _PENGUINS + "Rename the column bill_length_mm of penguins to bill_length.",
    "penguins = penguins.rename(columns={'bill_length_mm': 'bill_length'})",
    lambda n, p, c: list(n["penguins"]) == [x.replace("bill_length_mm", "bill_length") for x in p],
)
_code(
    "code_mass_in_kg",
    _PENGUINS + "Add a column mass_kg to penguins: the body mass in kilograms.",
    "penguins['mass_kg'] = penguins['body_mass_g'] / 1000",
    lambda n, p, c: (n["penguins"]["mass_kg"] - p.body_mass_g / 1000).abs().max() < 1e-9,
)
_code(
    "code_mean_mass_of_gentoos",
    _PENGUINS + "Put the mean body_mass_g of the species Gentoo into the variable mean_mass.",
    "mean_mass = penguins[penguins.species == 'Gentoo'].body_mass_g.mean()",
    lambda n, p, c: abs(n["mean_mass"] - p[p.species == "Gentoo"].body_mass_g.mean()) < 1e-6,
)
_code(
    "code_sort_by_flipper",
    _PENGUINS + "Sort penguins by flipper_length_mm, the longest first.",
    "penguins = penguins.sort_values('flipper_length_mm', ascending=False)",
    lambda n, p, c: (
        n["penguins"].flipper_length_mm.dropna().is_monotonic_decreasing
        and len(n["penguins"]) == 344
    ),
)
_code(
    "code_only_adelies",
    _PENGUINS
    + "Make a data frame adelies with the rows of the species Adelie. Leave penguins as it is.",
    "adelies = penguins[penguins.species == 'Adelie']",
    lambda n, p, c: (
        set(n["adelies"].species) == {"Adelie"}
        and len(n["adelies"]) == 152
        and n["penguins"].equals(p)
    ),
)
_code(
    "code_species_as_category",
    _PENGUINS + "Make the column species of penguins a pandas category.",
    "penguins['species'] = penguins['species'].astype('category')",
    lambda n, p, c: n["penguins"].species.dtype == "category" and len(n["penguins"]) == 344,
)
_code(
    "code_fill_sex",
    _PENGUINS + "Fill the missing values of the column sex in penguins with the text unknown.",
    "penguins['sex'] = penguins['sex'].fillna('unknown')",
    lambda n, p, c: (n["penguins"].sex == "unknown").sum() == p.sex.isna().sum(),
)
_code(
    "code_count_species",
    _PENGUINS + "Put a dict into the variable counts: how many penguins there are of each species.",
    "counts = penguins.species.value_counts().to_dict()",
    lambda n, p, c: dict(n["counts"]) == {"Adelie": 152, "Gentoo": 124, "Chinstrap": 68},
)
_code(
    "code_drop_year",
    _PENGUINS + "Remove the column year from penguins.",
    "penguins = penguins.drop(columns='year')",
    lambda n, p, c: list(n["penguins"]) == [x for x in p if x != "year"],
)
_code(
    "code_year_as_number",
    _CARS + "Make the column Year of cars a whole number, such as 1970.",
    "cars['Year'] = cars['Year'].str[:4].astype(int)",
    lambda n, p, c: list(n["cars"].Year.astype(float)) == [float(x[:4]) for x in c.Year],
)
_code(
    "code_new_ratio",
    _CARS + "Add a column power_to_weight to cars: Horsepower divided by Weight_in_lbs.",
    "cars['power_to_weight'] = cars.Horsepower / cars.Weight_in_lbs",
    lambda n, p, c: (n["cars"].power_to_weight - c.Horsepower / c.Weight_in_lbs).abs().max() < 1e-9,
)
_code(
    "code_heaviest_car",
    _CARS + "Put the Name of the heaviest car into the variable heaviest.",
    "heaviest = cars.loc[cars.Weight_in_lbs.idxmax(), 'Name']",
    lambda n, p, c: n["heaviest"] == c.loc[c.Weight_in_lbs.idxmax(), "Name"],
)
_code(
    "code_unique_names",
    _CARS + "Make a data frame unique_cars: of each Name in cars the first row only.",
    "unique_cars = cars.drop_duplicates('Name')",
    lambda n, p, c: len(n["unique_cars"]) == c.Name.nunique() and n["unique_cars"].Name.is_unique,
)
_code(
    "code_power_by_origin",
    _CARS + "Put the mean Horsepower for each Origin into the variable power, as a dict.",
    "power = cars.groupby('Origin').Horsepower.mean().to_dict()",
    lambda n, p, c: (
        {k: round(v, 6) for k, v in dict(n["power"]).items()}
        == c.groupby("Origin").Horsepower.mean().round(6).to_dict()
    ),
)
_code(
    "code_count_japanese",
    _CARS
    + "Put the number of cars of the Origin Japan with 4 Cylinders into the variable n_japan.",
    "n_japan = int(((cars.Origin == 'Japan') & (cars.Cylinders == 4)).sum())",
    lambda n, p, c: n["n_japan"] == ((c.Origin == "Japan") & (c.Cylinders == 4)).sum(),
)
_code(
    "code_upper_names",
    _CARS + "Write the Name of each car in cars in capital letters.",
    "cars['Name'] = cars['Name'].str.upper()",
    lambda n, p, c: list(n["cars"].Name) == [x.upper() for x in c.Name],
)
_code(
    "code_three_thriftiest",
    _CARS
    + "Put a list of the Names of the 3 cars with the most Miles_per_Gallon into the variable top3.",
    "top3 = cars.nlargest(3, 'Miles_per_Gallon').Name.tolist()",
    lambda n, p, c: list(n["top3"]) == c.nlargest(3, "Miles_per_Gallon").Name.tolist(),
)
_code(
    "code_clean_readings",
    "readings is a list of texts, such as '3.5'; some are no numbers ('n/a', ''). Put a list of the numbers in it, as floats and in the same order, into the variable values.",
    "values = [float(x) for x in readings if x not in ('n/a', '')]",
    lambda n, p, c: list(n["values"]) == [3.5, 4.0, 5.25],
)
_code(
    "code_raise_prices",
    "prices is a dict of prices by name. Raise each price in it by 10 percent.",
    "for each in prices:\n    prices[each] *= 1.1",
    lambda n, p, c: (
        {k: round(v, 6) for k, v in n["prices"].items()}
        == {"tea": 2.2, "coffee": 3.3, "milk": 1.65}
    ),
)
