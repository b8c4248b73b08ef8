"""Asks about a row by running the program of its map: here, or in another process."""

from __future__ import annotations

import ast
import functools
import json
import threading
import time
from collections import ChainMap, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from archytas_nb.answers import Answers
from archytas_nb.batch.columns import Values, row_type
from archytas_nb.batch.elsewhere import SentCalls
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.row import OnMain, ask_row, row_executor, run_here
from archytas_nb.batch.store import OPEN, RowFailure, RowResult
from archytas_nb.effects.ledger import Ledger
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.loop.calls_made import SharedCalls, call_key
from archytas_nb.loop.events import CallOutcome, Fault, Json, ProgramCall, ProgramEnded, ToolCall
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.prepare import RunSetup
from archytas_nb.sandbox.rows import RowProgram
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.program import Program
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.words import collapse_whitespace

JUDGE = "judge"
"""The function with which a program asks a model about a text."""

_KINDS: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}
_MAX_STEPS = 3  # requests of one judgement


def judge(question: str, type: str | list[str]) -> Any:  # noqa: A002 - as the model writes it
    """Ask a model about a text: one typed answer.

    Args:
        question: The question with the text in it
        type: "bool", "int", "float", "str", or a list of the possible answers
    """
    raise RuntimeError(f"{question!r} of type {type!r} is asked by the map")


@functools.cache
def judge_tool() -> Tool:
    """The tool `judge`, which the map carries out itself."""
    return Tool.from_function(judge, pure=True)


def tools_of_programs(tools: Sequence[Tool], *, judges: bool) -> dict[str, Tool]:
    """The tools that a program for rows may call, by name.

    Args:
        tools: The tools of the map; one that is named judge replaces ours.
        judges: Whether a program may ask a model about texts.
    """
    built_in = [judge_tool()] if judges else []
    return {each.name: each for each in (*built_in, *tools)}


def with_type_names(program: str) -> str:
    """A program in which types that are given to `judge` are values, on the same lines."""
    edits = Edits(program)
    for node in _types_given(Program(program)):
        text = _type_value(node)
        if text:
            edits.replace(node, text)
    return edits.applied()


def _types_given(program: Program) -> list[ast.expr]:
    found: list[ast.expr] = []
    for node in program.calls(JUDGE):
        found += node.args[1:2]
        found += [each.value for each in node.keywords if each.arg == "type"]
    return found


def _type_value(node: ast.expr) -> str:
    """A type as `judge` takes it; empty for what is one already."""
    if isinstance(node, ast.Name) and node.id in _KINDS:
        return repr(node.id)
    is_literal = isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal"
    if is_literal:
        inner = node.slice  # type: ignore[attr-defined]
        choices = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return f"[{', '.join(map(ast.unparse, choices))}]"
    return ""


# ── a row ─────────────────────────────────────────────────────────────────────────────────────────


class RowRun(NamedTuple):
    """The result of the program for a row.

    Attributes:
        result: The result. Of a row that failed, the answer has the calls with side effects that
            were made.
        calls: How many calls it made.
        made: The outcomes of its calls with side effects, by their keys.
    """

    result: RowResult
    calls: int = 0
    made: Mapping[str, CallOutcome] = {}


class Judgements:
    """Keeps judgements, so that equal ones are made once; here for the time of one process."""

    def get(self, question: str) -> RowResult:
        """The known result of a judgement."""
        del question
        return OPEN

    def put(self, question: str, result: RowResult) -> None:
        """Keep a judgement."""


@dataclass(slots=True)
class ProgramRows:
    """Runs a program for rows.

    Attributes:
        setup: The setup that the rows share.
        program: The program, which has no faults.
        answers: The type of the answers.
        judgements: The file in which judgements are kept.
        shared: The calls that are made once.
        ledger: Takes over what the calls do outside of the variables.
    """

    setup: RunSetup
    program: RowProgram
    answers: Answers
    judgements: Judgements
    shared: SharedCalls
    ledger: Ledger | None = None

    def run(
        self,
        values: Values,
        model: RowModel,
        on_main: OnMain = run_here,
        made: Mapping[str, CallOutcome] | None = None,
        calls: SentCalls | None = None,
    ) -> RowRun:
        """Run it for a row.

        Args:
            values: The values of the row.
            model: The model of the row, for its judgements.
            on_main: Calls something on the main thread.
            made: The calls with side effects that were made for the row before.
            calls: Makes the calls in another process; None for this one.
        """
        started = time.perf_counter()
        variables = ChainMap({}, self.setup.variables)
        setup = replace(self.setup, namespace=variables)
        row = _Row(setup, self, model, on_main, calls, dict(made or {}))
        ended = self.program.run(self.program.row_type(*values), row.outcome, variables)
        result = self._result(ended, row)
        seconds = round(time.perf_counter() - started, 3)
        result = replace(result, usage=model.usage, seconds=seconds, spent=model.spent)
        if calls is not None:
            result = calls.ended(result)
        return RowRun(result, row.calls, row.made)

    def _result(self, ended: ProgramEnded, row: _Row) -> RowResult:
        if ended.interrupted:
            return RowResult("open")
        if ended.has_answer:
            verdict = self.answers.check(ended.answer)
            if not verdict.fault:
                answer = ended.answer if self.answers.form is not None else as_text(ended.answer)
                return RowResult("done", answer=answer)
            answer = collapse_whitespace(repr(ended.answer), 200)
            text = collapse_whitespace(f"its answer {answer} is not right: {verdict.fault}")
            failure = RowFailure("wrong_type", text)
        elif ended.gave_up is not None:
            failure = RowFailure("gave_up", collapse_whitespace(ended.gave_up))
        elif ended.error is not None:
            failure = _failure_of(ended.error, is_bound=ended.stopped)
        else:
            text = ended.lost or "the program ended without an answer for this row"
            failure = RowFailure("lost", text)
        kept = kept_effects(row.made) or None
        error = collapse_whitespace(failure.in_words)
        return RowResult("failed", answer=kept, error=error, kind=row.kind, failure=failure)


def _failure_of(error: Fault, *, is_bound: bool) -> RowFailure:
    """The failure of a line."""
    kind: Literal["bound", "raised"] = "bound" if is_bound else "raised"
    source = collapse_whitespace(error.source, 120)
    return RowFailure(kind, collapse_whitespace(error.text), error.line, source, error.raised)


def kept_effects(made: Mapping[str, CallOutcome]) -> list[Json]:
    """Calls with side effects as the file keeps them."""
    return [[key, outcome.result, _json(outcome.value)] for key, outcome in made.items()]


def effects_of(result: RowResult) -> dict[str, CallOutcome]:
    """The calls with side effects that a program made for a row before it failed."""
    if result.status == "done" or not isinstance(result.answer, list):
        return {}
    return {key: CallOutcome("done", text, value=value) for key, text, value in result.answer}


def _json(value: Any) -> Json:
    """A value as JSON; the model reads the text of anything else."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return None


@dataclass(slots=True)
class _Row:
    """The calls of the program for one row."""

    setup: RunSetup
    rows: ProgramRows
    model: RowModel
    on_main: OnMain
    sent: SentCalls | None
    made: dict[str, CallOutcome]
    calls: int = 0
    kind: str = ""  # of the failure of the endpoint, if a judgement failed by it

    def outcome(self, called: ProgramCall) -> CallOutcome:
        """Make a call, unless an equal one was made."""
        self.calls += 1
        call = ToolCall(f"c{self.calls}", called.name, called.input)
        key = call_key(call)
        tool = self.rows.program.tools_by_name[called.name]
        if tool is judge_tool():
            return self._judged(tool, call, key)
        if tool.pure and not tool.may_require_approval and not called.objects:
            return self.rows.shared.outcome(key, lambda: self._made(call, called))
        if key in self.made and not tool.repeat:
            return self.made[key]
        outcome = self._made(call, called)
        if outcome.status == "done":
            self.made[key] = outcome
        return outcome

    def _made(self, call: ToolCall, called: ProgramCall) -> CallOutcome:
        tools = self.setup.tools or Toolbox()
        executor = row_executor(
            self.setup,
            tools,
            self.model,
            self.model.clock,
            self.on_main,
            self.sent,
            self.rows.ledger,
        )
        caller = CallingProgram(self.rows.program.text, called.line, called.objects)
        # On a worker's thread, a limit takes another thread for each call: there, a tool is limited
        # by its own timeout only.
        seconds = self.setup.settings.limits.max_seconds
        if tools[call.name].pure:
            seconds = None
        [outcome] = executor.run([call], seconds, {call.id: caller})
        return outcome

    # ── judgements ────────────────────────────────────────────────────────────────────────────────

    def _judged(self, tool: Tool, call: ToolCall, key: str) -> CallOutcome:
        bound = tool.bind(call.input)
        if isinstance(bound, CallOutcome):
            return bound
        question, given = (*bound.args, *bound.kwargs.values())
        if isinstance(given, str) and given not in _KINDS:
            known = ", ".join(map(repr, _KINDS))
            text = f"type is {given!r}; expected {known} or a list of the possible answers"
            return CallOutcome("error", text, error=ValueError(text))
        kind = _KINDS[given] if isinstance(given, str) else Literal[tuple(given)]
        answers = Answers(kind, None, {})
        return self.rows.shared.outcome(key, lambda: self._judgement(question, answers, key))

    def _judgement(self, question: str, answers: Answers, key: str) -> CallOutcome:
        result = self.rows.judgements.get(key)
        if result.status != "done":
            result = ask_row(_for_judging(self.setup), self.model, question, answers)
            self.rows.judgements.put(key, replace(result, usage=OPEN.usage, spent=OPEN.spent))
        if result.status == "open":
            return CallOutcome("interrupted", "Not run: the map was stopped.")
        if result.status == "failed":
            self.kind = result.kind
            text = f"no judgement: {result.error}"
            return CallOutcome("error", text, error=RuntimeError(text))
        return CallOutcome("done", "done", value=answers.check(result.answer).value)


def _for_judging(setup: RunSetup) -> RunSetup:
    """The setup for one typed request without tools."""
    settings = setup.settings
    settings = settings.but(max_steps=min(settings.max_steps, _MAX_STEPS))
    if settings.protocol == "program":
        settings = settings.but(protocol="auto")
    return replace(setup, settings=settings, tools=Toolbox(), own_tools=Toolbox())


# ── in another process ────────────────────────────────────────────────────────────────────────────


class Job(NamedTuple):
    """The data for another process that runs a program for rows.

    Attributes:
        map: An id of this run of the map: calls are shared within it.
        program: The program.
        columns: The attributes of the rows with their types.
        output_type: The type of the answers as it was given.
    """

    map: str
    program: str
    columns: tuple[tuple[str, Any], ...]
    output_type: Any


_jobs = OrderedDict[str, tuple[dict[str, RowProgram], Answers, SharedCalls]]()
_jobs_lock = threading.Lock()
_MAX_JOBS = 4  # maps of which a process keeps the programs and the calls


def run_elsewhere(
    setup: RunSetup,
    job: Job,
    values: Values,
    made: Mapping[str, CallOutcome],
) -> RowRun:
    """Run a program for a row in another process, which has a sandbox of its own."""
    with _jobs_lock:
        if job.map not in _jobs:
            _jobs[job.map] = {}, Answers(job.output_type, None, {}), SharedCalls()
            while len(_jobs) > _MAX_JOBS:
                _jobs.popitem(last=False)
        programs, answers, shared = _jobs[job.map]
        if job.program not in programs:
            given = list((setup.tools or Toolbox()).values())
            tools = tools_of_programs(given, judges=not setup.hides_values)
            text = with_type_names(job.program)
            programs[job.program] = RowProgram(text, tools, row_type(job.columns))
        program = programs[job.program]
    rows = ProgramRows(setup, program, answers, Judgements(), shared)
    return rows.run(values, RowModel(setup.choice.given, Limiter()), made=made)
