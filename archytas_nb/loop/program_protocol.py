"""The program protocol: a reply is a short Python program over the tools, run in a sandbox.

Tools are functions in it. The next user message has the values that the program shows, the calls
that it made and the line that failed. `answer(value)` ends the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

from archytas_nb.choices import ActiveProtocol
from archytas_nb.loop.events import (
    REFUSED,
    VAR,
    AskModel,
    Fault,
    Json,
    Message,
    ModelReply,
    ProgramEnded,
    ProgramFaults,
    ToolCall,
)
from archytas_nb.loop.reading.reply import Action, TruncatedPart, with_reasoning
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.record import AnswerForm, Context, Exchange, StepRecord
from archytas_nb.loop.wire import (
    NO_TEXT,
    ToolCard,
    Wire,
    last_turn,
    question_message,
    system_message,
    user_content,
)
from archytas_nb.syntax.program import PROGRAM_ANSWER, PROGRAM_ENDINGS, Program
from archytas_nb.words import collapse_whitespace, truncate_middle

MAX_REPORT = 6000
"""Maximum number of characters of the report about a program."""

_MAX_CALLS_SHOWN = 30
_MAX_FAULTS = 4

EXAMPLE_QUESTION = (
    "Which is warmer, the red room or the blue one? If that one is above 25, open its window."
)
EXAMPLE_ANSWERS = (
    "The {} room is warmer, with {} degrees. Its window is open now.",
    "The {} room is warmer, with {} degrees. Its window stays closed.",
)
_SENTENCE_ENDING = (
    'answer(f"…"): a full sentence that has the numbers found, in the language of the question; '
    "inside a branch that must not act, say so."
)
_SENTENCES = """\
if warmth > 25:
    open_window(room=warmer)
    answer(f"The {warmer} room is warmer, with {warmth} degrees. Its window is open now.")
else:
    answer(f"The {warmer} room is warmer, with {warmth} degrees. Its window stays closed.")"""
_CALLS = """\
red = warmth_of(room="red")
blue = warmth_of(room="blue")
warmer, warmth = ("red", red) if red > blue else ("blue", blue)
"""

_RULES = """
You act by writing short Python programs.

Reply with one Python code block, and nothing else:
```python
…
```
{language}
Call functions by keyword with values from the question. Store each result in a variable. Never \
compute or guess what a function gives. Each program ends with {ending}
To see a result before you go on, call show(variable) in place of answer; {show}. Results of \
earlier programs stay in their variables.
If no function can do what is asked, answer that it cannot be done and why.

For example, asked "{question}":
{example}

The functions:
{functions}"""

_LANGUAGE = (
    "It runs in a sandbox: the functions below, {variables}and plain Python with math, datetime, "
    "re and json; no files and no network. Frames, arrays and other objects stay outside: pass "
    "them to functions, a column of a variable as text, such as {column}; take len(), .shape and "
    ".columns of them, and show() them{code}. Many calls in one program are better than many "
    "programs. give_up(reason) ends the task if it cannot be done."
)
_CODE = (
    "; for anything else use python(code), which has the variables of the notebook and not those "
    "of your program: write their values into the code"
)
COLUMN_AS_TEXT = "'df[\"x\"]'"
"""How a program gives a function a part of a variable."""
_SHOW = "you then get its value and write the next program"
_SHOW_NO_VALUES = (
    "you then read the types and sizes of what calls returned, no values, and write the next "
    "program"
)

_FENCED = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|Python)?[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE
)
_FORM = "Reply with one Python code block that ends with answer(…)."
_WHAT_IS_LEFT = "Write the corrected program for what is left."
_AGAIN = "Write the whole program again."
_GO_ON = 'If that is all that was asked, write only answer(f"…"); else the next program.'


class ProgramProtocol(Wire):
    """The program protocol.

    Args:
        tools: The tools by name.
        functions: Each of them as a function in Python with its docstring, by the same names.
        instructions: The user's instructions.
        names_variables: Whether programs may name variables of the notebook.
        is_typed: Whether a type of the answer is required.
        sees_values: Whether the model reads what programs show.
    """

    name: ActiveProtocol = "program"
    examples: tuple[str, ...] = EXAMPLE_ANSWERS
    answer_action = "answer(…)"
    fail_action = "give_up(…)"
    _how = "Call answer with a value of this type:"
    _shorter = "Write a shorter one, or only its first part."

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
        super().__init__(tools, instructions)
        self._is_typed = is_typed
        self._sees_values = sees_values
        self._names_variables = names_variables
        self._functions = {name: functions[name] for name in self.tools}
        self._names = {_name_in(self._functions[name]): name for name in self.tools}
        self.system = system_message(self._rules(), instructions)

    def without_tools(self, names: Collection[str]) -> Self:
        """The same protocol without these tools."""
        tools = {name: tool for name, tool in self.tools.items() if name not in names}
        other = type(self)(
            tools,
            self._functions,
            self._instructions,
            names_variables=self._names_variables,
            is_typed=self._is_typed,
            sees_values=self._sees_values,
        )
        return other.with_searched(self.searched)

    def offering(self, names: Collection[str]) -> Self:  # noqa: ARG002 - a program may call all
        """The same protocol: a program may call every tool."""
        return self

    @property
    def tool_texts(self) -> tuple[str, ...]:
        """The tools as the model reads them."""
        return tuple(self._functions.values())

    @property
    def functions(self) -> str:
        """The tools as the model reads them."""
        return "\n\n".join(self._functions.values())

    def named_variables(self, context: Context | None) -> tuple[str, ...]:
        """The variables that a program may name at its beginning."""
        if context is None or not self._names_variables:
            return ()
        return context.names

    def _rules(self) -> str:
        ending, last_lines = self._ending()
        return _RULES.format(
            language=self._language(),
            question=EXAMPLE_QUESTION,
            example=fenced(_CALLS + last_lines),
            ending=ending,
            show=_SHOW if self._sees_values else _SHOW_NO_VALUES,
            functions=self.functions,
        )

    def _language(self) -> str:
        """The language of programs."""
        variables = "the variables that the question names, " if self._names_variables else ""
        code = _CODE if "python" in self._names else ""
        return _LANGUAGE.format(variables=variables, code=code, column=COLUMN_AS_TEXT)

    def _ending(self) -> tuple[str, str]:
        """How a program ends, and how that of the example does."""
        return _SENTENCE_ENDING, _SENTENCES

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        return question_message(exchange, self._how)

    def step(self, step: StepRecord) -> list[Message]:
        """The program, then the report about it; an abandoned program is not sent.

        Calls that were made in another protocol are written as a program, with their results.
        """
        if step.is_left_out:
            return []
        if step.calls and not step.program:
            calls = "\n".join(map(call_written, step.calls))
            results = "\n".join(outcome.text for outcome in step.outcomes)
            step = replace(step, program=calls, report=results)
        if not step.program:
            reply = {"role": "assistant", "content": step.written or step.thought or NO_TEXT}
            return [reply, {"role": "user", "content": step.correction}]
        images = [image for outcome in step.outcomes for image in outcome.images]
        report = step.correction or step.report
        return [
            {"role": "assistant", "content": fenced(step.program)},
            {"role": "user", "content": user_content(report, images)},
        ]

    def closing_message(self, text: str) -> Message:
        """The final answer, as the model would have written it."""
        return {"role": "assistant", "content": fenced(f"answer({text!r})")}

    def with_actions(
        self,
        ask: AskModel,
        form: AnswerForm | None,  # noqa: ARG002 - the value is checked as it is
        disabled: Collection[str] = (),  # noqa: ARG002 - a program may call every tool
        last: str = "",
    ) -> AskModel:
        """The request."""
        return replace(ask, messages=last_turn(ask.messages, last)) if last else ask

    def read(
        self,
        reply: ModelReply,
        *,
        prose_is_answer: bool,
        form: AnswerForm | None = None,  # noqa: ARG002 - the value is checked as it is
    ) -> Action:
        """Read the first code block of a reply."""
        return with_reasoning(self._read(reply, prose_is_answer=prose_is_answer), reply)

    def _read(self, reply: ModelReply, *, prose_is_answer: bool) -> Action:
        text, reasoning = split_thoughts(reply.text)
        truncated = reply.finish == "length"
        found = _FENCED.search(text)
        program = found[1].strip("\n") if found else ""
        if not found and self._is_program(text):
            program = text.strip("\n")
        if truncated and program:
            lines = program.count("\n") + 1
            fault = (
                f"Your program was too long: it was cut off in line {lines}, and nothing of it was "
                f"run. {self._shorter}"
            )
            return Action(fault=fault, truncated="other", reasoning=reasoning)
        if program.strip():
            thought = text[: found.start()].strip() if found else ""
            return Action(thought, program=self._program(program), reasoning=reasoning)
        prose = text.strip()
        if not prose:
            part: TruncatedPart = "other" if truncated else ""
            return Action(
                fault=f"Your reply was empty. {_FORM}", reasoning=reasoning, truncated=part
            )
        if truncated:
            return Action(answer=prose, fault=_FORM, truncated="answer", reasoning=reasoning)
        if prose_is_answer and reply.finish != REFUSED:
            return Action(answer=prose, reasoning=reasoning)
        fault = f"Your reply was plain text. {_FORM}"
        return Action(prose[:500], fault=fault, prose=True, reasoning=reasoning)

    def _program(self, text: str) -> str:
        """A program as it is run."""
        return text

    def _is_program(self, text: str) -> bool:
        """Whether a text without a code block is a program that calls one of its functions."""
        return any(Program(text.strip()).calls(*PROGRAM_ENDINGS, *self._names))


def texts_answered(program: str) -> list[str]:
    """The literal texts of a program's answers, without the values that it fills in."""
    values = Program(program).literals(PROGRAM_ANSWER)
    return [each for each in values if isinstance(each, str)]


def _name_in(declaration: str) -> str:
    """The name of the function that is declared."""
    return declaration.partition("(")[0].removeprefix("async ").removeprefix("def ")


def call_written(call: ToolCall) -> str:
    """A call as a program writes it."""
    given = call.input if isinstance(call.input, dict) else {}
    arguments = ", ".join(f"{name}={_written(value)}" for name, value in given.items())
    return f"{call.name}({arguments})"


def _written(value: Json) -> str:
    """An argument as a program writes it; an object by its name."""
    if isinstance(value, dict) and value.keys() == {VAR}:
        return str(value[VAR])
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)


def fenced(program: str) -> str:
    """A program as a code block."""
    return f"```python\n{program}\n```"


# ── reports ───────────────────────────────────────────────────────────────────────────────────────


class WrittenCall(NamedTuple):
    """A call that a program made, as the model reads it."""

    call: str
    result: str
    failed: bool


def faults_report(faults: ProgramFaults) -> str:
    """The message to the model about a program that was not run."""
    lines = [
        f"Line {each.line} `{collapse_whitespace(each.source, 120)}`: {each.text}"
        for each in faults.faults[:_MAX_FAULTS]
    ]
    return "\n".join(["Nothing was run.", *lines, _AGAIN])


def calls_report(calls: Sequence[WrittenCall]) -> str:
    """The calls that succeeded, a line each; the first and the last ones if there are many."""
    done = [f"{made.call} → {made.result}" for made in calls if not made.failed]
    left_out = len(done) - _MAX_CALLS_SHOWN
    if left_out > 0:
        half = _MAX_CALLS_SHOWN // 2
        done = [*done[:half], f"… ({left_out} more calls)", *done[-half:]]
    return "\n".join(done)


def interrupted_report(calls: Sequence[WrittenCall]) -> str:
    """The message to the model, with the next question, about an interrupted program."""
    done = calls_report(calls)
    parts = ["The user interrupted this program: what was left of it was not run."]
    if done:
        parts += ["Done before (do not repeat it):", done]
    return truncate_middle("\n".join(parts), MAX_REPORT)


def _error_report(error: Fault, *, is_stopped: bool) -> str:
    if not error.line:  # that of a function of an earlier program is not known
        return f"The program was stopped: {error.text}"
    source = collapse_whitespace(error.source, 120)
    if is_stopped:
        return f"The program was stopped in line {error.line} `{source}`: {error.text}"
    return f"Line {error.line} `{source}` raised {error.text}"


def ended_report(end: ProgramEnded, calls: Sequence[WrittenCall]) -> str:
    """The message to the model about a program that ended without an answer."""
    done = calls_report(calls)
    shown = [f"shown: {text}" for text in end.shown]
    if end.error is None and not end.lost:
        return truncate_middle("\n".join([*filter(None, [done]), *shown, _GO_ON]), MAX_REPORT)
    parts = []
    if end.lost:
        parts.append(f"The program was stopped: {end.lost}")
    if end.error is not None:
        parts.append(_error_report(end.error, is_stopped=end.stopped))
    if done:
        parts += ["Done so far (do not repeat it):", done]
    if end.assigned:
        values = ", ".join(f"{name} = {text}" for name, text in end.assigned_texts.items())
        parts.append(f"These variables have their values: {values}")
    return truncate_middle("\n".join([*parts, *shown, _WHAT_IS_LEFT]), MAX_REPORT)
