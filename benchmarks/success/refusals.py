"""Whether the embedded model refuses what neither data nor tools can answer, and nothing else.

    python -m benchmarks.success.refusals choose|report|all [--cache FOLDER] [--decide]

In three languages thirty questions that can be answered, thirty that cannot, and nine remarks that
are no question, about a table or with three tools. Every second one is only for reporting. With
`--decide`, only the first decision is asked for and printed. Prints how many were refused, how many
calls and programs were made, and how many requests it took. Needs vega_datasets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archytas_nb import Agent
from archytas_nb.errors import RunError
from archytas_nb.loop.events import ModelReply
from archytas_nb.small.decision import shares_in
from benchmarks.success.frames import KeptModel

Kind = Literal["fits", "does not", "no question"]


class Asked(NamedTuple):
    """A message: about the table or with the tools, whether it can be answered, and its text."""

    place: Literal["table", "tools"]
    kind: Kind
    text: str


_TEXTS: dict[tuple[str, Kind], str] = {
    ("table", "fits"): """
How many cars have 8 cylinders?
What is the average weight of the Japanese cars?
Which car has the highest horsepower?
Is there a relation between weight and miles per gallon?
How many cars are there from each origin?
Wie viele Autos kommen aus Europa?
Was ist das mittlere Gewicht der Autos mit 4 Zylindern?
Welches Auto hat den größten Hubraum?
In welchem Jahr war die mittlere Leistung am höchsten?
Wie viele Werte fehlen bei den Pferdestärken?
Combien de voitures viennent du Japon ?
Quelle est la puissance moyenne des voitures américaines ?
Quelle voiture est la plus légère ?
Quelle est la médiane de l'accélération ?
Combien de voitures ont plus de 6 cylindres ?
""",
    ("table", "does not"): """
What did these cars cost when they were new?
Which of these cars had the most accidents?
Who was the chief designer of the heaviest car?
What will petrol cost next year?
How many of these cars are still on the road today?
Welche Farbe hatten die meisten Autos?
Wie hoch ist die Arbeitslosigkeit in Japan?
Wie viele Türen haben die Autos im Mittel?
Wer hat die Fußball-Weltmeisterschaft 2030 gewonnen?
Wie zufrieden waren die Käufer mit ihren Autos?
Quel est le prix moyen des voitures européennes ?
Combien de kilomètres ces voitures ont-elles parcourus ?
Quel temps fera-t-il demain à Lyon ?
Quelle voiture a reçu le plus de plaintes ?
Combien d'employés a l'usine qui fabrique la voiture la plus lourde ?
""",
    ("tools", "fits"): """
What is the weather in Oslo?
Convert 20 euros to dollars.
Is order 1183 on its way?
How warm is it in Lima right now?
How many yen do I get for 5 pounds?
Wie ist das Wetter in Graz?
Wo ist meine Bestellung 2077?
Wie viel sind 100 Franken in Euro?
Ist es in Kiel wärmer als in Bonn?
Ist die Bestellung 31 schon angekommen?
Quel temps fait-il à Nice ?
Où en est la commande 512 ?
Combien de dollars valent 75 euros ?
Fait-il froid à Montréal ?
Combien valent 12 livres en francs suisses ?
""",
    ("tools", "does not"): """
Book me a flight to Oslo.
What is the population of Peru?
Play some music.
Which stocks should I buy?
Send an email to Anna that I am late.
Übersetze diesen Brief ins Polnische: er liegt auf meinem Schreibtisch.
Wie viele Einwohner hat die Straße, in der ich wohne?
Reserviere einen Tisch für zwei Personen.
Was habe ich gestern gegessen?
Wie lautet das Passwort meines Nachbarn?
Réserve-moi un hôtel à Nice.
Qui est mon voisin ?
Combien de pages a le livre que je lis ?
Allume la lumière du salon.
Quel est le numéro de téléphone de Paul ?
""",
    ("table", "no question"): "Hello!\nDanke, das war es schon.\nMerci beaucoup !\nGood morning",
    ("tools", "no question"): """
Thanks, that was all.
Hallo, wie geht es dir?
Bonjour !
You are great
Gute Nacht!
""",
}


def messages() -> Iterator[Asked]:
    """All of them."""
    for (place, kind), text in _TEXTS.items():
        for line in text.strip().splitlines():
            yield Asked(place, kind, line)  # type: ignore[arg-type]


def get_weather(city: str) -> str:
    """The weather in a city now.

    Args:
        city: The city
    """
    return f"{city}: {len(city) * 3 % 25} °C, light wind"


def convert_currency(amount: float, source: str, target: str) -> float:
    """Convert an amount of money from one currency to another.

    Args:
        amount: The amount
        source: The currency that it is in
        target: The other currency
    """
    return round(amount * (1 + (len(source) - len(target)) / 10), 2)


def find_order(number: int) -> str:
    """Where an order is.

    Args:
        number: The number of the order
    """
    return f"order {number} left the warehouse yesterday"


def setting(asked: Asked) -> tuple[list[Callable[..., Any]], dict[str, Any]]:
    """The tools and the variables of a message."""
    if asked.place == "tools":
        return [get_weather, convert_currency, find_order], {}
    from vega_datasets import local_data

    return [], {"cars": local_data.cars()}


def outcome(asked: Asked, model: Any) -> dict[str, Any]:
    """The outcome of a message."""
    tools, variables = setting(asked)
    agent = Agent(tools, model=model, namespace=variables)
    try:
        run = agent.run(asked.text, progress=False)
    except RunError as error:
        run = error.run
    acts = len(run.calls) + sum(bool(each.program) for each in run.steps)
    return {
        **asked._asdict(),
        "status": run.status,
        "answer": run.answer or run.reason,
        "acts": acts,
        "requests": run.usage.requests,
    }


def decided(asked: Asked, model: Any) -> dict[str, Any]:
    """The first decision about a message."""
    tools, variables = setting(asked)
    agent = Agent(tools, model=model, namespace=variables)
    for event in agent.stream(asked.text):
        if isinstance(event, ModelReply):
            return {**asked._asdict(), "shares": shares_in(event)}
    return {**asked._asdict(), "shares": {}}


def main() -> None:
    """Ask, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("half", choices=("choose", "report", "all"))
    parser.add_argument("--cache", type=Path, help="a folder for the replies of the model")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--decide", action="store_true", help="only the first decision")
    given = parser.parse_args()
    chosen = list(messages())
    if given.half != "all":
        chosen = chosen[given.half == "report" :: 2]
    model = KeptModel(given.cache)
    results = []
    for each in chosen:
        results.append(decided(each, model) if given.decide else outcome(each, model))
        if given.json:
            given.json.write_text(json.dumps(results, indent=1, ensure_ascii=False))
        if given.half == "choose":
            print(results[-1], flush=True)
    if given.decide:
        return
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in results:
        groups.setdefault((each["place"], each["kind"]), []).append(each)
    for (place, kind), group in groups.items():
        statuses = Counter(each["status"] for each in group)
        acts = sum(each["acts"] for each in group)
        requests = sum(each["requests"] for each in group)
        print(f"{place}, {kind}: {dict(statuses)}, {acts} calls and programs, {requests} requests")


if __name__ == "__main__":
    sys.exit(main())
