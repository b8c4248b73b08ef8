"""Implements ``%agent_code`` and ``%agent_check``: the code of runs, and whether answers hold."""

from __future__ import annotations

import builtins
import keyword
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.lib.pretty import pretty

from archytas_nb.cells.ran import bound_in
from archytas_nb.errors import AnswerChanged, ConfigurationError, FileError, ToolError
from archytas_nb.magics.line import without_frames
from archytas_nb.magics.overview import NO_QUESTIONS, TextResult
from archytas_nb.tools.names import legal_name

if TYPE_CHECKING:
    from archytas_nb.code.files import FilePart
    from archytas_nb.code.rows import PlannedRows
    from archytas_nb.conversation import AskedRun, History

_MAX_SKILL_NAME = 64
_CELL_NAMES = ("tool", "asyncio")
"""The imports of the cell of a tool that is made from a run."""


def chosen_runs(history: History, which: str) -> list[AskedRun]:
    """The runs that ``--runs`` names, in the order of time.

    Raises:
        UsageError: There are none, or it is neither a word nor numbers.
    """
    runs = history.runs
    if not runs:
        raise UsageError(NO_QUESTIONS)
    if which == "all":
        return list(runs)
    if which == "last":
        return runs[-1:]
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", which)
    if numbers is not None:
        found = [each for each in runs if int(numbers[1]) <= each.cell <= int(numbers[2])]
    elif re.fullmatch(r"\d+(\.\d+)?", which):
        found = [each for each in runs if each.label == which]
    else:
        expected = "expected last, all, or numbers of cells such as 2, 2.2 or 2..5"
        raise UsageError(f"--runs is {which!r}; {expected}")
    if not found:
        known = ", ".join(each.label for each in runs)
        raise UsageError(f"no question was asked in cell {which}; there are {known}")
    return found


def write_code(
    shell: Any,
    history: History,
    file: str | None,
    which: str,
    name: str | None,
    *,
    force: bool = False,
) -> Any:
    """Put the code of runs into the next cell or a file, and say whether it is proved."""
    from archytas_nb.code.derive import derive
    from archytas_nb.code.verify import verify

    if history.is_running:
        raise UsageError("a question is being answered; ask for its code when that has ended")
    if which == "last" and history.planned is not None and name != "skill":
        return _write_rows(shell, history, history.planned, file, name, force=force)
    runs = chosen_runs(history, which)
    if name == "skill" and file is not None:
        return _write_skill(shell, history, runs, file, force=force)
    codes = [(each, each.run.recorded()) for each in runs]
    if name is not None:
        if len(runs) > 1 or file:
            raise UsageError(
                "--as makes a tool of one question, in the next cell: choose the question with "
                "--runs, and leave out the file"
            )
        return _write_function(shell, history, runs[0], name)
    lines = []
    for each, recorded in codes:
        proof = verify(derive(recorded), recorded, _later(history, each))
        lines.append(f"cell {each.label}: {proof}" if len(runs) > 1 else str(proof))
    if file is None:
        shell.set_next_input("\n\n".join(derive(recorded).text for _, recorded in codes))
        return TextResult("\n".join(lines))
    parts, chosen = _parts(shell, history, {each.number for each in runs})
    return _write_file(shell, file, parts, chosen, lines, force=force)


def _write_file(
    shell: Any,
    file: str,
    parts: list[FilePart],
    chosen: list[FilePart],
    lines: list[str],
    *,
    force: bool,
) -> Any:
    """Write the chosen parts, and those that they need, to a file."""
    from archytas_nb.code.files import needed, write

    kept = needed(parts, chosen)
    path = Path(file).expanduser()
    try:
        write(path, kept, shell.user_ns, pretty, force=force)
    except (ValueError, FileError, ImportError) as error:
        raise UsageError(str(error)) from None
    returned = {each for part in parts for each in part.returned}
    missing = sorted(returned & {each for part in kept for each in part.names})
    lines += [
        f"{each!r} is the run of a question, so the file cannot define it" for each in missing
    ]
    return TextResult("\n".join([f"written: {path}", *lines]))


def _write_skill(
    shell: Any, history: History, runs: list[AskedRun], name: str, *, force: bool
) -> Any:
    """Write the code of one run as a skill of the project, if it is proved."""
    from archytas_nb.code.derive import derive
    from archytas_nb.code.files import needed, write_skill
    from archytas_nb.code.verify import verify

    if len(runs) > 1:
        raise UsageError("--as skill makes a skill of one question; choose it with --runs")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) or len(name) > _MAX_SKILL_NAME:
        raise UsageError(
            f"--as skill: {name!r} is not a valid name of a skill; expected at most "
            f"{_MAX_SKILL_NAME} letters from a to z, digits and single hyphens, as in count-by-day"
        )
    [asked] = runs
    recorded = asked.run.recorded()
    proof = verify(derive(recorded), recorded, _later(history, asked))
    if not proof.holds:
        raise UsageError(f"--as skill: only code that is proved becomes a skill; {proof}")
    parts, chosen = _parts(shell, history, {asked.number})
    folder = Path(".agents", "skills", name)
    try:
        kept = needed(parts, chosen)
        written = write_skill(folder, kept, shell.user_ns, recorded.question, force=force)
    except FileError as error:
        raise UsageError(str(error)) from None
    lines = [f"written: {each}" for each in written]
    how = "the model finds it with %config ArchytasNB.skills = ['project']"
    return TextResult("\n".join([*lines, str(proof), how]))


def _write_rows(
    shell: Any,
    history: History,
    planned: PlannedRows,
    file: str | None,
    name: str | None,
    *,
    force: bool,
) -> Any:
    """Put the code of a map that was planned into the next cell or a file."""
    from archytas_nb.code.files import FilePart
    from archytas_nb.code.programs import CannotTranslate
    from archytas_nb.code.rows import code_of_rows

    if name is not None:
        if file:
            raise UsageError("--as makes a tool in the next cell: leave out the file")
        _check_name(shell, name)
    try:
        code = code_of_rows(planned, name or "answer_row")
        text = code.code.text if name is None else code.function.cell
    except CannotTranslate as why:
        reason = f"the program of the map cannot be written as plain Python: {why}"
        raise UsageError(reason) from None
    proof = str(code.proof())
    if file is None:
        shell.set_next_input(text)
        return TextResult(proof)
    parts, _ = _parts(shell, history, set())
    part = FilePart(code.code.body, code.code)
    return _write_file(shell, file, [*parts, part], [part], [proof], force=force)


def _check_name(shell: Any, name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(
            f"--as: {name!r} is not a valid name of a function; expected letters, digits and _, "
            "such as count_by_day"
        )
    try:
        legal_name(name)
    except ToolError:
        expected = "expected letters from a to z, digits and _, and no action such as final_answer"
        raise UsageError(f"--as: {name!r} is not a valid name of a tool; {expected}") from None
    if name in _CELL_NAMES or hasattr(builtins, name):
        raise UsageError(f"--as: the cell itself uses the name {name!r}; choose another name")
    for each in (name, f"test_{name}"):
        if each in shell.user_ns:
            raise UsageError(f"--as: {each!r} is a variable already; choose another name")


def _later(history: History, asked: AskedRun) -> list[Any]:
    """The changes of the runs after one, the last one first."""
    return [each.run.watch for each in reversed(history.runs) if each.number > asked.number]


def _parts(
    shell: Any, history: History, numbers: set[int]
) -> tuple[list[FilePart], list[FilePart]]:
    """The cells of the notebook with the code of runs in the places of their questions."""
    from archytas_nb.cells.ran import failed_in
    from archytas_nb.code.derive import comment, derive
    from archytas_nb.code.files import FilePart, cell_part

    asked: dict[int, list[AskedRun]] = {}
    for each in history.runs:
        asked.setdefault(each.cell, []).append(each)
    calls: dict[int, list[AskedRun]] = {}  # by other programs
    for each in history.asked:
        if each.is_call and each.run.diff:
            calls.setdefault(each.cell, []).append(each)
    parts: list[FilePart] = []
    chosen: list[FilePart] = []
    failed = failed_in(shell)
    for number, source in enumerate(shell.history_manager.input_hist_raw):
        cell = cell_part(source) if number and number not in failed else None
        if cell is not None:
            parts.append(cell)
        for each in asked.get(number, []):
            code = derive(each.run.recorded())
            part = FilePart(code.body, code)
            parts.append(part)
            if each.number in numbers:
                chosen.append(part)
        for each in calls.get(number, []):
            code = derive(each.run.recorded())
            parts.append(FilePart(f"{comment(code.question)}\n{code.body}"))
    return parts, chosen


def _write_function(shell: Any, history: History, asked: AskedRun, name: str) -> Any:
    """Put the code of a run into the next cell as a tool, and say whether that is proved."""
    from archytas_nb.code.derive import derive
    from archytas_nb.code.function import as_function
    from archytas_nb.code.verify import verify

    _check_name(shell, name)
    recorded = asked.run.recorded()
    code = derive(recorded)
    try:
        function = as_function(code, recorded, name)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    shell.set_next_input(function.cell)
    return TextResult(str(verify(function.proof(code), recorded, _later(history, asked))))


def check_answers(shell: Any, history: History, which: str, *, strict: bool) -> Any:
    """Say of each answer whether it still holds.

    Raises:
        AnswerChanged: One does not, and `strict` is set.
    """
    if history.is_running:
        raise UsageError("a question is being answered; check when that has ended")
    lines = []
    has_changed = False
    for each in chosen_runs(history, which):
        if each.run.status != "answered":
            continue
        found = each.run.check()
        has_changed |= found.status == "changed"
        how = {name: _changed(shell, history, name, each) for name in found.changed}
        lines.append(f"cell {each.label}: {found.text(how)}")
    text = "\n".join(lines) or "no question was answered in these runs"
    if strict and has_changed:
        raise without_frames(AnswerChanged(f"answers no longer hold:\n{text}"))
    return TextResult(text)


def _changed(shell: Any, history: History, name: str, since: AskedRun) -> str:
    """How a variable changed since a run: in which cell, if that was seen."""
    from archytas_nb.undo.reads import variables_of

    seen = bound_in(shell, name)
    for each in history.past:
        if name in variables_of(each.run.diff) and not each.is_undone:
            seen = max(seen, each.cell)
    mentioned = _last_mentioned(shell, name)
    parts = []
    if seen > since.cell:
        parts.append(f"changed in cell {seen}")
    else:
        seen = since.cell
        parts.append("changed")
    if mentioned > seen:
        parts.append(f"last mentioned in cell {mentioned}")
    return ", ".join(parts)


def _last_mentioned(shell: Any, name: str) -> int:
    """The last cell whose code names a variable, or another name of its object; 0 if none does."""
    from archytas_nb.code.files import cell_part, without_magics
    from archytas_nb.syntax.bindings import Bindings
    from archytas_nb.tools.variables import user_names

    value = shell.user_ns.get(name)
    names = {name} | {each for each in user_names(shell.user_ns) if shell.user_ns[each] is value}
    sources: list[str] = shell.history_manager.input_hist_raw
    for number in range(len(sources) - 1, 0, -1):
        source = sources[number]
        if not any(each in source for each in names):
            continue
        cell = cell_part(source)
        if cell is None:
            continue
        try:
            used = Bindings.of(without_magics(cell.source)).used
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if used & names:
            return number
    return 0
