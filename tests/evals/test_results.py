"""The page of results says what the results beside it say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evals.report import table
from tests.evals.runner import Result
from tests.evals.tasks import selected

HERE = Path(__file__).parent
PAGE = (HERE / "RESULTS.md").read_text(encoding="utf-8")


def read(name: str) -> tuple[dict[str, Any], list[Result]]:
    data = json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return data, [Result(**row) for row in data["results"]]


@pytest.mark.parametrize("name", ["report", "report-bare", "choose"])
def test_a_table_of_the_page_is_made_of_the_results_beside_it(name: str) -> None:
    data, results = read(name)
    assert table(results) in PAGE
    assert f"{data['solved']}/{len(results)}" in PAGE
    assert data["model"] in PAGE
    assert data["date"] in PAGE


def test_the_report_is_of_every_task_of_its_half() -> None:
    _, results = read("report")
    assert {each.name for each in results} == {task.name for task in selected("report")}


def test_results_of_the_reporting_half_tell_nothing_that_one_could_tune_by() -> None:
    for name in ("report", "report-bare"):
        _, results = read(name)
        assert {each.fault for each in results} <= {"", "not solved"}
        assert not any(each.transcript for each in results)


def test_no_task_ran_far_beyond_its_limit() -> None:
    for name in ("report", "report-bare", "choose"):
        assert all(each.seconds < 700 for each in read(name)[1])
