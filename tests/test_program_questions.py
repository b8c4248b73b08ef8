"""Questions that are answered by programs, with the real sandbox."""

from __future__ import annotations

from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

BILLS = {"Adelie": 38.8, "Chinstrap": 48.8, "Gentoo": 47.5}


def average(species: str) -> float:
    """The average length of the bill.

    Args:
        species: The species
    """
    return BILLS[species]


def asked(*replies: Any, **options: Any) -> nb.Agent:
    model = ScriptedModel(*replies, protocol="program")
    return nb.Agent([average], model=model, **{"namespace": {}, **options})


COMPARE = """```python
bills = {each: average(species=each) for each in ["Adelie", "Chinstrap", "Gentoo"]}
first, second = sorted(bills, key=bills.get, reverse=True)[:2]
answer(f"{first}, by {bills[first] - bills[second]:.1f} mm over {second}.")
```"""


def test_one_program_compares_what_three_calls_returned() -> None:
    run = asked(COMPARE).run("Which species has the longest bill, and by how much?")
    assert run.answer == "Chinstrap, by 1.3 mm over Gentoo."
    assert [call.input["species"] for call, _ in run.calls] == list(BILLS)
    assert run.usage.requests == 1


def test_the_calls_of_a_script_are_programs() -> None:
    agent = asked(("I look.", "average", {"species": "Gentoo"}), ("final_answer", "47.5"))
    run = agent.run("How long is it?")
    assert run.answer == "47.5"
    assert len(run.calls) == 1


def test_variables_of_programs_stay_for_the_conversation_and_not_for_the_notebook() -> None:
    variables: dict[str, Any] = {"limit": 48}
    agent = asked(
        COMPARE, "```python\nanswer([each for each in bills if bills[each] > limit])\n```",
        namespace=variables,
    )  # fmt: skip
    agent.run("Which?")
    assert agent.run("Which are above the limit?").answer == '["Chinstrap"]'
    assert variables == {"limit": 48}


def test_a_question_that_is_forgotten_takes_its_variables_with_it() -> None:
    agent = asked(COMPARE, "```python\nanswer(bills)\n```", ("final_answer", "none"))
    agent.run("Which?")
    agent.forget_last()
    run = agent.run("And the bills?")
    assert run.answer == "none"


@pytest.mark.parametrize(("output_type", "value"), [(int, 3), (list[float], [1.5, 2.0])])
def test_the_value_of_the_answer_has_the_type(output_type: Any, value: Any) -> None:
    agent = asked(f"```python\nanswer({value!r})\n```")
    assert agent.run("How many?", output_type=output_type).value == value
