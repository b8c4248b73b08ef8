"""A run's time goes on but while a person is asked."""

import time

import pytest

from archytas_nb.kernel.execute import Deadline, PausingPerson
from archytas_nb.tools.tool import Tool
from tests.kernel.people import Scripted


def work() -> None:
    """Work."""


def test_the_shorter_of_the_tools_limit_and_what_is_left_counts_and_is_named() -> None:
    tool, free = Tool.from_function(work, timeout=5), Tool.from_function(work)
    person = PausingPerson(Scripted())
    long, short, none = Deadline(100, person), Deadline(1, person), Deadline(None, person)
    own = long.limit(tool, 2.0)
    assert own is not None
    assert (own.seconds, str(own)) == (3.0, "5 s, which is this tool's timeout")
    left = short.limit(tool)
    assert left is not None
    assert left.seconds <= 1
    assert "what was left of this run's time" in str(left)
    assert none.limit(free) is None
    assert none.left() is None


def test_the_time_of_an_answer_is_given_back() -> None:
    class Slow(Scripted):
        def ask(self, prompt: str) -> str:
            time.sleep(0.3)
            return super().ask(prompt)

    person = PausingPerson(Slow("y"))
    clock = Deadline(0.2, person)
    assert (person.there, person.ask("?")) == (True, "y")
    assert person.waited >= 0.3
    assert (clock.left() or 0) > 0
    time.sleep(0.25)
    assert (clock.left() or 0) <= 0


def test_who_watches_knows_when_a_person_is_asked_and_when_no_more() -> None:
    told: list[str] = []
    person = PausingPerson(Scripted("y", KeyboardInterrupt), told.append)
    assert person.ask("Run it?") == "y"
    with pytest.raises(KeyboardInterrupt):
        person.ask("And this?")
    assert told == ["Run it?", "", "And this?", ""]
