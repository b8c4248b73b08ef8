"""What may differ is named, and nothing else is forgiven."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.cassettes.volatile import PATTERNS, Volatile
from archytas_nb.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("date", "on 2026-07-01, or 2026/07/01, or 1.7.2026", "on {date}, or {date}, or {date}"),
        ("date", "version 1.2.3 of 12 parts", "version 1.2.3 of 12 parts"),
        ("time", "at 9:05, 09:05:11.25Z, 10:00:00+02:00", "at {time}, {time}, {time}"),
        ("path", "in /tmp/a b, /home/me/x.csv: 3", "in {path} b, {path}: 3"),
        ("path", r"in C:\Users\me\x.csv and D:\data", "in {path} and {path}"),
        (
            "path",
            "and/or, 1/2, http://host/a/b, ./a/b, <a/b>",
            "and/or, 1/2, http://host/a/b, ./a/b, <a/b>",
        ),
        ("address", "<f at 0x7f3a9c001f20>", "<f at {address}>"),
        ("uuid", "id 123e4567-e89b-12d3-a456-426614174000.", "id {uuid}."),
        (
            "number",
            "3 of -1.5, 1,000 and 2e-3; x1, v2.0",
            "{number} of {number}, {number} and {number}; x1, v2.0",
        ),
    ],
)
def test_a_built_in_name_stands_for_what_one_would_think(name: str, text: str, kept: str) -> None:
    assert Volatile([name])(text) == kept


def test_a_time_of_day_in_a_date_time_is_both() -> None:
    assert Volatile("date,time")("2026-07-01T09:30:00Z") == "{date}T{time}"


def test_dates_are_dates_before_they_are_numbers() -> None:
    assert Volatile(["number", "date"])("2026-07-01 and 7") == "{date} and {number}"


def test_a_name_of_ones_own_takes_a_regular_expression() -> None:
    volatile = Volatile({"order": r"ORD-\d+", "date": True})
    assert volatile("ORD-123 of 2026-07-01") == "{order} of {date}"
    assert volatile.line() == {"order": r"ORD-\d+", "date": True}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            ["dat"],
            "no volatile part is named 'dat'; there are uuid, address, path, date, time, number",
        ),
        ({"x": "("}, "'x' is '('"),
        ({"x": "a*"}, "matches nothing"),
        ({"x y": "a"}, "letters, digits and _"),
        ({"x": 5}, "expected a regular expression"),
    ],
)
def test_what_makes_no_sense_is_refused(said: object, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Volatile(said)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_nothing_is_forgiven_where_nothing_is_named() -> None:
    assert Volatile()("2026-07-01 /a/b/c 0x12345 5") == "2026-07-01 /a/b/c 0x12345 5"
    assert Volatile().line() is None


SAMPLES = st.lists(
    st.one_of(st.text(max_size=9), *map(st.from_regex, PATTERNS.values())), max_size=5
)


@given(SAMPLES.map("".join), st.sets(st.sampled_from(list(PATTERNS))))
def test_a_text_with_placeholders_keeps_them(text: str, names: set[str]) -> None:
    volatile = Volatile(sorted(names))
    assert volatile(volatile(text)) == volatile(text)


@given(st.dates(), st.dates(), st.text(alphabet="abc {}.,?", max_size=20))
def test_texts_that_differ_in_a_date_become_one(one: object, other: object, text: str) -> None:
    volatile = Volatile(["date"])
    assert (
        volatile(f"{text} {one} {text}")
        == volatile(f"{text} {other} {text}")
        == f"{text} {{date}} {text}"
    )
