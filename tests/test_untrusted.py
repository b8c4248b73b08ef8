"""JSON of other programs: each part is read, and each that cannot be passed on is found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.untrusted import MAX_DEPTH, fault, read

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS, lambda part: st.lists(part) | st.dictionaries(TEXTS, part), max_leaves=20
)
FAULTS = [
    b"NaN", b"-Infinity", b"Infinity", b"1e999", b"-1e999", b"1" * 5_000, b'"\\ud83d"', b'"a\\udc00b"', b'"\xff"',
    b'"\xed\xa0\x80"', b'{"\\ud83d": 1}', b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
]  # fmt: skip


@given(VALUES, st.booleans())
def test_what_is_json_is_read_and_has_no_fault(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert read(text) == value
    assert fault(value) is None


@given(VALUES, st.sampled_from(FAULTS), VALUES, st.integers(0, 20))
def test_a_fault_is_found_wherever_it_is_and_the_parts_beside_it_are_whole(
    before: Any, bad: bytes, after: Any, depth: int
) -> None:
    parts = (json.dumps(before).encode(), bad, json.dumps(after).encode())
    text = b"[" * depth + b"[%s, %s, %s]" % parts + b"]" * depth
    found = read(text)
    for _ in range(depth):
        [found] = found
    assert found[0] == before
    assert found[2] == after
    assert fault(found[1]) is not None
    assert fault(found) is not None


@given(st.integers(0, 400), st.sampled_from(["[", "{"]))
def test_a_depth_is_permitted_to_the_level_and_not_beyond(depth: int, kind: str) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "[" else {"a": value}
    assert (fault(value) is None) == (depth <= MAX_DEPTH)
    assert (fault(value, 150) is None) == (depth <= 150)
    assert (fault(read(json.dumps(value).encode()), 150) is None) == (depth <= 150)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_no_json(text: bytes) -> None:
    try:
        found = read(text)
    except ValueError:
        return
    assert fault(found) is None or isinstance(fault(found), str)


@pytest.mark.parametrize("text", [b"", b"{", b'"' + b"[" * 100_000, b"[" * 100_000, b"[1] [2]"])
def test_what_is_no_json_as_a_whole_is_refused(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        read(text)


def test_values_that_only_python_has_are_faults() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for value in (object(), {1, 2}, b"bytes", itself, [object()], {"a": {1}}):
        assert fault(value) is not None
