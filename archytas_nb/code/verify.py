"""Proves the code of a run: runs it from the state before the run, and compares all values.

It runs in a transaction that is undone, so that nothing is changed; files, databases and other
processes are not covered. Calls that need approval are not repeated.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from archytas_nb.code.derive import Block, Code
from archytas_nb.code.recorded import Recorded, RecordedCall
from archytas_nb.kernel.content import short_value
from archytas_nb.kernel.fingerprint import fingerprint
from archytas_nb.kernel.output import Capture, capturing, open_figures, take_figures
from archytas_nb.kernel.python import python
from archytas_nb.kernel.transaction import Watch, transaction
from archytas_nb.loop.events import NotCovered
from archytas_nb.loop.reply import as_text
from archytas_nb.tools.tool import Tool, awaited
from archytas_nb.tools.variables import LiveNamespace
from archytas_nb.words import count, one_line, shorten

_ANSWER = "the answer"


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that is not as it was in the run.

    Attributes:
        what: Which value.
        before: What it was in the run.
        now: What it is.
    """

    what: str
    before: Any = field(repr=False)
    now: Any = field(repr=False)

    def __str__(self) -> str:
        return f"{self.what} was {shown(self.before)} and is {shown(self.now)}"


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether the code of a run gives the values of the run.

    Attributes:
        equal: How many values are equal.
        values: How many values there are.
        differences: Those that are not equal.
        why: Why the code could not be run to its end; empty if it was.
        not_covered: What was not restored afterwards.
        was_run: Whether the code was run.
    """

    equal: int = 0
    values: int = 0
    differences: tuple[Difference, ...] = ()
    why: str = ""
    not_covered: tuple[NotCovered, ...] = ()
    was_run: bool = True

    @property
    def holds(self) -> bool:
        """Whether all values are equal."""
        return not self.why and not self.differences

    def __str__(self) -> str:
        if self.holds:
            return f"verified: {self.equal} of {self.values} values equal, no model asked"
        if self.why:
            return f"not verified: {self.why}"
        return f"not verified: {self.equal} of {self.values} values equal; {self.differences[0]}"


def shown(value: Any) -> str:
    """A value, or what it is, in a line."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return shorten(one_line(repr(value)), 100)
    if isinstance(value, (list, tuple, dict, set)) and len(value) <= 10:
        return shorten(one_line(repr(value)), 100)
    return short_value(value)


def verify(
    code: Code, recorded: Recorded, later: Sequence[Watch | None] = (), *, from_now: bool = False
) -> Proof:
    """Run code and compare its values with those of the run; everything is undone.

    Args:
        code: The code of the run.
        recorded: The run.
        later: What the runs after it changed, the last one first.
        from_now: Whether to begin with the variables as they are, not as they were before it.
    """
    why = _reason_not_to_run(code, recorded)
    if why:
        return Proof(why=why, was_run=False)
    variables = recorded.namespace
    if not isinstance(variables, dict):
        return Proof(
            why=f"code runs in a dict of variables, and this is {type(variables)!r}", was_run=False
        )
    notes: tuple[NotCovered, ...] = ()
    compared = _Comparison(code, variables)
    tried = transaction(namespace=variables)
    had_builtins = "__builtins__" in variables
    try:
        with tried:
            if not from_now:
                for watch in later:
                    notes += watch.rewind() if watch is not None else ()
                notes += _rewind(code, recorded)
            compared.run()
            proof = compared.proof(recorded)
    finally:
        not_covered = tried.undo()
        if not had_builtins:
            variables.pop("__builtins__", None)
    why = proof.why
    if not proof.holds and not from_now:
        hint = _unknown_state(recorded, notes)
        if hint:
            why = f"{str(proof).removeprefix('not verified: ')}; {hint}"
    return replace(proof, why=why, not_covered=not_covered)


def _reason_not_to_run(code: Code, recorded: Recorded) -> str:
    """Why the code is not run again without a person; empty if it may be."""
    names = {made.call.name for made in code.calls}
    approved = {name for name in names if recorded.tools[name].may_require_approval}
    approved |= {made.call.name for made in code.calls if made.outcome.decision}
    if approved:
        return f"{min(approved)!r} asks for approval; run the code yourself"
    return ""


def _rewind(code: Code, recorded: Recorded) -> tuple[NotCovered, ...]:
    """The variables as they were before the run."""
    notes: tuple[NotCovered, ...] = ()
    if recorded.watch is not None:
        notes = recorded.watch.rewind()
    for made in code.calls:
        name = made.outcome.stored
        if name and recorded.namespace.get(name) is made.outcome.value:
            del recorded.namespace[name]
    return notes


def _unknown_state(recorded: Recorded, notes: tuple[NotCovered, ...]) -> str:
    """Why the variables may not be as they were before the run; empty if they are."""
    if notes:
        return f"the state before the run could not be restored: {notes[0]}"
    if recorded.watch is None:
        return "what the run changed was not watched, so the state before it is not known"
    return ""


class _Comparison:
    """Runs code in the namespace, and compares the values of its calls."""

    def __init__(self, code: Code, variables: dict[str, Any]) -> None:
        self._code = code
        self._variables = variables
        self._live = LiveNamespace(variables)
        self._values: list[tuple[str, Any]] = []  # of the calls, in order
        self._last: list[tuple[Any, Any]] = []  # of verbatim code: in the run, and now
        self._is_inside = False  # of a call
        self._answer: Any = None
        self._why = ""

    def run(self) -> None:
        """Run all blocks; what one raises ends this."""
        output = Capture()
        with self._recording(), capturing([], output):
            figures = open_figures()
            try:
                for line in self._code.imports:
                    python(line, self._live)
                for block in self._code.blocks:
                    self._run_block(block)
            except Exception as error:  # noqa: BLE001 - code of the model and tools of the user
                self._why = f"it raised {type(error).__name__}: {one_line(str(error), 200)}"
                return
            finally:
                take_figures(figures, output, [])
        if self._code.answer.name:
            self._answer = self._variables.get(self._code.answer.name)

    def _run_block(self, block: Block) -> None:
        self._is_inside = block.is_verbatim
        value = python(block.source, self._live)
        if inspect.isawaitable(value):
            value = awaited(value)
        if block.name:
            value = self._variables.get(block.name)
        if block.is_verbatim and block.has_value:
            self._last.append((block.value, value))

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Have the functions of the tools note what they return; they are called by other names."""
        before = {}
        for expression, tool in self._code.tools.items():
            first, dot, _ = expression.partition(".")
            if dot:  # a method, or a function of a module: it cannot be replaced
                continue
            function = self._variables.get(first, tool.function)
            before[first] = self._variables.get(first, self)
            self._variables[first] = self._noting(function, tool)
        try:
            yield
        finally:
            for name, function in before.items():
                if function is self:
                    self._variables.pop(name, None)
                else:
                    self._variables[name] = function

    def _noting(self, function: Callable[..., Any], tool: Tool) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            is_outer = not self._is_inside
            self._is_inside = True
            try:
                value = function(*args, **kwargs)
            finally:
                self._is_inside = not is_outer
            if is_outer and not (inspect.isawaitable(value) or inspect.isasyncgen(value)):
                if inspect.isgenerator(value):
                    value = list(value)
                self._values.append((tool.name, value))
            return value

        @functools.wraps(function)
        async def noted_later(*args: Any, **kwargs: Any) -> Any:
            value = await function(*args, **kwargs)
            self._values.append((tool.name, value))
            return value

        if inspect.iscoroutinefunction(function):
            return noted_later
        with_name: Callable[..., Any] = functools.update_wrapper(noted, function)
        return with_name

    def proof(self, recorded: Recorded) -> Proof:
        """The comparison with the run."""
        if self._why:
            return Proof(why=self._why)
        pairs = [("the value of the code", before, now) for before, now in self._last]
        expected = [made for made in self._code.calls if self._is_noted(made, recorded)]
        if len(expected) != len(self._values):
            made_now = count(len(self._values), "call")
            return Proof(why=f"it made {made_now}, and the run {len(expected)}")
        for made, (name, value) in zip(expected, self._values, strict=True):
            pairs.append((f"the value of {name}", made.outcome.value, value))
        differences = [
            Difference(what, before, now) for what, before, now in pairs if not same(before, now)
        ]
        if self._code.answer.has_value:
            pairs.append((_ANSWER, self._code.answer.value, self._answer))
            if not self._is_the_answer():
                differences.append(Difference(*pairs[-1]))
        return Proof(len(pairs) - len(differences), len(pairs), tuple(differences))

    def _is_noted(self, made: RecordedCall, recorded: Recorded) -> bool:
        """Whether the value of a call was noted."""
        tool = recorded.tools[made.call.name]
        if inspect.isasyncgenfunction(tool.function):
            return False
        return any(
            each is tool and "." not in expression for expression, each in self._code.tools.items()
        )

    def _is_the_answer(self) -> bool:
        """Whether the answer is that of the run, which may have read it from a text."""
        answer = self._code.answer
        if same(answer.value, self._answer):
            return True
        try:
            return bool(self._answer == answer.value) or as_text(self._answer) == answer.text
        except Exception:  # noqa: BLE001 - such as two frames, or a value that JSON does not have
            return False


def same(before: Any, now: Any) -> bool:
    """Whether two values have the same content."""
    if before is now:
        return True
    one = fingerprint(before)
    other = fingerprint(now)
    return one.digest == other.digest and not one.unread
