"""Counts how often an agent's answers are right, with an interval for what was not asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from archytas_nb.batch.engine import Map, model_name
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


class Evaluation(NamedTuple):
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
        number = len(self.cases) // len(self.totals)
        rows = [self.cases[at::number] for at in range(number)]
        lines = [(scores[0].question, *_cells(scores)) for scores in (*rows, self.totals)]
        table = Table(tuple(head), tuple(lines))
        return "\n".join(grid_lines(table, len(lines), width=10_000, cell=60))


def evaluate(
    settings: dict[str, Any], cases: Sequence[Any], runs: int, models: Sequence[Any], **options: Any
) -> Evaluation:
    """Ask every question `runs` times with each model; the options are those of `Map`."""
    if type(runs) is not int or runs < 1:
        raise ValueError(f"runs is {runs!r}; expected a whole number above 0")
    read = [_case(each, typed=options["output_type"] is not None) for each in cases]
    if not read:
        raise ValueError("there are no cases; expected tuples (question, expected)")
    questions = [question for question, _, _ in read for _ in range(runs)]
    salts = [str(run) for _ in read for run in range(runs)]
    scores, totals, names = [], [], list[str]()
    for model in models or [settings["model"]]:
        name = model_name(model)
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
        asked = Map({**settings, "model": model}, questions, salts, name=names[-1], **options)
        answers = list(zip(*asked.results(), strict=True))
        mine = []
        for at, (question, expected, check) in enumerate(read):
            part = answers[at * runs : (at + 1) * runs]
            ended = [(result, value) for result, value in part if result.status != "open"]
            passed = [each.status == "done" and bool(check(v, expected)) for each, v in ended]
            used = sum((result.usage for result, _ in ended), Usage())
            tokens = used.input_tokens + used.output_tokens
            mine.append(Score(names[-1], question, sum(passed), len(ended), tokens, used.usd))
        counts = [sum(column) for column in zip(*(each[2:] for each in mine), strict=True)]
        scores += mine
        totals.append(Score(names[-1], f"all {len(read)}", *counts))
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
    is_tuple = isinstance(given, (tuple, list)) and len(given) in (2, 3)
    question, expected, check = (*given, None)[:3] if is_tuple else ("", None, None)
    is_text = isinstance(question, str) and question.strip()
    if not is_text or not (check is None or callable(check)):
        raise ValueError(
            f"a case is {given!r}; expected (question, expected) or (question, expected, check)"
        )
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
