"""A question in the background: its calls run between cells, and cells between its calls.

    the cell ──▶ prepared ──▶ a thread waits for the model ──▶ the main thread runs the calls
                 (main thread)     ▲    cells run meanwhile        (no cell runs meanwhile)
                                   └───────────────────────────────────────┘

A cell may change what the run has read, and so may a callback or a thread while the model writes.
The variables are looked at before and after each cell and each piece of the run's own work, so the
changes are known. The model reads of them before its next step; and calls that it wrote before it
was told are not run, since they may overwrite what was done.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from archytas_nb.kernel.main_thread import MainThread
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import Inbox
from archytas_nb.loop.stop import Stop
from archytas_nb.namespace import Namespace, contained
from archytas_nb.run import Events, Run
from archytas_nb.tools.variables import is_users_name
from archytas_nb.undo.fingerprint import fingerprint

_log = logging.getLogger("archytas_nb")
_NAME = re.compile(r"[^\W\d]\w*")


class CellChanges:
    """The variables that others have changed; its methods are called on the main thread.

    Of the variables that the run knows and those that a cell names, the content is compared; of all
    others, whether the name has another object. A cell may run another one: at each begin and end,
    it is noted what has changed since the last.

        between cells ──begun──▶ in a cell ──ended──▶ between cells
                                   └─begun, ended─┘   a cell that runs another one, or waits for
                                                      the run, whose changes are not the cell's

    Args:
        namespace: The variables.
        known: Returns the names of those whose content is always compared.
        note: Called with the names that have changed.

    Attributes:
        changed: All names that have changed so far.
    """

    def __init__(
        self,
        namespace: Namespace,
        known: Callable[[], Collection[str]],
        note: Callable[[Collection[str]], object],
    ) -> None:
        self._namespace = namespace
        self._known = known
        self._note = note
        self._objects: dict[str, int] | None = None  # before the first cell
        self._contents: dict[str, Any] = {}
        self.changed: set[str] = set()
        self.is_running = False  # a cell, which may wait in its middle

    def begun(self, info: Any = None) -> None:
        """A cell begins."""
        names = {*self._known(), *_NAME.findall(str(getattr(info, "raw_cell", "")))}
        if self.is_running:
            names |= self._contents.keys()
        self.compare()
        self.is_running = True
        self._look(names)

    def ended(self, _: Any = None) -> None:
        """A cell has ended."""
        self.compare()
        self.is_running = False
        if self._objects is not None:
            self._look(self._contents)

    def look(self) -> None:
        """The run has done a piece of its work."""
        self._look(self._known())

    def _look(self, names: Collection[str]) -> None:
        self._objects = self._ids()
        self._contents = {name: self._content(name) for name in names if is_users_name(name)}

    def compare(self) -> None:
        """Note what has changed since the last look."""
        if self._objects is None:
            return
        changed = {name for name, each in self._contents.items() if self._content(name) != each}
        after = self._ids()
        others = (self._objects.keys() | after.keys()) - self._contents.keys()
        changed |= {name for name in others if self._objects.get(name) != after.get(name)}
        self.changed |= changed
        self._note(changed)

    def _ids(self) -> dict[str, int]:
        names = dict(self._namespace)
        return {name: id(value) for name, value in names.items() if is_users_name(str(name))}

    def _content(self, name: str) -> Any:
        """The content of a variable that can be read."""
        if name not in self._namespace:
            return None
        value = self._namespace[name]
        with contained():
            found = fingerprint(value)
            return (found.digest, id(value) if found.unread else 0)
        return id(value)


class BackgroundInbox(Inbox):
    """The inbox of a run in the background, which also knows what cells have changed.

    Args:
        known: Returns the names of the variables that the run knows.

    Attributes:
        on_stop: Ends the run; called from any thread.
    """

    runs_in_cell = False

    def __init__(self, known: Callable[[], Collection[str]]) -> None:
        super().__init__()
        self.on_stop: Callable[[], object] = lambda: None
        self._known = known
        self._changed: dict[str, None] = {}  # changes that the model does not know yet
        self._changes = threading.Lock()

    def note(self, names: Collection[str]) -> None:
        """Note that a cell has changed variables."""
        with self._changes:
            self._changed |= dict.fromkeys(sorted(names))

    def stop(self) -> None:
        """End the run; may be called from any thread."""
        super().stop()
        self.on_stop()

    def stale(self, calls: Sequence[ev.ToolCall]) -> str:
        """Why calls are not run that the model wrote before it knew what a cell has changed."""
        given = json.dumps([each.input for each in calls], ensure_ascii=False, default=str)
        names = self._taken({*self._known(), *_NAME.findall(given)})
        if not names:
            return ""
        return (
            f"Not run: a cell of the notebook has changed {names} since you wrote this. Look "
            "again, and call again what is still right."
        )

    def take(self) -> list[str]:
        """Messages of the person and changes by cells since the last request."""
        said = super().take()
        if names := self._taken(self._known()):
            said.append(
                f"(While you worked, a cell of the notebook changed {names}: what you have read of "
                "it may no longer hold.)"
            )
        return said

    def close(self) -> None:
        """Accept nothing more; the person learns of a change after the last request."""
        names = self._taken(self._known())
        super().close()
        if names:
            with self._lock:
                self._late.append(f"a cell has changed {names} since the model read it")

    def _taken(self, names: Collection[str]) -> str:
        """The changed ones among some names; the model reads of them now."""
        with self._changes:
            found = [each for each in self._changed if each in names]
            for each in found:
                del self._changed[each]
        return ", ".join(found)


class BackgroundRun:
    """A run whose requests wait in a thread, and whose calls run on the main thread between cells.

        waiting for the model ⇄ waiting for a place between cells ⇄ running there ──▶ ended
                 └──── stop ────────────────┴──── stop ────┴──── stop ────▶ ended

    Args:
        run: The run.
        events: Its events; the first of them are taken here, on the main thread.
        main: The main thread.
        stopped: Set to end the run.
        changes: Told before and after each piece of its work.
        on_end: Called on the main thread when it has ended.

    Attributes:
        error: An error outside of the run, such as that of an observer; None without one.
    """

    def __init__(
        self,
        run: Run[Any],
        events: Events,
        main: MainThread,
        stopped: Stop,
        changes: CellChanges,
        on_end: Callable[[], object],
    ) -> None:
        self.run = run
        self.error: BaseException | None = None
        self._events = events
        self._main = main
        self._stopped = stopped
        self._changes = changes
        self._on_end = on_end
        self._has_thrown = False
        self._working: Future[Any] | None = None
        self._done: Future[None] = Future()
        self._done.set_running_or_notify_cancel()
        # All that is asked with is decided now, before another cell can run.
        self._event = self._first()
        changes.look()

    def start(self) -> None:
        """Go on, in a thread."""
        context = copy_context()
        context.run(Stop.current.set, self._stopped)
        threading.Thread(
            target=context.run, args=(self._pump,), name="archytas_nb-background", daemon=True
        ).start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._done.done()

    def stop(self) -> None:
        """End the run soon; may be called from any thread."""
        self._stopped.set()
        working = self._working
        if working is not None:
            self._main.interrupt(working)

    def wait(self) -> None:
        """Wait in a cell until it has ended; its calls run in this cell meanwhile."""
        self._main.work_until(self._done)

    def _first(self) -> ev.Event | None:
        event = next(self._events, None)
        while event is not None and not isinstance(event, ev.AskModel):
            event = next(self._events, None)
        return event

    def _pump(self) -> None:
        try:
            event = self._event
            while event is not None:
                # These are followed by a request to the model, or by more of the reply.
                if isinstance(event, (ev.AskModel, ev.Delta)) and not self._has_thrown:
                    event = next(self._events, None)
                else:
                    event = self._on_main(self._work)
        except KeyboardInterrupt:
            pass  # the ending says so
        except BaseException as error:  # noqa: BLE001 - of a model or an observer of the user's
            self.error = error
            _log.exception("a question in the background failed")
        try:
            self._on_main(self._end)
        finally:
            self._done.set_result(None)

    def _on_main(self, work: Callable[[], Any]) -> Any:
        self._working = self._main.submit(work)
        try:
            return self._working.result()
        finally:
            self._working = None

    def _work(self) -> ev.Event | None:
        """Go on until the next request to the model, in one piece: nothing comes between."""
        self._changes.compare()
        event = self._advance()
        while event is not None and not isinstance(event, (ev.AskModel, ev.Delta)):
            event = self._advance()
        self._changes.look()
        return event

    def _advance(self) -> ev.Event | None:
        """The next event; a stop is an interrupt of what would come next."""
        if self._stopped.event.is_set() and not self._has_thrown:
            self._has_thrown = True
            return self._events.throw(KeyboardInterrupt())
        return next(self._events, None)

    def _end(self) -> None:
        self._events.close()
        self._on_end()


def known_to(run: Run[Any], described: Collection[str]) -> set[str]:
    """The variables that a run knows: that were described to it, or that it read or changed.

    Args:
        run: The run.
        described: The names that are described below its question.
    """
    found = {*described}
    if run.reads is not None:
        found |= run.reads.names
    found |= {name for each in run.diff.changes for name in _NAME.findall(each.name)[:1]}
    return found
