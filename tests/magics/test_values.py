"""Values stay here: with ``values="none"`` no value of the user stands in any request.

These are the ways out one by one, and what the user reads; `test_canaries.py` generates
conversations.
"""

from __future__ import annotations

import asyncio
import base64
import enum
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pydantic
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from palmerpenguins import load_penguins, load_penguins_raw
from pydantic_core import PydanticCustomError

from archytas_nb import Agent
from archytas_nb import driver as driver_module
from archytas_nb.errors import ConfigurationError, TaskFailed, ToolError
from archytas_nb.kernel import disclosure
from archytas_nb.kernel.person import NobodyThereError
from archytas_nb.loop.events import CallOutcome
from archytas_nb.models import sent
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import UnknownToolError
from tests.magics.test_canaries import CLOCKS, clocks
from tests.scripted import Scripted
from tests.servers.plays import Say
from tests.servers.server import Server


def bodies(model: ScriptedModel) -> bytes:
    """All that a model was sent."""
    asked = [
        [list(each.messages), list(each.tools), each.grammar, dict(each.provider_metadata)]
        for each in model.asked
    ]
    plain = json.dumps(asked, default=repr)
    return f"{plain}\n{json.dumps(asked, default=repr, ensure_ascii=False)}".encode()


# ── ways out that are not in the generated conversations ─────────────────────────────────────────


CANARY = "Zq918273645"
NUMBER = 918273645


class _Printing:
    """An object that prints and warns when it is compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _: object) -> bool:
        print(CANARY)
        return True


class _Texted(int):
    """A number that is written as a text."""

    def _ai_repr_(self) -> str:
        return CANARY


class _Checked(pydantic.BaseModel):
    """An argument with a check of its author, which quotes data."""

    size: int

    @pydantic.field_validator("size")
    @classmethod
    def _below(cls, _: int) -> int:
        raise ValueError(f"must be below {NUMBER}")


class _Strict(pydantic.BaseModel):
    """An argument without other keys."""

    model_config = pydantic.ConfigDict(extra="forbid")
    size: int


class _First:
    """A person who chooses what comes first."""

    there = True

    def ask(self, *_: Any) -> str:
        return "1"


def _checked(_: str) -> str:
    raise ValueError(f"expected one of {CANARY}")


def _custom(_: str) -> str:
    raise PydanticCustomError("of_mine", "not one of {names}", {"names": CANARY})


def _asserting(_: str) -> str:
    raise AssertionError(CANARY)


def _policy(_: Any, __: Any) -> str:
    raise RuntimeError(CANARY)


def _reason(_: Any, __: Any) -> str:
    return f"not for {CANARY}"


def compare(left: str = "") -> str:
    """Compare two patients."""
    return CANARY


def ask_user(text: str = "") -> str:
    """Ask the register."""
    return CANARY


def nothing(key: str = "") -> int:
    """Do nothing."""
    return 1


def from_list(key: Annotated[str, pydantic.AfterValidator(_checked)]) -> int:
    """Find by a key that is checked."""
    return 1


def from_custom(key: Annotated[str, pydantic.AfterValidator(_custom)]) -> int:
    """Find by a key that is checked."""
    return 1


def from_assert(key: Annotated[str, pydantic.AfterValidator(_asserting)]) -> int:
    """Find by a key that is checked."""
    return 1


def from_model(item: _Checked) -> int:
    """Find by an item that is checked."""
    return 1


def of_frame(df: pd.DataFrame) -> int:
    """Count rows."""
    return len(df)


def text() -> str:
    """Read a number as text."""
    return str(NUMBER)


def _returning(value: Any) -> Callable[[], Any]:
    def result() -> Any:
        """Return something."""
        return value

    return result


def _raising(error: BaseException) -> Callable[[], Any]:
    def fails() -> int:
        """Fail."""
        raise error

    return fails


async def _fails_later() -> int:
    """Fail."""
    raise ToolError(CANARY, [CANARY])


def _naming(namespace: dict[str, Any]) -> Callable[[], None]:
    def names() -> None:
        """Name variables after values."""
        namespace[CANARY] = pd.DataFrame({"a": [1]})
        namespace["table"] = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([(CANARY, 1)]))

    return names


_NAMED: dict[str, Any] = {}
_CODE = "globals()[plan] = 1\nprint(plan)\nraise SystemExit(plan)"
_PROGRAM = "```python\n{}\n```"
_RESULTS = {
    "fields of an array": np.zeros(2, dtype=[(CANARY, int)]),
    "a filled value": pd.Series(pd.arrays.SparseArray([NUMBER, NUMBER, 1], fill_value=NUMBER)),
    "categories": pd.Series([CANARY]).astype("category"),
    "categories of polars": pl.Series("s", [CANARY], dtype=pl.Enum([CANARY])),
    "fields of polars": pl.Series("s", [{CANARY: 1}]),
    "an interval": pd.Series(pd.interval_range(NUMBER, NUMBER + 2)),
    "a class": type(CANARY, (), {})(),
}

Way: TypeAlias = tuple[list[Any], list[Any], dict[str, Any], dict[str, Any]]
"""The tools, the replies, the variables, and arguments of the agent."""

WAYS: dict[str, Way] = {
    "a tool named compare": ([compare], [("compare", {})], {}, {}),
    "a tool named ask_user": ([ask_user], [("ask_user", {})], {}, {"ask_user": False}),
    "a tool named compare, strict": ([compare], [("compare", {})], {}, {"values": "strict"}),
    "an object that is compared": (
        [],
        [("compare", {"left": "it", "op": "==", "right": "1"})],
        {"it": _Printing()},
        {},
    ),
    "a check of an argument": ([from_list], [("from_list", {"key": "x"})], {}, {}),
    "a check with its own error": ([from_custom], [("from_custom", {"key": "x"})], {}, {}),
    "a check that asserts": ([from_assert], [("from_assert", {"key": "x"})], {}, {}),
    "a check of a model": ([from_model], [("from_model", {"item": {"size": 1}})], {}, {}),
    "a policy that raises": ([nothing], [("nothing", {})], {}, {"approve": _policy}),
    "the reason of a policy": ([nothing], [("nothing", {})], {}, {"approve": _reason}),
    "an error of our class": (
        [_raising(ToolError(CANARY, [CANARY]))],
        [("fails", {})],
        {},
        {},
    ),
    "a missing key": ([_raising(KeyError(CANARY))], [("fails", {})], {}, {}),
    "the class of an error": (
        [_raising(type(f"{CANARY}Error", (Exception,), {})())],
        [("fails", {})],
        {},
        {},
    ),
    "an awaited error": ([_fails_later], [("_fails_later", {})], {}, {}),
    "names of variables": ([_naming(_NAMED)], [("names", {})], _NAMED, {}),
    "names that are listed": (
        [_naming(_NAMED), of_frame],
        [("names", {}), ("of_frame", {"df": "nobody"})],
        _NAMED,
        {},
    ),
    "names that are suggested": (
        [_naming(_NAMED)],
        [_PROGRAM.format("names()"), _PROGRAM.format(CANARY[:-1])],
        _NAMED,
        {"protocol": "program"},
    ),
    "code that names": (
        [],
        [("python", {"code": _CODE})],
        {"plan": CANARY},
        {"python": "unwatched"},
    ),
    "numbers that are texts": (
        [text],
        [_PROGRAM.format("x = text()\nprint(x)\nshow(x)\nx")],
        {},
        {"protocol": "program", "values": "scalars"},
    ),
    "a number with a text": (
        [_returning(_Texted(3))],
        [("result", {})],
        {},
        {"values": "scalars"},
    ),
    "arguments of a program": (
        [nothing],
        [_PROGRAM.format("nothing(key=plan)"), _PROGRAM.format("nothing(keys=plan)")],
        {"plan": f"a\n{CANARY}"},
        {"protocol": "program"},
    ),
    **{
        f"{what} of a result": ([_returning(value)], [("result", {})], {}, {})
        for what, value in _RESULTS.items()
    },
    **{f"{what} of a variable": ([], [], {"it": it}, {}) for what, it in _RESULTS.items()},
    "the class of a variable that is named": (
        [of_frame],
        [("of_frame", {"df": "it"})],
        {"it": _RESULTS["a class"]},
        {},
    ),
}


class _Wide(pd.DataFrame):
    """A frame that says of its shape what it likes."""

    @property
    def shape(self) -> Any:
        return CANARY, CANARY


def _class_in_function() -> Any:
    """A class that says that it stands in a function."""
    return type(CANARY, (), {"__qualname__": f"f.<locals>.{CANARY}"})()


def _pivot() -> pd.DataFrame:
    """Make a table whose columns are values."""
    rows = pd.DataFrame({"ward": [CANARY, "b"], "days": [1, NUMBER]})
    return rows.pivot_table(columns="ward", values="days")


def _fails_in_body() -> int:
    """Check something in the body."""
    return _Checked(size=1).size


def _fails_from() -> int:
    """Fail after something else has failed."""
    try:
        raise KeyError(CANARY)
    except KeyError as error:
        raise FileNotFoundError(2, CANARY, f"/nowhere/{CANARY}") from error


def _of_kind(kind: Literal["a", "b"]) -> int:
    """Take a kind."""
    return 1


def _of_size(size: int) -> int:
    """Take a size."""
    return size


def _of_item(item: _Strict) -> int:
    """Take an item."""
    return item.size


_TEXT = _returning(CANARY)
_MADE = enum.StrEnum("Kind", {"A": CANARY})  # type: ignore[misc]


def _program(tools: list[Any], *programs: str, **variables: Any) -> Way:
    return (tools, [_PROGRAM.format(each) for each in programs], variables, _IN_PROGRAMS)


_IN_PROGRAMS = {"protocol": "program"}
WAYS |= {
    "the shape of a frame": ([_returning(_Wide({"a": [1]}))], [("result", {})], {}, {}),
    "the place of a class": ([_class_in_function], [("_class_in_function", {})], {}, {}),
    "a member of an enumeration that was made": (
        [_returning(_MADE.A)],
        [("result", {})],
        {},
        {"values": "scalars"},
    ),
    "columns of a pivot table": ([_pivot], [("_pivot", {})], {}, {}),
    "columns of a pivot table in a program": _program([_pivot], "x = _pivot()\nx['a']\nshow(x)"),
    "the text of a check in a body": ([_fails_in_body], [("_fails_in_body", {})], {}, {}),
    "the name of a file": ([_fails_from], [("_fails_from", {})], {}, {}),
    "the name of a file in a program": _program([_fails_from], "_fails_from()"),
    "a legal value": ([_of_kind], [("_of_kind", {"kind": "{plan}"})], {"plan": CANARY}, {}),
    "a legal value in a program": _program([_of_kind, _TEXT], "_of_kind(kind=result())"),
    "a number that is a text": _program([_of_size, _TEXT], "_of_size(size=result())"),
    "a key of an argument": _program([_of_item, _TEXT], "_of_item(item={result(): 1, 'size': 1})"),
    "keys of a variable": (
        [_of_item],
        [("_of_item", {"item": {"$var": "plan"}})],
        {"plan": {CANARY: 1, "size": "a"}},
        {},
    ),
    "a text of JSON": ([_of_item], [("_of_item", {"item": "{plan}"})], {"plan": CANARY}, {}),
    "the name of an argument": _program([_TEXT], "x = result()\nresult(**{x: 1})"),
    "a missing key in a program": _program([_TEXT], "x = result()\nd = {'a': 1}\nd[x]"),
    "a text that is no number": _program([_TEXT], "int(result())"),
    "a text with percents": _program([_TEXT], "'%d' % result()"),
    "an error that is caught": _program(
        [_TEXT], "try:\n    int(result())\nexcept Exception as error:\n    show(error)"
    ),
    "base64": _program([_TEXT], "import base64\nshow(base64.b64encode(result().encode()))"),
    "digits with separators": _program([], "show(f'{n:,}')\nshow(f'{n:e}')\nshow(n)", n=NUMBER),
    "text of JSON in a program": _program([_TEXT], "import json\njson.loads(result())"),
    "a date": _program([_TEXT], "import datetime\ndatetime.date.fromisoformat(result())"),
    "how a text is parted": _program([_TEXT], "print('a', 'b', sep=result())"),
    "choices of a question": (
        [_TEXT],
        [_PROGRAM.format("x = ask_user(question='Which?', choices=[result(), 'b'])\nshow(x)")],
        {},
        {**_IN_PROGRAMS, "ask_user": True},
    ),
}


def _fault_of_another_tool() -> None:
    """Fail with the fault of an input, of another tool that was called with a value."""
    outcome = Tool.from_function(_of_size).bind({"size": CANARY})
    assert isinstance(outcome, CallOutcome)
    assert outcome.error is not None
    raise outcome.error


_NAMED_ERROR = _raising(type(f"{CANARY}Error", (Exception,), {})())
WAYS |= {
    "nobody can be asked": ([_raising(NobodyThereError(CANARY))], [("fails", {})], {}, {}),
    "an unknown tool": ([_raising(UnknownToolError(CANARY, ()))], [("fails", {})], {}, {}),
    "the fault of another input": (
        [_fault_of_another_tool],
        [("_fault_of_another_tool", {})],
        {},
        {},
    ),
    "the class of an error in a program": _program([_NAMED_ERROR], "fails()"),
    "a number that is a text, in a program": (
        [_returning(f"3{CANARY}")],
        [_PROGRAM.format("x = result()\ny = [x]\nz = {x: 1}\nw = (x, 1)\nshow(x)")],
        {},
        {"protocol": "program", "values": "scalars"},
    ),
}


def _ask(way: Way) -> bytes:
    """All that is sent when two questions are asked."""
    tools, replies, namespace, given = way
    options: dict[str, Any] = {"values": "none", "protocol": "native", "context": "all", **given}
    end = "Done."
    if options["protocol"] == "program":
        end = _PROGRAM.format("answer('Done.')")
    model = ScriptedModel(*replies, end, end, protocol=options["protocol"])
    variables = dict(namespace)
    if namespace is _NAMED:
        _NAMED.clear()
        variables = _NAMED
    agent = Agent(tools, model, namespace=variables, **options)
    with patch.object(driver_module, "Keyboard", _First):
        for question in ("How many?", "And then?"):
            assert agent.run(question).answer == "Done."
    model.check()
    return bodies(model)


SHUT = [
    "an object that is compared",
    "categories of a variable",
    "an interval of a variable",
    "the shape of a frame",
    "a legal value",
    "a text of JSON",
]
"""`compare` and variables as arguments are there only with the setting; of columns, no categories
are described, and a shape is numbers."""
SOUGHT = (CANARY.encode(), str(NUMBER).encode())


@pytest.mark.parametrize("way", WAYS)
def test_no_value_leaves_on_a_way_of_its_own(way: str) -> None:
    body = _ask(WAYS[way])
    assert not any(each in body for each in SOUGHT)


@pytest.mark.parametrize("clock", CLOCKS)
def test_no_value_leaves_with_any_clock(clock: str) -> None:
    found = []
    for way, given in WAYS.items():
        with clocks(clock):
            body = _ask(given)
        found += [way for each in SOUGHT if each in body]
    assert found == []


def test_the_ways_lead_out_without_the_setting() -> None:
    """A way that leads nowhere shows nothing."""
    shut = []
    for name, (tools, replies, namespace, given) in WAYS.items():
        body = _ask((tools, replies, namespace, {**given, "values": "all"}))
        if not any(each in body for each in SOUGHT):
            shut.append(name)
    assert shut == SHUT


_PATIENT = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize("value", [1, np.bool_(True), pd.NaT, _PATIENT], ids=repr)
def test_which_object_was_returned_is_not_told(value: Any) -> None:
    """The name of another variable would tell that it is equal, or which one was chosen."""
    namespace = {"sex": value}
    model = ScriptedModel(("result", {}), "Done.", protocol="native")
    tools = [_returning(value)]
    Agent(tools, model, values="strict", namespace=namespace, protocol="native").run("Do it.")
    assert namespace == {"sex": value, "result_1": value}
    assert "the variable sex" not in bodies(model).decode()


@pytest.mark.parametrize("length", [3, 300])
def test_how_often_a_program_shows_or_calls_is_not_told(length: int) -> None:
    """The number of repetitions, or the length of a text, would be a value."""
    program = "x = plan\nfor each in plan:\n    nothing()\n    show(1)\n    print(1)"
    model = ScriptedModel(
        _PROGRAM.format(program), _PROGRAM.format(f"{program}\n1 / 0"), "```python\nanswer(1)\n```",
        protocol="program",
    )  # fmt: skip
    namespace = {"plan": "a" * length}
    agent = Agent([nothing], model, values="none", namespace=namespace, protocol="program")
    agent.run("How many?")
    reports = [request.messages[-1]["content"] for request in model.asked[1:]]
    assert [each.count("nothing(…)") for each in reports] == [1, 1]
    assert [each.count("shown: ") for each in reports] == [1, 1]
    assert "x = (a text, which is not shown to you)" in reports[1]


def test_columns_that_the_model_named_itself_are_told() -> None:
    code = "df['body mass'] = 1\ndf[plan] = 2"
    model = ScriptedModel(("python", {"code": code}), "Done.", "Done.", protocol="native")
    namespace = {"df": pd.DataFrame({"a": [1]}), "plan": CANARY}
    agent = Agent(
        [], model, values="none", namespace=namespace, protocol="native", python="unwatched",
        context="all",
    )  # fmt: skip
    agent.run("Add it.")
    agent.run("And now?")
    body = bodies(model).decode()
    assert ", body mass, column_3" in body
    assert CANARY not in body


def test_a_field_is_not_filled_to_any_width() -> None:
    model = ScriptedModel("It is {count:>999999999}.", protocol="native")
    agent = Agent([], model, values="none", namespace={"count": 5}, protocol="native")
    assert agent.run("How many?").answer == "It is 5."


def test_what_is_wrong_with_a_name_is_still_told() -> None:
    model = ScriptedModel(
        ("of_frame", {"df": "patient"}), ("of_frame", {"rows": 1}), "Done.", protocol="native"
    )
    namespace = {"patients": pd.DataFrame({"a": [1]})}
    Agent([of_frame], model, values="none", namespace=namespace, protocol="native").run("How?")
    body = bodies(model).decode()
    assert "did you mean 'patients'" in body
    assert "unknown argument 'rows'" in body


# ── the answer, and what is refused ───────────────────────────────────────────────────────────────


def count_rows() -> int:
    """Count the rows."""
    return 4711


@pytest.mark.parametrize("protocol", ["native", "react"])
def test_the_user_reads_the_values_and_the_model_its_template(protocol: Any) -> None:
    namespace: dict[str, Any] = {}
    template = "There are {count_rows_1:,} rows, not {braces here}."
    model = ScriptedModel(
        ("count_rows", {}), ("final_answer", template), ("final_answer", "Yes."), protocol=protocol
    )
    agent = Agent([count_rows], model, values="none", namespace=namespace, protocol=protocol)
    run = agent.run("How many rows?")
    assert run.answer == "There are 4,711 rows, not {braces here}."
    assert namespace == {"count_rows_1": 4711}
    agent.run("Sure?")
    assert template in bodies(model).decode()


def test_a_name_that_is_no_variable_is_named_again() -> None:
    model = ScriptedModel(
        ("count_rows", {}), "There are {rows}.", "There are {count_rows_1}.", protocol="native"
    )
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    assert agent.run("How many rows?").answer == "There are 4711."
    assert "no variable is named 'rows'" in bodies(model).decode()


def test_scalars_may_be_told_and_texts_not() -> None:
    def name() -> str:
        """Name it."""
        return CANARY

    model = ScriptedModel(
        ("count_rows", {}), ("name", {}), "It is {name_1}, 4711.", protocol="native"
    )
    agent = Agent([count_rows, name], model, values="scalars", namespace={}, protocol="native")
    assert agent.run("Which?").answer == f"It is {CANARY}, 4711."
    body = bodies(model)
    assert b"4711" in body
    assert CANARY.encode() not in body


def test_a_comparison_tells_true_or_false_and_is_counted() -> None:
    model = ScriptedModel(
        ("count_rows", {}),
        ("compare", {"left": "count_rows_1", "op": ">", "right": "25"}),
        "More than 25.",
        protocol="native",
    )
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    run = agent.run("More than 25?")
    assert run.steps[1].calls[0][1].text == "true"
    names = [
        each.name for each in Agent([count_rows], values="strict", namespace={}).tools.values()
    ]
    assert "compare" not in names


def test_what_the_user_is_asked_may_be_told() -> None:
    model = ScriptedModel(("ask_user", {"question": "Which year?"}), "In 2024.", protocol="native")
    agent = Agent([], model, values="none", namespace={}, protocol="native", ask_user=True)
    with patch.object(driver_module, "Keyboard", lambda: Scripted("2024")):
        agent.run("When?")
    assert b"2024" in bodies(model)


def test_pictures_typed_answers_and_maps_are_refused_with_the_reason() -> None:
    model = ScriptedModel("Done.", protocol="native")
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    picture = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    for options in ({"images": picture}, {"output_type": int}):
        with pytest.raises(ConfigurationError, match="values is 'none'"):
            agent.run("What is it?", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="values is 'none'"):
        agent.map(["a"], "What is {}?")
    assert model.asked == []


def test_a_lookup_in_a_question_is_refused(shell: InteractiveShell) -> None:
    shell.user_ns["plan"] = "Zq77"
    shell.user_ns["model"] = ScriptedModel("```python\nanswer('Done.')\n```")
    with pytest.raises(UsageError, match="without braces"):
        shell.run_line_magic("agent", "--values none --model model What is {plan}?")
    assert shell.user_ns["model"].asked == []
    shell.run_line_magic("agent", "--values none --raw --model model What is {plan}?")
    assert len(shell.user_ns["model"].asked) == 1


# ── the questions of the notebooks ────────────────────────────────────────────────────────────────


Species: TypeAlias = Literal["Adelie", "Chinstrap", "Gentoo"]


def _quickstart() -> list[Callable[..., Any]]:
    penguins = load_penguins()

    def count_penguins(species: Species) -> int:
        """Count the penguins of one species."""
        return int((penguins["species"] == species).sum())

    def average(measure: Literal["bill_length_mm"], species: Species) -> float:
        """Average one measurement over the penguins of one species."""
        return round(float(penguins.loc[penguins["species"] == species, measure].mean()), 1)

    def islands_of(species: Species) -> list[str]:
        """Find the islands on which a species lives."""
        return sorted(penguins.loc[penguins["species"] == species, "island"].unique())

    return [count_penguins, average, islands_of]


def _bill(species: str) -> tuple[str, dict[str, str]]:
    return ("average", {"measure": "bill_length_mm", "species": species})


_BILLS = """\
names = ["Adelie", "Chinstrap"]
bills = {name: average(measure="bill_length_mm", species=name) for name in names}
first, second = sorted(names, key=lambda name: -bills[name])
answer(f"{first} ({bills[first]} mm), not {second} ({bills[second]} mm).")"""
_QUICKSTART: dict[str, list[Any]] = {
    "native": [
        ("count_penguins", {"species": "Gentoo"}),
        "There are {count_penguins_1} Gentoo penguins.",
        ("islands_of", {"species": "Gentoo"}),
        "They live on {islands_of_1}.",
        _bill("Adelie"),
        _bill("Chinstrap"),
        ("compare", {"left": "average_2", "op": ">", "right": "average_1"}),
        "Chinstrap ({average_2} mm), not Adelie ({average_1} mm).",
    ],
    "program": [
        _PROGRAM.format(
            "n = count_penguins(species='Gentoo')\nanswer(f'There are {n} Gentoo penguins.')"
        ),
        _PROGRAM.format("answer(f\"They live on {islands_of(species='Gentoo')}.\")"),
        _PROGRAM.format(_BILLS),
    ],
}


@pytest.mark.parametrize("protocol", _QUICKSTART)
def test_the_quickstart_is_answered_without_a_value(protocol: Any) -> None:
    model = ScriptedModel(*_QUICKSTART[protocol], protocol=protocol)
    agent = Agent(_quickstart(), model, values="none", namespace={}, protocol=protocol)
    count = agent.run("Count the Gentoo penguins.")
    islands = agent.run("And on which islands do they live?")
    bills = agent.run("Which species has the longer bill on average, Adelie or Chinstrap?")
    model.check()
    assert count.answer == "There are 124 Gentoo penguins."
    assert "Biscoe" in islands.answer
    assert bills.answer == "Chinstrap (48.8 mm), not Adelie (38.8 mm)."
    body = bodies(model)
    assert not any(each in body for each in (b"124", b"Biscoe", b"48.8", b"38.8"))


_CLEANING = [
    """\
penguins.columns = penguins.columns.str.replace(r" [(].*[)]", "", regex=True).str.lower()
constant = [name for name in penguins if penguins[name].nunique(dropna=False) == 1]
gone = penguins[constant].iloc[0]
penguins = penguins.drop(columns=constant)
gone""",
    """\
penguins["date egg"] = pd.to_datetime(penguins["date egg"])
penguins["species"] = penguins["species"].str.split().str[0].astype("category")
print(penguins["species"])
penguins["species"]""",
    "penguins = penguins.dropna()\nprint(penguins)\nlen(penguins)",
]
_SAID = ["Gone: {python_1}.", "Now: {python_2}.", "{python_3} rows are left."]


def test_the_questions_about_ones_own_data_are_answered_without_a_value() -> None:
    calls = [("python", {"code": code}) for code in _CLEANING]
    replies = [each for pair in zip(calls, _SAID, strict=True) for each in pair]
    model = ScriptedModel(*replies, protocol="native")
    namespace = {"penguins": load_penguins_raw(), "pd": pd}
    agent = Agent(
        [],
        model,
        values="none",
        namespace=namespace,
        protocol="native",
        python="undoable",
        context="all",
    )
    names = agent.run("Give penguins short column names and drop those that say nothing.")
    types = agent.run("Give the columns the types that they should have.")
    rows = agent.run("Remove the penguins whose measurements are missing.")
    model.check()
    assert "Anvers" in names.answer
    assert "Adelie" in types.answer
    assert rows.answer == "34 rows are left."
    body = bodies(model)
    for value in (b"Anvers", b"Adelie", b"Torgersen", b"N1A1", b"PAL0708", b"2007-11"):
        assert value not in body


# ── tools that reach their run ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", ["native", "react", "program"])
@pytest.mark.parametrize("ends", ["finish", "fail"])
def test_how_a_tool_ends_the_run_is_not_told_with_the_next_question(
    ends: str, protocol: Any
) -> None:
    def close(run: CurrentRun) -> None:
        """End the run."""
        getattr(run, ends)(CANARY)

    model = ScriptedModel(("close", {}), ("final_answer", "Done."), protocol=protocol)
    agent = Agent([close], model, values="none", namespace={}, protocol=protocol)
    if ends == "finish":
        assert agent.run("Which?").answer == CANARY
    else:
        with pytest.raises(TaskFailed, match=CANARY):
            agent.run("Which?")
    assert agent.run("And now?").answer == "Done."
    assert CANARY.encode() not in bodies(model)


def test_a_rejected_answer_of_a_tool_is_not_told() -> None:
    def close(run: CurrentRun) -> None:
        """End the run."""
        run.finish(CANARY)

    program = _PROGRAM.format("close()")
    model = ScriptedModel(program, _PROGRAM.format("answer(3)"), protocol="program")
    agent = Agent([close], model, values="none", namespace={}, protocol="program")
    assert agent.run("How many?", output_type=int).value == 3
    assert CANARY.encode() not in bodies(model)


def test_an_agent_that_is_a_tool_is_not_asked_with_values() -> None:
    other = ScriptedModel("Yes.", protocol="native")
    tool = Agent([], other, namespace={}).as_tool("register", "Answers questions.")
    model = ScriptedModel(("register", {"question": "{plan}"}), "Done.", protocol="native")
    agent = Agent([tool], model, values="none", namespace={"plan": CANARY}, protocol="native")
    assert agent.run("Which?").answer == "Done."
    assert other.asked == []
    assert CANARY.encode() not in bodies(model)


def test_the_answer_of_an_agent_whose_values_stay_is_not_told_to_another() -> None:
    other = ScriptedModel("It is {plan}.", protocol="native")
    register = Agent([], other, values="none", namespace={"plan": CANARY}, protocol="native")
    model = ScriptedModel(("register", {"question": "Which?"}), "Done.", protocol="native")
    tool = register.as_tool("register", "Answers questions.")
    assert Agent([tool], model, namespace={}, protocol="native").run("Which?").answer == "Done."
    assert other.asked == []
    assert CANARY.encode() not in bodies(model)


def test_a_tool_does_not_ask_a_model_by_itself() -> None:
    other = ScriptedModel("Yes.", protocol="native")
    asked: list[str] = []

    def close() -> None:
        """Ask another agent, a map, and tell this one."""
        another = Agent([], other, namespace={}, protocol="native")
        ways: list[Callable[[], object]] = [
            lambda: another.run(CANARY),
            lambda: another.map([CANARY], "What is {}?", store=None),
            lambda: agent.tell(CANARY),
        ]
        for ask in ways:
            with pytest.raises((ConfigurationError, RuntimeError), match="stay here"):
                ask()
            asked.append(CANARY)

    model = ScriptedModel(("close", {}), "Done.", protocol="native")
    agent = Agent([close], model, values="none", namespace={}, protocol="native")
    assert agent.run("Which?").answer == "Done."
    assert len(asked) == 3
    assert other.asked == []
    assert CANARY.encode() not in bodies(model)


def _in_thread(ask: Callable[[], None]) -> None:
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()


def _in_thread_of_thread(ask: Callable[[], None]) -> None:
    _in_thread(lambda: _in_thread(ask))


def _in_timer(ask: Callable[[], None]) -> None:
    timer = threading.Timer(0, ask)
    timer.start()
    timer.join()


def _in_new_pool(ask: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask).result()


def _in_task(ask: Callable[[], None]) -> None:
    asyncio.run(asyncio.to_thread(ask))


_POOL = ThreadPoolExecutor(1)


def _in_pool_from_before(ask: Callable[[], None]) -> None:
    _POOL.submit(ask).result()


@pytest.mark.parametrize("values", ["none", "all"])
@pytest.mark.parametrize(
    "way",
    [
        _in_thread, _in_thread_of_thread, _in_timer, _in_new_pool, _in_task, _in_pool_from_before,
    ],
)  # fmt: skip
def test_a_tool_does_not_ask_a_model_in_a_thread(
    way: Callable[[Callable[[], None]], None], values: Any
) -> None:
    other = ScriptedModel("Yes.", "Yes.", protocol="native")
    refused: list[str] = []

    def ask() -> None:
        try:
            Agent([], other, namespace={}, protocol="native").run(CANARY, progress=False)
        except ConfigurationError as error:
            refused.append(str(error))

    def begin() -> None:
        """Begin."""
        way(ask)

    model = ScriptedModel(("begin", {}), "Done.", protocol="native")
    agent = Agent([begin], model, values=values, namespace={}, protocol="native")
    assert agent.run("Which?").answer == "Done."
    asked = [len(other.asked), len(refused)]
    assert asked == ([0, 1] if values == "none" else [1, 0])
    # The thread of the executor works for others as well.
    if way is _in_pool_from_before:
        way(ask)
        assert len(other.asked) == asked[0] + 1


def test_a_thread_that_outlives_its_call_does_not_ask_a_model() -> None:
    other = ScriptedModel("Yes.", protocol="native")
    errors: list[BaseException] = []
    has_ended = threading.Event()

    def ask() -> None:
        has_ended.wait(30)
        try:
            Agent([], other, namespace={}, protocol="native").run(CANARY, progress=False)
        except ConfigurationError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)

    def begin() -> None:
        """Begin."""
        thread.start()

    model = ScriptedModel(("begin", {}), "Done.", protocol="native")
    Agent([begin], model, values="none", namespace={}, protocol="native").run("Which?")
    has_ended.set()
    thread.join()
    assert len(errors) == 1
    assert other.asked == []


def test_a_reason_to_give_up_is_filled_for_the_user() -> None:
    model = ScriptedModel(("fail_task", "{plan} is missing."), "Done.", protocol="native")
    agent = Agent([], model, values="none", namespace={"plan": CANARY}, protocol="native")
    with pytest.raises(TaskFailed, match=f"{CANARY} is missing"):
        agent.run("Which?")
    agent.run("And now?")
    assert "{plan} is missing." in bodies(model).decode()
    assert CANARY.encode() not in bodies(model)


# ── a conversation in a file, and programs that call tools ────────────────────────────────────────


@pytest.mark.parametrize("protocol", ["native", "program"])
def test_a_conversation_from_a_file_holds_no_value_for_the_model(
    protocol: Any, tmp_path: Path
) -> None:
    replies: dict[str, list[Any]] = {
        "native": [("text", {}), "It is {text_1}.", "Done."],
        "program": [
            _PROGRAM.format("x = text()\nanswer(f'It is {x}.')"),
            _PROGRAM.format("answer('Done.')"),
        ],
    }
    model = ScriptedModel(*replies[protocol], protocol=protocol)
    namespace: dict[str, Any] = {}
    agent = Agent([text], model, values="none", namespace=namespace, protocol=protocol)
    assert agent.run("Which?").answer == f"It is {NUMBER}."
    file = tmp_path / "conversation.json"
    agent.save(file)
    other = Agent([text], model, values="none", namespace=namespace, protocol=protocol)
    other.load(file)
    assert other.run("And now?").answer == "Done."
    model.check()
    assert b"Which?" in json.dumps(list(model.asked[-1].messages)).encode()
    assert str(NUMBER).encode() not in bodies(model)


# ── what was sent ─────────────────────────────────────────────────────────────────────────────────


def test_the_list_of_what_was_sent_equals_what_arrived(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, also of requests that failed and were sent again."""
    reply = Say(calls=(("count_rows", {}),))
    with Server(reply, Say("There are {count_rows_1}.")) as server:
        monkeypatch.setattr(sent, "requests", sent.Requests())
        monkeypatch.setenv("ARCHYTAS_NB_BASE_URL", server.url)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "k")
        agent = Agent([count_rows], "tiny-1", values="none", namespace={}, protocol="native")
        run = agent.run("How many rows?")
        assert run.answer == "There are 4711."
        arrived = [each.raw for each in server.asked]
        assert [each.body for each in sent.requests] == arrived
        assert not any(b"4711" in body for body in arrived)
        purposes = {each.purpose.values for each in sent.requests if each.purpose is not None}
        assert purposes == {"none"}
        shell.run_line_magic("load_ext", "archytas_nb")
        table = str(shell.run_line_magic("agent_history", "--sent"))
        assert "How many rows?" in table
        number = len(sent.requests)
        shown = str(shell.run_line_magic("agent_history", f"--sent {number}"))
        assert json.loads(shown) == json.loads(arrived[-1])


def _fails() -> int:
    """Fail."""
    raise ValueError(CANARY)


def _prints() -> int:
    """Print."""
    print(CANARY)
    return NUMBER


_SIZES = "names, types and sizes"
_CARDS = ("counts of values", "ranges and frequent values")
_TYPES = "types of errors"


@pytest.mark.parametrize(
    ("values", "kinds", "learned"),
    [
        (
            "all",
            [
                (_SIZES, *_CARDS),
                (_SIZES, *_CARDS, "results", "prints"),
                (_SIZES, *_CARDS, "results", "prints", "errors"),
            ],
            {},
        ),
        (
            "none",
            [(_SIZES,), (_SIZES, "types of results"), (_SIZES, "types of results", _TYPES)],
            {},
        ),
        (
            "scalars",
            [(_SIZES,), (_SIZES, "types of results"), (_SIZES, "types of results", _TYPES)],
            {"numbers and booleans": 1},
        ),
    ],
)
def test_the_list_says_which_kinds_of_data_and_which_columns_were_sent(
    values: Any,
    kinds: list[tuple[str, ...]],
    learned: dict[str, int],
    shell: InteractiveShell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = {"stays": pd.DataFrame({"ward": ["b"], "days": [1]}), "plan": CANARY}
    replies = Say(calls=(("_prints", {}),)), Say(calls=(("_fails", {}),)), Say("Done.")
    monkeypatch.setattr(disclosure, "names_made_in_runs", set())  # of other tests
    monkeypatch.setattr(sent, "requests", sent.Requests())
    with Server(*replies) as server:
        monkeypatch.setenv("ARCHYTAS_NB_BASE_URL", server.url)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "k")
        agent = Agent(
            [_prints, _fails], "tiny-1", values=values, namespace=namespace, protocol="native",
            context="all",
        )  # fmt: skip
        agent.run("How many are in stays?", progress=False)
        asked = [each.purpose for each in sent.requests if each.purpose is not None]
        assert [each.kinds for each in asked] == kinds
        assert {each.columns for each in asked} == {("stays.ward", "stays.days")}
        assert dict(asked[-1].learned) == learned
        shell.run_line_magic("load_ext", "archytas_nb")
        table = " ".join(str(shell.run_line_magic("agent_history", "--sent")).split())
        assert "columns named: stays.ward, stays.days" in table
        assert f"data: {', '.join(kinds[-1])}" in table


def test_a_column_that_was_made_from_a_value_is_listed_by_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace: dict[str, Any] = {}

    def makes() -> None:
        """Make a table."""
        namespace["table"] = pd.DataFrame({CANARY: [1]})

    replies = Say(calls=(("makes", {}),)), Say("Done."), Say("Done.")
    monkeypatch.setattr(sent, "requests", sent.Requests())
    with Server(*replies) as server:
        monkeypatch.setenv("ARCHYTAS_NB_BASE_URL", server.url)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "k")
        options: dict[str, Any] = {"values": "none", "protocol": "native", "context": "all"}
        agent = Agent([makes], "tiny-1", namespace=namespace, **options)
        agent.run("Make it.", progress=False)
        agent.run("What is in table?", progress=False)
        last = sent.requests[-1]
        assert last.purpose is not None
        assert last.purpose.columns == ("table.column_1",)
        assert last.body is not None
        assert CANARY.encode() not in last.body
