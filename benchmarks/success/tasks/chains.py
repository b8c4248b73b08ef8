"""For choosing: two or three steps, where each needs what the one before it found."""

from __future__ import annotations

import pandas as pd

from benchmarks.success.checks import key_of, left, tells
from benchmarks.success.task import Scene, task

# ── two steps ─────────────────────────────────────────────────────────────────────────────────────


@task("two steps", "choose")
def message_to_a_car_owner() -> Scene:
    owners = {"KR-402": "Selma", "LT-118": "Bruno"}
    sent: list[tuple[str, str]] = []

    def owner_of_car(plate: str) -> str:
        """Find the colleague who owns a car in the car park.

        Args:
            plate: The car's number plate
        """
        return owners[key_of(owners, plate, "car")]

    def send_message(person: str, text: str) -> str:
        """Send a message to a colleague.

        Args:
            person: The colleague's first name
            text: What the message says
        """
        sent.append((key_of(owners.values(), person, "colleague"), text))
        return "sent"

    return Scene(
        [owner_of_car, send_message],
        ('Please send the message "Your lights are on" to the owner of the car KR-402.',),
        lambda done: (
            left([person for person, _ in sent], ["Selma"])
            or left(["lights are on" in text.lower() for _, text in sent], [True])
        ),
        (
            [
                ("owner_of_car", "KR-402"),
                ("send_message", {"person": "Selma", "text": "Your lights are on"}),
                ("final_answer", "The message went to Selma."),
            ],
        ),
    )


@task("two steps", "choose")
def price_of_the_boiler_filter() -> Scene:
    filters = {"Tarn 30": "FX-221", "Tarn 45": "FX-240"}
    prices = {"FX-221": 34.9, "FX-240": 41.5, "FX-300": 58.0}

    def filter_for(boiler: str) -> str:
        """Find the part number of the filter that fits a boiler.

        Args:
            boiler: The boiler's model
        """
        return filters[key_of(filters, boiler, "boiler")]

    def price_of_part(part: str) -> float:
        """Look up the price of a spare part, in euros.

        Args:
            part: The part number
        """
        return prices[key_of(prices, part, "part")]

    return Scene(
        [price_of_part, filter_for],
        ("What does a filter for my boiler cost? The boiler is a Tarn 30.",),
        lambda done: tells(done, 34.9),
        (
            [
                ("filter_for", "Tarn 30"),
                ("price_of_part", "FX-221"),
                ("final_answer", "It costs 34.90 euros."),
            ],
        ),
    )


@task("two steps", "choose")
def missing_oxygen_values() -> Scene:
    tables = {
        "Lagoon": pd.DataFrame(
            {
                "oxygen": [8.1, None, 7.4, None, None] * 5,
                "salinity": [30.1, 29.8, None, 31.0, 30.6] * 5,
            }
        ),
        "Delta": pd.DataFrame({"oxygen": [6.9, 7.2, None] * 4, "salinity": [12.4, None, None] * 4}),
    }

    def load_measurements(site: str) -> pd.DataFrame:
        """Load the measurements of a site as a table.

        Args:
            site: The site's name
        """
        return tables[key_of(tables, site, "site")]

    def count_missing(table: pd.DataFrame, column: str) -> int:
        """Count the missing values in a column of a table.

        Args:
            table: The table
            column: The column's name
        """
        return int(table[key_of(table, column, "column")].isna().sum())

    return Scene(
        [load_measurements, count_missing],
        (
            "Load the measurements of the site Lagoon. How many values are missing in the column oxygen?",
        ),
        lambda done: tells(done, 15),
        (
            [
                ("load_measurements", "Lagoon"),
                ("count_missing", {"table": "load_measurements_1", "column": "oxygen"}),
                ("final_answer", "15 values are missing."),
            ],
        ),
    )


# ── three steps ───────────────────────────────────────────────────────────────────────────────────


@task("three steps", "choose")
def door_openings_of_a_freezer() -> Scene:
    samples = {3391: "S-714", 3408: "S-720"}
    freezers = {"S-714": "Polar 2", "S-720": "Polar 5"}
    openings = {"Polar 1": 12, "Polar 2": 29, "Polar 5": 18}

    def sample_of(patient: int) -> str:
        """Look up the code of the sample that a patient gave.

        Args:
            patient: The patient's number
        """
        if patient not in samples:
            raise ValueError(
                f"no patient has the number {patient}; expected one of {list(samples)}"
            )
        return samples[patient]

    def freezer_of(sample: str) -> str:
        """Find the freezer in which a sample is kept.

        Args:
            sample: The sample's code
        """
        return freezers[key_of(freezers, sample, "sample")]

    def openings_today(freezer: str) -> int:
        """Count how often a freezer was opened today.

        Args:
            freezer: The freezer's name
        """
        return openings[key_of(openings, freezer, "freezer")]

    return Scene(
        [sample_of, freezer_of, openings_today],
        (
            "Patient 3391 gave us a sample. How many times was the freezer it is kept in opened today?",
        ),
        lambda done: tells(done, 29),
        (
            [
                ("sample_of", 3391),
                ("freezer_of", "S-714"),
                ("openings_today", "Polar 2"),
                ("final_answer", "It was opened 29 times."),
            ],
        ),
    )


@task("three steps", "choose")
def cost_of_treating_the_pond() -> Scene:
    litres = {"koi pond": 8400, "lily pond": 3100}

    def pond_litres(pond: str) -> int:
        """Look up how much water a pond in the park holds, in litres.

        Args:
            pond: The pond's name
        """
        return litres[key_of(litres, pond, "pond")]

    def algae_dose(water_litres: float) -> float:
        """Compute how much algae remover some water needs, in millilitres.

        Args:
            water_litres: How much water it is, in litres
        """
        return round(water_litres * 0.035, 1)

    def remover_price(millilitres: float) -> float:
        """Compute what some algae remover costs, in euros.

        Args:
            millilitres: How much algae remover it is, in millilitres
        """
        return round(millilitres * 0.13, 2)

    return Scene(
        [remover_price, algae_dose, pond_litres],
        ("What will the algae remover for the whole koi pond cost us?",),
        lambda done: tells(done, 38.22),
        (
            [
                ("pond_litres", "koi pond"),
                ("algae_dose", 8400),
                ("remover_price", 294.0),
                ("final_answer", "It will cost 38.22 euros."),
            ],
        ),
    )


@task("three steps", "choose")
def deploy_for_the_latest_dataset() -> Scene:
    datasets = {"orchard": "orchard-v3", "vineyard": "vineyard-v7"}
    best = {"orchard-v2": "gbm-1", "orchard-v3": "gbm-4", "vineyard-v7": "cnn-2"}
    models = ["gbm-1", "gbm-4", "cnn-2", "ridge-5"]
    deployed: list[str] = []

    def latest_dataset(project: str) -> str:
        """Find the latest dataset of a project.

        Args:
            project: The project's name
        """
        return datasets[key_of(datasets, project, "project")]

    def best_model(dataset: str) -> str:
        """Find the model that scored best on a dataset.

        Args:
            dataset: The dataset's name with its version
        """
        return best[key_of(best, dataset, "dataset")]

    def deploy(model: str) -> str:
        """Deploy a model, so that users are served by it.

        Args:
            model: The model's name
        """
        deployed.append(key_of(models, model, "model"))
        return f"{deployed[-1]} is deployed"

    return Scene(
        [latest_dataset, best_model, deploy],
        ("Deploy the model that scored best on the latest dataset of the project orchard.",),
        lambda done: left(deployed, ["gbm-4"]),
        (
            [
                ("latest_dataset", "orchard"),
                ("best_model", "orchard-v3"),
                ("deploy", "gbm-4"),
                ("final_answer", "gbm-4 is deployed."),
            ],
        ),
        liar="The best model, gbm-4, is deployed.",
    )
