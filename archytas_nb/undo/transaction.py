"""Watches the user's variables while code runs: what the code changed, and how to undo it.

A `Transaction` covers a block of code, a `Watch` the calls of a run. Everything that can be watched
is watched, because the text of code does not show what it can reach. Files, databases, other
processes and what
`Diff.not_watched` lists are not covered.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

from archytas_nb.errors import argument_error
from archytas_nb.hints import hinted, hinted_function
from archytas_nb.interrupts import CallGuard, defer_interrupts
from archytas_nb.loop.events import CallOutcome, Change, Diff, Json, Kept, NotCovered
from archytas_nb.namespace import Namespace, contained, live_namespace
from archytas_nb.objects.equality import same_value
from archytas_nb.tools.tool import BoundCall, Tool
from archytas_nb.tools.variables import is_users_name
from archytas_nb.undo.content import Kind, short_key, short_value
from archytas_nb.undo.revert import (
    MISSING,
    UNREADABLE,
    ContentItem,
    Item,
    Reversal,
    Side,
    VariableItem,
)
from archytas_nb.undo.snapshot import BYTES, Snapshot, restore
from archytas_nb.undo.turns import turn
from archytas_nb.words import truncate_middle


def _seen_of(kind: Kind, kept: tuple[Any, ...], value: Any) -> tuple[str, ...]:
    """A change of data in words for a person, if rows were reordered or a few values changed."""
    if kind.seen is None or not kept or kept[0] is None:
        return ()
    with contained():  # of objects that cannot be compared
        return kind.seen(kept, value)
    return ()


@hinted
class Transaction:
    """Watches variables while a block of code runs; see `transaction`.

    Args:
        names: The variables whose contents are watched; None for all.
        namespace: The variables.
        budget: Maximum number of bytes to copy.
        first: Variables that are copied before others, in case not all can be.
        scratch: Names that are not watched; the collection may grow until the end.
    """

    def __init__(
        self,
        names: Iterable[str] | None,
        namespace: Namespace,
        budget: int,
        first: Collection[str] = (),
        scratch: Collection[str] = (),
    ) -> None:
        self._only = None
        if names is not None:
            self._only = set(names)
        self._first = first
        self._scratch = scratch
        self._namespace = namespace
        self._budget = budget
        self._before: dict[str, Any] = {}
        self._snapshot = Snapshot({})
        self._diff: Diff | None = None
        self._reversal = Reversal(namespace, [], users_variables)
        self._undone: tuple[NotCovered, ...] | None = None
        self._state: Literal["new", "open", "ended"] = "new"

    def __enter__(self) -> Self:
        if self._state != "new":
            raise RuntimeError("a transaction can be used only once; create another one")
        before = self._variables()
        only: Collection[str] = before.keys()
        if self._only is not None:
            only = self._only
        names = [name for name in before if name in only]
        names.sort(key=lambda name: name not in self._first)
        roots = {name: before[name] for name in names}
        border = {id(self._namespace): self._namespace}  # not part of the objects that refer to it
        self._snapshot = Snapshot(roots, self._budget, known=border)
        missing = sorted(filter(None, set(only) - self._namespace.keys()))
        self._snapshot.not_watched += [NotCovered(n, "no variable has this name") for n in missing]
        if self._only is None:
            self._snapshot.not_watched += _not_variables(self._namespace)
        self._before = before
        self._state = "open"
        return self

    def __exit__(self, *_: object) -> None:
        self._state = "ended"
        with defer_interrupts() as deferred:
            self._end()
        if deferred.interrupted:
            raise KeyboardInterrupt

    def _variables(self) -> dict[str, Any]:
        """The variables that are watched."""
        found = users_variables(self._namespace)
        return {name: value for name, value in found if name not in self._scratch}

    @property
    def bytes(self) -> int:
        """The size of the copies; after the block, only those of changed objects."""
        return sum(each.size for each in self._snapshot.records) + self._reversal.bytes

    @property
    def diff(self) -> Diff:
        """The changes in the block so far, or from its beginning to its end.

        Raises:
            RuntimeError: The block has not begun.
        """
        if self._state == "new":
            move = "put the code to watch into `with nb.transaction() as t:`"
            raise RuntimeError(f"the transaction has not begun; {move}")
        if self._state == "open":
            return self._compare()[0]
        return self._end()

    def _end(self) -> Diff:
        """Compare once, and free the copies of unchanged objects."""
        if self._diff is None:
            diff, items = self._compare()
            reversal = Reversal(self._namespace, items, users_variables)
            reversal.note(items, self._snapshot.seen)
            self._reversal = reversal
            self._diff = diff
            self._before = {}
            contents = [each for each in items if isinstance(each, ContentItem)]
            self._snapshot.keep_only([each.records["before"] for each in contents])
        return self._diff

    def _compare(self) -> tuple[Diff, list[Item]]:
        """The changes, and how to undo them."""
        before = self._before
        now = self._variables()
        items: list[Item] = []
        changes = []
        for name in before | now:
            sides: dict[Side, Any]
            sides = {"before": before.get(name, MISSING), "after": now.get(name, MISSING)}
            if sides["before"] is sides["after"]:
                continue
            items.append(VariableItem(self._namespace, name, sides))
            if not same_value(*sides.values()):
                changes.append(self._name_change(name, now))
        for record, parts, words in self._snapshot.changed():
            name = record.name
            value = record.value
            also = tuple(n for n, each in before.items() if each is value and n != name)
            if now.get(name, value) is not value:
                words.append(f"in the object that {name} named before")
            seen = () if parts is None else _seen_of(record.kind, record.kept, value)
            changes.append(Change("changed", name, tuple(words), also, seen))
            left = UNREADABLE if parts is None else parts
            after = record._replace(parts=left, kept=(), size=0)
            items.append(ContentItem({"before": record, "after": after}))
        notes = self._snapshot.not_watched, self._snapshot.not_kept
        return Diff(tuple(changes), *map(tuple, notes)), items

    def _name_change(self, name: str, now: Mapping[str, Any]) -> Change:
        if name not in self._before:
            return Change("created", name, (short_value(now[name]),))
        before = self._before[name]
        if name not in now:
            return Change("deleted", name, (short_value(before),))
        words = [f"{short_value(before)} → {short_value(now[name])}"]
        seen: tuple[str, ...] = ()
        for each in self._snapshot.records:
            if each.value is before and each.kind.keep and type(before) is type(now[name]):
                with contained():
                    value = now[name]
                    parts = each.kind.read(value)
                    words += each.kind.differences(each.parts, parts, each.kept, value)
                seen = _seen_of(each.kind, each.kept, now[name])
        return Change("reassigned", name, tuple(words), seen=seen)

    def undo(self, *, force: bool = False) -> tuple[NotCovered | Kept, ...]:
        """Restore names and contents to what they were before the block.

        Objects that the block did not change are left alone. Objects that were changed after the
        block, or that a further variable uses now, are kept and returned as `Kept`; another call
        tries them again.

        Args:
            force: Whether to restore also objects that were changed or used since. The newer state
                is then lost, except for `redo`.

        Returns:
            What was kept, and what could not be restored.

        Raises:
            RuntimeError: The block has not begun.
        """
        if self._state == "open":  # an interrupt came before `__exit__` was run
            self._state = "ended"
        if self._undone is not None and not any(isinstance(each, Kept) for each in self._undone):
            return self._undone
        with defer_interrupts() as deferred:
            _ = self.diff
            self._undone = self._reversal.move("before", force=force)
        if deferred.interrupted:
            raise KeyboardInterrupt
        return self._undone

    def redo(self) -> tuple[NotCovered | Kept, ...]:
        """Bring back the state that `undo` has replaced.

        Objects that were changed after the undo are left alone.

        Returns:
            What was kept, and what could not be restored.
        """
        with defer_interrupts() as deferred:
            notes = self._reversal.move("after", force=False)
            self._undone = None
        if deferred.interrupted:
            raise KeyboardInterrupt
        return notes

    def forget_replaced(self) -> None:
        """Free the values that `undo` has replaced; nothing can be redone then."""
        self._reversal.forget_replaced()

    def rewind(self) -> tuple[NotCovered, ...]:
        """Restore the state before the block for a while: it can still be undone afterwards.

        Call it inside another transaction, whose `undo` brings back the current state. Names that
        were reassigned after the block also get their values from before the block.

        Returns:
            What could not be restored.
        """
        if not self.diff:
            return ()
        contents = []
        for each in self._reversal.items:
            if each.at == "before":
                continue
            if isinstance(each, ContentItem):
                contents.append(each.records["before"])
            else:
                each.put("before")
        for record in contents:
            if record.name.isidentifier():  # a variable, not a part of one such as log.values
                self._namespace[record.name] = record.value
        return tuple(restore(contents))


@hinted_function
def transaction(*names: str, namespace: Namespace | None = None, keep: int = BYTES) -> Transaction:
    """Watch variables while a block of code runs, so that it can be undone.

    ``with nb.transaction() as t: …``, then ``t.diff`` and ``t.undo()``.

    Args:
        names: The variables whose contents are watched; all if empty. Creating, reassigning and
            deleting any variable is always detected.
        namespace: The variables; the user's by default.
        keep: Maximum number of bytes to copy. pandas 3 and polars keep large tables without a copy.
    """
    if not all(isinstance(name, str) for name in names):
        raise argument_error('expected names of variables, such as nb.transaction("df")')
    if namespace is None:
        namespace = live_namespace()
    return Transaction(names or None, namespace, keep)


def users_variables(namespace: Namespace) -> Iterator[tuple[str, Any]]:
    """The user's variables, without the names of Python and IPython, and transactions."""
    for name, value in dict(namespace).items():
        if type(name) is not str or not is_users_name(name):
            continue
        if type(value) is not Transaction:
            yield name, value


def _not_variables(namespace: Namespace) -> Iterator[NotCovered]:
    """The keys of a namespace that cannot be names of variables."""
    for key in dict(namespace):
        if type(key) is not str:
            yield NotCovered(short_key(key), "a key of the namespace that is not plain text")


# ── the calls of a run ────────────────────────────────────────────────────────────────────────────

Call: TypeAlias = tuple[Tool, BoundCall, Json]
"""A tool, its validated arguments, and the input as the model sent it."""

_NAME = re.compile(r"\\.|([^\W\d]\w*)")  # or an escaped character


class VariableWatch:
    """Watches the user's variables during the calls of a run, and can undo their changes.

    Args:
        namespace: The variables.
        covers_calls: Whether the calls of the run are watched, and not only assignments.

    Attributes:
        scratch: Names that are not watched, because they are removed when the run has ended.
    """

    def __init__(self, namespace: Namespace, *, covers_calls: bool = True) -> None:
        self._namespace = namespace
        self.covers_calls = covers_calls
        self.scratch: Collection[str] = ()
        self._transactions: list[Transaction] = []  # those with changes
        self._is_discarded = False
        self._listed: set[NotCovered] = set()  # is in the diff of an earlier call
        self.assigned: list[Diff] = []  # what `assign` changed

    def run(
        self, calls: Sequence[Call], work: Callable[[], list[CallOutcome]], guard: CallGuard
    ) -> list[CallOutcome]:
        """Run calls, and add what they changed to the last outcome.

        Unwatched variables are listed once in a run, by the first call that could have changed
        them.
        """
        named = set(_NAME.findall(json.dumps([given for *_, given in calls], ensure_ascii=False)))
        transaction = Transaction(None, self._namespace, BYTES, named, self.scratch)
        outcomes: list[CallOutcome] = []
        try:
            with transaction:
                outcomes = work()
        except KeyboardInterrupt:  # the user interrupted the comparison
            guard.interrupts += 1
        diff = transaction.diff
        last = outcomes[-1]
        if diff:
            self._transactions.append(transaction)
            if calls[-1][0].runs_code:
                last = replace(last, changed=truncate_middle(diff.told(last.stored), 1000))
        notes = tuple(each for each in diff.not_watched if each not in self._listed)
        self._listed.update(notes)
        if diff or notes:
            outcomes[-1] = replace(last, diff=replace(diff, not_watched=notes))
        return outcomes

    def assign(self, name: str, value: Any) -> None:
        """Assign a variable after the calls, as ``--out`` does; undoing the run restores it."""
        with Transaction((), self._namespace, BYTES) as transaction:
            self._namespace[name] = value
        self._transactions.append(transaction)
        self.assigned.append(replace(transaction.diff, not_watched=()))

    def first(self, count: int) -> VariableWatch:
        """Another watch that begins with the first changes of this one."""
        other = VariableWatch(self._namespace, covers_calls=self.covers_calls)
        other._transactions = self._transactions[:count]
        other._is_discarded = self._is_discarded
        other._listed = set(self._listed)
        return other

    def go_to(self, other: VariableWatch) -> tuple[NotCovered, ...]:
        """Undo the changes that another watch does not have, and bring back those of the other.

        Returns:
            What was kept, and what could not be restored.

        Raises:
            RuntimeError: Another agent is running a call on the variables.
        """
        if self._is_discarded or other._is_discarded:
            return (NotCovered("", "its changes can no longer be undone"),)
        mine = [each for each in self._transactions if each not in other._transactions]
        theirs = [each for each in other._transactions if each not in self._transactions]

        def work() -> list[tuple[NotCovered, ...]]:
            return [*(each.undo() for each in reversed(mine)), *(each.redo() for each in theirs)]

        return self._alone(work, "fork")

    @property
    def bytes(self) -> int:
        """The size of the copies that are kept."""
        return sum(each.bytes for each in self._transactions)

    def discard(self) -> None:
        """Free the copies; the changes can no longer be undone."""
        self._is_discarded |= bool(self._transactions)
        self._transactions.clear()

    def rewind(self) -> tuple[NotCovered, ...]:
        """Restore the state before the calls for a while; see `Transaction.rewind`."""
        if self._is_discarded:
            return (NotCovered("", "its changes can no longer be undone"),)
        each_notes = [each.rewind() for each in reversed(self._transactions)]
        return tuple(itertools.chain.from_iterable(each_notes))

    def undo(self, *, force: bool = False) -> tuple[NotCovered, ...]:
        """Undo the changes, the last one first.

        Args:
            force: Whether to undo also changes of objects that were changed or used since.

        Returns:
            What was kept, and what could not be restored.

        Raises:
            RuntimeError: Another agent is running a call on the variables.
        """
        if self._is_discarded:
            return (NotCovered("", "its changes can no longer be undone"),)
        last_first = self._transactions[::-1]
        return self._alone(lambda: [each.undo(force=force) for each in last_first], "undo")

    def redo(self) -> tuple[NotCovered, ...]:
        """Bring back the state that `undo` has replaced, the first change first.

        Returns:
            What was kept, and what could not be restored.

        Raises:
            RuntimeError: Another agent is running a call on the variables.
        """
        return self._alone(lambda: [each.redo() for each in self._transactions], "redo")

    def forget_replaced(self) -> None:
        """Free the values that an undo has replaced; nothing can be redone then."""
        for each in self._transactions:
            each.forget_replaced()

    def _alone(
        self, work: Callable[[], list[tuple[NotCovered, ...]]], what: str
    ) -> tuple[NotCovered, ...]:
        """Do something while no other agent uses the variables; returns all notes, each once."""
        notes: dict[str, NotCovered] = {}
        with defer_interrupts() as deferred:
            waits = turn(self._namespace, alone=True, interrupted=lambda: deferred.interrupted)
            with waits as is_ours:
                if is_ours:
                    for each in itertools.chain.from_iterable(work()):
                        notes.setdefault(each.name, each)
        if deferred.interrupted:
            raise KeyboardInterrupt
        if not is_ours:
            raise RuntimeError(
                "nothing was changed: another agent is running a call on the same variables; "
                f"{what} it when that call has ended"
            )
        return tuple(notes.values())
