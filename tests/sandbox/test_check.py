"""Programs are checked whole before anything runs, in words that say the fault and the next move."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, Literal, NamedTuple, TypedDict

import pandas as pd
import pytest
from pydantic_monty import Monty, MontyComplete, MontyError, MontyTypingError

from archytas_nb.loop.events import Fault
from archytas_nb.sandbox.check import MODULES
from archytas_nb.sandbox.diagnostics import FORMAT, faults_of
from archytas_nb.sandbox.prepared import fed_text
from archytas_nb.tools.declaration import python_name, stubs
from archytas_nb.tools.tool import Tool
from tests.sandbox.direct import pool

__all__ = ["pool"]


@dataclasses.dataclass
class Order:
    id: int
    name: str
    parts: list[Order]


class Row(TypedDict):
    price: float


class Point(NamedTuple):
    x: int
    y: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def average(measure: Literal["bill", "body"], species: str = "all") -> float:
    """The average."""
    return 1.0


def find(id: int, when: dt.date | None = None, color: Color = Color.RED) -> Order:
    """Find an order."""
    return Order(id, "x", [])


def ship(order: Order, tags: list[Literal["a", "b"]]) -> None:
    """Ship an order."""


def row() -> Row:
    """A row."""
    return {"price": 1.0}


def point() -> Point | None:
    """A point."""
    return None


def names() -> list[str]:
    """Names."""
    return ["bill"]


def frame(df: pd.DataFrame, limits: dict[str, float]) -> pd.DataFrame:
    """A frame."""
    return df


TOOLS = {
    python_name(each): each
    for each in map(Tool.from_function, (average, find, ship, row, point, names, frame))
}


def found(pool: Monty, text: str, *, is_part: bool = True) -> list[Fault]:
    """The faults of a program, as a session finds them."""
    _, faults = fed_text(text, TOOLS, is_part=is_part)
    if faults:
        return list(faults)
    stub = stubs(TOOLS.values(), ["df"])
    with pool.checkout(type_check=True, type_check_stubs=stub, type_check_format=FORMAT) as session:
        try:
            session.feed_start(text)
        except MontyTypingError as error:
            return list(faults_of(error, text, TOOLS, ["df"]))
        except MontyError:
            return []
    return []


CASES = [
    # what the program says                               the line, and what its fault must name
    ("x = 1\navrage(measure='body')", 2, ["avrage", "average"]),
    ("average(mesure='body')", 1, ["mesure", "measure"]),
    ("average()", 1, ["measure"]),
    ("find(1).parts.append(find(2))", 1, ["copy", "list("]),
    ("o = find(1)\nfor each in o.parts:\n    each.parts.sort()", 3, ["copy"]),
    ("o = find(1)\no.parts[0] = o", 2, ["copy"]),
    ("_sandbox_max = 1", 1, ["_sandbox_max"]),
    ("average('body', 'x', 3)", 1, ["average", "measure", "species"]),
    ("average('body', measure='bill')", 1, ["measure", "twice"]),
    ("average(measure='bdy')", 1, ["measure", "'bill'", "'body'", "did you mean 'body'"]),
    ("m = 'bdy'\naverage(m)", 2, ["measure", "'bill'", "did you mean 'body'"]),
    ("for m in ['body', 'zzz']:\n    average(m)", 2, ["measure", "'bill'"]),
    ("é = 'é'; average('bdy')", 1, ["did you mean 'body'"]),
    ("find(id='first')", 1, ["id", "integer"]),
    ("find(None)", 1, ["id", "int"]),
    ("find(1, when=5)", 1, ["when", "date"]),
    ("find(1, color='green')", 1, ["color", "'red'", "'blue'"]),
    ("ship(find(1), 5)", 1, ["tags", "array"]),
    ("ship(7, [])", 1, ["order"]),
    ("frame(df, [1, 2, 3].count(1) == 2)", 1, ["limits"]),
    ("find(1).nme", 1, ["Order", "nme", "'name'"]),
    ("find(1)['id']", 1, ["Order", ".id"]),
    ("find(1).id = 5", 1, ["id"]),
    ("find(1).parts[0].zzz", 1, ["zzz", "'id'"]),
    ("row().price", 1, ["Row", "['price']"]),
    ("frame(df, {}).w", 1, ["DataFrame", ".shape"]),
    ("frame(df, {})['a']", 1, ["DataFrame"]),
    ("[1, 2].push(3)", 1, ["list", "push"]),
    ("'a'.uper()", 1, ["str", "uper", "'upper'"]),
    ("import math\nmath.sqroot(4)", 2, ["math", "sqroot", "'sqrt'"]),
    ("from math import sqroot", 1, ["sqroot", "'sqrt'"]),
    ("import numpy as np", 1, ["'numpy'", "math"]),
    ("from pandas.io import sql", 1, ["'pandas.io'"]),
    ("from math import *", 1, ["*"]),
    ("total + 1", 1, ["'total'"]),
    ("print(y)\ny = 1", 1, ["'y'", "before"]),
    ("average", 1, ["'average'", "call it"]),
    ("x = f'{average} mm'", 1, ["'average'", "call it"]),
    ("answer(average)", 1, ["'average'", "call it"]),
    ("average = 3", 1, ["'average'"]),
    ("def average(x):\n    return x", 1, ["'average'"]),
    ("for find in [1]:\n    pass", 1, ["'find'"]),
    ("import average", 1, ["'average'"]),
    ("ship(lambda: 1, [])", 1, ["ship"]),
    ("def f():\n    yield 1", 2, ["yield", "list"]),
    ("class A(Exception):\n    pass", 1, ["inherit"]),
    ("class A:\n    @property\n    def x(self):\n        return 1", 1, ["decorators"]),
    ("x = [1, 2]\ndel x[0], x[1]", 2, ["delete"]),
    ("x = (1\ny = 2", 1, ["not valid Python"]),
    ("open('file')", 1, ["'open'"]),
    ("eval('1 + 1')", 1, ["'eval'", "in the program"]),
    ("run = exec\nrun('price = 3')", 1, ["'exec'", "in the program"]),
    ("answer(1, 2)", 1, ["answer"]),
    ("answer(text='x')", 1, ["answer"]),
    ("def f(a):\n    return a\nf()", 3, ["f", "'a'"]),
    ("return 5", 1, ["return"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), CASES)
def test_a_certain_fault_is_found_before_anything_runs(
    pool: Monty, text: str, line: int, words: list[str]
) -> None:
    faults = found(pool, text)
    assert faults
    [first, *_] = [each for each in faults if each.line == line]
    assert first.source == text.split("\n")[line - 1].strip()
    assert not [word for word in words if word not in first.text], first.text
    assert "`" not in first.text
    assert "Unknown" not in first.text


@pytest.mark.parametrize(
    "text",
    [
        "for each in names():\n    average(each)",
        "names().append('x')",
        "parts = list(find(1).parts)\nparts.append(find(2))",
        "find(1).parts.copy() + find(2).parts.copy()",
        "average(*['body', 'x'])",
        "average(**{'measure': 'body'})",
        "average(names()[0])",
        "find(1, '2024-01-31')",
        "find(1.0)",
        "find('5')",
        "find(1, None)",
        "find(1, color='RED')",
        "ship({'id': 1, 'name': 'x', 'parts': []}, ['a'])",
        "tags = ['a']\nship(find(1), tags)",
        "ship(find(1), {'a', 'b'})",
        "ship(find(1), (each for each in ['a']))",
        "frame(df, {'a': 1})",
        "frame(df, dict([('a', 1)]))",
        "frame(df.anything, {})",
        "point().x",
        "x, y = point()",
        "d = {'a': 1}\nmax(d, key=d.get)",
        "sorted([1], key=lambda average: -average)",
        "def f(dir):\n    return dir\nf(1)",
        "sorted([1, 'a'])",
        "x = 1\nx = 'a'\nx + 1",
        "x: int = 'a'",
        "sum([average('body'), None])",
        "list(map(average, ['body']))",
        "sorted(['bill', 'body'], key=average)",
        "getattr(find(1), 'id')",
        "if average('body') > 1:\n    z = 1\nz",
        "show(*[find(1).name])",
        "def half(x):\n    return x / 2\nhalf(average('body'))",
        "[average(each) for each in ('bill', 'body')]",
        "try:\n    find(1)\nexcept Exception as error:\n    show(str(error))",
        "del names()[0]",
        "round(average('body'), 1)",
        "match row():\n    case {'price': price}:\n        show(price)",
    ],
)
def test_what_is_not_certain_does_not_stop_a_program(pool: Monty, text: str) -> None:
    assert found(pool, text) == []


@pytest.mark.parametrize(
    ("text", "is_without"),
    [
        ("x = average('body')", True),
        ("if average('body'):\n    x = 1", True),
        ("", True),
        ("average('body')", False),
        ("x = 1\nx", False),
        ("if True:\n    answer('x')", False),
        ("show(1)\nx = 1", False),
        ("print(1)\nx = 1", False),
        ("x = give_up('no')", False),
    ],
)
def test_a_program_that_gives_nothing_back_is_a_fault_unless_it_is_a_part(
    text: str, is_without: bool
) -> None:
    assert bool(fed_text(text, TOOLS)[1]) == is_without
    assert fed_text(text, TOOLS, is_part=True)[1] == ()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_sandbox_has_the_modules_that_can_be_imported(pool: Monty, module: str) -> None:
    with pool.checkout() as session:
        assert isinstance(session.feed_start(f"import {module}\n1"), MontyComplete)


@pytest.mark.parametrize(
    "text", ["x = 1\r\nshow(x)", "x = 'a\x0cb'\nshow(x)", "\ufeffshow(1)", "é=1\nshow(é)"]
)
def test_unusual_line_ends_and_characters_are_no_fault(text: str) -> None:
    assert fed_text(text, TOOLS)[1] == ()


@pytest.mark.parametrize(
    "text", ["(" * 5000, "\0", "x = '" + "\ud800" + "'\nshow(x)", "-" * 100_000 + "1"]
)
def test_no_text_makes_the_check_fail(text: str) -> None:
    fed, faults = fed_text(text, TOOLS)
    assert faults or fed


def test_what_a_module_lacks_only_here_is_not_suggested(pool: Monty) -> None:
    [fault] = found(pool, "import asyncio\nawait asyncio.wait_for(names(), 1)")
    assert fault.text == "the module asyncio has no 'wait_for' here"


def test_what_the_text_of_a_tool_says_is_quoted_only(pool: Monty) -> None:
    def odd(value: Literal["`x`", "error[a] b\nmain.py:1:1: error[c] d"]) -> Any:
        """Odd."""

    tool = Tool.from_function(odd)
    with pool.checkout(
        type_check=True, type_check_stubs=stubs([tool]), type_check_format=FORMAT
    ) as session:
        with pytest.raises(MontyTypingError) as raised:
            session.feed_start("odd('y')")
        faults = faults_of(raised.value, "odd('y')", {"odd": tool}, [])
    assert {each.line for each in faults} == {1}
