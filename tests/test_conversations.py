"""The conversations of a notebook, asked without a notebook."""

from __future__ import annotations

import archytas_nb as nb
from archytas_nb.conversation import Conversation, History
from archytas_nb.namespace import Cell
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel


def ask(history: History, question: str, cell: Cell, *, new: bool = False) -> list[str]:
    """Ask a question in a cell, and return the questions that its request contains."""
    model = ScriptedModel(("final_answer", f"Answer to {question}"))
    agent = nb.Agent(tools=[], model=model, context="none")
    origin = history.origin(cell)

    def run(conversation: Conversation, _: str) -> Run:
        agent._conversation = conversation
        return agent.run(question, origin=origin, progress=False)

    history.ask(run, origin, cell, new=new)
    return [str(each["content"]) for each in model.asked[-1].messages if each["role"] == "user"]


def test_a_question_continues_the_one_before_it() -> None:
    history = History()
    assert ask(history, "one", Cell("a", "1", 1)) == ["one"]
    assert ask(history, "two", Cell("b", "2", 2)) == ["one", "two"]
    assert ask(history, "three", Cell("c", "3", 3), new=True) == ["three"]
    assert [each.question for each in history.exchanges] == ["three"]


def test_a_cell_that_is_run_again_asks_in_its_own_place() -> None:
    history = History()
    ask(history, "one", Cell("a", "1", 1))
    ask(history, "two", Cell("b", "2", 2))
    assert ask(history, "uno", Cell("a", "3", 3)) == ["uno"]
    assert [each.question for each in history.exchanges] == ["uno", "two"]
    assert ask(history, "dos", Cell("b", "4", 4)) == ["uno", "dos"]


def test_two_questions_of_one_cell_have_places_of_their_own() -> None:
    history = History()
    ask(history, "one", Cell("a", "1", 1))
    assert ask(history, "two", Cell("a", "1", 1)) == ["one", "two"]
    assert ask(history, "uno", Cell("a", "2", 2)) == ["uno"]
    assert ask(history, "dos", Cell("a", "2", 2)) == ["uno", "dos"]


def test_questions_without_a_cell_are_added() -> None:
    history = History()
    ask(history, "one", Cell("", "", 1))
    assert ask(history, "one", Cell("", "", 2)) == ["one", "one"]


def test_a_question_that_is_undone_is_forgotten_and_the_one_before_it_is_the_last() -> None:
    history = History()
    ask(history, "one", Cell("a", "1", 1))
    ask(history, "two", Cell("b", "2", 2))
    undone = history.forget_last()
    assert undone is not None
    assert undone.question == "two"
    assert history.last is not None
    assert history.last.question == "one"
    assert [each.question for each in history.exchanges] == ["one"]
    assert history.forget_last() is not None
    assert history.forget_last() is None
    assert history.last is None


def test_a_reset_forgets_the_conversation() -> None:
    history = History()
    ask(history, "one", Cell("a", "1", 1))
    assert [len(each) for each in history.paid()] == [1, 1, 1]
    history.reset()
    assert history.exchanges == []
    assert [len(each) for each in history.paid()] == [0, 0, 1]  # the kernel has paid for it
    assert ask(history, "two", Cell("b", "2", 2)) == ["two"]
