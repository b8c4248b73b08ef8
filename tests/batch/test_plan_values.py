"""A planned map with ``values="none"``: the program answers rows that no model reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from archytas_nb import Agent, ConfigurationError, Tool
from archytas_nb.batch.store import RowFailure
from archytas_nb.kernel import disclosure
from tests.batch.planner import Planner
from tests.batch.test_plan import Answers
from tests.magics.test_canaries import Canaries

CANARIES = Canaries(33)
FRAME = pd.DataFrame(
    {
        "name": [CANARIES.text() for _ in range(30)],
        "age": [CANARIES.number() for _ in range(30)],
        "note": [CANARIES.text() if number % 3 else None for number in range(30)],
        "mixed": [CANARIES.text() if number % 2 else CANARIES.number() for number in range(30)],
        "day": [pd.Timestamp(CANARIES.number(), unit="s") for _ in range(30)],
        "kind": pd.Categorical([CANARIES.text() for _ in range(30)]),
    }
)
RIGHT = "answer(older(age=row.age))"
PROMPT = "How old is {name} in a year?"
TELLING = (
    "answer({}[row.name])",  # a KeyError quotes it
    "give_up(f'{row.name} {row.age}')\nanswer(row.name)",
    "answer(f'{row.name}')",  # an answer of the wrong type
    "raise ValueError(f'{row.name} {row.note}')\nanswer(row.age)",
    "answer(breaks(name=row.name))",
    "answer(older(age=row.name))",  # a fault before it runs
    "answer(int(row.mixed))",
    "answer(1 if row.note is None else int(row.note))",
    "show(row.name)\nprint(row.age)\nassert row.age < 0, row.name\nanswer(1)",
    "while row.age:\n    older(age=row.age)\nanswer(1)",
)


def tools() -> list[Tool]:
    def older(age: int) -> int:
        """Add a year.

        Args:
            age: The age
        """
        return age + 1

    def breaks(name: str) -> int:
        """Break.

        Args:
            name: A name
        """
        kind = type(f"{name.split(maxsplit=1)[0]}Error", (ValueError,), {})
        raise kind(f"{name} {CANARIES.text()}")

    return [Tool.from_function(each, pure=True) for each in (older, breaks)]


def mapped(model: Planner, frame: pd.DataFrame = FRAME, **options: Any) -> Any:
    given = {
        "output_type": int,
        "plan": True,
        "store": None,
        "progress": False,
        "verify": 0,
        **options,
    }
    return Agent(tools(), model=model, values="none").map(frame, PROMPT, **given)


def sent(model: Planner) -> bytes:
    plain = json.dumps(model.plans, default=repr)
    return f"{plain}\n{json.dumps(model.plans, default=repr, ensure_ascii=False)}".encode()


@pytest.mark.parametrize("program", TELLING)
def test_the_plan_holds_no_value_whatever_a_program_does(program: str) -> None:
    model = Planner(program, program, RIGHT)
    out = mapped(model, max_fallback=1.0)
    assert model.plans
    assert not model.singles
    assert CANARIES.found_in(sent(model)) == []
    assert set(out["by"].dropna()) <= {"program"}


def test_the_search_finds_what_is_sent_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowFailure, "without_values", RowFailure.in_words)
    leaks = []
    for program in TELLING:
        model = Planner(program, RIGHT)
        mapped(model)
        leaks.append(bool(CANARIES.found_in(sent(model))))
    assert sum(leaks) >= 6


def test_rows_are_answered_without_being_sent_and_those_that_are_not_stay(tmp_path: Path) -> None:
    model = Planner(f"if row.note is None:\n    give_up('no note')\n{RIGHT}")
    out = mapped(model, max_fallback=0.5, store=str(tmp_path / "map.sqlite"))
    assert model.requests == 1
    assert list(out["status"]) == ["failed", "done", "done"] * 10
    assert set(out.loc[out["status"] == "failed", "error"]) == {"the program gave up: no note"}
    answered = out["status"] == "done"
    assert list(out.loc[answered, "answer"]) == list(FRAME.loc[answered, "age"] + 1)
    assert set(out["by"]) == {"program"}


def test_a_program_that_judges_has_a_fault_as_the_text_would_be_sent() -> None:
    model = Planner("answer(int(judge(f'Old? {row.name}', 'bool')))", RIGHT)
    out = mapped(model)
    assert "judge" not in model.plans[0][0]["content"]
    assert len(model.plans) == 2
    assert set(out["status"]) == {"done"}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_few_rows_are_not_sent_either(count: int) -> None:
    model = Planner(RIGHT)
    out = mapped(model, FRAME.head(count))
    assert list(out["status"]) == ["done"] * count
    assert (len(model.plans), len(model.singles)) == (min(count, 1), 0)


def test_a_plan_that_cannot_be_compared_is_decided_by_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Planner(RIGHT)
    out = mapped(model, verify=10)
    assert set(out["status"]) == {"open"}
    assert "verify=0" in out.attrs["plan"]["why"]
    person = Answers(monkeypatch, "rows", "run")
    out = mapped(model, verify=10)
    assert set(out["status"]) == {"done"}
    assert len(person.asked) == 2
    assert not model.singles


@pytest.mark.parametrize("plan", [False, "auto"])
def test_a_map_that_might_send_rows_is_refused(plan: Any) -> None:
    model = Planner(RIGHT)
    with pytest.raises(ConfigurationError, match="plan=True"):
        mapped(model, plan=plan)
    assert not model.requests


def test_columns_that_a_run_made_from_values_are_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = CANARIES.text()
    monkeypatch.setattr(disclosure, "names_made_in_runs", {made})
    model = Planner("answer(older(age=row.column_7))")
    out = mapped(model, FRAME.assign(**{made: range(30)}))
    assert list(out["answer"]) == list(range(1, 31))
    assert CANARIES.found_in(sent(model)) == []
