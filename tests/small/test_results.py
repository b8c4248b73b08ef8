"""The names under which a program unpacks a result, beside the names of its parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.small.results import misnamed


class Found(NamedTuple):
    """A result."""

    statistic: float = 1.5
    pvalue: float = 0.25
    dof: int = 8


PARTS = Found._fields
FIELDS = {"test(a, b)": PARTS}
SHORT = {"statistic": ["stat", "t_stat", "_"], "pvalue": ["p", "p_value", "PVal", "t_p"], "dof": ["dof", "d"]}  # fmt: skip


@given(st.data())
def test_names_that_are_short_for_the_parts_stay(data: Any) -> None:
    names = [data.draw(st.sampled_from(SHORT[each])) for each in PARTS]
    text = ", ".join(f"{each}={{{each}}}" for each in names)
    program = f"{', '.join(names)} = test(a, b)\nanswer(f'{text}')"
    assert misnamed(program, FIELDS) is None


@given(st.permutations(PARTS), st.data())
def test_each_part_gets_its_name_in_whatever_order_it_is_unpacked(
    order: list[str], data: Any
) -> None:
    short = {each: data.draw(st.sampled_from(SHORT[each][:2])) for each in PARTS}
    names = [short[each] for each in order]
    program = f"x = 1\n{', '.join(names)} = test(a, b)\nanswer({short['pvalue']})"
    found = misnamed(program, FIELDS)
    if order == list(PARTS):
        assert found is None
        return
    given_: list[float] = []
    variables: dict[str, Any] = {
        "test": lambda *_: Found(), "a": 0, "b": 0, "answer": given_.append
    }  # fmt: skip
    if found is None:  # the part of this name may be called anything
        assert order[1] == "pvalue"
        return
    exec(found.ran, variables)
    assert given_ == ([] if found.name else [0.25])
    assert not found.name or found.name not in variables


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("answer(f'related={related}')", "related"),
        ("text = f'{related}'\nanswer(f'related={related}')", "related"),
        ("related = related < 0.05\nanswer(f'related={related}')", "related"),
        ("related = 'no'\nanswer(f'related={related}')", ""),
    ],
)
def test_the_program_is_kept_up_to_where_a_wrong_name_is_read(rest: str, name: str) -> None:
    found = misnamed(f"r, related, n = test(a, b)\nmore = 1\n{rest}", FIELDS)
    assert found is not None
    assert found.name == name
    assert "r, pvalue, n = test(a, b)\nmore = 1" in found.ran
    assert ("answer" in found.ran) == (not name)


@pytest.mark.parametrize(
    "rest", ["answer(f'{related}')", "answer('yes' if related < 0.05 else 'no')",
             "answer(f'm1={m1}')"],
)  # fmt: skip
def test_a_name_that_is_not_what_the_answer_says_it_is_stays(rest: str) -> None:
    assert misnamed(f"r, related, m1 = test(a, b)\n{rest}", FIELDS) is None


def test_what_is_not_unpacked_name_by_name_stays() -> None:
    for first in ("r, *related = test(a, b)", "r, (related, n) = test(a, b)", "r = test(a, b)"):
        assert misnamed(f"{first}\nanswer(f'related={{related}}')", FIELDS) is None
