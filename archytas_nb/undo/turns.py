"""Keeps apart what several agents do on the same variables at the same time.

The changes of a watched call are the differences after it. If another call changed variables
meanwhile, its changes would be taken for those of the first, and undone with them. So a watched
call has the variables for itself, while unwatched calls may run at the same time.

    state    begins with                        what may begin then
    free     the end of the last call           any call
    shared   a call that is not watched         others, unless a watched call is waiting
    alone    a watched call, or an undo         only calls that it makes itself

A call that would have to wait too long is refused, because the other one may be waiting for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from archytas_nb.namespace import Namespace

SECONDS = 30.0  # how long a call waits for those of other agents
_POLL = 0.05  # seconds between two checks for an interrupt


@dataclass
class _Use:
    """The current users of a namespace."""

    calls: int = 0  # that run or wait
    is_alone: bool = False
    shared: int = 0
    waiting: int = 0  # watched calls


_uses: dict[int, _Use] = {}  # by the id of the namespace
_changed = threading.Condition()
_mine: ContextVar[frozenset[int]] = ContextVar("archytas_nb_turns", default=frozenset())
"""The namespaces that the calls use which this code is part of; tasks of the code inherit it."""


@contextmanager
def turn(
    namespace: Namespace,
    *,
    alone: bool,
    interrupted: Callable[[], bool] = lambda: False,
    seconds: float | None = None,
) -> Iterator[bool]:
    """Wait until the variables may be used, and use them in the block.

    Args:
        namespace: The variables.
        alone: Whether no other agent may use them meanwhile.
        interrupted: Called repeatedly; ends the waiting if it returns true.
        seconds: How long to wait at most.

    Yields:
        Whether they may be used; if not, the block should do nothing.
    """
    key = id(namespace)
    if key in _mine.get():
        # A tool or code asks another agent.
        yield True
        return
    if seconds is None:
        seconds = SECONDS
    if not _begin(key, interrupted, seconds, alone=alone):
        yield False
        return
    mine = _mine.set(_mine.get() | {key})
    try:
        yield True
    finally:
        _mine.reset(mine)
        _end(key, alone=alone)


def _begin(key: int, interrupted: Callable[[], bool], seconds: float, *, alone: bool) -> bool:
    ends = time.monotonic() + seconds
    with _changed:
        use = _uses.setdefault(key, _Use())
        use.calls += 1
        use.waiting += alone
        has_begun = False
        try:
            while not _is_free(use, alone=alone):
                left = ends - time.monotonic()
                if left <= 0 or interrupted():
                    return False
                _changed.wait(min(left, _POLL))
            has_begun = True
        finally:
            use.waiting -= alone
            if not has_begun:
                _leave(key, use)
        use.is_alone = alone
        use.shared += not alone
    return True


def _is_free(use: _Use, *, alone: bool) -> bool:
    if alone:
        return not (use.is_alone or use.shared)
    return not (use.is_alone or use.waiting)


def _end(key: int, *, alone: bool) -> None:
    with _changed:
        use = _uses[key]
        use.is_alone = False
        use.shared -= not alone
        _leave(key, use)


def _leave(key: int, use: _Use) -> None:
    use.calls -= 1
    if not use.calls:
        # Another namespace may get its id.
        del _uses[key]
    _changed.notify_all()
