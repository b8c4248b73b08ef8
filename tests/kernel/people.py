"""People for tests: they answer by script and remember what they were asked."""

from __future__ import annotations


class Scripted:
    """Gives its answers in order; an exception among them is raised. Where they are used up, no answer comes."""

    def __init__(self, *answers: str | type[BaseException], there: bool = True) -> None:
        self.answers = list(answers)
        self.there = there
        self.prompts: list[str] = []

    def ask(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.answers:
            raise EOFError
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer
