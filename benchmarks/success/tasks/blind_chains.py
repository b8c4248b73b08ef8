"""Two and three steps: the result of one call is what the next one needs."""

from __future__ import annotations

from benchmarks.success.checks import consulted, entry_of, key_of
from benchmarks.success.task import Scene, task
from benchmarks.success.tasks.blind_checks import any_of, bare, says

# ── two steps ─────────────────────────────────────────────────────────────────────────────────────


@task("two steps", "blind")
def harbour_in_fahrenheit() -> Scene:
    table = {"Bergen": 12.5, "Turku": 8.0}

    def water_temperature(harbour: str) -> float:
        """Measure the temperature of the water in a harbour, in degrees Celsius.

        Args:
            harbour: The harbour's name
        """
        return table[entry_of(table, harbour, "harbour")]

    def celsius_to_fahrenheit(celsius: float) -> float:
        """Convert degrees Celsius to degrees Fahrenheit.

        Args:
            celsius: Degrees Celsius
        """
        return round(celsius * 1.8 + 32, 2)

    return Scene(
        [celsius_to_fahrenheit, water_temperature],
        ("How warm is the water in the harbour of Bergen, in degrees Fahrenheit?",),
        lambda done: says(done, 54.5),
        (
            [
                ("water_temperature", "Bergen"),
                ("celsius_to_fahrenheit", 12.5),
                ("final_answer", "The water has 54.5 °F."),
            ],
        ),
    )


@task("two steps", "blind")
def currency_of_a_supplier() -> Scene:
    suppliers = {"88-C": "Stone, Hill and Partners", "88-D": "Marten and Co"}
    currencies = {"Stone, Hill and Partners": "Norwegian krone", "Marten and Co": "euro"}

    def supplier_of(part: str) -> str:
        """Look up who supplies a part.

        Args:
            part: The part's number
        """
        return suppliers[key_of(suppliers, part, "part")]

    def currency_for(supplier: str) -> str:
        """Look up the currency in which a supplier is paid.

        Args:
            supplier: The supplier's name
        """
        return currencies[entry_of(currencies, supplier, "supplier")]

    return Scene(
        [supplier_of, currency_for],
        ("In which currency is the supplier of part 88-C paid?",),
        lambda done: any_of(done, "norwegian kron", "NOK"),
        (
            [
                ("supplier_of", "88-C"),
                ("currency_for", "Stone, Hill and Partners"),
                ("final_answer", "In Norwegian kroner: the currency is the Norwegian krone."),
            ],
        ),
    )


@task("two steps", "blind")
def de_kessel_in_kilopascal() -> Scene:
    table = {"K-1": 3.1, "K-2": 2.4}

    def pressure_of(boiler: str) -> float:
        """Measure the pressure in a boiler, in bar.

        Args:
            boiler: The boiler's name
        """
        return table[key_of(table, boiler, "boiler")]

    def bar_to_kpa(bar: float) -> float:
        """Convert a pressure from bar to kilopascals.

        Args:
            bar: The pressure in bar
        """
        return round(bar * 100, 3)

    return Scene(
        [pressure_of, bar_to_kpa],
        ("Wie hoch ist der Druck im Kessel K-2 in Kilopascal?",),
        lambda done: says(done, 240),
        (
            [
                ("pressure_of", "K-2"),
                ("bar_to_kpa", 2.4),
                ("final_answer", "Der Druck beträgt 240 kPa."),
            ],
        ),
    )


@task("two steps", "blind")
def es_ciudad_de_un_cliente() -> Scene:
    clients = {3086: "Pablo Ruiz", 3087: "Lucía Ferrer"}
    cities = {"Pablo Ruiz": "Burgos", "Lucía Ferrer": "Zaragoza"}

    def client_of_order(order: int) -> str:
        """Look up which client placed an order.

        Args:
            order: The order's number
        """
        return clients[int(order)]

    def city_of_client(client: str) -> str:
        """Look up the city in which a client lives.

        Args:
            client: The client's full name
        """
        return cities[entry_of(cities, client, "client")]

    return Scene(
        [city_of_client, client_of_order],
        ("¿En qué ciudad vive el cliente del pedido 3087?",),
        lambda done: any_of(done, "Zaragoza"),
        (
            [
                ("client_of_order", 3087),
                ("city_of_client", "Lucía Ferrer"),
                ("final_answer", "Vive en Zaragoza."),
            ],
        ),
    )


@task("two steps", "blind")
def ja_address_of_a_manager() -> Scene:
    managers = {"512": "田中", "513": "鈴木"}
    addresses = {"田中": "k.tanaka@example.jp", "鈴木": "m.suzuki@example.jp"}

    def manager_of(employee: str) -> str:
        """Look up the manager of an employee (上司).

        Args:
            employee: The employee's number (社員番号)
        """
        return managers[key_of(managers, employee, "employee")]

    def email_of(name: str) -> str:
        """Look up the e-mail address of a person.

        Args:
            name: The person's name in Japanese
        """
        return addresses[key_of(addresses, str(name).removesuffix("さん"), "person")]

    return Scene(
        [email_of, manager_of],
        ("社員番号512の人の上司のメールアドレスを教えてください。",),
        lambda done: any_of(done, "k.tanaka@example.jp"),
        (
            [
                ("manager_of", "512"),
                ("email_of", "田中"),
                ("final_answer", "k.tanaka@example.jp です。"),
            ],
        ),
    )


@task("two steps", "blind")
def route_in_miles() -> Scene:
    def route_length(number: str) -> float:
        """Look up the length of a hiking route, in kilometres.

        Args:
            number: The route's number
        """
        return {"E5-12": 28.0, "E5-13": 19.5}[str(number).strip()]

    def km_to_miles(km: float) -> float:
        """Convert kilometres to miles.

        Args:
            km: Kilometres
        """
        return round(km * 0.621371, 2)

    return Scene(
        [route_length, km_to_miles],
        ("How many miles long is the hiking route E5-12? Give two decimals.",),
        lambda done: says(done, 17.4),
        (
            [
                ("route_length", "E5-12"),
                ("km_to_miles", 28),
                ("final_answer", "It is 17.40 miles long."),
            ],
        ),
    )


# ── three steps ───────────────────────────────────────────────────────────────────────────────────


@task("three steps", "blind")
def warmth_at_the_end_of_a_train() -> Scene:
    ends = {"IC 2-14": "Bad Aibling", "IC 2-15": "Hof"}
    warmth = {"Bad Aibling": 15.0, "Hof": 11.0}

    def destination_of(train: str) -> str:
        """Look up the town in which a train ends.

        Args:
            train: The train's name
        """
        return ends[key_of(ends, train, "train")]

    def temperature_in(town: str) -> float:
        """Measure the temperature in a town, in degrees Celsius.

        Args:
            town: The town's name
        """
        return warmth[entry_of(warmth, town, "town")]

    def celsius_to_fahrenheit(celsius: float) -> float:
        """Convert degrees Celsius to degrees Fahrenheit.

        Args:
            celsius: Degrees Celsius
        """
        return round(celsius * 1.8 + 32, 2)

    return Scene(
        [celsius_to_fahrenheit, destination_of, temperature_in],
        ("How warm is it, in degrees Fahrenheit, in the town where the train IC 2-14 ends?",),
        lambda done: says(done, 59),
        (
            [
                ("destination_of", "IC 2-14"),
                ("temperature_in", "Bad Aibling"),
                ("celsius_to_fahrenheit", 15),
                ("final_answer", "It has 59 °F there."),
            ],
        ),
    )


@task("three steps", "blind")
def value_of_a_stock_in_euros() -> Scene:
    prices = {"Salt and Pepper Set": 1250, "Salt Cellar": 480}
    stock = {"Salt and Pepper Set": 36, "Salt Cellar": 90}

    def price_of(item: str) -> int:
        """Look up the price of one piece of an item, in cents.

        Args:
            item: The item's name
        """
        return prices[entry_of(prices, item, "item")]

    def pieces_of(item: str) -> int:
        """Count the pieces of an item in stock.

        Args:
            item: The item's name
        """
        return stock[entry_of(stock, item, "item")]

    def calculate(a: float, operation: str, b: float) -> float:
        """Calculate with two numbers.

        Args:
            a: The first number
            operation: One of +, -, *, /
            b: The second number
        """
        results = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}
        return results[key_of(results, operation, "operation")]

    return Scene(
        [price_of, pieces_of, calculate],
        ("What are all pieces of the Salt and Pepper Set in stock worth together, in euros?",),
        lambda done: says(done, 450),
        (
            [
                ("price_of", "Salt and Pepper Set"),
                ("pieces_of", "Salt and Pepper Set"),
                ("calculate", {"a": 1250, "operation": "*", "b": 36}),
                ("calculate", {"a": 45000, "operation": "/", "b": 100}),
                ("final_answer", "They are worth 450 euros."),
            ],
        ),
    )


@task("three steps", "blind")
def fr_ville_d_un_editeur() -> Scene:
    authors = {"Le Vent et la Mer": "Odile Garnier", "La Mer": "Paul Dubreuil"}
    houses = {"Odile Garnier": "Éditions Rives et Ponts", "Paul Dubreuil": "Éditions du Port"}
    cities = {"Éditions Rives et Ponts": "Nantes", "Éditions du Port": "Brest"}

    def author_of(title: str) -> str:
        """Look up who wrote a book.

        Args:
            title: The book's title
        """
        return authors[key_of(authors, bare(title), "book")]

    def publisher_of(author: str) -> str:
        """Look up the publisher of an author.

        Args:
            author: The author's name
        """
        return houses[key_of(houses, author, "author")]

    def city_of(publisher: str) -> str:
        """Look up the city in which a publisher has its seat.

        Args:
            publisher: The publisher's name
        """
        return cities[key_of(cities, publisher, "publisher")]

    return Scene(
        [city_of, publisher_of, author_of],
        ("Dans quelle ville se trouve l'éditeur de l'auteur du livre « Le Vent et la Mer » ?",),
        lambda done: any_of(done, "Nantes"),
        (
            [
                ("author_of", "Le Vent et la Mer"),
                ("publisher_of", "Odile Garnier"),
                ("city_of", "Éditions Rives et Ponts"),
                ("final_answer", "L'éditeur se trouve à Nantes."),
            ],
        ),
    )


@task("three steps", "blind")
def zh_phone_of_a_depot() -> Scene:
    parcels = {"6602": "SF-3391", "6603": "SF-3402"}
    places = {"SF-3391": "武汉", "SF-3402": "长沙"}
    phones = {"武汉": "027-5550143", "长沙": "0731-5550188"}

    def parcel_of_order(order: str) -> str:
        """Look up the parcel number of an order (订单的快递单号).

        Args:
            order: The order's number
        """
        return parcels[key_of(parcels, order, "order")]

    def city_of_parcel(parcel: str) -> str:
        """Look up the city in which a parcel is now (包裹现在所在城市).

        Args:
            parcel: The parcel's number
        """
        return places[key_of(places, parcel, "parcel")]

    def phone_of_depot(city: str) -> str:
        """Look up the phone number of the depot in a city (仓库电话).

        Args:
            city: The city's name in Chinese
        """
        return phones[key_of(phones, bare(city).removesuffix("市"), "city")]

    return Scene(
        [phone_of_depot, parcel_of_order, city_of_parcel],
        ("订单6602的包裹现在所在城市的仓库电话是多少?",),
        lambda done: any_of(done, "027-5550143", "0275550143", "027 5550143"),
        (
            [
                ("parcel_of_order", "6602"),
                ("city_of_parcel", "SF-3391"),
                ("phone_of_depot", "武汉"),
                ("final_answer", "仓库电话是027-5550143。"),
            ],
        ),
    )


@task("three steps", "blind")
def cost_of_a_delivery_in_hours() -> Scene:
    log: list[str] = []
    tours = {"Hall 7-West": "T-31", "Hall 7-East": "T-32"}
    minutes = {"T-31": 150, "T-32": 95}

    def tour_to(place: str) -> str:
        """Look up which tour goes to a place.

        Args:
            place: The place's name
        """
        return tours[entry_of(tours, place, "place")]

    def minutes_of(tour: str) -> int:
        """Look up how long a tour takes, in minutes.

        Args:
            tour: The tour's number
        """
        log.append(str(tour).strip())
        return minutes[key_of(minutes, tour, "tour")]

    def price_for(hours: float) -> float:
        """Calculate what a tour costs, in euros.

        Args:
            hours: How long it takes, in hours
        """
        return 18.0 + 34.0 * hours

    return Scene(
        [price_for, tour_to, minutes_of],
        ("What does the tour to Hall 7-West cost?",),
        lambda done: says(done, 103) or consulted(log, "T-31"),
        (
            [
                ("tour_to", "Hall 7-West"),
                ("minutes_of", "T-31"),
                ("price_for", 2.5),
                ("final_answer", "It costs 103 euros."),
            ],
        ),
    )
