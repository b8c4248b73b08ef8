"""Makes the tools that code calls ask for their approval, by whatever name the code calls them.

While the code runs, the names of the tools in the namespace are bound to functions that ask first.
Whoever has got hold of such a function (a timer, a thread, a task, a closure) cannot get rid of the
question:

    guard   begins with    a call that needs approval
    open    `guard_tools`  is decided on as a call of the model
    ended   its end        is refused: nobody expects the question any more

The code may also come by the person's own function: in a list of theirs, or after the end, when
names and containers hold it again. Therefore what the code looks up, calls or gets from a call is
passed through its guard (`guarded_code.py`). A function of the person that calls a tool, and code
that is a text (`exec`), are guarded only while the guard is open.
"""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from archytas_nb.kernel.approval import Approver
from archytas_nb.kernel.shell import Namespace
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.tool import BoundCall, Tool

_MAX_CONTAINERS = 1_000_000  # of the namespace that are searched for guarded functions
_MAX_TUPLES = 50  # inside one another


class _Original(NamedTuple):
    """The function of the person that a guarded function stands for."""

    function: Callable[..., Any]
    added_as: str = ""  # the name that it was added as, if the namespace had none for the tool


_originals: WeakKeyDictionary[Callable[..., Any], _Original] = WeakKeyDictionary()
"""Of every guarded function."""

_open: list[ToolGuard] = []
_waiting: list[ToolGuard] = []  # those that ended while another one was open
_lock = threading.RLock()

current_guard: ContextVar[ToolGuard | None] = ContextVar("archytas_nb_guard", default=None)
"""The guard of the code that runs; tasks of the code inherit it."""


@contextmanager
def guard_tools(
    tools: Mapping[str, Tool], approver: Approver, variables: Namespace, called: list[str]
) -> Iterator[None]:
    """In the block, tools that code calls by any name in the namespace need their approval.

    Tools without a name there get their own for the block. Each call is added to ``called``.
    """
    guard = ToolGuard([each for each in tools.values() if not each.runs_code], approver)
    token = current_guard.set(guard)
    try:
        guard.begin(variables, called)
        yield
    finally:
        guard.end()
        current_guard.reset(token)


class ToolGuard:
    """Guards the tools of one agent while, and after, its code runs.

    Args:
        tools: The tools; several may call the same function.
        approver: Decides on the calls; None refuses them.
    """

    def __init__(self, tools: list[Tool], approver: Approver | None = None) -> None:
        self._tools = tools
        self._approver = approver
        self._ids = {id(each.function) for each in tools}  # the tools keep the functions alive
        self._guarded: dict[tuple[int, str], Callable[..., Any]] = {}  # by original and name
        self.variables: Namespace = {}
        self._called: list[str] = []
        self._is_open = False

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process nobody can be asked: the copy refuses every call."""
        return ToolGuard, ([],)

    @property
    def may_refuse(self) -> bool:
        """Whether a call of one of the tools may be asked about or refused."""
        if self._approver is None:
            return bool(self._tools)
        return any(map(self._approver.may_refuse, self._tools))

    # ── the namespace ─────────────────────────────────────────────────────────────────────────────

    def begin(self, variables: Namespace, called: list[str]) -> None:
        """Bind the names of the tools to functions that ask first."""
        with _lock:
            self.variables = variables
            self._called = called
            self._is_open = True
            _open.append(self)
            for name, value in dict(variables).items():
                if self.tools_of(value, name):
                    variables[name] = self._guard(value, name)
            for tool in self._tools:
                if tool.name not in variables:
                    variables[tool.name] = self._guard(tool.function, tool.name, is_added=True)

    def end(self) -> None:
        """Bind the names, and the places in lists and other containers, to the functions again.

        What another guard of the same namespace still needs stays guarded until that one ends.
        """
        with _lock:
            self._is_open = False
            if self in _open:
                _open.remove(self)
            others = [each for each in _open if each.variables is self.variables]
            self._restore_names(others)
            _waiting.append(self)
            if others:
                return
            ended = [each for each in _waiting if each.variables is self.variables]
            _waiting[:] = [each for each in _waiting if each not in ended]
            if any(each.is_kept_elsewhere() for each in ended):
                _restore_in_containers(self.variables)

    def _restore_names(self, others: Sequence[ToolGuard]) -> None:
        """Bind the names to the functions again, except those that other guards need."""
        for name, value in dict(self.variables).items():
            original = _original_of(value)
            if original is None or any(each.tools_of(original.function) for each in others):
                continue
            if original.added_as == name:
                del self.variables[name]
            else:
                self.variables[name] = original.function

    def is_kept_elsewhere(self) -> bool:
        """Whether something besides this object refers to one of the guarded functions."""
        [unshared] = map(sys.getrefcount, [object()])
        return any(each > unshared for each in map(sys.getrefcount, self._guarded.values()))

    # ── the calls ─────────────────────────────────────────────────────────────────────────────────

    def tools_of(self, function: Any, name: str = "") -> list[Tool]:
        """The tools that call a function: those of that name, or else all."""
        if id(function) not in self._ids and type(function) is not MethodType:
            return []
        tools = [each for each in self._tools if _is_same(each.function, function)]
        return [each for each in tools if name in (each.name, each.source_name)] or tools

    def __matmul__(self, value: Any) -> Any:
        """A value that the code came by: guarded if a tool calls it."""
        if id(value) not in self._ids and type(value) is not MethodType:  # nearly every one
            return value
        tools = self.tools_of(value)
        if tools:
            return self._guard(tools[0].function)
        return value

    def __rshift__(self, values: Any) -> Any:
        """The values that the code passes on by ``*values``, each as by ``@``."""
        try:
            return map(self.__matmul__, values)
        except TypeError:  # they cannot be iterated; the call says it better
            return values

    def _guard(
        self, function: Callable[..., Any], name: str = "", *, is_added: bool = False
    ) -> Callable[..., Any]:
        """The function that asks first; ``name`` tells the tool if several call the function."""
        key = id(function), name
        if key in self._guarded:
            return self._guarded[key]

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            running = current_guard.get()
            if running is not None and running.tools_of(function):
                return running.call(function, name, args, kwargs)
            return self.call(function, name, args, kwargs)

        original = _Original(function)
        if is_added:
            original = _Original(function, added_as=name)
        _originals[guarded] = original
        self._guarded[key] = guarded
        return guarded

    def call(
        self,
        function: Callable[..., Any],
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call a function after the approval of each of its tools; raises PermissionError."""
        tools = self.tools_of(function, name)
        if not tools:
            raise PermissionError(f"{name!r} needs approval, and nobody can be asked here")
        bound = BoundCall(function, args, kwargs)
        for tool in tools:
            bound = self._approved(tool, bound)
        self._called.append(tools[0].name)
        return bound.function(*bound.args, **bound.kwargs)

    def _approved(self, tool: Tool, bound: BoundCall) -> BoundCall:
        """The call, after approval.

        Raises:
            PermissionError: It was refused.
            TypeError: The arguments do not fit.
        """
        if self._approver is None:
            raise PermissionError(f"{tool.name} needs approval, and nobody can be asked here")
        signature = inspect.signature(tool.function)
        given = dict(signature.bind_partial(*bound.args, **bound.kwargs).arguments)
        sent = {name: each for name, each in given.items() if each is not self.variables}
        injected = {each.name: self.variables for each in tool.parameters if each.injected}

        kwargs = {**injected, **given}
        positional = [each.name for each in tool.parameters if each.positional]
        args = tuple(kwargs.pop(name) for name in positional if name in kwargs)
        decision = self._approver.decide(
            tool,
            ToolCall("", tool.name, sent),
            BoundCall(tool.function, args, kwargs),
            self.variables,
            may_ask=self._is_open,
        )
        if decision.stop:
            raise KeyboardInterrupt
        if decision.bound is None:
            raise PermissionError(decision.refusal)
        return decision.bound


def _is_same(one: Any, other: Any) -> bool:
    """Whether two functions are the same; a bound method is a new object at each lookup."""
    if type(one) is type(other) is MethodType:
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


def _original_of(value: Any) -> _Original | None:
    if type(value) is FunctionType:
        return _originals.get(value)
    return None


# ── containers ────────────────────────────────────────────────────────────────────────────────────


def _restore_in_containers(variables: Namespace) -> None:
    """Put the person's functions back into the lists, dicts, sets and tuples of the variables."""
    todo: deque[Any] = deque()
    seen: dict[int, Any] = {}  # keeps them, so that each id stays that of one object

    def restored(value: Any, depth: int = 0) -> Any:
        original = _original_of(value)
        if original is not None:
            return original.function
        is_container = _kind_of(value) is not None
        if is_container and id(value) not in seen and len(seen) < _MAX_CONTAINERS:
            seen[id(value)] = value
            todo.append(value)
        if type(value) is tuple and depth < _MAX_TUPLES:
            items = tuple(restored(each, depth + 1) for each in value)
            if any(new is not old for new, old in zip(items, value, strict=True)):
                return items
        return value

    for name, value in dict(variables).items():
        if (new := restored(value)) is not value:
            variables[name] = new
    while todo:
        container = todo.popleft()
        # A thread may change it meanwhile, and a key may raise anything. Interrupts are deferred.
        with suppress(BaseException):
            # Functions and containers are tracked; the numbers and texts of long lists are not.
            tracked = filter(gc.is_tracked, _elements(container))
            replaced = [each for each in tracked if restored(each) is not each]
            if replaced:
                _restore_in(container, restored)


def _restore_in(container: Any, restored: Callable[[Any], Any]) -> None:
    """Replace what ``restored`` replaces, by the methods of the built-in type."""
    kind: Any = _kind_of(container)
    if kind is dict:
        _restore_in_dict(container, restored)
    elif kind is set:
        for value in list(set.__iter__(container)):
            new = restored(value)
            if new is not value:
                set.discard(container, value)
                set.add(container, new)
    else:
        for at, value in enumerate(list(kind.__iter__(container))):
            new = restored(value)
            if new is not value:
                kind.__setitem__(container, at, new)


def _restore_in_dict(container: dict[Any, Any], restored: Callable[[Any], Any]) -> None:
    before = list(dict.items(container))
    after = [(restored(key), restored(value)) for key, value in before]
    if any(new is not old for (new, _), (old, _) in zip(after, before, strict=True)):
        dict.clear(container)  # all again, to keep their order
        dict.update(container, after)
        return
    for (key, new), (_, value) in zip(after, before, strict=True):
        if new is not value:
            dict.__setitem__(container, key, new)


def _elements(container: Any) -> Iterator[Any]:
    kind: Any = _kind_of(container)
    if kind is dict:
        return itertools.chain(dict.keys(container), dict.values(container))
    elements: Iterator[Any] = kind.__iter__(container)
    return elements


def _kind_of(value: Any) -> type | None:
    """The built-in container that a value is; its class may say something else of itself."""
    for kind in (list, dict, set, deque):
        if issubclass(type(value), kind):
            return kind
    return None
