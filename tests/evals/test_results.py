"""The page of results says what the results beside it say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evals.__main__ import BLIND, WHOLE, kept_runs
from tests.evals.ablations import PIECES, names_of_tasks
from tests.evals.report import ablations, table
from tests.evals.runner import Result, Settings
from tests.evals.task import REGISTRY
from tests.evals.tasks import selected

HERE = Path(__file__).parent
PAGE = (HERE / "RESULTS.md").read_text(encoding="utf-8")


def read(name: str) -> tuple[dict[str, Any], list[Result]]:
    data = json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return data, [Result(**row) for row in data["results"]]


@pytest.mark.parametrize("name", WHOLE)
def test_a_table_of_the_page_is_made_of_the_results_beside_it(name: str) -> None:
    data, results = read(name)
    assert table(results) in PAGE
    assert f"{data['solved']}/{len(results)}" in PAGE
    assert data["model"] in PAGE
    assert data["date"] in PAGE


def test_the_table_of_ablations_is_made_of_the_results_beside_it() -> None:
    whole, runs = kept_runs()
    assert ablations(whole["choose"], runs) in PAGE
    assert all({each["name"] for each in run["results"]} == set(names_of_tasks()) for run in runs)
    pieces = [name for run in runs for name in run["without"]]
    assert set(pieces) <= set(PIECES)
    assert all(name in PAGE for name in set(PIECES) - set(pieces)), "what was not measured is said"


def test_the_numbers_of_the_readme_are_those_of_the_last_runs() -> None:
    readme = " ".join((HERE.parent.parent / "README.md").read_text(encoding="utf-8").split())
    report, bare = read("report")[0], read("report-bare")[0]
    said = f"it solved {report['solved']}, and {bare['solved']} without constrained decoding and guards"
    assert f"Of {report['tasks']} tasks" in readme
    assert said in readme
    assert f"{report['date']}, {report['model']}, two cores" in readme


@pytest.mark.parametrize("name", ["report", "report-bare"])
def test_the_report_is_of_every_task_of_its_half(name: str) -> None:
    _, results = read(name)
    assert {each.name for each in results} == {task.name for task in selected("report")}


@pytest.mark.parametrize("name", BLIND)
def test_a_run_of_the_blind_half_is_of_every_task_of_it(name: str) -> None:
    data, results = read(name)
    assert {each.name for each in results} == {task.name for task in selected("blind")}
    assert len(results) == data["tasks"] == len(selected("blind"))
    assert data["solved"] == sum(each.solved for each in results)


def test_the_runs_of_the_blind_half_differ_in_the_pieces_alone() -> None:
    first, *others = [read(name)[0] for name in BLIND]
    for other in others:
        for key in ("model", "protocol", "bare", "half", "max_steps", "max_seconds", "version"):
            assert other[key] == first[key], key
        assert other["without"] != first["without"]


def test_results_of_the_reporting_half_tell_nothing_that_one_could_tune_by() -> None:
    for name in ("report", "report-bare", *BLIND):
        _, results = read(name)
        assert {each.fault for each in results} <= {"", "not solved"}
        assert not any(each.transcript for each in results)


ONE_REPLY = 60.0
"""Seconds: a reply that has begun is waited for, and the last turn has half a minute."""


@pytest.mark.parametrize("name", [*WHOLE, *BLIND])
def test_no_task_ran_beyond_its_limits(name: str) -> None:
    data, results = read(name)
    most_seconds, most_steps = (
        data.get("max_seconds", Settings.max_seconds),
        data.get("max_steps", Settings.max_steps),
    )
    for each in results:
        questions = len(REGISTRY[each.name].build().questions)
        assert each.seconds <= questions * (most_seconds + ONE_REPLY), each.name
        assert each.steps <= questions * (most_steps + 1), each.name
