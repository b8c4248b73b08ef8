"""A value that was refused is written in the form that the error asks for, where there is only one reading."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.forms import reshaped


@pytest.mark.parametrize(
    ("value", "error", "better"),
    [
        ("14:30", "ValueError: '14:30' is no time; expected for example '08h15'", "14h30"),
        ("2:05", "expected a time such as 08h15", "02h05"),
        ("2024-03-09", "expected DD/MM/YYYY", "09/03/2024"),
        ("2024-03-09", "expected a day as mm-dd-yyyy", "03-09-2024"),
        ("2024-03-09", "expected YYYY/DD/MM", "2024/09/03"),
        ("2024-03-09", "expected a day such as 31.12.2023", "09.03.2024"),
        ("2024-03-09", "expected a day such as 12/31/2023", "03/09/2024"),
        ("March 9, 2024", "expected YYYY-MM-DD", "2024-03-09"),
        ("9th of March 2024", "expected YYYY-MM-DD", "2024-03-09"),
        ("17/4", "expected a shelf such as 03-12", "17-04"),
        ("March 2024", "expected year and month in digits, for example 2023-11", "2024-03"),
        ("march, 2024", "in the form MM/YYYY", "03/2024"),
        ("March 2024", "e.g. 11.2023", "03.2024"),
    ],
)
def test_a_value_is_written_as_an_error_asks_for(value: str, error: str, better: str) -> None:
    assert reshaped(value, error) == better


def test_of_days_whose_months_may_be_two_the_question_decides() -> None:
    error = "expected YYYY-MM-DD, such as 2023-12-31"
    assert reshaped("9/3/2024", error) == ""
    assert reshaped("9/3/2024", error, "What is on 9 March 2024?") == "2024-03-09"
    assert reshaped("9/3/2024", error, "What is on 9 March 2024 and on 3 September 2024?") == ""


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("14:30", ""),
        ("14:30", "\n"),
        ("", "expected 08h15"),
        ("noon", "expected 08h15"),  # no digits to be written otherwise
        ("14:30", "'14:30' is no time"),
        ("14:30", "ValueError: no such time"),
        ("14:30:00", "expected 08h15"),  # more groups than the example
        ("14", "expected 08h15"),
        ("March 2024", "expected YYYY-MM-DD"),  # a month is no day
        ("March 2024", "expected a day such as 2023-11-05"),
        ("March 2024", "expected a code such as 2023-13"),
        ("March 2024", "expected an id like 1000-12"),
        ("March 2024", "expected a pair such as 11-12 or 2011-2012"),
        ("2024-02-30", "expected DD.MM.YYYY"),  # no such day
        ("2024-03-09", "expected 01/02/2023"),  # which is the month?
        ("²:3", "expected 08h15"),
    ],
)
def test_where_no_form_is_named_or_more_than_one_nothing_is_said(value: str, error: str) -> None:
    assert reshaped(value, error) == ""


_GROUPS = st.lists(st.integers(0, 999), min_size=2, max_size=4)
_SIGN = st.sampled_from(["-", ".", "/", ":", "h"])


@given(_GROUPS, _SIGN, _SIGN, st.data())
def test_a_value_keeps_the_groups_of_its_digits(
    groups: list[int], own: str, asked: str, data: st.DataObject
) -> None:
    other = data.draw(st.lists(st.integers(10, 99), min_size=len(groups), max_size=len(groups)))
    better = reshaped(
        own.join(map(str, groups)), f"expected a code such as {asked.join(map(str, other))}"
    )
    if better:
        assert [int(each) for each in re.findall(r"\d+", better)] == groups
        assert re.sub(r"\d+", "", better) == asked * (len(groups) - 1)


@given(st.dates(date(1000, 1, 1)), st.sampled_from(["DD.MM.YYYY", "MM/DD/YYYY", "YYYY/MM/DD"]))
def test_a_day_in_another_form_is_the_same_day(day: date, form: str) -> None:
    as_strftime = form.replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d")
    assert reshaped(day.isoformat(), f"expected {form}") == day.strftime(as_strftime)


@given(st.text(), st.text(), st.text())
def test_any_texts_are_taken(value: str, error: str, question: str) -> None:
    assert isinstance(reshaped(value, error, question), str)
