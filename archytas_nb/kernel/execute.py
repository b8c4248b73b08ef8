"""Runs tool calls in the live kernel, on the thread that the user's code runs on.

Each call has exactly one outcome: done, error, refused, interrupted, or not run, whatever the tool
raises, prints or displays. Calls run one after another, except that consecutive ``async def`` tools
run concurrently, after all of them have been approved. The model reads the texts of outcomes, and
they are part of recordings.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from archytas_nb.choices import AskBefore
from archytas_nb.effects.ledger import (
    MAX_ENTRIES,
    Ask,
    Effect,
    Ledger,
    current,
    kept_files,
    noted_in,
    watched,
    working_folder,
)
from archytas_nb.effects.states import MAX_ALL, MAX_FILE
from archytas_nb.effects.told import told
from archytas_nb.errors import ToolTimeout
from archytas_nb.functions.origin import (
    as_tool,
    followed,
    followed_into_threads,
    is_of_code,
    run_as_tool,
)
from archytas_nb.interrupts import CallEnd, CallGuard, TimeLimit, guard_calls
from archytas_nb.kernel import output
from archytas_nb.kernel.approval import Approve, Approver, CallingProgram, Clearance
from archytas_nb.kernel.copied import WithCopied, WorkingCopy, runs_in_copy, working
from archytas_nb.kernel.guard import guard_tools
from archytas_nb.kernel.kept import kept
from archytas_nb.kernel.output import Capture
from archytas_nb.kernel.permission import NOTEBOOK, Permissions, Source
from archytas_nb.kernel.person import (
    Keyboard,
    NobodyThereError,
    Person,
    answered_from,
    current_person,
    is_recorded,
    recording_of,
    seconds_taken,
)
from archytas_nb.kernel.scratch import Scratch
from archytas_nb.loop.events import (
    ROOM,
    ApprovalForm,
    CallOutcome,
    InputFault,
    Json,
    Output,
    Preview,
    Status,
    ToolCall,
    UserQuestion,
    is_image,
)
from archytas_nb.loop.limits import Clock
from archytas_nb.namespace import Namespace, current_shell
from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.data import MAX_IMAGES
from archytas_nb.tools.render import MAX_RESULT_CHARS
from archytas_nb.tools.texts import type_name
from archytas_nb.tools.tool import BoundCall, Tool
from archytas_nb.tools.toolbox import Toolbox, UnknownToolError
from archytas_nb.undo import turns
from archytas_nb.undo.transaction import VariableWatch
from archytas_nb.undo.turns import turn
from archytas_nb.words import truncate_line, truncate_middle

T = TypeVar("T")

for each in (followed, followed_into_threads):  # acts of its threads are effects of the call
    each.append(current)

_SECONDS_TO_RENDER = 2.0
"""Minimum time to render a result, so that it is not lost when its call used up its time."""

_MAX_EFFECTS = 10  # effects of code that the model reads
_MAX_EFFECT = 200  # characters of one
_RETURNED = 20  # characters between the output and the result
_NOT_BEGUN = "Not run: the user interrupted here."
_YOU_INTERRUPTED = "Not run: you interrupted here."
_INTERRUPTED = "Interrupted by the user while it ran."
_YOU_INTERRUPTED_IT = "Interrupted by you while it ran."
_NOT_IN_TURN = (
    "Not run: another agent is running a call on the same variables, and it could not be told "
    "apart what each of the two changes."
)
_OURS = str(Path(__file__).parent.parent)


class PausingPerson:
    """Asks a person while time limit, clock and capture are paused."""

    def __init__(
        self, person: Person, clock: Clock, on_question: Callable[..., Any] | None = None
    ) -> None:
        self._person = person
        self._clock = clock
        self._on_question = on_question or (lambda *_: None)
        self.guard = CallGuard()  # of the running calls
        self.approver: Approver | None = None  # of the run, which counts for inner ones as well
        self.seconds: float | None = None  # until the last answer came
        self.answering: float | None = None  # spent on the questions of a call

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return self._person.there

    @property
    def is_recorded(self) -> bool:
        """Whether a cassette records the answers."""
        return is_recorded(self._person)

    @property
    def recording(self) -> object | None:
        """The recording whose reply made the calls that are run now."""
        return recording_of(self._person)

    @property
    def answered_from(self) -> object | None:
        """The recording that gave the last answer."""
        return answered_from(self._person)

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Ask; raises the exceptions of the person's own `ask`."""
        started = time.monotonic()
        try:
            with self.guard.paused(), output.capture_paused():
                if isinstance(form, ApprovalForm):
                    is_shown = self._on_question(prompt, form)
                    form = replace(form, is_shown=is_shown is True)
                else:
                    self._on_question(prompt, None)
                try:
                    answer = self._person.ask(prompt, form)
                finally:
                    self._on_question("")
        except BaseException:
            self.answering = None  # the call has no answer, even if another came before
            raise
        finally:
            passed = time.monotonic() - started
            self._clock.waited += passed
        self.seconds = passed
        if is_recorded(self._person):
            self.seconds = seconds_taken(self._person)
        if not isinstance(form, ApprovalForm) and self.seconds is not None:
            self.answering = (self.answering or 0.0) + self.seconds
        return answer

    def show(self, form: ApprovalForm) -> None:
        """Show the decision on a call."""
        self._on_question("", form)
        outer = getattr(self._person, "show", None)  # of the run whose tool asks an agent
        if outer is not None:
            outer(form)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A validated and approved call."""

    call: ToolCall
    tool: Tool
    bound: BoundCall
    clearance: Clearance
    capture: Capture
    called: list[str] = field(default_factory=list)  # tools called by its code
    scope: AbstractContextManager[None] = field(default_factory=nullcontext)
    is_decided: bool = True  # False if code of a model runs the agent, and nobody was asked
    # Where a large result is kept; programs and copies keep their own.
    variables: Namespace | None = None
    copy: WorkingCopy | None = None  # where its code runs

    @property
    def input(self) -> Json:
        """The input that runs: the model's, or as the person changed it."""
        if self.clearance.edit is None:
            return self.call.input
        return self.clearance.edit.input


class _Attempt:
    """Makes a call and records its ending, because an interrupt may come after any line.

    `ended` is the ending that is known; `is_promise` is whether an awaitable was returned, for
    example by a plain function that calls an async one.
    """

    def __init__(self, run: Callable[[], Any], guard: CallGuard) -> None:
        self.ended = CallEnd("interrupted", begun=False)
        self.is_promise = False
        self._run = run
        self._guard = guard

    def __call__(self) -> None:
        if self._guard.interrupts:  # before `CallGuard.run` could raise it
            return
        self.ended = CallEnd("interrupted")
        value = self._run()
        self.is_promise = inspect.isawaitable(value)  # may run code of the value's class
        self.ended = CallEnd("done", value)


class KernelExecutor:
    """Runs the calls of one run.

    Args:
        tools: The tools of the run; redefining one meanwhile does not affect it.
        namespace: Where names are looked up and large results are kept.
        approve: A policy for calls that need approval, or a callable that decides on every call;
            None asks the person.
        person: Who is asked; by default the user at the keyboard.
        on_output: Called with the printed text of a tool, in pieces, while it runs, on any thread.
            Its exceptions are raised in the tool.
        on_question: Called with the prompt and with the form of a call that waits for approval,
            or None, before a person is asked; with an empty text afterwards, and once more with
            the form when the call was decided. Returns True if it shows the form.
        on_display: Called in the same way with each display, see `Capture`.
        on_ended: Called in the same way with the outcome of a call that has ended while others
            continue. The result of one that runs concurrently is not known yet, and is ``"…"``.
        on_progress: Called with what is done with a call that does not run yet, and then with an
            empty text.
        allow: Names of tools that run without approval.
        watch: Records which variables the calls change; None records nothing.
        clock: The clock of the run; None makes one.
        source: Who asks the question of the run, and so can permit its calls.
        permitted: The permissions that were given before the run began.
        room: Maximum number of characters of data in results that is shown whole.
        keep: Assigns a variable to which code in a copy of the kernel gives a value; None assigns
            it in the namespace.
        preview: The seconds for trying a call in a copy before a person is asked about it; None
            for no preview.
        ask_before: The acts that code of the model does only after a person was asked.
        folders: The folders in which code may write, besides the working folder.
        file_bounds: How much of files is kept and looked at.
        names_answer: Whether the answer may be the name of a variable, so that results of data
            get one.

    Attributes:
        copy: Where code of the question runs, once it does in a copy; to be closed at its end.
    """

    def __init__(
        self,
        tools: Toolbox,
        namespace: Namespace,
        approve: Approve | None = None,
        person: Person | None = None,
        on_output: Callable[[str], Any] | None = None,
        on_question: Callable[..., Any] | None = None,
        *,
        on_display: Callable[[Output], Any] | None = None,
        on_ended: Callable[[CallOutcome], Any] | None = None,
        on_progress: Callable[[str], Any] = lambda _: None,
        allow: Collection[str] = (),
        watch: VariableWatch | None = None,
        clock: Clock | None = None,
        source: Source = NOTEBOOK,
        permitted: Permissions | None = None,
        room: int = ROOM,
        keep: Callable[[str, Any], None] | None = None,
        preview: float | None = None,
        ask_before: Collection[AskBefore] = (),
        folders: Collection[Path] = (),
        file_bounds: Mapping[str, int] = MappingProxyType({}),
        names_answer: bool = False,
    ) -> None:
        self._tools = tools
        parameters = chain.from_iterable(each.parameters for each in tools.values())
        # A model that runs code can pass a result on in code, but cannot answer with it.
        is_taken = names_answer or (
            any(each.type.by_reference for each in parameters)
            and not any(each.runs_code for each in tools.values())
        )
        self._shown = {"room": room, "is_taken": is_taken}
        self._namespace = namespace
        self._keep = keep or namespace.__setitem__
        self.copy: WorkingCopy | None = None
        self.clock = Clock() if clock is None else clock
        if person is None:
            person = Keyboard()
        self._person = PausingPerson(person, self.clock, on_question)
        self._approver = Approver(
            approve,
            allow,
            self._person,
            source=source,
            permitted=permitted,
            ask_before=ask_before,
            preview=None if preview is None else partial(self._previewed, preview),
        )
        self._person.approver = self._approver
        self._folders = folders
        self._file_bounds = file_bounds
        self._on_output = on_output
        self._on_display = on_display
        self._on_ended = on_ended
        self._on_progress = on_progress
        self._watch = watch
        self.scratch = Scratch(namespace)
        if watch is not None:
            watch.scratch = self.scratch.names
        self._guard = self._person.guard
        self._ends: float | None = None
        self._callers: Mapping[str, CallingProgram] = {}

    @property
    def can_ask(self) -> bool:
        """Whether a question about a call would be answered."""
        return self._person.there

    def _now(self) -> float:
        return time.monotonic() - self.clock.waited

    def _working_copy(self) -> WorkingCopy:
        return WorkingCopy(
            self._namespace,
            self._tools,
            self._approver,
            self._keep,
            stopped=lambda: self._guard.interrupts > 0,
        )

    def _previewed(self, seconds: float, tool: Tool, bound: BoundCall) -> Preview | None:
        """The effects of a call in a copy of the kernel; None if it runs in a copy anyway."""
        if runs_in_copy(tool):
            return None
        from archytas_nb.kernel.preview import preview

        started = time.monotonic()
        self._on_progress("in a copy first")  # a person who is not asked yet reads "running"
        try:
            # It is for the person, and neither a part nor an effect of the call.
            with self._guard.paused(), noted_in(None):
                return preview(
                    self._tools,
                    tool,
                    bound,
                    self._namespace,
                    seconds,
                    stopped=lambda: self._guard.interrupts > 0,
                )
        finally:
            self.clock.waited += time.monotonic() - started
            self._on_progress("")

    def with_copied(self, given: Json, *, is_answer: bool = False) -> Namespace:
        """The variables that an argument or an answer may name, with those of the copy."""
        copied = {} if self.copy is None else self.copy.named_in(given, is_answer=is_answer)
        return WithCopied(copied, self._namespace) if copied else self._namespace

    def run(
        self,
        calls: Sequence[ToolCall],
        seconds: float | None = None,
        callers: Mapping[str, CallingProgram] = MappingProxyType({}),
    ) -> tuple[CallOutcome, ...]:
        """Run calls in order.

        Args:
            calls: The calls of one reply.
            seconds: How long they may take together, not counting the time that a person takes to
                answer; None for no limit.
            callers: The programs that make them, by the ids of the calls.

        Returns:
            One outcome for each; after an interrupt the rest are ``not_run``.
        """
        outcomes: list[CallOutcome] = []
        self._callers = callers
        with guard_calls() as guard:
            self._guard = self._person.guard = guard
            self._ends = None
            if seconds is not None:
                self._ends = self._now() + seconds
            for group in self._groups(calls):
                if guard.interrupts or _is_interrupted(outcomes):
                    break
                ended = self._run_group(group)
                outcomes += ended
                if len(outcomes) < len(calls):
                    try:
                        self._tell_ended(*ended)
                    except KeyboardInterrupt:
                        outcomes.append(_not_begun(calls[len(outcomes)].id))
        if guard.interrupts and not _is_interrupted(outcomes):  # nothing has raised it
            if outcomes:
                outcomes[-1] = interrupted_late(outcomes[-1])
            elif calls:
                outcomes.append(_not_begun(calls[0].id))
        return (*outcomes, *map(_not_run, calls[len(outcomes) :]))

    def _tell_ended(self, *outcomes: CallOutcome) -> None:
        """Report that calls have ended while others continue."""
        if self._on_ended is not None:
            for outcome in outcomes:
                self._on_ended(outcome)

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Call the user's code outside a tool, such as the check of an answer.

        Args:
            work: The call.
            seconds: How long it may take, at least a second; None for no limit.

        Raises:
            KeyboardInterrupt: The user interrupted.
            ToolTimeout: It was stopped at its limit.
        """
        self._ends = None
        if seconds is not None:
            self._ends = self._now() + seconds
        with guard_calls() as guard:
            result: T = guard.run(work, self._limit(least=1.0))
        if guard.interrupts:  # too late to be raised by `run`
            raise KeyboardInterrupt
        return result

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Calls that run concurrently: consecutive ones whose tools are async."""
        for is_async, group in groupby(calls, self._is_async):
            if is_async:
                yield list(group)
            else:
                yield from ([call] for call in group)

    def _is_async(self, call: ToolCall) -> bool:
        return call.name in self._tools and self._tools[call.name].is_async

    def _run_group(self, calls: Sequence[ToolCall]) -> list[CallOutcome]:
        """The outcomes of a group; fewer than calls if one was interrupted during approval."""
        prepared: list[_Ready | CallOutcome] = []
        for call in calls:
            last = self._prepared(call)
            prepared.append(last)
            if isinstance(last, CallOutcome) and last.status == "interrupted":
                not_run = [_not_run(each.call) for each in prepared if isinstance(each, _Ready)]
                return _in_order(prepared, not_run)
        ready = [each for each in prepared if isinstance(each, _Ready)]
        if not ready:
            return _in_order(prepared, [])
        return _in_order(prepared, self._run_in_turn(ready))

    def _run_in_turn(self, ready: Sequence[_Ready]) -> list[CallOutcome]:
        """Run calls when no call of another agent uses the variables."""
        watch = self._watch
        guard = self._guard
        limit = self._limit()
        seconds = None
        if limit is not None:
            seconds = min(limit.seconds, turns.SECONDS)
        with turn(
            self._namespace,
            alone=watch is not None,
            interrupted=lambda: guard.interrupts > 0,
            seconds=seconds,
        ) as is_ours:
            if guard.interrupts and not is_ours:
                return [_not_run(each.call) for each in ready]
            if not is_ours:
                refused = CallOutcome(
                    "refused", f"{_NOT_IN_TURN} Try again.", for_person=_NOT_IN_TURN
                )
                return [replace(refused, call_id=each.call.id) for each in ready]
            changed = [_changed(each) for each in ready]
            unchanged = [each for each, why in zip(ready, changed, strict=True) if why is None]
            outcomes = iter(self._run_watched(unchanged) if unchanged else ())
            return [next(outcomes) if why is None else why for why in changed]

    def _run_watched(self, ready: Sequence[_Ready]) -> list[CallOutcome]:
        """Run calls and record their changes."""
        watch = self._watch
        if watch is None:
            return self._run_ready(ready)
        watched = [(each.tool, each.bound, each.input) for each in ready]
        return watch.run(watched, partial(self._run_ready, ready), self._guard)

    def _limit(
        self, tool: Tool | None = None, spent: float = 0.0, least: float = 0.001
    ) -> TimeLimit | None:
        """How long something may take: the rest of the run's time or of the tool's own timeout.

        Args:
            tool: The tool whose call it is part of.
            spent: Seconds that the call has taken already.
            least: Seconds that it may take in any case.
        """
        limits = []
        if self._ends is not None:
            left = max(self._ends - self._now(), 0.0)
            limits.append((left, left + spent, "what was left of this run's time"))
        if tool is not None and tool.timeout is not None:
            limits.append((tool.timeout - spent, tool.timeout, "this tool's timeout"))
        if not limits:
            return None
        rest, whole, source = min(limits)
        return TimeLimit(max(rest, least), whole, source)

    # ── before ────────────────────────────────────────────────────────────────────────────────────

    def _prepared(self, call: ToolCall) -> _Ready | CallOutcome:
        """Validate a call and get it approved, both within the time limit of the run.

        This runs the user's validators and the ``__repr__`` of their objects.
        """
        limit = self._limit(least=1.0)
        try:
            ready: _Ready | CallOutcome = self._guard.run(partial(self._checked, call), limit)
        except KeyboardInterrupt:
            return _not_begun(call.id)
        except ToolTimeout:
            text = "Not run: its arguments could not be read in the time that was left of this run."
            return CallOutcome("not_run", text, call_id=call.id)
        return ready

    def _checked(self, call: ToolCall) -> _Ready | CallOutcome:
        try:
            tool = self._tools[call.name]
        except UnknownToolError as error:
            return CallOutcome(
                "error",
                str(error),
                error=error,
                input_fault=InputFault(),
                call_id=call.id,
                for_person=f"no tool has this name{error.guess}",
            )
        caller = self._callers.get(call.id, CallingProgram())
        variables = self._namespace if self.copy is None else self.with_copied(call.input)
        bound = tool.bind(caller.with_objects(call.input, call.input), variables)
        if isinstance(bound, CallOutcome):
            return replace(bound, call_id=call.id)
        if self._ends is not None and self._now() >= self._ends:
            text = "Not run: the time of this run is over."
            return CallOutcome("not_run", text, call_id=call.id)
        clearance: Clearance = self._approver.decide(
            tool,
            call,
            bound,
            self._namespace,
            caller=caller,
        )
        if clearance.form is not None:
            self._person.show(clearance.form)
        if clearance.stops:
            return CallOutcome(
                "interrupted",
                "Not run: the user stopped the run here.",
                call_id=call.id,
                decision=clearance.decision,
                for_person="Not run: you stopped the run here.",
            )
        if clearance.bound is None:
            return CallOutcome(
                "refused",
                clearance.refusal,
                call_id=call.id,
                for_person=clearance.for_person,
                decision=clearance.decision,
                edit=clearance.edit,
            )
        capture = Capture(self._on_output, self._on_display)
        ready = _Ready(call, tool, clearance.bound, clearance, capture)
        if clearance.form is None and is_of_code():
            ready = replace(ready, is_decided=False)
        if tool.runs_code:
            return self._with_code(ready, caller)
        if caller.program:
            return ready
        return replace(ready, variables=self._namespace)

    def _with_code(self, ready: _Ready, caller: CallingProgram) -> _Ready:
        """A call that runs code, in its place: a copy, or the kernel, where tools have doors."""
        if runs_in_copy(ready.tool):
            if self.copy is None:
                self.copy = self._working_copy()
            return replace(ready, copy=self.copy)
        if not caller.program:
            ready = replace(ready, variables=self._namespace)
        scope = guard_tools(
            self._tools, self._approver, self._namespace, ready.called, _code_of(ready.bound)
        )
        return replace(ready, scope=scope)

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def _run_ready(self, ready: Sequence[_Ready]) -> list[CallOutcome]:
        """Run async calls concurrently, or a single call on this thread."""
        # Several calls run in threads or tasks that share the streams: text that belongs to none of
        # them for certain is shown once, after all.
        shared = Capture(self._on_output, self._on_display)
        self._person.answering = None
        if len(ready) == 1:
            shared = ready[0].capture
        ledger = self._ledger(ready[0])
        with (
            output.capturing([each.capture for each in ready], shared),
            watched(ledger),
            ready[0].scope,
        ):
            figures = output.open_figures()
            runs_code = ready[0].tool.runs_code
            wide = output.wide_tables() if runs_code else nullcontext()
            if runs_code and ready[0].copy is None:
                self._note_scratch(ready[0].bound)
            tell = partial(shared.write, "stderr")
            with wide, kept(self._namespace, tell, runs_code=runs_code):
                if ready[0].tool.is_async:
                    ends = self._await([(each, each.bound.run, 0.0) for each in ready])
                else:
                    ends = [self._run_here(ready[0])]
            outcomes = list(map(self._rendered, ready, ends))
            outcomes = list(map(self._displayed, outcomes))
            with _captured(shared):
                output.take_figures(figures, shared, [outcome.value for outcome in outcomes])
        outcomes = list(map(_with_output, outcomes, ready))
        outside = _outside(ledger.effects) if runs_code and ready[0].copy is None else ""
        # The ledger cannot tell which of the calls did what: the last outcome reports for all.
        outcomes[-1] = replace(outcomes[-1], effects=ledger.effects, outside=outside)
        for each, outcome in zip(ready, outcomes, strict=True):
            if self.copy is not None and each.copy is None:
                is_unchanged = self._watch is not None and not outcome.diff
                self.copy.note_call(each.tool, is_unchanged=is_unchanged)
        if len(ready) == 1:
            if self._person.answering is not None and not ready[0].clearance.decision:
                return [replace(outcomes[0], person_seconds=self._person.answering)]
            return outcomes
        return _with_shared(outcomes, shared)

    def _ledger(self, ready: _Ready) -> Ledger:
        """The ledger for a call; it asks before some acts of a model's code."""
        bounds = self._file_bounds
        kept_files.max_file = bounds.get("file", MAX_FILE)
        kept_files.max_all = bounds.get("all", MAX_ALL)
        folders = (*working_folder(), *self._folders)
        entries = bounds.get("entries", MAX_ENTRIES)
        if not ready.tool.runs_code or ready.copy is not None:
            return Ledger(kept_files, *folders, entries=entries, looks_later=True)
        asks_before = self._approver.asks_before
        ask: Ask | None = None
        if asks_before:
            from archytas_nb.kernel import before

            ask = before.ask
        return Ledger(
            kept_files,
            *folders,
            ask=ask,
            asks_before=asks_before,
            entries=entries,
            text=_code_of(ready.bound),
        )

    def _note_scratch(self, bound: BoundCall) -> None:
        """Note the scratch names in the code of a call."""
        for given in (*bound.args, *bound.kwargs.values()):
            if isinstance(given, str):
                self.scratch.note(given)

    def _run_here(self, ready: _Ready) -> CallEnd:
        """Run a call on this thread."""
        limit = self._limit(ready.tool)
        run = ready.bound.run
        if ready.is_decided and not ready.tool.runs_code:
            run = partial(run_as_tool, run)
        attempt = _Attempt(run, self._guard)
        started = time.perf_counter()
        with self._waits_watched(), self._in_call(ready):
            try:
                self._guard.run(attempt, limit)
            except KeyboardInterrupt:
                pass  # the attempt knows whether the call had begun, or even ended
            except BaseException as error:  # noqa: BLE001 - a tool may raise anything
                attempt.ended = CallEnd("error", error=error)
        ended = replace(attempt.ended, seconds=time.perf_counter() - started)

        if attempt.is_promise and ended.how == "done":
            return self._await_promise(ready, ended)
        if limit is not None and self._guard.expired:
            return _expired(ended, limit)
        return ended

    def _waits_watched(self) -> AbstractContextManager[None]:
        """End waits for what only the loop of this thread can do, where one is running."""
        if "asyncio" not in sys.modules:
            return nullcontext()
        from archytas_nb.kernel.background import waits_watched

        return waits_watched(self._guard)

    def _await_promise(self, ready: _Ready, returned: CallEnd) -> CallEnd:
        """Await what a plain function returned; its time counts, too."""
        [ended] = self._await([(ready, lambda: returned.value, returned.seconds)])
        return replace(ended, seconds=returned.seconds + ended.seconds, is_awaited=True)

    def _await(self, starts: Sequence[tuple[_Ready, Callable[[], Any], float]]) -> list[CallEnd]:
        """Await calls concurrently; each is given with the seconds that it has taken already."""

        async def job(ready: _Ready, start: Callable[[], Any]) -> Any:
            status: Status = "error"
            try:
                with self._in_call(ready):
                    value = await start()
                status = "done"
            finally:
                if len(starts) > 1:
                    self._tell_ended(CallOutcome(status, "…", call_id=ready.call.id))
            return value

        jobs = [
            (partial(job, ready, start), self._limit(ready.tool, spent))
            for ready, start, spent in starts
        ]
        from archytas_nb.kernel.background import run_jobs  # loads asyncio

        return run_jobs(jobs, lambda: self._guard.interrupts > 0)

    def _rendered(self, ready: _Ready, ended: CallEnd) -> CallOutcome:
        """Render a result within its time limit: the user's ``__repr__`` runs here."""
        limit = self._limit(ready.tool, ended.seconds, least=_SECONDS_TO_RENDER)
        with self._in_call(ready):
            try:
                render = partial(_outcome, ended, ready.tool, ready.variables, self._shown)
                outcome: CallOutcome = self._guard.run(render, limit)
            except ToolTimeout as error:  # that of a `ThreadTimer` has no text
                return _not_rendered(ended, str(error) or f"stopped after {limit}")
            except KeyboardInterrupt:
                late = replace(ended, how="interrupted")
                return _outcome(late, ready.tool, ready.variables, self._shown)
            return outcome

    def _displayed(self, outcome: CallOutcome) -> CallOutcome:
        """Add the display of the value as in a cell; the outcome is kept if that fails."""
        if outcome.status != "done" or outcome.images:  # which are shown
            return outcome
        limit = self._limit(least=_SECONDS_TO_RENDER)
        try:
            displays = self._guard.run(partial(output.displays_of, outcome.value), limit)
        except KeyboardInterrupt:
            return interrupted_late(outcome)
        except Exception:  # noqa: BLE001 - a library may fail to display its own object, or be slow
            return outcome
        return replace(outcome, displays=displays)

    @contextmanager
    def _in_call(self, ready: _Ready) -> Iterator[None]:
        """Assign output and questions in the block, and what it starts, to a call."""
        is_tool = ready.is_decided and not ready.tool.runs_code
        started_by = as_tool() if is_tool else nullcontext()
        person = current_person.set(self._person)
        copy = working.set(ready.copy)
        try:
            with started_by, _captured(ready.capture):
                yield
        finally:
            working.reset(copy)
            current_person.reset(person)


def _code_of(bound: BoundCall) -> str:
    """The code that a call runs."""
    given = (*bound.args, *bound.kwargs.values())
    return "\n".join(each for each in given if isinstance(each, str))


def _outside(effects: Sequence[Effect]) -> str:
    """The lines for the model about effects outside of the variables; empty if there are none."""
    if not effects:
        return ""
    found = told(effects)
    lines = [
        truncate_line(f"{each.name}: {', '.join([each.kind, *each.details])}", _MAX_EFFECT)
        for each in found[:_MAX_EFFECTS]
    ]
    if len(found) > _MAX_EFFECTS:
        lines.append(f"… {len(found) - _MAX_EFFECTS:,} more")
    return "\n".join(["Outside of the variables:", *lines])


@contextmanager
def _captured(capture: Capture) -> Iterator[None]:
    """Assign output in the block to a capture."""
    captured = output.current_capture.set(capture)
    try:
        yield
    finally:
        output.current_capture.reset(captured)


# ── outcomes ──────────────────────────────────────────────────────────────────────────────────────


def _is_interrupted(outcomes: Sequence[CallOutcome]) -> bool:
    """Whether a call was interrupted: by a signal, at a prompt, or by its own exception."""
    return any(outcome.status == "interrupted" for outcome in outcomes)


def _in_order(
    prepared: Sequence[_Ready | CallOutcome], outcomes: Sequence[CallOutcome]
) -> list[CallOutcome]:
    """The outcomes of a group, with these in the places of the calls that were ready."""
    remaining = iter(outcomes)
    ordered = []
    for each in prepared:
        if isinstance(each, _Ready):
            ordered.append(next(remaining))
        else:
            ordered.append(each)
    return ordered


def _changed(ready: _Ready) -> CallOutcome | None:
    """The outcome of a call that differs from the approved one by now; None if it is the same."""
    seen = ready.clearance.seen
    changed = "" if seen is None else seen.changed(ready.tool, ready.bound)
    if not changed:
        return None
    text = f"Not run: {changed} after the call was approved. Send it again to ask again."
    return CallOutcome("refused", text, call_id=ready.call.id, decision=ready.clearance.decision)


def _not_run(call: ToolCall) -> CallOutcome:
    return CallOutcome(
        "not_run",
        "Not run: the user interrupted before.",
        call_id=call.id,
        for_person="Not run: you interrupted before.",
    )


def _not_begun(call_id: str = "") -> CallOutcome:
    return CallOutcome("interrupted", _NOT_BEGUN, call_id=call_id, for_person=_YOU_INTERRUPTED)


def interrupted_late(outcome: CallOutcome) -> CallOutcome:
    """The outcome of a call that ended normally although the user had interrupted."""
    end = ""
    shown_end = ""
    if outcome.status in ("done", "error"):
        end = f" It ended normally: {outcome.result}"
        shown_end = f" It ended normally: {outcome.for_person or outcome.result}"
    return replace(
        outcome,
        status="interrupted",
        result=_INTERRUPTED + end,
        value=None,
        for_person=_YOU_INTERRUPTED_IT + shown_end,
    )


def _expired(ended: CallEnd, limit: TimeLimit) -> CallEnd:
    """The ending of a call that reached its time limit: it stopped or continued."""
    if isinstance(ended.error, ToolTimeout):
        text = f"stopped after {limit}"
        if ended.seconds > limit.seconds * 1.5 + 0.5:
            text = f"ignored the limit of {limit}, and stopped only after {ended.seconds:.3g} s"
        return replace(ended, error=ToolTimeout(text).with_traceback(ended.error.__traceback__))
    if ended.how != "done":
        return ended
    error = ToolTimeout(f"ignored the limit of {limit}, and finished")
    return CallEnd("error", error=error, seconds=ended.seconds)


def _outcome(
    ended: CallEnd, tool: Tool, namespace: Namespace | None, shown: Mapping[str, Any]
) -> CallOutcome:
    """Render the result or exception of a call, shown as `Tool.outcome` says."""
    if ended.how == "done":
        outcome = tool.outcome(ended.value, namespace, seconds=ended.seconds, **shown)
        if ended.is_awaited:
            outcome = replace(outcome, unwrapped="awaited")
        return outcome
    if not ended.begun:
        return _not_begun()
    if ended.how == "interrupted" or ended.error is None:
        rest = " It did not stop, and is still running." if ended.running else ""
        return CallOutcome(
            "interrupted",
            _INTERRUPTED + rest,
            seconds=ended.seconds,
            for_person=_YOU_INTERRUPTED_IT + rest,
        )
    if isinstance(ended.error, NobodyThereError):
        return CallOutcome("refused", str(ended.error), error=ended.error, seconds=ended.seconds)
    remember(ended.error)
    return tool.failure(ended.error, seconds=ended.seconds)


def _not_rendered(ended: CallEnd, why: str) -> CallOutcome:
    """The outcome of a call whose result or error took too long to render."""
    status: Status = "done"
    what = f"It returned a value of type {type_name(ended.value)!r}"
    if ended.error is not None:
        status = "error"
        what = f"It raised {type_name(ended.error)}"
    text = f"{what}, which could not be shown: {why}."
    return CallOutcome(status, text, value=ended.value, error=ended.error, seconds=ended.seconds)


def _with_output(outcome: CallOutcome, ready: _Ready) -> CallOutcome:
    """Add the output: the user sees all of it, the model what fits next to the result."""
    for given in (*ready.bound.args, *ready.bound.kwargs.values()):
        if isinstance(given, CurrentRun):
            outcome = _with_run(outcome, given)
    outputs = ready.capture.outputs()
    if outputs:
        room = (ready.tool.max_chars or MAX_RESULT_CHARS) - len(outcome.text) - _RETURNED
        outcome = replace(
            outcome,
            outputs=outputs,
            printed=truncate_middle(ready.capture.text(), max(room, 0)),
            drawn=sum(map(is_image, outputs)),
            images=_distinct(outcome.images, ready.capture),
        )
    if ready.copy is not None:
        outcome = ready.copy.completed(outcome)
    return replace(
        outcome,
        call_id=ready.call.id,
        decision=ready.clearance.decision,
        allowed=ready.clearance.allowed,
        edit=ready.clearance.edit,
        called=(*outcome.called, *ready.called),
    )


def _with_run(outcome: CallOutcome, current: CurrentRun) -> CallOutcome:
    """Add the acts of the function on its run."""
    finish = current.end()
    if outcome.status != "done":
        finish = None
    return replace(
        outcome,
        finish=finish,
        said=current.said,
        runs=tuple(current.runs),
        offers=tuple(current.offers),
    )


def _with_shared(outcomes: Sequence[CallOutcome], shared: Capture) -> list[CallOutcome]:
    """Add output that cannot be assigned to one of the calls to the last outcome."""
    outputs = shared.outputs()
    if not outputs:
        return list(outcomes)
    *others, last = outcomes
    while_running = f"Shown while these {len(outcomes)} calls ran, by one of them:\n"
    last = replace(
        last,
        shared=while_running + shared.text(),
        drawn=last.drawn + sum(map(is_image, outputs)),
        outputs=(*last.outputs, *outputs),
        images=_distinct(last.images, shared),
    )
    return [*others, last]


def _distinct(images: Sequence[str], capture: Capture) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*images, *capture.images())))[:MAX_IMAGES]


def remember(error: BaseException) -> None:
    """Remove our frames from the traceback, so that ``%debug`` stops in the tool."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    if traceback is not None:
        error.__traceback__ = traceback
    sys.last_type = type(error)
    sys.last_value = error
    sys.last_traceback = error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    handler: Any = getattr(current_shell(), "InteractiveTB", None)
    if handler is not None:  # IPython prefers the last traceback that it showed
        handler.tb = error.__traceback__
