"""Limits what a model learns of the user's values: with ``values="none"``, names and types only.

The loop writes everything in a request, and knows the notebook only from the replies of the driver:
outcomes of calls, endings of programs, faults of answers. `Disclosure` is between the two. It
reduces each reply to the part that the model may learn, keeps results as variables, and fills their
values into the answer, which only the person reads.
"""

from __future__ import annotations

import ast
import enum
import json
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from archytas_nb.cells.ran import last_failure
from archytas_nb.kernel.visible import columns_in, shown_names, told_names
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import LastError
from archytas_nb.namespace import Namespace, contained
from archytas_nb.tools.headline import headline, written_type
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace, keep, reference_name

Comparison: TypeAlias = Literal["<", "<=", ">", ">=", "==", "!=", "in"]

RULES = """\
You never see the values of the user's data. The result of a call is kept as a variable, and you \
read its name and its type. To pass it to another tool, send the name of the variable. To tell the \
user a value, write the name in braces in your answer, such as "There are {count_1} rows": the \
value is filled in for the user."""
"""The instructions for a model that calls tools one by one."""

PROGRAM_RULES = """\
You never see the values of the user's data, only their types. Compare and compute with variables, \
and write them into the answer, such as answer(f"There are {count} rows"): the user reads the \
values."""
"""The instructions for a model that writes programs."""

NOBODY = "Refused: nobody can be asked here. Go on without the answer."
SAID = "(My answer was shown to the user, with its values.)"
"""The text that the next question has in place of an answer that a program computed."""

_WORDS: Mapping[ev.ValueKind, str] = {
    "bool": "a bool",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "tuple": "a tuple",
    "collection": "a dict or a set",
    "other": "a value",
}
NOT_SHOWN = f"({_WORDS['other']}, which is not shown to you)"
_MAX_NAME = 60
_FIELD = re.compile(r"(?<!\{)\{([^\W\d]\w*)(:[^{}]{0,20})?\}(?!\})")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'")
_MAX_DIGITS = 4  # of a number in the format of a field, such as its width
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "in": lambda left, right: left in right,
}


names_made_in_runs: set[str] = set()
"""The names of columns and variables that were made in runs in this process, perhaps from values.

A model reads the places of the columns; the variables are not described to it."""

_NUMBERS = ("builtins", "numpy", "decimal", "fractions")
"""The modules whose numbers are written in one way; a class of one's own may write a text."""

results: set[str] = set()
"""The names of the variables in which results were kept in this process; a call may name them."""


class Disclosure:
    """Limits how much the model of one run learns of the user's values.

    Args:
        values: ``"none"``, ``"strict"`` or ``"scalars"``.
        namespace: The variables of the user.
        open_tools: The names of tools whose results are not values of the user.
        code_tools: The names of tools that run code.
        has_policy: Whether a function of the user decides which calls are made.

    Attributes:
        learned: The kinds of facts that it learned, with their counts, for the list of sent data.
        said: The text in place of an answer that a program computed, for the next question.
    """

    said = SAID

    def __init__(
        self,
        values: str,
        namespace: Namespace,
        open_tools: Iterable[str] = (),
        *,
        code_tools: Iterable[str] = (),
        has_policy: bool = False,
    ) -> None:
        self.values = values
        self.learned: dict[str, int] = {}
        self._namespace = namespace
        self._open_tools = frozenset(open_tools)
        self._code_tools = frozenset(code_tools)
        self._has_policy = has_policy
        self._columns = columns_in(namespace)
        self._known = told_names(namespace) - names_made_in_runs
        self._calls: dict[str, ev.ToolCall] = {}
        self._by_reference: set[str] = set()  # the ids of calls with values as arguments
        self._by_program: set[str] = set()  # the ids of calls of programs
        self._programs: list[str] = []

    def end(self) -> None:
        """Record the end of the run: names that were made in it may contain values."""
        columns = columns_in(self._namespace) - self._columns - self._written()
        names_made_in_runs.update(self._made(), columns)

    def _made(self) -> set[str]:
        """The variables that were made in the run, without those that the model named."""
        made = told_names(self._namespace) - self._known - results
        return made - self._written() if made else made

    def _written(self) -> set[str]:
        """The names that the model knows because it wrote them in programs, code or arguments."""
        given = [each.input for each in self._calls.values() if each.id not in self._by_program]
        names: set[str] = set()
        for text in (*self._programs, *_texts_in(given)):
            names.update(re.findall(r"\w+", text))
            for pair in _QUOTED.findall(text):
                names.update(pair)
        return names

    # ── to the kernel ─────────────────────────────────────────────────────────────────────────────

    def objects(self, calls: Iterable[ev.ToolCall]) -> dict[str, dict[str, Any]]:
        """The variables that calls name as arguments, by the ids of the calls and the arguments."""
        found: dict[str, dict[str, Any]] = {}
        for call in calls:
            self._calls[call.id] = call
            if not isinstance(call.input, dict):
                continue
            names = {key: self._variable(each) for key, each in call.input.items()}
            given = {key: self._namespace[name] for key, name in names.items() if name}
            if given and call.name not in self._open_tools:
                found[call.id] = given
                self._by_reference.add(call.id)
        return found

    def record_program(self, program: str) -> None:
        """Remember the text of a program."""
        self._programs.append(program)

    def record_program_calls(self, calls: Iterable[ev.ToolCall]) -> None:
        """Remember calls of a program, whose arguments are values."""
        for call in calls:
            self._calls[call.id] = call
            self._by_reference.add(call.id)
            self._by_program.add(call.id)

    def _variable(self, given: Any) -> str:
        """The name of the variable that an argument names; empty if it names none.

        A text is the name of a result, or in braces that of any variable: without them it may be
        meant as it is, such as the name of a column.
        """
        name = reference_name(given) or ""
        if isinstance(given, str) and len(given) <= _MAX_NAME:
            in_braces = _FIELD.fullmatch(given.strip())
            if in_braces is not None:
                name = in_braces[1]
            elif given.strip() in results:
                name = given.strip()
        return name if name in shown_names(self._namespace) else ""

    # ── to the model ──────────────────────────────────────────────────────────────────────────────

    def redact(self, reply: ev.Reply) -> ev.Reply:
        """A reply of the driver, reduced for the loop."""
        if isinstance(reply, ev.CallOutcomes):
            return ev.CallOutcomes(tuple(map(self._outcome, reply.outcomes)))
        if isinstance(reply, ev.ProgramEnded):
            return self._ended(reply)
        if isinstance(reply, ev.ProgramFaults):  # which may suggest names
            faults = tuple(replace(each, text=self._unnamed(each.text)) for each in reply.faults)
            return replace(reply, faults=faults)
        if isinstance(reply, ev.Verdict) and reply.fault:
            if reply.is_bare:
                return reply
            fault = "it is not of the required type, or the condition does not hold for it"
            return replace(reply, fault=f"{fault} (its value is not shown to you)")
        if isinstance(reply, ev.NoReply) and reply.kind == "condition":
            return replace(reply, text="the condition could not be checked")
        return reply

    def _outcome(self, outcome: ev.CallOutcome) -> ev.CallOutcome:
        """The part of an outcome that the model may learn; programs and people keep the value."""
        call = self._calls.get(outcome.call_id)
        shown = outcome.for_person or outcome.result
        if call is not None and self._is_open(call) and outcome.status == "done":
            self._count("answers of you and comparisons")
            return replace(outcome.with_text(outcome.result, outcome.for_person), images=())
        stored = outcome.stored
        if outcome.status == "done" and outcome.value is None:
            text = "Done. It returned nothing."
        elif outcome.status == "done" and self._may_be_disclosed(outcome.value):
            self._count("numbers and booleans")
            text = outcome.result
        elif outcome.status == "done":
            stored = self._kept(outcome, call)
            text = f"{what(outcome.value, stored)}. Its value is not shown to you."
            if not stored:
                text = f"It returned {what(outcome.value)}, which is not shown to you."
        elif outcome.status == "error":
            text = self._error(outcome)
        elif outcome.status == "interrupted":
            text = "Interrupted by the user while it ran."
        elif outcome.status == "refused" and outcome.error is not None:
            # A tool raised it, and may have chosen its text.
            is_ours = call is not None and self._is_open(call)
            text = outcome.result if is_ours else NOBODY
        elif outcome.status == "refused" and not outcome.decision and self._may_quote(call):
            text = "Refused. Why is not shown to you. Do not send the same call again."
        else:  # a refusal is in the words of the user, and why a call was not run in ours
            text = outcome.result
        told = outcome.with_text(text, shown)
        return replace(told, images=(), stored=stored)

    def _is_open(self, call: ev.ToolCall) -> bool:
        """Whether the result of a call is not a value of the user.

        A question of a program may offer values to choose from.
        """
        return call.name in self._open_tools and call.id not in self._by_program

    def _may_quote(self, call: ev.ToolCall | None) -> bool:
        """Whether the reason why a call was refused may say something of a value.

        A policy may quote one, and code that is too long is refused with its length.
        """
        if self._has_policy or call is None:
            return True
        return call.name in self._code_tools and call.id in self._by_reference

    def _may_be_disclosed(self, value: Any) -> bool:
        """Whether a value may be told: numbers, booleans and members of enumerations.

        An enumeration that was made while running may have values as members.
        """
        if self.values != "scalars":
            return False
        kind = type(value)
        if isinstance(value, enum.Enum):
            return written_type(kind) == kind.__name__
        is_number = isinstance(value, numbers.Number) or kind.__name__ in ("bool", "bool_")
        return is_number and kind.__module__ in _NUMBERS

    def _kept(self, outcome: ev.CallOutcome, call: ev.ToolCall | None) -> str:
        """The name of the variable with a result; empty if there is none.

        It is always a new one: the name of a variable that holds the same object would tell which
        of several a tool has chosen. The value of a call of a program is in the program's own
        variables.
        """
        name = outcome.stored
        if not name:
            if call is None or call.id in self._by_program:
                return ""
            try:
                name = keep(outcome.value, self._namespace, call.name)
            except Exception:  # noqa: BLE001 - a namespace that cannot be written
                return ""
        results.add(name)
        return name

    def _error(self, outcome: ev.CallOutcome) -> str:
        """The fault of a call: ours about what the model sent, or the type of an exception."""
        fault = outcome.input_fault
        if fault is not None:
            if fault.expected is None:
                return self._unnamed(outcome.result)
            if not fault.is_quoted and outcome.call_id not in self._by_reference:
                return self._unnamed(outcome.result)  # which may list variables
            given = ", ".join(self._given(outcome.call_id))
            given = given or "a check of the tool does not hold for it"
            return f"The input does not fit: {given}.\nExpected input: {fault.expected}"
        if outcome.error is None:
            return "The call failed. Why is not shown to you."
        return f"{written_type(type(outcome.error))}: the message is not shown to you."

    def _unnamed(self, text: str) -> str:
        """A text without the names that may have been made from values."""
        shown = shown_names(self._namespace)
        names = names_made_in_runs.intersection(shown) | self._made()
        kinds = {type(self._namespace[name]) for name in shown}
        names |= {each.__name__ for each in kinds} - {written_type(each) for each in kinds}
        for name in names:
            for written in {name, repr(name)[1:-1]}:
                text = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", "…", text)
        return text

    def _given(self, call_id: str) -> Iterator[str]:
        """The arguments of a call that are variables, with their types."""
        given = self._calls[call_id].input
        for key, each in given.items() if isinstance(given, dict) else ():
            name = self._variable(each)
            if name:
                yield f"{key} is the variable {name}, of type {what(self._namespace[name])}"

    def _ended(self, end: ev.ProgramEnded) -> ev.ProgramEnded:
        error = end.error
        if error is not None and not end.stopped:
            name = error.raised or "an error"
            error = replace(error, text=f"{name} (the message is not shown to you)")
        assigned = {name: self._shown(each) for name, each in end.assigned.items()}
        # Printed text has no kind: it may look like a number, and the number of lines may be a
        # value.
        shown = (NOT_SHOWN,) if end.shown else ()
        lost = "it was stopped, or its process was lost" if end.lost else ""
        return replace(end, shown=shown, assigned=assigned, error=error, lost=lost)

    def _shown(self, value: ev.Shown) -> ev.Shown:
        """The text for a model in place of a value that a program has assigned."""
        if value.kind == "none":
            return value
        if self.values == "scalars" and value.kind in ("bool", "number"):
            self._count("numbers and booleans")
            return value
        return replace(value, text=f"({_WORDS[value.kind]}, which is not shown to you)")

    def _count(self, what: str) -> None:
        self.learned[what] = self.learned.get(what, 0) + 1

    # ── the answer ────────────────────────────────────────────────────────────────────────────────

    def fault(self, answer: str) -> str:
        """The fault of the names in braces in an answer; empty if there is none."""
        known = shown_names(self._namespace)
        names = dict.fromkeys(found[1] for found in _FIELD.finditer(answer))
        unknown = ", ".join(repr(name) for name in names if name not in known)
        if not unknown:
            return ""
        return f"no variable is named {unknown}; name results as you read them"

    def filled(self, answer: str) -> str:
        """An answer with the values of the variables that it names in braces."""
        known = set(shown_names(self._namespace))

        def value(found: re.Match[str]) -> str:
            if found[1] not in known:
                return found[0]
            return _as_text(self._namespace[found[1]], (found[2] or ":")[1:])

        return _FIELD.sub(value, answer)


def what(value: Any, name: str = "") -> str:
    """A value in words without its content: its type, and the shape of an array or frame."""
    kind = headline(value, hidden=(), in_words=True)
    if name:
        return f"It is kept as the variable {name}, of type: {kind}"
    return kind


def _texts_in(value: Any) -> Iterator[str]:
    """All texts in a value of JSON, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts_in(list(pair))
    elif isinstance(value, list):
        for each in value:
            yield from _texts_in(each)


def _as_text(value: Any, form: str) -> str:
    """A value in an answer, for a person."""
    if form and not re.search(rf"\d{{{_MAX_DIGITS + 1}}}", form):
        with contained():
            return format(value, form)
    if isinstance(value, str):
        return value
    return render(value).text


def error_of_cell() -> LastError | None:
    """The text about the failed cell before a question: the type of its error, and the line."""
    failure = last_failure()
    if failure is None:
        return None
    cell = f"cell {failure.number}"
    kind = written_type(type(failure.error))
    return LastError(
        cell, "", f"The cell that ran before this question, [{failure.number}], failed with {kind}."
    )


def compare(left: str, op: Comparison, right: str, namespace: LiveNamespace) -> bool:  # noqa: D417
    """Compare two values without seeing them: true or false.

    Args:
        left: The name of a variable, or a literal such as 25 or "red"
        op: The comparison
        right: The name of a variable, or a literal
    """
    result = _COMPARISONS[op](_operand(left, namespace), _operand(right, namespace))
    try:
        return bool(result)
    except Exception:  # noqa: BLE001 - the objects are the user's; their messages hold values
        raise TypeError("the two cannot be compared to one true or false") from None


def _operand(text: str, namespace: Mapping[str, Any]) -> Any:
    name = text.strip().removeprefix("{").removesuffix("}")
    if name in shown_names(namespace):
        return namespace[name]
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def compare_tool() -> Tool:
    """The tool `compare`."""
    return Tool.from_function(compare, repeat=True)


COMPARISONS = get_args(Comparison)
