"""Counts how often an agent's answers are right, with an interval for what was not asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archytas_nb.batch.map import Plan, ask_all, model_name
from archytas_nb.loop.events import Usage
from archytas_nb.trace.safe import Table
from archytas_nb.trace.text import grid_lines

_Z = 1.959964  # 95 %


class Score(NamedTuple):
    """How often the answers of a model were right, to one question or to all.

    ``rate`` is the share of the runs that ended; its 95 % interval (Wilson's) is from ``low`` to
    ``high``. Runs that could not be asked about, as at the end of a budget, are left out.
    """

    model: str
    question: str
    passed: int
    runs: int
    tokens: int
    usd: float

    @property
    def rate(self) -> float:
        """The share of runs that passed; not a number where there was none."""
        return self.passed / self.runs if self.runs else math.nan

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return wilson(self.passed, self.runs)[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return wilson(self.passed, self.runs)[1]


@dataclass(frozen=True)
class Evaluation:
    """The scores of one or several models.

    Attributes:
        cases: One for each model and question.
        totals: One for each model.
    """

    cases: tuple[Score, ...]
    totals: tuple[Score, ...]

    @property
    def rate(self) -> float:
        """The pass rate of the first model."""
        return self.totals[0].rate

    def __repr__(self) -> str:
        """A line for each question and one for all, the models side by side."""
        head = ["question"]
        for each in self.totals:
            head += [each.model, "95 %", "tokens", "USD"]
        questions = list(dict.fromkeys(each.question for each in self.cases))
        rows = [[each for each in self.cases if each.question == text] for text in questions]
        lines = [(cells[0].question, *_cells(cells)) for cells in [*rows, list(self.totals)]]
        table = Table(tuple(head), tuple(lines))
        return "\n".join(grid_lines(table, len(lines), width=10_000, cell=60))


def evaluate(
    settings: dict[str, Any], cases: Sequence[Any], runs: int, models: Sequence[Any], plan: Plan
) -> Evaluation:
    """Ask every question `runs` times with each model; the arguments are those of `Agent`."""
    if isinstance(runs, bool) or not (isinstance(runs, int) and runs >= 1):
        raise ValueError(f"runs is {runs!r}; expected a whole number above 0")
    read = [_case(each, typed=plan.output_type is not None) for each in cases]
    if not read:
        raise ValueError("there are no cases; expected tuples (question, expected)")
    asked = [(case, run) for case in read for run in range(runs)]
    questions, salts = [case[0] for case, _ in asked], [str(run) for _, run in asked]
    scores, totals = [], []
    models = models or [settings["model"]]
    names = [model_name(each) for each in models]
    for at, model in enumerate(models):
        given = {**settings, "model": model}
        name = names[at] if names[at] not in names[:at] else f"{names[at]} ({at + 1})"
        found, values = ask_all(given, questions, replace(plan, name=name), salts)
        mine = []
        for number, (question, expected, check) in enumerate(read):
            span = slice(number * runs, (number + 1) * runs)
            ended = [
                (result, value)
                for result, value in zip(found[span], values[span], strict=True)
                if result.status != "open"
            ]
            passed = sum(
                result.status == "done" and bool(check(value, expected)) for result, value in ended
            )
            used = sum((result.usage for result, _ in ended), Usage())
            tokens = used.input_tokens + used.output_tokens
            mine.append(Score(name, question, passed, len(ended), tokens, used.usd))
        scores += mine
        passed, ended_runs = sum(each.passed for each in mine), sum(each.runs for each in mine)
        cost = sum(each.tokens for each in mine), sum(each.usd for each in mine)
        totals.append(Score(name, f"all {len(read)}", passed, ended_runs, *cost))
    return Evaluation(tuple(scores), tuple(totals))


def wilson(passed: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a rate; from 0 to 1 where nothing was run."""
    if not runs:
        return 0.0, 1.0
    rate, spread = passed / runs, _Z * _Z / runs
    middle = rate + spread / 2
    half = _Z * math.sqrt(rate * (1 - rate) / runs + spread / (4 * runs))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def _case(given: Any, *, typed: bool) -> tuple[str, Any, Callable[[Any, Any], Any]]:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise ValueError(f"a case is {given!r}; expected (question, expected[, check])")
    question, expected, check = (*given, None)[:3]
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"a case's question is {question!r}; expected text")
    if check is not None and not callable(check):
        raise ValueError(f"a case's check is {check!r}; expected a function of answer and expected")
    return question, expected, check or (_is_equal if typed else _contains)


def _is_equal(answer: Any, expected: Any) -> bool:
    return bool(answer == expected)


def _contains(answer: Any, expected: Any) -> bool:
    return str(expected).casefold() in str(answer).casefold()


def _cells(scores: Sequence[Score]) -> list[str]:
    cells = []
    for each in scores:
        cells += [f"{each.passed}/{each.runs}", f"{each.low:.0%} to {each.high:.0%}"]
        cells += [f"{each.tokens:,}", f"{each.usd:.4f}" if each.usd else ""]
    return cells
