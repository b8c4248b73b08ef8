"""That the benchmark compares like with like; the times themselves are judged by ``python -m``, never here."""

from __future__ import annotations

import pytest

from benchmarks.speed import loop
from benchmarks.speed.contenders import OURS, STEPS, STREAMS


@pytest.fixture(scope="module")
def table() -> loop.Table:
    return loop.measured(rounds=1, steps=(2, 3), tokens=5)


def test_every_contender_does_the_same_number_of_steps_and_tokens(table: loop.Table) -> None:
    # `measured` raises where one does not.
    assert set(table) == set(STEPS)
    assert all({"2 steps, ms", "3 steps, ms"} <= set(row) for row in table.values())
    assert {name for name, row in table.items() if "stream, µs/token" in row} == set(STREAMS)


def test_a_contender_that_does_less_is_found_out() -> None:
    with pytest.raises(AssertionError, match="would compare unlike things"):
        loop._exactly(3, lambda url: 2, "")


def test_loading_the_extension_imports_nothing_heavy() -> None:
    assert loop.load_ext()["heavy"] == []


def test_the_table_and_the_bounds_name_every_contender_of_ours(table: loop.Table) -> None:
    rows = loop.wanted(table, (2, 3), {"ms": 1.0, "heavy": ["openai"]})
    assert {what.partition(":")[0] for what, _, _ in rows} >= {
        name for name in STEPS if name.startswith(OURS)
    }
    assert ("%load_ext imports what a question needs", 1.0, 0.0) in rows
    lines = loop.printed(table).splitlines()
    assert len(lines) == 2 + len(STEPS)
    assert len({line.count("|") for line in lines}) == 1
