"""What could be read in another way is not said: a small model follows what it is told."""

from __future__ import annotations

import pytest

from archytas_nb.loop.arithmetic import reckoned
from archytas_nb.loop.bounds import sides
from archytas_nb.loop.forms import reshaped
from archytas_nb.loop.names import meant
from archytas_nb.loop.numbers import lacks_measure
from archytas_nb.loop.pending import pending
from archytas_nb.loop.ranking import Row, ranking, rows_of

THEN = "not to be done"


def rows(*w: str) -> list[Row]:
    return rows_of([("p", f"w{n}", each) for n, each in enumerate(w)], "p")


def one(w: str) -> list[Row]:
    return [Row("", float(w), w)]


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("If it does not exceed 5, order it.", "4"),
        ("If it isn't below 30, switch it on.", "31"),
        ("If it is no longer below 5, water it.", "7"),
        ("If it's never above 5, approve.", "4"),
        ("If it is neither below 3 nor above 7, approve.", "5"),
        ("If pens are in stock, order at most 3.", "12"),
        ("Should I order at least 3 blankets?", "2"),
        ("Ship it, but not if it is above 5.", "4"),
        ("Don't ship it if it is above 5.", "4"),
        ("Ship it, even if it is above 5.", "4"),
        ("How many rows have a distance above 12? If there are any, post it.", "5"),
        ("If the price does not fall below 5, sell.", "7"),
        ("Answer in at most 10 words if you can.", "19"),
    ],
)
def test_nothing_is_forbidden_where_a_condition_is_turned_round_or_is_none(
    question: str, written: str
) -> None:
    assert THEN not in sides(question, one(written))


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("Is it more than 2 million?", "1500000"),
        ("Is it above 3k?", "2500"),
        ("more than ten thousand?", "11"),
        ("Is it above 1e3?", "5"),
        ("Is it above 1_000?", "5"),
        ("Is it over 1,5 euro?", "2"),
        ("above 10^3?", "11"),
        ("higher than 1 000?", "999"),
        ("higher than 1'000?", "999"),
        ("Is it above 6.5-7.5?", "6.2"),
        ("Is it below 12.5/3?", "12.2"),
        ("Is the share above 50%?", "0.6"),
        ("Is the version below 3.11?", "3.9"),
        ("Is the church older than 1500?", "1410"),
        ("warmer than 5 below zero?", "-3"),
        ("What was the mean over 10 days?", "12"),
        ("Is it under two conditions?", "3"),
        ("Give at least 3 shops.", "2"),
        ("How many rows have a distance above 12?", "5"),
        ("Average of the values above 4000?", "4500"),
        ("Send an invoice over 120 euros to Berg.", "17"),
        ("Is at least one of them open?", "3"),
    ],
)
def test_no_side_is_said_where_the_number_or_its_bound_may_be_another(
    question: str, written: str
) -> None:
    assert sides(question, one(written)) == ""


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("Did it rise by more than 10%?", ("20", "23")),
        ("Did it rise by more than 10 percent?", ("20", "23")),
        ("Is w0 more than 100 km longer than w1?", ("1230", "1194")),
        ("Is the sum more than 5?", ("2", "4")),
        ("Is the mean of both below 5?", ("2", "6")),
        ("If w0 and w1 differ by more than 5, tell me.", ("9", "2")),
        ("Warn me if the gap between w0 and w1 is above 5.", ("9", "2")),
        ("Do they cost less than 5 overall?", ("2", "4")),
        ("Did it rise by more than 5 from w1 to w0?", ("20", "10")),
    ],
)
def test_no_side_is_said_of_two_where_a_sum_a_share_or_a_distance_is_meant(
    question: str, written: tuple[str, ...]
) -> None:
    right = "The rise from 10 to 20 is 10, which is more than 5."
    assert sides(question, rows(*written)) in ("", right)


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("What is the ratio of w0 to w1?", ("5", "8")),
        ("How many times did w0 and w1 win?", ("5", "8")),
        ("By how many percent is w1 higher?", ("5", "8")),
        ("What do 3 w0 and two w1 cost together?", ("1.5", "8")),
        ("How much heavier are w0 and w1 together than w2?", ("1", "2", "3")),
        ("What is the sum of w0 and w1?", ("1", "2", "3")),
        ("Which city has the higher total rainfall, and what is it?", ("7", "8")),
        ("ratio", ("10", "1e-999999")),
        ("ratio", ("1e308", "1e-308")),
    ],
)
def test_nothing_is_reckoned_but_what_was_asked_for(
    question: str, written: tuple[str, ...]
) -> None:
    assert reckoned(rows(*written), question) == ""


@pytest.mark.parametrize(
    "question",
    [
        "Which is closest to 20?",
        "Which is nearer to 7?",
        "Which is more affordable?",
        "Which model is more accurate?",
        "Which is the most efficient?",
        "Which is not the highest?",
        "Which lake is deepest?",
        "Which team is highest in the table?",
        "What is the fourth highest?",
        "What is the 2nd highest?",
        "Which is second-to-lowest?",
        "Last but not least, tell all.",
    ],
)
def test_both_ends_are_said_where_the_question_may_mean_either(question: str) -> None:
    assert "shortest" in ranking(rows("-5", "-1"), question)


@pytest.mark.parametrize(
    ("value", "error", "question"),
    [
        ("2024-03-09", "no data on 2024-03-09; there are 2020-01-01 to 2023-12-31", ""),
        ("2024-03-09", "expected YYYY-MM-DD", ""),
        ("10/3/2024", "expected YYYY-MM-DD", "9 March 2024, two nights"),
        ("3", "expected MM/DD/YYYY", "on 9 March 2024"),
        ("09.03.2024", "expected a day like 03/31/2024", ""),
        ("09/03/2024", "expected a day like 31.12.2023", ""),
        ("12/31", "expected 31.12", ""),
        ("14:30", "timeout after 30.5 seconds", ""),
        ("09:03", "row 1.5", ""),
        ("14:30", "OperationalError (version 3.45)", ""),
        ("10.1", "ConnectionError: port 80:90", ""),
        ("2024-03-09", "no data after 31.12.2023", ""),
        ("AB-12-34", "did you mean AB-12-35?", ""),
        ("2:30 pm", "expected 08h15", ""),
        ("14:30", "expected 08h15am", ""),
        ("2024-03-09", "expected DD-MMM-YYYY", ""),
        ("2024-03-09", "expected DD Mmm YYYY", ""),
        ("3.5", "exceeds the limit 2-3", ""),
        ("A 17 4", "like B-03-12", ""),
        ("192.168.0.1", "refused at 10:0:0:5", ""),
        ("/tmp/run-12/7.csv", "python3.11", ""),
    ],
)
def test_a_value_is_not_rewritten_after_what_is_no_form_or_another_day(
    value: str, error: str, question: str
) -> None:
    assert reshaped(value, error, question) == ""


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("Ann Lee", "user 'Ann' is blocked"),
        ("international", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("point", "expected 'int', got 'list'"),
        ("mean(list)", "'list' object is not callable"),
        ("lakes", "could not open 'lakes.csv'"),
        ("the channel dev", "unexpected keyword 'channel'"),
        ("abc", "'abcdef' is forbidden"),
        ("Berlin", "'East Berlin' is no more"),
    ],
)
def test_a_name_that_an_error_does_not_offer_was_not_meant(value: str, error: str) -> None:
    assert meant(value, error) == ""


@pytest.mark.parametrize(
    ("answer", "question", "found"),
    [
        ("It is -5.", "How cold is it?", "-5"),
        ("100 m", "How long is the 100 m track?", "100"),
        ("20", "How warm is it, at least 20?", "20"),
        ("Two hours", "How long is it?", "two hours"),
    ],
)
def test_a_measure_that_is_there_is_not_missed(answer: str, question: str, found: str) -> None:
    assert not lacks_measure(answer, question, [found])


@pytest.mark.parametrize(
    "question", ["Which are below 6.5, W1 or W2?", "In 2024, W1 and W2 were sampled."]
)
def test_a_number_is_not_pending_beside_names(question: str) -> None:
    assert pending(question, [("ph", "W1", "7"), ("ph", "W2", "5")], "ph") == []
