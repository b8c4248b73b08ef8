"""The embedded model solves most of a few tasks, by default. This guards the rate, not an answer.

It takes minutes, so it is run before a release; `tests/test_embedded.py` asks the model in every run."""

from __future__ import annotations

import pytest

from archytas_nb.models.embedded.model import EmbeddedModel
from benchmarks.success.runner import Settings, attempt
from benchmarks.success.task import REGISTRY
from benchmarks.success.tasks import selected
from tests.test_embedded import missing

TASKS = (
    "stock_of_pears",
    "sunshine_among_instruments",
    "table_on_the_terrace",
    "mean_of_a_named_table",
    "orders_of_a_customer",
    "heavier_species",
    "refill_a_low_tank",
    "one_message_in_each_channel",
    "connection_that_comes_back",
    "days_of_a_week",
)
SLACK = 3
"""How many may fail: another processor rounds otherwise, and a greedy reply may turn on the last bit.

No task is tried that cannot make a difference any more."""


def test_the_tasks_of_the_regression_are_none_that_the_report_is_made_of() -> None:
    assert len(set(TASKS)) == 10
    assert {REGISTRY[name].half for name in TASKS} == {"choose"}


@pytest.mark.slow
@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_the_embedded_model_solves_as_many_tasks_as_it_did() -> None:
    model = EmbeddedModel()
    patient = Settings(max_seconds=600)
    faults: dict[str, str] = {}
    for untried, task in zip(range(len(TASKS), 0, -1), selected(names=list(TASKS)), strict=True):
        if len(faults) + untried <= SLACK:
            break  # whatever comes of those that are left
        result = attempt(task, model, patient)
        if not result.solved:
            faults[result.name] = result.fault
    assert len(faults) <= SLACK, faults
