"""The buttons of a person for the last question, when it has been answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from archytas_nb.errors import ArchytasError
from archytas_nb.magics.shown import redone, undone

if TYPE_CHECKING:
    from archytas_nb.conversation import History, Removed
    from archytas_nb.run import Run
    from archytas_nb.trace.actions import Action, ActionRow, Done
    from archytas_nb.trace.live import TraceView

_KEPT = 20  # traces that an undo can still change
_NOT_LAST = "this is no longer the last question: run its cell again to ask it again"


class AfterRuns:
    """The traces of the last questions, and the buttons below the last one.

    Args:
        history: The conversation.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._traces: deque[tuple[Run, TraceView]] = deque(maxlen=_KEPT)
        self._row: ActionRow | None = None
        history.on_last = self._refresh
        self._offered: Callable[[], list[Action]] = list

    def close(self) -> None:
        """Take the buttons of the last question away, because another one begins."""
        row, self._row = self._row, None
        if row is not None:
            self._traces[-1][1].offer(None)
            row.close()

    def add(self, run: Run, trace: TraceView, again: Callable[[str], Run]) -> None:
        """Keep the trace of a question that has ended, and offer what can be done with it.

        Args:
            run: The run.
            trace: Its trace.
            again: Asks another question with the same setup.
        """
        self._traces.append((run, trace))
        if not trace.takes_clicks:
            return
        from archytas_nb.kernel.main_thread import MainThread
        from archytas_nb.trace.actions import ActionRow

        self._row = row = ActionRow(self._actions(run, again), MainThread())
        self._offered = lambda: self._actions(run, again)
        trace.offer(row)

    def _refresh(self) -> None:
        """Offer what can be done now."""
        if self._row is not None:
            self._row.change(self._offered())

    def _actions(self, run: Run, again: Callable[[str], Run]) -> list[Action]:
        """The possible actions with a run now."""
        from archytas_nb.loop.events import Stopped
        from archytas_nb.trace.actions import Action, Done

        def ask(question: str, *, continues: bool = False) -> Done:
            if continues and self._history.last is not run:
                raise ArchytasError(_NOT_LAST)
            again(question)
            return Done()

        actions: list[Action] = []
        is_last = self._history.last is run
        if is_last:
            actions.append(Action("Undo", "%agent_undo", lambda: self._undo(run)))
        elif self._is_undone(run):
            actions.append(Action("Redo", "%agent_undo --redo", lambda: self._redo(run)))
        if is_last and run.calls:
            actions.append(Action("Keep as code", "%agent_code", lambda: _as_code(run)))
        if is_last and isinstance(run.ending, Stopped):
            more = "Continue where you stopped."
            actions.append(Action("Continue", f"%agent {more}", lambda: ask(more, continues=True)))
        question = run.question
        actions.append(Action("Ask again", "run the cell again", lambda: ask(question)))
        return actions

    def _undo(self, run: Run) -> Done:
        from archytas_nb.trace.actions import Done

        # A cell may have run between the press and this.
        removed = self._history.forget_last() if self._history.last is run else None
        if removed is None:
            raise ArchytasError(_NOT_LAST)
        self.undone(removed)  # the trace says what that did
        return Done()

    def _redo(self, run: Run) -> Done:
        from archytas_nb.trace.actions import Done

        back = self._history.bring_back() if self._is_undone(run) else None
        if back is None:
            raise ArchytasError(
                "there is nothing to bring back: this question is back already, or you have "
                "asked another one since"
            )
        return Done("\n".join(self.redone(back)))

    def _is_undone(self, run: Run) -> bool:
        """Whether a redo would bring this run back."""
        removed = self._history.removed
        return bool(removed) and removed[-1].asked is not None and removed[-1].asked.run is run

    def undone(self, removed: Removed, *, force: bool = False) -> list[str]:
        """Undo what a removed question has changed, and show that in its trace; what was done."""
        from archytas_nb.trace.actions import moment

        lines = undone(removed, force=force)
        for trace in self._of(removed):
            trace.mark_undone(f"Undone at {moment()}", lines)
        self._refresh()
        return lines

    def redone(self, back: Removed) -> list[str]:
        """Bring back what an undo has replaced, also in the trace; what was done."""
        lines = redone(back)
        for trace in self._of(back):
            trace.mark_undone("", [])
        self._refresh()
        return lines

    def _of(self, removed: Removed) -> list[TraceView]:
        run = removed.asked.run if removed.asked is not None else None
        return [trace for each, trace in self._traces if each is run]


def offer_retry(
    names: MutableMapping[str, Any], name: str, frame: Any, ask: Callable[[], Any]
) -> None:
    """Offer to ask again about the rows of a map that failed, where a person could press a button.

    Args:
        names: The variables of the notebook.
        name: The one that holds the result, which the new one replaces.
        frame: The result.
        ask: Asks about the rows that are not done, and returns the new result.
    """
    from archytas_nb.trace import front_end

    states = frame["status"] if hasattr(frame, "columns") else [each["status"] for each in frame]
    failed = sum(each == "failed" for each in states)
    if not failed or not front_end.takes_presses():
        return
    from archytas_nb.kernel.main_thread import MainThread
    from archytas_nb.trace.actions import Action, ActionRow, Done

    def retry() -> Done:
        if names.get(name) is not frame:
            return Done(f"{name!r} holds something else now: run the cell again")
        names[name] = again = ask()
        handle.update(front_end.NOTHING, raw=True)
        row.close()
        offer_retry(names, name, again, ask)
        return Done()

    row = ActionRow([Action(f"Retry {failed:,}", "run the cell again", retry)], MainThread())
    handle = front_end.display(row.widget)


def _as_code(run: Run) -> Done:
    from archytas_nb.code.derive import derive
    from archytas_nb.code.verify import verify
    from archytas_nb.trace.actions import Done

    recorded = run.recorded()
    derived = derive(recorded)
    return Done(str(verify(derived, recorded, [])), derived.text)
