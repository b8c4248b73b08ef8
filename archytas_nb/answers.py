"""Checks final answers: converts them to the required type, and checks a condition.

All types of tool arguments are supported, because the same code reads them: the answer is the only
argument of an internal tool. So a data frame is passed by the name of its variable, like any
argument.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from archytas_nb.errors import ToolError, argument_error
from archytas_nb.loop.events import CallOutcome, Json, Verdict
from archytas_nb.loop.history import AnswerForm
from archytas_nb.loop.reply import ANSWER, as_text
from archytas_nb.tools.data import STOPS
from archytas_nb.tools.render import clip, failure_text
from archytas_nb.tools.tool import Tool

Until = Callable[[Any], Any]
"""Gets the answer (the typed value if a type is required); returns what is wrong with it, or "".

None and True also mean that the answer is accepted, and False that it is not.
"""

_MAX_FAULT = 2000


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
        ValueError: `until` is not callable.
    """

    def __init__(
        self, output_type: Any, until: Until | None, namespace: MutableMapping[str, Any]
    ) -> None:
        if until is not None and not callable(until):
            raise argument_error(
                f"until is {until!r}; expected a function that takes the answer and returns a str"
            )
        self._tool = None if output_type is None else _tool(output_type)
        self._until = until
        self._namespace = namespace
        self.form = None if self._tool is None else _answer_form(self._tool)

    @property
    def by_reference(self) -> bool:
        """Whether an answer may be or contain the name of a variable."""
        return self._tool is not None and self._tool.parameters[0].type.by_reference

    def check(self, answer: Json) -> Verdict:
        """Check an answer; an exception of `until` is a fault of the answer."""
        value: Any = as_text(answer)
        if self._tool is not None:
            bound = self._tool.bind(answer, self._namespace)
            if isinstance(bound, CallOutcome):
                faults = _fault_text(bound)
                bound = self._tool.bind(
                    {"answer": answer}, self._namespace
                )  # a field of the type may have this name
            if isinstance(bound, CallOutcome):
                return Verdict(faults)
            [value] = (*bound.args, *bound.kwargs.values())
        fault = "" if self._until is None else _condition_fault(self._until, value)
        return Verdict(fault) if fault else Verdict(value=None if self._tool is None else value)


def _condition_fault(until: Until, value: Any) -> str:
    """What is wrong with a value according to a condition."""
    try:
        fault = until(value)
    except (*STOPS, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a condition may be written with assert
        return failure_text(error, _MAX_FAULT)
    if fault is None or fault is True:
        return ""
    if fault is False:
        return f"it does not meet the condition {getattr(until, '__name__', 'that was set')}"
    if not isinstance(fault, str):
        raise TypeError(
            f"until returned {fault!r}; expected what is wrong with the answer, or an empty text"
        )
    return clip(fault.strip(), _MAX_FAULT)


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


def _fault_text(outcome: CallOutcome) -> str:
    faults = getattr(outcome.error, "faults", ())
    return "; ".join(faults) or outcome.text
