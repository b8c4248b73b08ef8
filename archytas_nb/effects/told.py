"""One line for each effect, as a person reads it.

A move is one line, not a deletion and a new file: the missing path is found at another path with
the same content. The entries of a folder are part of the folder.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from archytas_nb.effects.ledger import Effect, joined, shown_path
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
    """The lines, in order; of several changes of one path one line."""
    effects = joined(effects)
    by_path = {Path(each.target): each for each in effects if each.before is not None}
    gone = {path: each for path, each in by_path.items() if _is_missing(each.after)}
    came = {path: each for path, each in by_path.items() if _is_missing(each.before)}
    over = {path: each for path, each in by_path.items() if each.kind == "overwritten"}
    inside = _inside(by_path)
    moved = dict(_moved(gone, {**came, **over}))
    ends = {*moved, *moved.values()}
    lines = []
    for each in effects:
        path = Path(each.target)
        if each.before is None:
            lines.append(Told(each.shown, each.kind, ()))
        elif path in moved:
            parts = [by_path[end] for end in (path, moved[path])]
            parts += [*inside[path], *inside[moved[path]]]
            lines.append(_told_move(each, moved[path], parts))
        elif path in ends or any(
            folder in ends or (path in gone and folder in gone) or (path in came and folder in came)
            for folder in path.parents
        ):
            continue  # it goes and comes with another one
        else:
            lines.append(_told(each, inside[path]))
    return tuple(lines)


def _inside(by_path: Mapping[Path, Effect]) -> Mapping[Path, list[Effect]]:
    """The effects in each folder that has some."""
    found: dict[Path, list[Effect]] = defaultdict(list)
    for path, each in by_path.items():
        for folder in path.parents:
            if folder in by_path:
                found[folder].append(each)
    return found


def _told_move(gone: Effect, target: Path, parts: Sequence[Effect]) -> Told:
    """A line of what moved, as a whole, from one path to another."""
    name = f"{gone.shown} → {shown_path(str(target))}"
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
        is_root = not any(folder in gone for folder in path.parents)
        if is_root and sources[tree] == 1 and len(targets.get(tree, ())) == 1:
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
