"""Plans a map once: the model writes one program, which is tried, compared and run for all rows.

The states of a plan, and what moves it:

    asked        the model writes a program, at most four times
    tried        the program runs for a sample of rows; what fails goes back to the model
    compared     the ordinary agent answers some rows as well
    decided      by the person, or where nobody can be asked by whether all answers agreed
    run          the program runs for all rows; the agent is asked about those that it does not
                 answer

Each request and each row is kept in the file of the map as it ends. So a map that is run again goes
through the same states, and makes only what is missing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import random
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.batch.columns import Columns, Values, row_type
from archytas_nb.batch.engine import CostLedger, Map
from archytas_nb.batch.interval import wilson
from archytas_nb.batch.program import (
    Job,
    Judgements,
    ProgramRows,
    RowRun,
    effects_of,
    kept_effects,
    run_elsewhere,
    tools_of_programs,
    with_type_names,
)
from archytas_nb.batch.store import OPEN, RowResult
from archytas_nb.code.rows import PlannedRows, RowColumn
from archytas_nb.kernel.person import Keyboard, block, confirm
from archytas_nb.loop.calls_made import Effects, SharedCalls
from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    Findings,
    Message,
    ModelReply,
    ProgramFaults,
    Usage,
    UserQuestion,
)
from archytas_nb.loop.plan_protocol import (
    PlanProtocol,
    UnansweredRow,
    changed_report,
    faults_of_program,
    tried_report,
    unseen_report,
)
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.prepare import profile_of
from archytas_nb.progress import line_width, line_writer
from archytas_nb.sandbox.rows import RowProgram
from archytas_nb.syntax.program import Program
from archytas_nb.tools.declaration import declaration
from archytas_nb.trace import front_end
from archytas_nb.trace.controls import Controls
from archytas_nb.trace.map_panel import WAITS, progress_html
from archytas_nb.trace.safe import Table
from archytas_nb.trace.text import grid_lines
from archytas_nb.words import count, truncate_line

AnsweredBy: TypeAlias = Literal["program", "agent"] | None
Decision: TypeAlias = Literal["run", "rows", "stop", ""]

SAMPLE = 20
"""The rows for which a program is tried."""

_REPAIRS = 3
_SHOWN = 5  # rows that the model is shown
_FIRST_TRIED = 3  # rows that are tried before the others
RETRY_TEMPERATURE = 0.8  # the temperature after the same program was written twice
_RELATIVE = 1e-9  # difference of numbers that are equal
_MOST_SHOWN = 4  # columns of a row on which program and agent differ
_CELL = 30  # characters
_WISH = "What should change?"
_IS_OWN = (
    "row.{name} is another text in each row, so this is about one of them, and the program has to "
    "answer every row. Leave it out"
)
_WORD = re.compile(r"[^\W\d_]{2}")
_IS_FREE = (
    "row.{name} is another text in each row, and may say this in other words. Leave this line out, "
    'and find out with judge(question=f"Is it true that …? {{row.{name}}}", type="bool")'
)
_NOT_COMPARED = (
    "values is {values!r}, so no row can be asked alone to compare; use the program unchecked with "
    "verify=0"
)


class PlanOptions(NamedTuple):
    """How a map is planned.

    Attributes:
        auto: Whether it is asked row by row where no plan can be used.
        verify: How many rows the ordinary agent answers as well.
        max_fallback: The largest share of rows that is asked one by one without asking the person.
    """

    auto: bool = False
    verify: int = 10
    max_fallback: float = 0.2


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A row that the program and the agent answer differently.

    Attributes:
        number: Its place in the data, from 0.
        row: The columns of the question, or the first ones, as texts.
        program, agent: The answers, as texts.
        difference: The difference of two numbers in per cent of the program's; else empty.
    """

    number: int
    row: dict[str, str]
    program: str
    agent: str
    difference: str = ""


@dataclass(slots=True)
class ProgramTrial:
    """A program and what it did with the sample.

    Attributes:
        program: The program.
        keys: The keys of all rows with this program.
        answered, failed: Rows of the sample.
        gave_up: Rows of the sample among those that failed.
        calls: Calls of tools; None if they were made by an earlier run of the map.
    """

    program: RowProgram
    keys: list[str]
    answered: int = 0
    failed: int = 0
    gave_up: int = 0
    calls: int | None = 0

    @property
    def tried(self) -> int:
        """Rows of the sample for which it was run."""
        return self.answered + self.failed


@dataclass(slots=True)
class SampleComparison:
    """How often the program and the ordinary agent agree."""

    agree: int = 0
    compared: int = 0
    missing: int = 0  # rows that one of them did not answer
    rows: list[Disagreement] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The finding, as a sentence."""
        rows = count(self.compared, "row")
        if not self.compared:
            return "No row was answered by both the program and the agent"
        if self.agree < self.compared:
            differ = self.compared - self.agree
            return f"The program and the agent differ in {differ} of {rows}"
        return f"The program and the agent agree in {self.agree} of {rows}"

    @property
    def text(self) -> str:
        """The conclusion from the compared rows about all rows."""
        if not self.compared:
            return ""
        low, high = wilson(self.agree, self.compared)
        text = f"Of {count(self.compared, 'compared row')} {self.agree / self.compared:.0%} agree"
        text += f"; of all rows it is between {low:.0%} and {high:.0%} (95 % interval)."
        if self.missing:
            text += f" {count(self.missing, 'row')} could not be compared."
        return text

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The rows in which they differ, below the names of the columns."""
        names = list(dict.fromkeys(name for each in self.rows for name in each.row))
        rows = []
        for each in sorted(self.rows, key=lambda row: row.number):
            values = [each.row.get(name, "") for name in names]
            rows.append((str(each.number), *values, each.program, each.agent, each.difference))
        return ("row", *names, "program", "agent", "difference"), tuple(rows)


class PlannedResults(NamedTuple):
    """The results of the rows of a planned map.

    Attributes:
        results: The result of each row.
        values: The value of each answer, of the required type.
        answered_by: Who answered each row.
        record: The part of the plan that is kept.
        agents: Of each row that the program has answered, the agent's answer as a value; None where
            it was not asked as well.
        differs: Whether the two are different.
    """

    results: list[RowResult]
    values: list[Any]
    answered_by: list[AnsweredBy]
    record: dict[str, Any]
    agents: list[Any]
    differs: list[bool]


class PlannedMap:
    """A map that is planned.

    Args:
        rows: The map of the single questions.
        prompt: What to do with each row.
        questions: The question for each row.
        columns: The rows as programs read them.
        options: How it is planned.
    """

    def __init__(
        self,
        rows: Map,
        prompt: str,
        questions: Sequence[str],
        columns: Columns,
        options: PlanOptions,
    ) -> None:
        self._map = rows
        self._hides_values = rows.setup.hides_values
        self._prompt = prompt
        self._questions = questions
        self._columns = columns
        self._options = options
        self._identities = [columns.identity(each) for each in columns.rows]
        texts = [each.text for each in columns.columns]
        [self._key] = rows.keys_of([json.dumps([prompt, texts])], (), "plan")
        first: dict[str, int] = {}
        for number, identity in enumerate(self._identities):
            first.setdefault(identity, number)
        self._distinct = list(first.values())  # the number of the first of equal rows
        order = list(self._distinct)
        # The same rows when the map is run again, and others of another table with these columns.
        seed = " ".join([self._key, *first])
        random.Random(seed).shuffle(order)  # noqa: S311 - nothing is secret
        self._sample, rest = _sample(order, columns)
        more = [*rest, *self._sample]
        self._verified = more[: options.verify]
        if self._hides_values:  # the question about a row contains its values
            self._verified = []
        self._tools = tools_of_programs(rows.tools, judges=not self._hides_values)
        self._shared = SharedCalls()
        self._run_id = uuid.uuid4().hex
        self._made: dict[int, dict[str, CallOutcome]] = {}  # with side effects, of rows of a sample
        self._ran: dict[str, int] = {}  # the calls for each row, in this run of the map
        self._planning = Usage()
        self._record: dict[str, Any] = {}
        self._show = rows.show

    # ── the whole ─────────────────────────────────────────────────────────────────────────────────

    def results(self) -> PlannedResults:
        """Plan, and run the rows."""
        rows = self._map
        rows.know([self._key])
        self._record = self._kept_record()
        if rows.is_replay:
            return self._replayed()
        if not self._columns.rows:
            return self._one_by_one("there are no rows")
        is_small = len(self._distinct) <= self._options.verify + 1
        if is_small and not self._hides_values:
            return self._one_by_one("there are hardly more rows than the plan would compare")
        try:
            with rows.begun():
                tried = self._decided()
                if tried is None:
                    return self._unused()
                return self._run(tried)
        except KeyboardInterrupt:
            rows.limiter.stop("an interrupt", now=True)
        return self._assembled(None)

    def for_code(
        self,
        results: Sequence[RowResult],
        values: Sequence[Any],
        answered_by: Sequence[AnsweredBy],
        expression: str,
        kind: str,
    ) -> PlannedRows:
        """The record from which the code of the map is derived.

        Args:
            results: The results of the rows.
            values: Their values.
            answered_by: Who answered them.
            expression: The expression for the data.
            kind: The kind of data.
        """
        answers = self._map.answers
        rows = zip(self._columns.rows, results, values, answered_by, strict=True)
        answered = [
            (row, value)
            for row, result, value, by in rows
            if by == "program" and result.status == "done"
        ]
        samples = answered[:SAMPLE]

        def is_right(value: Any, number: int) -> bool:
            expected = samples[number][1]
            if answers.form is None:
                return as_text(value) == str(expected)
            return is_equal(answers.check(value).value, expected)

        return PlannedRows(
            prompt=self._prompt,
            program=str(self._record["program"]),
            columns=[RowColumn(each.name, each.key, each.kind) for each in self._columns.columns],
            tools={each.name: each for each in self._map.tools},
            namespace=self._map.setup.variables,
            data=expression,
            kind=kind,  # type: ignore[arg-type]
            has_columns=self._columns.is_table,
            is_whole=len(answered) == len(results),
            samples=samples,
            is_right=is_right,
        )

    def _kept_record(self) -> dict[str, Any]:
        kept = self._map.result(self._key).answer
        return kept if isinstance(kept, dict) else {}

    def _one_by_one(self, why: str) -> PlannedResults:
        """Ask row by row."""
        if why:
            self._show(f"not planned: {why}; the model is asked row by row", final=True)
            self._record = {**self._record, "used": False, "why": why}
        results, values = self._map.results()
        number = len(results)
        return PlannedResults(
            results, values, ["agent"] * number, self._record, [None] * number, [False] * number
        )

    def _unused(self) -> PlannedResults:
        """The result if the plan is not used."""
        rows = self._map
        decision = self._record.get("decision", "")
        is_stopped = bool(rows.limiter.reason) or decision == "stop"
        asks_rows = decision == "rows" or (self._options.auto and not is_stopped)
        if asks_rows and not self._hides_values:
            rows.run(rows.open_rows())
        else:
            why = self._record.get("why", "") or rows.limiter.reason
            text = rows.declined or f"the plan is not used: {why}. No row was sent to the model"
            self._show(text, final=True)
        return self._assembled(None)

    def _replayed(self) -> PlannedResults:
        if not self._record.get("used"):
            return self._one_by_one("")
        program = str(self._record["program"])
        keys = self._keys(program)
        self._map.know(keys)
        known = [self._map.result(key) for key in keys]
        missing = [
            key
            for key, result, single in zip(keys, known, self._map.keys, strict=True)
            if result.status == "open" and self._map.result(single).status == "open"
        ]
        if missing and self._record.get("is_complete"):
            self._map.raise_missing(len(missing))
        return self._assembled(keys)

    # ── the model writes a program ────────────────────────────────────────────────────────────────

    def _decided(self) -> ProgramTrial | None:
        """The program that is to be run for all rows; None if there is none."""
        if self._record.get("used"):  # an earlier run of the map has decided
            return self._tried_anew(str(self._record["program"]))
        if self._record.get("decision") == "rows":
            return None
        wishes: list[str] = []
        tried: ProgramTrial | None = None
        while True:
            tried = self._written(wishes, tried)
            if self._map.limiter.reason:
                return None
            if tried is None:
                self._record |= {"used": False, "why": "no program answers any of the sample"}
                return None
            agreement = self._compared(tried)
            if self._map.limiter.reason:
                return None
            self._record = self._described(tried, agreement)
            decision, wish = self._decision(tried, agreement)
            if decision == "":
                wishes.append(wish)
                continue
            self._record |= {"decision": decision, "used": decision == "run"}
            self._keep_record()
            return tried if decision == "run" else None

    def _keep_record(self) -> None:
        # Nobody can change a row that is done, so the record is kept as one that is open.
        self._map.keep(self._key, RowResult("open", answer=dict(self._record)))

    def _tried_anew(self, text: str) -> ProgramTrial:
        """The program of an earlier run."""
        program = self._program(text)
        keys = self._keys(text)
        self._map.know(keys)
        return ProgramTrial(program, keys, calls=None)

    def _written(self, wishes: Sequence[str], before: ProgramTrial | None) -> ProgramTrial | None:
        """The best program of at most four; None if none of them answers a row."""
        protocol = self._protocol()
        base = self._first_messages(protocol)
        if wishes and before is not None:
            base += protocol.again(before.program.text, changed_report(wishes[-1]))
        best: ProgramTrial | None = None
        messages = base
        last = ""
        temperature: float | None = None
        for attempt in range(1 + _REPAIRS):
            reply = self._reply(protocol, messages, temperature, attempt)
            if reply is None:
                break
            action = protocol.program_of(reply)
            text = action.program
            is_repeated = bool(text) and text == last
            temperature = RETRY_TEMPERATURE if is_repeated else None
            kept = "" if is_repeated else text  # what a model reads again, it writes again
            last = text
            if not text:
                messages = [*base, *protocol.read_again(action)]
                continue
            program = self._program(text)
            faults = program.faults or self._literal_faults(program)
            if faults:
                report = faults_of_program(ProgramFaults(faults))
                messages = [*base, *protocol.again(kept, report)]
                continue
            tried = self._try(program)
            if self._map.limiter.reason:
                return None
            if tried.answered and (best is None or tried.answered >= best.answered):
                best = tried
            if self._is_good(tried):
                break
            messages = [*base, *protocol.again(kept, self._report(tried))]
        return best

    def _protocol(self) -> PlanProtocol:
        setup = self._map.setup
        profile = profile_of(setup.choice.given)
        functions = {name: declaration(tool) for name, tool in self._tools.items()}
        return profile.plans(self._tools, functions, setup.instructions.text)

    def _first_messages(self, protocol: PlanProtocol) -> list[Message]:
        form = self._map.answers.form
        columns = self._columns
        free_texts = columns.free_texts
        left_out = [] if protocol.shows_own_texts else columns.own_texts
        shown = [columns.rows[each] for each in self._sample[:_SHOWN]]
        samples = [columns.text_of(each, without=left_out) for each in shown]
        if self._hides_values:
            samples = free_texts = []
        return protocol.first(
            self._prompt,
            "" if form is None else form.text,
            [each.text for each in columns.columns],
            columns.in_prompt(self._prompt),
            samples,
            free_texts,
        )

    def _literal_faults(self, program: RowProgram) -> tuple[Fault, ...]:
        """The fault of a program that looks for made-up words, or for one of the rows."""
        if self._hides_values:
            return ()
        columns = self._columns
        for node in Program(program.text).nodes(ast.Compare):
            sides = [node.left, *node.comparators]
            named = [each.attr for each in sides if isinstance(each, ast.Attribute)]
            literals = [each.value for each in sides if isinstance(each, ast.Constant)]
            texts = [each for each in literals if isinstance(each, str) and _WORD.search(each)]
            # A word of the prompt is not made up.
            if not texts or not named or texts[0] in self._prompt:
                continue
            fault = ""
            if named[0] in columns.free_texts:
                fault = _IS_FREE.format(name=named[0])
            elif named[0] in columns.own_texts and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                fault = _IS_OWN.format(name=named[0])
            if fault:
                source = program.text.split("\n")[node.lineno - 1].strip()
                return (Fault(node.lineno, source, fault),)
        return ()

    def _reply(
        self,
        protocol: PlanProtocol,
        messages: Sequence[Message],
        temperature: float | None,
        attempt: int,
    ) -> ModelReply | None:
        """The model's reply, which is kept; None if there is none."""
        limits = self._map.setup.settings.limits
        tokens = limits.reply_tokens(profile_of(self._map.setup.choice.given).reply_tokens)
        if protocol.max_tokens is not None:
            tokens = min(tokens, protocol.max_tokens)
        ask = protocol.ask(messages, tokens, temperature)
        sent = [attempt, list(ask.messages), ask.temperature]
        text = json.dumps(sent, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{self._key} {digest}"

        def request(_: Any, note: CostLedger) -> RowResult:
            model = self._map.model(note)
            pieces = model.complete(ask)
            reply: ModelReply
            while True:
                try:
                    next(pieces)
                except StopIteration as ended:
                    reply = ended.value
                    break
            answer = {"text": reply.text, "reasoning": reply.reasoning, "finish": reply.finish}
            return RowResult("done", answer=answer, usage=model.usage, spent=model.spent)

        self._map.know([key])
        if self._map.result(key).status != "done":
            self._map.counted = [key]
            self._map.run({key: None}, request)
        result = self._map.result(key)
        if result.status != "done":
            return None
        self._planning += result.usage
        return ModelReply(**result.answer)

    def _program(self, text: str) -> RowProgram:
        return RowProgram(with_type_names(text), self._tools, row_type(self._columns.spec))

    def _keys(self, text: str) -> list[str]:
        """The keys of all rows with a program; it reads their values by the names of columns."""
        names = [each.name for each in self._columns.columns]
        return self._map.keys_of(self._identities, (), "program", text, *names)

    # ── the program is tried ──────────────────────────────────────────────────────────────────────

    def _try(self, program: RowProgram) -> ProgramTrial:
        """Run a program for the sample; the others are not tried where the first ones all fail."""
        keys = self._keys(program.text)
        tried = ProgramTrial(program, keys)
        first, rest = self._sample[:_FIRST_TRIED], self._sample[_FIRST_TRIED:]
        self._run_program(tried, first, is_sample=True)
        errors = [self._map.result(keys[each]) for each in first]
        if not all(each.status == "failed" and not _gave_up(each) for each in errors):
            self._run_program(tried, rest, is_sample=True)
        for number in self._sample:
            result = self._map.result(keys[number])
            tried.answered += result.status == "done"
            tried.failed += result.status == "failed"
            tried.gave_up += _gave_up(result)
        ran = [self._ran[keys[each]] for each in self._sample if keys[each] in self._ran]
        tried.calls = sum(ran) if len(ran) == tried.tried else None
        return tried

    def _run_program(
        self, tried: ProgramTrial, numbers: Sequence[int], *, is_sample: bool = False
    ) -> None:
        """Run a program for those of these rows for which it has not run yet."""
        rows = self._map
        keys = tried.keys
        rows.know([keys[each] for each in numbers])
        rows.counted = [keys[each] for each in numbers]
        if is_sample:
            self._know_effects(numbers)
        todo = {keys[each]: each for each in numbers if not self._has_ended(keys[each], each)}
        runner = ProgramRows(
            rows.setup,
            tried.program,
            rows.answers,
            _Kept(rows, self._key),
            self._shared,
            rows.ledger,
        )
        parcel = None
        if rows.way == "rows":
            job = Job(self._run_id, tried.program.text, self._columns.spec, rows.output_type)
            parcel = rows.parcel(run_elsewhere, job)

        def ask(number: int, note: CostLedger) -> RowResult:
            values: Values = self._columns.rows[number]
            made = effects_of(rows.result(keys[number])) | self._made.get(number, {})

            def here() -> RowRun:
                return runner.run(values, rows.model(note), rows.on_main, made, rows.calls(note))

            ran = rows.have(here, parcel, values, made)
            if isinstance(ran, RowResult):
                return ran
            if is_sample:
                self._keep_effects(number, ran.made)
            self._ran[keys[number]] = ran.calls
            return ran.result

        rows.run(todo, ask)

    def _has_ended(self, key: str, number: int) -> bool:
        """Whether the program need not be run for a row.

        What failed in an earlier run of the map is tried again, as long as the agent did not answer
        it: a tool may have failed that works now.
        """
        result = self._map.result(key)
        if result.status != "failed":
            return not self._map.is_open(key)
        if result.kind:
            return False
        is_answered = self._map.result(self._map.keys[number]).status == "done"
        return key in self._ran or is_answered or _gave_up(result)

    def _know_effects(self, numbers: Sequence[int]) -> None:
        """Read which calls with side effects an earlier run of the map made for these rows."""
        for number in numbers:
            if number not in self._made:
                self._made[number] = effects_of(self._map.kept(self._effects_key(number)))

    def _keep_effects(self, number: int, made: Mapping[str, CallOutcome]) -> None:
        """Keep the calls with side effects for a row, which other programs do not repeat."""
        if len(made) > len(self._made[number]):
            self._made[number].update(made)
            kept = RowResult("open", answer=kept_effects(self._made[number]))
            self._map.store_unlisted(self._effects_key(number), kept)

    def _effects_key(self, number: int) -> str:
        return f"{self._key} effects {self._identities[number]}"

    def _is_good(self, tried: ProgramTrial) -> bool:
        """Whether a program needs no repair: it answers, or says why it does not."""
        has_errors = tried.failed > tried.gave_up
        return not has_errors and tried.gave_up <= self._options.max_fallback * tried.tried

    def _report(self, tried: ProgramTrial) -> str:
        """The report for the model: the three rows that failed in the most different ways."""
        failed = []
        hides = self._hides_values
        for number in self._sample:
            result = self._map.result(tried.keys[number])
            if result.status == "failed":
                row = self._columns.text_of(self._columns.rows[number], hides_values=hides)
                error = _without_values(result) if hides else result.error
                failed.append(UnansweredRow(row, error))
        different = {each.error: each for each in reversed(failed)}
        chosen = [*different.values(), *(each for each in failed if each not in different.values())]
        if hides:
            return unseen_report(list(different.values())[:3])
        return tried_report(tried.answered, tried.tried, chosen[:3])

    # ── the program is compared ───────────────────────────────────────────────────────────────────

    def _compared(self, tried: ProgramTrial) -> SampleComparison:
        """Have the ordinary agent answer some rows as well."""
        rows = self._map
        agreement = SampleComparison()
        if not self._verified:
            return agreement
        self._run_program(tried, self._verified, is_sample=True)
        numbers = {rows.keys[each]: each for each in self._verified}
        rows.counted = list(numbers)

        def ask(number: int, note: CostLedger) -> RowResult:
            effects = Effects(self._made.get(number, {}), is_closed=True)
            return rows.ask_one(self._questions[number], note, effects)

        rows.run({key: each for key, each in numbers.items() if rows.is_open(key)}, ask)
        for key, number in numbers.items():
            mine, theirs = rows.result(tried.keys[number]), rows.result(key)
            if mine.status == "open" or theirs.status == "open":
                continue
            if mine.status != "done" or theirs.status != "done":
                agreement.missing += 1
                continue
            agreement.compared += 1
            if self._agree(mine, theirs):
                agreement.agree += 1
            else:
                agreement.rows.append(self._disagreement(number, mine, theirs))
        return agreement

    def _disagreement(self, number: int, mine: RowResult, theirs: RowResult) -> Disagreement:
        columns = self._columns
        asked_about = {
            each.removeprefix("row.") for each in columns.in_prompt(self._prompt).values()
        }
        pairs = zip(columns.columns, columns.rows[number], strict=True)
        shown = [(column, value) for column, value in pairs]
        named = [each for each in shown if each[0].name in asked_about]
        row = {
            column.label: truncate_line(str(value), _CELL)
            for column, value in (named or shown)[:_MOST_SHOWN]
        }
        return Disagreement(
            number, row, _short(mine), _short(theirs), _difference(mine.answer, theirs.answer)
        )

    def _agree(self, mine: RowResult, theirs: RowResult) -> bool:
        if self._map.answers.form is None:
            return " ".join(str(mine.answer).casefold().split()) == " ".join(
                str(theirs.answer).casefold().split()
            )
        _, values = self._map.with_values([mine, theirs])
        return is_equal(*values)

    # ── the decision ──────────────────────────────────────────────────────────────────────────────

    def _trouble(self, tried: ProgramTrial, agreement: SampleComparison) -> str:
        """Why the plan is not used unless a person says so; empty if it is."""
        options = self._options
        low, _ = wilson(tried.failed, tried.tried)
        if self._hides_values and options.verify:
            return _NOT_COMPARED.format(values=self._map.setup.settings.values)
        if self._verified and agreement.agree < agreement.compared:
            differ = agreement.compared - agreement.agree
            return f"program and agent disagree on {differ} of {agreement.compared} rows"
        if self._verified and not agreement.compared:
            return "no row was answered by both program and agent"
        if low > options.max_fallback:
            return (
                f"the program does not answer {tried.failed} of {tried.tried} rows, more than"
                f" max_fallback={options.max_fallback:g} of all"
            )
        return ""

    def _decision(self, tried: ProgramTrial, agreement: SampleComparison) -> tuple[Decision, str]:
        """The decision; an empty one means that the program is changed as the second text says."""
        trouble = self._trouble(tried, agreement)
        self._record["why"] = trouble
        person = Controls(Keyboard())
        panel = self._panel(tried, agreement)
        if not person.there:
            self._show(panel, final=True)
            if not trouble:
                return "run", ""
            return ("rows" if self._options.auto else "stop"), ""
        choices = self._choices(agreement)
        is_good = bool(agreement.compared) and not agreement.rows and not trouble
        found = self._findings(tried, agreement, is_good=is_good)
        text = "The plan waits for you"
        self._show(text, page=progress_html(1.0, text, WAITS))
        if front_end.way() == "input":  # a form shows it
            line_writer(wanted=True)(panel, final=True)
        with suppress(EOFError, OSError):
            listed = ", ".join(f"{label} [{answer}]" for answer, label in choices.items())
            question = UserQuestion(
                listed,
                tuple(choices),
                is_of_model=False,
                labels=tuple(choices.values()),
                primary="run" if is_good else "",
                findings=found,
            )
            for _ in range(3):
                said = person.ask(f"{listed}? ", question).strip()
                answer = said.casefold()
                if answer in choices and answer != "change":
                    return answer, ""  # type: ignore[return-value]
                wish = ""
                if answer == "change":
                    asked = UserQuestion(_WISH, is_of_model=False)
                    wish = person.ask(f"{_WISH} ", asked).strip()
                elif len(said.split()) > 1:
                    wish = said
                if wish:
                    return "", wish
        self._record["why"] = trouble or "nobody decided"
        return "stop", ""

    def _choices(self, agreement: SampleComparison) -> dict[str, str]:
        """The choices of the person, the likely one first; each says its cost."""
        rows = self._map
        number = len(self._distinct)
        choices = {
            "change": "Change the program…",
            "run": f"Use the program for all {number:,}",
            "stop": "Stop",
        }
        if not self._hides_values:
            single = [rows.result(rows.keys[each]) for each in self._verified]
            left = number - sum(each.status == "done" for each in single)
            asked = _mean([each.usage for each in single if each.status != "open"])
            takes = f"{count(left, 'row')}"
            if asked.requests:
                takes = count(round(asked.requests * left), "request")
            if cost := _times(asked, left).tokens:
                takes += f", about {cost:,} tokens"
            choices["rows"] = f"Ask row by row: {takes}"
        order = ["run", "change", "rows", "stop"]
        if agreement.rows:
            order = ["change", "rows", "run", "stop"]
        return {each: choices[each] for each in order if each in choices}

    def _findings(
        self, tried: ProgramTrial, agreement: SampleComparison, *, is_good: bool
    ) -> Findings:
        """The text that the person reads before they decide."""
        head, rows = agreement.table()
        title = agreement.title
        if self._hides_values:
            title = "The program was not compared: no row may be sent to the model"
        elif not self._verified:
            title = "The program was not compared with the agent"
        lines = (agreement.text, f"{self._tried(tried)}.", f"{self._estimate(tried)}.")
        return Findings(
            title, not is_good, head, rows, tuple(filter(None, lines)), tried.program.text
        )

    @staticmethod
    def _tried(tried: ProgramTrial) -> str:
        """The results of a program for the sample."""
        parts = [f"{tried.answered} answered"]
        if tried.gave_up:
            parts.append(f"{tried.gave_up} gave up")
        if tried.failed > tried.gave_up:
            parts.append(f"{tried.failed - tried.gave_up} failed")
        return f"Tried on {count(tried.tried, 'row')}: {', '.join(parts)}"

    def _panel(self, tried: ProgramTrial, agreement: SampleComparison) -> str:
        """The program, what it did, and what all rows will cost, as text."""
        found = self._findings(tried, agreement, is_good=True)
        lines = [*block(tried.program.text, whole=True), found.title]
        if found.rows:
            width = line_width()
            table = Table(found.head, found.rows)
            lines += [f"  {each}" for each in grid_lines(table, len(found.rows), width=width - 2)]
        return "\n".join([*lines, *found.lines])

    def _estimate(self, tried: ProgramTrial) -> str:
        """The estimate for all rows, from the rows that were tried."""
        rows = self._map
        number = len(self._distinct)
        share = tried.failed / tried.tried if tried.tried else 0.0
        parts = []
        if tried.calls is not None and tried.tried:
            parts.append(f"about {count(round(tried.calls / tried.tried * number), 'tool call')}")
        others = 0 if self._hides_values else round(share * number)
        if others:
            parts.append(f"about {count(others, 'row')} asked one by one")
        sample = [rows.result(tried.keys[each]) for each in self._sample]
        single = [rows.result(rows.keys[each]) for each in self._verified]
        judged = _mean([each.usage for each in sample if each.status != "open"])
        asked = _mean([each.usage for each in single if each.status != "open"])
        requests = judged.requests * number + asked.requests * others
        parts.append(f"about {count(round(requests), 'request')}" if requests else "0 requests")
        cost = _times(judged, number) + _times(asked, others)
        if cost.tokens or cost.usd:
            parts.append(f"about {rows.amount(cost)}")
        line = f"All {number:,}: {', '.join(parts)}"
        if rows.limiter.used(rows.paid, cost) > rows.limiter.budget:
            line += ", above the budget"
        return line

    def _described(self, tried: ProgramTrial, agreement: SampleComparison) -> dict[str, Any]:
        """The record of the plan, also in the attributes of the frame."""
        found: dict[str, Any] = {
            "program": tried.program.text,
            "sample": {
                "rows": tried.tried,
                "answered": tried.answered,
                "gave_up": tried.gave_up,
                "failed": tried.failed - tried.gave_up,
            },
            "agreement": None,
            "requests": self._planning.requests,
            "tokens": self._planning.tokens,
            "cost": self._planning.usd or None,
        }
        if self._verified:
            low, high = wilson(agreement.agree, agreement.compared)
            found["agreement"] = {
                "agree": agreement.agree,
                "compared": agreement.compared,
                "missing": agreement.missing,
                "low": low,
                "high": high,
                "disagreements": [
                    {
                        "number": each.number,
                        "row": each.row,
                        "program": each.program,
                        "agent": each.agent,
                    }
                    for each in agreement.rows
                ],
            }
        return found

    # ── all rows ──────────────────────────────────────────────────────────────────────────────────

    def _run(self, tried: ProgramTrial) -> PlannedResults:
        """Run the program for all rows, and ask about those that it does not answer."""
        rows = self._map
        keys = tried.keys
        self._run_program(tried, self._distinct)
        left = [each for each in self._distinct if rows.result(keys[each]).status == "failed"]
        if self._hides_values:
            left = []  # they stay as they are
        if left and not rows.limiter.reason and self._may_ask(len(left)):
            self._ask_others(tried, left)
        elif left and not rows.limiter.reason:
            rows.limiter.stop(f"max_fallback={self._options.max_fallback:g}")
        planned = self._assembled(keys)
        done = Counter(
            by
            for result, by in zip(planned.results, planned.answered_by, strict=True)
            if result.status == "done"
        )
        self._record["rows"] = {"program": done["program"], "agent": done["agent"]}
        self._record["is_complete"] = all(result.status != "open" for result in planned.results)
        self._keep_record()
        rows.counted = [
            keys[each] if rows.result(keys[each]).status == "done" else rows.keys[each]
            for each in range(len(keys))
        ]
        return planned

    def _may_ask(self, number: int) -> bool:
        """Whether this many rows may be asked one by one."""
        share = number / len(self._distinct)
        if share <= self._options.max_fallback:
            return True
        question = (
            f"The program does not answer {number:,} of {len(self._distinct):,} rows. "
            "Ask them one by one?"
        )
        return confirm(question, Controls(Keyboard())) is True

    def _ask_others(self, tried: ProgramTrial, numbers: Sequence[int]) -> None:
        rows = self._map
        todo = {rows.keys[each]: each for each in numbers}
        rows.counted = list(todo)

        def ask(number: int, note: CostLedger) -> RowResult:
            made = effects_of(rows.result(tried.keys[number]))
            effects = Effects(made) if made else None
            return rows.ask_one(self._questions[number], note, effects)

        rows.run({key: each for key, each in todo.items() if rows.is_open(key)}, ask)

    def _assembled(self, keys: Sequence[str] | None) -> PlannedResults:
        """The result of each row, and who answered it; without keys there is no program."""
        rows = self._map
        results: list[RowResult] = []
        answered_by: list[AnsweredBy] = []
        singles: list[RowResult] = []
        seen = set[str]()
        for number, single_key in enumerate(rows.keys):
            single = rows.result(single_key)
            program = OPEN if keys is None else rows.result(keys[number])
            is_single = keys is None or (program.status == "failed" and single.status != "open")
            result = single if is_single else program
            if not is_single and program.status == "failed":
                result = replace(program, answer=None)
            # Equal rows share a request, whose cost counts once.
            attempts = [program, *([single] if single_key not in seen else [])]
            usage = sum((each.usage for each in attempts), Usage())
            spent = sum((each.spent for each in attempts), Usage())
            seconds = sum(each.seconds for each in attempts)
            result = replace(result, usage=usage, spent=spent, seconds=round(seconds, 3))
            identity = self._identities[number]
            if identity in seen:
                result = result.repeated()
            seen |= {identity, single_key}
            results.append(result)
            by: AnsweredBy = "agent" if is_single else "program"
            answered_by.append(None if result.status == "open" else by)
            is_compared = not is_single and program.status == single.status == "done"
            singles.append(single if is_compared else OPEN)
        found, values = rows.with_values(results)
        singles, agents = rows.with_values(singles)
        differs = [
            mine.status == theirs.status == "done" and not self._agree(mine, theirs)
            for mine, theirs in zip(found, singles, strict=True)
        ]
        return PlannedResults(found, values, answered_by, self._record, agents, differs)


class _Kept(Judgements):
    """Keeps judgements in the file of a map."""

    def __init__(self, rows: Map, key: str) -> None:
        self._map = rows
        self._key = key

    def get(self, question: str) -> RowResult:
        """The entry of the file for a judgement."""
        return self._map.kept(self._name(question))

    def put(self, question: str, result: RowResult) -> None:
        """Keep a judgement in the file; its costs are those of its row."""
        if result.status == "done":
            self._map.store_unlisted(self._name(question), result)

    def _name(self, question: str) -> str:
        digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self._key} {digest}"


def _sample(order: Sequence[int], columns: Columns) -> tuple[list[int], list[int]]:
    """The rows for which a program is tried, and the others: half of them differ in their types."""
    shapes: dict[Any, int] = {}
    for number in order:
        shapes.setdefault(columns.shape_of(columns.rows[number]), number)
    chosen = list(shapes.values())[: SAMPLE // 2]
    taken = set(chosen)
    others = [each for each in order if each not in taken]
    missing = SAMPLE - len(chosen)
    return [*chosen, *others[:missing]], others[missing:]


def _gave_up(result: RowResult) -> bool:
    return result.failure is not None and result.failure.kind == "gave_up"


def _without_values(result: RowResult) -> str:
    """Why a row failed, for a model that may not see values."""
    return "it failed" if result.failure is None else result.failure.without_values


def _short(result: RowResult) -> str:
    return truncate_line(repr(result.answer), 200)


def _difference(mine: Any, theirs: Any) -> str:
    """By how much a number differs from that of the program; empty where it is not a number."""
    numbers = [each for each in (mine, theirs) if type(each) in (int, float)]
    if len(numbers) < 2 or not mine or not all(map(math.isfinite, numbers)):
        return ""
    return f"{(theirs - mine) / abs(mine):+.1%}"


def _mean(usages: Sequence[Usage]) -> Usage:
    return _times(sum(usages, Usage()), 1 / len(usages)) if usages else Usage()


def _times(usage: Usage, number: float) -> Usage:
    return Usage(
        usage.requests * number,  # type: ignore[arg-type]
        round(usage.input_tokens * number),
        round(usage.cached_tokens * number),
        round(usage.output_tokens * number),
        usage.usd * number,
    )


def is_equal(one: Any, other: Any) -> bool:
    """Whether two answers are the same, apart from the last digits of numbers."""
    if isinstance(one, float) or isinstance(other, float):
        with suppress(TypeError):
            return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_RELATIVE)
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if type(one) is type(other) and hasattr(one, "__dict__"):
        return is_equal(vars(one), vars(other))
    return bool(one == other)
