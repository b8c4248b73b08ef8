"""The rules and an example, for a small model, of programs that run in a copy of the notebook."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata

from archytas_nb.loop.events import Message
from archytas_nb.loop.program_protocol import ProgramProtocol, fenced
from archytas_nb.loop.record import CardForm, Exchange, StepRecord
from archytas_nb.loop.wire import user_content

_RULES = """
You answer a question about data by a short Python program. The variables below are there \
already{versions}: never read a file. Imported are numpy as np, pandas as pd, scipy.stats as \
stats; import others, such as sklearn. Use the columns as they are spelled. Follow each \
constraint, step by step. No comments, no plots unless they are asked for. At the end, call \
{ending}"""

_TEXT = 'answer(f"…") with the values that the question asks for, in its format.'
_VALUE = "answer(value) with only the value, of the type that the question names."
_FUNCTIONS = "\nBesides Python, you can call these functions:\n{functions}"

COPY_CARD = CardForm(tokens=450, for_code=True)
"""How a variable is described to who writes a program over it."""

_CARD = """\
firings: DataFrame 120 × 4
  'id': int64, 1 to 120
  'Kiln': str, 3 different values: 'Raku', 'Anagama', 'Gas'
  'Peak Temp (°C)': float64, 7 missing, 870.5 to 1310.0
  'Glaze Loss': float64, 0.2 to 24.0"""
_QUESTION = (
    "Is there a relation between peak temperature and glaze loss in the Raku kiln? Drop firings "
    "with missing values. Use Pearson's correlation with alpha 0.05.\nFormat: r=<number>; "
    "relation=<answer> where number is rounded to two decimals, and answer is yes or no."
)
_PROGRAM = """\
raku_firings = firings[firings['Kiln'] == 'Raku'].dropna(subset=['Peak Temp (°C)', 'Glaze Loss'])
raku_r, raku_p = stats.pearsonr(raku_firings['Peak Temp (°C)'], raku_firings['Glaze Loss'])
raku_relation = 'yes' if raku_p < 0.05 else 'no'
"""
_ANSWER = 'answer(f"r={raku_r:.2f}; relation={raku_relation}")'
_TYPED = "answer((round(raku_r, 2), raku_relation))"


class CopyProtocol(ProgramProtocol):
    """The program protocol of a small model whose programs run in a copy of the notebook.

    Attributes:
        example: The messages of an example, after the first one.
    """

    examples: tuple[str, ...] = ("r={}; relation={}",)
    sends_answered_programs = True

    @property
    def example(self) -> tuple[Message, ...]:
        """A question about another table, and the program that answers it."""
        ending = _TYPED if self._is_typed else _ANSWER
        return (
            {"role": "user", "content": f"{_CARD}\n\nQuestion: {_QUESTION}"},
            {"role": "assistant", "content": fenced(_PROGRAM + ending)},
        )

    def _rules(self) -> str:
        rules = _RULES.format(versions=_versions(), ending=_VALUE if self._is_typed else _TEXT)
        if self.tools:
            rules += _FUNCTIONS.format(functions=self.functions)
        return rules

    def question(self, exchange: Exchange) -> Message:
        """The cards of the variables, then the question: what the model reads last, it heeds."""
        text = f"Question: {exchange.question}"
        if exchange.context is not None and exchange.context.text:
            text = f"{exchange.context.text}\n\n{text}"
        if exchange.form is not None:
            text = f"{text}\n\n({self._how} {exchange.form.text})"
        if exchange.hint:
            text = f"{text}\n\n{exchange.hint}"
        if exchange.plan:
            text = f"{text}\n\n{exchange.plan}"
        return {"role": "user", "content": user_content(text, exchange.images)}

    def step(self, step: StepRecord) -> list[Message]:
        """A program that answered, which later questions may refer to; others are not sent."""
        if step.is_left_out or not step.program:
            return []
        return [
            {"role": "assistant", "content": fenced(step.program)},
            {"role": "user", "content": step.correction or step.report or "It ran."},
        ]


def _versions() -> str:
    """The versions of the libraries of tables that are loaded."""
    names: Sequence[str] = [each for each in ("pandas", "polars") if each in sys.modules]
    listed = ", ".join(f"{each} {metadata.version(each)}" for each in names)
    return f" ({listed})" if listed else ""
