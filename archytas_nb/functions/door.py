"""A door at a Python function: while it is shut, every call of the function passes it first.

The code object of the function is replaced by a stub with the same parameters and free variables.
So the function stays the same object, and every way of calling it meets the door: by a name, a
closure, a partial, a library, from C, in any thread. The stub hands the arguments to the door,
which may run the function, call something else, or raise.

    state   `__code__`           begins with
    open    the function's own   nothing, or the last `open_again`
    shut    the stub             the first `shut`

Errors have no frames of the door in their tracebacks.
"""

from __future__ import annotations

import inspect
import keyword
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from archytas_nb.functions.origin import origin_of_call

Enter = Callable[["Door", tuple[Any, ...], dict[str, Any]], Any]
"""Handles a call at a door: returns the result of the call, or raises."""

_KIND = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PLACEHOLDER = "the door of the function"
_OURS = str(Path(__file__).parent.parent)

_lock = threading.RLock()
DOORS: WeakKeyDictionary[FunctionType, Door] = WeakKeyDictionary()
"""The doors that are or were shut; making one takes longer than shutting it."""


class _Called:
    """Called by a stub with its own arguments."""

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the function does, or raise."""
        raise NotImplementedError

    @staticmethod
    def leave(error: BaseException) -> None:
        """Leave out the frame of the stub, which is the first one."""
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next


class Door(_Called):
    """The door of one function."""

    def __init__(self, function: FunctionType, enter: Enter) -> None:
        self._function: ReferenceType[FunctionType] = ref(function)
        self._enter = enter
        self.original = function.__code__
        self.uses = 0
        body = FunctionType(
            self.original,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        body.__kwdefaults__ = function.__kwdefaults__
        body.__qualname__ = function.__qualname__
        body.__module__ = function.__module__
        self.body = body
        self.stub = _stub(self.original, self)

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process the function has no door; work that a run sends there is refused."""
        if origin_of_call() is not None:
            return _Refused, (self.body.__name__,)
        return _Open, (self.body,)

    def function(self) -> FunctionType | None:
        """The function; None if it is gone and only a copy of it is left."""
        return self._function()

    def fits(self, function: FunctionType, enter: Enter) -> bool:
        """Whether it is still the door of a function, which may have been changed in place."""
        body = self.body
        return (
            function.__code__ is self.original
            and function.__defaults__ is body.__defaults__
            and function.__kwdefaults__ is body.__kwdefaults__
            and self._enter is enter
        )

    @cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the function itself, not of one that it wraps."""
        return inspect.signature(self.body, follow_wrapped=False)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Enter: return the result of the function, or raise without frames of this package."""
        try:
            return self._enter(self, args, kwargs)
        except BaseException as error:
            traceback = error.__traceback__
            while traceback is not None and _is_own(traceback.tb_frame.f_code):
                traceback = traceback.tb_next
            error.__traceback__ = traceback
            raise


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(_OURS)


class _Refused(_Called):
    """In a copy of the function that a run sent to another process, where nobody can be asked."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Any:
        raise PermissionError(f"{self._name!r} needs approval, and nobody can be asked here")


class _Open(_Called):
    """In a copy of the function that the person sent to another process."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self._body = body

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._body(*args, **kwargs)


def shut(function: FunctionType, enter: Enter) -> Door:
    """Shut the door of a function; `open_again` has to be called as often."""
    with _lock:
        door = DOORS.get(function)
        if door is not None and function.__code__ is door.stub:
            door.uses += 1
            return door
        uses = 0 if door is None else door.uses  # its code was replaced meanwhile
        if door is None or not door.fits(function, enter):
            door = DOORS[function] = Door(function, enter)
        door.uses = uses + 1
        function.__code__ = door.stub
        return door


def open_again(function: FunctionType) -> None:
    """Open the door of a function, if nobody else needs it."""
    with _lock:
        door = DOORS.get(function)
        if door is None:
            return
        door.uses -= 1
        if door.uses > 0:
            return
        if function.__code__ is door.stub:
            function.__code__ = door.original
        if function.__closure__:  # in which it may be itself, and would never be forgotten
            del DOORS[function]


def code_of(function: FunctionType) -> CodeType:
    """The code of a function, whether its door is shut or not."""
    door = DOORS.get(function)
    if door is not None and function.__code__ is door.stub:
        return door.original
    return function.__code__


def set_code(function: FunctionType, code: CodeType) -> None:
    """Restore the code of a function; a door that was shut in front of it stays shut."""
    if code_of(function) is not code:
        function.__code__ = code


# ── the stub ──────────────────────────────────────────────────────────────────────────────────────

_SOURCE = """
def make({free}):
    def stub({parameters}):
        __tracebackhide__ = True
        __archytas_door__ = {placeholder!r}
        if 0:
            {names}
        try:
            return __archytas_door__(({args}), {{{kwargs}}})
        except BaseException as __archytas_error__:
            __archytas_door__.leave(__archytas_error__)
            raise
    return stub
"""


def _stub(code: CodeType, door: Door) -> CodeType:
    """A code object with the parameters, free variables and place of another, that calls a door."""
    positional = list(code.co_varnames[: code.co_argcount])
    rest = list(code.co_varnames[code.co_argcount :])
    named = [rest.pop(0) for _ in range(code.co_kwonlyargcount)]
    star = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else ""
    double = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else ""
    positional = [_legal(each, at) for at, each in enumerate(positional)]

    parameters = positional.copy()
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if star or named:
        parameters.append(f"*{star}")
    parameters += named
    if double:
        parameters.append(f"**{double}")
    args = [*positional, *([f"*{star}"] if star else [])]
    kwargs = [f"{each!r}: {each}" for each in named]
    if double:
        kwargs.append(f"**{double}")
    free = code.co_freevars
    source = _SOURCE.format(
        free=", ".join(free),
        names=", ".join(free) or "pass",
        parameters=", ".join(parameters),
        placeholder=_PLACEHOLDER,
        args="".join(f"{each}, " for each in args),
        kwargs=", ".join(kwargs),
    )
    made = compile(source, code.co_filename, "exec", dont_inherit=True)
    [make] = [each for each in made.co_consts if isinstance(each, CodeType)]
    [stub] = [each for each in make.co_consts if isinstance(each, CodeType)]
    return stub.replace(
        co_consts=tuple(door if each == _PLACEHOLDER else each for each in stub.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
        # for code that looks at the return annotation
        co_flags=stub.co_flags | (code.co_flags & _KIND),
        co_linetable=_on_first_line(stub),
    )


def _legal(name: str, at: int) -> str:
    """The name of a parameter; one that no source can have can only be given by its position."""
    if name.isidentifier() and not keyword.iskeyword(name):
        return name
    return f"_{at}"


def _on_first_line(code: CodeType) -> bytes:
    """A table of lines in which all of some code is on its first line, in no column."""
    left = len(code.co_code) // 2
    table = bytearray()
    while left:
        count = min(left, 8)
        table += bytes([0x80 | 13 << 3 | count - 1, 0])
        left -= count
    return bytes(table)
