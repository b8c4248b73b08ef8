"""Implements ``%agent --background`` and ``%agent_runs``: runs that continue between cells."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.error import UsageError

from archytas_nb.background import BackgroundInbox, BackgroundRun, CellChanges, known_to
from archytas_nb.conversation import Asking, History
from archytas_nb.driver import ask, notebook_executor
from archytas_nb.kernel.main_thread import MainThread
from archytas_nb.loop.events import ApprovalForm, UserQuestion
from archytas_nb.loop.stop import Stop
from archytas_nb.magics.overview import TextResult
from archytas_nb.namespace import cells_of
from archytas_nb.run import Run
from archytas_nb.trace import front_end
from archytas_nb.trace.controls import Controls
from archytas_nb.trace.live import TraceView
from archytas_nb.words import clock, collapse_whitespace

if TYPE_CHECKING:
    from archytas_nb.prepare import Question, RunSetup


class PersonWithButtons:
    """A person who is asked between cells: only buttons reach them, as no cell takes a line."""

    def __init__(self) -> None:
        self._controls = Controls(self)

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return front_end.way() == "controls"

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Ask with buttons; raises EOFError where there are none."""
        if form is None or front_end.way() != "controls":
            raise EOFError("a run in the background can only ask with buttons")
        return self._controls.ask(prompt, form)


class Outcome(NamedTuple):
    """The outcome of a question that has ended, for the person.

    Attributes:
        note: Facts that they have to know besides the answer.
        code: The code of a cell to add, which only the reply to a cell can carry.
    """

    note: str = ""
    code: str = ""


@dataclass
class Begun:
    """A question in the background.

    Attributes:
        cell: The number of the cell that asked.
        running: Its run.
        inbox: The person's messages to it.
        changes: The changes that cells make meanwhile.
        outcome: The answer or failure that it leaves to the person.
    """

    cell: int
    running: BackgroundRun
    inbox: BackgroundInbox
    changes: CellChanges
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def line(self) -> str:
        """A description in one line."""
        run = self.running.run
        question = collapse_whitespace(run.question, 60)
        state = "running" if not self.running.is_over else run.status
        answer = f": {collapse_whitespace(run.answer, 60)}" if run.answer else ""
        note = f" · {self.outcome.note}" if self.outcome.note else ""
        return f"cell {self.cell} · {state} · {clock(run.seconds)} · {question}{answer}{note}"

    def wait(self) -> None:
        """Wait for its end in a cell: what the run changes meanwhile, the cell has not changed."""
        if self.running.is_over:
            return
        self.changes.ended()
        try:
            self.running.wait()
        finally:
            self.changes.begun()


class Background:
    """The questions in the background of a notebook.

    Args:
        shell: The shell of IPython.
        history: Its questions.
    """

    def __init__(self, shell: Any, history: History) -> None:
        self._shell = shell
        self._history = history
        self._begun: list[Begun] = []
        self._ended: list[Begun] = []  # of which the person was not told yet
        self._with_code: list[Begun] = []  # whose cells were not added yet
        self._registered: list[tuple[str, Callable[..., Any]]] = []

    def begin(
        self,
        setup: RunSetup,
        question: Question,
        asking: Asking,
        view: Callable[[BackgroundInbox], TraceView],
        on_end: Callable[[Run[Any], Collection[str]], Outcome],
        watched: Collection[str] = (),
    ) -> Run[Any]:
        """Begin a question; it is prepared now, and goes on between cells.

        Args:
            setup: The tools, model and settings of the question.
            question: The question.
            asking: Its place in the conversation.
            view: Makes its trace.
            on_end: Called with its run when it has ended, between cells, and with the variables
                that cells have changed meanwhile.
            watched: Variables that are not the run's, whose change it has to know then.
        """
        run = Run[Any](question.exchange.question, _is_typed=question.is_typed)
        stopped = Stop()

        def known() -> set[str]:
            context = question.exchange.context
            return known_to(run, () if context is None else context.names)

        inbox = BackgroundInbox(known)
        changes = CellChanges(setup.variables, lambda: known().union(watched), inbox.note)
        main = MainThread(lambda: changes.is_running)
        shown = view(inbox)
        executor = partial(notebook_executor, inbox=inbox, user=PersonWithButtons())
        events = ask(setup, run, question, asking.conversation, inbox, [shown.on_event], executor)

        def ended() -> None:
            shown.end(run.ending)
            shown.close()
            self._unregister()
            self._history.end(asking, run)
            self._ended.append(begun)
            begun.outcome = on_end(run, changes.changed)
            if begun.outcome.note:
                shown.note(begun.outcome.note)
            if begun.outcome.code:
                self._with_code.append(begun)

        try:
            running = BackgroundRun(run, events, main, stopped, changes, ended)
        except BaseException:
            self._history.end(asking, run)
            shown.close()
            raise
        # The rest of the cell that asks is a cell like others: it runs while the model is asked.
        changes.begun(SimpleNamespace(raw_cell=cells_of(self._shell)[-1]))
        begun = Begun(asking.cell.number, running, inbox, changes)
        inbox.on_stop = running.stop
        self._begun.append(begun)
        self._register("pre_run_cell", changes.begun)
        self._register("post_run_cell", changes.ended)
        self._register("post_run_cell", self._tell)
        running.start()
        return run

    def runs(self) -> TextResult:
        """All of them, in order."""
        lines = [each.line for each in self._begun]
        return TextResult("\n".join(lines) or "no question was asked in the background")

    def wait(self) -> TextResult:
        """Wait until none is running; their calls run in this cell meanwhile."""
        for each in self._begun:
            each.wait()
        return self.runs()

    def stop(self) -> TextResult:
        """End those that are running."""
        running = [each for each in self._begun if not each.running.is_over]
        if not running:
            raise UsageError(
                "no question is running in the background; %agent --background QUESTION starts one"
            )
        for each in running:
            each.inbox.stop()
            each.wait()
        return self.runs()

    def _tell(self, *_: Any) -> None:
        """Say below the next cell that a question has ended, and add the cell with its code."""
        while self._ended:
            ended = self._ended.pop(0)
            mark = "✓" if ended.running.run.status == "answered" else "✗"
            print(f"{mark} {ended.line}")  # noqa: T201
        payloads = self._shell.payload_manager.read_payload()
        # A reply carries one cell at most, and that which has just run may have added one itself.
        has_cell = any(each["source"] == "set_next_input" for each in payloads)
        if self._with_code and not has_cell:
            begun = self._with_code.pop(0)
            self._shell.set_next_input(begun.outcome.code, replace=False)
            print(f"The code of the answer to cell {begun.cell} is in the cell below.")  # noqa: T201

    def _register(self, event: str, callback: Callable[..., Any]) -> None:
        if (event, callback) not in self._registered:
            self._shell.events.register(event, callback)
            self._registered.append((event, callback))

    def _unregister(self) -> None:
        kept = []
        for event, callback in self._registered:
            if callback == self._tell:
                kept.append((event, callback))
            else:
                self._shell.events.unregister(event, callback)
        self._registered = kept

    def close(self) -> None:
        """End all, and look at no more cells."""
        for each in self._begun:
            if not each.running.is_over:
                each.inbox.stop()
        for event, callback in self._registered:
            self._shell.events.unregister(event, callback)
        self._registered = []
