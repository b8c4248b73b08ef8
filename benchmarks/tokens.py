"""The cost of requests: tokens by part, the part that an endpoint has cached, and the price.

    python -m benchmarks.tokens            30 questions with scripted replies, over 40 variables
    python -m benchmarks.tokens --json     the same as JSON, to compare two versions

The replies were written once, so that two versions are asked the same. Tokens are those of
``o200k_base`` where tiktoken has it, else the package's own estimate; images are not counted. What
is cached is the longest common prefix, in bytes, with an earlier request of the conversation.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import archytas_nb as nb
from archytas_nb.loop.events import AskModel, ModelReply, WireCall
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.testing import ScriptedModel

PRICES = {"gpt-6-luna": (0.1, 0.01, 0.5), "with cached input at a tenth of 3 USD": (3.0, 0.3, 15.0)}
"""USD for a million tokens of input, of cached input and of output."""


def counter() -> Callable[[str], int]:
    """The function that counts tokens."""
    try:
        import tiktoken  # type: ignore[import-not-found]

        encoding = tiktoken.get_encoding("o200k_base")
    except Exception:
        return text_tokens
    return lambda text: len(encoding.encode(text, disallowed_special=()))


# ── the notebook ──────────────────────────────────────────────────────────────────────────────────


def notebook() -> dict[str, Any]:
    """Forty variables: messy frames, pieces of them, settings, and leftovers of other cells."""
    random = np.random.default_rng(7)
    days = pd.date_range("2021-01-01", periods=1461)
    weather = pd.DataFrame(
        {
            "date": days,
            "precipitation": random.gamma(0.5, 4, 1461).round(1),
            "temp_max": random.normal(15, 8, 1461).round(1),
            "temp_min": random.normal(7, 6, 1461).round(1),
            "wind": random.gamma(4, 0.8, 1461).round(1),
            "weather": random.choice(["rain", "sun", "fog", "drizzle", "snow"], 1461),
        }
    )
    number = 4000
    orders = pd.DataFrame(
        {
            "order_id": range(number),
            "Customer Name": [f"customer {n % 700}" for n in range(number)],
            "amount": random.lognormal(3, 1, number).round(2),
            "ORDER DATE": days[random.integers(0, 1461, number)].strftime("%d/%m/%Y"),
            "region": random.choice(["north", "south", "east", None], number),
            "status": random.choice(["paid", "Paid", "open", "canceled", "cancelled"], number),
            "comment": random.choice(["", "call back", "wants a discount, see mail", None], number),
        }
    )
    penguins = pd.DataFrame({
        name: random.normal(mean, 5, 344).round(1)
        for name, mean in (
            ("Culmen Length (mm)", 44), ("Culmen Depth (mm)", 17), ("Flipper Length (mm)", 200),
            ("Body Mass (g)", 4200), ("Delta 15 N (o/oo)", 8), ("Delta 13 C (o/oo)", -25),
        )
    })  # fmt: skip
    penguins["Species"] = random.choice(["Adelie", "Gentoo", "Chinstrap"], 344)
    penguins["Sex"] = random.choice(["MALE", "FEMALE", None], 344)
    penguins["Date Egg"] = days[random.integers(0, 1461, 344)].strftime("%m/%d/%y")
    sales = orders.groupby(["region", "status"])[["amount"]].sum()
    found: dict[str, Any] = {
        "weather": weather, "orders": orders, "penguins": penguins, "sales": sales,
        "monthly": weather.set_index("date").resample("ME").sum(numeric_only=True),
        "rainy": weather[weather.weather == "rain"], "people": [
            {"name": f"person {n}", "age": n % 80, "city": "Bern"} for n in range(60)
        ],
        "cfg": {"alpha": 0.1, "layers": [64, 32], "data": weather.head(50), "name": "run 3"},
        "threshold": 0.25, "seed": 7, "matrix": random.normal(size=(1000, 64)).astype("float32"),
        "labels": random.choice(["a", "b"], 1000), "text": "It was a dark night. " * 400,
        "columns": list(orders.columns), "best": ("model", 0.93), "rate": 1.1,
        "per_customer": orders.groupby("Customer Name")["amount"].sum(),
        "wide": pd.DataFrame(random.normal(size=(20, 120)), columns=[f"c{n}" for n in range(120)]),
    }  # fmt: skip
    for n in range(40 - len(found)):
        found[f"tmp{n}"] = [n, float(n), f"text {n}", list(range(n)), {"n": n}][n % 5]
    return found


def load_region(region: str, since: str = "2021-01-01") -> pd.DataFrame:
    """Load the orders of a region.

    Args:
        region: north, south or east
        since: The first day, as YYYY-MM-DD

    Returns:
        The orders, one a row.
    """
    return pd.DataFrame({"region": [region] * 30, "amount": np.arange(30.0), "since": since})


def outliers(values: pd.Series, z: float = 3.0) -> pd.Series:
    """Find the values that are far from the mean.

    Args:
        values: The numbers
        z: How many standard deviations
    """
    return values[(values - values.mean()).abs() > z * values.std()]


def convert(amount: float, currency: str) -> float:
    """Convert an amount of euros.

    Args:
        amount: In euros
        currency: Such as USD
    """
    return round(amount * {"USD": 1.1, "CHF": 0.94}[currency], 2)


def draw(values: pd.Series, title: str = "") -> Any:
    """Draw a histogram.

    Args:
        values: The numbers
        title: What stands above it
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.hist(values.dropna())
    axes.set_title(title)
    return figure


def send_report(text: str, to: str) -> str:
    """Send a mail.

    Args:
        text: The text
        to: The address
    """
    return f"sent {len(text)} characters to {to}"


# ── the questions ─────────────────────────────────────────────────────────────────────────────────


def call(name: str, /, **given: Any) -> ModelReply:
    """A reply with a call."""
    return ModelReply("", (WireCall(name, json.dumps(given)),), finish="tool_calls")


def calls(*made: tuple[str, dict[str, Any]]) -> ModelReply:
    """A reply with several calls."""
    return ModelReply(
        "", tuple(WireCall(name, json.dumps(given)) for name, given in made), finish="tool_calls"
    )


def code(text: str) -> ModelReply:
    """A reply that runs code."""
    return call("python", code=text)


@dataclass(frozen=True)
class Question:
    """A question, the replies to it, and the options that change with it."""

    text: str
    replies: Sequence[Any]
    asked: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    new_tool: Callable[..., Any] | None = None


Q = Question
CODE: dict[str, Any] = {"python": "undoable"}
ANSWER = "The mean is 15.1 degrees, over all 1,461 days; no day is missing."
CONVERSATIONS: tuple[tuple[Question, ...], ...] = (
    (  # analysis with code and follow-ups
        Q("What is the mean temp_max in weather?", [code("weather.temp_max.mean()"), ANSWER],
          settings=CODE),
        Q("And per month?", [code("weather.groupby(weather.date.dt.month).temp_max.mean()"),
          "July is warmest, with 15.9 degrees."]),
        Q("Show me the months as a table with the rain.", [
            code("monthly[['precipitation', 'temp_max']]"), "The table is above."]),
        Q("Clean the column status in orders.", [
            code("orders.status.value_counts(dropna=False)"),
            code("orders['status'] = orders.status.str.lower().replace('cancelled', 'canceled')"),
            code("orders.status.value_counts(dropna=False)"), "There are three states now."]),
        Q("Which region has the highest revenue?", [
            code("orders.groupby('region', dropna=False).amount.sum()"), "north, with 33,000."]),
        Q("Parse the dates and give the revenue of the last 30 days.", [
            code("orders['ORDER DATE'].head()"),
            code("import pandas as pd\norders['date'] = pd.to_datetime(orders['ORDER DATE'], "
                 "dayfirst=True)\norders.date.max()"),
            code("orders[orders.date > orders.date.max() - pd.Timedelta(days=30)].amount.sum()"),
            "It is 2,750."]),
        Q("Who are the ten best customers?", [code("per_customer.nlargest(10)"), "See above."]),
    ),
    (  # without code: looks, the user's tools, paths
        Q("What is in penguins?", [call("look", name="penguins"), "344 penguins of 3 species."],
          settings={"python": "off"}),
        Q("Are there outliers in the body mass?", [
            call("outliers", values='penguins["Body Mass (g)"]'), "There are none."]),
        Q("Draw the flipper lengths.", [
            call("draw", values='penguins["Flipper Length (mm)"]', title="Flippers"),
            "The histogram is above."]),
        Q("How many of each sex?", [call("look", name="penguins.Sex", what="values"), "See above."]),
        Q("What does cfg hold?", [call("look", name="cfg"), "Four settings."]),
        Q("How far do people differ in age?", [call("look", name="people", what="head"), "0 to 59."]),
    ),
    (  # typed answers, conditions, options that change
        Q("How many orders are open?", [call("look", name="orders.status", what="values"),
          call("final_answer", answer="many"), call("final_answer", answer=800)],
          {"output_type": int}, {"python": "off"}),
        Q("And which share is that?", [call("final_answer", answer=0.2)],
          {"output_type": float, "until": lambda share: 0 <= share <= 1}),
        Q("Now with code: what is the median amount?", [code("float(orders.amount.median())"),
          "It is 20.1."], settings=CODE),
        Q("List the five largest amounts.", [code("top = orders.amount.nlargest(5).tolist()\ntop"),
          call("final_answer", answer=[400.1, 390.2, 350.0, 340.5, 330.9])],
          {"output_type": list[float]}),
        Q("Convert 100 euros to dollars.", [call("convert", amount=100, currency="USD"),
          "110 dollars."], new_tool=convert),
        Q("And to francs?", [call("convert", amount=100, currency="CHF"), "94 francs."]),
    ),
    (  # repeated calls, errors, a tool that comes later
        Q("Load north and look at it.", [call("load_region", region="north"),
          call("look", name="load_region_1", what="head"), "30 orders."], settings={"python": "off"}),
        Q("Again, please.", [*[call("load_region", region="east")] * 3,
          call("load_region", region="south"), "Two regions, 30 orders each."]),
        Q("Plot the amounts of the south.", [call("draw", values="load_region_2.amount"),
          "See above."]),
        Q("What is 100 euros in dollars?", [call("convert", amount=100, currency="XXX"),
          call("convert", amount=100, currency="USD"), "110."], new_tool=convert),
        Q("Compare both regions.", [calls(("look", {"name": "load_region_1"}),
          ("look", {"name": "load_region_2"})), "They are equal."]),
    ),
    (  # plots and wide data with code
        Q("Draw temp_max.", [code("draw(weather.temp_max, 'temp_max')"), "See above."],
          settings=CODE),
        Q("And the wind?", [code("draw(weather.wind, 'wind')"), "See above."]),
        Q("Describe wide.", [code("wide.describe()"), "All means are near 0."]),
        Q("What does text say?", [call("look", name="text"), "It was a dark night."]),
        Q("Which columns of matrix vary most?", [code("matrix.std(axis=0).argsort()[::-1][:5]"),
          "See above."]),
    ),
)  # fmt: skip
ROWS = 12


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────


class RowModel:
    """Answers each row of a map."""

    name = "rows"
    is_scripted = True
    protocol = "native"

    def __init__(self) -> None:
        self.asked: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        """Answer."""
        self.asked.append(ask)
        yield from ()
        return call("final_answer", answer=len(self.asked) % 5)


@dataclass
class Measured:
    """The cost of some requests.

    Attributes:
        parts: Tokens by part.
        sent: Tokens of all requests.
        before: Tokens of the requests that another one follows in their conversation.
        kept: Tokens of these that the one after them begins with.
        cached: Tokens that an endpoint had read before in the conversation.
        requests: How many there were.
    """

    parts: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    before: int = 0
    kept: int = 0
    cached: int = 0
    output: int = 0
    requests: int = 0


def written(ask: AskModel) -> str:
    """A request as bytes that a cache compares: the tools, then the messages."""
    texts = [json.dumps(each, ensure_ascii=False) for each in (*ask.tools, *ask.messages)]
    return "\n".join(_without_images(each) for each in texts)


def _without_images(text: str) -> str:
    head, *rest = text.split("data:image/")
    return head + "".join(f"(image){each.partition(chr(34))[2]}" for each in rest)


def common(one: str, other: str) -> str:
    """The longest common prefix."""
    size = min(len(one), len(other))
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


def parts_of(ask: AskModel, contexts: Sequence[str], count: Callable[[str], int]) -> Counter[str]:
    """The tokens of a request by part."""
    found: Counter[str] = Counter()
    for each in ask.tools:
        found["tools"] += count(json.dumps(each, ensure_ascii=False))
    for message in ask.messages:
        text = _without_images(json.dumps(message, ensure_ascii=False))
        tokens = count(text)
        role = str(message["role"])
        if role == "user":
            content = message["content"]
            plain = content if isinstance(content, str) else content[0]["text"]
            for context in contexts:
                if context and context in plain:
                    tokens_of_it = min(count(context), tokens)
                    found["variables"] += tokens_of_it
                    tokens -= tokens_of_it
                    break
        names = {"system": "system", "user": "questions", "assistant": "replies", "tool": "results"}
        found[names[role]] += tokens
    return found


def add(
    measured: Measured,
    asked: Sequence[AskModel],
    contexts: Sequence[str],
    count: Callable[[str], int],
) -> None:
    """Add the requests of a conversation."""
    texts = [written(each) for each in asked]
    for at, (ask, text) in enumerate(zip(asked, texts, strict=True)):
        measured.requests += 1
        parts = parts_of(ask, contexts, count)
        measured.parts += parts
        sent = count(text)
        measured.sent += sent
        if at:
            measured.before += count(texts[at - 1])
            measured.kept += count(common(texts[at - 1], text))
            longest = max((common(earlier, text) for earlier in texts[:at]), key=len)
            measured.cached += count(longest)


def measure() -> dict[str, Measured]:
    """Ask all questions."""
    count = counter()
    found = {"conversations": Measured(), "map": Measured()}
    for conversation in CONVERSATIONS:
        model = ScriptedModel(protocol="native")
        tools = nb.Toolbox(load_region, outliers, draw)
        agent = nb.Agent(tools, model, namespace=notebook() | {"draw": draw, "pd": pd})
        for question in conversation:
            if question.new_tool is not None:
                tools.add(question.new_tool)
            if question.settings:
                agent._setup = agent._setup.but(**question.settings)
            model._remaining = list(question.replies)
            with contextlib.suppress(nb.ArchytasError):
                agent.run(question.text, **question.asked)
            found["conversations"].output += sum(
                count(
                    each if isinstance(each, str) else json.dumps([c.arguments for c in each.calls])
                )
                for each in question.replies
            )
        contexts = [each.context.text for each in agent.exchanges if each.context is not None]
        add(found["conversations"], model.asked, contexts, count)
    rows = RowModel()
    nb.toolbox.restore(({}, set()))
    for each in (load_region, outliers, draw):
        nb.toolbox.add(each)
    nb.toolbox.add(send_report, approve=True)
    data = pd.DataFrame(
        {"review": [f"Room {n} was loud, and the host was kind." for n in range(ROWS)]}
    )
    agent = nb.Agent(model=rows, namespace=notebook(), allow=["send_report"])
    agent.map(data, "How many stars from 0 to 4 does this review mean? {review}", output_type=int, store=None,
              workers=1, progress=False)  # fmt: skip
    add(found["map"], rows.asked, (), count)
    return found


def report(found: dict[str, Measured]) -> str:
    """The figures as text."""
    lines = []
    for name, each in found.items():
        lines.append(f"{name}: {each.requests} requests, {each.sent:,} tokens of input")
        lines += [f"  {part:10} {tokens:8,}" for part, tokens in each.parts.most_common()]
        share = each.kept / max(each.before, 1)
        lines.append(f"  of a request, {share:.3f} is the beginning of the next one")
        for model, (price, cached, output) in PRICES.items():
            usd = (each.sent - each.cached) * price + each.cached * cached + each.output * output
            lines.append(f"  {usd / 1e6:.5f} USD, {model}")
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure()
    if "--json" in sys.argv:
        print(json.dumps({name: vars(each) for name, each in measured.items()}))
    else:
        print(report(measured))
