"""Watches the user's variables while code runs: what the code changed, and how to undo it.

A `Transaction` covers a block of code, a `Watch` the calls of a run. Everything that can be watched
is: what code may reach cannot be told from its text. Files, databases, other processes and what
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
from archytas_nb.kernel.content import short_key, short_value
from archytas_nb.kernel.interrupts import CallGuard, defer_interrupts
from archytas_nb.kernel.python import python
from archytas_nb.kernel.shell import Namespace, live_namespace
from archytas_nb.kernel.snapshot import BYTES, SavedObject, Snapshot, restore
from archytas_nb.kernel.turns import turn
from archytas_nb.kernel.values import Parts, contained, same_value
from archytas_nb.loop.events import CallOutcome, Change, Diff, Json, NotCovered
from archytas_nb.tools.tool import BoundCall, Tool
from archytas_nb.words import clip

_NOT_THE_USERS = re.compile(
    r"__\w+__|_+|_i{1,3}|_i?\d+|_[io]h|_dh|_exit_code|In|Out|get_ipython|exit|quit|open"
)
_MISSING = object()
_REASSIGNED_SINCE = "it was reassigned since, and is left as it is"
CHANGED_SINCE = "it was changed again since; it is as before now, without later changes and undos"


class Transaction:
    """Watches variables while a block of code runs; see `transaction`.

    Args:
        names: The variables whose contents are watched; None for all.
        namespace: The variables.
        budget: Maximum number of bytes to copy.
        first: Variables that are copied before others, in case not all can be.
    """

    def __init__(
        self,
        names: Iterable[str] | None,
        namespace: Namespace,
        budget: int,
        first: Collection[str] = (),
    ) -> None:
        self._only = None
        if names is not None:
            self._only = set(names)
        self._first = first
        self._namespace = namespace
        self._budget = budget
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] = {}
        self._snapshot = Snapshot({})
        self._changed: list[tuple[SavedObject, Parts | None]] = []
        self._diff: Diff | None = None
        self._changed_later: list[NotCovered] | None = None
        self._undone: tuple[NotCovered, ...] | None = None
        self._state: Literal["new", "open", "ended"] = "new"

    def __enter__(self) -> Self:
        if self._state != "new":
            raise RuntimeError("a transaction can be used only once; create another one")
        before = dict(users_variables(self._namespace))
        only: Collection[str] = before.keys()
        if self._only is not None:
            only = self._only
        names = [name for name in before if name in only]
        names.sort(key=lambda name: name not in self._first)
        self._snapshot = Snapshot({name: before[name] for name in names}, self._budget)
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

    @property
    def bytes(self) -> int:
        """The size of the copies; after the block, of what it changed."""
        return sum(each.size for each in self._snapshot.records)

    @property
    def diff(self) -> Diff:
        """What has changed: in the block so far, or from its beginning to its end.

        Raises:
            RuntimeError: The block has not begun.
        """
        if self._state == "new":
            move = "put the code to watch into `with nb.transaction() as t:`"
            raise RuntimeError(f"the transaction has not begun; {move}")
        if self._state == "open":
            return self._compare()
        return self._end()

    def _end(self) -> Diff:
        """Compare once, and free what was not changed."""
        if self._diff is None:
            self._diff = self._compare()
            self._before = {name: self._before.get(name, _MISSING) for name in self._after}
            self._snapshot.keep_only([record for record, _ in self._changed])
        return self._diff

    def _compare(self) -> Diff:
        before = self._before
        now = dict(users_variables(self._namespace))
        names = [n for n in before | now if before.get(n, _MISSING) is not now.get(n, _MISSING)]
        changes = [
            self._name_change(name, now)
            for name in names
            if not same_value(before.get(name, _MISSING), now.get(name, _MISSING))
        ]
        contents = list(self._snapshot.changed())
        for record, _, words in contents:
            name = record.name
            value = record.value
            also = tuple(n for n, each in before.items() if each is value and n != name)
            if now.get(name, value) is not value:
                words.append("in the object of before")
            changes.append(Change("changed", name, tuple(words), also))
        self._after = {name: now.get(name, _MISSING) for name in names}
        self._changed = [(record, parts) for record, parts, _ in contents]
        notes = self._snapshot.not_watched, self._snapshot.not_kept
        return Diff(tuple(changes), *map(tuple, notes))

    def _name_change(self, name: str, now: Mapping[str, Any]) -> Change:
        if name not in self._before:
            return Change("made", name, (short_value(now[name]),))
        before = self._before[name]
        if name not in now:
            return Change("deleted", name, (short_value(before),))
        words = [f"{short_value(before)} → {short_value(now[name])}"]
        for each in self._snapshot.records:
            if each.value is before and each.kind.keep and type(before) is type(now[name]):
                with contained():
                    words += each.kind.differences(each.parts, each.kind.read(now[name]))
        return Change("rebound", name, tuple(words))

    def undo(self) -> tuple[NotCovered, ...]:
        """Restore names and contents to what they were before the block.

        What the block did not change is left alone, and so are names that were reassigned since.
        Calling it again has no effect, except after an interrupt, when it continues.

        Returns:
            What could not be restored, and what else the user should know.

        Raises:
            RuntimeError: The block has not begun.
        """
        if self._state == "open":  # an interrupt came before `__exit__` was run
            self._state = "ended"
        if self._undone is not None:
            return self._undone
        with defer_interrupts() as deferred:
            if self.diff and self._changed_later is None:
                self._changed_later = self._changes_since()
            self._undone = (*self._restored(), *(self._changed_later or ()))
        if deferred.interrupted:
            raise KeyboardInterrupt
        return self._undone

    def rewind(self) -> tuple[NotCovered, ...]:
        """Restore the state before the block for a while: it can still be undone afterwards.

        Call it inside of another transaction, whose `undo` brings back what there was. Names that
        were reassigned since the block have the values of before, too.

        Returns:
            What could not be restored.
        """
        if self._undone is not None or not self.diff:
            return ()
        for name in self._after:
            self._restore_name(name)
        for record, _ in self._changed:
            if record.name.isidentifier():  # a variable, not a part of one such as log.values
                self._namespace[record.name] = record.value
        return tuple(restore(record for record, _ in self._changed))

    def _changes_since(self) -> list[NotCovered]:
        """What was changed again since the block ended."""
        return [
            NotCovered(record.name, CHANGED_SINCE)
            for record, parts in self._changed
            if parts is None or record._replace(parts=parts).changes()[1]
        ]

    def _restored(self) -> list[NotCovered]:
        """Restore names and contents; returns what could not be restored."""
        failed = [NotCovered(n, _REASSIGNED_SINCE) for n in self._after if not self._is_restored(n)]
        return [*failed, *restore(record for record, _ in self._changed)]

    def _is_restored(self, name: str) -> bool:
        """Restore one name, unless it was reassigned since."""
        before = self._before.get(name, _MISSING)
        now = self._namespace.get(name, _MISSING)
        if now is before:
            return True
        if now is not self._after[name]:
            return False
        self._restore_name(name)
        return True

    def _restore_name(self, name: str) -> None:
        before = self._before.get(name, _MISSING)
        if before is _MISSING:
            self._namespace.pop(name, None)
        else:
            self._namespace[name] = before


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


def is_users_name(name: str) -> bool:
    """Whether a name is the user's, not one of Python or IPython."""
    return _NOT_THE_USERS.fullmatch(name) is None


def _not_variables(namespace: Namespace) -> Iterator[NotCovered]:
    """The keys of a namespace that cannot be names of variables."""
    for key in dict(namespace):
        if type(key) is not str:
            yield NotCovered(short_key(key), "a key of the namespace that is not plain text")


# ── the calls of a run ────────────────────────────────────────────────────────────────────────────

Call: TypeAlias = tuple[Tool, BoundCall, Json]
"""A tool, its validated arguments, and the input as the model sent it."""

_NAME = re.compile(r"\\.|([^\W\d]\w*)")  # or an escaped character


class Watch:
    """Watches the user's variables during the calls of a run, and can undo their changes."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._transactions: list[Transaction] = []  # those with changes
        self._is_discarded = False
        self._listed: set[NotCovered] = set()  # is in the diff of an earlier call
        self.assigned: list[Diff] = []  # what `assign` changed

    def run(
        self, calls: Sequence[Call], work: Callable[[], list[CallOutcome]], guard: CallGuard
    ) -> list[CallOutcome]:
        """Run calls, and add what they changed to the last outcome.

        What is not watched is listed once in a run, by the first call that could have changed it.
        """
        named = set(_NAME.findall(json.dumps([given for *_, given in calls], ensure_ascii=False)))
        transaction = Transaction(None, self._namespace, BYTES, named)
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
            if calls[-1][0].function is python:
                last = replace(last, changed=clip(str(replace(diff, not_watched=())), 1000))
        notes = tuple(each for each in diff.not_watched if each not in self._listed)
        self._listed.update(notes)
        if diff or notes:
            outcomes[-1] = replace(last, diff=replace(diff, not_watched=notes))
        return outcomes

    def assign(self, name: str, value: Any, not_watched: tuple[NotCovered, ...] = ()) -> None:
        """Assign a variable after the calls, as ``--out`` does; undoing the run restores it."""
        with Transaction((), self._namespace, BYTES) as transaction:
            self._namespace[name] = value
        self._transactions.append(transaction)
        self.assigned.append(replace(transaction.diff, not_watched=not_watched))

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

    def undo(self) -> tuple[NotCovered, ...]:
        """Undo the changes, the last one first; returns what could not be restored.

        Raises:
            RuntimeError: Another agent is running a call on the variables.
        """
        if self._is_discarded:
            return (NotCovered("", "its changes can no longer be undone"),)
        notes: tuple[NotCovered, ...] = ()
        with defer_interrupts() as deferred:
            waits = turn(self._namespace, alone=True, interrupted=lambda: deferred.interrupted)
            with waits as is_ours:
                if is_ours:
                    each_notes = [each.undo() for each in reversed(self._transactions)]
                    notes = tuple(itertools.chain.from_iterable(each_notes))
        if deferred.interrupted:
            raise KeyboardInterrupt
        if not is_ours:
            raise RuntimeError(
                "nothing was undone: another agent is running a call on the same variables; "
                "undo it when that call has ended"
            )
        return notes
