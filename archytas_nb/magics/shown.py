"""The output of the magics about a conversation: its questions, their costs and changes.

It is imported with the extension, so it imports the trace and the kernel only when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archytas_nb.conversation import NO_COSTS
from archytas_nb.magics.overview import Overview, TextResult
from archytas_nb.words import clock, collapse_whitespace, count, counted

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.conversation import AskedRun, Costs, Paid, Removed
    from archytas_nb.effects.ledger import Effect
    from archytas_nb.loop.events import CallOutcome, Diff, ToolCall
    from archytas_nb.loop.record import Exchange
    from archytas_nb.run import Run


def history(
    exchanges: Sequence[Exchange],
    runs: Sequence[AskedRun],
    paid: Costs = NO_COSTS,
    last: Run | None = None,
) -> Overview:
    """The questions of a conversation, each with its cell, its time and its tokens.

    Notes say what they cost, why there are many tokens, and how the price can be known.
    """
    from archytas_nb.trace.safe import words_of
    from archytas_nb.trace.view import ending_text, ending_title

    asked = {id(each.exchange): each for each in runs if each.exchange is not None}
    rows = []
    for exchange in exchanges:
        found = asked.get(id(exchange))  # none where it was loaded from a file
        called = counted(call.name for step in exchange.steps for call in step.calls)
        said = ending_title(exchange.ending), words_of(ending_text(exchange.ending))
        ending = ": ".join(filter(None, said))
        shown = (
            collapse_whitespace(exchange.question, 60),
            collapse_whitespace(called, 60),
            collapse_whitespace(ending, 80),
        )
        took = tokens = number = ""
        if found is not None:
            number = found.label
            took = clock(found.run.seconds)
            tokens = f"{found.run.usage.tokens:,}" if found.run.usage.tokens else ""
        rows.append((number, *shown, took, tokens))
    head = ("cell", "question", "tools called", "answer", "took", "tokens")
    return Overview(head, tuple(rows), notes=tuple(_cost_notes(paid, last)))


_MUCH = 0.5
"""The share of a request from which on the earlier questions are named as its reason."""


def _cost_notes(paid: Costs, run: Run | None) -> Iterator[str]:
    from importlib.util import find_spec

    from archytas_nb import extras

    if not paid.kernel:
        return
    scopes = {"last question": paid.last, "conversation": paid.conversation, "kernel": paid.kernel}
    shown = []
    for scope, each in scopes.items():
        if each and each not in shown:
            yield f"{scope}: {_cost(each)}"
            shown.append(each)
    share = _earlier_share(run)
    if share >= _MUCH:
        yield (
            f"About {share:.0%} of the request were earlier questions and answers: "
            "%agent --new QUESTION begins without them."
        )
    if any(each.usage.requests and each.usd is None for each in paid.kernel):
        yield "The price of the model is not known."
        if find_spec("genai_prices") is None:
            yield f"For more prices:\n  {extras.install('prices')}"


def _earlier_share(run: Run | None) -> float:
    """The share of the first request of a run that earlier questions take, by an estimate."""
    from archytas_nb.loop.events import AskModel
    from archytas_nb.loop.tokens import json_tokens, message_tokens

    asked = (each for each in run.events if isinstance(each, AskModel)) if run else iter(())
    first = next((each for each in asked if not each.is_side_request), None)
    if first is None:
        return 0.0
    earlier = message_tokens(list(first.messages[1:-1]))
    return earlier / max(message_tokens(list(first.messages)) + json_tokens(first.tools), 1)


def _cost(paid: Sequence[Paid]) -> str:
    """The cost of questions, in words; ``+`` marks an incomplete sum."""
    asked = [each for each in paid if each.usage.requests]
    usages = [each.usage for each in asked]
    counted = [each for each in usages if each.input_tokens or each.output_tokens]

    def summed(values: Sequence[float], form: str) -> str:
        if not values and asked:
            return "unknown"
        mark = "+" if len(values) < len(asked) else ""
        return f"{sum(values):{form}}{mark}"

    tokens = summed([each.input_tokens for each in counted], ",")
    cached = summed([each.cached_tokens for each in counted], ",")
    parts = [
        count(sum(each.requests for each in usages), "request"),
        f"{tokens} tokens in ({cached} cached)",
        f"{summed([each.output_tokens for each in counted], ',')} out",
        f"{sum(each.seconds for each in paid):.1f} s of the model",
        f"USD {summed([each.usd for each in asked if each.usd is not None], '.4f')}",
    ]
    if len(paid) > 1:
        parts.insert(0, count(len(paid), "question"))
    return ", ".join(parts)


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
    lines = [f"  {collapse_whitespace(_asks(each), 90)}" for each in entries[:_SHOWN]]
    if len(entries) > _SHOWN:
        lines.append(f"  … and {len(entries) - _SHOWN:,} more")
    return "\n".join(lines)


def _asks(entry: Any) -> str:
    """The request of a recorded exchange: the last message to the model, or a person's question."""
    if hasattr(entry, "prompt"):
        return str(entry.prompt)
    return str(entry.request.messages[-1].content.get("content"))


# ── what runs changed in the variables ────────────────────────────────────────────────────────────


def undone(removed: Removed, *, force: bool) -> list[str]:
    """Put the variables back to where they were before a run; returns what was done, in words."""
    from archytas_nb.loop.events import Kept

    asked = removed.asked
    if asked is None:
        return ["note: it was loaded from a file: what it changed is not known here"]
    diff = asked.run.diff
    if not (asked.run.is_watched or diff.changes or asked.run.effects):
        return ["note: what it changed was not watched, so no variable was restored"]
    tried = {each.name for each in asked.kept} or {each.name for each in diff.changes}
    left = [each for each in asked.run.undo(force=force) if each not in diff.not_watched]
    asked.kept = tuple(each for each in left if isinstance(each, Kept))
    failed = {each.name for each in left}
    lines = _moved(diff, set() if "" in failed else tried - failed, back=False)
    lines += _files_moved(asked.run.effects, failed, back=False)
    lines += [f"kept: {each}" for each in asked.kept]
    if asked.kept:
        lines.append("%agent_undo --force undoes that, too; your later changes of it are then lost")
    lines += [f"note: {each}" for each in left if not isinstance(each, Kept)]
    if diff.unseen:
        lines.append(f"not watched: {', '.join(map(str, diff.unseen))}")
    return lines


def redone(removed: Removed) -> list[str]:
    """Bring back what an undo has replaced; returns what was done, in words."""
    from archytas_nb.loop.events import Kept

    asked = removed.asked
    if asked is None:
        return []
    diff = asked.run.diff
    not_undone = {each.name for each in asked.kept}
    left = asked.run.redo()
    asked.kept = ()
    names = {each.name for each in diff.changes} - not_undone - {each.name for each in left}
    lines = _moved(diff, names, back=True)
    lines += _files_moved(asked.run.effects, {each.name for each in left}, back=True)
    return lines + [f"{'kept' if isinstance(e, Kept) else 'note'}: {e}" for e in left]


def _moved(diff: Diff, names: set[str], *, back: bool) -> list[str]:
    """The changes that an undo or redo has restored and deleted, in words."""
    whole = {_root(each.name) for each in diff.changes if each.name not in names}
    done: dict[str, dict[str, None]] = {"restored": {}, "deleted": {}}
    for change in diff.changes:
        if change.name not in names:
            continue
        root = _root(change.name)
        is_deleted = change.kind == ("deleted" if back else "created")
        name = change.name if root in whole else root
        done["deleted" if is_deleted else "restored"][name] = None
    return [f"{what}: {', '.join(those)}" for what, those in done.items() if those]


def _files_moved(effects: Sequence[Effect], left: Collection[str], *, back: bool) -> list[str]:
    """The files that were restored and deleted, in words."""
    done: dict[str, dict[str, None]] = {"restored": {}, "deleted": {}}
    for effect in effects:
        state = effect.after if back else effect.before
        if state is not None and effect.can_be_undone and effect.shown not in left:
            what = "deleted" if state.what == "missing" else "restored"
            done[what][effect.shown] = None
    return [f"{what}: {', '.join(those)}" for what, those in done.items() if those]


def changes(diff: Diff, effects: Sequence[Effect] = ()) -> Overview:
    """The changes of a run, the variables without undo, and its effects outside of the kernel."""
    from archytas_nb.effects.told import told

    rows: list[tuple[str, ...]] = [
        (" = ".join((each.name, *each.also)), each.kind, "; ".join(each.words))
        for each in diff.changes
    ]
    rows += [(each.name, "not watched", each.why) for each in diff.unseen]
    rows += [(each.name, "cannot be undone", each.why) for each in diff.not_kept]
    rows += [(each.name, each.kind, "; ".join(each.details)) for each in told(effects)]
    empty = "the last question changed no variable and no file"
    return Overview(("variable or file", "", "change"), tuple(rows), empty)


def why(name: str, asked: Sequence[AskedRun], cells: Sequence[str], shell: Any) -> str | None:
    """The runs and cells that changed a variable, the last one first.

    None if nothing is known, and there is no variable of this name.
    """
    found = [
        (each.cell, 1, each.number, place, text)
        for each in asked
        for place, text in enumerate(_changes_in(each, name))
    ]
    for number, source in enumerate(cells):
        if number and name in source:
            lines = _lines(shell.transform_cell(source), name)
            if any(changed for _, changed in lines):
                found.append((number, 0, 0, 0, f"cell {number}"))
    texts = [each[-1] for each in sorted(found, reverse=True)]
    if not texts and name not in shell.user_ns:
        return None
    known = "\nbefore that: ".join(texts[:5]) or f"there is no record of what changed {name!r}"
    notes = list(_not_watched(name, asked))
    others = _names_of_the_same(name, shell.user_ns)
    if others:
        which = f"{', '.join(others)}; cells may have changed it by that name"
        notes.append(f"the same object is also bound to: {which} (%agent_why {others[0]})")
    return "\n".join([known, *notes])


def why_file(name: str, asked: Sequence[AskedRun]) -> str | None:
    """The runs that created, changed or deleted a file, the last one first; None if none did."""
    from archytas_nb.effects.ledger import entry_of
    from archytas_nb.effects.told import told

    path = str(entry_of(Path(name).expanduser()))
    texts = []
    for each in asked:
        removed = " (removed)" if each.is_undone else ""
        for step in each.run.steps:
            for call, outcome in step.calls:
                own = [one for one in outcome.effects if one.before and one.target == path]
                texts += [
                    f"{each.place}{removed}, step {step.number}, {call.name}: "
                    + " ".join([line.name, line.kind, *(f"({part})" for part in line.details)])
                    for line in told(own)
                ]
    return "\nbefore that: ".join(list(reversed(texts))[:5]) or None


def _not_watched(name: str, asked: Sequence[AskedRun]) -> Iterator[str]:
    """The runs that may have changed a variable, or a part of it, without being watched."""
    unseen = [
        each.place + (" (removed)" if each.is_undone else "")
        for each in asked
        if not each.run.is_watched
    ]
    if unseen:
        yield f"not watched: {', '.join(unseen)}"
    for each in asked:
        parts = [note for note in each.run.diff.unseen if _root(note.name) == name]
        if parts and not each.is_undone:
            yield f"not watched in {each.place}: {', '.join(map(str, parts))}"


def _names_of_the_same(name: str, namespace: Mapping[str, Any]) -> list[str]:
    """The other variables that are bound to the object of this one, if it can change."""
    from archytas_nb.objects.equality import only_atoms
    from archytas_nb.tools.variables import user_names

    value = namespace.get(name)
    if only_atoms([value]):
        return []
    return [each for each in user_names(namespace) if each != name and namespace[each] is value]


def _changes_in(asked: AskedRun, name: str) -> Iterator[str]:
    """The changes of a variable by a run; of one that was undone, those that were kept."""
    kept = {each.name for each in asked.kept}
    for where, call, diff in _diffs(asked.run):
        for change in diff.changes:
            names = {_root(change.name), *change.also}
            if name in names and not (asked.is_undone and change.name not in kept):
                words = collapse_whitespace("; ".join(change.words), 100)
                place = f"{asked.place}, {where}{_line(call, names)}"
                yield f"{place}: {change.name} {change.kind} ({words})"


def _diffs(run: Run) -> Iterator[tuple[str, ToolCall | None, Diff]]:
    """The changes of each call of a run, and where; then the assigned variables."""
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
    from archytas_nb.syntax.bindings import Bindings

    try:
        uses = Bindings.of(code).uses
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        (each.line, each.act != "read") for each in uses if each.name == name and not each.is_local
    ]


def _root(name: str) -> str:
    """The variable by which an object is reached."""
    return re.split(r"\W", name, maxsplit=1)[0]
