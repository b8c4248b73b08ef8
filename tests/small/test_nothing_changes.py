"""Questions about data change nothing: neither variables nor files, whatever their programs do."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb import Agent
from archytas_nb.errors import TaskFailed
from archytas_nb.undo.fingerprint import fingerprint
from tests.small.test_in_copy import SHIPS, Small

CHANGES = (
    "ships['Draught (m)'] = 0",
    "ships.loc[0, 'port'] = 'Bonn'",
    "ships.drop(ships.index, inplace=True)",
    "ships.insert(0, 'number', range(len(ships)))",
    "ships.sort_values('Ship', inplace=True, ignore_index=True)",
    "ships.columns = [each.upper() for each in ships.columns]",
    "ships.attrs['seen'] = True",
    "ships['port'].array[0] = 'Bonn'",
    "depths[:] = 0",
    "depths.sort()",
    "depths *= 2",
    "series.iloc[0] = -1",
    "series.name = 'other'",
    "ports.append('Bonn')",
    "ports.clear()",
    "crews['Ida'].append('Eve')",
    "crews.pop('Uwe')",
    "polar.insert_column(0, polar['a'].alias('b'))",
    "harbour.name = 'Bonn'; harbour.ships.append(1)",
    "limit += 1",
    "del ships, depths",
    "globals().clear()",
    "ships = depths = series = None",
    "type(harbour).berths = 0",
    "ships.to_csv('ships.csv')",
    "open('notes.txt', 'w').write('gone')",
    "__import__('os').remove('notes.txt')",
    "__import__('os').mkdir('folder')",
    "__import__('pathlib').Path('notes.txt').rename('other.txt')",
    "__import__('os').environ['SHIPS'] = '1'",
    "__import__('os').chdir('/')",
    "pd.set_option('display.max_rows', 3)",
    "__import__('sys').path.insert(0, '/nowhere')",
    "[each for each in ports if ports.remove(each)]",
    "raise RuntimeError('enough')",
)
"""Statements that change variables, the settings of the process, or files."""


class Harbour:
    """An object of the person's own class."""

    berths = 3

    def __init__(self) -> None:
        self.name = "Kiel"
        self.ships = [3, 4]


def variables() -> dict[str, Any]:
    return {
        "ships": pd.DataFrame(SHIPS),
        "depths": np.array([3.0, 1.0, 2.0]),
        "series": pd.Series([1.0, None], name="x"),
        "ports": ["Kiel", "Husum"],
        "crews": {"Ida": ["Ann"], "Uwe": []},
        "polar": pl.DataFrame({"a": [1, 2]}),
        "harbour": Harbour(),
        "limit": 3,
    }


def contents(namespace: dict[str, Any]) -> dict[str, Any]:
    """The observable state of everything that a program could change."""
    files = {each.name: each.is_file() and each.read_text() for each in Path().iterdir()}
    options = pd.get_option("display.max_rows")
    attributes = [*namespace["ships"].attrs, namespace["series"].name, Harbour.berths]
    found = {name: fingerprint(each) for name, each in namespace.items()}
    assert all(each is not None for each in found.values())
    return {**found, "others": (files, dict(os.environ), Path.cwd(), options, attributes)}


def asked(program: str, namespace: dict[str, Any]) -> bool:
    """Whether one of three programs answers a question."""
    model = Small(program, program, "answer(len(ships))")
    try:
        run = Agent([], model, namespace=namespace).run("What is in ships, depths and ports?")
    except TaskFailed:
        return False
    return run.status == "answered"


@pytest.mark.parametrize("questions", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_has_changed_after_many_questions(
    questions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("kept")
    namespace = variables()
    asked("answer(limit)", namespace)  # the import of a library sets a variable of the environment
    before = contents(namespace)
    chance = random.Random(questions)
    answers = 0
    for _ in range(questions):
        changes = chance.sample(CHANGES, chance.randint(1, 4))
        shown = chance.choice(["len(ships)", "ports", "float(depths.max())", "limit"])
        whole = "\n".join([*changes, f"answer({shown})"])
        answers += asked(whole, namespace)
        assert contents(namespace) == before
    assert answers > questions / 3
