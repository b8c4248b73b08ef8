"""The summary of a map that has ended, for a person."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.batch.summary import column_of, finished
from archytas_nb.effects.ledger import Effect
from archytas_nb.trace.map_panel import FinishedMap
from tests.trace.hostile import PAYLOADS, faults_of

TOPICS = ("nest", "lab", "other")


def summary(number: int, failed: dict[int, str], **more: Any) -> FinishedMap:
    items = [{"site": n, "comment": f"note {n} of the field book"} for n in range(number)]
    records = [
        {
            "topic": None if n in failed else TOPICS[n % 3],
            "missing": None if n in failed else n % 2 == 0,
            "status": "failed" if n in failed else "done",
            "error": failed.get(n),
        }
        for n in range(number)
    ]
    return finished(
        "labels", f"{number - len(failed)} of {number} rows", "About {comment}: which topic?",
        items, records, ("topic", "missing"), **more,
    )  # fmt: skip


def test_failures_are_grouped_by_reason_with_their_rows() -> None:
    failed = {3: "not a topic: 'weather'", 10: "withheld", 17: "not a topic: 'weather'"}
    found = summary(40, failed)
    assert [(each.why, each.rows) for each in found.failures] == [
        ("not a topic: 'weather'", (3, 17)),
        ("withheld", (10,)),
    ]
    assert "3 failed rows" in found.advice
    assert summary(40, {}).advice == ""


def test_what_was_done_outside_of_the_variables_is_listed() -> None:
    effects = [Effect("ran", f"git status {n}") for n in range(40)]
    lines = summary(3, {}, effects=effects).text(100).splitlines()
    assert "git status 0 · ran" in lines
    assert any(each.endswith(" more") for each in lines)
    page = summary(3, {}, effects=effects).html()
    assert "git status 0" in page
    assert "git status 39" not in page


def test_the_rows_that_failed_are_shown_themselves() -> None:
    found = summary(40, {3: "withheld", **dict.fromkeys(range(10, 30), "not a topic")})
    many, one = found.failures
    assert one.abouts == ("site: 3 · comment: note 3 of the field book",)
    assert [each.split(" · ")[0] for each in many.abouts] == [f"site: {n}" for n in range(10, 22)]
    assert "note 21 of the field book" in found.html()
    assert "note 22 of the field book" not in found.html()
    assert "… 8 more rows" in found.html()


def test_reasons_that_differ_in_a_number_only_are_one_where_there_are_many() -> None:
    found = summary(40, {n: f"row {n} has no price" for n in range(20)})
    [group] = found.failures
    assert group.rows == tuple(range(20))


def test_the_limit_that_ended_a_row_is_no_reason() -> None:
    [group] = summary(
        9, {3: "not a topic (max_errors=5)", 4: "not a topic (max_errors=2)"}
    ).failures
    assert (group.why, group.rows) == ("not a topic", (3, 4))


def test_the_preview_begins_with_what_was_asked_about() -> None:
    found = summary(40, {})
    assert found.preview.head == ("comment", "topic", "missing", "status")
    assert len(found.preview.rows) == 5
    assert found.preview.rows[0][0] == "note 0 of the field book"


@given(st.lists(st.sampled_from(TOPICS) | st.booleans() | st.none(), max_size=50))
def test_each_value_of_few_is_counted_and_none_is_lost(values: list[Any]) -> None:
    column = column_of("topic", values)
    known = [each for each in values if each is not None]
    if not known:
        assert column is None
    elif column and column.counts:
        words = ["yes" if each is True else "no" if each is False else each for each in known]
        assert dict(column.counts) == dict(Counter(words))
    else:
        assert column
        assert column.says


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=50, unique=True))
def test_of_numbers_the_range_and_the_median_are_shown(values: list[float]) -> None:
    column = column_of("mass", values)
    assert column
    assert column.counts == ()
    assert column.says.startswith(f"{min(values):,.6g} to {max(values):,.6g}, median ")


def test_what_a_model_wrote_runs_nothing_and_no_line_is_too_wide() -> None:
    for payload in PAYLOADS:
        found = summary(8, {1: payload}, warning=payload)
        assert faults_of(found.html()) == []
    text = summary(40, {3: "x"}).text(60)
    assert text.startswith("labels · 39 of 40 rows\n")
    assert "nest 13 ▇▇▇▇▇▇▇▇▇▇▇▇" in text
