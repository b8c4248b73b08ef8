"""What the magics show of a conversation: its questions, what they cost and what they changed.

It is imported with the extension, so it imports the trace and the kernel only when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archytas_nb.magics.overview import Message, Overview

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
    from archytas_nb.loop.record import Exchange
    from archytas_nb.magics.history import Asked, Paid


def history(exchanges: Sequence[Exchange]) -> Overview:
    """The exchanges of a conversation, in order."""
    from archytas_nb.trace.view import ending_text, ending_title
    from archytas_nb.words import one_line

    rows = []
    for number, exchange in enumerate(exchanges, start=1):
        called = ", ".join(call.name for step in exchange.steps for call in step.calls)
        said = ending_title(exchange.ending), ending_text(exchange.ending)
        ending = ": ".join(filter(None, said))
        shown = one_line(exchange.question, 60), one_line(called, 60), one_line(ending, 80)
        rows.append((str(number), *shown))
    return Overview(("", "question", "tools called", "answer"), tuple(rows))


def cost(last: Sequence[Paid], conversation: Sequence[Paid]) -> Overview:
    """What the last question and the conversation cost; ``+`` marks an incomplete sum."""
    counted = ("questions", "requests", "tokens in", "cached", "tokens out", "model seconds")
    rows = [_cost_row("last question", last), _cost_row("conversation", conversation)]
    return Overview(("", *counted, "USD"), tuple(rows) if conversation else ())


def _cost_row(label: str, paid: Sequence[Paid]) -> tuple[str, ...]:
    asked = [each for each in paid if each.usage.requests]
    usages = [each.usage for each in asked]
    counted = [each for each in usages if each.input_tokens or each.output_tokens]

    def summed(values: Sequence[float], form: str) -> str:
        if not values and asked:
            return "unknown"
        return f"{sum(values):{form}}{'+' if len(values) < len(asked) else ''}"

    return (
        *(label, str(len(paid)), f"{sum(each.requests for each in usages):,}"),
        summed([each.input_tokens for each in counted], ","),
        summed([each.cached_tokens for each in counted], ","),
        summed([each.output_tokens for each in counted], ","),
        f"{sum(each.seconds for each in paid):.1f}",
        summed([each.usd for each in asked if each.usd is not None], ".4f"),
    )


def cassette_state(cassette: Cassette | None) -> Message:
    """The cassette in use, and its exchanges so far: replayed, recorded, missed and unused."""
    if cassette is None:
        return Message("no cassette is in use")
    tally = cassette.tally
    counts = (tally.replayed, tally.recorded, len(tally.missed), cassette.unused)
    named = zip(counts, ("replayed", "recorded", "missed", "unused"), strict=True)
    parts = [
        f"{cassette.count} exchange{'' if cassette.count == 1 else 's'}",
        *(f"{n} {what}" for n, what in named if n),
    ]
    return Message(f"{cassette.path} ({cassette.mode}): {', '.join(parts)}")


_SHOWN = 10  # exchanges of a cassette that would be removed


def never_used(cassette: Cassette) -> str:
    """The exchanges that this kernel has not used, a line for each of the first ones."""
    from archytas_nb.words import one_line

    entries = cassette.tape.never_used
    lines = [f"  {one_line(_asks(each), 90)}" for each in entries[:_SHOWN]]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN:,} more")
    return "\n".join(lines)


def _asks(entry: Any) -> str:
    """What an exchange of a cassette asks: the model's last message, or a question to a person."""
    if hasattr(entry, "prompt"):
        return str(entry.prompt)
    content = entry.request.messages[-1].content.get("content")
    return content if isinstance(content, str) else str(content)


# ── what runs changed in the variables ────────────────────────────────────────────────────────────


def undone(asked: Asked) -> str:
    """Put the variables back to where they were before a run; returns what was done, in words."""
    from archytas_nb.kernel.transaction import CHANGED_SINCE

    diff, left = asked.run.diff, asked.run.undo()
    names = dict.fromkeys(_root(change.name) for change in diff.changes)
    failed = {_root(note.name) for note in left if note.why != CHANGED_SINCE}
    back = [name for name in names if not failed & {name, ""}]
    lines = [f"restored: {', '.join(back)}"] if back else []
    lines += [f"note: {note}" for note in left]
    unseen = [str(note) for note in diff.unseen]
    return "\n".join(lines + ([f"not watched: {', '.join(unseen)}"] if unseen else []))


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
            found += [(number, 0, 0, f"cell {number}")] * any(changed for _, changed in lines)
    texts = [each[-1] for each in sorted(found, reverse=True)]
    unseen = [str(each.number) for each in asked if each.run.watch is None and each.run.calls]
    notes = [f"not watched: run {', '.join(unseen)}"] * bool(unseen and texts)
    if others := _names_of_the_same(name, shell.user_ns):
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
    from archytas_nb.words import one_line

    run = asked.run
    made: list[tuple[str, ToolCall | None, Diff | None]] = [
        (f"step {step.number}, {call.name}", _as_run(call, outcome), outcome.diff)
        for step in run.steps
        for call, outcome in step.calls
    ]
    made += [("--out", None, diff) for diff in (run.watch.assigned if run.watch else ())]
    for where, call, diff in made:
        for change in diff.changes if diff else ():
            if name in (names := {_root(change.name), *change.also}):
                words = one_line("; ".join(change.words), 100)
                place = f"run {asked.number}, {where}{_line(call, names)}"
                yield f"{place}: {change.name} {change.label} ({words})"


def _as_run(call: ToolCall, outcome: CallOutcome) -> ToolCall:
    """The call with the input that ran, if a person edited it."""
    return call if outcome.edit is None else replace(call, input=outcome.edit.input)


def _line(call: ToolCall | None, names: set[str]) -> str:
    """The line of code that changes an object of these names, or else the last that names it."""
    given = call and (call.input.get("code") if isinstance(call.input, dict) else call.input)
    if call is None or call.name != "python" or not isinstance(given, str):
        return ""
    lines = [line for name in names for line in _lines(given, name)]
    return f" line {max(lines, key=lambda pair: (pair[1], pair[0]))[0]}" if lines else ""


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
