"""One call that answers, alone or among tools that look alike."""

from __future__ import annotations

from benchmarks.success.checks import consulted, entry_of
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import bare, says

# ── one call ──────────────────────────────────────────────────────────────────────────────────────


@task("one call", "blind")
def ferry_passengers_of_two_islands() -> Scene:
    table = {"Trinidad and Tobago": 412360, "Saint Lucia": 98210}

    def ferry_passengers(country: str) -> int:
        """Look up how many people used the ferries of a country last year.

        Args:
            country: The country's name
        """
        return table[entry_of(table, country, "country")]

    return Scene(
        [ferry_passengers],
        ("How many people used the ferries of Trinidad and Tobago last year?",),
        lambda done: says(done, 412360),
        ([("ferry_passengers", "Trinidad and Tobago"), ("final_answer", "It was 412,360.")],),
    )


@task("one call", "blind")
def staff_of_research_and_development() -> Scene:
    table = {"Research and Development": 38, "Research": 12, "Sales": 51}

    def head_count(department: str) -> int:
        """Count the people who work in a department.

        Args:
            department: The department's name
        """
        return table[entry_of(table, department, "department")]

    def floor_of(department: str) -> int:
        """Look up the floor on which a department sits.

        Args:
            department: The department's name
        """
        return {"Research and Development": 4, "Research": 3, "Sales": 1}[department]

    return Scene(
        [floor_of, head_count],
        ("How many people work in Research and Development?",),
        lambda done: says(done, 38),
        ([("head_count", "Research and Development"), ("final_answer", "38 people.")],),
    )


@task("one call", "blind")
def de_laenge_einer_bruecke() -> Scene:
    table = {"Talbrücke Süd": 643, "Talbrücke Nord": 518}

    def length_of_bridge(name: str) -> int:
        """Look up the length of a bridge, in metres.

        Args:
            name: The bridge's name
        """
        return table[entry_of(table, name, "bridge")]

    return Scene(
        [length_of_bridge],
        ("Wie viele Meter ist die Talbrücke Süd lang?",),
        lambda done: says(done, 643),
        ([("length_of_bridge", "Talbrücke Süd"), ("final_answer", "Sie ist 643 Meter lang.")],),
    )


@task("one call", "blind")
def zh_green_tea_in_stock() -> Scene:
    table = {"绿茶": 48, "红茶": 31}

    def boxes_in_stock(item: str) -> int:
        """Count the boxes of a product in the warehouse (仓库里的箱数).

        Args:
            item: The product's name in Chinese (商品名称)
        """
        return table[entry_of(table, item, "product")]

    return Scene(
        [boxes_in_stock],
        ("仓库里还有多少箱绿茶?",),
        lambda done: says(done, 48),
        ([("boxes_in_stock", "绿茶"), ("final_answer", "仓库里还有48箱绿茶。")],),
    )


@task("one call", "blind")
def fr_places_de_parking() -> Scene:
    table = {"Gare du Nord": 143, "Gare de l'Est": 67}

    def free_places(car_park: str) -> int:
        """Count the places of a car park that are free now.

        Args:
            car_park: The name of the car park
        """
        return table[entry_of(table, bare(car_park, "parking"), "car park")]

    return Scene(
        [free_places],
        ("Combien de places libres reste-t-il au parking Gare du Nord ?",),
        lambda done: says(done, 143),
        ([("free_places", "Gare du Nord"), ("final_answer", "Il reste 143 places.")],),
    )


# ── choose a tool ─────────────────────────────────────────────────────────────────────────────────


@task("choose a tool", "blind")
def total_of_an_order_with_a_letter() -> Scene:
    log: list[str] = []

    def invoice_total(number: str) -> float:
        """Look up the total of an invoice, in euros.

        Args:
            number: The invoice's number
        """
        return 91.20

    def order_total(number: str) -> float:
        """Look up the total of an order, in euros.

        Args:
            number: The order's number
        """
        log.append(bare(number, "order"))
        return 318.75

    def offer_total(number: str) -> float:
        """Look up the total of an offer, in euros.

        Args:
            number: The offer's number
        """
        return 402.10

    return Scene(
        [invoice_total, offer_total, order_total],
        ("What is the total of order 4471-B?",),
        lambda done: says(done, 318.75) or consulted(log, "4471-B"),
        ([("order_total", "4471-B"), ("final_answer", "It is 318.75 euros.")],),
    )


@task("choose a tool", "blind")
def highest_allowed_pressure() -> Scene:
    log: list[str] = []

    def pressure_now(vessel: str) -> float:
        """Measure the pressure in a vessel, in bar.

        Args:
            vessel: The vessel's name
        """
        return 6.3

    def test_pressure(vessel: str) -> float:
        """Look up the pressure at which a vessel was tested, in bar.

        Args:
            vessel: The vessel's name
        """
        return 15.0

    def allowed_pressure(vessel: str) -> float:
        """Look up the highest pressure that a vessel may have in use, in bar.

        Args:
            vessel: The vessel's name
        """
        log.append(bare(vessel, "the", "vessel"))
        return 10.5

    return Scene(
        [pressure_now, test_pressure, allowed_pressure],
        ("How many bar is the vessel V-12 allowed to have at most while it is in use?",),
        lambda done: says(done, 10.5) or consulted(log, "V-12"),
        ([("allowed_pressure", "V-12"), ("final_answer", "At most 10.5 bar.")],),
    )


@task("choose a tool", "blind")
def ja_capacity_of_a_room() -> Scene:
    log: list[str] = []

    def capacity_of_room(room: str) -> int:
        """Look up how many people a meeting room holds (会議室の定員).

        Args:
            room: The room's name in Japanese
        """
        log.append(bare(room, "会議室"))
        return 24

    def bookings_of_room(room: str) -> int:
        """Count the bookings of a meeting room this week (会議室の予約数).

        Args:
            room: The room's name in Japanese
        """
        return 13

    def area_of_room(room: str) -> int:
        """Look up the area of a meeting room in square metres (会議室の面積).

        Args:
            room: The room's name in Japanese
        """
        return 52

    return Scene(
        [bookings_of_room, area_of_room, capacity_of_room],
        ("会議室「桜」の定員は何人ですか。",),
        lambda done: says(done, 24) or consulted(log, "桜"),
        ([("capacity_of_room", "桜"), ("final_answer", "定員は24人です。")],),
    )


@task("choose a tool", "blind")
def es_distancia_por_carretera() -> Scene:
    def road_distance(start: str, end: str) -> int:
        """Look up the distance between two towns by road, in kilometres.

        Args:
            start: One town
            end: The other town
        """
        return 127

    def rail_distance(start: str, end: str) -> int:
        """Look up the distance between two towns by rail, in kilometres.

        Args:
            start: One town
            end: The other town
        """
        return 153

    def sea_distance(start: str, end: str) -> int:
        """Look up the distance between two ports by sea, in kilometres.

        Args:
            start: One port
            end: The other port
        """
        return 169

    return Scene(
        [rail_distance, sea_distance, road_distance],
        ("¿Cuántos kilómetros hay por carretera de Villanueva a Puerto Claro?",),
        lambda done: says(done, 127),
        (
            [
                ("road_distance", {"start": "Villanueva", "end": "Puerto Claro"}),
                ("final_answer", "Son 127 kilómetros."),
            ],
        ),
    )
