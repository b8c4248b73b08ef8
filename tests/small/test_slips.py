"""Programs with the slips of small models give the right answer, none, or one with a doubt."""

from __future__ import annotations

import random
import warnings
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import Agent
from archytas_nb.errors import TaskFailed
from archytas_nb.sandbox import in_copy as session
from tests.small.direct import DirectCopy
from tests.small.test_in_copy import Small

slips = pytest.importorskip("tests.small.slips", reason="needs scipy", exc_type=ImportError)
PROGRAMS, SLIPS, case = slips.PROGRAMS, slips.SLIPS, slips.case

REPLIES = 6  # more than are asked for


def came_of(drawn: Any) -> str:
    """What comes of a program that the model writes again and again."""
    before = {name: each.copy(deep=True) for name, each in drawn.tables.items()}
    namespace: dict[str, Any] = dict(drawn.tables)
    agent = Agent([], Small(*[drawn.program] * REPLIES), namespace=namespace)
    try:
        run = agent.run(f"What is it in {', '.join(drawn.tables)}?")
    except TaskFailed:
        return "none"
    finally:
        assert set(namespace) == set(before)
        for name, each in before.items():
            pd.testing.assert_frame_equal(each, namespace[name])
    if slips.is_same(run.answer, drawn.expected):
        return "right"
    is_doubted = bool(run.repairs or getattr(run.ending, "doubts", ()))
    return "doubted" if is_doubted else f"wrong: {run.answer!r}"


def holds(slip: str, seed: int) -> None:
    drawn = case(random.Random(seed), slip)
    with patch.object(session, "Copy", DirectCopy), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        came = came_of(drawn)
    assert came in ("right", "none", "doubted"), (came, drawn.expected, drawn.program)


seeds = st.integers(0, 1 << 32)


@pytest.mark.parametrize("slip", SLIPS)
@settings(max_examples=6)
@given(seed=seeds)
def test_no_wrong_answer_is_given_without_a_doubt(slip: str, seed: int) -> None:
    holds(slip, seed)


@pytest.mark.slow
@pytest.mark.parametrize("slip", SLIPS)
@settings(max_examples=200)
@given(seed=seeds)
def test_no_wrong_answer_is_given_without_a_doubt_by_many_seeds(slip: str, seed: int) -> None:
    holds(slip, seed)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_without_a_slip_is_right(kind: str) -> None:
    data, columns = slips.table(random.Random(kind))
    program = PROGRAMS[kind]("hikes", columns)
    expected = slips.answer_of(program, {"hikes": data})
    assert came_of(slips.Case(kind, (), {"hikes": data}, program, program, expected)) == "right"


def test_most_slips_are_cured() -> None:
    """Counted over all kinds; see `python -m benchmarks.success.slips`."""
    with patch.object(session, "Copy", DirectCopy), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case(random.Random(seed), slip) for seed, slip in enumerate(SLIPS)]
        came = [came_of(each) for each in cases]
    assert came.count("right") > len(came) * 0.7, came
