"""Does something in a locked fork of the kernel, and returns the data of its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from archytas_nb.kernel.copied import ENDED
from archytas_nb.namespace import Namespace
from archytas_nb.words import truncate_line

WORK = "_work_of_a_copy"
"""The name of the work in a copy; it is never a variable of the user."""

_MAX_WHY = 300


class NotRehearsedError(Exception):
    """The work could not be done in a copy; the message says why."""


class Rehearsed(NamedTuple):
    """The result of the work.

    Attributes:
        value: The return value.
        printed: The printed text.
        tried: The effects that were refused: the kind of act, and its target.
    """

    value: Any
    printed: str
    tried: tuple[tuple[str, str], ...]


class _Work:
    """Work in a copy, on the objects of its own process."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    def __call__(self) -> Any:
        return self._work()

    def __reduce__(self) -> NoReturn:
        raise TypeError("it works on the objects of its own process")


def rehearsed(
    work: Callable[[], Any],
    variables: Namespace,
    seconds: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Rehearsed:
    """Do something in a copy: there, all objects of the kernel are those of the fork.

    Args:
        work: The work; it returns data.
        variables: The variables of the notebook.
        seconds: How long it may take.
        stopped: Whether the person has interrupted.

    Raises:
        NotRehearsedError: There is no locked copy, or it has ended before.
    """
    from archytas_nb.copies.limits import CopyLimits
    from archytas_nb.copies.lock import machine
    from archytas_nb.copies.names import Names
    from archytas_nb.copies.place import Copy, CopyError

    level = machine()
    if level.kind != "locked":
        why = f"this system cannot lock a copy ({'; '.join(level.missing)})"
        raise NotRehearsedError(why)
    names = Names(variables, {WORK: _Work(work)})
    limits = CopyLimits(seconds=seconds, figures=0)
    end = time.monotonic() + seconds

    def is_late() -> bool:
        return time.monotonic() > end  # also while the copy is made

    try:
        with Copy(
            names, folder=Path.cwd(), limits=limits, stopped=lambda: stopped() or is_late()
        ) as copy:
            report = copy.run(f"{WORK}()")
    except CopyError as error:
        raise NotRehearsedError(truncate_line(str(error), _MAX_WHY)) from None
    except KeyboardInterrupt:
        if stopped() or not is_late():
            raise
        raise NotRehearsedError(f"in a copy, {ENDED['time']}") from None
    if report.ended is not None:
        raise NotRehearsedError(f"in a copy, {ENDED[report.ended]}")
    [ran] = report.statements
    if ran.value is None or not ran.value.is_data:
        why = "its result is not data" if ran.error is None else ran.error.message
        raise NotRehearsedError(f"in a copy, it failed: {truncate_line(why, _MAX_WHY)}")
    tried = dict.fromkeys((each.kind, each.target) for each in report.tried if each.target)
    return Rehearsed(ran.value.object, ran.printed, tuple(tried))
