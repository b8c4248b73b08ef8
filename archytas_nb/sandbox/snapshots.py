"""The requests of a program, and the replies to the sandbox.

A program that waits for a reply is a snapshot: `FunctionSnapshot` for a call, `FutureSnapshot` for
calls that it awaits, `NameLookupSnapshot` for a name that it did not assign. A reply returns the
next snapshot.
"""

from __future__ import annotations

import builtins
import functools
import re
import types
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from pydantic_monty import (
    ExcType,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    SyncSnapshot,
)

from archytas_nb.errors import ToolError
from archytas_nb.loop.events import CallOutcome
from archytas_nb.loop.program_protocol import COLUMN_AS_TEXT
from archytas_nb.sandbox.bounds import bound_of
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.source import CHECKPOINT
from archytas_nb.sandbox.values import to_sandbox
from archytas_nb.words import truncate_middle

MAX_MESSAGE = 2_000
"""Maximum number of characters of an error in a program."""

RETURN_NONE: Any = {"return_value": None}
"""The reply without a value."""

NO_METHODS: Any = {
    "exc_type": "TypeError",
    "message": "this object stays outside of the program, which cannot call it or its methods:"
    " give it to one of the functions",
}
"""The reply to a method of an object."""

_ENDED: Any = {"exc_type": "SystemExit", "message": "the program has ended"}
_ENDINGS = 100  # how often a program may catch the exception that ends it


def waits_for_calls(snapshot: Any) -> bool:
    """Whether a program awaits calls that it made before."""
    return hasattr(snapshot, "pending_call_ids")


def looks_up_name(snapshot: Any) -> bool:
    """Whether a program uses a name that it did not assign."""
    return hasattr(snapshot, "variable_name")


# ── replies ───────────────────────────────────────────────────────────────────────────────────────


def raised(name: str, message: str) -> Any:
    """An exception, by the name of its class."""
    whole = message.encode("utf-8", "replace").decode()  # the sandbox refuses half a character
    return {"exc_type": name, "message": truncate_middle(whole, MAX_MESSAGE)}


def outcome_reply(outcome: CallOutcome, handles: Handles) -> Any:
    """The outcome of a call."""
    if outcome.status == "done":
        return {"return_value": to_sandbox(outcome.value, handles)}
    error = outcome.error
    text = _message(outcome)
    name = type(error).__name__
    is_builtin = error is not None and type(error) is getattr(builtins, name, None)
    if is_builtin and name in _exception_names():
        return raised(name, text)
    if error is not None and not isinstance(error, ToolError):
        text = f"{name}: {text}"
    return raised("RuntimeError", text)


def _message(outcome: CallOutcome) -> str:
    """The message of a failed call, as the program reads it."""
    error = outcome.error
    if error is None or isinstance(error, ToolError):
        return outcome.result
    try:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            return error.args[0]
        return str(error)
    except Exception:  # noqa: BLE001 - a user's exception
        return outcome.result


@functools.cache
def _exception_names() -> frozenset[str]:
    ends = {"SystemExit", "KeyboardInterrupt", "BaseException", "StopIteration"}
    return frozenset(get_args(ExcType)) - ends


def function_named(name: str) -> Any:
    """Stands for a function of the run, which the sandbox knows only by its name."""

    def function() -> None:
        """Never called."""

    function.__name__ = name
    return function


def resumed(snapshot: Any, reply: Any) -> SyncSnapshot:
    """Reply to a request; a value that cannot be sent becomes an error in the program."""
    after: SyncSnapshot
    try:
        after = snapshot.resume(reply)
    except MontyCrashedError:
        raise
    except MontyError as error:
        # If nothing was sent, the request is still open; otherwise the program has raised.
        failure = raised("ValueError", f"the result cannot be passed to a program: {error}")
        if waits_for_calls(snapshot):
            failure = dict.fromkeys(snapshot.pending_call_ids, failure)
        try:
            after = snapshot.resume(failure)
        except RuntimeError:
            raise error from None
    return after


_NO_CALL = re.compile(r"external function '(\w+)' cannot suspend in this synchronous context")


_NO_PART = re.compile(r"'(\w+)' object is not subscriptable$")
_PYTHONS_OWN = {
    each.__name__
    for each in (*vars(builtins).values(), *vars(types).values())
    if isinstance(each, type)
}
"""The classes that exist in the sandbox; a value of any other class is a handle."""


def exception_text(error: Any) -> str:
    """The exception of a program: its class and message."""
    text: str = error.display("type-msg")
    found = _NO_CALL.search(text)
    if found:
        return (
            f"NotImplementedError: {found[1]} cannot be called in a method that Python itself "
            "calls, such as __str__ or __eq__: call it before, and keep the result"
        )
    part = _NO_PART.search(text)
    if part and part[1] not in _PYTHONS_OWN:
        return (
            f"{text} here: give a function a column of a variable as text, such as "
            f"{COLUMN_AS_TEXT}, or show() all of it"
        )
    return text


def raised_by(error: Any) -> str | None:
    """The name of the class of a program's exception, which is one of the sandbox's classes."""
    recreate = getattr(error, "exception", None)  # a program that cannot be parsed has none
    if recreate is None:
        return None
    name = type(recreate()).__name__
    return name if name in _exception_names() else None


def named(snapshot: Any, value: Any) -> SyncSnapshot:
    """Reply with the value of a name; a value that cannot be sent leaves the name undefined."""
    after: SyncSnapshot
    try:
        after = snapshot.resume(value=value)
    except MontyCrashedError:
        raise
    except MontyError as error:
        # If nothing was sent, such as half a character, the request is still open.
        try:
            after = snapshot.resume()
        except RuntimeError:
            raise error from None
    return after


# ── the end ───────────────────────────────────────────────────────────────────────────────────────


def end(snapshot: Any) -> bool:
    """Raise the ending in the program at each request until it has ended; False if it continues."""
    for _ in range(_ENDINGS):
        try:
            snapshot = _ending(snapshot)()
        except MontyRuntimeError as error:
            return not bound_of(error)
        if isinstance(snapshot, MontyComplete):
            return True
    return False


def _ending(snapshot: Any) -> Callable[[], SyncSnapshot]:
    if waits_for_calls(snapshot):
        return partial(snapshot.resume, dict.fromkeys(snapshot.pending_call_ids, _ENDED))
    if looks_up_name(snapshot):
        return partial(snapshot.resume)
    return partial(snapshot.resume, _ENDED)


def next_file(session: MontySession) -> str:
    """The file name that the sandbox will give to the next text, which it numbers."""
    snapshot: Any = session.feed_start(f"{CHECKPOINT}()", skip_type_check=True)
    number = int(snapshot.position.filename.strip("<>").rpartition("-")[2])
    snapshot.resume(RETURN_NONE)
    return f"<python-input-{number + 1}>"
