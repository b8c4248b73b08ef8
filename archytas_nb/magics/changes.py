"""What runs changed in the variables: the list of a run, the history of a name, and the undo."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from archytas_nb.kernel.python import mentions
from archytas_nb.kernel.transaction import CHANGED_SINCE

if TYPE_CHECKING:
    from archytas_nb.loop.events import Diff, ToolCall
    from archytas_nb.magics.conversation import Asked

HEAD = ("variable", "", "change")


def undone(asked: Asked) -> str:
    """Put the variables back to where they were before a run; returns what was done, in words."""
    diff, left = asked.run.diff, asked.run.undo()
    names = dict.fromkeys(_root(change.name) for change in diff.changes)
    failed = {_root(note.name) for note in left if note.why != CHANGED_SINCE}
    back = [name for name in names if not failed & {name, ""}]
    lines = [f"put back: {', '.join(back)}"] if back else []
    lines += [f"note: {note}" for note in left]
    unseen = [str(note) for note in diff.not_watched]
    return "\n".join(lines + ([f"not watched: {', '.join(unseen)}"] if unseen else []))


def rows(diff: Diff) -> tuple[tuple[str, ...], ...]:
    """The changes as rows, then what was not watched or could not be kept."""
    made: list[tuple[str, ...]] = [
        (" = ".join((each.name, *each.also)), each.kind, "; ".join(each.words))
        for each in diff.changes
    ]
    made += [(each.name, "not watched", each.why) for each in diff.not_watched]
    made += [(each.name, "cannot be undone", each.why) for each in diff.not_kept]
    return tuple(made)


def why(name: str, asked: Sequence[Asked], cells: Sequence[str], shell: Any) -> str:
    """Which runs and cells changed a variable, the last one first; empty where none is known."""
    found = [
        (each.execution, 1, place, text)
        for each in asked
        for place, text in enumerate(_changes_in(each, name))
    ]
    for number, source in enumerate(cells):
        if number and name in source:
            lines = _lines(shell.transform_cell(source), name)
            found += [(number, 0, 0, f"cell {number}")] * any(changed for _, changed in lines)
    texts = [each[-1] for each in sorted(found, reverse=True)]
    unseen = [str(each.number) for each in asked if each.run.watch is None and each.run.calls]
    note = f"\nnot watched: run {', '.join(unseen)}" if unseen and texts else ""
    return "\nbefore that: ".join(texts[:5]) + note


def _changes_in(asked: Asked, name: str) -> Iterator[str]:
    run = asked.run
    made = [
        (f"step {step.number}, {call.name}{_line(call, name)}", outcome.diff)
        for step in run.steps
        for call, outcome in step.calls
    ]
    made += [("--out", diff) for diff in (run.watch.assigned if run.watch else ())]
    for where, diff in made:
        for change in diff.changes if diff else ():
            if name == _root(change.name) or name in change.also:
                words = "; ".join(change.words)
                words = words if len(words) <= 100 else f"{words[:99]}…"
                yield f"run {asked.number}, {where}: {change.name} {change.kind} ({words})"


def _line(call: ToolCall, name: str) -> str:
    """The line of code that changes a variable, or else the last one that names it."""
    given = call.input.get("code") if isinstance(call.input, dict) else call.input
    if call.name != "python" or not isinstance(given, str):
        return ""
    lines = _lines(given, name)
    return f" line {max(lines, key=lambda pair: (pair[1], pair[0]))[0]}" if lines else ""


def _lines(code: str, name: str) -> list[tuple[int, bool]]:
    """The lines of code that name a variable, and whether they change it."""
    try:
        return [(line, changed) for each, line, changed in mentions(code) if each == name]
    except (SyntaxError, ValueError):
        return []


def _root(name: str) -> str:
    """The variable by which an object is reached."""
    return re.split(r"\W", name, maxsplit=1)[0]
