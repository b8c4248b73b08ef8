"""What a question wants with or without is held against a call's switches."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.loop.flags import contradicted, with_defaults

SCHEMA = {
    "type": "object",
    "properties": {
        "rows": {"type": "integer"},
        "with_replacement": {"type": "boolean", "default": False},
        "fit_intercept": {"type": "boolean", "default": True},
        "gift_wrap": {"type": "boolean"},
        "no_header": {"type": "boolean", "default": False},
    },
}


@pytest.mark.parametrize(
    ("question", "given_", "wanted"),
    [
        ("Draw 5 rows with replacement.", {"rows": 5}, {"with_replacement": True}),
        ("Draw 5 rows with replacement.", {"with_replacement": False}, {"with_replacement": True}),
        ("Draw 5 rows with replacement.", {"with_replacement": True}, {}),
        ("Draw 5 rows without replacement.", {}, {}),
        ("Fit a line without an intercept.", {}, {"fit_intercept": False}),
        (
            "Fit a line without intercept, please.",
            {"fit_intercept": True},
            {"fit_intercept": False},
        ),
        (
            "Fit it with replacement and without intercepts",
            {},
            {"with_replacement": True, "fit_intercept": False},
        ),
        ("Send it with gift wrap.", {"gift_wrap": False}, {"gift_wrap": True}),
        ("Send it with gift wrap.", {}, {}),  # what it is by default nobody says
    ],
)
def test_a_switch_that_the_question_names_is_as_the_question_wants_it(
    question: str, given_: Any, wanted: dict[str, bool]
) -> None:
    assert contradicted(question, given_, SCHEMA) == wanted


@pytest.mark.parametrize(
    "question",
    [
        "Is it with replacement or without replacement?",
        "Explain replacement.",
        "Read it with a header and no header row.",
        "Do not draw it with replacement.",
        "Should I draw it with replacement?",
        "Compare the means with replacement and without.",
        "Draw it with replacement parts.",
        "What is wrong with replacement?",
        "x" * 1000 + " with replacement",
        "",
    ],
)
def test_where_a_question_says_neither_or_both_or_something_else_nothing_is_wrong(
    question: str,
) -> None:
    assert contradicted(question, {}, SCHEMA) == {}


@pytest.mark.parametrize(
    ("given_", "schema"),
    [
        ("x", SCHEMA),
        (None, SCHEMA),
        ({}, {"type": "null"}),
        ({}, None),
        ({}, {"properties": {1: {}, "x": 5}}),
    ],
)
def test_an_input_without_switches_has_none_that_are_wrong(given_: Any, schema: Any) -> None:
    assert contradicted("Draw it with replacement.", given_, schema) == {}


def test_what_an_input_leaves_out_is_filled_in_where_the_schema_says_it() -> None:
    assert with_defaults({"rows": 5, "fit_intercept": False}, SCHEMA) == {
        "rows": 5,
        "with_replacement": False,
        "fit_intercept": False,
        "no_header": False,
    }
    assert with_defaults("x", SCHEMA) == "x"
