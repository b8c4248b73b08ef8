"""Puts the earlier state of variables back, or the later one again, and keeps what came since.

Code that has ended leaves items: the variables and the contents of objects that it changed.

    state     begins with                     what moves it
    after     the end of the code, or a redo  an undo, to `before`
    before    an undo                         a redo, to `after`

An item is moved only if it is now as it was left. Where it is not, it is kept and listed: it was
changed since, or something in it was that would be lost, or a variable uses it that did not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from archytas_nb.kernel.content import short_value
from archytas_nb.kernel.holders import Holders, is_simple
from archytas_nb.kernel.shell import Namespace
from archytas_nb.kernel.snapshot import BYTES, SavedObject, Snapshot, failures
from archytas_nb.kernel.values import FROM_OUTSIDE, Parts, same_value
from archytas_nb.loop.events import Kept, NotCovered

MISSING: Any = object()
"""In place of a variable that does not exist."""
UNREADABLE: Parts = (MISSING,)
"""In place of what an object contains, if reading it raises."""

Side: TypeAlias = Literal["before", "after"]
_OTHER: dict[Side, Side] = {"before": "after", "after": "before"}


@dataclass(eq=False)
class VariableItem:
    """A variable that was made, reassigned or deleted.

    Attributes:
        name: Its name.
        values: What it is bound to on each side.
        at: Where it was left.
    """

    namespace: Namespace
    name: str
    values: dict[Side, Any]
    at: Side = "after"

    def is_as_on(self, side: Side) -> bool:
        """Whether it is bound to what it was on a side."""
        return same_value(self.namespace.get(self.name, MISSING), self.values[side])

    def changes(self) -> str:
        """How it differs from what was left; empty if it does not."""
        if self.is_as_on(self.at):
            return ""
        now = self.namespace.get(self.name, MISSING)
        if now is MISSING:
            return "it was deleted since"
        return f"it was reassigned since: {short_value(now)}"

    def take(self) -> None:
        """Keep what is there now as that of the side where it was left."""
        self.values[self.at] = self.namespace.get(self.name, MISSING)

    def put(self, side: Side) -> None:
        """Bind it as on a side."""
        value = self.values[side]
        if value is not MISSING:
            self.namespace[self.name] = value
        elif self.name in self.namespace:
            del self.namespace[self.name]

    def inside(self) -> list[tuple[SavedObject | None, Any, Any]]:
        """What it was left with, for a snapshot."""
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
        records: What it contains on each side.
        at: Where it was left.
    """

    records: dict[Side, SavedObject]
    at: Side = "after"

    @property
    def name(self) -> str:
        """How it was reached."""
        return self.records["before"].name

    def is_as_on(self, side: Side) -> bool:
        """Whether it contains what it did on a side."""
        record = self.records[side]
        return record.kind.same(record.parts, _read(record))

    def changes(self) -> str:
        """How it differs from what was left; empty if it does not."""
        if self.is_as_on(self.at):
            return ""
        return f"it was changed since: {'; '.join(self.records[self.at].changes()[1])}"

    def take(self) -> None:
        """Keep what it contains now as that of the side where it was left."""
        record = self.records[self.at]
        now = _read(record)
        kept: tuple[Any, ...] = ()
        size = 0
        if record.kind.keep and now is not UNREADABLE:
            kept, size = record.kind.keep(record.value, BYTES)
        self.records[self.at] = record._replace(parts=now, kept=kept, size=size)

    def inside(self) -> list[tuple[SavedObject | None, Any, Any]]:
        """What it was left with, for a snapshot."""
        record = self.records[self.at]
        if record.parts is UNREADABLE:
            return []
        return [(record, *each) for each in record.kind.children(record.value, record.parts)]

    def users(self, holders: Holders) -> dict[str, Any]:
        """The variables that show its content."""
        return holders.of(self.records["before"].value)


Item: TypeAlias = VariableItem | ContentItem


@dataclass
class _Plan:
    """A move that has begun; one that was interrupted goes on."""

    to: Side
    moved: list[Item]
    kept: list[Kept]
    holders: Holders


@dataclass(eq=False)
class Reversal:
    """Moves what code has changed, as a whole.

    Args:
        namespace: The variables.
        items: What the code has changed: variables first.
        variables: Returns the variables of a namespace, by name.
    """

    namespace: Namespace
    items: list[Item]
    variables: Callable[[Namespace], Iterable[tuple[str, Any]]]
    _uses: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the number of the item
    _inner: Snapshot = field(default_factory=lambda: Snapshot({}))
    _plan: _Plan | None = None

    @property
    def bytes(self) -> int:
        """The size of the copies of what was replaced."""
        contents = [each for each in self.items if isinstance(each, ContentItem)]
        return sum(each.records["after"].size for each in contents)

    def note(self, known: dict[int, Any]) -> None:
        """Note how the items were left.

        Args:
            known: The objects that are there on the other side, too: they would not be lost.
        """
        if not self.items:
            return
        holders = self._holders()
        found = [inside for each in self.items for inside in each.inside()]
        known = {**known, id(self.namespace): self.namespace}
        inner = Snapshot({}, 0, known=known, inside=found)
        inner.seen.clear()
        uses = {number: each.users(holders) for number, each in enumerate(self.items)}
        self._inner, self._uses = inner, uses

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
        failed = failures(each.records[to] for each in contents)
        not_moved = {contents[number] for number in failed}
        for each in plan.moved:
            if each not in not_moved:
                each.at = to
        if plan.moved:
            self.note(plan.holders.objects)
        self._plan = None
        return *plan.kept, *(NotCovered(contents[at].name, why) for at, why in failed.items())

    def forget_replaced(self) -> None:
        """Free what an undo has replaced: it cannot be done again."""
        self.items = [each for each in self.items if each.at == "after"]
        self._inner = Snapshot({})
        self._uses = {}

    def _holders(self) -> Holders:
        return Holders(dict(self.variables(self.namespace)), self.namespace)

    def _planned(self, to: Side, *, force: bool) -> _Plan:
        """Decide what is moved, and keep what there is instead."""
        holders = self._holders()
        changed = {id(each.value): each for each, _, _ in self._inner.changed()}
        moved: list[Item] = []
        kept: list[Kept] = []
        for number, each in enumerate(self.items):
            if each.at == to:
                continue
            changes = each.changes()
            if changes and each.is_as_on(to):  # somebody has done it already
                continue
            why = ""
            if not force:
                why = changes or self._lost(each, changed)
                why = why or self._used(each, number, holders)
            if why:
                kept.append(Kept(each.name, why))
            else:
                moved.append(each)
        for each in moved:
            each.take()
        return _Plan(to, moved, kept, holders)

    def _lost(self, item: Item, changed: dict[int, SavedObject]) -> str:
        """What was changed since inside of an item and is nowhere else; empty if nothing was."""
        if not changed:
            return ""
        records: dict[int, list[SavedObject]] = {}
        for each in self._inner.records:
            records.setdefault(id(each.value), []).append(each)
        todo = [value for *_, value in item.inside()]
        seen: set[int] = set()
        while todo:
            value = todo.pop()
            if id(value) in changed:
                record = changed[id(value)]
                return f"{record.name} was changed since: {'; '.join(record.changes()[1])}"
            if id(value) not in seen:
                seen.add(id(value))
                todo += _children(records.get(id(value), ()))
        return ""

    def _used(self, item: Item, number: int, holders: Holders) -> str:
        """Which variables use an item that did not when it was left; empty if none does."""
        then = self._uses.get(number, {})
        now = item.users(holders)
        since = [name for name, value in now.items() if then.get(name, MISSING) is not value]
        if not since:
            return ""
        return f"it is used in {', '.join(sorted(since))} since"


def _children(records: Iterable[SavedObject]) -> Iterator[Any]:
    for record in records:
        for _, each in record.kind.children(record.value, record.parts):
            yield each


def _read(record: SavedObject) -> Parts:
    """What an object contains now."""
    try:
        return record.kind.read(record.value)
    except FROM_OUTSIDE:
        raise
    except BaseException:  # noqa: BLE001  (an object may raise anything)
        return UNREADABLE
