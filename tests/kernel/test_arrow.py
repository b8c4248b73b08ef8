"""A column of arrow is unchanged as long as nothing changes it, wherever its empty buffers lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.undo.tables import Contents
from archytas_nb.undo.transaction import Transaction

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

TEXTS = st.sampled_from(["", "", "a", "long enough to be counted"])
TYPES = {
    "str": TEXTS,
    "binary[pyarrow]": TEXTS.map(str.encode),
    "int64[pyarrow]": st.integers(0, 3),
    "bool[pyarrow]": st.booleans(),
    "category": TEXTS,
    "list": st.lists(st.integers(0, 3), max_size=2),
}


@st.composite
def columns(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(sorted(TYPES)))
    values = draw(st.lists(st.none() | TYPES[kind], max_size=4))
    dtype = pd.ArrowDtype(pa.list_(pa.int64())) if kind == "list" else kind
    return pd.Series(values, dtype=dtype, name="comment")


@given(columns(), st.sampled_from(["series", "frame", "index", "list"]))
def test_a_column_that_nothing_touched_is_unchanged(column: Any, form: str) -> None:
    value: Any = {
        "series": lambda: column,
        "frame": lambda: pd.DataFrame({"a": column, "n": range(len(column))}),
        "index": lambda: pd.DataFrame({"n": range(len(column))}, index=pd.Index(column)),
        "list": lambda: [column, {"b": column}],
    }[form]()
    variables = {"data": value}
    with Transaction(None, variables, 1 << 30) as transaction:
        variables["n"] = 1
    assert [each.name for each in transaction.diff.changes] == ["n"]


def hash_of(values: list[Any]) -> int:
    return hash(repr(values))


@given(st.lists(TEXTS | st.none(), min_size=1, max_size=4))
def test_equal_columns_have_equal_fingerprints(texts: list[str | None]) -> None:
    one, other = (pd.Series(texts, dtype="str") for _ in range(2))
    assert Contents(hash_of).of(one) == Contents(hash_of).of(other)
