"""The built-in tool by which the model asks the person something. Headless it never waits."""

from __future__ import annotations

from archytas_nb.kernel.dialogue import harmless, marked
from archytas_nb.kernel.person import Keyboard, NobodyThereError, Person, asked

_NO_ANSWER = "(The user gave no answer.)"
_TRIES = 20


def ask_user(question: str, choices: list[str] | None = None) -> str:
    """Ask the user a question and wait for the answer.

    Use it only for what no other tool can find out: a wish, a decision, something that only the user knows.

    Args:
        question: The question, in one or two sentences.
        choices: The answers to choose from; leave it out for a free answer.

    Returns:
        What the user answered: one of the choices, or their own words.
    """
    person = asked.get() or Keyboard()
    if not question.strip():
        raise ValueError("the question is empty; expected text to ask the user")
    if not person.there:
        raise NobodyThereError(
            "Nobody can be asked here: the notebook runs without a person."
            " Go on with what is known, or say in the final answer what must be decided first."
        )
    try:
        return _chosen(person, question, choices) if choices else _free(person, question)
    except (EOFError, OSError):
        raise NobodyThereError(
            "The user was asked, and no answer can come: the input has ended."
            " Go on with what is known, or say in the final answer what must be decided first."
        ) from None


def _free(person: Person, question: str) -> str:
    said = person.ask(f"The agent asks: {marked(question)}\n> ").strip()
    if not said:
        said = person.ask(
            "That was empty. Type an answer, or press Enter again to give none: "
        ).strip()
    return said or _NO_ANSWER


def _chosen(person: Person, question: str, choices: list[str]) -> str:
    listed = "\n".join(f"  {n}. {harmless(choice)}" for n, choice in enumerate(choices, 1))
    number = f"a number from 1 to {len(choices)}" if len(choices) > 1 else "1"
    prompt = f"The agent asks: {marked(question)}\n{listed}\n  0. something else\nAnswer with {number}, or 0: "
    for _ in range(_TRIES):
        said = person.ask(prompt).strip()
        folded = [choice for choice in choices if choice.strip().casefold() == said.casefold()]
        if folded and said:  # a choice may itself look like a number: its own words count first
            return folded[0]
        if said.isdecimal() and 1 <= int(said) <= len(choices):
            return choices[int(said) - 1]
        if said.isdecimal() and int(said) == 0:
            return person.ask("Your own answer: ").strip() or _NO_ANSWER
        prompt = (
            f"{harmless(said)!r} is none of them. Answer with {number}, or 0 for something else: "
        )
    return _NO_ANSWER
