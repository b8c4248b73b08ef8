"""What runs changed in the variables: the list of a run, the history of a name, and the undo."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archytas_nb.loop.events import Change, Diff, ToolCall
    from archytas_nb.magics.conversation import Asked

HEAD = ("variable", "", "change")


def undone(asked: Asked) -> str:
    """Put the variables back to where they were before a run; returns what was done, in words."""
    diff, left = asked.run.diff, asked.run.undo()
    names = dict.fromkeys(_root(change.name) for change in diff.changes)
    back = [name for name in names if not any(_root(note.name) in {name, ""} for note in left)]
    lines = [f"put back: {', '.join(back)}"] if back else []
    lines += [f"not put back: {note}" for note in left]
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
        if number and name in source and _mentions(shell.transform_cell(source), name)[1]:
            found.append((number, 0, 0, f"cell {number}"))
    texts = [each[-1] for each in sorted(found, reverse=True)]
    return "\nbefore that: ".join(texts[:5])


def _changes_in(asked: Asked, name: str) -> Iterator[str]:
    made = [(step.number, *pair) for step in asked.run.steps for pair in step.calls]
    for step, call, outcome in made:
        changes = () if outcome.diff is None else outcome.diff.changes
        for change in changes:
            if name == _root(change.name) or name in change.also:
                where = f"run {asked.number}, step {step}, {call.name}{_line(call, name)}"
                yield f"{where}: {_words(change)}"


def _words(change: Change) -> str:
    words = "; ".join(change.words)
    return f"{change.name} {change.kind} ({words if len(words) <= 100 else words[:99] + '…'})"


def _line(call: ToolCall, name: str) -> str:
    """The line of code that changes a variable, or else the last one that names it."""
    given = call.input.get("code") if isinstance(call.input, dict) else call.input
    if call.name != "python" or not isinstance(given, str):
        return ""
    read, changed = _mentions(given, name)
    lines = changed or read
    return f" line {lines[-1]}" if lines else ""


def _mentions(code: str, name: str) -> tuple[list[int], list[int]]:
    """The lines of code that read a name, and those that bind it or assign to a part of it."""
    read: list[int] = []
    changed: list[int] = []
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return read, changed
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            root: ast.AST = node
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name) and root.id == name:
                (read if isinstance(node.ctx, ast.Load) else changed).append(node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)):
            bound = getattr(node, "asname", None) or node.name
            changed += [node.lineno] * (bound.partition(".")[0] == name)
    return sorted(read), sorted(changed)


def _root(name: str) -> str:
    """The variable by which an object is reached."""
    found = re.match(r"\w*", name)
    return found[0] if found else ""
