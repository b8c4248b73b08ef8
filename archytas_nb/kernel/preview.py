"""Tries a call in a copy of the kernel before a person is asked about it.

The copy can change nothing, so that what it did there is what the call would do here: as far as the
first effect outside of the variables, which is refused there.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from archytas_nb.kernel.copied import ENDED
from archytas_nb.kernel.shell import Namespace
from archytas_nb.kernel.snapshot import BYTES
from archytas_nb.kernel.transaction import Transaction
from archytas_nb.loop.events import Change, Preview
from archytas_nb.tools.tool import BoundCall, Tool, awaited
from archytas_nb.words import truncate_line

_CALL = "_call_to_preview"
_NAME = re.compile(r"[^\W\d]\w*")
_MAX_WORDS = 300  # characters of one change, of an error and of what was printed
_MAX_CHANGES = 100
_MAX_TRIED = 20


class _Tried:
    """The call, as the copy makes it: with its own variables, which are those of the fork."""

    def __init__(
        self, tools: Mapping[str, Tool], tool: Tool, bound: BoundCall, names: Namespace
    ) -> None:
        self._tools = tools
        self._bound = bound
        self._variables = names
        given = json.dumps(tool.arguments(bound), default=str, ensure_ascii=False)
        self._first = set(_NAME.findall(given))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a call is tried on the objects of its own process")

    def __call__(self) -> list[Any]:
        """Make the call, and return what it changed and what it raised, as data."""
        if not isinstance(self._variables, dict):
            raise TypeError("the variables are no dict")
        for name, each in self._tools.items():
            self._variables.setdefault(name, each.function)
        error = ""
        with Transaction(None, self._variables, BYTES, self._first) as watched:
            try:
                value = self._bound.run()
                if inspect.isawaitable(value):
                    awaited(value)
            except Exception as raised:  # noqa: BLE001 - a tool may raise anything
                error = f"{type(raised).__name__}: {raised}"
        changes = [
            [each.kind, each.name, list(each.words), list(each.also)]
            for each in watched.diff.changes[:_MAX_CHANGES]
            if each.name != _CALL
        ]
        return [changes, error]


def preview(
    tools: Mapping[str, Tool],
    tool: Tool,
    bound: BoundCall,
    variables: Namespace,
    seconds: float,
    stopped: Callable[[], bool],
) -> Preview:
    """Try a call.

    Args:
        tools: The tools of the run, which code may call.
        tool: The tool.
        bound: The call.
        variables: The variables of the notebook.
        seconds: How long it may take.
        stopped: Whether the person has interrupted.
    """
    from archytas_nb.copies.limits import CopyLimits
    from archytas_nb.copies.lock import machine
    from archytas_nb.copies.names import Names
    from archytas_nb.copies.place import Copy, CopyError

    level = machine()
    if level.kind != "locked":
        return Preview(why_not=f"this system cannot lock a copy ({'; '.join(level.missing)})")
    given = {name: each for name, each in tools.items() if not each.runs_code}
    call = _Tried(given, tool, bound, variables)
    limits = CopyLimits(seconds=seconds, figures=0)
    try:
        names = Names(variables, {_CALL: call})
        with Copy(names, folder=Path.cwd(), limits=limits, stopped=stopped) as copy:
            report = copy.run(f"{_CALL}()")
    except CopyError as error:
        return Preview(why_not=truncate_line(str(error), _MAX_WORDS))
    if report.ended is not None:
        return Preview(why_not=f"in a copy, {ENDED[report.ended]}")
    [ran] = report.statements
    if ran.value is None or not ran.value.is_data:
        why = "it failed in the copy" if ran.error is None else ran.error.message
        return Preview(why_not=truncate_line(why, _MAX_WORDS))
    changes, raised = ran.value.object
    tried = dict.fromkeys((each.kind, each.target) for each in report.tried if each.target)
    return Preview(
        tuple(Change(kind, name, tuple(words), tuple(also)) for kind, name, words, also in changes),
        tuple(tried)[:_MAX_TRIED],
        truncate_line(ran.printed, _MAX_WORDS),
        truncate_line(raised, _MAX_WORDS),
    )
