"""A value in a line for a person: no name of a library's type around a number."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.undo.reads import shown


@given(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1), st.text(max_size=20))
def test_scalars_of_numpy_are_written_as_those_of_python(
    number: float, whole: int, text: str
) -> None:
    assert shown(np.float64(number)) == shown(number)
    assert shown(np.int64(whole)) == shown(whole)
    assert shown([np.float64(number), {"n": np.int64(whole)}]) == shown([number, {"n": whole}])
    plain = text.rstrip("\0")
    assert shown((np.str_(plain), np.bool_(True))) == shown((plain, True))


@pytest.mark.parametrize("value", [np.array([1, 2]), Decimal("1.5"), None, "1.5"])
def test_other_values_are_what_they_were(value: object) -> None:
    assert "np." not in shown(value)
