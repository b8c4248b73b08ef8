"""Checks final answers: converts them to the required type, and checks a condition.

All types of tool arguments are supported, because the same code reads them: the answer is the only
argument of an internal tool. So a data frame is passed by the name of its variable, like any
argument; and a question may be answered by the name of a variable that holds the value.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from archytas_nb.errors import STOPS, ConditionError, ToolError, argument_error
from archytas_nb.loop.events import VAR, CallOutcome, Json, Verdict
from archytas_nb.loop.function_calling import keywords
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.loop.record import AnswerForm
from archytas_nb.namespace import contained
from archytas_nb.tools.meaning import signature_of
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.paths import NoPartError
from archytas_nb.tools.render import failure_text, render
from archytas_nb.tools.tables import column_of, table_of
from archytas_nb.tools.tool import BoundCall, Tool
from archytas_nb.tools.variables import part_of, reference_name, resolve
from archytas_nb.words import truncate_line, truncate_middle

Until = Callable[[Any], Any]
"""Gets the answer (the typed value if a type is required); returns what is wrong with it, or "".

None and True also mean that the answer is accepted, and False that it is not.
"""

REJECTING = (AssertionError, ValueError, LookupError, ArithmeticError)
"""The exceptions of a condition that reject an answer: the model reads them, and tries again.

Any other exception, such as a TypeError or a NameError, is a mistake in the condition, which no
other answer mends; it ends the question.
"""

_MAX_FAULT = 2000
_MAX_SHOWN = 200
_MAX_CONDITION = 600
_THE_ANSWER = "The answer"


class Answers:
    """Checks the answers of one run.

    Args:
        output_type: The type of the answer; None for text.
        until: The condition; None for none.
        namespace: The variables to which an answer may refer.
        is_named: Whether a value of any type may be answered by the name of a variable.

    Attributes:
        form: The type of the answer for the wire protocol; None for text.

    Raises:
        ToolError: The type is not supported.
        ValueError: `until` is not a function of one argument, or it is async.
    """

    def __init__(
        self,
        output_type: Any,
        until: Until | None,
        namespace: MutableMapping[str, Any],
        *,
        is_named: bool = False,
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
            self.form = _answer_form(self._tool, is_named=is_named)

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

    def check(
        self, answer: Json, *given: Any, variables: MutableMapping[str, Any] | None = None
    ) -> Verdict:
        """Check an answer.

        Args:
            answer: The answer as JSON.
            given: The value itself, if a program gave it.
            variables: The variables that the answer may name, with the variables of a copy; None
                for the namespace.

        Raises:
            ConditionError: The condition is wrong, not the answer.
        """
        if variables is not None and variables is not self._namespace:
            other = copy.copy(self)
            other._namespace = variables  # noqa: SLF001 - of the same class
            return other.check(answer, *given)
        if self._tool is None:
            return Verdict(self._condition_fault(as_text(answer)))
        if given:
            bound = self._bound_as_one_of(self._tool, [given[0], answer])
        else:
            bound = self._bound(self._tool, answer)
            if isinstance(bound, CallOutcome) or reference_name(answer) is not None:
                bound = self._bound_by_name(self._tool, answer, bound)
        if isinstance(bound, CallOutcome):
            return Verdict(_fault_text(bound), wrong_type=True, for_person=_for_person(bound))
        [value] = (*bound.args, *bound.kwargs.values())
        fault = self._condition_fault(value)
        if fault:
            return Verdict(fault)
        return Verdict(value=value)

    def _bound_as_one_of(self, tool: Tool, forms: Iterable[Any]) -> BoundCall | CallOutcome:
        """The first form of a value that fits the argument of a tool, or the fault of the last."""
        for each in forms:
            bound = tool.bind({"answer": each}, self._namespace)
            if not isinstance(bound, CallOutcome):
                break
        return bound

    def _bound_by_name(
        self, tool: Tool, answer: Json, bound: BoundCall | CallOutcome
    ) -> BoundCall | CallOutcome:
        """The value of the variable that an answer names, or its faults; else what was given."""
        name = reference_name(answer)
        is_explicit = name is not None
        if name is None and isinstance(answer, str):
            name = answer
        if self.form is None or not self.form.is_named or name is None:
            return bound
        try:
            value = self._variable(name)
        except ValueError as error:
            is_meant = is_explicit or isinstance(error, NoPartError)
            is_fault = is_meant and isinstance(bound, CallOutcome)
            return CallOutcome("error", str(error)) if is_fault else bound
        return self._bound_as_one_of(tool, _forms(value))

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

    def _variable(self, name: str) -> Any:
        """The value at a name or a path.

        Raises:
            ValueError: There is no such variable, it is not passed on, or it is a secret, which
                the fault of a wrong type would quote.
        """
        part = part_of(name, self._namespace)
        if part is not None and is_secret(part.root):
            raise NoPartError(f"{part.root!r} is not read: it is named like a secret")
        return resolve({VAR: name}, object, self._namespace)

    def _condition_fault(self, value: Any) -> str:
        """The fault of a value according to the condition; raises ConditionError."""
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


def _forms(value: Any) -> Iterator[Any]:
    """A value as it is, then the plain values that it holds, in each way to list them."""
    yield value
    with contained():
        table = table_of(value)
        if table is not None and table.size is not None:
            records = table.records()
            yield records
            yield [tuple(each.values()) for each in records]
        if not hasattr(value, "tolist"):
            return
        values = value.tolist()
        yield values
        index: Any = getattr(value, "index", None)
        if column_of(value) is not None and hasattr(index, "tolist"):
            labels = index.tolist()
            yield dict(zip(labels, values, strict=True))
            yield list(zip(labels, values, strict=True))


def condition_text(until: Until) -> str:
    """A condition in words for the model: its docstring, or its source if that is short."""
    text = inspect.getdoc(until) if inspect.isroutine(until) else ""
    if not text and getattr(until, "__name__", "") == "<lambda>":
        text = _lambda_text(until)
    if not text:
        with contextlib.suppress(OSError, TypeError):
            text = textwrap.dedent(inspect.getsource(until)).strip()
    if not text or len(text) > _MAX_CONDITION:
        text = f"{getattr(until, '__name__', 'a condition')}(answer)"
    return text


def _lambda_text(function: Any) -> str:
    """A lambda by itself, whatever else its statement says; empty if its source is not known."""
    with contextlib.suppress(OSError, TypeError, AttributeError, ValueError):
        code = function.__code__
        # Instructions that only prepare the call have a place without width.
        places = [each for each in code.co_positions() if None not in each and each[2] != each[3]]
        first = min((line, column) for line, _, column, _ in places)
        last = max((line, column) for _, line, _, column in places)
        lines = [linecache.getline(code.co_filename, n) for n in range(first[0], last[0] + 1)]
        encoded = [each.encode() for each in lines]
        encoded[-1] = encoded[-1][: last[1]]
        encoded[0] = encoded[0][first[1] :]
        body = b"".join(encoded).decode()
        if body.strip():
            return f"lambda {str(inspect.signature(function))[1:-1]}: {body}"
    return ""


def _tool(output_type: Any) -> Tool:
    def give_answer(answer):  # type: ignore[no-untyped-def]
        return answer

    give_answer.__doc__ = f"Give the user the answer.\n\nArgs:\n    answer: {_THE_ANSWER}"

    give_answer.__annotations__ = {"answer": output_type}
    try:
        return Tool.from_function(give_answer)
    except ToolError as error:
        raise ToolError(
            f"output_type {output_type!r} cannot be the type of an answer:", error.faults
        ) from None


def _answer_form(tool: Tool, *, is_named: bool) -> AnswerForm:
    kind = tool.parameters[0].type
    text = "\n".join([kind.text, *kind.details])
    schema = tool.schema("simple")["properties"]["answer"]
    if schema.get("description") == _THE_ANSWER:
        del schema["description"]
    said = _SAID | _SAID_OF_TUPLES if "tuple[" in kind.text else _SAID
    is_whole = kind.by_reference or said.issuperset(keywords(schema))
    return AnswerForm(text, schema, is_named and not kind.by_reference, is_whole)


_SAID = frozenset({
    "type", "items", "properties", "required", "additionalProperties", "enum", "const", "oneOf",
    "format", "default",
})  # fmt: skip
"""Keywords of schemas that the words for a type say as well."""

_SAID_OF_TUPLES = frozenset({"minItems", "maxItems", "prefixItems"})


def _for_person(outcome: CallOutcome) -> str:
    """The fault of an answer, in words for a person; empty if it is not about its parts."""
    faults = getattr(outcome.error, "arguments", ())
    return "; ".join(each.in_words("in the answer") for each in faults)


def _fault_text(outcome: CallOutcome) -> str:
    faults = getattr(outcome.error, "faults", ())
    return "; ".join(faults) or outcome.text
