"""The dialogue goes on until the person's will is clear, and does only that."""

import pytest

from archytas_nb.kernel.approval import ApprovalDialogue, Decision
from archytas_nb.tools.tool import BoundCall, Tool
from tests.kernel.people import Scripted


def pay(to: str, amount: int, note: str = "") -> str:
    """Pay.

    Args:
        to: Who gets it
        amount: How much
        note: A note
    """
    return f"{to} got {amount}"


TOOL = Tool.from_function(pay)
GIVEN = {"to": "Ann", "amount": 5}


def decide(*answers: str | type[BaseException], given: object = GIVEN) -> tuple[Decision, Scripted]:
    person = Scripted(*answers)
    bound = TOOL.bind(given)
    assert isinstance(bound, BoundCall)
    return ApprovalDialogue(person, TOOL, given, bound, {}).decide(), person


def test_yes_runs_the_call_once_and_always_says_so() -> None:
    decision, person = decide("y")
    assert decision.bound is not None
    assert decision.bound.kwargs["amount"] == 5
    assert not decision.always
    assert decide("a")[0].always
    assert 'to = "Ann"' in person.prompts[0]
    assert "amount = 5" in person.prompts[0]


def test_no_asks_for_a_reason_that_may_be_left_out() -> None:
    assert decide("n", "too much")[0].refusal == "The user refused this call. The reason: too much"
    assert decide("n", "")[0].refusal == "The user refused this call."
    assert decide("n, too much")[0].refusal == "The user refused this call. The reason: too much"


def test_several_words_refuse_only_after_a_yes() -> None:
    refused, person = decide("that is too much", "y")
    assert refused.refusal.endswith("The reason: that is too much")
    assert "'that is too much'" in person.prompts[1]
    assert decide("yes please", "n", "y")[0].bound is not None


def test_a_word_that_is_no_choice_decides_nothing_and_the_person_is_told() -> None:
    decision, person = decide("yep", "", "y")
    assert decision.bound is not None
    assert "'yep' is none of the choices. Nothing was run yet." in person.prompts[1]
    assert "Nothing was run yet." in person.prompts[2]


def test_help_explains_every_choice_and_asks_again() -> None:
    decision, person = decide("?", "s")
    assert decision.stop
    assert decision.bound is None
    for words in (
        "this once",
        "do not ask again for pay",
        "change its input",
        "reason for the model",
        "whole run",
    ):
        assert words in person.prompts[1]
    assert "Ann" not in person.prompts[1]  # the call stands above, and is not shown again


def test_an_edited_input_is_validated_shown_again_and_then_run() -> None:
    decision, person = decide(
        "e", '{"to": "Bob", "amount": "many"}', '{"to": "Bob", "amount": 3}', "y"
    )
    assert decision.bound is not None
    assert decision.bound.kwargs == {"to": "Bob", "amount": 3}
    assert decision.edited == '{"to": "Bob", "amount": 3}'
    assert '{"to": "Ann", "amount": 5}' in person.prompts[1]
    assert "integer" in person.prompts[2]
    assert 'to = "Bob"' in person.prompts[3]


def test_one_argument_is_edited_by_name_and_a_fault_of_spelling_asks_again() -> None:
    decision, person = decide("e", "amount: 4", "amount = 4", "y")
    assert "neither JSON nor a Python value" in person.prompts[2]
    assert decision.edited == '{"to": "Ann", "amount": 4}'


def test_an_edit_that_is_given_up_leaves_the_call_as_it_was() -> None:
    decision, _ = decide("e", "", "y")
    assert (decision.edited, decision.bound and decision.bound.kwargs["to"]) == ("", "Ann")


def test_an_edited_call_can_still_be_refused() -> None:
    assert decide("e", "amount = 4", "n", "")[0].bound is None


def test_who_never_gives_a_clear_answer_has_not_agreed() -> None:
    assert "no clear answer" in decide(*["hm"] * 100)[0].refusal


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError])
@pytest.mark.parametrize("before", [[], ["n"], ["e"], ["some reason here"]])
def test_an_interrupt_and_the_end_of_input_pass_through_every_prompt(
    stop: type[BaseException], before: list[str]
) -> None:
    with pytest.raises(stop):
        decide(*before, stop)
