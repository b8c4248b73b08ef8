"""Programs over all objects of the notebook: they run in a copy of it, statement by statement.

It takes the place of a `Session` where the sandbox cannot compute with the variables of a question.

| state   | meaning                                   | left by                             |
|---------|-------------------------------------------|-------------------------------------|
| idle    | no program runs; there may be no copy     | `run` → running, `close` → closed   |
| running | a thread runs statements in the copy      | a call → waiting, the end → idle    |
| waiting | the program waits for the call it made    | `resume` → running, `stop` → idle   |
| closed  | only the texts of what ran are kept       | (a new session of the `Ran`)        |

A statement that fails is examined in the copy: where only one meaning is possible, it is cured and
runs again. The statements that succeeded before it stay, and the next part continues after them.
"""

from __future__ import annotations

import ast
import math
import queue
import re
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.copies import examine  # the copy finds it imported
from archytas_nb.copies.cure import Cure
from archytas_nb.copies.cures import answers_of_loop
from archytas_nb.copies.libraries import ALIASES, import_of
from archytas_nb.copies.place import Copy, CopyError, Failure, Statement
from archytas_nb.copies.unfolded import unfolded
from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    Json,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramReply,
    ProgramWaits,
)
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.inputs import as_input, call_of
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.syntax.program import (
    PROGRAM_ANSWER,
    PROGRAM_ENDINGS,
    PROGRAM_GIVE_UP,
    PROGRAM_SHOW,
    receivers,
)
from archytas_nb.tools.declaration import by_python_name
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.words import collapse_whitespace, truncate_line

_MAX_CURES = 6  # of one statement
_MAX_SHOWN = 40  # texts
_MAX_LINE = 500  # characters of one of them
_MAX_ERROR = 240  # characters of the message of an error
_MAX_RENDERED = 2_000  # characters of an object in an answer
_WAIT = 0.2  # seconds of one wait: an interrupt is raised between two
_QUIET = "__import__('warnings').simplefilter('ignore')"  # nobody reads them there
_RESULT = "_unpacked"  # the variable of a result before it is unpacked
_PATIENCE = 5.0  # seconds until a thread whose copy was ended is abandoned


@dataclass(frozen=True, slots=True)
class Ran:
    """The code that the programs of a question ran, to run again for the next question.

    Attributes:
        text: The statements, without calls of tools.
        variables: The names of the notebook's variables that they may have changed.
    """

    text: str
    variables: tuple[str, ...] = ()

    def for_program(self, tree: ast.Module) -> str:
        """The code to run before a program that names variables of these; empty if it names none.

        What they changed of the notebook's variables is as it is there again.
        """
        bindings = Bindings(parsed(self.text))
        named = {each.name for each in Bindings(tree).uses if each.act == "read"}
        if not named & {*bindings.bound_in_order} - {*self.variables}:
            return ""
        used = {each.name for each in bindings.uses}
        own = [each for each in self.variables if each in used]
        aside = [
            f"_own_{each} = {each}; {each} = __import__('copy').deepcopy({each})" for each in own
        ]
        back = [f"{each} = _own_{each}; del _own_{each}" for each in own]
        return "\n".join([*aside, self.text, *back])


@dataclass(frozen=True, slots=True)
class _Lack:
    """A statement that ran and gave a number without a value.

    It is a fault only where something after it fails, or the answer rests on it.

    Attributes:
        fault: The statement, and which number.
        hints: Descriptions of its variables.
        sound: The code before the statement that made the data; None if that is not known.
        place: How many statements of the program ran before it.
    """

    fault: Fault
    hints: tuple[str, ...]
    sound: str | None
    place: int


@dataclass(slots=True)
class _Progress:
    """One program while it runs."""

    text: str
    changed: str = ""  # what was changed in it before it ran
    may_lack: bool = False
    ran: list[str] = field(default_factory=list)
    cures: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    figures: list[bytes] = field(default_factory=list)
    answer: Json = None
    given: tuple[Any, ...] = ()
    has_answer: bool = False
    gave_up: str | None = None
    error: Fault | None = None
    hints: tuple[str, ...] = ()
    sound: str | None = None
    empty: list[str] = field(default_factory=list)  # variables with no rows
    left_out: list[str] = field(default_factory=list)  # which rows, in words
    odd: list[str] = field(default_factory=list)  # what is odd about statements, in words
    computed: dict[str, Json] = field(default_factory=dict)  # what is short of what it assigned
    lost: str = ""
    line: int = 1  # of the statement that runs
    lack: _Lack | None = None  # the first one
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the call

    @property
    def is_over(self) -> bool:
        return self.has_answer or self.gave_up is not None

    def ended(self, *, interrupted: bool = False) -> ProgramEnded:
        return ProgramEnded(
            shown=tuple(self.shown[:_MAX_SHOWN]),
            answer=self.answer,
            has_answer=self.has_answer,
            gave_up=self.gave_up,
            error=self.error,
            interrupted=interrupted,
            lost=self.lost,
            given=self.given,
            ran="\n".join(self.ran),
            cures=tuple(self.cures),
            figures=tuple(b64encode(each).decode() for each in self.figures),
            hints=self.hints,
            sound=self.sound,
            doubts=tuple(
                dict.fromkeys(
                    (*self.left_out, *self.odd, *(f"{each} has no rows" for each in self.empty))
                )
            ),
            computed=dict(self.computed),
            fields=self.fields,
        )


class CopySession:
    """The programs of one question, in a copy of the notebook.

    Args:
        tools: The tools of the run, by name; they are functions in the programs.
        namespace: The notebook's variables; nothing is written into it.
        tables: The names of the tables that the question is about.
        folder: The folder that the programs may read.
        before: The code of the programs of the question before; None for the first.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        namespace: Mapping[str, Any],
        tables: Sequence[str],
        folder: Path,
        before: Ran | None = None,
    ) -> None:
        self._tools = by_python_name(tools.values())
        self._namespace = namespace
        self._tables = tuple(tables)
        self._folder = folder
        self._before = before
        self._handles = Handles(namespace)
        self._copy: Copy | None = None
        self._thread: threading.Thread | None = None
        self._events: queue.SimpleQueue[ProgramReply | BaseException] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Sequence[CallOutcome]] = queue.SimpleQueue()
        self._is_stopping = False
        self._program = _Progress("")
        self._kept: list[str] = []  # what ran in this copy
        self._called: set[int] = set()  # the places of those that called a tool

    # ── what a run asks for ───────────────────────────────────────────────────────────────────────

    def run(
        self,
        text: str,
        is_part: bool = False,  # noqa: FBT001, FBT002
        *,
        may_lack: bool = False,
    ) -> ProgramReply:
        """Run a program until it waits for a call, or ends.

        Args:
            text: The program.
            is_part: Whether it continues after the statements that ran before; otherwise it begins
                in a new copy.
            may_lack: Whether an answer counts although a part of it is missing, since a statement
                fails or gives nothing.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        changed = None
        try:
            tree = parsed(text)
            changed = unfolded(tree)
            if changed is not None:
                text = changed[0]
                tree = parsed(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return ProgramFaults((_syntax_fault(error, text),))
        because = changed[1] if changed else ""
        self._program = _Progress(text, changed=because, may_lack=may_lack)
        if self._copy is None or not is_part:
            try:
                self._begin(tree)
            except CopyError as error:
                self._program.lost = str(error)
                return self._program.ended()
        self._thread = threading.Thread(
            target=self._work, args=(tree,), name="archytas_nb copy", daemon=True
        )
        self._thread.start()
        return self._next()

    def resume(self, outcomes: Sequence[CallOutcome]) -> ProgramReply:
        """Continue with the outcome of the call that it waits for.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        self._replies.put(outcomes)
        return self._next()

    def stop(self) -> ProgramEnded:
        """End the program after an interrupt or when its time is over."""
        self._is_stopping = True
        self._drop_copy()
        self._replies.put(())
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        self._is_stopping = False
        self._events = queue.SimpleQueue()
        self._replies = queue.SimpleQueue()
        return self._program.ended(interrupted=True)

    def close(self) -> Ran:
        """End the copy; keep what ran in it."""
        if self._thread is not None and self._thread.is_alive():
            self.stop()
        self._drop_copy()
        again = (each for at, each in enumerate(self._kept) if at not in self._called)
        return Ran("\n".join(again), self._tables)

    def _next(self) -> ProgramReply:
        """The next report of the thread."""
        while True:
            try:
                event = self._events.get(timeout=_WAIT)
            except queue.Empty:
                continue
            if isinstance(event, BaseException):
                raise event
            return event

    # ── the copy ──────────────────────────────────────────────────────────────────────────────────

    def _begin(self, tree: ast.Module) -> None:
        """Make a new copy for a program, in which nothing of it has run."""
        self._drop_copy()
        self._kept = []
        self._called = set()
        self._copy = self._made(tree)

    def _made(self, tree: ast.Module) -> Copy:
        """A new copy for a program, with the variables of the programs of the question before."""
        copy = Copy(
            self._namespace,
            folder=self._folder,
            call=self._call,
            tools=(*self._tools, *PROGRAM_ENDINGS),
            stopped=lambda: self._is_stopping,
        )
        named = f"0 if True else ({', '.join(self._tables)},)"  # so that the copy has them
        copy.run(f"{_QUIET}\n{named}")
        if self._before is not None and (again := self._before.for_program(tree)):
            copy.run(again)
        return copy

    def _drop_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    # ── on the thread ─────────────────────────────────────────────────────────────────────────────

    def _work(self, tree: ast.Module) -> None:
        try:
            try:
                self._run_statements(tree)
                self._look_for_lack()
                self._take_figures()
            except CopyError as error:  # no copy can be made in the place of one that has ended
                self._program.lost = str(error)
            self._events.put(self._program.ended())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._events.put(error)

    def _run_statements(self, tree: ast.Module) -> None:
        """Run the statements one by one, until one fails or the program has ended."""
        program = self._program
        lines = program.text.splitlines()
        for statement in tree.body:
            program.line = statement.lineno
            source = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
            if ";" in source:  # one line may have several statements
                source = ast.unparse(statement)
            all_answers = answers_of_loop(statement)
            if all_answers is not None:
                program.cures.append(all_answers.why)
                sources = _statements(all_answers.source)
                sources[0] = _commented(sources[0], (), [all_answers.why])
            else:
                sources = [source]
            for each in sources:
                self._run_one(parsed(each).body[0], each)
                if program.is_over or program.error or program.lost or self._is_stopping:
                    return

    def _run_one(self, statement: ast.stmt, source: str) -> None:
        """Run one statement, with its imports before it, and cured where it fails."""
        program = self._program
        if program.lack is not None and Bindings(statement).read & set(self._tools):
            self._fail_with_lack(program.lack)
            return
        for line in self._imports(statement):
            self._execute(line)
            self._keep(line)
        comments = [program.changed] if program.changed and not program.ran else []
        before: list[str] = []  # the statements that cures have put before it
        while True:
            ran = None
            hints: tuple[str, ...] = ()
            # A statement that is still odd after many cures runs as it is.
            cure = self._cure_before(source) if len(comments) < _MAX_CURES else None
            if cure is None:
                ran = self._execute_unpacking(source)
                if ran is None:  # the copy was lost
                    return
                if ran.error is None or program.is_over:
                    break
                cure, hints = self._examined(source)
            if cure is None or len(comments) == _MAX_CURES:
                if not self._runs_without_missing(source, before, comments):
                    self._fail(source, None if ran is None else ran.error, hints)
                return
            comments.append(cure.why)
            *first, source = _statements(cure.source)
            before += first
            for each in first:
                self._execute(each)
        self._end_statement(source, before, comments)

    def _end_statement(self, source: str, before: Sequence[str], comments: Sequence[str]) -> None:
        """Keep a statement that ran, and note if it has no value."""
        program = self._program
        is_new = not program.is_over and program.lack is None
        if is_new and (why := self._lacks_value(source)):
            if self._runs_without_missing(source, before, comments):
                return
            fault = Fault(program.line, source, f"ValueError: {why}", "ValueError")
            hints, sound = self._hints_about(source), self._before_unfit(source)
            program.lack = _Lack(fault, hints, sound, len(program.ran))
        program.cures += comments
        self._keep(_commented(source, before, comments))

    def _runs_without_missing(
        self, source: str, before: Sequence[str], comments: Sequence[str]
    ) -> bool:
        """Whether the program has run again without the rows whose values a statement misses.

        It runs in a copy of its own, which takes the place of the other one if nothing fails there.
        What calls a tool is not run again.
        """
        names = {use.name for use in Bindings(parsed(source)).uses}
        if names & set(self._tools) or any(each < len(self._kept) for each in self._called):
            return False
        source = _commented(source, before, comments)
        found = examine.asked(self._copy, "without_missing", self._kept, source)
        if not found:
            return False
        statements, why = found
        program = self._program
        shown = len(program.shown)
        other = self._copy
        self._copy = None
        try:
            self._copy = self._made(parsed("\n".join(statements)))
            is_sound = self._run_again(statements)
        except CopyError:
            is_sound = False
        if not is_sound:
            self._drop_copy()
            self._copy = other
            program.lost = ""
            del program.shown[shown:]
            return False
        if other is not None:
            other.close()
        program.ran = statements[len(self._kept) - len(program.ran) :]
        program.cures += [*comments, why]
        program.left_out.append(why)
        self._kept = statements
        return True

    def _run_again(self, statements: Sequence[str]) -> bool:
        """Whether all statements run in a new copy, and the numbers of the last have values."""
        for each in statements:
            ran = self._execute(each)
            if self._program.is_over:
                return True
            if ran is None or ran.error is not None:
                return False
        return not self._lacks_value(statements[-1])

    def _take_figures(self) -> None:
        """Take the figures that are open at the end of the program."""
        if self._copy is not None and not self._program.lost:
            self._program.figures += self._copy.run("0", keep=False).figures

    def _keep(self, source: str) -> None:
        self._kept.append(source)
        self._program.ran.append(source)

    def _imports(self, statement: ast.stmt) -> list[str]:
        """The imports of the libraries that it knows by their short names and nobody imported."""
        names = {use.name for use in Bindings(statement).uses if use.act == "read"}
        wanted = [name for name in ALIASES if name in names]
        if not wanted or any(isinstance(each, ast.Import) for each in [statement]):
            return []
        there = examine.asked(self._copy, "defined", wanted) or []
        lines = (import_of(name) for name in wanted if name not in there)
        return [line for line in lines if line is not None]

    def _execute(self, source: str) -> Statement | None:
        """Run a statement in the copy: the one that failed, or the last; None if it is lost."""
        if self._copy is None:
            return None
        report = self._copy.run(source, is_part=True)
        program = self._program
        for each in report.statements:
            program.shown += [truncate_line(line, _MAX_LINE) for line in each.printed.splitlines()]
            if each.status == "ok" and each.value is not None:
                program.shown.append(collapse_whitespace(each.value.text, _MAX_LINE))
        program.figures += report.figures
        if report.ended is not None and not program.is_over:
            errors = [each.error.message for each in report.statements if each.error is not None]
            program.lost = errors[-1] if errors else report.ended
            return None
        failed = [each for each in report.statements if each.status == "failed"]
        return next(iter((*failed, *reversed(report.statements))), None)

    def _execute_unpacking(self, source: str) -> Statement | None:
        """As `_execute`; of a result that is unpacked, the names of its parts are noted."""
        statement = parsed(source).body[-1]
        is_one = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        if not is_one or not isinstance(statement.value, ast.Call):
            return self._execute(source)
        [target] = statement.targets
        if not isinstance(target, ast.Tuple):
            return self._execute(source)
        call = ast.unparse(statement.value)
        ran = self._execute(f"{_RESULT} = {call}")
        if ran is None or ran.error is not None or self._program.is_over:
            return ran
        if fields := examine.asked(self._copy, "fields_of", _RESULT):
            self._program.fields[call] = tuple(fields)
        return self._execute(f"{ast.unparse(target)} = {_RESULT}")

    def _cure_before(self, source: str) -> Cure | None:
        """The cure of a statement that would raise nothing; what is odd about it is noted."""
        found = examine.asked(self._copy, "before", source)
        cure, odd = found or (None, ())
        self._program.odd += odd
        return Cure(*cure) if cure else None

    def _examined(self, source: str) -> tuple[Cure | None, tuple[str, ...]]:
        """The cure of the statement that failed last, and what is known of it."""
        program = "\n".join([*self._kept, self._program.text])  # as it ran, then as it is written
        found = examine.asked(self._copy, "examined", source, program, self._tables)
        cure, hints = found or (None, ())
        return (Cure(*cure) if cure else None), tuple(hints)

    def _lacks_value(self, source: str) -> str:
        """Why a statement that ran has no value: a number that it assigned is missing."""
        names = Bindings(parsed(source)).bound_in_order
        if not names:
            return ""
        found = examine.asked(self._copy, "assigned", [*names])
        missing, empty, short = found or ((), (), {})
        self._program.empty += empty
        for name in names:  # what it was before is no longer what it is
            self._program.computed.pop(name, None)
        self._program.computed.update(short)
        if not missing:
            return ""
        why = "values are missing (use dropna before), or nothing is selected"
        return f"{', '.join(missing)} is nan: {why}"

    def _hints_about(self, source: str) -> tuple[str, ...]:
        """Descriptions of the variables of a statement."""
        found = examine.asked(self._copy, "state_of", source, self._tables)
        return tuple(found or ())

    def _fail(self, source: str, error: Failure | None, hints: Sequence[str]) -> None:
        if error is None or (self._program.may_lack and self._left_out(source, error)):
            return
        self._fail_with(source, error.type, error.message, tuple(hints))

    def _left_out(self, source: str, error: Failure) -> bool:
        """Whether a statement that fails is left out: what it would have given is missing."""
        bindings = Bindings(parsed(source))
        if PROGRAM_ANSWER in bindings.read:
            return False
        lines = [f"{name} = float('nan')" for name in bindings.bound_in_order]
        for each in lines:
            self._execute(each)
        why = truncate_line(f"left out: {source} ({error.type})", _MAX_ERROR)
        self._keep(_commented("\n".join(lines) or "pass", (), [why]))
        self._program.left_out.append(why)
        return True

    def _look_for_lack(self) -> None:
        """A number without a value is a fault if the answer rests on it, or if there is none."""
        program = self._program
        if program.lack is None or program.error is not None or program.lost:
            return
        if program.has_answer and program.may_lack:
            return
        if not program.has_answer or _rests_on(program.ran, program.lack.place):
            program.has_answer = False
            self._fail_with_lack(program.lack)

    def _fail_with_lack(self, lack: _Lack) -> None:
        program = self._program
        program.error, program.hints, program.sound = lack.fault, lack.hints, lack.sound
        after = len(program.ran) - lack.place
        del program.ran[lack.place :]
        del self._kept[len(self._kept) - after :]

    def _fail_with(self, source: str, kind: str, message: str, hints: tuple[str, ...]) -> None:
        if self._program.lack is not None:  # the error may come from it
            self._fail_with_lack(self._program.lack)
            return
        first = message.strip().splitlines()[:1]
        text = truncate_line(": ".join([kind, *first]), _MAX_ERROR)
        self._program.error = Fault(self._program.line, source, text, kind)
        self._program.hints = hints
        if kind == "ValueError":  # the call is right, and what it was given is not
            self._program.sound = self._before_unfit(source)

    def _before_unfit(self, source: str) -> str | None:
        """The code before the statement that made the unfit data of a later statement."""
        found = examine.asked(self._copy, "unfit_inputs", source, self._tables)
        names = set(found or ())
        first = None
        for place in range(len(self._kept) - 1, -1, -1):
            bindings = Bindings(parsed(self._kept[place]))
            if not names & set(bindings.bound_in_order) or _only_imports(self._kept[place]):
                continue
            names |= {use.name for use in bindings.uses if use.act == "read"} - {*self._tables}
            first = place
        return None if first is None else "\n".join(self._kept[:first])

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call(self, name: str, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
        """A call of a program: its end, or a tool, which the run calls."""
        program = self._program
        if program.is_over or self._is_stopping:
            raise RuntimeError("the program has ended")
        self._called.add(len(self._kept))  # the place that the statement will have
        if name in PROGRAM_ENDINGS:
            return self._end_with(name, [*args, *given.values()])
        call = call_of(self._tools[name], args, given, self._handles, program.line)
        return self._outcome(call)

    def _outcome(self, call: ProgramCall) -> Any:
        self._events.put(ProgramWaits((call,)))
        outcomes = self._replies.get()
        if self._is_stopping or not outcomes:
            raise RuntimeError("the program was stopped")
        [outcome] = outcomes
        if outcome.status == "done":
            return outcome.value
        if outcome.status == "error":
            raise (
                outcome.error
                if isinstance(outcome.error, Exception)
                else RuntimeError(outcome.result)
            )
        self._program.lost = outcome.text
        raise RuntimeError(outcome.text)

    def _end_with(self, name: str, values: Sequence[Any]) -> None:
        program = self._program
        if name == PROGRAM_SHOW:
            program.shown += [
                truncate_line(render(each, _MAX_RENDERED).text, _MAX_RENDERED) for each in values
            ]
            return
        if name == PROGRAM_GIVE_UP:
            program.gave_up = str(values[0]) if values else ""
            raise RuntimeError("the program has ended")
        if len(values) != 1:
            raise TypeError(f"{name}() takes one value, but {len(values)} were given")
        [value] = values
        has_some = _has_some_value(value)
        if _has_no_value(value) and not (has_some and program.may_lack):
            program.answer = value if has_some else None
            raise ValueError(
                f"{PROGRAM_ANSWER}({value!r}) has no value: it is empty, nan or infinite"
            )
        program.answer = as_input(value, _rendered)
        program.given = (value,)
        program.has_answer = True
        raise RuntimeError("the program has ended")


def _statements(source: str) -> list[str]:
    """The statements of a text, one by one."""
    return [ast.unparse(each) for each in parsed(source).body]


def _commented(source: str, before: Sequence[str], comments: Sequence[str]) -> str:
    """A statement after the ones that cures put before it, under the notes of the cures."""
    return "\n".join([*(f"# {each}" for each in comments), *before, source])


def _only_imports(source: str) -> bool:
    return all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in parsed(source).body)


def _has_no_value(value: Any) -> bool:
    """Whether an answer is missing, empty, or a number that is nan."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return True
    if isinstance(value, str):
        words = re.split(r"[\s\[\]=:,;]+", value.strip())
        return words == [""] or not {"nan", "inf", "-inf"}.isdisjoint(words)
    return False


def _has_some_value(value: Any) -> bool:
    """Whether a text in which a number is missing has another one."""
    words = re.split(r"[\s\[\]=:,;]+", value) if isinstance(value, str) else []
    return any(re.fullmatch(r"[-+]?\d[\d.]*%?", each) for each in words)


def _rests_on(statements: Sequence[str], place: int) -> bool:
    """Whether what the last statement reads was computed from what this one binds."""
    *_, last = statements
    wanted = set(Bindings(parsed(last)).read)
    for number in range(len(statements) - 2, place, -1):
        tree = parsed(statements[number])
        bindings = Bindings(tree)
        if (bindings.changed | receivers(tree)) & wanted:
            wanted = (wanted - bindings.bound) | bindings.read
    return bool(Bindings(parsed(statements[place])).bound & wanted)


def _rendered(value: Any) -> Json:
    """An object in an answer, as a person reads it."""
    return render(value, _MAX_RENDERED).text


def _syntax_fault(error: Exception, text: str) -> Fault:
    line = getattr(error, "lineno", None) or 1
    lines = text.splitlines() or [""]
    source = lines[min(line, len(lines)) - 1].strip()
    return Fault(line, source, f"{type(error).__name__}: {getattr(error, 'msg', error)}")
