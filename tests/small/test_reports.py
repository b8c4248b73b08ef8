"""Public reports about agents on data frames, replayed with a scripted model."""

from __future__ import annotations

import pytest

from archytas_nb import Agent
from archytas_nb.errors import TaskFailed
from archytas_nb.loop import events as ev
from tests.small.reports import REPORTS, Report
from tests.small.test_in_copy import Small

REPLIES = 7  # more than are asked for


@pytest.mark.parametrize("report", REPORTS, ids=lambda each: each.address)
def test_it_goes_well_here(report: Report) -> None:
    if "seaborn" in report.reply:
        pytest.importorskip("seaborn")
    before = report.namespace
    agent = Agent([], Small(*[report.reply] * REPLIES), namespace=report.namespace)
    if not report.expected and not report.is_doubted:
        with pytest.raises(TaskFailed):
            agent.run(report.question)
        return
    run = agent.run(report.question)
    ended = [each for each in run.events if isinstance(each, ev.ProgramEnded)]
    assert sum(len(each.figures) for each in ended) == report.figures
    assert before["df"].equals(report.namespace["df"])
    assert isinstance(run.ending, ev.Answered)
    if report.is_doubted:
        assert "it rests on no variable and no tool" in run.ending.doubts
    else:
        assert report.expected in run.answer
        assert run.repairs == 0
