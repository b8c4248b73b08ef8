"""Which variables a call may change, and a watch over them while the calls of a run go on."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import itertools
import json
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from archytas_nb.kernel import Namespace
from archytas_nb.kernel.content import only_atoms
from archytas_nb.kernel.interrupts import CallGuard
from archytas_nb.kernel.python import python
from archytas_nb.kernel.snapshot import OBJECTS
from archytas_nb.kernel.transaction import Transaction, transaction, users_variables
from archytas_nb.loop.events import CHANGED, CallOutcome, Diff, Json, NotCovered
from archytas_nb.tools.render import clip
from archytas_nb.tools.tool import BoundCall, Tool

Call: TypeAlias = tuple[Tool, BoundCall, Json]
"""A call that is run, and its input as the model sent it."""

_NAME = re.compile(r"\\.|([^\W\d]\w*)")  # or an escaped character
_STATIC = {"module", "function", "class"}  # what code reads of these is not listed at each call
_REACHES_ALL = {"exec", "eval", "globals", "locals", "vars", "__import__"}
_REACHES_ALL |= {"get_ipython", "run_cell"}


class Watch:
    """Watches the user's variables during the calls of a run, and keeps what undoes them."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._taken: list[Transaction] = []
        self._is_let_go = False
        self.assigned: list[Diff] = []  # what `assign` changed

    def run(
        self, calls: Sequence[Call], work: Callable[[], list[CallOutcome]], guard: CallGuard
    ) -> list[CallOutcome]:
        """Run calls; the last outcome has what they changed."""
        during, made = self._during(calls), list[CallOutcome]()
        try:
            with during:
                made = work()
        except KeyboardInterrupt:  # it came while changes were looked for
            guard.interrupts += 1
        diff, text = during.diff, made[-1].text
        if diff:
            self._taken.append(during)
            if calls[-1][0].function is python:
                text += CHANGED + clip(str(replace(diff, not_watched=())), 1000)
        notes = tuple(each for each in diff.not_watched if each.why not in _STATIC)
        if diff or notes:
            made[-1] = replace(made[-1], text=text, diff=replace(diff, not_watched=notes))
        return made

    def _during(self, calls: Sequence[Call]) -> Transaction:
        """A transaction over the variables that calls may change."""
        names: set[str] = set()
        for tool, bound, given in calls:
            code: Any = tool.function
            if code is python:
                code = tool.arguments(bound)["code"]
            elif any(each.injected for each in tool.parameters):
                code = "globals()"
            try:
                words = _NAME.findall(json.dumps(given, ensure_ascii=False))  # as it may name them
                names |= set(words) & self._namespace.keys()
                names |= names_read(code, self._namespace)
            except SyntaxError:  # nothing will run
                continue
            except Exception:  # noqa: BLE001  (whatever an object does: it may reach anything)
                names |= {name for name, _ in users_variables(self._namespace)}
        return transaction(*(names or {""}), namespace=self._namespace)

    def assign(self, name: str, value: Any, not_watched: tuple[NotCovered, ...] = ()) -> None:
        """Bind a name after the calls, such as that of ``--out``: to undo the run restores it."""
        with transaction("", namespace=self._namespace) as during:
            self._namespace[name] = value
        self._taken.append(during)
        self.assigned.append(replace(during.diff, not_watched=not_watched))

    @property
    def bytes(self) -> int:
        """How much was copied and is kept."""
        return sum(each.bytes for each in self._taken)

    def let_go(self) -> None:
        """Free what undoes the changes, which then stay."""
        self._is_let_go = bool(self._taken) or self._is_let_go
        self._taken.clear()

    def undo(self) -> tuple[NotCovered, ...]:
        """Undo the changes, the last one first; returns what could not be restored."""
        if self._is_let_go:
            return (NotCovered("", "what undoes its changes is not kept any more"),)
        return tuple(note for each in reversed(self._taken) for note in each.undo())


def names_read(code: Any, namespace: Namespace) -> set[str]:
    """The variables that code may read or write, also through functions and classes of the user.

    ``code`` is text, or a function or an object whose methods may be called. All variables where it
    may reach any, as with ``exec`` and ``globals``.

    Raises:
        SyntaxError: The text is no Python.
    """
    if isinstance(code, str):
        code = compile(code, "<code>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    users = {name for name, _ in users_variables(namespace)}
    todo: list[Any] = [code]
    found: set[str] = set()
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen or only_atoms([each]):
            continue
        seen.add(id(each))
        if len(seen) > OBJECTS:
            return users
        if not isinstance(each, types.CodeType):
            todo += _codes(each, namespace)
            continue
        if set(each.co_names) & _REACHES_ALL - users:
            return users
        steps = dis.get_instructions(each)
        names = {step.argval for step in steps if re.search("_NAME|_GLOBAL", step.opname)}
        todo += [const for const in each.co_consts if isinstance(const, types.CodeType)]
        todo += [namespace[name] for name in names & users - found]
        found |= names & users
    return found


def _codes(value: Any, namespace: Namespace) -> list[Any]:
    """The code that a value may run, if it was defined in this namespace, or what leads to it."""
    if isinstance(value, functools.partial):
        return [value.func]
    if isinstance(value, (types.MethodType, staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, (list, tuple, set, dict)):
        held: Any = dict.values(value) if isinstance(value, dict) else value
        return [] if only_atoms(held) else [*itertools.islice(held, OBJECTS)]
    found = [getattr(value, "__dict__", {}).get("__wrapped__")]  # by a decorator
    if isinstance(value, types.FunctionType):
        if value.__globals__ is namespace:
            found += value.__code__, *inspect.getclosurevars(value).nonlocals.values()
        return found
    is_class, name = isinstance(value, type), namespace.get("__name__", "__main__")
    for each in value.__mro__ if is_class else (value,):
        if (each if is_class else type(each)).__module__ == name:
            found += getattr(each, "__dict__", {}).values()
    return found if is_class else [*found, type(value)]
