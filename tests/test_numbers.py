"""Numbers are read in every way that people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.numbers import numbers_in, values_in, values_near

LOCALES = [
    (",", "."), (".", ","), ("\u202f", ","), ("\u00a0", ","), (" ", ","), ("’", "."), ("'", "."),
    ("_", "."), ("٬", "٫"), ("", "."), ("", ","),
]  # fmt: skip


def grouped(whole: str, mark: str, size: int) -> str:
    head, tail = whole[:-3], whole[-3:]
    groups = [head[max(0, end - size) : end] for end in range(len(head), 0, -size)][::-1]
    return mark.join([*groups, tail]) if head else tail


@given(
    value=st.decimals(0, 10**12, places=3, allow_nan=False),
    digits=st.integers(0, 3),
    locale=st.sampled_from(LOCALES),
    size=st.sampled_from([2, 3]),
    sign=st.sampled_from(["", "-", "−"]),
    around=st.sampled_from(
        ["{}", "It is {}.", "({})", "a={};", "{} kg", "**{}**", "\n{}\n", "x {}, y"]
    ),
)
def test_a_number_of_any_locale_is_one_number_with_its_value(
    value: object, digits: int, locale: tuple[str, str], size: int, sign: str, around: str
) -> None:
    mark, point = locale
    whole, _, part = f"{value:.{digits}f}".partition(".")
    written = grouped(whole, mark, size) if mark else whole
    written = sign + (f"{written}{point}{part}" if part else written)
    [found] = numbers_in(around.format(written))
    assert found.text == written
    exact = float(f"{value:.{digits}f}")
    [reading] = [each for each in found.plain if each.value == pytest.approx(exact, rel=1e-12)][:1]
    assert reading.half == pytest.approx(0.5 * 10.0**-digits)
    assert reading.is_of(float(value))  # type: ignore[arg-type]


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
    st.sampled_from([",", ", ", ";", "|", " "]),
)
def test_each_cell_of_a_line_is_among_its_values(numbers: list[int], mark: str) -> None:
    assert set(map(float, numbers)) <= set(values_in(mark.join(map(str, numbers))))


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    for number in numbers_in(text):
        assert text[number.start : number.end] == number.text
        assert all(each.value >= 0 and each.half > 0 for each in number.readings)
    list(values_in(text))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("63.2 %", {63.2, 0.632}),
        ("63,2%", {63.2, 0.632}),
        ("5.1 kg", {5.1, 5100}),
        ("1,2 Mio.", {1.2, 1.2e6}),
        ("234 ms", {234, 0.234}),
        ("1.2 × 10⁻⁵", {1.2e-5}),
        ("3e4", {3e4}),
        ("٣٬٤٥٦", {3456}),
    ],
)
def test_a_number_is_also_read_in_its_unit(text: str, values: set[float]) -> None:
    [number] = numbers_in(text)
    for value in values:
        assert any(each.value == pytest.approx(value) for each in number.readings)


@pytest.mark.parametrize("text", ["python_1", "R2", "x_2_mean", "H2O", "no number"])
def test_a_word_with_digits_is_no_number(text: str) -> None:
    assert not list(numbers_in(text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2024-03-05 12:30", ["2024", "-03", "-05", "12", "30"]),
        ("[10,20,30]", ["10", "20", "30"]),
        ("0.1,0.2", ["0.1", "0.2"]),
        ("1.2.3", ["1", "2", "3"]),
    ],
)
def test_digits_that_make_no_number_are_several(text: str, parts: list[str]) -> None:
    assert [each.text.strip("-") for each in numbers_in(text)] == [
        each.strip("-") for each in parts
    ]


WRITTEN = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(0, 1e5).map(lambda x: f"{x:.3f}"),
    st.floats(0, 1e7).map(lambda x: f"{x:,.2f}"),
    st.floats(1e-6, 1e9).map(lambda x: f"{x:.3g}"),
    st.text("0123456789.,' e-x٣", max_size=8),
)


@given(st.lists(WRITTEN, max_size=6), st.sampled_from([" ", ", ", "\n", ";"]), WRITTEN)
def test_values_that_are_near_are_found_without_reading_all(
    texts: list[str], gap: str, wanted: str
) -> None:
    text = gap.join([*texts, wanted])
    for number in numbers_in(wanted):
        for reading in number.readings:
            right = {each for each in values_in(text) if reading.is_of(each)}
            assert set(values_near(text, reading)) == right


@given(st.text("0123456789eE×10^⁻¹⁹.,-+ −", max_size=12))
def test_whatever_looks_like_a_number_can_be_read(text: str) -> None:
    assert all(math.isfinite(each) for each in values_in(text))
