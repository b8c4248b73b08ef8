"""The time of a run, and that of a person, which does not count against it."""

from __future__ import annotations

import time
from collections.abc import Callable

from archytas_nb.kernel import routing
from archytas_nb.kernel.person import Person
from archytas_nb.kernel.signals import Limit, Watch
from archytas_nb.tools.tool import Tool


class Patient:
    """A person whose time to answer is nobody's: no limit runs on meanwhile, and nothing is captured.

    Args:
        person: Who is asked.
        on_question: Given each prompt before it is asked, and an empty text when it was answered or will not be.

    Attributes:
        watch: Keeps the limit of the call that runs now.
        waited: Seconds that the person has taken so far.
    """

    def __init__(self, person: Person, on_question: Callable[[str], None] | None = None) -> None:
        self._person = person
        self._on_question = on_question or (lambda _: None)
        self.watch = Watch()
        self.waited = 0.0

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return self._person.there

    def ask(self, prompt: str) -> str:
        """Ask; raises what the person's own `ask` raises."""
        started = time.monotonic()
        try:
            with self.watch.paused(), routing.paused():
                self._on_question(prompt)
                try:
                    return self._person.ask(prompt)
                finally:
                    self._on_question("")
        finally:
            self.waited += time.monotonic() - started


class Clock:
    """What is left of a run's time, but for the time that a person took to answer.

    Args:
        seconds: The time; None for no limit.
        person: The person.
    """

    def __init__(self, seconds: float | None, person: Patient) -> None:
        self._person = person
        self._ends = None if seconds is None else time.monotonic() - person.waited + seconds

    def _left(self) -> float | None:
        return None if self._ends is None else self._ends + self._person.waited - time.monotonic()

    def is_over(self) -> bool:
        """Whether nothing is left."""
        left = self._left()
        return left is not None and left <= 0

    def limit(self, tool: Tool, spent: float = 0.0) -> Limit | None:
        """How long a call of the tool may take, of which some time is spent already."""
        left = self._left()
        limits = (
            []
            if left is None
            else [Limit(max(left, 0.001), left + spent, "what was left of this run's time")]
        )
        if tool.timeout is not None:
            limits.append(
                Limit(max(tool.timeout - spent, 0.001), tool.timeout, "this tool's timeout")
            )
        return min(limits, key=lambda each: each.seconds, default=None)
