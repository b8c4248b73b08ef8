"""An answer gets the form that the question shows, whatever form a small model gives it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.small.form import HOLE, form_of, in_form

texts = st.text(st.sampled_from("ab:@=[]{}()'\"\\ \té"), max_size=6).map("|{}".format)
names = st.lists(st.sampled_from(["mean", "share", "most"]), min_size=1, max_size=3, unique=True)


def answer_of(program: str, **variables: Any) -> Any:
    found: list[Any] = []
    exec(program, variables | {"answer": found.append})
    return found[0]


@given(names, st.data())
def test_as_many_values_get_the_form_of_the_question(values: list[str], data: Any) -> None:
    form = ["".join(data.draw(texts).split())]
    form += [data.draw(texts) for _ in values[1:]]
    form.append("".join(data.draw(texts).split()))
    shown = HOLE.join(form)
    assert form_of(f"What is it?\nAnswer with: {shown} please") == tuple(form)
    given_form = data.draw(
        st.sampled_from([
            "f'" + "; ".join(f"{each}={{{each}:.2f}}" for each in values) + "'",
            "(" + ", ".join(f"round({each}, 2)" for each in values) + ",)",
            "{" + ", ".join(f"'{each}': round({each}, 2)" for each in values) + "}",
        ])
    )  # fmt: skip
    numbers = {each: 1.25 + place for place, each in enumerate(values)}
    program = in_form(f"x = 1\nanswer({given_form})\n", form)
    answer = answer_of(program, **numbers)
    expected = form[0] + "".join(
        f"{numbers[each]}{text}" for each, text in zip(values, form[1:], strict=True)
    )
    assert "".join(answer.split()) == "".join(expected.split())


@pytest.mark.parametrize(
    "program",
    [
        "answer(f'@a[{a:.1f}] @b[{b}]')",
        "answer(f'It is: @a[{a}]\\n@b[{b}].')",
        "answer(f'@a={a}')",
        "answer(f'{a}; {b}; {c}')",
        "answer(a)",
        "for each in a:\n    answer(f'{each}; {b}')",
        "a = (",
    ],
)
def test_other_programs_stay_as_they_are(program: str) -> None:
    assert in_form(program, form_of("Answer with: @a[{…}] @b[{…}]")) == program
    assert in_form(program, form_of("Answer with numbers {a}")) == program


@given(st.permutations(["mean", "share", "most"]), st.sampled_from(["f'{0}'", "{{{1}}}"]))
def test_values_belong_to_their_labels(order: list[str], written: str) -> None:
    text = "; ".join(f"{each}={{{each}}}" for each in order)
    pairs = ", ".join(f"'{each}': {each}" for each in order)
    program = f"answer({written.format(text, pairs)})"
    form = form_of("Answer with: @Mean[{…}] @Share[{…}] @Most[{…}]")
    answer = answer_of(in_form(program, form), mean=1, share=2, most=3)
    assert answer == "@Mean[1] @Share[2] @Most[3]"


def test_values_of_which_only_some_have_a_label_of_the_form_stay() -> None:
    program = "answer(f'most={most}; other={mean}')"
    assert in_form(program, form_of("Answer with: @mean[{…}] @most[{…}]")) == program
