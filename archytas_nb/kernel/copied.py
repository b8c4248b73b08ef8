"""Runs code of a model in a copy of the kernel, where it can change, send and break nothing.

One question has one copy, which is made when its first code runs:

    state   begins with                         what the next code finds
    ──────  ──────────────────────────────────  ────────────────────────────────────────────────────
    none    the question                        the notebook, in a copy that is made for it
    open    code                                the same copy, with all that was bound in it
    old     a call in the kernel that may have  a new copy, in which the code before has run again
            changed something
    closed  the end of the question             nothing: it is refused
"""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import inspect
import json
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from archytas_nb.effects.ledger import Ledger, current, noted_in
from archytas_nb.errors import ToolError
from archytas_nb.functions.compiling import compiled
from archytas_nb.functions.origin import run_as_tool
from archytas_nb.kernel.approval import Approver, CallingProgram
from archytas_nb.kernel.output import current_capture
from archytas_nb.kernel.python import python as in_notebook
from archytas_nb.loop.events import CallOutcome, Json, ToolCall
from archytas_nb.namespace import Namespace
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.parse import parsed
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.render import Drained
from archytas_nb.tools.tool import ApprovalCheck, BoundCall, Tool, awaited
from archytas_nb.words import truncate_line

if TYPE_CHECKING:
    from archytas_nb.copies.place import Copy, CopyReport, Statement

COPY_TOOL = "python"
"""The name of the tool, which it has in every place."""

KEEP = "keep"
"""The function by which code in a copy brings a value into the notebook."""

_PACKAGE = __name__.partition(".")[0]
_NAME = re.compile(r"[^\W\d]\w*")
_MAX_TRIED = 5  # effects that are named
_MAX_TARGET = 80  # characters of one
_MAX_HINTS = 3  # about a statement that failed

ENDED = {
    "time": "it took longer than it may",
    "memory": "it needed more memory than a copy may use",
    "exit": "it ended its own process",
    "crash": "its process crashed",
    "hang": "it did not go on, and used no processor time",
    "output": "it printed too much",
}
"""How code can end its copy, in words."""

working: ContextVar[WorkingCopy | None] = ContextVar("working", default=None)
"""The copy of the question that makes the current call."""


def python(code: str) -> Any:
    """Run code of the model in the copy of its question."""
    copy = working.get()
    if copy is None:
        raise ToolError("there is no question whose copy of the notebook this code could use")
    return copy.run(code)


python.__doc__ = in_notebook.__doc__  # a model reads the same text wherever its code runs


def _approval() -> bool | ApprovalCheck:
    """Whether a call needs approval: not where the system locks the copy."""
    from archytas_nb.copies.lock import machine

    found = machine()
    if found.kind == "locked":
        return False
    missing = "; ".join(found.missing)
    return ApprovalCheck(
        required=True,
        note="You are asked because this system cannot lock the copy of the notebook in which the "
        f"code runs ({missing}). Your variables cannot be changed. Files, processes and the "
        "network are protected against honest code only.",
    )


@functools.cache
def copy_tool() -> Tool:
    """The tool; made once, so that an approval for the whole notebook holds."""
    return Tool.from_function(python, approve=_approval, repeat=True, runs_code=True)


def runs_in_copy(tool: Tool) -> bool:
    """Whether a tool runs code in a copy, and not in the kernel."""
    return tool.function is python


class InCopy:
    """Stands for a value that stays in its copy, because it cannot be sent.

    Attributes:
        text: The displayed value, as text.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def _ai_repr_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


class WithCopied(ChainMap[str, Any]):
    """Some variables of a copy, then those of the notebook; assignments go to the copy's.

    Args:
        copied: Values of the copy, by name.
        variables: The variables of the notebook.
    """

    def __init__(self, copied: dict[str, Any], variables: Namespace) -> None:
        super().__init__(copied, variables)
        self._variables = variables

    def __setitem__(self, name: str, value: Any) -> None:
        self._variables[name] = value

    def __delitem__(self, name: str) -> None:
        del self._variables[name]


class WorkingCopy:
    """The copy of one question.

    Args:
        variables: The variables of the notebook.
        tools: The tools of the question, by name.
        approver: Decides on the calls of tools in the kernel.
        keep: Assigns a variable of the notebook, so that it can be undone.
        stopped: Whether the person has interrupted the call that runs.
    """

    def __init__(
        self,
        variables: Namespace,
        tools: Mapping[str, Tool],
        approver: Approver,
        keep: Callable[[str, Any], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._variables = variables
        self._tools = {name: each for name, each in tools.items() if not each.runs_code}
        self._approver = approver
        self._keep = keep
        self._stopped = stopped
        self._copy: Copy | None = None
        self._state: Literal["none", "open", "old", "closed"] = "none"
        self._bound: dict[str, None] = {}  # the names that code has bound in the copy, in order
        self._code = ""  # that runs
        self._ledger: Ledger | None = None  # of the call that runs it
        self._why_old = ""  # the tool whose call in the kernel may have changed something
        self._kept: dict[str, None] = {}  # the names that the code wants in the notebook
        self._notes: list[str] = []  # for the model, about the code that ran
        self.called: list[str] = []
        """The tools that the code has called in the kernel, in order."""

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def run(self, code: str) -> Any:
        """Run code, forward its output and figures, and return its last value.

        Raises:
            SyntaxError: It is not Python.
            ToolError: The copy has ended while it ran, or none can be made.
            Exception: The exception of the code.
        """
        from archytas_nb.copies.place import CopyError

        self._notes = []
        self.called = []
        self._kept = {}
        compiled(code)  # it explains magics, before anything is started
        self._code = code
        self._ledger = current.get()
        try:
            with noted_in(None):  # making the copy is not an effect of the code
                report = self._opened().run(code)
        except CopyError as error:
            raise ToolError(f"{error}. Use the other tools") from None
        self._show(report)
        self._bound |= dict.fromkeys(report.bound)
        failed = next((each for each in report.statements if each.status == "failed"), None)
        if report.ended is None:
            self._bring_back()
        self._note_tried(report, failed)
        self._note_unchanged(report, code)
        if report.ended is not None:
            raise ToolError(f"the code was stopped: {ENDED[report.ended]}")
        if failed is not None:
            secret = self._secret_error(failed)
            if secret is not None:
                raise secret
            raised = _error_of(failed)
            for hint in self._hints_about(failed, code):
                raised.add_note(hint)
            raise raised
        self._note_unseen(code)
        return _value_of(report)

    def _secret_error(self, failed: Statement) -> NameError | None:
        """The error for a name that only the notebook has, because it is that of a secret."""
        if failed.error is None or failed.error.type != "NameError":
            return None
        found = re.search(r"'(\w+)' is not defined", failed.error.message)
        if found is None or found[1] not in self._variables or not is_secret(found[1]):
            return None
        return NameError(f"{found[1]!r} is not in the copy: it is named like a secret")

    def _opened(self) -> Copy:
        """The copy for code that is about to run; raises ToolError if the question has ended."""
        if self._state == "closed":
            raise ToolError("the question has ended, and its copy of the notebook with it")
        if self._copy is None:
            self._copy = self._made()
        elif self._state == "old":
            self._copy.renew()
            self._notes.append(
                f"({self._why_old} ran in the notebook: your earlier code has run again, on a new "
                "copy of the notebook.)"
            )
        self._state = "open"
        return self._copy

    def _made(self) -> Copy:
        """A copy of the notebook, in which the tools are functions."""
        from archytas_nb.copies.names import Names
        from archytas_nb.copies.place import Copy

        there = {name: each.function for name, each in self._tools.items() if self._is_there(each)}
        calls = [name for name in self._tools if name not in there]
        secrets = filter(is_secret, map(str, self._variables))
        return Copy(
            Names(self._variables, there, [*secrets]),
            folder=Path.cwd(),
            call=self._call,
            tools=[*calls, KEEP],
            stopped=self._stopped,
        )

    def _is_there(self, tool: Tool) -> bool:
        """Whether the function of a tool runs in the copy: a pure one without approval."""
        return tool.pure and not self._approver.may_refuse(tool)

    def close(self) -> None:
        """End the copy, at the end of the question."""
        self._state = "closed"
        copy = self._copy
        self._copy = None
        if copy is not None:
            copy.close()

    def _show(self, report: CopyReport) -> None:
        """Show the output and the figures of the code as those of the call."""
        for each in report.statements:
            if each.printed:
                sys.stdout.write(each.printed)
        capture = current_capture.get()
        for figure in report.figures:
            data = {"image/png": base64.b64encode(figure).decode("ascii")}
            if capture is not None:
                capture.display(data)

    def _hints_about(self, failed: Statement, code: str) -> list[str]:
        """A hint from the copy on a failed statement: the probable meaning, or the actual data.

        The model corrects it: the person reads the code that the model wrote.
        """
        from archytas_nb.copies.examine import asked

        with suppress(Exception):  # the copy may have ended
            names = [each for each in self._variables if not each.startswith("_")]
            found = asked(self._copy, "examined", failed.source, code, names)
            if found is not None:
                cure, hints = found
                return [cure[1]] if cure else list(hints)[:_MAX_HINTS]
        return []

    def _note_unseen(self, code: str) -> None:
        """Say what the code did not do as meant, though it raised nothing."""
        from archytas_nb.copies.examine import asked

        nodes = [*ast.walk(parsed(code))]
        compares = any(isinstance(each, ast.Compare) for each in nodes) or ".isin(" in code
        assigns = any(
            isinstance(each, ast.Subscript)
            and isinstance(each.ctx, ast.Store)
            and isinstance(each.value, (ast.Subscript, ast.Attribute))
            for each in nodes
        )
        if not compares and not assigns:
            return
        with suppress(Exception):  # the copy may have ended
            self._notes += [f"({each}.)" for each in asked(self._copy, "unseen", code) or ()]

    def _note_tried(self, report: CopyReport, failed: Statement | None) -> None:
        """Say which effect outside the copy was refused, if the code failed."""
        # A tool that the person refuses raises a PermissionError, too: it names nothing.
        named = [each for each in report.tried if each.target]
        tried = dict.fromkeys(
            f"{each.kind} {truncate_line(each.target, _MAX_TARGET)}" for each in named
        )
        if failed is None or not tried:
            return
        shown = ", ".join([*tried][:_MAX_TRIED])
        more = len(tried) - _MAX_TRIED
        if more > 0:
            shown += f" and {more:,} more"
        self._notes.append(
            f"(Refused, because this is a copy: {shown}. Leave it out, use a tool for it, or give "
            "the user the code.)"
        )

    def _note_unchanged(self, report: CopyReport, code: str) -> None:
        """Say that the notebook is unchanged, if the code looks as if it changed a variable."""
        changed = {*report.bound, *Bindings.of(code).changed}
        has_kept = any(name in self._variables for name in self._kept)
        if not has_kept and any(name in self._variables for name in changed):
            self._notes.append("(This ran in a copy: nothing in the notebook has changed.)")

    # ── values to keep ────────────────────────────────────────────────────────────────────────────

    def _bring_back(self) -> None:
        """Assign the values that the code keeps to new variables of the notebook."""
        for name in self._kept:
            if name in self._variables:
                self._notes.append(
                    f"(Not kept: the notebook has a variable {name!r} already. Assign the value to "
                    "a new name and keep that.)"
                )
                continue
            try:
                value = self._value(name)
            except Exception as error:  # noqa: BLE001 - it cannot be sent
                self._notes.append(f"(Not kept: {name!r}: {truncate_line(str(error), 200)})")
                continue
            self._keep(name, value)
            self._notes.append(f"(kept as the variable {name} of the notebook)")

    def _value(self, name: str) -> Any:
        if self._copy is None:
            raise ToolError("the copy has ended")
        return self._copy.value(name)

    def named_in(self, given: Json, *, is_answer: bool = False) -> dict[str, Any]:
        """The values of the copy whose names are in an argument or an answer, by name.

        Args:
            given: The argument or the answer, as JSON.
            is_answer: Whether a name that both have means the value of the copy. In an argument it
                means that of the notebook, on which tools work.
        """
        if self._copy is None or not self._bound:
            return {}
        text = given if isinstance(given, str) else json.dumps(given, default=str)
        named = set(_NAME.findall(text)).intersection(self._bound)
        # A name whose value cannot be sent gets the error for a missing variable.
        return _values(self._copy, [n for n in named if is_answer or n not in self._variables])

    def completed(self, outcome: CallOutcome) -> CallOutcome:
        """The outcome of the last code, with the notes for the model."""
        from archytas_nb.copies.lock import machine

        place: Literal["copy", "guarded copy"] = "copy"
        if machine().kind != "locked":
            place = "guarded copy"
        hint = "".join(f"\n{each}" for each in self._notes)
        return replace(
            outcome, place=place, hint=outcome.hint + hint, called=(*outcome.called, *self.called)
        )

    # ── calls in the kernel ───────────────────────────────────────────────────────────────────────

    def note_call(self, tool: Tool, *, is_unchanged: bool) -> None:
        """Record a call in the kernel, after which the copy may be out of date.

        Args:
            tool: The tool.
            is_unchanged: Whether it was watched, and changed nothing.
        """
        is_ours = tool.function.__module__.partition(".")[0] == _PACKAGE
        if self._state == "open" and not (tool.pure or is_ours or is_unchanged):
            self._state = "old"
            self._why_old = tool.name

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the code in the copy, in the kernel and by its rules.

        Raises:
            TypeError: The arguments are not those of the tool.
            PermissionError: The call was refused.
        """
        if name == KEEP:
            return self._wish(*args, **kwargs)
        tool = self._tools[name]
        bound = tool.bind(_by_name(tool, args, kwargs), self._variables)
        if isinstance(bound, CallOutcome):
            raise TypeError(bound.text)
        clearance = self._approver.decide(
            tool,
            ToolCall("", name, tool.arguments(bound)),
            bound,
            self._variables,
            caller=CallingProgram(self._code),
        )
        if clearance.stops:
            raise KeyboardInterrupt
        if clearance.bound is None:
            raise PermissionError(clearance.refusal)
        self.called.append(name)
        self.note_call(tool, is_unchanged=False)
        with noted_in(self._ledger):
            value = run_as_tool(partial(_result_of, clearance.bound))
        return value.items if isinstance(value, Drained) else value

    def _wish(self, *names: str) -> None:
        """Note the names whose values are brought back when the code has ended."""
        for name in names:
            if not isinstance(name, str) or not name.isidentifier():
                raise TypeError(f'keep got {name!r}; expected the name of a variable, as keep("x")')
            self._kept[name] = None


def _values(copy: Copy, names: Iterable[str]) -> dict[str, Any]:
    """The values of some variables of a copy, by name, without those that cannot be sent."""
    found = {}
    for name in names:
        with suppress(Exception):
            found[name] = copy.value(name)
    return found


def without_keeping(code: str) -> str:
    """Code of a copy without the statements that only keep a value, for the notebook itself."""
    try:
        tree = ast.parse(code)
        edits = Edits(code)
    except (SyntaxError, ValueError):
        return code
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_keeping(node.value):
            edits.replace(node, "pass")
    return edits.applied()


def _is_keeping(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and node.func.id == KEEP  # type: ignore[attr-defined]


def _result_of(bound: BoundCall) -> Any:
    value = bound.run()
    return awaited(value) if inspect.isawaitable(value) else value


def _by_name(tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names; raises TypeError where there are too many."""
    names = [each.name for each in tool.parameters if not each.injected]
    if len(args) > len(names):
        raise TypeError(f"{tool.name} takes {len(names)} arguments, and got {len(args)}")
    given = dict(zip(names, args, strict=False))
    if both := given.keys() & kwargs.keys():
        raise TypeError(f"{tool.name} got {', '.join(sorted(both))} twice")
    return {**given, **kwargs}


def _value_of(report: CopyReport) -> Any:
    """The value of the last expression, or a placeholder if it cannot be sent."""
    value = report.statements[-1].value if report.statements else None
    if value is None:
        return None
    return value.object if value.is_data else InCopy(value.text)


def _error_of(failed: Statement) -> BaseException:
    """The exception of a statement: of the same builtin class, or else a RuntimeError.

    Its traceback is in the copy: a note says in which line it was.
    """
    raised = failed.error
    if raised is None:
        return RuntimeError("the code failed")
    found = getattr(builtins, raised.type, None)
    kind: type[Exception] = RuntimeError
    message = f"{raised.type}: {raised.message}"
    if isinstance(found, type) and issubclass(found, Exception) and found is not ExceptionGroup:
        kind = found
        message = raised.message
    # The text of some classes is not made from one message.
    words = {"__str__": lambda _: message, "__module__": "builtins"}
    same: type[Exception] = type(kind.__name__, (kind,), words)
    error = same.__new__(same)
    if raised.number:
        error.add_note(f"line {raised.number}: {raised.line}")
    return error
