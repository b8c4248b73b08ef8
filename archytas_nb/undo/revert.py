"""Restores the earlier state of variables, or the later one again, and keeps newer changes.

Code that has ended leaves items: the variables and the contents of objects that it changed.

    state     begins with                     what moves it
    after     the end of the code, or a redo  an undo, to `before`
    before    an undo                         a redo, to `after`

An item is moved only if it is still as it was left. Otherwise it is kept and listed: it has changed
since, or it contains a newer change that would be lost, or a further variable uses it now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from archytas_nb.loop.events import Kept, NotCovered
from archytas_nb.namespace import FROM_OUTSIDE, Namespace
from archytas_nb.objects.equality import Parts, same_value
from archytas_nb.undo.content import Kind, short_value
from archytas_nb.undo.holders import Holders, is_simple, reached
from archytas_nb.undo.snapshot import BYTES, SavedObject, Snapshot, failures

MISSING: Any = object()
"""In place of a variable that does not exist."""
UNREADABLE: Parts = (MISSING,)
"""In place of the content of an object, if reading it raises."""

Side: TypeAlias = Literal["before", "after"]
_OTHER: dict[Side, Side] = {"before": "after", "after": "before"}


@dataclass(eq=False)
class VariableItem:
    """A variable that was made, reassigned or deleted.

    Attributes:
        name: Its name.
        values: Its value on each side.
        at: Where it was left.
        replaced: The value that the last undo replaced; a redo brings it back.
    """

    namespace: Namespace
    name: str
    values: dict[Side, Any]
    at: Side = "after"
    replaced: Any = MISSING

    def is_as_on(self, side: Side) -> bool:
        """Whether it has the value that it had on a side."""
        return same_value(self.namespace.get(self.name, MISSING), self.values[side])

    def changes(self) -> str:
        """How it differs from its state when it was left; empty if it does not."""
        if self.is_as_on(self.at):
            return ""
        now = self.namespace.get(self.name, MISSING)
        if now is MISSING:
            return "it was deleted since"
        return f"it was reassigned since: {short_value(now)}"

    def take(self) -> None:
        """Keep the current value, for a redo."""
        self.replaced = self.namespace.get(self.name, MISSING)

    def target(self, to: Side) -> Any:
        """The value that a move gives it."""
        return self.values["before"] if to == "before" else self.replaced

    def put(self, to: Side) -> None:
        """Give it that value."""
        value = self.target(to)
        if value is not MISSING:
            self.namespace[self.name] = value
        elif self.name in self.namespace:
            del self.namespace[self.name]

    def inside(self) -> list[tuple[SavedObject | None, Any, Any]]:
        """Its state when it was left, for a snapshot."""
        value = self.values[self.at]
        return [] if value is MISSING else [(None, self.name, value)]

    def users(self, holders: Holders) -> dict[str, Any]:
        """The variables that need it, if a move would delete it."""
        value = self.values[self.at]
        if self.values[_OTHER[self.at]] is not MISSING:
            return {}
        found = holders.of_name(self.name)
        return found if is_simple(value) else found | holders.of(value)


@dataclass(eq=False)
class ContentItem:
    """The content of an object that was changed in place.

    Attributes:
        records: Its content on each side.
        at: Where it was left.
        replaced: The value that the last undo replaced; a redo brings it back.
    """

    records: dict[Side, SavedObject]
    at: Side = "after"
    replaced: SavedObject | None = None

    @property
    def name(self) -> str:
        """How it was reached."""
        return self.records["before"].name

    def is_as_on(self, side: Side) -> bool:
        """Whether it contains what it did on a side."""
        record = self.records[side]
        return record.kind.same(record.parts, _read(record))

    def changes(self) -> str:
        """How it differs from its state when it was left; empty if it does not."""
        if self.is_as_on(self.at):
            return ""
        return f"it was changed since: {'; '.join(self.records[self.at].changes()[1])}"

    def take(self) -> None:
        """Keep the current content, for a redo."""
        record = self.records[self.at]
        now = _read(record)
        kept: tuple[Any, ...] = ()
        size = 0
        if record.kind.keep and now is not UNREADABLE:
            kept, size = record.kind.keep(record.value, BYTES)
        self.replaced = record._replace(parts=now, kept=kept, size=size)

    def target(self, to: Side) -> SavedObject:
        """The content that a move restores."""
        if to == "after" and self.replaced is not None:
            return self.replaced
        return self.records[to]

    def inside(self) -> list[tuple[SavedObject | None, Any, Any]]:
        """Its state when it was left, for a snapshot."""
        record = self.records[self.at]
        if record.parts is UNREADABLE:
            return []
        return [(record, *each) for each in record.kind.children(record.value, record.parts)]

    def users(self, holders: Holders) -> dict[str, Any]:
        """The variables that show its content."""
        return holders.of(self.records["before"].value)


Item: TypeAlias = VariableItem | ContentItem


@dataclass(frozen=True, eq=False)
class _Left:
    """How items were left when they were moved together.

    Attributes:
        inner: The objects that were in them then, and on neither side elsewhere.
        known: The ids of the objects of `inner`; None if there were too many objects to know.
        uses: The variables that used each item; none if there were too many objects to know.
    """

    inner: Snapshot
    known: frozenset[int] | None
    uses: Mapping[Item, dict[str, Any]]


@dataclass(frozen=True)
class _Plan:
    """A move that has begun; an interrupted one can be continued."""

    to: Side
    moved: list[Item]
    kept: list[Kept]
    objects: dict[int, Any]  # objects that existed


@dataclass(eq=False)
class Reversal:
    """Moves what code has changed, as a whole.

    Args:
        namespace: The variables.
        items: The changes of the code: variables first.
        variables: Returns the variables of a namespace, by name.
    """

    namespace: Namespace
    items: list[Item]
    variables: Callable[[Namespace], Iterable[tuple[str, Any]]]
    _left: dict[Item, _Left] = field(default_factory=dict)
    _plan: _Plan | None = None

    @property
    def bytes(self) -> int:
        """The size of the copies of what was replaced."""
        contents = [each for each in self.items if isinstance(each, ContentItem)]
        return sum(each.replaced.size for each in contents if each.replaced is not None)

    def note(self, items: list[Item], known: Mapping[int, Any]) -> None:
        """Note how items were left.

        Args:
            items: The items that were moved.
            known: The objects that there were on the other side, by id.
        """
        if not items:
            return
        holders = self._holders()
        found = [inside for each in items for inside in each.inside()]
        border = {**known, id(self.namespace): self.namespace}
        inner = Snapshot({}, 0, known=border, inside=found)
        ids = frozenset(inner.seen.keys() - border.keys()) if holders.is_whole else None
        inner.seen.clear()
        uses = {each: each.users(holders) for each in items if holders.is_whole}
        left = _Left(inner, ids, uses)
        self._left |= dict.fromkeys(items, left)

    def move(self, to: Side, *, force: bool) -> tuple[NotCovered, ...]:
        """Move the items to a side; returns what was kept, and what could not be restored.

        Args:
            to: The side.
            force: Whether to move also what was changed or used since.
        """
        if self._plan is None or self._plan.to != to:
            self._plan = self._planned(to, force=force)
        plan = self._plan
        contents: list[ContentItem] = []
        for each in plan.moved:
            if isinstance(each, ContentItem):
                contents.append(each)
            else:
                each.put(to)
        failed = failures(each.target(to) for each in contents)
        not_moved = {contents[number] for number in failed}
        moved = [each for each in plan.moved if each not in not_moved]
        for each in moved:
            each.at = to
        self.note(moved, plan.objects)
        self._plan = None
        return *plan.kept, *(NotCovered(contents[at].name, why) for at, why in failed.items())

    def forget_replaced(self) -> None:
        """Free the values that an undo has replaced; it cannot be redone then."""
        self.items = [each for each in self.items if each.at == "after"]
        self._left = {each: self._left[each] for each in self.items}

    def _holders(self) -> Holders:
        return Holders(dict(self.variables(self.namespace)), self.namespace)

    def _planned(self, to: Side, *, force: bool) -> _Plan:
        """Decide which items are moved, and keep the current state for a redo."""
        holders = self._holders()
        open_items = [
            each
            for each in self.items
            # The user may have restored it already.
            if each.at != to and not (each.changes() and each.is_as_on(to))
        ]
        reasons: dict[Item, str] = {}
        if not force:
            found = {each: each.changes() or self._used(each, holders) for each in open_items}
            while open_items:
                # Objects that a kept item leads to are not lost: the losses are counted again.
                reasons |= {each: why for each, why in found.items() if why}
                left = [each for each in open_items if each not in reasons]
                losses = _Losses(self, left, to)
                found = {each: losses.of(each) for each in left}
                if not any(found.values()):
                    break
        moved = [each for each in open_items if each not in reasons]
        if to == "before":
            for each in moved:
                each.take()
        kept = [Kept(each.name, reasons[each]) for each in open_items if each in reasons]
        return _Plan(to, moved, kept, holders.objects)

    def left(self, item: Item) -> _Left:
        """How an item was left."""
        return self._left[item]

    def _used(self, item: Item, holders: Holders) -> str:
        """The reason that variables use an item since it was left; empty if none does."""
        then = self.left(item).uses.get(item)
        if then is None or not holders.is_whole:
            return ""
        now = item.users(holders)
        since = [name for name, value in now.items() if then.get(name, MISSING) is not value]
        if not since:
            return ""
        return f"it is now used in {', '.join(sorted(since))}"


class _Losses:
    """The objects that would become unreachable if some items were moved."""

    def __init__(self, reversal: Reversal, items: list[Item], to: Side) -> None:
        self._reversal = reversal
        variables = dict(reversal.variables(reversal.namespace))
        self._instead: dict[tuple[int, Kind], list[Any]] = {}
        for each in items:
            if isinstance(each, ContentItem):
                record = each.target(to)
                self._instead[id(record.value), record.kind] = _parts_of(record)
            else:
                variables[each.name] = each.target(to)
        border = {id(reversal.namespace)}
        self._kept = reached(variables.values(), border, self._instead).keys() | border
        self._changed: dict[_Left, dict[int, SavedObject]] = {}

    def of(self, item: Item) -> str:
        """The newer objects in an item that would be lost; empty if there are none."""
        left = self._reversal.left(item)
        if left not in self._changed:
            found = left.inner.changed()
            self._changed[left] = {id(each.value): each for each, *_ in found}
        changed = self._changed[left]
        starts = [value for *_, value in item.inside()]
        lost = reached(starts, self._kept, {})
        for each in lost:
            if each in changed:
                record = changed[each]
                return f"{record.name} was changed since: {'; '.join(record.changes()[1])}"
        known = left.known if left.known is not None else lost
        for key, value in lost.items():
            if key not in known:
                return f"nothing else leads to {short_value(value)} in it"
        return ""


def _parts_of(record: SavedObject) -> list[Any]:
    """The objects in what is to be restored."""
    if record.kind.held is None:
        return list(record.parts)
    return list(record.kind.held(record.kept)) if record.kept and record.is_kept else []


def _read(record: SavedObject) -> Parts:
    """The current content of an object."""
    try:
        return record.kind.read(record.value)
    except FROM_OUTSIDE:
        raise
    except BaseException:  # noqa: BLE001  (an object may raise anything)
        return UNREADABLE
