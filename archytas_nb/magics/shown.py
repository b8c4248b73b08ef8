"""What the magics show of a conversation: its questions, what they cost and what they changed.

It is imported with the extension, so it imports the trace and the kernel only when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archytas_nb.magics.overview import Overview, TextResult
from archytas_nb.words import count, counted, one_line

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
    from archytas_nb.loop.record import Exchange
    from archytas_nb.magics.history import Asked, Paid
    from archytas_nb.run import Run


def history(exchanges: Sequence[Exchange]) -> Overview:
    """The exchanges of a conversation, in order."""
    from archytas_nb.trace.endings import ending_text, ending_title
    from archytas_nb.trace.safe import outline

    rows = []
    for number, exchange in enumerate(exchanges, start=1):
        called = counted(call.name for step in exchange.steps for call in step.calls)
        said = ending_title(exchange.ending), outline(ending_text(exchange.ending))
        ending = ": ".join(filter(None, said))
        shown = one_line(exchange.question, 60), one_line(called, 60), one_line(ending, 80)
        rows.append((str(number), *shown))
    return Overview(("", "question", "tools called", "answer"), tuple(rows))


def cost(last: Sequence[Paid], conversation: Sequence[Paid]) -> Overview:
    """What the last question and the conversation cost; ``+`` marks an incomplete sum."""
    counted = ("questions", "requests", "tokens in", "cached", "tokens out", "model seconds")
    head = ("", *counted, "USD")
    if not conversation:
        return Overview(head, ())
    rows = (_cost_row("last question", last), _cost_row("conversation", conversation))
    return Overview(head, rows)


def _cost_row(label: str, paid: Sequence[Paid]) -> tuple[str, ...]:
    asked = [each for each in paid if each.usage.requests]
    usages = [each.usage for each in asked]
    counted = [each for each in usages if each.input_tokens or each.output_tokens]

    def summed(values: Sequence[float], form: str) -> str:
        if not values and asked:
            return "unknown"
        mark = "+" if len(values) < len(asked) else ""
        return f"{sum(values):{form}}{mark}"

    return (
        label,
        str(len(paid)),
        f"{sum(each.requests for each in usages):,}",
        summed([each.input_tokens for each in counted], ","),
        summed([each.cached_tokens for each in counted], ","),
        summed([each.output_tokens for each in counted], ","),
        f"{sum(each.seconds for each in paid):.1f}",
        summed([each.usd for each in asked if each.usd is not None], ".4f"),
    )


def cassette_state(cassette: Cassette | None) -> TextResult:
    """The cassette in use, and its exchanges so far: replayed, recorded, missed and unused."""
    if cassette is None:
        return TextResult("no cassette is in use")
    tally = cassette.tally
    counts = {
        "replayed": tally.replayed,
        "recorded": tally.recorded,
        "missed": len(tally.missed),
        "unused": cassette.unused,
    }
    parts = [count(cassette.count, "exchange")]
    parts += [f"{number} {what}" for what, number in counts.items() if number]
    return TextResult(f"{cassette.path} ({cassette.mode}): {', '.join(parts)}")


_SHOWN = 10  # exchanges of a cassette that would be removed


def never_used(cassette: Cassette) -> str:
    """The exchanges that this kernel has not used, a line for each of the first ones."""
    entries = cassette.tape.never_used
    lines = [f"  {one_line(_asks(each), 90)}" for each in entries[:_SHOWN]]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN:,} more")
    return "\n".join(lines)


def _asks(entry: Any) -> str:
    """What an exchange of a cassette asks: the model's last message, or a question to a person."""
    if hasattr(entry, "prompt"):
        return str(entry.prompt)
    return str(entry.request.messages[-1].content.get("content"))


# ── what runs changed in the variables ────────────────────────────────────────────────────────────


def undone(asked: Asked) -> str:
    """Put the variables back to where they were before a run; returns what was done, in words."""
    from archytas_nb.kernel.transaction import CHANGED_SINCE
    from archytas_nb.loop.events import CREATED

    diff = asked.run.diff
    left = asked.run.undo()
    failed = {_root(note.name) for note in left if note.why != CHANGED_SINCE}
    done: dict[str, dict[str, None]] = {"restored": {}, "deleted": {}}
    for change in diff.changes:
        name = _root(change.name)
        is_new = change.label == CREATED and name == change.name
        if not failed & {name, ""}:
            done["deleted" if is_new else "restored"][name] = None
    lines = [f"{what}: {', '.join(names)}" for what, names in done.items() if names]
    lines += [f"note: {note}" for note in left]
    if diff.unseen:
        lines.append(f"not watched: {', '.join(map(str, diff.unseen))}")
    return "\n".join(lines)


def changes(diff: Diff) -> Overview:
    """What a run changed, then what was not watched or could not be kept."""
    rows: list[tuple[str, ...]] = [
        (" = ".join((each.name, *each.also)), each.label, "; ".join(each.words))
        for each in diff.changes
    ]
    rows += [(each.name, "not watched", each.why) for each in diff.unseen]
    rows += [(each.name, "cannot be undone", each.why) for each in diff.not_kept]
    empty = "the last question changed no variable"
    return Overview(("variable", "", "change"), tuple(rows), empty)


def why(name: str, asked: Sequence[Asked], cells: Sequence[str], shell: Any) -> str:
    """Which runs and cells changed a variable, the last one first; empty where none is known."""
    found = [
        (each.execution, 1, place, text)
        for each in asked
        for place, text in enumerate(_changes_in(each, name))
    ]
    for number, source in enumerate(cells):
        if number and name in source:
            lines = _lines(shell.transform_cell(source), name)
            if any(changed for _, changed in lines):
                found.append((number, 0, 0, f"cell {number}"))
    texts = [each[-1] for each in sorted(found, reverse=True)]
    unseen = [str(each.number) for each in asked if each.run.watch is None and each.run.calls]
    notes = []
    if unseen and texts:
        notes.append(f"not watched: run {', '.join(unseen)}")
    others = _names_of_the_same(name, shell.user_ns)
    if others:
        which = f"{', '.join(others)}; cells may have changed it by that name"
        notes.append(f"the same object is also bound to: {which} (%agent_why {others[0]})")
    return "\n".join(filter(None, ["\nbefore that: ".join(texts[:5]), *notes]))


def _names_of_the_same(name: str, namespace: Mapping[str, Any]) -> list[str]:
    """The other variables that are bound to the object of this one, if it can change."""
    from archytas_nb.kernel.values import only_atoms
    from archytas_nb.tools.variables import user_names

    value = namespace.get(name)
    if only_atoms([value]):
        return []
    return [each for each in user_names(namespace) if each != name and namespace[each] is value]


def _changes_in(asked: Asked, name: str) -> Iterator[str]:
    for where, call, diff in _diffs(asked.run):
        for change in diff.changes:
            names = {_root(change.name), *change.also}
            if name in names:
                words = one_line("; ".join(change.words), 100)
                place = f"run {asked.number}, {where}{_line(call, names)}"
                yield f"{place}: {change.name} {change.label} ({words})"


def _diffs(run: Run) -> Iterator[tuple[str, ToolCall | None, Diff]]:
    """What each call of a run changed, and where; then what was assigned to variables."""
    for step in run.steps:
        for call, outcome in step.calls:
            if outcome.diff is not None:
                yield f"step {step.number}, {call.name}", _as_run(call, outcome), outcome.diff
    if run.watch is not None:
        for diff in run.watch.assigned:
            yield "--out", None, diff


def _as_run(call: ToolCall, outcome: CallOutcome) -> ToolCall:
    """The call with the input that ran, if a person edited it."""
    if outcome.edit is None:
        return call
    return replace(call, input=outcome.edit.input)


def _line(call: ToolCall | None, names: set[str]) -> str:
    """The line of code that changes an object of these names, or else the last that names it."""
    if call is None or call.name != "python":
        return ""
    code = call.input
    if isinstance(code, dict):
        code = code.get("code")
    if not isinstance(code, str):
        return ""
    lines = [line for name in names for line in _lines(code, name)]
    if not lines:
        return ""
    number, _ = max(lines, key=lambda pair: (pair[1], pair[0]))
    return f" line {number}"


def _lines(code: str, name: str) -> list[tuple[int, bool]]:
    """The lines of code that name a variable, and whether they change it."""
    from archytas_nb.kernel.python import mentions

    try:
        return [(line, changed) for each, line, changed in mentions(code) if each == name]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _root(name: str) -> str:
    """The variable by which an object is reached."""
    return re.split(r"\W", name, maxsplit=1)[0]
