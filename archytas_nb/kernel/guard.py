"""Makes the tools that code of a model calls ask for their approval, however the code calls them.

While the code runs, the functions of the tools have doors (`door.py`). A call through a door needs
approval if the code made it, or started the caller (`origin.py`). The person's own calls pass. All
tools of the kernel that may require approval are guarded, whatever tools the agent has.

    guard   begins with    a call of the code, or of what it has started
    open    `guard_tools`  is decided on as a call of the model
    ended   its end        is refused: nobody expects the question now
    gone    nothing refers to it: no function, thread or task of the code is left, the doors open

A call of unknown origin (`_unknown`) counts as one of the running code.
"""

from __future__ import annotations

import builtins
import functools
import gc
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakSet, finalize, ref

from archytas_nb.functions import door, origin
from archytas_nb.functions.door import Door
from archytas_nb.kernel.approval import Approver, CallingProgram, Clearance
from archytas_nb.kernel.permission import all_codes
from archytas_nb.loop.events import ToolCall
from archytas_nb.namespace import Namespace, current_shell, live_namespace
from archytas_nb.tools.meaning import signature_of
from archytas_nb.tools.registry import former_tools, on_register, tools_that_exist
from archytas_nb.tools.render import is_users_file
from archytas_nb.tools.tool import BoundCall, Tool

_open: list[ToolGuard] = []
_left: WeakSet[FunctionType] = WeakSet()
"""Functions of tools to which code that has ended has left references somewhere."""

_lock = threading.RLock()
_NONE = object()  # in place of a value that a name did not have


@contextmanager
def guard_tools(
    tools: Mapping[str, Tool],
    approver: Approver,
    variables: Namespace,
    called: list[str],
    program: str = "",
) -> Iterator[None]:
    """Run code of a model in the block: the tools that it calls need their approval.

    Tools without a name in the namespace get their own for the block. Each call is added to
    ``called``.
    """
    guard = ToolGuard(list(tools.values()), approver, variables, called, program)
    with origin.started_by(guard):
        try:
            guard.begin()
            yield
        finally:
            guard.end()


@contextmanager
def tools_refused() -> Iterator[None]:
    """Run code of a model in the block, refusing every call that needs approval."""
    with guard_tools({}, Approver("deny", (), _Nobody()), {}, []):
        yield


class _Nobody:
    """A person who is not there."""

    there = False

    def ask(self, *_: Any) -> str:
        """Nobody answers."""
        raise EOFError


class _Way(NamedTuple):
    """A way into a function: the tool that it is the function of, and the arguments that it has."""

    tool: Callable[[], Tool]
    fixed: tuple[Any, ...]  # the object of a method, what a partial has


class ToolGuard(origin.Origin):
    """Stands for code of a model, and guards the tools while and after it runs.

    Args:
        tools: The tools of the agent.
        approver: Decides on the calls; None refuses them.
        variables: The namespace.
        called: Gets the names of the tools that the code calls.
        program: The code; empty if it is not known.
    """

    is_code = True

    def __init__(
        self,
        tools: list[Tool] | None = None,
        approver: Approver | None = None,
        variables: Namespace | None = None,
        called: list[str] | None = None,
        program: str = "",
    ) -> None:
        self._program = program
        self._tools = [each for each in tools or () if not each.runs_code]
        self._approver = approver
        self.variables: Namespace = {} if variables is None else variables
        self._called = [] if called is None else called
        self.is_open = False
        self._process = os.getpid()
        outer = origin.origin_of_call()
        self._outer = outer if isinstance(outer, ToolGuard) else None  # whose code runs this agent
        self._doors: dict[Door, list[_Way]] = {}  # which keep no function alive
        self._references: dict[Door, int] = {}  # to the functions, at the beginning
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] = []
        self._before: dict[Any, Any] = {}  # the variables at the beginning

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process nobody can be asked: the copy refuses every call."""
        return _in_other_process, ()

    # ── begin and end ─────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Shut the doors of the tools."""
        origin.follow()
        with _lock:
            self.is_open = True
            _open.append(self)
            self.shut_doors()
            self._references = _references_to(self._doors)
            self._before = dict(self.variables)
            for tool in self._tools:
                if tool.name not in self.variables:
                    self._set(self.variables, tool.name, tool.function)

    def end(self) -> None:
        """Remove the added names; doors stay shut for the remains of the code."""
        with _lock:
            self.is_open = False
            if self in _open:
                _open.remove(self)
            for names, name, value, before in reversed(self._replaced):
                if names.get(name) is value:  # the code may have bound it to something else
                    _put_back(names, name, before)
            self._replaced.clear()
            self._note_made()
            now = _references_to(self._references)
            for each, count in self._references.items():
                function = each.function()
                if function is not None and now[each] > count and function not in _left:
                    _left.add(function)
                    door.shut(function, _enter)  # for good

    def _note_made(self) -> None:
        before = self._before
        self._before = {}
        for name, value in list(self.variables.items()):
            if before.get(name, _NONE) is not value:
                _made[name] = id(value)

    def shut_doors(self) -> None:
        """Shut the doors of all tools, until nothing refers to this object."""
        needing = [each for each in tools_that_exist() if _needs_door(each)]
        for tool in dict.fromkeys([*self._tools, *needing]):
            self._shut(tool.function, partial(_itself, tool))
        known = {each.function() for each in self._doors}
        for function, (name, approve) in former_tools():
            if function not in known:
                self._shut(function, partial(_made_again, ref(function), name, approve))
        finalize(self, _open_doors, self._doors).atexit = False

    def shut_door_of(self, tool: Tool) -> None:
        """Shut the door of a tool that is made while the code runs."""
        if _needs_door(tool):
            with _lock:
                self._shut(tool.function, partial(_itself, tool))

    def _shut(self, function: Any, tool: Callable[[], Tool]) -> None:
        """Shut the doors of all Python functions that run if a function is called."""
        bodies = list(_bodies(function))
        for body, fixed in bodies:
            shut = door.shut(body, _enter)
            if shut in self._doors:
                door.open_again(body)  # which counts them
            self._doors.setdefault(shut, []).append(_Way(tool, fixed))
        if not bodies:
            self._wrap(function, tool())

    def _wrap(self, function: Any, tool: Tool) -> None:
        """Make the names of a function that is not written in Python lead to one that asks."""

        @functools.wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            caller = origin.origin_of_call()
            if not isinstance(caller, ToolGuard):
                return function(*args, **kwargs)
            return caller.decided([tool], args, kwargs, partial(function, *args, **kwargs))

        for name, value in dict(self.variables).items():
            if value is function:
                self._set(self.variables, name, asking)
        module = getattr(function, "__self__", None)
        if type(function) is BuiltinFunctionType and isinstance(module, types.ModuleType):
            self._set(vars(module), function.__name__, asking)
        if tool.name not in self.variables:
            self._set(self.variables, tool.name, asking)

    def _set(self, names: Any, name: str, value: Any) -> None:
        """Bind a name until the end."""
        self._replaced.append((names, name, value, names.get(name, _NONE)))
        names[name] = value

    # ── the calls ─────────────────────────────────────────────────────────────────────────────────

    def enter(self, at: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function of a door after the approval of each of its tools.

        Raises:
            PermissionError: A call was refused, or nobody can be asked.
            TypeError: The arguments are not those of the tool.
        """
        run = partial(at.body, *args, **kwargs)
        if at.function() is None:  # called by a copy that the code has made
            raise _nobody(at.body.__name__)
        ways = self._ways(at)
        if not is_users_file(at.original.co_filename):  # a library uses its methods by itself
            ways = [each for each in ways if _leads(each.fixed, args)]
        tools = self._deciding([each.tool() for each in ways])
        if not tools:  # a method of a library, of another object
            return run()
        given, named = _as_named(at.signature, args, kwargs, min(len(e.fixed) for e in ways))
        unasked = None
        # code of a model runs this agent, and cannot allow itself anything
        if self._outer is not None:
            unasked = partial(self._outer.enter, at, args, kwargs)
        return self.decided(tools, given, named, run, unasked, _defaults_of(at.body))

    def is_called_by_tool(self, function: FunctionType, frame: FrameType | None) -> bool:
        """Whether the body of a tool calls a function by itself, in a call of the code.

        It does if it uses a name that led to the function before. A function that the code passed
        in, as an argument or in a changed variable, is called by the code.

        Args:
            function: The called function.
            frame: The calling frame.
        """
        for each in origin.frames_from(frame):
            if each.f_code is origin.run_as_tool.__code__:
                return not any(_holds(value, function) for value in _given_to(each))
            if _is_of_user(each):
                break
        else:  # another thread, in which a library calls what the tool has handed over
            return True
        names = {*each.f_code.co_names, *each.f_code.co_freevars}
        for name in names:
            value = _value_of(each, name)
            is_variable = each.f_globals is self.variables and name not in each.f_code.co_freevars
            if is_variable and self._before.get(name, _NONE) is not value:
                continue
            # The code may have put the function into a container.
            if any(_holds(one, function, 3) for one in (value, *_attributes(value, names))):
                return True
        return False

    def _ways(self, at: Door) -> list[_Way]:
        """The ways into a function, also those of tools that were defined after the beginning."""
        if at in self._doors:
            return self._doors[at]
        function = at.function()
        ways = []
        for tool in filter(_needs_door, tools_that_exist()):
            for body, fixed in _bodies(tool.function):
                if body is function:
                    ways.append(_Way(partial(_itself, tool), fixed))
        for body, (name, approve) in former_tools():
            if body is function and not ways:
                ways.append(_Way(partial(_made_again, ref(body), name, approve), ()))
        return ways

    def _deciding(self, tools: list[Tool]) -> list[Tool]:
        """Of the tools of a function those that decide on a call: those of the agent, if any."""
        tools = [each for each in tools if each in self._tools] or tools
        needing = [each for each in tools if each.may_require_approval]
        by_kind = {(each.name, each.approve): each for each in needing or tools}
        return list(by_kind.values())

    def decided(
        self,
        tools: list[Tool],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[[], Any],
        unasked: Callable[[], Any] | None = None,
        defaults: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> Any:
        """Run a call after the approval of each tool; ``args`` are those that the tools have.

        What is called in place of ``run`` if no person has decided is ``unasked``.
        """
        can_decide = self._approver is not None and self._process == os.getpid()
        if not can_decide and any(each.may_require_approval for each in tools):
            raise _nobody(tools[0].name)
        edits: dict[str, Any] = {}
        for tool in tools if can_decide else ():
            signature = signature_of(tool.function)
            given = {**signature.bind_partial(*args, **kwargs).arguments, **edits}
            clearance = self._clearance(tool, given, defaults)
            if clearance.form is not None:
                unasked = None
            if clearance.edit is not None and clearance.bound is not None:
                bound = clearance.bound
                edits |= tool.arguments(bound)
                run = partial(bound.function, *bound.args, **bound.kwargs)
        if unasked is not None:
            return unasked()
        self._called.append(next((t.name for t in tools if t in self._tools), tools[0].name))
        return origin.run_as_tool(run, origin.OfTool(self))

    def permit(self, tool: Tool, target: str) -> bool:
        """Ask about an act of the code, in the form of a call of a tool with one argument.

        Returns:
            Whether a person has decided on it now.

        Raises:
            PermissionError: It was refused, or nobody can be asked.
            KeyboardInterrupt: The person ends the run.
        """
        if self._approver is None or self._process != os.getpid():
            raise _nobody(tool.name)
        [name] = [each.name for each in tool.parameters]
        lines = (
            frame.f_lineno
            for frame in origin.frames_from(inspect.currentframe())
            if self in frame.f_code.co_consts[-1:]
        )
        caller = CallingProgram(self._program, next(lines, 0))
        clearance = self._clearance(tool, {name: target}, {}, caller)
        return clearance.form is not None

    def _clearance(
        self,
        tool: Tool,
        given: dict[str, Any],
        defaults: Mapping[str, Any],
        caller: CallingProgram | None = None,
    ) -> Clearance:
        """The clearance to run a call.

        Raises:
            PermissionError: It was refused.
        """
        if self._approver is None:
            raise _nobody(tool.name)
        # The person reads the arguments that the code gave, without the namespace and defaults.
        sent = {name: each for name, each in given.items() if each is not self.variables}
        for name, default in defaults.items():
            if name in sent and sent[name] is default:
                del sent[name]
        injected = {each.name: self.variables for each in tool.parameters if each.injected}
        named = {**injected, **given}
        positional = [each.name for each in tool.parameters if each.positional]
        args = tuple(named.pop(name) for name in positional if name in named)
        clearance = self._approver.decide(
            tool,
            ToolCall("", tool.name, sent),
            BoundCall(tool.function, args, named),
            self.variables,
            may_ask=self.is_open,
            caller=caller,
        )
        if clearance.stops:
            raise KeyboardInterrupt
        if clearance.bound is None:
            raise PermissionError(clearance.refusal)
        return clearance


def _in_other_process() -> ToolGuard:
    """The guard of work that a run sent to a process without doors."""
    guard = ToolGuard()
    with _lock:
        guard.shut_doors()
    return guard


def _needs_door(tool: Tool) -> bool:
    return tool.may_require_approval and not tool.runs_code


def _nobody(name: str) -> PermissionError:
    return PermissionError(f"{name!r} needs approval, and nobody can be asked here")


def _on_new_tool(tool: Tool) -> None:
    for each in _open:
        each.shut_door_of(tool)


on_register.append(_on_new_tool)


def _itself(tool: Tool) -> Tool:
    return tool


def _made_again(function: ReferenceType[FunctionType], name: str, approve: Any) -> Tool:
    """A tool that is gone, whose function still exists."""
    return Tool.from_function(function(), name, approve=approve)  # type: ignore[arg-type]


def _put_back(names: dict[str, Any], name: str, before: Any) -> None:
    if before is _NONE:
        del names[name]
    else:
        names[name] = before


def _references_to(doors: Iterable[Door]) -> dict[Door, int]:
    """The number of references to the function of each door."""
    return {each: sys.getrefcount(each.function()) for each in doors}


def _open_doors(doors: Iterable[Door]) -> None:
    for each in doors:
        function = each.function()
        if function is not None:
            door.open_again(function)


def _enter(at: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a call at a tool's door: decide on calls of a model's code, let others pass."""
    caller = origin.origin_of_call()
    function = at.function()
    if function is not None:
        frame = _frame_that_calls(inspect.currentframe())
        if caller is None:
            caller = _unknown(function, frame)
        elif isinstance(caller, origin.OfTool) and isinstance(caller.caller, ToolGuard):
            code = caller.caller
            caller = caller if code.is_called_by_tool(function, frame) else code
    if isinstance(caller, ToolGuard):
        return caller.enter(at, args, kwargs)
    return at.body(*args, **kwargs)


def _frame_that_calls(enter: FrameType | None) -> FrameType | None:
    """The frame that calls the function of a door, from that of `_enter`."""
    for _ in range(3):  # the door, the stub, and what calls it
        enter = enter.f_back if enter is not None else None
    return enter


# ── which code runs if a tool is called ───────────────────────────────────────────────────────────


def _bodies(function: Any) -> Iterator[tuple[FunctionType, tuple[Any, ...]]]:
    """The Python functions that run if something is called, with the arguments that it has."""
    fixed: tuple[Any, ...] = ()
    for _ in range(100):  # a function may wrap itself
        if type(function) is MethodType:
            fixed = (function.__self__, *fixed)
            function = function.__func__
        elif isinstance(function, functools.partial):
            fixed = (*function.args, *fixed)
            function = function.func
        elif type(function) is FunctionType:
            yield function, fixed
            inner = getattr(function, "__wrapped__", None)
            if inner is None or _has_own_name(inner):
                return
            function = inner
        elif type(inspect.getattr_static(type(function), "__call__", None)) is FunctionType:
            fixed = (function, *fixed)
            function = inspect.getattr_static(type(function), "__call__")
        elif hasattr(function, "__wrapped__"):  # such as one with a cache
            function = function.__wrapped__
        else:
            return


def _has_own_name(function: Any) -> bool:
    """Whether a function that another one wraps is used by itself, such as one of a library."""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found is function


def _leads(fixed: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
    """Whether a call may have been made by a way that has these arguments."""
    if len(args) < len(fixed):
        return False
    for mine, given in zip(fixed, args, strict=False):
        is_subclass = isinstance(mine, type) and isinstance(given, type) and issubclass(given, mine)
        if mine is not given and not is_subclass:
            return False
    return True


def _as_named(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], start: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments after the first ones, by name where they have one and may have."""
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    named = [each for each in positional if each.kind is each.POSITIONAL_OR_KEYWORD]
    only = [each for each in positional if each.kind is each.POSITIONAL_ONLY]
    if len(args) > len(only) + len(named):  # more than have a name
        return args[start:], kwargs
    first = max(start, len(only))
    by_name = {each.name: value for each, value in zip(named, args[len(only) :], strict=False)}
    skipped = first - len(only)
    return args[start:first], {**dict(list(by_name.items())[skipped:]), **kwargs}


def _defaults_of(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


# ── calls of which nobody can tell who makes them ─────────────────────────────────────────────────


def _unknown(function: FunctionType, frame: FrameType | None) -> ToolGuard | None:
    """The guard that decides on a call of unknown origin; None if the person makes it.

    Code that runs may have handed the function, or one that calls it, to a thread or a callback
    that was there before. Such a thread runs functions of a library, or has got a function as a
    value; a thread of the person calls it by a name.

    Args:
        function: The called function.
        frame: The calling frame; None for a thread that was started in C.
    """
    frames = list(origin.frames_from(frame))
    thread = threading.current_thread()
    if thread is threading.main_thread():
        if function not in _left:
            return None
        return None if _is_called_by_user(frames, function) else ToolGuard()
    with _lock:
        guard = _open[-1] if _open else None
    if guard is None or any(_holds(each, function) for each in list(vars(thread).values())):
        return None
    frames = [each for each in frames if each.f_code.co_filename != threading.__file__]
    if not frames or not is_users_file(frames[-1].f_code.co_filename):
        return guard
    called: Any = function
    for each in frames:
        code = each.f_code
        if is_users_file(code.co_filename) and _is_value_in(each, called):
            return guard
        called = code
    return None


def _is_of_user(frame: FrameType) -> bool:
    return is_users_file(frame.f_code.co_filename)


def _is_called_by_user(frames: list[FrameType], function: FunctionType) -> bool:
    """Whether code of the user calls a function, itself or by a library.

    A callback is called while some other code runs, which does not mention the function and has
    not given it to the library.

    Args:
        frames: The frame that calls the function, the frame that has called that, and so on.
        function: The function.
    """
    if frames and origin.is_of_loop(frames[0]):  # and not of the code, whose context says so
        return True
    given: list[Any] = []
    nearest = next((each for each in frames if _is_of_user(each)), None)
    if nearest is not None and _reads_by_text(nearest):
        return True
    for frame in frames:
        if _is_of_user(frame):
            if any(_holds(each, function) for each in given) or _names(frame, function):
                return True
            given = []
        else:
            given = _arguments(frame)
    return False


def _arguments(frame: FrameType) -> list[Any]:
    code = frame.f_code
    stars = (code.co_flags & inspect.CO_VARARGS > 0) + (code.co_flags & inspect.CO_VARKEYWORDS > 0)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]
    values = [frame.f_locals.get(each) for each in names]
    return [list(each.values()) if type(each) is dict else each for each in values]


_READERS = {globals, locals, vars, getattr, eval, exec}


def _reads_by_text(frame: FrameType) -> bool:
    """Whether code may read a variable whose name it does not mention."""
    names = frame.f_code.co_names
    return "__globals__" in names or any(
        getattr(builtins, each, None) in _READERS for each in names
    )


def _names(frame: FrameType, function: FunctionType) -> bool:
    """Whether a variable that code mentions leads to a function."""
    names = dict[str, None]()
    for code in all_codes(frame.f_code):
        for each in (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars):
            names |= dict.fromkeys(each)
    for name in names:
        value = _value_of(frame, name)
        is_made = _made.get(name) == id(value) and value is live_namespace().get(name, _NONE)
        if _leads_to(value, function, names, is_made=is_made):
            return True
    return False


def _value_of(frame: FrameType, name: str) -> Any:
    return frame.f_locals.get(name, frame.f_globals.get(name, _NONE))


def _leads_to(value: Any, function: FunctionType, names: Collection[str], *, is_made: bool) -> bool:
    """Whether a value leads to a function.

    Args:
        value: The value.
        function: The function.
        names: The attributes of modules and classes that count.
        is_made: Whether code of a model made the value; what it holds inside is then a callback.
    """
    todo = [value]
    shell = current_shell()  # calls back whatever it was given
    seen: dict[int, Any] = {id(shell): shell}
    while todo and len(seen) < _MOST_SEEN:
        each = todo.pop()
        if each is function:
            return True
        if id(each) in seen:
            continue
        seen[id(each)] = each
        kind = type(each)
        if len(seen) == 2:  # the value itself
            todo += _attributes(each, names)
        if issubclass(kind, (types.ModuleType, type, FrameType, types.TracebackType)):
            continue
        if kind is dict:
            if "__builtins__" not in each:  # the variables of a notebook or a module
                todo += each.values()
        elif kind in (list, tuple, set, frozenset):
            todo += each
        elif kind is FunctionType or not is_made or issubclass(kind, _CALLS):
            todo += gc.get_referents(each)
        else:
            todo += getattr(each, "__dict__", {}).values()
    return False


_MOST_SEEN = 2_000
"""Objects that are looked at on the way to a function."""
_CALLS = (functools.partial, MethodType, staticmethod, classmethod)
_made: dict[str, int] = {}
"""The ids of the values that code of a model has bound names of the notebook to."""


def _given_to(run: FrameType) -> list[Any]:
    """The arguments of the call that `run_as_tool` runs."""
    work = run.f_locals["work"]
    return [*work.args, *work.keywords.values()] if isinstance(work, partial) else []


def _attributes(value: Any, names: Collection[str]) -> list[Any]:
    """The attributes of a value that code mentions."""
    return [inspect.getattr_static(value, name, None) for name in names]


def _holds(value: Any, called: Any, depth: int = 0) -> bool:
    """Whether a value is a function, or one with that code, or has it as an argument."""
    if value is called:
        return True
    if isinstance(value, functools.partial):
        return any(_holds(each, called, depth) for each in (value.func, *value.args))
    if type(value) is MethodType:
        value = value.__func__
    if type(value) is FunctionType:
        return door.code_of(value) is called
    if type(value) in (tuple, list) and depth < 3:
        return any(_holds(each, called, depth + 1) for each in value[:100])
    return False


def _is_value_in(frame: FrameType, called: Any) -> bool:
    """Whether a local variable of a function has as its value what the function calls."""
    if frame.f_locals is frame.f_globals:
        return False
    free = frame.f_code.co_freevars
    return any(_holds(v, called) for name, v in list(frame.f_locals.items()) if name not in free)
