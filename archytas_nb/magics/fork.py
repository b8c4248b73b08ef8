"""Implements ``%agent_fork``: begins a branch of the last question, or goes to another one."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from IPython.core.error import UsageError

from archytas_nb.conversation import Fork, History
from archytas_nb.fork import Beginning, beginning, go
from archytas_nb.magics.overview import NO_QUESTIONS, TextResult
from archytas_nb.prepare import Question, RunSetup
from archytas_nb.run import Run
from archytas_nb.words import collapse_whitespace, count

LastAsked: TypeAlias = tuple[Question, RunSetup, str]
"""The question of a cell as it was read, what it was asked with, and how it was written."""

_NO_BRANCHES = "the last question has no branches; %agent_fork 2 makes one from step 2"


class StartOfBranch(NamedTuple):
    """From where a branch begins.

    Attributes:
        before: The run that is forked.
        beginning: Its first steps.
        fork: The branches of the question so far; None if there is only one.
        asked: The question with its setup, as it was asked.
        title: From where it is forked, in words.
    """

    before: Run[Any]
    beginning: Beginning
    fork: Fork | None
    asked: LastAsked
    title: str

    @property
    def question(self) -> Question:
        """The question with the record of the first steps."""
        return self.asked[0]._replace(exchange=self.beginning.exchange)


def fork_from(history: History, last: LastAsked | None, text: str) -> StartOfBranch:
    """From where a branch of the last question begins.

    Args:
        history: The questions of the notebook.
        last: The last question as it was asked; None if none was.
        text: The number of a step, and what the agent is told before it.

    Raises:
        UsageError: There is no such step, or it cannot be forked.
    """
    number, _, said = text.strip().partition(" ")
    if not number.isdecimal():
        raise UsageError(
            f"{number!r} is not a step; expected a number: %agent_fork 3, then what to tell"
        )
    asked = history.asked[-1] if history.asked else None
    if asked is None or asked.exchange is None or last is None or asked.run is not history.last:
        raise UsageError(f"there is no question to fork: {NO_QUESTIONS}")
    if asked.run.question != last[0].exchange.question:
        raise UsageError("the last question was not asked in a cell: ask it with %agent to fork it")
    if not asked.run.is_watched:
        raise UsageError(
            "the extension did not watch what the last question changed, so it cannot go back to "
            "its steps: ask again with --python undoable, or set %config ArchytasNB.undo = True"
        )
    start = beginning(asked.run, asked.exchange, int(number), said.strip())
    fork = history.fork
    if fork is not None and fork.current is not asked:
        fork = None
    return StartOfBranch(
        asked.run, start, fork, last, f"a branch from step {number} of cell {asked.label}"
    )


def branches(history: History) -> TextResult:
    """The branches of the last question."""
    fork = _fork_of(history)
    if fork is None:
        return TextResult(_NO_BRANCHES)
    lines = [f"branches of: {collapse_whitespace(fork.current.run.question, 80)}"]
    for number, each in enumerate(fork.branches, 1):
        mark = "▸" if each is fork.current else " "
        steps = count(len(each.run.steps), "step")
        answer = collapse_whitespace(each.run.answer or each.run.reason, 60)
        lines.append(f"{mark} {number}. cell {each.label}, {each.run.model}, {steps}: {answer}")
    lines.append("%agent_fork --to 1 goes to the first one")
    return TextResult("\n".join(lines))


def go_to(history: History, number: int) -> TextResult:
    """Go to a branch of the last question; raises UsageError if there is none of this number."""
    fork = _fork_of(history)
    if fork is None:
        raise UsageError(_NO_BRANCHES)
    if not 1 <= number <= len(fork.branches):
        raise UsageError(f"there is no branch {number}; expected 1 to {len(fork.branches)}")
    notes = go(fork.current.run, fork.branches[number - 1].run)
    history.put_branch(number)
    answer = collapse_whitespace(fork.current.run.answer, 80)
    return TextResult(
        "\n".join([f"branch {number}: {answer}", *(f"note: {each}" for each in notes)])
    )


def _fork_of(history: History) -> Fork | None:
    """The branches of the last question; None if it has only one."""
    fork = history.fork
    if fork is None or fork.current.run is not history.last:
        return None
    return fork
