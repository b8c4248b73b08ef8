"""Statements that raise nothing and do not do as meant: each cure has an example that needs it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pytest

from archytas_nb.copies.silent import cure_before, never_equal
from archytas_nb.copies.unfolded import unfolded


def ships() -> dict[str, Any]:
    """The variables of a notebook."""
    return {
        "pd": pd,
        "fleet": pd.DataFrame(
            {
                "Ship Name": ["Ida", "Uwe", "Ole", "Ada"],
                "depth": [2.0, None, 4.0, 6.0],
                "port": ["Kiel", "Husum", "Kiel", "Bad Ems"],
                "cargo": ["1.000,50 €", "2.000 €", "900,00 €", None],
                "number": ["0001", "0012", "0003", "0100"],
                "docked": ["24.01.2024", "17.02.2024", "03.02.2024", "02.12.2023"],
                "built": ["1998-03-01", "2001-12-24", "1987-05-05", "1999-01-01"],
            }
        ),
    }


@dataclass(frozen=True)
class Example:
    """A statement, and what a variable is after its cure and not after the statement."""

    name: str
    statement: str
    value: Callable[[dict[str, Any]], Any]
    expected: Any


FOUND: Callable[[dict[str, Any]], Any] = lambda it: it["found"]  # noqa: E731
DEPTHS: Callable[[dict[str, Any]], Any] = lambda it: it["fleet"]["depth"].fillna(-1).tolist()  # noqa: E731
PORTS: Callable[[dict[str, Any]], Any] = lambda it: it["fleet"]["port"].tolist()  # noqa: E731

EXAMPLES = [
    Example("selection in place", "fleet['depth'].fillna(0, inplace=True)", DEPTHS, [2, 0, 4, 6]),
    Example(
        "assigned in place", "fleet = fleet.drop(columns='port', inplace=True)",
        lambda it: it["fleet"].shape, (4, 6),
    ),
    Example("mask, then column", "fleet[fleet['depth'] > 3]['depth'] = 3", DEPTHS, [2, -1, 3, 3]),
    Example("column, then mask", "fleet['depth'][fleet['depth'] > 3] = 3", DEPTHS, [2, -1, 3, 3]),
    Example("attribute, then mask", "fleet.depth[fleet.depth > 3] = 3", DEPTHS, [2, -1, 3, 3]),
    Example("column, then label", "fleet['depth'].loc[0] = 9", DEPTHS, [9, -1, 4, 6]),
    Example("column, then position", "fleet['depth'].iloc[-1] = 9", DEPTHS, [2, -1, 4, 9]),
    Example("rows, then column", "fleet.loc[fleet['depth'] > 3]['depth'] = 3", DEPTHS, [2, -1, 3, 3]),
    Example(
        "rows, then a part", "fleet[fleet['port'] == 'Kiel'].loc[:, 'depth'] = 1", DEPTHS, [1, -1, 1, 6]
    ),
    Example("added", "fleet[fleet['port'] == 'Kiel']['depth'] += 1", DEPTHS, [3, -1, 5, 6]),
    Example("same column", "fleet['Port'] = fleet['port'].str.upper()", PORTS, ["KIEL", "HUSUM", "KIEL", "BAD EMS"]),
    Example("value", "found = len(fleet[fleet['port'] == 'kiel'])", FOUND, 2),
    Example("value with signs", "found = len(fleet[fleet['port'] == 'bad_ems'])", FOUND, 1),
    Example("other than a value", "found = len(fleet[fleet.port != 'KIEL '])", FOUND, 2),
    Example("values", "found = len(fleet[fleet['port'].isin(['KIEL', 'Husum'])])", FOUND, 3),
    Example("value in lower case", "found = (fleet['port'].str.lower() == 'Kiel').sum()", FOUND, 2),
    Example("method", "found = fleet['depth'].max", FOUND, 6.0),
    Example("method of groups", "found = fleet.groupby('port')['depth'].max().sum", FOUND, 10.0),
    Example("largest number", "found = float(str(fleet['cargo'].max()).strip(' €').replace(',', '.'))", FOUND, 2000.0),
    Example("sum", "found = fleet['cargo'].sum()", FOUND, 3900.5),
    Example("order", "found = fleet.sort_values('cargo')['Ship Name'].tolist()[:3]", FOUND, ["Ole", "Ida", "Uwe"]),
    Example("sum of groups", "found = fleet.groupby('port')['cargo'].sum()['Kiel']", FOUND, 1900.5),
    Example("largest of rows", "found = fleet[fleet['depth'] < 3]['cargo'].max()", FOUND, 1000.5),
    Example("last day", "found = str(fleet['docked'].max())[:10]", FOUND, "2024-02-17"),
    Example("days after one", "found = len(fleet[fleet['docked'] > '2024-01-01'])", FOUND, 3),
]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_a_cure_is_needed_and_does_what_was_meant(example: Example) -> None:
    variables = ships()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(example.statement, variables)
    try:
        is_needed = example.value(variables) != example.expected
    except Exception:
        is_needed = True
    assert is_needed, "it needs no cure any more"
    variables = ships()
    source = example.statement
    while (cure := cure_before(ast.parse(source).body[-1], variables)) is not None:
        *before, last = ast.parse(cure.source).body
        exec(ast.unparse(ast.Module(before, [])), variables)
        source = ast.unparse(last)
    exec(source, variables)
    assert example.value(variables) == example.expected


@pytest.mark.parametrize(
    "statement",
    [
        "found = fleet['number'].max()",  # in the same order as numbers
        "found = fleet['built'].max()",
        "found = fleet['built'] > '1999-01-01'",
        "found = fleet['port'].max()",
        "found = fleet.groupby('cargo')['depth'].sum()",
        "found = fleet['cargo'].str.len().sum()",
        "found = fleet['cargo'].value_counts().max()",
        "found = fleet['cargo'].isna().sum()",
        "found = fleet['Ship Name'].sum()",
        "found = fleet[fleet['port'] == 'Kiel']",
        "found = fleet[fleet['port'] == 'Bonn']",
        "found = fleet['port'].str.upper",  # it belongs to no data
        "found = fleet.groupby('port').apply",
        "found = fleet.agg(fleet['depth'].max)",
        "fleet['new'] = fleet['depth']",
        "fleet['new'] = fleet['depth'].max()",
        "fleet['depth'] = 0",
        "fleet.loc[fleet['depth'] > 3, 'depth'] = 3",
        "fleet['Depth_2'] = fleet['depth'] * 2",
    ],
)
def test_what_does_as_it_says_is_left_alone(statement: str) -> None:
    assert cure_before(ast.parse(statement).body[0], ships()) is None


def test_a_value_of_two_spellings_is_not_chosen() -> None:
    variables = ships()
    variables["fleet"].loc[1, "port"] = "KIEL"
    statement = ast.parse("found = fleet['port'] == 'kiel'").body[0]
    assert cure_before(statement, variables) is None
    assert never_equal(statement, variables) == ["no value of fleet['port'] is 'kiel'"]
    assert never_equal(ast.parse("found = fleet['port'] == 'Kiel'").body[0], variables) == []


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def main():\n    x = 1\n    answer(x)", "x = 1\nanswer(x)"),
        ("def main():\n    x = 1\n    answer(x)\n\nmain()", "x = 1\nanswer(x)"),
        (
            "def main():\n    x = 1\n    answer(x)\n\nif __name__ == '__main__':\n    main()",
            "x = 1\nanswer(x)",
        ),
        ("def f():\n    x = 1\n    return x + 1\n\nanswer(f())", "x = 1\nanswer(x + 1)"),
        ("y = 2\ndef f():\n    x = y\n    return x\n\nz = f() + 1\nanswer(z)", "y = 2\nx = y\nz = x + 1\nanswer(z)"),
    ],
)  # fmt: skip
def test_a_function_that_is_called_once_is_unfolded(program: str, expected: str) -> None:
    found = unfolded(ast.parse(program))
    assert found is not None
    assert found[0] == expected


@pytest.mark.parametrize(
    "program",
    [
        "x = 1\nanswer(x)",
        "def f(a):\n    return a\n\nanswer(f(1))",
        "def f():\n    return 1\n\nanswer(f() + f())",
        "def f():\n    x = 1\n    return x\n\nx = 2\nanswer(f() + x)",  # of its own
        "def f():\n    if here:\n        return 1\n    return 2\n\nanswer(f())",
        "def f():\n    return 1\n\nanswer([f() for _ in range(2)])",
        "def f():\n    return 1\n\nfor _ in range(2):\n    answer(f())",
        "def f():\n    return 1\n\nanswer(1)",
        "def f():\n    yield 1\n\nanswer(list(f()))",
        "@cached\ndef f():\n    return 1\n\nanswer(f())",
    ],
)
def test_a_function_that_means_something_of_its_own_stays(program: str) -> None:
    found = unfolded(ast.parse(program))
    assert found is None or "for _ in range" in found[0]
