"""Runs a program from request to request, until it waits for calls or has ended.

Nothing else replies to the sandbox. The caller decides what becomes of a program's variables: a
conversation keeps them for the next program (`session.py`), a row of a map discards them
(`rows.py`). A caller reads only `ProgramWaits` and `ProgramEnded`, so a program can also run
outside the sandbox.

| state   | meaning                                      | left by                               |
|---------|----------------------------------------------|---------------------------------------|
| new     | none of it has run                           | `start` → waiting, ended              |
| waiting | it waits for the outcomes of calls           | `resume` → waiting, ended             |
| ended   | `ended` says how, `left` what it left behind | –                                     |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic_monty import (
    FunctionSnapshot,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    SyncSnapshot,
)

from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    Json,
    ProgramCall,
    ProgramEnded,
    ProgramWaits,
    Shown,
)
from archytas_nb.sandbox.bounds import Bounds, bound_of
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.inputs import as_input, call_of
from archytas_nb.sandbox.notebook import NotebookVariables
from archytas_nb.sandbox.short import MAX_SHORT, short
from archytas_nb.sandbox.snapshots import (
    MAX_MESSAGE,
    NO_METHODS,
    RETURN_NONE,
    exception_text,
    function_named,
    looks_up_name,
    named,
    outcome_reply,
    raised,
    raised_by,
    resumed,
    waits_for_calls,
)
from archytas_nb.sandbox.source import CHECKPOINT, Source
from archytas_nb.sandbox.values import from_sandbox
from archytas_nb.syntax.program import (
    PROGRAM_ANSWER,
    PROGRAM_ENDINGS,
    PROGRAM_GIVE_UP,
    PROGRAM_SHOW,
)
from archytas_nb.tools.data import is_data
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.words import count, did_you_mean, truncate_line, truncate_middle

_MAX_PRINTED = 20_000  # characters of printed text that are kept
_MAX_LINE = 500  # characters of one printed line
_MAX_SHOWN = 100  # texts that a program shows
_MAX_WHOLE = 2000  # characters of one of them

Left: TypeAlias = Literal["nothing", "a request", "a bound", "no worker"]
"""What is left when a program stops: a session that can continue, a request that is still open,
a limit that was reached (the session must not be used then), or no worker."""


@dataclass(slots=True)
class Spent:
    """How much of the limits one program, or all its parts, have used."""

    calls: int = 0
    requests: int = 0


def _keep_nothing(_: Any) -> None:
    """Receive a request at which the session could be saved."""


@dataclass(slots=True)
class Surroundings:
    """The surroundings of a program while it runs.

    Attributes:
        tools: The tools, by their names in programs.
        notebook: The variables that it may use.
        handles: The objects that the sandbox refers to.
        bounds: Its limits.
        object_in_answer: Gives the JSON of an object in an answer.
        keep: Saves the session at a request: the program made a call, or assigned its value.
        names: The bound names, to suggest one for a misspelled name.
        is_stopping: Whether the program must stop at its next request.
        spent: How much of the limits is used.
    """

    tools: Mapping[str, Tool]
    notebook: NotebookVariables
    handles: Handles
    bounds: Bounds
    object_in_answer: Callable[[Any], Json]
    keep: Callable[[Any], None] = _keep_nothing
    names: Callable[[], Collection[str]] = tuple
    is_stopping: Callable[[], bool] = bool
    spent: Spent = field(default_factory=Spent)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that send a request to the caller."""
        return (*self.tools, *PROGRAM_ENDINGS)


class _Stop(Exception):
    """The program must end at this request."""


@dataclass(slots=True)
class Engine:
    """One program while it runs.

    Attributes:
        source: Its text.
        file: The name that the sandbox gives to its text.
        around: Its surroundings.
        left: The thing that it leaves when it is stopped.
        request: The request at which it waits or was stopped; None if there is none.
        lost: Why the sandbox was lost; empty if it was not.
        line: The line of its last call; 0 if it is not known.
    """

    source: Source
    file: str
    around: Surroundings
    left: Left = "nothing"
    request: Any = None
    lost: str = ""
    line: int = 0
    _is_interrupted: bool = False
    _is_stopped: bool = False
    _error: Fault | None = None
    _has_answer: bool = False
    _answer: Json = None
    _given: tuple[Any, ...] = ()  # the values that it gave to `answer`
    _gave_up: str | None = None
    _pending: dict[int, ProgramCall] = field(default_factory=dict)  # calls without an outcome
    _requested: tuple[int, ...] = ()  # the ids of those that it waits for, in order
    _shown: list[str] = field(default_factory=list)
    _printed: str = ""
    _size: int = 0

    # ── what runs it ──────────────────────────────────────────────────────────────────────────────

    def start(self, begin: Callable[[], SyncSnapshot]) -> ProgramWaits | None:
        """Run the program until it waits for calls; None if it has ended.

        Args:
            begin: Passes it to the sandbox; its printed text goes to `print`.
        """
        return self._advanced(begin)

    def resume(self, outcomes: Sequence[CallOutcome]) -> ProgramWaits | None:
        """Continue with the outcomes of the calls that it waits for, in their order.

        An outcome that is neither a success nor a failure, such as a refusal, ends the program;
        outcomes after it may be missing.

        Raises:
            ValueError: The number of outcomes is not that of the open calls.
        """
        snapshot = self.request
        calls = [self._pending.pop(each) for each in self._requested]
        for call, outcome in zip(calls, outcomes, strict=False):
            if outcome.status not in ("done", "error"):
                self._stop_at(call.line, outcome.text)
                self._is_interrupted = outcome.status == "interrupted"
                self.left = "a request"
                return None
        if snapshot is None or len(outcomes) != len(calls):
            given = count(len(outcomes), "outcome")
            raise ValueError(f"{given} for {count(len(calls), 'call')}")
        replies = [outcome_reply(each, self.around.handles) for each in outcomes]
        if waits_for_calls(snapshot):
            reply: Any = dict(zip(self._requested, replies, strict=True))
        else:
            [reply] = replies
        return self._advanced(lambda: resumed(snapshot, reply))

    def interrupt(self) -> None:
        """End the program where it waits, if it waits."""
        self._is_interrupted = True
        if self.request is not None:
            self.left = "a request"

    def ended(
        self,
        assigned: Mapping[str, Shown] | None = None,
    ) -> ProgramEnded:
        """How the program ended, with those of its assigned variables that could be read."""
        self._flush()
        return ProgramEnded(
            shown=tuple(self._shown),
            answer=self._answer,
            has_answer=self._has_answer,
            gave_up=self._gave_up,
            error=self._error,
            stopped=self._is_stopped,
            assigned=assigned or {},
            interrupted=self._is_interrupted,
            lost=self.lost,
            given=self._given,
        )

    def _advanced(self, step: Callable[[], SyncSnapshot]) -> ProgramWaits | None:
        """Continue until the program waits for calls, or ends."""
        self.request = None
        snapshot: Any = None
        try:
            snapshot = step()
            while not isinstance(snapshot, MontyComplete):
                if self.around.is_stopping():
                    raise _Stop
                after = self._replied(snapshot)
                if after is None:
                    self.request = snapshot
                    return ProgramWaits(tuple(self._pending[each] for each in self._requested))
                snapshot = after
            self._show_last(snapshot)
        except _Stop:
            self.left = "a request"
            self.request = snapshot
        except MontyCrashedError as error:
            self._record_lost_worker(error)
        except MontyError as error:
            self._fail(error)
        return None

    # ── its requests ──────────────────────────────────────────────────────────────────────────────

    def _replied(self, snapshot: Any) -> SyncSnapshot | None:
        """Reply to a request, and return the next one; None if it waits for calls.

        Raises:
            _Stop: The program is to end here.
        """
        spent = self.around.spent
        spent.requests += 1
        if spent.requests > self.around.bounds.requests:
            if hasattr(snapshot, "position"):
                self.line = self._line_of(snapshot)
            self._stop_at(self.line, self.around.bounds.text_of_requests())
            raise _Stop
        if waits_for_calls(snapshot):
            waiting = set(snapshot.pending_call_ids)
            self._requested = tuple(each for each in self._pending if each in waiting)
            self.around.keep(snapshot)
            return None
        if looks_up_name(snapshot):
            return self._looked_up(snapshot)
        if snapshot.is_os_function:
            after: SyncSnapshot = snapshot.resume_not_handled()
            return after
        if snapshot.object_id is not None:
            return resumed(snapshot, NO_METHODS)
        return self._called(snapshot)

    def _looked_up(self, snapshot: Any) -> SyncSnapshot:
        """A function of the run, or a variable of the notebook; every other name is undefined."""
        name = snapshot.variable_name
        after: SyncSnapshot
        if snapshot.object_id is None and name in self.around.functions:
            after = snapshot.resume(value=function_named(name))
        elif snapshot.object_id is None and self.around.notebook.has(name):
            after = named(snapshot, self.around.notebook.lend(name))
        else:
            after = snapshot.resume()
        return after

    def _called(self, snapshot: FunctionSnapshot) -> SyncSnapshot | None:
        name = str(snapshot.function_name)
        if name == CHECKPOINT:
            self.around.keep(snapshot)
            return snapshot.resume(RETURN_NONE)
        handles = self.around.handles
        self.line = self._line_of(snapshot)
        args = [from_sandbox(each, handles) for each in snapshot.args]
        given = {key: from_sandbox(each, handles) for key, each in snapshot.kwargs.items()}
        try:
            if name == PROGRAM_SHOW:
                for each in (*args, *given.values()):
                    self._show(_shown_text(each))
                return snapshot.resume(RETURN_NONE)
            if name in PROGRAM_ENDINGS:
                self._end_with(name, [*args, *given.values()])
                self.around.keep(snapshot)
                raise _Stop
            if name in self.around.tools:
                tool = self.around.tools[name]
                return self._call(snapshot, call_of(tool, args, given, handles, self.line))
        except TypeError as error:
            return snapshot.resume(raised("TypeError", str(error)))
        guess = did_you_mean(name, (*self.around.functions, *self.around.names()))
        return snapshot.resume(raised("NameError", f"name {name!r} is not defined{guess}"))

    def _end_with(self, name: str, values: Sequence[Any]) -> None:
        """Keep the value that the program ends with; TypeError if it cannot end with this value."""
        if name == PROGRAM_GIVE_UP and not values:
            self._gave_up = ""
            return
        if len(values) != 1:
            raise TypeError(f"{name}() takes one value, but {len(values)} were given")
        if name == PROGRAM_ANSWER:
            self._answer = as_input(values[0], self.around.object_in_answer)
            self._given = tuple(values)
            self._has_answer = True
        else:
            self._gave_up = str(values[0])

    def _call(self, snapshot: FunctionSnapshot, call: ProgramCall) -> SyncSnapshot | None:
        """Request a call; the reply comes later if the program awaits it."""
        self.around.spent.calls += 1
        if self.around.spent.calls > self.around.bounds.calls:
            self._stop_at(self.line, self.around.bounds.text_of_calls())
            raise _Stop
        self._pending[snapshot.call_id] = call
        if self._is_awaited(snapshot):
            return snapshot.resume({"future": ...})
        self._requested = (snapshot.call_id,)
        self.around.keep(snapshot)
        return None

    def _line_of(self, snapshot: Any) -> int:
        """The line of a request; 0 if it is not in the text of this program.

        A call can be in a function of an earlier program, or in one of the sandbox's own.
        """
        place = snapshot.position
        if place.filename != self.file:
            return 0
        return self.source.line_at(place.start)

    def _is_awaited(self, snapshot: Any) -> bool:
        """Whether the program awaits the call."""
        place = snapshot.position
        return place.filename == self.file and self.source.is_awaited(place.start, place.end)

    # ── output ────────────────────────────────────────────────────────────────────────────────────

    def print(self, _: str, text: str) -> None:
        """Receive printed text, in pieces."""
        left = max(_MAX_PRINTED - self._size, 0)
        self._size += len(text)
        self._printed += text[:left]

    def _show(self, text: str) -> None:
        """Add a text to the output, after the text that was printed before."""
        self._flush()
        if len(self._shown) < _MAX_SHOWN:
            self._shown.append(text)

    def _flush(self) -> None:
        """Move the printed text to the output, one text for each line."""
        lines = self.around.handles.in_words(self._printed).splitlines()
        self._printed = ""
        most = _MAX_SHOWN - len(self._shown)
        self._shown += [truncate_line(each, _MAX_LINE) for each in lines][:most]

    def _show_last(self, complete: MontyComplete) -> None:
        """Show the value of the last expression, if there is one."""
        try:
            value = complete.output
        except Exception as error:  # noqa: BLE001 - nested too deeply, or a value that Python lacks
            self._show(f"<a value that cannot be shown: {truncate_line(str(error), 100)}>")
            return
        if value is not None:
            self._show(_shown_text(from_sandbox(value, self.around.handles)))

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    @property
    def _is_over(self) -> bool:
        """Whether the ending is already certain, whatever the program still does."""
        has_ended = self._has_answer or self._gave_up is not None
        return has_ended or self._error is not None or self._is_interrupted

    def _stop_at(self, line: int, text: str) -> None:
        """Note why it is stopped in a line; this is not what the program raises."""
        self._error = self.source.fault(line, text)
        self._is_stopped = True

    def _fail(self, error: MontyError) -> None:
        """Record that the program raised, or reached a limit."""
        bound = bound_of(error)
        if bound:
            self.left = "a bound"
        if self._is_over:
            return
        frames: list[Any] = getattr(error, "traceback", list)()
        lines = [self.line, *(each.line for each in frames if each.filename == self.file)]
        if bound:
            self._stop_at(lines[-1], self.around.bounds.text(bound))
        else:
            text = truncate_middle(exception_text(error), MAX_MESSAGE)
            self._error = self.source.fault(lines[-1], text, raised_by(error))

    def _record_lost_worker(self, error: MontyCrashedError) -> None:
        """Record that the worker's process ended."""
        self.left = "no worker"
        if not error.timed_out:
            self.lost = lost(error)
        elif self._error is None:
            self._stop_at(self.line, self.around.bounds.text("time"))


def lost(error: Exception) -> str:
    """Why the sandbox is gone."""
    return f"the process of the sandbox was lost ({error})"


def _shown_text(value: Any) -> str:
    """The text of a shown value: in a few words, or as the result of a tool if that says more."""
    text = short(value)
    if len(text) < MAX_SHORT and not is_data(value):
        return text
    return render(value, _MAX_WHOLE).text
