"""A transaction over the user's variables: what a block of code changed in them, and its undo.

Names are compared for the whole namespace; contents for the names that the transaction is given.
Files, databases, other processes and what `Diff.not_watched` lists are outside of it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Self

from archytas_nb.kernel import Namespace, live_namespace
from archytas_nb.kernel.content import Parts, brief, same_value
from archytas_nb.kernel.interrupts import defer_interrupts
from archytas_nb.kernel.snapshot import BYTES, Record, Snapshot, restore
from archytas_nb.loop.events import Change, Diff, NotCovered

_NOT_THE_USERS = re.compile(
    r"__\w+__|_+|_i{1,3}|_i?\d+|_[io]h|_dh|_exit_code|In|Out|get_ipython|exit|quit|open"
)
_MISSING = object()
_BOUND_SINCE = "it was bound again since, and is left as it is"
CHANGED_SINCE = "it was changed again since; these changes are undone as well"


class Transaction:
    """Watches variables while a block of code runs; see `transaction`."""

    def __init__(self, names: Iterable[str] | None, namespace: Namespace, budget: int) -> None:
        self._only = None if names is None else set(names)
        self._namespace, self._budget = namespace, budget
        self._before: dict[str, Any] = {}
        self._after: dict[str, Any] = {}
        self._snapshot = Snapshot({})
        self._changed: list[tuple[Record, Parts | None]] = []
        self._diff: Diff | None = None
        self._later: list[NotCovered] | None = None
        self._undone: tuple[NotCovered, ...] | None = None
        self._state: Literal["new", "open", "ended"] = "new"

    def __enter__(self) -> Self:
        if self._state != "new":
            raise RuntimeError("a transaction can be used once; make another one")
        before = dict(users_variables(self._namespace))
        only = before.keys() if self._only is None else self._only
        self._snapshot = Snapshot({n: x for n, x in before.items() if n in only}, self._budget)
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
        """How much was copied; after the block, of what it changed."""
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
        return self._compare() if self._state == "open" else self._end()

    def _end(self) -> Diff:
        """Compare once, and let go what was not changed."""
        if self._diff is None:
            self._diff = self._compare()
            self._before = {name: self._before.get(name, _MISSING) for name in self._after}
            self._snapshot.keep_only([record for record, _ in self._changed])
        return self._diff

    def _compare(self) -> Diff:
        before, now = self._before, dict(users_variables(self._namespace))
        names = [n for n in before | now if before.get(n, _MISSING) is not now.get(n, _MISSING)]
        changes = [
            self._name_change(name, now)
            for name in names
            if not same_value(before.get(name, _MISSING), now.get(name, _MISSING))
        ]
        contents = list(self._snapshot.changed())
        for record, _, words in contents:
            name, value = record.name, record.value
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
            return Change("made", name, (brief(now[name]),))
        before = self._before[name]
        if name not in now:
            return Change("deleted", name, (brief(before),))
        words = [f"{brief(before)} → {brief(now[name])}"]
        for each in self._snapshot.records:
            if each.value is before and each.kind.keep and type(before) is type(now[name]):
                with contextlib.suppress(Exception):  # whatever an object does
                    words += each.kind.differences(each.parts, each.kind.read(now[name]))
        return Change("rebound", name, tuple(words))

    def undo(self) -> tuple[NotCovered, ...]:
        """Restore names and contents to what they were before the block.

        What the block did not change is left alone, and so are names that were bound again since.
        To call it again has no effect, except after an interrupt: then it goes on.

        Returns:
            What could not be restored, and what else the user should know.

        Raises:
            RuntimeError: The block has not begun.
        """
        if self._state == "open":  # an interrupt kept `__exit__` from being run
            self._state = "ended"
        if self._undone is not None:
            return self._undone
        with defer_interrupts() as deferred:
            if self.diff and self._later is None:
                self._later = [
                    NotCovered(record.name, CHANGED_SINCE)
                    for record, parts in self._changed
                    if parts is None or record._replace(parts=parts).changes()[1]
                ]
            failed = [NotCovered(n, _BOUND_SINCE) for n in self._after if not self._is_restored(n)]
            contents = restore(record for record, _ in self._changed)
            self._undone = (*failed, *contents, *(self._later or ()))
        if deferred.interrupted:
            raise KeyboardInterrupt
        return self._undone

    def _is_restored(self, name: str) -> bool:
        """Bind one name as before, unless it was bound again since."""
        before, now = self._before.get(name, _MISSING), self._namespace.get(name, _MISSING)
        if now is before:
            return True
        if now is not self._after[name]:
            return False
        if before is _MISSING:
            del self._namespace[name]
        else:
            self._namespace[name] = before
        return True


def transaction(*names: str, namespace: Namespace | None = None, keep: int = BYTES) -> Transaction:
    """Watch variables while a block of code runs, so that it can be undone.

    ``with nb.transaction() as t: …``, then ``t.diff`` and ``t.undo()``.

    Args:
        names: The variables whose contents are watched; all if empty. Creating, reassigning and
            deleting any variable is always detected.
        namespace: The variables; the user's by default.
        keep: Maximum number of bytes to copy. pandas 3 and polars keep large tables without a copy.
    """
    return Transaction(names or None, live_namespace() if namespace is None else namespace, keep)


def users_variables(namespace: Namespace) -> Iterator[tuple[str, Any]]:
    """The user's variables: no names of Python or IPython, no transactions."""
    for name, value in dict(namespace).items():
        if not _NOT_THE_USERS.fullmatch(name) and type(value) is not Transaction:
            yield name, value
