"""Checks final answers: converts them to the required type, and checks a condition.

All types of tool arguments are supported, because the same code reads them: the answer is the only
argument of an internal tool. So a data frame is passed by the name of its variable, like any
argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from archytas_nb.errors import STOPS, ConditionError, ToolError, argument_error
from archytas_nb.loop.events import ANSWER, CallOutcome, Json, Verdict
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.loop.record import AnswerForm
from archytas_nb.tools.meaning import signature_of
from archytas_nb.tools.render import failure_text, render
from archytas_nb.tools.tool import BoundCall, Tool
from archytas_nb.words import truncate_line, truncate_middle

Until = Callable[[Any], Any]
"""Gets the answer (the typed value if a type is required); returns what is wrong with it, or "".

None and True also mean that the answer is accepted, and False that it is not.
"""

REJECTING = (AssertionError, ValueError, LookupError, ArithmeticError)
"""What a condition may raise about the value of an answer: the model is told, and tries again.

Any other exception, such as a TypeError or a NameError, is a mistake in the condition, which no
other answer mends; it ends the question.
"""

_MAX_FAULT = 2000
_MAX_SHOWN = 200


class Answers:
    """Checks the answers of one run.

    Args:
        output_type: The type of the answer; None for text.
        until: The condition; None for none.
        namespace: The variables to which an answer may refer.

    Attributes:
        form: The type of the answer for the wire protocol; None for text.

    Raises:
        ToolError: The type is not supported.
        ValueError: `until` is not a function of one argument, or it is async.
    """

    def __init__(
        self, output_type: Any, until: Until | None, namespace: MutableMapping[str, Any]
    ) -> None:
        if until is not None:
            _check_condition(until)
        self._tool = None
        if output_type is not None:
            self._tool = _tool(output_type)
        self._until = until
        self._namespace = namespace
        self.form = None
        if self._tool is not None:
            self.form = _answer_form(self._tool)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of an answer, with its definitions; that of a text without a type."""
        if self._tool is None:
            return {"type": "string"}
        return self._tool.parameters[0].type.validation_schema

    @property
    def by_reference(self) -> bool:
        """Whether an answer may be or contain the name of a variable."""
        return self._tool is not None and self._tool.parameters[0].type.by_reference

    def check(self, answer: Json, *given: Any) -> Verdict:
        """Check an answer.

        Args:
            answer: The answer as JSON.
            given: The value itself, if a program gave it.

        Raises:
            ConditionError: The condition is wrong, not the answer.
        """
        if self._tool is None:
            return Verdict(self._condition_fault(as_text(answer)))
        if given:
            bound = self._bound_as_it_is(self._tool, answer, given[0])
        else:
            bound = self._bound(self._tool, answer)
        if isinstance(bound, CallOutcome):
            return Verdict(_fault_text(bound), wrong_type=True, for_person=_for_person(bound))
        [value] = (*bound.args, *bound.kwargs.values())
        fault = self._condition_fault(value)
        if fault:
            return Verdict(fault)
        return Verdict(value=value)

    def _bound_as_it_is(self, tool: Tool, answer: Json, value: Any) -> BoundCall | CallOutcome:
        """A value as the argument of a tool; if it does not fit, what JSON makes of it may."""
        for each in (value, answer):
            bound = tool.bind({"answer": each}, self._namespace)
            if not isinstance(bound, CallOutcome):
                break
        return bound

    def _bound(self, tool: Tool, answer: Json) -> BoundCall | CallOutcome:
        """The answer as the argument of a tool, or the outcome with its faults.

        An object with the one field ``answer`` looks like that argument. It may also be the value,
        and its field may have been taken for the value already.
        """
        first = tool.bind(answer, self._namespace)
        if not isinstance(first, CallOutcome):
            return first
        value = {"answer": answer}
        for tool_input in (value, {"answer": value}):
            bound = tool.bind(tool_input, self._namespace)
            if not isinstance(bound, CallOutcome):
                return bound
        return first

    def _condition_fault(self, value: Any) -> str:
        """What is wrong with a value according to the condition; raises ConditionError."""
        until = self._until
        if until is None:
            return ""
        try:
            result = until(value)
            if getattr(result, "shape", None) == ():  # True or False of numpy
                result = result.item()
        except (*STOPS, SystemExit):
            raise
        except REJECTING as error:
            return failure_text(error, _MAX_FAULT)
        except BaseException as error:
            raise self._mistake(until, value, failure_text(error, _MAX_FAULT)) from error
        if result is None or result is True:
            return ""
        if result is False:
            return f"it does not meet the condition {getattr(until, '__name__', 'that was set')}"
        if not isinstance(result, str):
            returned = (
                f"it returned {_shown(result)}, of type {type(result).__name__!r}; expected what "
                "is wrong with the answer as text (empty if nothing is), True, False or None"
            )
            raise self._mistake(until, value, returned)
        return truncate_middle(result.strip(), _MAX_FAULT)

    def _mistake(self, until: Until, value: Any, what: str) -> ConditionError:
        """The error for a condition that cannot judge any answer, with what to do about it."""
        name = getattr(until, "__name__", repr(until))
        advice = "Correct the condition and ask again."
        if self._tool is None:
            advice = (
                "Without a type, the answer is text. If the condition needs another type, ask for "
                "it with --type (output_type= in Python), such as --type int; otherwise correct "
                "the condition."
            )
        return ConditionError(
            f"the condition {name!r} cannot be evaluated for the answer {_shown(value)}, of type "
            f"{type(value).__name__!r}:\n{what}\n{advice}"
        )


def _check_condition(until: Any) -> None:
    """Raise ValueError if this cannot be a condition, so that the mistake costs nothing."""
    expected = "expected a function that takes the answer and returns what is wrong with it"
    if not callable(until):
        raise argument_error(f"until is {until!r}; {expected}")
    if inspect.iscoroutinefunction(until):
        raise argument_error(f"until is the async function {until!r}; {expected}, without await")
    try:
        signature = signature_of(until)
    except (TypeError, ValueError):  # some functions that are written in C have none
        return
    try:
        signature.bind("the answer")
    except TypeError as error:
        raise argument_error(
            f"until is {until!r}, which cannot be called with the answer alone ({error}); "
            f"{expected}"
        ) from None


def _shown(value: Any) -> str:
    """A value for an error message."""
    if isinstance(value, str):
        return repr(truncate_line(value, _MAX_SHOWN))
    return render(value, _MAX_SHOWN).text


def _tool(output_type: Any) -> Tool:
    def give_answer(answer):  # type: ignore[no-untyped-def]
        """Give the user the final answer.

        Args:
            answer: The answer
        """
        return answer

    give_answer.__annotations__ = {"answer": output_type}
    try:
        return Tool.from_function(give_answer)
    except ToolError as error:
        raise ToolError(
            f"output_type {output_type!r} cannot be the type of an answer:", error.faults
        ) from None


def _answer_form(tool: Tool) -> AnswerForm:
    spec = tool.spec()
    spec["function"]["name"] = ANSWER  # a name that user tools cannot have
    kind = tool.parameters[0].type
    text = "\n".join([kind.text, *kind.details])
    return AnswerForm(text, tool.schema("simple")["properties"]["answer"], spec)


def _for_person(outcome: CallOutcome) -> str:
    """What is wrong with an answer, in words for a person; empty if it is not about its parts."""
    faults = getattr(outcome.error, "arguments", ())
    return "; ".join(each.in_words("in the answer") for each in faults)


def _fault_text(outcome: CallOutcome) -> str:
    faults = getattr(outcome.error, "faults", ())
    return "; ".join(faults) or outcome.text
