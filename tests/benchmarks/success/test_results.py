"""The page of results says what the results beside it say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.success.__main__ import KEPT, PARTS, RESULTS, kept
from benchmarks.success.report import table
from benchmarks.success.runner import Settings
from benchmarks.success.task import REGISTRY
from benchmarks.success.tasks import selected

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = RESULTS.with_name("RESULTS.md").read_text(encoding="utf-8")
BLIND = [name for name in KEPT if name.startswith("blind")]


@pytest.mark.parametrize("name", [*KEPT, *PARTS, "code"])
def test_the_page_says_how_many_tasks_a_run_solved(name: str) -> None:
    data, results = kept(name)
    assert data["solved"] == sum(each.solved for each in results)
    assert f"{data['solved']}/{len(results)}" in PAGE
    assert data["model"] in PAGE


@pytest.mark.parametrize("name", ["report", "report-bare", "blind", "blind-program", *PARTS])
def test_a_table_of_the_page_is_made_of_the_results_beside_it(name: str) -> None:
    assert table(kept(name)[1]) in PAGE


def test_the_numbers_of_the_page_are_those_of_the_last_runs() -> None:
    page = " ".join((ROOT / "docs" / "endpoints.md").read_text(encoding="utf-8").split())
    report, bare, blind = (
        kept(name)[0] for name in ("report-program", "report-bare", "blind-program")
    )
    assert f"{report['solved']} of {report['tasks']} tasks" in page
    assert (
        f"Without constrained decoding and guards, the same weights solved {bare['solved']}" in page
    )
    assert f"{blind['solved']} of {blind['tasks']} harder tasks" in page
    assert f"{report['date']}, {report['model']}" in page


@pytest.mark.parametrize("name", KEPT)
def test_a_run_is_of_every_task_of_its_half(name: str) -> None:
    data, results = kept(name)
    half = name.partition("-")[0]
    tasks = selected(half)  # type: ignore[arg-type]
    # Tasks with code are measured by themselves: small models are not offered it.
    assert {each.name for each in results} == {task.name for task in tasks if task.kind != "code"}
    assert len(results) == data["tasks"]


def test_the_runs_of_the_blind_half_differ_in_the_configuration_alone() -> None:
    first, *others = [kept(name)[0] for name in BLIND]
    for other in others:
        assert other["protocol"] in (first["protocol"], "program")
        for key in ("model", "bare", "half", "max_steps", "max_seconds"):
            assert other[key] == first[key], key


@pytest.mark.parametrize("name", [*KEPT, *PARTS])
def test_results_tell_nothing_that_one_could_tune_by(name: str) -> None:
    _, results = kept(name)
    assert {each.fault for each in results} <= {"", "not solved"}
    assert not any(each.transcript for each in results)


ONE_REPLY = 60.0
"""Seconds: a reply that has begun is waited for, and the last turn has half a minute."""


@pytest.mark.parametrize("name", [*KEPT, *PARTS])
def test_no_task_ran_beyond_its_limits(name: str) -> None:
    data, results = kept(name)
    most_seconds = data.get("max_seconds", Settings.max_seconds)
    most_steps = data.get("max_steps", Settings.max_steps)
    for each in results:
        questions = len(REGISTRY[each.name].build().questions)
        assert each.seconds <= questions * (most_seconds + ONE_REPLY), each.name
        assert each.steps <= questions * (most_steps + 1), each.name
