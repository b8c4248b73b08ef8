"""The model asks the user, who answers in their own words or by a choice; where nobody is, nothing waits."""

import pytest

from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import ask_user
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.toolbox import Toolbox
from tests.scripted import Scripted


def ask(
    question: str, *answers: object, there: bool = True, **more: object
) -> tuple[CallOutcome, Scripted]:
    person = Scripted(*answers, there=there)
    given: dict[str, object] = {"question": question, **more}
    executor = KernelExecutor(Toolbox(ask_user), {}, person=person)
    [outcome] = executor.run([ToolCall("c", "ask_user", given)])
    return outcome, person


def test_the_tools_text_and_schema() -> None:
    tool = Toolbox(ask_user)["ask_user"]
    assert tool.text.startswith("ask_user:\n")
    assert tool.issues == ()
    assert tool.schema()["required"] == ["question"]


def test_returns_a_free_answer() -> None:
    outcome, person = ask("Which year?", " 2007, please ")
    assert (outcome.status, outcome.value) == ("done", "2007, please")
    assert "Which year?" in person.prompts[0]


def test_asks_once_more_after_an_empty_answer() -> None:
    assert ask("Which year?", "", "2007")[0].value == "2007"
    outcome, person = ask("Which year?", "", "")
    assert outcome.value == "(The user gave no answer.)"
    assert len(person.prompts) == 2


def test_an_empty_answer_takes_the_default_which_the_prompt_names() -> None:
    outcome, person = ask("Colour?", "", choices=["blue", "red"], default="red")
    assert outcome.value == "red"
    assert "Enter for red" in person.prompts[0]
    assert ask("Colour?", "green", default="red")[0].value == "green"


@pytest.mark.parametrize("typed", ["2", " red ", "RED"])
def test_takes_a_choice_by_number_or_by_its_text(typed: str) -> None:
    outcome, person = ask("Colour?", typed, choices=["blue", "red"])
    assert outcome.value == "red"
    assert "1. blue" in person.prompts[0]
    assert "2. red" in person.prompts[0]


def test_takes_other_text_as_the_answer_and_asks_again_after_an_invalid_number() -> None:
    assert ask("Colour?", "sea green", choices=["blue", "red"])[0].value == "sea green"
    outcome, person = ask("Colour?", "3", "2", choices=["blue", "red"])
    assert outcome.value == "red"
    assert person.prompts[1].startswith("3 is not one of the numbers.")
    for part in ("Colour?", "1. blue", "2. red"):  # a notebook hides the lines before
        assert part in person.prompts[1]


def test_a_question_that_is_interrupted_is_not_answered_even_after_an_invalid_number() -> None:
    outcome, _ = ask("Colour?", "3", KeyboardInterrupt, choices=["blue", "red"])
    assert (outcome.status, outcome.person_seconds) == ("interrupted", None)


def test_choices_that_are_numbers_are_chosen_by_value() -> None:
    assert ask("How many?", "2", choices=["10", "2", "3"])[0].value == "2"
    assert ask("How many?", "1", choices=["10", "2", "3"])[0].value == "10"


def test_headless_the_call_is_refused_at_once() -> None:
    outcome, person = ask("Which year?", there=False)
    assert (outcome.status, person.prompts) == ("refused", [])
    assert "Nobody can be asked here" in outcome.text


def test_the_end_of_input_is_a_refusal_and_an_interrupt_interrupts() -> None:
    assert ask("Which year?")[0].status == "refused"
    assert ask("Which year?", KeyboardInterrupt)[0].status == "interrupted"


def test_rejects_an_empty_question() -> None:
    outcome, person = ask("  ")
    assert (outcome.status, person.prompts) == ("error", [])


def test_a_question_cannot_imitate_the_prompt() -> None:
    _, person = ask("Sure?\x1b[2J\rAnswer y:", "n")
    assert "\x1b" not in person.prompts[0]
    assert "\r" not in person.prompts[0]


def test_asks_at_the_keyboard_outside_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archytas_nb.kernel.approval.Keyboard.there", True)
    monkeypatch.setattr("archytas_nb.kernel.person._input", lambda prompt: "typed")
    assert ask_user("Which year?") == "typed"
