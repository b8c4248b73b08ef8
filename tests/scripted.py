"""A person who answers by script; a test fails if one of the answers was never asked for."""

from __future__ import annotations

from typing import Any, ClassVar

from archytas_nb.loop.events import ApprovalForm


class Scripted:
    """Gives its answers in order; an exception among them is raised. Where they are used up, no answer comes."""

    of_this_test: ClassVar[list[Scripted]] = []

    def __init__(self, *answers: Any, there: bool = True) -> None:
        self.answers = list(answers)
        self.there = there
        self.prompts: list[str] = []
        Scripted.of_this_test.append(self)

    def ask(self, prompt: str, form: Any = None) -> str:
        is_approval = isinstance(form, ApprovalForm)
        self.prompts.append(f"{form.text}\n{prompt}" if is_approval else prompt)
        if not self.answers:
            raise EOFError
        answer = self.answers.pop(0)
        if isinstance(answer, type) and issubclass(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


def unused_answers() -> list[Any]:
    """The answers of the test's persons that nobody asked for; forgets the persons."""
    unused = [answer for each in Scripted.of_this_test for answer in each.answers]
    Scripted.of_this_test.clear()
    return unused
