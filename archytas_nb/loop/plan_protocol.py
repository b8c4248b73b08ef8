"""The texts for a model that writes one program for all rows, and how its reply is read.

It is the program protocol with a row in place of a question: the program reads `row.column`, calls
the tools, and ends with the answer for that row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archytas_nb.loop.events import AskModel, Message, ModelReply, ProgramFaults
from archytas_nb.loop.program_protocol import ProgramProtocol, faults_report, fenced
from archytas_nb.loop.reading.reply import Action
from archytas_nb.loop.wire import NO_TEXT
from archytas_nb.words import count, truncate_line, truncate_middle

_RULES = """
You write one short Python program that is run once for each row of a table. It runs without you, \
so it has to answer every row.

Reply with one Python code block, and nothing else:
```python
…
```
{language}
`row` is the row, and its columns are attributes: row.name. Read every value from `row`; the rows \
that you are shown are only a few of them. Where a type has `| None`, the value may be missing: \
test for it first. Call functions by keyword, and store each result in a variable.
Each run ends with answer(value): the answer for this row, a value of the type that is asked for. \
For a row that the functions cannot answer, call give_up(reason): a person's assistant then \
answers it.{judge}

For example, asked "How warm is {{room}}, in Fahrenheit? Open its window if it is above 80." for \
rows with `room: str | None`:
```python
if row.room is None:
    give_up("the room is missing")
fahrenheit = warmth_of(room=row.room) * 9 / 5 + 32
if fahrenheit > 80:
    open_window(room=row.room)
answer(fahrenheit)
```

The functions:
{functions}"""

_JUDGE = """
judge(question, type) asks a model about one text. It is slow and costs money: use it only for \
what must be read and understood, such as a sentiment or a category, never for what a function or \
plain Python can do. For example: judge(f"Is this text a complaint? {row.text}", "bool")"""

_LANGUAGE = (
    "It runs in a sandbox: `row`, the functions below, and plain Python with math, datetime, re "
    "and json; no files, no network, no await."
)
_FREE = (
    "Free text: {names}. What it says is not known before it is read: put what has to be found out "
    'into the question of judge, as in is_so = judge(question=f"Is it true that …? '
    '{{row.{first}}}", type="bool"), and go on with if is_so: … else: …'
)
_WHOLE = "Write the whole program again. It has to answer every row."
_MAX_FAILURES = 6000  # characters of the report about a program that was tried
_MAX_ERROR = 500


@dataclass(frozen=True, slots=True)
class UnansweredRow:
    """A row of the sample that the program did not answer."""

    row: str
    error: str


class PlanProtocol(ProgramProtocol):
    """The messages about a program for all rows.

    Args:
        tools, functions, instructions: As in `ProgramProtocol`.

    Attributes:
        judge: The name of the function that asks a model; empty without one.
        shows_own_texts: Whether the rows that the model is shown have the columns in which every
            row has a text of its own; a small model would compare with these.
        max_tokens: Maximum number of tokens of a program; None for that of any reply.
    """

    judge = "judge"
    shows_own_texts: bool = True
    max_tokens: int | None = None
    _shorter = (
        "Write a shorter one: a variable for each result, and one answer(…). No functions, no "
        "comments."
    )

    def _rules(self) -> str:
        judge = ""
        if self.judge in self._names:
            judge = _JUDGE
        return _RULES.format(
            language=self._language(),
            judge=judge,
            functions=self.functions,
        )

    def _language(self) -> str:
        return _LANGUAGE

    def first(
        self,
        prompt: str,
        form: str,
        columns: Sequence[str],
        named: Mapping[str, str],
        samples: Sequence[str],
        free_texts: Sequence[str] = (),
    ) -> list[Message]:
        """The messages of the first request.

        Args:
            prompt: What to do with each row.
            form: The type of the answer; empty for text.
            columns: The columns with their types.
            named: The columns that ``{column}`` in the prompt names.
            samples: A few rows; may be empty.
            free_texts: The columns whose values have to be read to be understood.
        """
        parts = [f"For each row of the table: {prompt}"]
        if named:
            meant = ", ".join(f"{label} is {name}" for label, name in named.items())
            parts.append(f"In it, {meant}.")
        parts.append(f"Call answer with a value of this type: {form or 'str'}")
        parts.append("\n".join(["The attributes of row:", *columns]))
        if free_texts and self.judge in self._names:
            names = ", ".join(f"row.{each}" for each in free_texts)
            parts.append(_FREE.format(names=names, first=free_texts[0]))
        if samples:
            parts.append("\n".join(["Some of the rows:", *samples]))
        else:
            parts.append("The values of the rows are not shown to you.")
        return [self.system, {"role": "user", "content": "\n\n".join(parts)}]

    def again(self, program: str, report: str) -> list[Message]:
        """The messages when a program is to be written again; without it, it is left out."""
        said = fenced(program) if program else NO_TEXT
        return [{"role": "assistant", "content": said}, {"role": "user", "content": report}]

    def read_again(self, action: Action) -> list[Message]:
        """The messages that follow when there was no program in a reply that can be tried."""
        said = action.thought or NO_TEXT
        return [{"role": "assistant", "content": said}, {"role": "user", "content": action.fault}]

    def ask(self, messages: Sequence[Message], tokens: int, temperature: float | None) -> AskModel:
        """The request for a program."""
        request = AskModel(1, tuple(messages), max_tokens=tokens, temperature=temperature)
        return self.with_actions(request, None)

    def program_of(self, reply: ModelReply) -> Action:
        """The program of a reply, or what is wrong with the reply."""
        return self.read(reply, prose_is_answer=False)


def faults_of_program(faults: ProgramFaults) -> str:
    """The message to the model about a program that was not run."""
    return faults_report(faults)


def tried_report(answered: int, tried: int, failed: Sequence[UnansweredRow]) -> str:
    """The message to the model about a program that did not answer all rows of the sample."""
    lines = [f"It was tried on {count(tried, 'row')} and answered {answered}. Not answered:"]
    lines += [f"{each.row}: {truncate_line(each.error, _MAX_ERROR)}" for each in failed]
    return truncate_middle("\n".join([*lines, _WHOLE]), _MAX_FAILURES)


def unseen_report(failed: Sequence[UnansweredRow]) -> str:
    """The same for a model that may not see values: without numbers of rows, which are values."""
    lines = ["It was tried on some of the rows, and did not answer all of them. Not answered:"]
    lines += dict.fromkeys(f"{each.row}: {each.error}" for each in failed)
    return truncate_middle("\n".join([*lines, _WHOLE]), _MAX_FAILURES)


def changed_report(wish: str) -> str:
    """The message to the model if the person wants another program."""
    return f"The user wants it changed: {wish}\n{_WHOLE}"
