"""Verifies the code of a run: runs it from the state before the run, and compares all values.

It runs in a transaction that is undone, with its changes of files, so that nothing is changed. The
files that the run wrote are restored first, and compared afterwards, like values. Databases and
other processes are not covered. Calls and acts of code that need approval are not repeated.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from archytas_nb.choices import AskBefore
from archytas_nb.code.derive import Block, Code
from archytas_nb.code.recorded import Recorded
from archytas_nb.effects.ledger import (
    Effect,
    Ledger,
    files_undone,
    joined,
    kept_files,
    noted_in,
    undo,
    watched,
    working_folder,
)
from archytas_nb.effects.states import State
from archytas_nb.hints import hinted
from archytas_nb.kernel.guard import tools_refused
from archytas_nb.kernel.output import (
    Capture,
    capturing,
    current_capture,
    open_figures,
    take_figures,
)
from archytas_nb.kernel.python import python
from archytas_nb.kernel.rehearsal import NotRehearsedError, rehearsed
from archytas_nb.loop.events import CallOutcomes, Diff, NotCovered
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.parse import parsed
from archytas_nb.tools.render import drain, is_lazy
from archytas_nb.tools.tables import table_of
from archytas_nb.tools.texts import cell_text
from archytas_nb.tools.tool import Tool, awaited
from archytas_nb.tools.variables import LiveNamespace
from archytas_nb.undo import reads
from archytas_nb.undo.fingerprint import Fingerprint, fingerprint
from archytas_nb.undo.reads import Noted, ReadTracker, Unchanging
from archytas_nb.undo.transaction import VariableWatch, transaction
from archytas_nb.words import collapse_whitespace, count

_SECONDS_IN_COPY = 60.0
_ANSWER = "the answer"
_NOTED = "__archytas_noted__"
"""The name by which code that is proved reaches what notes its calls; no variable of the user."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs from that of the run.

    Attributes:
        what: The name of the value.
        before: The value in the run.
        now: The current value.
    """

    what: str
    before: Any = field(repr=False)
    now: Any = field(repr=False)

    def __str__(self) -> str:
        return f"{self.what} was {shown(self.before)} and is {shown(self.now)}"

    @property
    def change(self) -> str:
        """The old and new value; for two tables with the same columns and rows, their cells."""
        cells = _cells_that_differ(self.before, self.now)
        return cells or f"{shown(self.before)} → now {shown(self.now)}"


_MOST_CELLS = 3
_MOST_COMPARED = 100_000


def _cells_that_differ(before: Any, now: Any) -> str:
    """The cells in which two tables differ; empty if they differ in more than cells."""
    tables = [table_of(each) for each in (before, now)]
    old, new = tables
    if old is None or new is None or old.labels != new.labels or old.size != new.size:
        return ""
    if old.size is None or old.size * old.width > _MOST_COMPARED:
        return ""
    found = []
    number = 0
    for at, (one, other) in enumerate(zip(old.records(), new.records(), strict=True)):
        label = next((str(each) for each in one.values() if isinstance(each, str)), f"row {at}")
        for name in one:
            texts = cell_text(one[name]), cell_text(other[name])
            if texts[0] != texts[1]:
                number += 1
                found.append(f"{name}[{label}] {texts[0]} → {texts[1]}")
        del found[_MOST_CELLS:]
    if not number:
        return ""
    more = f", … {number - _MOST_CELLS:,} more" if number > _MOST_CELLS else ""
    return f"{count(number, 'cell')} changed: {', '.join(found)}{more}"


@hinted
@dataclass(frozen=True, slots=True)
class Proof:
    """The comparison of the code of a run with the values of the run.

    Attributes:
        equal: How many values are equal.
        values: How many values were compared.
        differences: The values that differ.
        why: Why the code could not finish; empty if it did.
        not_compared: The values that cannot be compared, such as a figure, each with its type.
        not_covered: Effects that were not undone afterwards.
        was_run: Whether the code was run.
    """

    equal: int = 0
    values: int = 0
    differences: tuple[Difference, ...] = ()
    why: str = ""
    not_compared: tuple[str, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()
    was_run: bool = True

    @property
    def holds(self) -> bool:
        """Whether all values that were compared are equal, and there are any."""
        return not self.why and not self.differences and self.values > 0

    def __str__(self) -> str:
        equal = f"{self.equal} of {self.values} values equal"
        left = ""
        if self.not_compared:
            left = f"; not compared: {', '.join(self.not_compared)}"
        if self.holds:
            return f"verified: {equal}, no model asked{left}"
        if self.why:
            return f"not verified: {self.why}"
        if self.differences:
            return f"not verified: {equal}; {self.differences[0]}{left}"
        if left:
            return f"not verified: no value can be compared{left}"
        return "nothing to verify: the code computes no value"


@dataclass(frozen=True, slots=True)
class Gone:
    """Stands for a value of which only the description remains: the object has changed since."""

    text: str


_DELETED = Gone("deleted")
_NOT_CHANGED = Gone("not changed")


def shown(value: Any) -> str:
    """A value, or its description, on one line."""
    return value.text if isinstance(value, Gone) else reads.shown(value)


def verify(
    code: Code,
    recorded: Recorded,
    later: Sequence[VariableWatch | None] = (),
    *,
    from_now: bool = False,
) -> Proof:
    """Run code and compare its values with those of the run; everything is undone.

    Code that ran in a copy of the kernel runs in one again.

    Args:
        code: The code of the run.
        recorded: The run.
        later: The changes of the runs after it, the last one first.
        from_now: Whether to begin with the current variables, not with those before the run.
    """
    if any(made.outcome.place for made in code.verbatim):
        return _verified_in_copy(code, recorded, later, from_now=from_now)
    done = _effects_of(recorded)
    for each in done:
        kept_files.keep(Path(each.target))  # the code will write there again
    with files_undone([each.target for each in done]):
        if not from_now:
            undo(done, kept_files)
        folders = (*working_folder(), *recorded.folders)
        ledger = Ledger(kept_files, *folders, ask=_refuse, asks_before=recorded.asks_before)
        with watched(ledger):
            proof = _verified(code, recorded, later, from_now=from_now)
        return _with_files(proof, done, ledger.effects)


def _refuse(kind: AskBefore, target: str) -> NoReturn:
    """Refuse acts that a person approved when the code ran: the approval was for that time only."""
    raise PermissionError(f"{kind}: {target!r} needs your approval; run the code yourself")


def _effects_of(recorded: Recorded) -> tuple[Effect, ...]:
    """The changes of the run to files; several changes of one are joined."""
    outcomes = [
        outcome
        for event in recorded.events
        if isinstance(event, CallOutcomes)
        for outcome in event.outcomes
    ]
    every = joined(effect for each in outcomes for effect in each.effects)
    return tuple(each for each in every if each.before is not None)


def _with_files(proof: Proof, done: Sequence[Effect], now: Sequence[Effect]) -> Proof:
    """A proof in which the files that the run wrote are compared, too."""
    if not proof.was_run or proof.why:
        return proof
    found = {each.target: each.after for each in now}
    equal = 0
    differences, not_compared = [], []
    for each in done:
        before, after = each.after, found.get(each.target, each.before)
        if before is None or after is None:
            continue
        if before.is_same(after):
            equal += 1
            continue
        with noted_in(None):
            kept_files.keep(Path(each.target))
        # A library may write the same table as other bytes, such as with the time in its header.
        tables = _tables(Path(each.target).suffix, before, after)
        if tables and fingerprint(tables[0]).digest == fingerprint(tables[1]).digest:
            equal += 1
        elif None in (before.digest, after.digest) and before.what == after.what == "file":
            not_compared.append(f"{each.shown} (not kept)")
        elif not tables and has_times(kept_files.head(before)) and before.what == after.what:
            not_compared.append(f"{each.shown} (a kind of file that contains the time)")
        else:
            was, is_now = tables or (Gone(_described(before)), Gone(_described(after)))
            differences.append(Difference(f"the file {each.shown}", was, is_now))
    return replace(
        proof,
        equal=proof.equal + equal,
        values=proof.values + equal + len(differences),
        differences=(*proof.differences, *differences),
        not_compared=(*proof.not_compared, *not_compared),
    )


_MAX_TABLE = 16_000_000  # bytes of a file that is read as a table


def _tables(suffix: str, *states: State) -> tuple[Any, ...]:
    """The contents of files as tables; empty unless an imported library reads files of this kind.

    A library names such a function by the suffix, as `read_csv` and `read_parquet`.
    """
    kind = suffix.removeprefix(".")
    # Unpickling can run anything.
    if not kind or kind == "pickle" or any(each.size > _MAX_TABLE for each in states):
        return ()
    files = [kept_files.content(each) for each in states]
    for name, library in [*sys.modules.items()]:
        known = getattr(library, "__dict__", {})
        if "." in name or "DataFrame" not in known or f"read_{kind}" not in known or None in files:
            continue
        with suppress(Exception):  # the file is damaged, or is of another kind
            return tuple(known[f"read_{kind}"](each) for each in files)
    return ()


def has_times(head: bytes) -> bool:
    """Whether a file with this beginning contains its time: an archive, PDF, or database."""
    return head.startswith((b"PK", b"\x1f\x8b", b"%PDF", b"\x89HDF", b"SQLite format 3"))


def _described(state: State) -> str:
    if state.what == "file":
        return f"a file of {state.size:,} bytes with the SHA-256 {str(state.digest)[:8]}…"
    return {"missing": "deleted", "folder": "a folder"}.get(state.what, f"a {state.what}")


def _verified_in_copy(
    code: Code, recorded: Recorded, later: Sequence[VariableWatch | None], *, from_now: bool
) -> Proof:
    """The proof of code that ran in a copy, which never runs in the notebook by itself."""

    def work() -> list[Any]:
        proof = _verified(code, recorded, later, from_now=from_now)
        found = [[each.what, shown(each.before), shown(each.now)] for each in proof.differences]
        counted = [proof.equal, proof.values, proof.why, proof.was_run]
        return [*counted, list(proof.not_compared), found]

    try:
        done = rehearsed(work, recorded.namespace, _SECONDS_IN_COPY)
    except NotRehearsedError as error:
        return Proof(why=str(error), was_run=False)
    equal, values, why, was_run, not_compared, found = done.value
    differences = tuple(Difference(what, Gone(before), Gone(now)) for what, before, now in found)
    return Proof(equal, values, differences, why, tuple(not_compared), was_run=was_run)


def _verified(
    code: Code, recorded: Recorded, later: Sequence[VariableWatch | None], *, from_now: bool
) -> Proof:
    why = _reason_not_to_run(code, recorded)
    if why:
        return Proof(why=why, was_run=False)
    variables = recorded.namespace
    if not isinstance(variables, dict):
        return Proof(
            why=f"code runs in a dict of variables, and this is {type(variables)!r}", was_run=False
        )
    notes: tuple[NotCovered, ...] = ()
    other: list[str] = []
    compared = _Comparison(code, recorded, variables, from_now=from_now)
    tried = transaction(namespace=variables)
    had_builtins = "__builtins__" in variables
    try:
        with tried:
            if not from_now:
                for watch in later:
                    notes += watch.rewind() if watch is not None else ()
                notes += _rewind(code, recorded)
                other = recorded.reads.other_than_before() if recorded.reads is not None else []
            # Nothing has been changed yet if the code begins with the variables as they are.
            watched = tried if from_now else transaction(namespace=variables)
            with nullcontext() if from_now else watched:
                compared.run()
            # Changes in a copy were never changes of the notebook.
            if not any(made.outcome.place for made in code.verbatim):
                compared.note_changes(watched.diff)
            proof = compared.proof()
    finally:
        not_covered = tried.undo(force=True)
        if not had_builtins:
            variables.pop("__builtins__", None)
    proof = replace(proof, differences=compared.differences())
    why = proof.why
    has_failed = bool(proof.why or proof.differences)
    if has_failed and not from_now:
        hint = _unknown_state(recorded, notes, other)
        if hint:
            why = f"{str(proof).removeprefix('not verified: ')}; {hint}"
    return replace(proof, why=why, not_covered=not_covered)


def _reason_not_to_run(code: Code, recorded: Recorded) -> str:
    """Why the code is not run again without a person; empty if it may be."""
    tools = recorded.tools
    in_kernel = [made for made in (*code.calls, *code.verbatim) if not made.outcome.place]
    names = {made.call.name for made in in_kernel}
    approved = {each for each in names if each in tools and tools[each].may_require_approval}
    for made in code.verbatim:  # which call tools themselves; one of no agent's list needs approval
        for name in made.outcome.called:
            if name not in tools or tools[name].may_require_approval:
                approved.add(name)
    approved |= {made.call.name for made in in_kernel if made.outcome.decision}
    if approved:
        return f"{min(approved)!r} needs your approval; run the code yourself"
    return ""


def _rewind(code: Code, recorded: Recorded) -> tuple[NotCovered, ...]:
    """The variables as they were before the run."""
    notes: tuple[NotCovered, ...] = ()
    if recorded.watch is not None:
        notes = recorded.watch.rewind()
    for made in code.calls:
        name = made.outcome.stored
        if name and recorded.namespace.get(name) is made.outcome.value:
            del recorded.namespace[name]
    return notes


def _unknown_state(recorded: Recorded, notes: tuple[NotCovered, ...], other: Sequence[str]) -> str:
    """Why the variables may differ from those before the run; empty if they do not."""
    if notes:
        return f"the state before the run could not be restored: {notes[0]}"
    if other:
        changed = recorded.reads.changed_by_run if recorded.reads is not None else set()
        if not recorded.is_watched and changed.intersection(other):
            names = ", ".join(sorted(changed.intersection(other)))
            return f"the run changed {names}, which the extension did not watch or cannot restore"
        return f"{', '.join(other)} changed since"
    if not recorded.is_watched and recorded.reads is None:
        return "the extension did not watch the run's changes, so the state before it is unknown"
    return ""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A value with its content at the time: it may be restored to another one later."""

    value: Any
    text: str
    digest: Any

    @classmethod
    def of(cls, value: Any) -> _Moment:
        """The value as it is."""
        return cls(value, shown(value), None if isinstance(value, Gone) else _digest(value))

    def settled(self) -> Any:
        """The value, or only its description if it has changed since."""
        if isinstance(self.value, Gone) or _digest(self.value) == self.digest:
            return self.value
        return Gone(self.text)


def _digest(value: Any) -> Any:
    return fingerprint(value).digest


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the code that is proved, with its content at that moment."""

    tool: Tool
    value: Any
    content: Fingerprint


def _noting_calls(source: str, functions: Sequence[str]) -> str:
    """Code in which each call of a tool's function records its result.

    A function is named by its number: before Python 3.12, a quote may end the f-string around it.
    """
    edits = Edits(source)
    for node in ast.walk(parsed(source)):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            expression = ast.unparse(node)
            if expression in functions:
                edits.replace(node, f"{_NOTED}(", node, f", {functions.index(expression)})")
    return edits.applied()


class _Comparison:
    """Runs code in the namespace, and compares the values of its calls with those of the run."""

    def __init__(
        self, code: Code, recorded: Recorded, variables: dict[str, Any], *, from_now: bool
    ) -> None:
        self._code = code
        self._from_now = from_now
        self._recorded = recorded
        self._reads = recorded.reads if recorded.reads is not None else ReadTracker({}, variables)
        self._variables = variables
        self._live = LiveNamespace(variables)
        self._values: list[_Value] = []  # of the calls, in order
        self._last: list[tuple[Block, Any, Fingerprint]] = []  # of verbatim code
        self._answer: Any = None
        self._changed: set[str] = set()  # the variables that the code has changed
        self._why = ""
        self._differences: list[tuple[str, _Moment, _Moment]] = []
        self._not_compared: list[str] = []
        self._count = 0

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Run all blocks; an exception of one ends this."""
        output = Capture()
        with self._functions_there(), tools_refused(), capturing([output], output):
            token = current_capture.set(output)
            figures = open_figures()
            self._variables[_NOTED] = self._noting
            try:
                for line in self._code.imports:
                    python(line, self._live)
                for block in self._code.blocks:
                    if not block.is_assertion:  # the answer is compared
                        self._run_block(block)
            except Exception as error:  # noqa: BLE001 - code of the model and tools of the user
                self._why = (
                    f"it raised {type(error).__name__}: {collapse_whitespace(str(error), 200)}"
                )
                return
            finally:
                self._variables.pop(_NOTED, None)
                take_figures(figures, output, [])
                current_capture.reset(token)
        if self._code.answer.name:
            self._answer = self._variables.get(self._code.answer.name)

    def note_changes(self, diff: Diff) -> None:
        """Record the changes of the code."""
        self._changed = set(reads.variables_of(diff))

    def _run_block(self, block: Block) -> None:
        source = block.source
        if not block.is_verbatim:
            source = _noting_calls(source, [*self._code.tools])
        value = python(source, self._live)
        if inspect.isawaitable(value):
            value = awaited(value)
        if block.name:
            value = self._variables.get(block.name)
        if block.is_verbatim and block.has_value:
            self._last.append((block, value, fingerprint(value)))

    @contextmanager
    def _functions_there(self) -> Iterator[None]:
        """Have the functions that are not variables, but defined in a module of the user.

        Whether an answer holds does not depend on the name of a function, which may be gone.
        """
        variables = self._variables
        before = {}
        for expression, tool in self._code.tools.items():
            function = inspect.unwrap(tool.function)
            where = getattr(function, "__globals__", variables)
            is_of_module = expression not in variables and where.get(expression) is tool.function
            is_gone = expression.isidentifier() and not callable(variables.get(expression))
            if is_of_module or (self._from_now and is_gone):
                before[expression] = variables.get(expression, _DELETED)
                variables[expression] = tool.function
        try:
            yield
        finally:
            for name, value in before.items():
                if value is _DELETED:
                    variables.pop(name, None)
                else:
                    variables[name] = value

    def _noting(self, function: Callable[..., Any], number: int) -> Callable[..., Any]:
        """A function of the code that records its results."""
        tool = [*self._code.tools.values()][number]

        def noted(*args: Any, **kwargs: Any) -> Any:
            value = function(*args, **kwargs)
            if inspect.isasyncgen(value):
                return self._noted_items(tool, value)
            if inspect.isawaitable(value):
                return self._noted_later(tool, value)
            return self._noted(tool, value)

        return noted

    def _noted(self, tool: Tool, value: Any) -> Any:
        if is_lazy(value):
            value = drain(value).items
        self._values.append(_Value(tool, value, fingerprint(value)))
        return value

    async def _noted_later(self, tool: Tool, value: Awaitable[Any]) -> Any:
        return self._noted(tool, await value)

    async def _noted_items(self, tool: Tool, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        found = []
        async for each in items:
            found.append(each)
            yield each
        self._noted(tool, found)

    # ── comparing ─────────────────────────────────────────────────────────────────────────────────

    def proof(self) -> Proof:
        """The comparison with the run."""
        if self._why:
            return Proof(why=self._why)
        for block, now, content in self._last:
            self._compare("the value of the code", block.call_id, block.value, now, content)
        expected = self._code.calls
        made = [made.call.name for made in expected]
        if made != [each.tool.name for each in self._values]:
            if self._code.answer.has_value:  # they may be the same
                self._compare_answer()
            made_now = count(len(self._values), "call")
            why = f"it made {made_now}, and the run {len(expected)}"
            return Proof(self._count - len(self._differences), self._count, why=why)
        for call, now in zip(expected, self._values, strict=True):
            what = f"the value of {now.tool.name}"
            self._compare(what, call.outcome.call_id, call.outcome.value, now.value, now.content)
        self._compare_variables()
        if self._code.answer.has_value:
            self._compare_answer()
        return Proof(
            self._count - len(self._differences),
            self._count,
            not_compared=tuple(dict.fromkeys(self._not_compared)),
        )

    def differences(self) -> tuple[Difference, ...]:
        """The values that are not equal, after everything was undone."""
        return tuple(
            Difference(what, before.settled(), now.settled())
            for what, before, now in self._differences
        )

    def _differs(self, what: str, before: Any, now: Any) -> None:
        self._differences.append((what, _Moment.of(before), _Moment.of(now)))

    def _compare(
        self, what: str, call_id: str, before: Any, now: Any, content: Fingerprint
    ) -> None:
        """Compare a value with the result of the call, as it was then."""
        then = fingerprint(before)
        returned = self._reads.returned.get(call_id)
        if returned is not None and returned.content.digest != then.digest:
            before = Gone(returned.text)
            then = returned.content
        if then.digest == content.digest:
            self._count += 1
        elif then.unread or content.unread:
            self._not_compared.append(f"{what} ({shown(now)})")
        else:
            self._count += 1
            self._differs(what, before, now)

    def _compare_variables(self) -> None:
        """Compare the variables after the code with those after the run."""
        known = {*self._code.names, *self._code.results, self._recorded.out}
        known |= {made.outcome.stored for made in self._code.calls}
        for name, left in self._reads.left.items():
            if name not in known:
                self._compare_variable(name, left)
        if not self._recorded.is_watched:
            return
        for name in sorted(self._changed - self._reads.left.keys() - known):
            self._count += 1
            now = self._variables.get(name, _DELETED)
            self._differs(f"the variable {name!r}", _NOT_CHANGED, now)

    def _compare_variable(self, name: str, left: Noted | Unchanging | None) -> None:
        """Compare a variable with its value after the run; None if it was deleted."""
        what = f"the variable {name!r}"
        if name not in self._variables:
            self._count += 1
            if left is not None:
                self._differs(what, Gone(left.text), _DELETED)
            return
        now = self._variables[name]
        content = fingerprint(now)
        if left is not None and left.content.digest == content.digest:
            self._count += 1
        elif left is not None and (left.content.unread or content.unread):
            self._not_compared.append(what)
        else:
            self._count += 1
            before = Gone(left.text) if left is not None else _DELETED
            self._differs(what, before, now)

    def _compare_answer(self) -> None:
        """Compare the answer, which the run may have read from a text."""
        answer = self._code.answer
        self._count += 1
        if not self._is_the_answer():
            self._differs(_ANSWER, answer.value, self._answer)

    def _is_the_answer(self) -> bool:
        answer = self._code.answer
        if same(answer.value, self._answer):
            return True
        try:
            return bool(self._answer == answer.value) or as_text(self._answer) == answer.text
        except Exception:  # noqa: BLE001 - such as two frames, or a value that JSON does not have
            return False


def same(before: Any, now: Any) -> bool:
    """Whether two values have the same content; unreadable parts must be the same objects."""
    return before is now or fingerprint(before).digest == fingerprint(now).digest
