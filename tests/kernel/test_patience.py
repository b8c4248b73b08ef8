"""A run's time goes on but while a person is asked."""

import time

import pytest

from archytas_nb.kernel.patience import Clock, Patient
from archytas_nb.tools.tool import Tool
from tests.kernel.people import Scripted


def work() -> None:
    """Work."""


def test_the_shorter_of_the_tools_limit_and_what_is_left_counts_and_is_named() -> None:
    tool, free = Tool.from_function(work, timeout=5), Tool.from_function(work)
    person = Patient(Scripted())
    long, short, none = Clock(100, person), Clock(1, person), Clock(None, person)
    own = long.limit(tool, 2.0)
    assert own is not None
    assert (own.seconds, str(own)) == (3.0, "5 s, which is this tool's timeout")
    left = short.limit(tool)
    assert left is not None
    assert left.seconds <= 1
    assert "what was left of this run's time" in str(left)
    assert none.limit(free) is None
    assert not none.is_over()


def test_the_time_of_an_answer_is_given_back() -> None:
    class Slow(Scripted):
        def ask(self, prompt: str) -> str:
            time.sleep(0.3)
            return super().ask(prompt)

    person = Patient(Slow("y"))
    clock = Clock(0.2, person)
    assert (person.there, person.ask("?")) == (True, "y")
    assert person.waited >= 0.3
    assert not clock.is_over()
    time.sleep(0.25)
    assert clock.is_over()


def test_who_watches_knows_when_a_person_is_asked_and_when_no_more() -> None:
    told: list[str] = []
    person = Patient(Scripted("y", KeyboardInterrupt), told.append)
    assert person.ask("Run it?") == "y"
    with pytest.raises(KeyboardInterrupt):
        person.ask("And this?")
    assert told == ["Run it?", "", "And this?", ""]
