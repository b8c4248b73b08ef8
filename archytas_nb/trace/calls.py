"""Makes the view of a call: its arguments, its result, what it displayed and changed."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from archytas_nb.effects.ledger import Effect
from archytas_nb.effects.told import told
from archytas_nb.loop import events as ev
from archytas_nb.tools.render import (
    IMAGES,
    image_text,
    output_text,
    rich_media_type,
    rich_name,
)
from archytas_nb.trace.safe import table_of
from archytas_nb.trace.view import CallView, Shown
from archytas_nb.words import (
    KEEP,
    LINE_BREAK,
    answered_in_words,
    collapse_whitespace,
    counted,
    keep_both_ends,
    tidy,
    visible,
)

_NOTES = 3  # of variables that are not watched
_CHANGES = 30  # maximum number of rows with changes of a call
_APPROVED = 100_000  # characters of an approved text that the person was shown, and that are kept
_LINE = 60  # a longer approved text is shown below the call
_WIDGET = "application/vnd.jupyter.widget-view+json"
_MARKUP = ("text/markdown", "text/latex")


def call_view(call: ev.ToolCall, earlier: CallView | None = None) -> CallView:
    """A call that has no outcome yet, after an `earlier` one of the same tool."""
    values = _by_name(call.input)
    arguments = tuple((name, _flat(value)) for name, value in values.items())
    texts = tuple((name, tidy(value)) for name, value in values.items() if _has_lines(value))
    before: dict[str, str] = {}
    if earlier is not None:
        before = dict(earlier.arguments)
    differs = tuple(_difference(value, before.get(name, "")) for name, value in arguments)
    name = tidy(call.name, 100) or "(no name)"
    return CallView(name, arguments, texts, differs=differs, input=call.input)


def _decided(call: CallView, outcome: ev.CallOutcome) -> CallView:
    """A call as the user decided on it, with their edits; all of an approved text is kept."""
    decision = ""
    if outcome.decision is not None and outcome.decision.kind != "stopped":  # which is its result
        decision = collapse_whitespace(tidy(outcome.decision.in_words), 300)
    place = f"in a {outcome.place}" if outcome.place else ""
    call = replace(
        call, status=outcome.status, decision=decision, asked=_asked(outcome), place=place
    )
    given = call.input
    if outcome.edit is not None:
        given = outcome.edit.input
        edited = call_view(ev.ToolCall("", call.name, _without_defaults(call.input, outcome.edit)))
        call = replace(
            call, arguments=edited.arguments, texts=edited.texts, differs=(),
            edited=outcome.edit.arguments,
        )  # fmt: skip
    if call.is_approved:
        texts = {name: each for name, each in _by_name(given).items() if isinstance(each, str)}
        call = replace(call, texts=tuple(_approved_texts(texts)))
    return replace(call, input=None)


def _without_defaults(sent: ev.Json, edit: ev.Edit) -> ev.Json:
    """The arguments of an edited call, without those that nobody gave."""
    if not isinstance(edit.input, dict):
        return edit.input
    given = {each.name for each in edit.arguments}.union(_by_name(sent))
    return {name: value for name, value in edit.input.items() if name in given}


def _asked(outcome: ev.CallOutcome) -> str:
    """The words for an answer to the call's question, or for why nobody was asked about it."""
    if outcome.allowed:
        return f"not asked: {outcome.allowed}"
    if outcome.person_seconds is not None:
        return answered_in_words(outcome.person_seconds)
    return ""


def _difference(value: str, earlier: str) -> int:
    """The place where a value begins to differ from an earlier one; -1 if it does not."""
    if value == earlier:
        return -1
    for place, (mine, theirs) in enumerate(zip(value, earlier, strict=False)):
        if mine != theirs:
            return place
    return min(len(value) - 1, len(earlier))


def _by_name(values: ev.Json) -> dict[str, ev.Json]:
    if isinstance(values, dict) and all(str(name).isidentifier() for name in values):
        return values
    if values is None:
        return {}
    return {"": values}


def _has_lines(value: ev.Json) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _flat(value: ev.Json) -> str:
    if _has_lines(value):
        lines = (" ".join(line.split()) for line in value[:KEEP].split("\n"))
        value = f" {LINE_BREAK} ".join(filter(None, lines))
    return literal(value)


def literal(value: ev.Json) -> str:
    """Write a JSON value as Python, but strings in double quotes."""
    if isinstance(value, dict):
        pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return tidy(f"{{{', '.join(pairs)}}}")
    if isinstance(value, list):
        return tidy(f"[{', '.join(map(literal, value))}]")
    if isinstance(value, str):
        return tidy(json.dumps(value[: 2 * KEEP], ensure_ascii=False))
    return tidy(repr(value))


def _approved_texts(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The texts that do not fit into the line of a call, with every character visible."""
    for name, text in texts.items():
        shown = visible(text)
        if _has_lines(text) or len(shown) > _LINE or shown != text:
            yield name, keep_both_ends(shown, _APPROVED)


def with_outcome(call: CallView, outcome: ev.CallOutcome) -> CallView:
    """The call with its outcome, without the runs that it has made."""
    call = _decided(call, outcome)
    text = outcome.for_person or outcome.result
    if outcome.images and text == image_text(outcome.value):  # the image itself is shown
        text = ev.NO_OUTPUT
    if outcome.shared:
        text += f"\n\n{outcome.shared}"
    text = tidy(text)
    is_frame = hasattr(type(outcome.value), "columns")
    table = None
    if is_frame:
        table = table_of(outcome.value)
    known = "" if table else text
    read = ""
    if table or outcome.displays:
        read = tidy(outcome.result + outcome.hint)
    return replace(
        call,
        text=text,
        read=read,
        shown=tuple(_all_shown(outcome, known)),
        table=table,
        changes=_changes(call, outcome),
        remarks=tuple(_remarks(outcome)),
    )


def _all_shown(outcome: ev.CallOutcome, text: str) -> list[Shown]:
    """The messages, texts and displays of a call, with its result's pictures; nothing twice."""
    shown = []
    if outcome.said:
        shown.append(Shown("stdout", tidy(outcome.said)))
    for output in outcome.outputs:
        item = _shown(output)
        is_text = not (item.picture or item.name)
        is_in_text = is_text and (not item.text or item.text in text)
        if outcome.printed or not is_in_text:  # what was shown may be the result itself
            shown.append(item)
    shown += [
        replace(_shown(display), text="", is_result=True)
        for display in outcome.displays
        if not any(_draws_the_same(display, each) for each in outcome.outputs)
    ]
    seen = {item.picture[1] for item in shown if item.picture}
    images = [each for each in outcome.images if each not in seen]
    shown += [Shown("display", picture=("image/png", each)) for each in images]
    return shown


def _changes(call: CallView, outcome: ev.CallOutcome) -> tuple[tuple[str, str, str], ...]:
    """The rows of the table of changes of a call: of variables, then of what is outside."""
    rows: tuple[tuple[str, str, str], ...] = ()
    if outcome.diff is not None:
        passing = _passing_names(call.code)
        rows = change_rows(
            [
                each
                for each in outcome.diff.changes
                if not _is_stored(each, outcome)
                and not (each.kind == "created" and each.name in passing)
            ]
        )
    return (*rows, *effect_rows(outcome.effects))


def _passing_names(code: str) -> set[str]:
    """The names that code binds only on its way: by an import, or as the variable of a loop."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    passing: set[str] = set()
    loops: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            passing.update(each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.For | ast.AsyncFor):
            names = [each for each in ast.walk(node.target) if isinstance(each, ast.Name)]
            loops.update(map(id, names))
            passing.update(each.id for each in names)
    # A name that the code also assigns elsewhere is a result, and not passing.
    kept = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in loops:
            passing.discard(node.id)
        elif isinstance(node, kept):
            passing.discard(node.name)
    return passing


def effect_rows(effects: Sequence[Effect]) -> tuple[tuple[str, str, str], ...]:
    """The rows of what was done outside of the variables; the last one counts the others."""
    if not effects:
        return ()
    lines = told(effects)
    rows: list[tuple[str, str, str]] = [
        (collapse_whitespace(visible(each.name), 80), each.kind, "; ".join(each.details))
        for each in lines[:_CHANGES]
    ]
    more = len(lines) - _CHANGES
    if more > 0:
        rows.append((f"{more:,} more", "", ""))
    return tuple(rows)


def change_rows(changes: Sequence[ev.Change]) -> tuple[tuple[str, str, str], ...]:
    """The rows of a table of changes; the last one counts those that are left out."""
    rows = [_row(each) for each in changes[:_CHANGES]]
    more = len(changes) - _CHANGES
    if more > 0:
        rows.append((f"{more:,} more", "", ""))
    return tuple(rows)


def _is_stored(change: ev.Change, outcome: ev.CallOutcome) -> bool:
    """Whether a change is only that the result was kept as a new variable."""
    return change.kind == "created" and change.name == outcome.stored and not change.also


def _row(change: ev.Change) -> tuple[str, str, str]:
    """A row of the table of changes: the name, the kind of change, and the details."""
    name = change.name
    if change.also:
        name += f" (also {', '.join(change.also)})"
    return (
        collapse_whitespace(name, 80),
        change.kind,
        collapse_whitespace("; ".join(change.seen or change.words), 300),
    )


def _remarks(outcome: ev.CallOutcome) -> Iterator[str]:
    diff = outcome.diff
    if outcome.stored:
        yield f"kept as the variable {outcome.stored}"
    if outcome.called:
        yield f"called {counted(outcome.called)}"
    if not diff and any(each.can_be_undone for each in outcome.effects):
        yield "%agent_undo restores the files"
    if diff is None:
        return
    if diff.unseen:
        yield f"not watched: {_first(diff.unseen)}"
    if diff.not_kept:
        yield f"cannot be undone: {_first(diff.not_kept)}"
    if diff:
        restored = "the variables"
        if any(each.can_be_undone for each in outcome.effects):
            restored = "the variables and the files"
        yield f"%agent_undo restores {restored}"


def _first(notes: Sequence[object]) -> str:
    """The first of some notes about variables, and how many there are besides."""
    named = ", ".join(collapse_whitespace(str(each), 80) for each in notes[:_NOTES])
    more = len(notes) - _NOTES
    if more <= 0:
        return named
    return f"{named} and {more:,} more (%agent_why lists them)"


def _draws_the_same(output: ev.Output, other: ev.Output) -> bool:
    """Whether two displays are equal in a media type that only a front end can draw."""
    kinds = [kind for kind in output.data if kind.startswith("application/")]
    return any(output.data[kind] == other.data.get(kind) for kind in kinds)


def _shown(output: ev.Output) -> Shown:
    data = output.data
    text = tidy(output_text(output))
    if _WIDGET in data:  # its text is from the moment it was created
        text = "[a widget]"
    if output.left_out:
        return Shown(output.kind, text, name=output.left_out)
    name = rich_name(data, output.metadata)
    if name:
        return Shown(output.kind, text, name=name, display=output)
    for media_type in IMAGES:
        if isinstance(data.get(media_type), str):
            return Shown(output.kind, picture=(media_type, data[media_type]))
    prose = ""
    if output.kind == "display" and rich_media_type(output) != "text/html":
        prose = next((data[each] for each in _MARKUP if isinstance(data.get(each), str)), "")
    return Shown(output.kind, text, tidy(prose))
