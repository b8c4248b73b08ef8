"""Comparisons over several calls, of which each has one number."""

from __future__ import annotations

from benchmarks.success.checks import left, names
from benchmarks.success.task import Finished, Scene, task


@task("compare", "choose")
def cheapest_flour() -> Scene:
    prices = {"Adler": 1.95, "Bach": 1.15, "Cramer": 1.60}
    ordered: list[str] = []

    def price_of_flour(shop: str) -> float:
        """Ask a shop for its price of a bag of flour, in euros.

        Args:
            shop: The shop's name
        """
        return prices[shop]

    def order_flour(shop: str) -> str:
        """Order a bag of flour.

        Args:
            shop: The shop's name
        """
        ordered.append(shop)
        return f"ordered at {shop}"

    return Scene(
        [price_of_flour, order_flour],
        (
            "Compare the prices of flour in the shops Adler, Bach and Cramer, and order a bag in the cheapest.",
        ),
        lambda done: left(ordered, ["Bach"]),
        (
            [
                ("price_of_flour", "Adler"),
                ("price_of_flour", "Bach"),
                ("price_of_flour", "Cramer"),
                ("order_flour", "Bach"),
                ("final_answer", "Ordered at Bach."),
            ],
        ),
    )


@task("compare", "choose")
def heavier_species() -> Scene:
    def average(species: str, measure: str) -> float:
        """Average a measure over the penguins of a species.

        Args:
            species: Adelie, Chinstrap or Gentoo
            measure: flipper_length_mm or body_mass_g
        """
        table = {"Adelie": (190.0, 3700.7), "Chinstrap": (195.8, 3733.1), "Gentoo": (217.2, 5076.0)}
        return table[species][["flipper_length_mm", "body_mass_g"].index(measure)]

    return Scene(
        [average],
        ("Which species is heavier on average, Adelie or Chinstrap? Answer with its name only.",),
        lambda done: names(done, "Chinstrap", "Adelie", "Gentoo") or _read(done, "average", 2),
        (
            [
                ("average", {"species": "Adelie", "measure": "body_mass_g"}),
                ("average", {"species": "Chinstrap", "measure": "body_mass_g"}),
                ("final_answer", "Chinstrap"),
            ],
        ),
        liar="Chinstrap",
    )


@task("compare", "report")
def fastest_courier() -> Scene:
    days = {"Pelican": 4, "Swift": 2, "Stork": 6}
    booked: list[str] = []

    def days_to_graz(courier: str) -> int:
        """Ask a courier how many days a parcel to Graz takes.

        Args:
            courier: The courier's name
        """
        return days[courier]

    def send_parcel(courier: str) -> str:
        """Send the parcel.

        Args:
            courier: The courier's name
        """
        booked.append(courier)
        return f"handed over to {courier}"

    return Scene(
        [days_to_graz, send_parcel],
        (
            "Find out which of the couriers Pelican, Swift and Stork is fastest, and send the parcel with it.",
        ),
        lambda done: left(booked, ["Swift"]),
        (
            [
                ("days_to_graz", "Pelican"),
                ("days_to_graz", "Swift"),
                ("days_to_graz", "Stork"),
                ("send_parcel", "Swift"),
                ("final_answer", "Sent with Swift."),
            ],
        ),
    )


@task("compare", "report")
def tallest_tower() -> Scene:
    def height_of(tower: str) -> float:
        """Look up the height of a tower in metres.

        Args:
            tower: The tower's name
        """
        return {"Alba": 88.5, "Brio": 61.0, "Corvo": 102.25}[tower]

    return Scene(
        [height_of],
        ("Which tower is the tallest: Alba, Brio or Corvo? Answer with its name only.",),
        lambda done: names(done, "Corvo", "Alba", "Brio") or _read(done, "height_of", 3),
        (
            [
                ("height_of", "Alba"),
                ("height_of", "Brio"),
                ("height_of", "Corvo"),
                ("final_answer", "Corvo"),
            ],
        ),
        liar="Corvo",
    )


@task("compare", "report")
def most_clicked_banner() -> Scene:
    rates = {"Dune": 2.45, "Fjord": 1.9, "Mesa": 3.1}
    published: list[str] = []

    def click_rate(banner: str) -> float:
        """Look up how many percent of the visitors clicked on a banner in the test.

        Args:
            banner: The banner's name
        """
        return rates[banner]

    def publish(banner: str) -> str:
        """Publish a banner on the home page.

        Args:
            banner: The banner's name
        """
        published.append(banner)
        return f"{banner} is on the home page"

    return Scene(
        [click_rate, publish],
        (
            "Which of the banners Dune, Fjord and Mesa had the highest click rate? Publish that one.",
        ),
        lambda done: left(published, ["Mesa"]),
        (
            [
                ("click_rate", "Dune"),
                ("click_rate", "Fjord"),
                ("click_rate", "Mesa"),
                ("publish", "Mesa"),
                ("final_answer", "Mesa is published."),
            ],
        ),
    )


@task("compare", "report")
def district_with_the_lowest_rent() -> Scene:
    def median_rent(district: str) -> float:
        """Compute the median rent of the flats in a district, in euros per square metre.

        Args:
            district: The district's name
        """
        return {"Harbour": 14.2, "Oldtown": 9.85, "Castle": 16.5}[district]

    return Scene(
        [median_rent],
        (
            "Which district has the lowest median rent: Harbour, Oldtown or Castle? Answer with its name only.",
        ),
        lambda done: names(done, "Oldtown", "Harbour", "Castle") or _read(done, "median_rent", 3),
        (
            [
                ("median_rent", "Harbour"),
                ("median_rent", "Oldtown"),
                ("median_rent", "Castle"),
                ("final_answer", "Oldtown"),
            ],
        ),
        liar="Oldtown",
    )


def _read(done: Finished, tool: str, times: int) -> str:
    """Whether the tool answered for that many different inputs: a lucky guess is no comparison."""
    inputs = {
        repr(call.input)
        for call, outcome in done.calls
        if call.name == tool and outcome.status == "done"
    }
    return (
        ""
        if len(inputs) >= times
        else f"{tool} was asked about {len(inputs)} things, expected {times}"
    )
