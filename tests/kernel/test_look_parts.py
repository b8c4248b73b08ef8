"""Long texts and parts of variables that a model looks at, and the statistics of columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.look import look_tools

[_, LOOK] = look_tools()


def looked(name: str, what: str = "head", **names: Any) -> str:
    return LOOK.call({"name": name, "what": what}, names).text


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1), st.integers(1, 40)
)
def test_a_text_of_any_length_can_be_read_to_its_end(piece: str, times: int) -> None:
    text = (piece * 500)[: 500 * times] or piece
    read = ""
    name = "text"
    while name:
        shown = looked(name, text=text)
        found = re.search(r"\n\(go on with (text\[\d+:\d+\])\)", shown)
        if found is not None:
            part = shown[: found.start()].partition("the first 500:\n")[2][:-1]
            assert len(part) == 500
        else:
            part = shown.partition(": ")[2].removeprefix("…" if read else "")
            part = part.removesuffix("…") if len(read) + 3000 < len(text) else part
        read += part
        name = found[1] if found is not None else ""
        if found is None and len(read) < len(text):
            name = f"text[{len(read)}:{len(read) + 3000}]"
    assert read.strip() == text.strip() or not text.strip()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("x[1:3]", [1, 2, 3, 4], "x[1:3]: [2, 3]"),
        ("x[ 2: ]", (1, 2, 3, 4), "x[2:]: [3, 4]"),
        ("x[1:2]", pd.DataFrame({"a": [1, 2, 3]}), "x[1:2]: DataFrame 1 × 1 (int64)\na\n2"),
        ("x[1:2]", pl.DataFrame({"a": [1, 2, 3]}), "x[1:2]: DataFrame 1 × 1 (Int64)\na\n2"),
        ("x[0:2]", np.arange(9), "x[0:2]: ndarray 2 int64\n[0, 1]"),
        ("x[0:2]", {"a": 1}, "has no order"),
    ],
)
def test_a_part_of_a_variable_is_shown(name: str, value: Any, text: str) -> None:
    assert text in looked(name, x=value)


def test_the_secrets_of_a_variable_have_no_parts() -> None:
    assert "is not shown" in looked("api_key[0:3]", api_key="abc-123-def")


@given(st.lists(st.integers(-1000, 1000) | st.none(), min_size=1, max_size=60))
def test_the_statistics_of_numbers_agree_with_pandas(values: list[int | None]) -> None:
    series = pd.Series(values, dtype="float64")
    for frame in (
        pd.DataFrame({"n": series}),
        pl.DataFrame({"n": pl.Series(values, dtype=pl.Float64)}),
    ):
        line = looked("frame", "describe", frame=frame).split("\n")[1]
        counts = series.value_counts()
        has_list = bool(re.search(r"\d×", line))
        assert has_list == (bool(len(counts)) and counts.max() > 1 and len(counts) <= 20)
        if series.notna().any():
            found = re.search(r"quartiles (\S+), (\S+), ([^;\s]+)", line)
            assert found is not None
            assert [*map(float, found.groups())] == pytest.approx(
                [*series.quantile([0.25, 0.5, 0.75])], rel=1e-5
            )


def test_values_that_occur_once_are_examples() -> None:
    line = looked("frame", "describe", frame=pd.DataFrame({"k": [f"id {n}" for n in range(50)]}))
    assert line.endswith("50 different values, such as id 0, id 1, id 2")
    line = looked("frame", "describe", frame=pd.DataFrame({"k": ["a", "b"]}))
    assert line.endswith("2 different values: a, b")
