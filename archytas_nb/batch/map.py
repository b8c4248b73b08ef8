"""Implements `Agent.map` and `Agent.evaluate`: reads rows, frames answers, scores them."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, is_typeddict

from archytas_nb.batch.calibration import Calibration, calibrated
from archytas_nb.batch.frame import BESIDE, framed, schemas_of
from archytas_nb.batch.interval import wilson
from archytas_nb.batch.store import RowResult
from archytas_nb.batch.unsure import BY, CONFIDENCE, Sure, confidence_of
from archytas_nb.errors import argument_error
from archytas_nb.hints import hinted
from archytas_nb.loop.events import Usage
from archytas_nb.prepare import ModelChoice, RunSetup
from archytas_nb.sandbox import pool
from archytas_nb.template import Template, value_text
from archytas_nb.tools.tables import (
    column_of,
    hides_rows,
    index_of,
    library_of,
    table_of,
    way_to_rows,
)
from archytas_nb.tools.variables import name_of

if TYPE_CHECKING:
    from archytas_nb.batch.engine import Map
    from archytas_nb.code.rows import PlannedRows

MAX_ROWS = 200
"""How many rows one request may have."""
AGENT = "agent"
"""The agent's own answer, where it was asked for a comparison with the program."""
COLUMNS = tuple(name for name in BESIDE if name not in (BY, AGENT, CONFIDENCE))
"""The columns that are always next to the answer."""


DIFFERS = "differs"
"""The status of a row that the program has answered, and the agent in another way."""


# ── rows and their frame ──────────────────────────────────────────────────────────────────────────


def mapped(
    setup: RunSetup,
    data: Any,
    prompt: str,
    *,
    plan: bool | Literal["auto"] = False,
    rows: int = 1,
    verify: int = 10,
    max_fallback: float = 0.2,
    expression: str = "",
    variable: str = "",
    on_planned: Callable[[PlannedRows], object] | None = None,
    unsure: float | None = None,
    then: Any = None,
    when: Literal["now", "batch"] = "now",
    **options: Any,
) -> Any:
    """Ask about every row, as `Agent.map`; the other options are those of the engine's `Map`.

    `expression` is that of the data, for the code of a map that was planned; without it, the code
    has the name of their variable. `variable` is that of the result, which is shown with it.
    `on_planned` is called with what the code is derived from.
    """
    _check_plan(plan, verify, max_fallback)
    _check_ways(rows, when, plan, options.get("executor"), unsure)
    library = _library_of(data)
    sure = Sure(unsure, then, is_planned=plan is not False)
    beside = [*COLUMNS, *sure.columns, *[AGENT][: plan is not False]]
    names, parts = columns_of(options["output_type"], beside)
    items = _items(data)
    questions = questions_of(items, prompt, _labels(data))
    asked = _map_of(sure.setup(setup), questions, when, options)
    is_planned = plan is True
    if plan == "auto":
        is_planned = pool.is_available() and _may_be_planned(items, prompt, asked.tools)
    known: dict[str, Any] = {}
    about_rows: dict[str, Any] = {}
    answered_by: Sequence[str | None]
    if is_planned:
        pool.require()
        from archytas_nb.batch.columns import Columns
        from archytas_nb.batch.plan import PlannedMap, PlanOptions

        columns = Columns(items, _name_of(data, library), _hidden_columns(setup))
        plan_options = PlanOptions(plan == "auto", verify, max_fallback)
        planned = PlannedMap(asked, prompt, questions, columns, plan_options)
        found, values, answered_by, known, agents, differs = planned.results()
        if known.get("used"):
            expression = expression or name_of(data, setup.variables) or "data"
            code = planned.for_code(found, values, answered_by, expression, library or "list")
            known = known | {"code": _code(code)}
            if on_planned is not None:
                on_planned(code)
    else:
        if rows == 1:
            found, values, answered_by = sure.results(asked, questions, options)
        else:
            found, values, about_rows = _together(asked, questions, rows, verify)
            answered_by = ["agent"] * len(found)
        agents, differs = [None] * len(found), [False] * len(found)
    confidences = [confidence_of(asked, each) for each in found]
    stated = zip(found, values, answered_by, agents, differs, confidences, strict=True)
    records = [_record(each, names, parts, beside) for each in stated]
    if asked.is_shown:
        _show(asked, variable, prompt, items, records, names, known)
    if not library:
        return records
    beside_schemas = {**BESIDE, AGENT: asked.answers.schema}
    schemas = schemas_of(asked.answers.schema, names)
    schemas |= {name: beside_schemas[name] for name in beside}
    frame = framed(data, library, records, schemas)
    if library == "pandas":
        frame.attrs |= (
            sure.attributes | about_rows | _outside(asked) | ({"plan": known} if known else {})
        )
    return frame


def _outside(asked: Map) -> dict[str, Any]:
    """The effects of the rows' calls outside of the variables, each in one line."""
    lines = [*map(str, asked.effects)]
    return {"effects": lines} if lines else {}


def _record(
    row: tuple[RowResult, Any, str | None, Any, bool, float | None],
    names: Sequence[str],
    parts: Callable[[Any], Mapping[str, Any]],
    beside: Sequence[str],
) -> dict[str, Any]:
    """The record of a row in the result: the parts of its answer, and the columns next to it."""
    result, value, by, agent, is_different, confidence = row
    record: dict[str, Any] = dict.fromkeys(names)
    if result.status == "done":
        record |= parts(value)
    stated = _stated(result) | {BY: by, AGENT: agent, CONFIDENCE: confidence}
    if is_different:
        stated["status"] = DIFFERS
    return record | {name: stated[name] for name in beside}


def _show(
    asked: Map,
    variable: str,
    prompt: str,
    items: Sequence[Any],
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    plan: Mapping[str, Any],
) -> None:
    """Show what became of the rows."""
    from archytas_nb.batch.summary import finished
    from archytas_nb.progress import line_width

    line = asked.line(is_summed_up=True)
    if not any(each["status"] != "open" for each in records):
        if not plan:  # which has said why
            asked.show(line, final=True)
        return
    differ = sum(each["status"] == DIFFERS for each in records)
    warning = ""
    if differ:
        compared = sum(each.get(AGENT) is not None for each in records)
        warning = f"{differ} of {compared} compared rows differ from the agent"
    if plan.get("used") is False:
        line += f" · not planned: {plan.get('why', '')}"
    if plan.get("rows"):
        by = plan["rows"]
        line += f" · {by['program']:,} by the program, {by['agent']:,} asked one by one"
    summary = finished(variable, line, prompt, items, records, names, warning, asked.effects)
    asked.show(summary.text(line_width()), final=True, page=summary.html())


def _together(
    asked: Map, questions: Sequence[str], rows: int, verify: int
) -> tuple[list[RowResult], list[Any], dict[str, Any]]:
    """The result of each row, its value, and what is known of asking about several together."""
    from archytas_nb.batch.together import MapTogether

    together = MapTogether(asked, questions, rows, verify)
    return (*together.results(), {"rows": together.record})


def _name_of(data: Any, library: str) -> str:
    """The name in a program for the value of a row without columns."""
    if library and not hasattr(data, "columns"):  # of a frame, a column may be called name
        return str(data.name or "value")
    return "value"


def _hidden_columns(setup: RunSetup) -> set[str]:
    """The names that were made in runs, perhaps from values that the model may not see."""
    if not setup.hides_values:
        return set()
    from archytas_nb.kernel.disclosure import names_made_in_runs

    return names_made_in_runs


def _code(rows: PlannedRows) -> str:
    """The code of a map that was planned; why there is none, as a comment."""
    from archytas_nb.code.programs import CannotTranslate
    from archytas_nb.code.rows import code_of_rows

    try:
        return code_of_rows(rows).code.text
    except CannotTranslate as why:
        return f"# not plain Python: {why}"
    except Exception as error:  # noqa: BLE001 - the answers of a map are not lost for a text
        return f"# not plain Python: {type(error).__name__}: {error}"


def _check_plan(plan: Any, verify: Any, max_fallback: Any) -> None:
    """Raise ValueError for an invalid option of a plan."""
    if plan not in (True, False, "auto") or not isinstance(plan, (bool, str)):
        raise ValueError(f"plan is {plan!r}; expected True, False or 'auto'")
    if type(verify) is not int or verify < 0:
        raise ValueError(f"verify is {verify!r}; expected a number of rows, or 0 for none")
    is_number = isinstance(max_fallback, Real) and not isinstance(max_fallback, bool)
    if not is_number or not 0 <= max_fallback <= 1:
        raise ValueError(f"max_fallback is {max_fallback!r}; expected a share from 0 to 1")


def _check_ways(rows: Any, when: Any, plan: Any, executor: Any, unsure: Any) -> None:
    """Raise ValueError for ways to send rows that do not exist, or do not work together."""
    if type(rows) is not int or not 1 <= rows <= MAX_ROWS:
        raise ValueError(f"rows is {rows!r}; expected a number of rows from 1 to {MAX_ROWS}")
    if when not in ("now", "batch"):
        raise ValueError(f"when is {when!r}; expected 'now' or 'batch'")
    others = {"plan": plan is not False, "executor": executor is not None}
    if when == "batch":
        for name, is_given in others.items():
            if is_given:
                raise ValueError(f"when='batch' does not work with {name}=: leave out one of them")
    others["unsure"] = unsure is not None  # how sure a list is says nothing of its rows
    for name, is_given in others.items():
        if rows > 1 and is_given:
            raise ValueError(f"rows={rows} does not work with {name}=: leave out one of them")


def _map_of(
    setup: RunSetup, questions: Sequence[str], when: str, options: Mapping[str, Any]
) -> Map:
    """A map that sends the rows in batches if that is wanted, or collects those that are."""
    from archytas_nb.batch.engine import Map

    asked = Map(setup, questions, **options)
    if when == "batch" or asked.is_in_batches:
        from archytas_nb.batch.in_batches import InBatches

        asked.sender = InBatches(asked, is_collecting=when != "batch")
    return asked


def _may_be_planned(items: Sequence[Any], prompt: str, tools: Sequence[Any]) -> bool:
    """Whether the prompt has columns and there are tools, as a plan needs both."""
    return bool(items and tools) and bool(Template(prompt, columns_in(items)).fields)


def _stated(result: RowResult) -> dict[str, Any]:
    """The columns next to the answer, see `COLUMNS`."""
    is_cost_known = result.usage.usd or result.is_repeated
    return {
        "status": result.status,
        "error": result.error,
        "tokens": result.usage.tokens,
        "cost": result.usage.usd if is_cost_known else None,
        "seconds": result.seconds,
    }


def _library_of(data: Any) -> str:
    """The library of the frame that is returned; empty for a list of records."""
    library = library_of(data)
    if library in ("pandas", "polars"):
        return library
    if table_of(data) is not None:
        raise _not_rows(data)
    return ""


def _items(data: Any) -> list[Any]:
    """The rows: mappings by column, or values."""
    table = table_of(data)
    if table is not None:
        _check_columns(table.names)
        return table.records()
    column = column_of(data)
    if column is not None:
        return list(data) if library_of(data) == "pandas" else column.values(slice(None))
    is_text = isinstance(data, (str, bytes, Mapping))
    if is_text or not isinstance(data, Iterable):
        raise _not_rows(data)
    if not isinstance(data, (Sequence, AbstractSet, MappingView)) and hides_rows(data):
        raise _not_rows(data)
    items = list(data)
    if isinstance(data, Iterator) and items and table_of(items[0]) is not None:
        raise _not_rows(data)  # a table in parts
    return items


def _not_rows(data: Any) -> Exception:
    """The error for data whose rows are not read, with the way to them."""
    text = f"data is of type {type(data).__name__!r}; expected a Series, a DataFrame or a list"
    if way := way_to_rows(data):
        return argument_error(f"{text}; use {way} to make one of it")
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        text += ". Iterating over it does not give its rows: make a list of them"
    return argument_error(text)


def _labels(data: Any) -> list[str]:
    """The labels of the rows in the index; empty if it only counts them.

    A single number without a name is the place that a row had before others were left out.
    """
    levels = index_of(data)
    told = [
        each for each in levels if each.name is not None or each.kind != "number" or len(levels) > 1
    ]
    names = [each.label or "index" for each in told]
    values = [each.values(slice(None)) for each in told]
    return [_lines(zip(names, each, strict=True)) for each in zip(*values, strict=True)]


def _check_columns(names: Sequence[Any]) -> None:
    """Raise ValueError if two columns have the same name, as in ``{name}`` of a prompt.

    So have 1 and ``"1"``, which are written alike, and 1 and 1.0, which pandas takes for one.
    """
    written, known = Counter(map(str, names)), Counter(names)
    twice = [str(each) for each in names if written[str(each)] > 1 or known[each] > 1]
    if twice:
        shown = ", ".join(map(repr, dict.fromkeys(twice)))
        raise ValueError(
            f"several columns are named {shown}; expected different names. Rename them with "
            "data.columns = […]"
        )


def questions_of(items: Sequence[Any], prompt: str, labels: Sequence[str] = ()) -> list[str]:
    """The question for each row: ``{column}`` is replaced; a row without it follows the prompt.

    `labels` is what the index says of each row; it precedes a row that follows the prompt.

    Raises:
        ValueError: The prompt is empty, or names a column that there is not.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"the prompt is {prompt!r}; expected a text that says what to do")
    if not items:
        return []
    template = Template(prompt, columns_in(items))
    if template.has_fields:
        rows = [{str(name): value for name, value in item.items()} for item in items]
        return [template.filled(row) for row in rows]
    asked = template.filled({}).strip()
    if not labels:
        return [f"{asked}\n\n{_shown(item)}" for item in items]
    pairs = zip(labels, items, strict=True)
    return [f"{asked}\n\n{label}\n{_shown(item)}" for label, item in pairs]


def columns_in(items: Sequence[Any]) -> list[str]:
    """The names of the columns of rows; none if not all of them have columns."""
    if not all(isinstance(item, Mapping) for item in items):
        return []
    return list(dict.fromkeys(str(name) for item in items for name in item))


def columns_of(
    output_type: Any, beside: Sequence[str] = COLUMNS
) -> tuple[list[str], Callable[[Any], Mapping[str, Any]]]:
    """The columns of an answer of a type, and what takes one apart.

    Raises:
        ValueError: A field has the name of another column.
    """
    if dataclasses.is_dataclass(output_type):
        names = [each.name for each in dataclasses.fields(output_type)]
    elif is_typeddict(output_type):
        names = list(output_type.__annotations__)
    else:  # a pydantic model or a named tuple
        names = list(getattr(output_type, "model_fields", getattr(output_type, "_fields", ())))
    if not names:
        return ["answer"], lambda value: {"answer": value}
    for name in names:
        if name in beside:
            raise ValueError(f"the result has its own column {name!r}; rename the field")

    def parts(value: Any) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        return {name: getattr(value, name) for name in names}

    return names, parts


def _shown(item: Any) -> str:
    return _lines(item.items()) if isinstance(item, Mapping) else value_text(item)


def _lines(pairs: Iterable[tuple[Any, Any]]) -> str:
    """Names and values, one below the other."""
    return "\n".join(f"{name}: {value_text(value)}" for name, value in pairs)


# ── how often answers are right ───────────────────────────────────────────────────────────────────


@hinted
class Score(NamedTuple):
    """How often the answers of a model were right, to one question or to all.

    ``rate`` is the share of the runs that ended; its 95 % interval (Wilson's) is from ``low`` to
    ``high``. Runs without a reply of the model are left out: at the end of a budget, or where the
    endpoint failed. ``tokens`` and ``usd`` are those of all runs.
    """

    model: str
    question: str
    passed: int
    runs: int
    tokens: int
    usd: float

    @property
    def rate(self) -> float:
        """The share of runs that passed; not a number where there was none."""
        if self.runs:
            return self.passed / self.runs
        return math.nan

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return wilson(self.passed, self.runs)[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return wilson(self.passed, self.runs)[1]


class Case(NamedTuple):
    """A question, what is expected, and whether an answer is right."""

    question: str
    expected: Any
    check: Callable[[Any, Any], Any]


@hinted
class Evaluation(NamedTuple):
    """The scores of one or several models.

    Attributes:
        cases: The score of each model and question.
        totals: The score of each model.
        calibrations: With `unsure`, for each model how well its confidence tells whether an answer
            is right.
    """

    cases: tuple[Score, ...]
    totals: tuple[Score, ...]
    calibrations: tuple[Calibration, ...] = ()

    @property
    def calibration(self) -> Calibration:
        """The calibration of the first model.

        Raises:
            ValueError: The confidence was not asked for.
        """
        if not self.calibrations:
            raise ValueError(
                "there is no calibration: evaluate with unsure=0 and an output_type= of options"
            )
        return self.calibrations[0]

    @property
    def rate(self) -> float:
        """The pass rate of the first model."""
        return self.totals[0].rate

    def __repr__(self) -> str:
        """A line for each question and one for all, the models side by side."""
        from archytas_nb.trace.safe import Table
        from archytas_nb.trace.text import grid_lines

        head = ["question"]
        for each in self.totals:
            head += [each.model, "95 %", "tokens", "USD"]
        number = len(self.cases) // len(self.totals)
        rows = [self.cases[at::number] for at in range(number)]
        lines = [(scores[0].question, *_cells(scores)) for scores in (*rows, self.totals)]
        table = Table(tuple(head), tuple(lines))
        shown = grid_lines(table, len(lines), width=10_000, cell=60)
        return "\n".join([*shown, *map(str, self.calibrations)])


def evaluated(
    setup: RunSetup,
    cases: Sequence[Any],
    runs: int,
    models: Sequence[Any],
    *,
    unsure: float | None = None,
    **options: Any,
) -> Evaluation:
    """Ask every question `runs` times with each model; the options are those of `Map`."""
    from archytas_nb.batch.engine import Map
    from archytas_nb.cassettes.switch import given_name

    if type(runs) is not int or runs < 1:
        raise ValueError(f"runs is {runs!r}; expected a whole number above 0")
    read = [_case(each, typed=options["output_type"] is not None) for each in cases]
    if not read:
        raise ValueError("there are no cases; expected tuples (question, expected)")
    questions = [question for question, _, _ in read for _ in range(runs)]
    # A row of a map is asked once and then known: the salt makes each run another row.
    salts = [str(run) for _ in read for run in range(runs)]
    sure = Sure(unsure)
    setup = sure.setup(setup)
    scores = []
    totals = []
    calibrations = []
    names = list[str]()
    for model in models or [setup.choice.given]:
        name = given_name(model)
        # The same model can be given twice, such as with two temperatures.
        if name in names:
            name = f"{name} ({len(names) + 1})"
        names.append(name)
        with_model = replace(setup, choice=ModelChoice(model))
        asked = Map(with_model, questions, salts, name=name, **options)
        sure.check(asked)
        answers = list(zip(*asked.results(), strict=True))
        asked.show(asked.line(), final=True)
        if sure.is_wanted:
            expected = [case for case in read for _ in range(runs)]
            calibrations.append(_calibration(asked, expected, answers))
        answers = [(sure.judged(asked, result), value) for result, value in answers]
        mine = []
        for at, case in enumerate(read):
            part = answers[at * runs : (at + 1) * runs]
            mine.append(_score(name, case, part))
        scores += mine
        totals.append(
            Score(
                model=name,
                question=f"all {len(read)}",
                passed=sum(each.passed for each in mine),
                runs=sum(each.runs for each in mine),
                tokens=sum(each.tokens for each in mine),
                usd=sum(each.usd for each in mine),
            )
        )
    return Evaluation(tuple(scores), tuple(totals), tuple(calibrations))


def _calibration(
    asked: Map, cases: Sequence[Case], answers: Sequence[tuple[RowResult, Any]]
) -> Calibration:
    """How well the confidence of answers tells whether they are right."""
    return calibrated(
        [
            (confidence_of(asked, result), bool(case.check(value, case.expected)))
            for case, (result, value) in zip(cases, answers, strict=True)
            if result.status == "done"
        ]
    )


def _score(model: str, case: Case, answers: Sequence[tuple[RowResult, Any]]) -> Score:
    """How often a model's answers to one question, with their values, were right."""
    question, expected, check = case
    ended = [(result, value) for result, value in answers if result.ended_by_model]
    passed = 0
    for result, value in ended:
        if result.status == "done" and check(value, expected):
            passed += 1
    used = sum((result.usage for result, _ in answers), Usage())
    return Score(model, question, passed, len(ended), used.tokens, used.usd)


def _case(given: Any, *, typed: bool) -> Case:
    """A case with its check; raises ValueError for anything else."""
    fault = ValueError(
        f"a case is {given!r}; expected (question, expected) or (question, expected, check)"
    )
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise fault
    question, expected = given[:2]
    if not isinstance(question, str) or not question.strip():
        raise fault
    check = given[2] if len(given) == 3 else None
    if check is None:
        check = operator.eq if typed else _contains
    if not callable(check):
        raise fault
    return Case(question, expected, check)


def _contains(answer: Any, expected: Any) -> bool:
    return str(expected).casefold() in str(answer).casefold()


def _cells(scores: Sequence[Score]) -> list[str]:
    cells = []
    for each in scores:
        cells.append(f"{each.passed}/{each.runs}")
        cells.append(f"{each.low:.0%} to {each.high:.0%}")
        cells.append(f"{each.tokens:,}")
        cells.append(f"{each.usd:.4f}" if each.usd else "")
    return cells
