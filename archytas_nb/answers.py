"""What a final answer must be: a type that it is turned into, and a condition that it must meet.

A type is whatever an argument of a tool may have, because it is read by the same code: the answer
is the only argument of a tool of our own. So a data frame is handed over by the name of its
variable, like any argument.
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
"""Given the answer (the typed value where a type was asked for); says what is wrong, or "".

None and True count as an empty text, and False for what is wrong with it.
"""

_MAX_FAULT = 2000


class Answers:
    """Judges the answers of one run.

    Args:
        output_type: The type of the answer; None for text.
        until: The condition; None for none.
        namespace: Where an answer by reference is looked up.

    Attributes:
        form: How the answer is to be given, for the wire form; None for text.

    Raises:
        ToolError: No answer can be turned into the type.
        ValueError: `until` cannot be called.
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
        """Whether an answer may be, or hold, the name of a variable."""
        return self._tool is not None and self._tool.parameters[0].type.by_reference

    def check(self, answer: Json) -> Verdict:
        """Judge an answer; what `until` raises is what it finds wrong."""
        value: Any = as_text(answer)
        if self._tool is not None:
            bound = self._tool.bind(answer, self._namespace)
            if isinstance(bound, CallOutcome):
                faults = _fault_text(bound)
                bound = self._tool.bind(
                    {"answer": answer}, self._namespace
                )  # its own field may be named so
            if isinstance(bound, CallOutcome):
                return Verdict(faults)
            [value] = (*bound.args, *bound.kwargs.values())
        fault = "" if self._until is None else _condition_fault(self._until, value)
        return Verdict(fault) if fault else Verdict(value=None if self._tool is None else value)


def _condition_fault(until: Until, value: Any) -> str:
    """What a condition finds wrong with a value."""
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
    spec["function"]["name"] = ANSWER  # a name that no tool of a user's may have
    kind = tool.parameters[0].type
    text = "\n".join([kind.text, *kind.details])
    return AnswerForm(text, tool.schema("simple")["properties"]["answer"], spec)


def _fault_text(outcome: CallOutcome) -> str:
    faults = getattr(outcome.error, "faults", ())
    return "; ".join(faults) or outcome.text
