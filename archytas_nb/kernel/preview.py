"""Tries a call in a copy of the kernel before a person is asked about it.

The copy can change nothing in the kernel. The effects in the copy are those that the call would
have here, up to the first effect outside of the variables, which the copy refuses.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from archytas_nb.functions.origin import run_as_tool
from archytas_nb.kernel.rehearsal import WORK, NotRehearsedError, rehearsed
from archytas_nb.loop.events import Change, Preview
from archytas_nb.namespace import Namespace
from archytas_nb.tools.tool import BoundCall, Tool, awaited
from archytas_nb.undo.snapshot import BYTES
from archytas_nb.undo.transaction import Transaction
from archytas_nb.words import truncate_line

_NAME = re.compile(r"[^\W\d]\w*")
_MAX_WORDS = 300  # characters of an error and of what was printed
_MAX_CHANGES = 100
_MAX_TRIED = 20


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
    if not isinstance(variables, dict):
        return Preview(why_not="its variables are in no dict")
    called = {name: each.function for name, each in tools.items() if not each.runs_code}
    given = json.dumps(tool.arguments(bound), default=str, ensure_ascii=False)
    work = partial(_tried, bound, variables, called, set(_NAME.findall(given)))
    try:
        done = rehearsed(work, variables, seconds, stopped)
    except NotRehearsedError as error:
        return Preview(why_not=str(error))
    changes, raised = done.value
    return Preview(
        tuple(Change(kind, name, tuple(words), tuple(also)) for kind, name, words, also in changes),
        done.tried[:_MAX_TRIED],
        truncate_line(done.printed, _MAX_WORDS),
        truncate_line(raised, _MAX_WORDS),
    )


def _tried(
    bound: BoundCall, variables: dict[str, Any], tools: Mapping[str, Any], first: set[str]
) -> list[Any]:
    """In the copy: make a call, and return what it changed and what it raised, as data."""
    for name, each in tools.items():
        variables.setdefault(name, each)
    error = ""
    with Transaction(None, variables, BYTES, first) as watched:
        try:
            # As after the approval, also where code of a model makes the call.
            value = run_as_tool(bound.run)
            if inspect.isawaitable(value):
                awaited(value)
        except Exception as raised:  # noqa: BLE001 - a tool may raise anything
            error = f"{type(raised).__name__}: {raised}"
    changes = [
        [each.kind, each.name, list(each.words), list(each.also)]
        for each in watched.diff.changes[:_MAX_CHANGES]
        if each.name != WORK
    ]
    return [changes, error]
