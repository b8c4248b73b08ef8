"""Describes effects to a person, each in one line.

A move is one line, not a deletion and a new file: the missing path is found at another path with
the same content. The entries of a folder are part of the folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from archytas_nb.effects.ledger import Effect, shown_path
from archytas_nb.effects.states import State


class Told(NamedTuple):
    """An effect, or several that a person sees as one.

    Attributes:
        name: The path, command or address.
        kind: The kind of act.
        details: The size, and whether it cannot be undone.
    """

    name: str
    kind: str
    details: tuple[str, ...]


_Tree: TypeAlias = frozenset[tuple[str, str, str]]
"""Paths in a folder, each with its state and content."""


def told(effects: Sequence[Effect]) -> tuple[Told, ...]:
    """The lines, in order."""
    gone = {Path(each.target): each for each in effects if _is_missing(each.after)}
    came = {Path(each.target): each for each in effects if _is_missing(each.before)}
    over = {Path(each.target): each for each in effects if each.kind == "overwritten"}
    moved = dict(_moved(gone, {**came, **over}))
    lines = []
    left_out = {*moved.values(), *_inside(gone), *_inside(came)}
    left_out |= {path for path in (*gone, *came) if _is_in_one(path, [*moved, *moved.values()])}
    for each in effects:
        path = Path(each.target)
        if each.before is None:
            lines.append(Told(each.shown, each.kind, ()))
        elif path in moved:
            lines.append(_told_move(each, moved[path], effects))
        elif path not in left_out:
            lines.append(_told(each, [one for one in effects if path in Path(one.target).parents]))
    return tuple(lines)


def _told_move(gone: Effect, target: Path, effects: Sequence[Effect]) -> Told:
    name = f"{gone.shown} → {shown_path(str(target))}"
    parts = [each for each in effects if _is_in_one(Path(each.target), [Path(gone.target), target])]
    over = [each for each in parts if each.kind == "overwritten"]
    details = ["over a file"] * bool(over)
    if not all(each.can_be_undone for each in parts):
        details.append("cannot be undone")
    return Told(name, "renamed", tuple(details))


def _told(effect: Effect, inside: Sequence[Effect]) -> Told:
    details = list(effect.details)
    files = [each for each in inside if "file" in _whats(each)]
    is_folder = "folder" in _whats(effect)
    if is_folder and files and effect.kind in ("deleted", "new folder"):
        details.insert(0, "1 file" if len(files) == 1 else f"{len(files):,} files")
        if not all(each.can_be_undone for each in inside):
            details.append("cannot be undone")
    kind = "deleted folder" if is_folder and effect.kind == "deleted" else effect.kind
    return Told(effect.shown, kind, tuple(dict.fromkeys(details)))


def _is_missing(state: State | None) -> bool:
    return state is not None and state.what == "missing"


def _whats(effect: Effect) -> set[str]:
    return {each.what for each in (effect.before, effect.after) if each is not None}


def _is_in_one(path: Path, folders: Sequence[Path]) -> bool:
    return any(each == path or each in path.parents for each in folders)


def _inside(changed: Mapping[Path, Effect]) -> Iterator[Path]:
    """The paths that are inside another one."""
    for path in changed:
        if any(each in changed for each in path.parents):
            yield path


def _moved(
    gone: Mapping[Path, Effect], there: Mapping[Path, Effect]
) -> Iterator[tuple[Path, Path]]:
    """The missing paths with their new places, where these are certain."""
    before = _trees({path: each.before for path, each in gone.items()})
    after = _trees({path: each.after for path, each in there.items()})
    sources = Counter(before.values())
    targets: dict[_Tree, list[Path]] = {}
    for path, tree in after.items():
        targets.setdefault(tree, []).append(path)
    for path, tree in before.items():
        if path not in _inside(gone) and sources[tree] == 1 and len(targets.get(tree, ())) == 1:
            yield path, targets[tree][0]


def _trees(states: Mapping[Path, State | None]) -> dict[Path, _Tree]:
    """The state of each path and of its entries; paths without a known state are left out."""
    parts: dict[Path, set[tuple[str, str, str]]] = {path: set() for path in states}
    unknown = set()
    for path, state in states.items():
        for root in (path, *path.parents):
            if root not in parts or state is None:
                continue
            content = state.digest or state.leads_to
            if state.what == "file" and not content:
                unknown.add(root)
            parts[root].add((str(path.relative_to(root)), state.what, content))
    return {path: frozenset(each) for path, each in parts.items() if path not in unknown}
