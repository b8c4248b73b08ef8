"""The program protocol of a small model: simple programs, bound by a grammar."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from archytas_nb.loop.events import ANSWER, AskModel, Message
from archytas_nb.loop.plan_protocol import PlanProtocol
from archytas_nb.loop.program_protocol import EXAMPLE_QUESTION, ProgramProtocol
from archytas_nb.loop.record import AnswerForm, Exchange
from archytas_nb.loop.wire import ToolCard, question_message, system_message
from archytas_nb.small.grammar import ProgramGrammar

LITERAL_ANSWER = "Write only answer(…), with the value itself in it: no variable and no call."
"""What the model is told if its answer is not a value of the type."""

_VALUE_ENDING = "answer(value): only the value, of the type that the question names."
_VALUE = """\
if warmth > 25:
    open_window(room=warmer)
answer(warmer)"""

_LINE_RULES = """
You answer by writing Python, line by line. Each line runs at once, and its value appears behind \
it as a comment before you write the next line.

You may use only the functions below, literals, variables, if/else, for, arithmetic, comparisons, \
f-strings and min, max, sum, sorted, round, len, abs. No import, no def, no print, no comments of \
your own.
Call functions by keyword with values from the question, and store each result in a variable. \
Never compute or guess what a function gives. Use the values that you see.
End with {ending} If no function can do what is asked, answer \
that it cannot be done and why.

For example, asked "{question}":
```python
red = warmth_of(room="red")  # 21.5
blue = warmth_of(room="blue")  # 26.0
warmer, warmth = ("red", red) if red > blue else ("blue", blue)  # ('blue', 26.0)
{last_lines}
```

The functions:
{functions}"""

_ALLOWED = (
    "the functions below, literals, variables, if/else, for, arithmetic, comparisons, f-strings "
    "and min, max, sum, sorted, round, len, abs. No import, no def, no print."
)
_PLAIN = "Write plain statements for one row: no functions, no imports."
_PROGRAM_TOKENS = 300
"""Maximum number of tokens of a program for rows: the model may write on and on, for minutes."""


class SmallProgramProtocol(ProgramProtocol):
    """The program protocol of a small model.

    Attributes:
        grammar: The grammar of the programs.
        line_by_line: The first message in place of `system` while a program is written line by
            line.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolCard],
        functions: Mapping[str, str],
        instructions: str = "",
        *,
        names_variables: bool = True,
        is_typed: bool = False,
        sees_values: bool = True,
    ) -> None:
        super().__init__(
            tools,
            functions,
            instructions,
            names_variables=names_variables,
            is_typed=is_typed,
            sees_values=sees_values,
        )
        schemas = {
            name: self.tools[tool].spec("simple")["function"]["parameters"]
            for name, tool in self._names.items()
        }
        self.grammar = ProgramGrammar(schemas)
        ending, last_lines = self._ending()
        lines = _LINE_RULES.format(
            question=EXAMPLE_QUESTION,
            functions=self.functions,
            ending=ending,
            last_lines=last_lines.replace("=warmer)\n", "=warmer)  # None\n"),
        )
        self.line_by_line = system_message(lines, instructions)

    def _language(self) -> str:
        return f"In it you may use only {_ALLOWED}"

    def _ending(self) -> tuple[str, str]:
        return (_VALUE_ENDING, _VALUE) if self._is_typed else super()._ending()

    def question(self, exchange: Exchange) -> Message:
        """The question; the grammar has only short texts, so it asks for no code."""
        return question_message(exchange, self._how, can_write_code=False)

    def with_actions(
        self,
        ask: AskModel,
        form: AnswerForm | None,
        disabled: Collection[str] = (),
        last: str = "",
    ) -> AskModel:
        """The request with the grammar of its reply.

        Programs may call every tool, unless all of them are disabled.
        """
        ask = super().with_actions(ask, form, disabled, last)
        grammar = self.grammar_for(form)
        if last:
            return replace(ask, grammar=grammar.program_that_ends("answer"))
        if disabled and form is None and self.tools.keys() <= set(disabled):
            ending = "give_up" if ANSWER in disabled else "answer"
            return replace(ask, grammar=grammar.program_that_ends(ending, ()))
        return replace(ask, grammar=grammar.program())

    def grammar_for(self, form: AnswerForm | None) -> ProgramGrammar:
        """The grammar of programs that give an answer of this form."""
        return self.grammar if form is None else self.grammar.answering(form.schema)

    def _program(self, text: str) -> str:
        return self.grammar.with_results_renamed(text)


class SmallPlanProtocol(PlanProtocol, SmallProgramProtocol):
    """The messages about a program for all rows, to a small model."""

    shows_own_texts = False
    max_tokens = _PROGRAM_TOKENS

    def _language(self) -> str:
        return f"You may use only `row`, {_ALLOWED}"

    def first(
        self,
        prompt: str,
        form: str,
        columns: Sequence[str],
        named: Mapping[str, str],
        samples: Sequence[str],
        free_texts: Sequence[str] = (),
    ) -> list[Message]:
        """The messages of the first request; what the model reads last, it heeds."""
        *before, question = super().first(prompt, form, columns, named, samples, free_texts)
        return [*before, {**question, "content": f"{question['content']}\n\n{_PLAIN}"}]
