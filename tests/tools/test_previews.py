"""Previews of data: the end of what is long, and the values of what stands inside another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb.tools.render import render


@pytest.mark.parametrize(
    "long",
    [
        pd.DataFrame({"a": range(5000, 6000)}),
        pd.Series(range(5000, 6000)),
        pd.Index(range(5000, 6000)),
        np.arange(5000, 6000),
        pl.DataFrame({"a": range(5000, 6000)}),
        pl.Series("a", range(5000, 6000)),
    ],
    ids=lambda each: f"{type(each).__module__.split('.')[0]}.{type(each).__name__}",
)
def test_a_long_value_shows_its_first_and_its_last_rows(long: Any) -> None:
    text = render(long).text
    assert "5000" in text
    assert "5999" in text
    assert "5500" not in text
    assert not render(long).complete


def test_a_series_is_cut_by_position_whatever_its_index() -> None:
    labels = [n / 2 for n in range(1000)]
    series = pd.Series(range(5000, 6000), index=labels)
    for value in (series, {"a": series}):
        text = render(value).text
        assert "5009" in text
        assert "5995" in text
        assert "5010" not in text


def test_long_texts_in_data_inside_a_value_are_cut() -> None:
    rendered = render([pd.Series(["x" * 10_000] * 5)], 100_000)
    assert len(rendered.text) < 700
    assert not rendered.complete


@pytest.mark.parametrize("rows", [21, 25])
def test_no_row_is_shown_twice(rows: int) -> None:
    text = render(pd.DataFrame({"a": range(5000, 5000 + rows)})).text
    assert all(text.count(str(5000 + n)) <= 1 for n in range(rows))


def test_a_value_without_rows_has_no_first_and_last_rows() -> None:
    wide = pd.DataFrame({f"c{n}": [] for n in range(30)})
    assert "rows:" not in render(wide).text


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        (np.array([1.5, 2.5]), ["1.5", "2.5"]),
        (np.array([[1, 2], [3, 4]]), ["[1, 2], [3, 4]"]),
        (np.arange(5000, 6000), ["5000", "5999", "shape 1000"]),
        (np.arange(5000, 6000).reshape(100, 10), ["5000", "5999", "shape 100 × 10"]),
        (pd.Series(["x", "y"]), ["x", "y"]),
        (pd.Index(["x", "y"]), ["x", "y"]),
        (pl.Series("a", ["x", "y"]), ["x", "y"]),
        (pd.DataFrame({"weight": [1], "height": [2]}), ["shape 1 × 2", "weight", "height"]),
        (pl.DataFrame({"weight": [1], "height": [2]}), ["shape 1 × 2", "weight", "height"]),
        (np.array([]), ["shape 0"]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_data_inside_a_value_shows_what_is_in_it(inner: Any, shown: list[str]) -> None:
    for value in ({"a": inner}, [inner], {"a": {"b": [inner]}}):
        rendered = render(value)
        assert all(each in rendered.text for each in shown), rendered.text
        assert not rendered.plain
        assert len(rendered.text) < 700


def test_a_value_that_shows_only_a_part_of_its_data_is_not_complete() -> None:
    assert render({"a": np.arange(3)}).complete
    assert not render({"a": np.arange(3000)}).complete
    assert not render({"a": pd.DataFrame({"b": [1]})}).complete
