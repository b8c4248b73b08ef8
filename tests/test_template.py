"""A prompt for many rows is filled as `str.format_map` fills it, or refused before the first row."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archytas_nb.batch.map import questions_of
from archytas_nb.template import LookupFault, Template

NAMES = st.sampled_from(
    [
        "name", "x", "row", "a b", "Preis (€)", "x.y", "0", "a:b", "a!r", "naïve", "_private", "class", "é-1", "tags[0]",
        " x", "x ", " ", "Preis\n(€)", "\ufeffid", "a\u202eb", "a{b}",
    ]
)  # fmt: skip


class Shown:
    """Writes itself, and compares with anything to something true."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self.text = text

    def __ne__(self, other: object) -> bool:
        return True

    def __str__(self) -> str:
        return self.text


VALUES = st.one_of(
    *(st.text(max_size=5), st.integers(), st.floats(allow_nan=False), st.booleans(), st.dates()),
    *(st.datetimes(), st.times(), st.timedeltas(), st.decimals(allow_nan=False), st.fractions()),
    *(st.uuids(), st.ip_addresses(), st.complex_numbers(allow_nan=False)),
    st.text("abc", min_size=1).map(Shown),
)
SPECS = st.sampled_from(["", "", ":.2f", ":,", ":>8", "!r", "!s:>6", "[0]", ".real", ":q", "[k]"])
PROSE = st.text(alphabet=string.ascii_letters + " .,?!\n$_^\\", max_size=8)


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Prose, doubled braces and fields in any order."""
    parts = [draw(PROSE)]
    for _ in range(draw(st.integers(1, 4))):
        field = st.tuples(NAMES, SPECS).map(lambda pair: "{" + "".join(pair) + "}")
        parts.append(draw(field | st.just("{{") | st.just("}}") | PROSE))
        parts.append(" ")
        parts.append(draw(PROSE))
    return "".join(parts)


@given(templates(), st.dictionaries(NAMES, VALUES, min_size=1))
@example("{x:.2f} {x!r} {{x}}", {"x": 1.5})
@example("{a b}, {0}", {"a b": 1, "0": "z"})
def test_a_prompt_is_filled_as_python_fills_it_or_refused(text: str, row: dict[str, Any]) -> None:
    try:
        template = Template(text, list(row))
        filled = template.filled(row)
    except LookupFault:
        return
    try:
        expected = text.format_map(row)
    except (KeyError, ValueError, AttributeError, TypeError, IndexError):
        # What Python refuses is text that happens to have braces, or the whole name of a column.
        return
    if filled != expected:
        # Only braces of a formula are text here and a field to Python: x_{i}, \frac{a}{b}, $…$.
        assert any(sign in text for sign in ("_{", "^{", "\\", "$"))


@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_the_whole_name_of_a_column_is_that_column(row: dict[str, Any]) -> None:
    for name, value in row.items():
        if "{" in name:  # Python has no way to write it, and it is refused
            with pytest.raises(LookupFault):
                Template(f"<{{{name}}}>", list(row))
            continue
        if ":" in name or "!" in name or "[" in name or "." in name:
            others = {name: value}  # where its first part is a column too, that one is meant
        else:
            others = row
        assert Template(f"<{{{name}}}>", list(others)).filled(others) == f"<{value}>"


@pytest.mark.parametrize(
    "text",
    [
        r"\frac{x}{y}", "$x_{i}$", "x_{i} and y_{t}", "$abc_{i}$", r"$\mu_{t} + 10^{n}$", '{"a": 1, "b": [2]}',
        "{cheap, dear}", "{see below}", "{ return x; }", "{color: red}",
    ],
)  # fmt: skip
def test_formulas_json_and_code_stay(text: str) -> None:
    row = dict.fromkeys(["name", "x", "y", "i", "t", "n", "a"], 7) | {"name": "lamp"}
    assert Template(f"{text} of {{name}}", list(row)).filled(row) == f"{text} of lamp"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{row[price]:.1f}", "2.5"),
        ("{row.price}", "2.5"),
        ("file_{name}.csv", "file_lamp.csv"),
        ("costs $5 for {name} and $6", "costs $5 for lamp and $6"),
        ("{ name }", "lamp"),
        ("{{name}}", "{name}"),
        ("{gone}", "(missing)"),
        ("{gone:.2f}", "(missing)"),
        ("{tags[1]}", "b"),
    ],
)
def test_a_field_has_the_value_of_the_row(text: str, filled: str) -> None:
    row = {"name": "lamp", "price": 2.5, "gone": None, "tags": ["a", "b"]}
    assert Template(text, list(row)).filled(row) == filled


@pytest.mark.parametrize(
    "text",
    [
        "{nme}", "{nme:.2f}", "{name.upper()}", "{df['name']}", "{name.__class__}", "{name:.2f}", "{row[nme]}",
        "{tags[5]}", "{price + 1}",
    ],
)  # fmt: skip
def test_what_is_neither_text_nor_a_column_is_refused_before_the_first_row(text: str) -> None:
    rows = [{"name": "lamp", "price": 2.5, "tags": ["a"]}]
    with pytest.raises(ValueError, match=r"\{.*\}"):
        questions_of(rows, f"Is {text} cheap?")


def test_rows_without_columns_have_no_fields() -> None:
    assert questions_of(["a"], 'Reply {"x": 1} for {{it}}.') == ['Reply {"x": 1} for {it}.\n\na']
    with pytest.raises(ValueError, match="no columns"):
        questions_of(["Rome"], "Where is {city}?")
