"""From a call and its outcome to what a person sees of them.

It knows the events' values and takes text, tables and pictures out of them; it knows nothing of a run, and
nothing of how a call is drawn.
"""

from __future__ import annotations

import json
from dataclasses import replace

from archytas_nb.loop.events import CallOutcome, Json, Output, ToolCall
from archytas_nb.tools.displayed import markup_of, words_of
from archytas_nb.trace.clean import KEEP, tidy
from archytas_nb.trace.table import read_table, table_of
from archytas_nb.trace.values import CallView, Picture, Shown

_IMAGES = ("image/png", "image/jpeg", "image/svg+xml", "image/gif", "image/webp")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_NAME_LIMIT = 100
# With these words the model is told what a tool printed, and that a person changed its input.
_PRINTED = "\n\nIt printed:\n"
_EDITED = "The user changed the input before the call was run. It was run with: "


def asked(call: ToolCall) -> CallView:
    """A call that was asked for and has no outcome yet."""
    given = _by_name(call.input)
    arguments = tuple((name, _on_one_line(value)) for name, value in given.items())
    texts = tuple((name, tidy(value)) for name, value in given.items() if _has_lines(value))
    return CallView(tidy(call.name, _NAME_LIMIT) or "(no name)", arguments, texts)


def _by_name(given: Json) -> dict[str, Json]:
    if isinstance(given, dict) and all(str(name).isidentifier() for name in given):
        return given
    return {} if given is None else {"": given}


def _has_lines(value: Json) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _on_one_line(value: Json) -> str:
    return literal(" ".join(value[:KEEP].split()) if _has_lines(value) else value)


def literal(value: Json) -> str:
    """Write a JSON value as Python would read it; strings keep their double quotes."""
    if isinstance(value, dict):
        text = (
            "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
        )
    elif isinstance(value, list):
        text = "[" + ", ".join(literal(item) for item in value) + "]"
    elif isinstance(value, str):
        text = json.dumps(value[: 2 * KEEP], ensure_ascii=False)
    else:
        text = repr(value)
    return tidy(text)


def answered(
    calls: tuple[CallView, ...], outcomes: tuple[CallOutcome, ...]
) -> tuple[CallView, ...]:
    """Give each call that waits for one its outcome; outcomes come in the order of the calls."""
    waiting = iter(outcomes)
    result = []
    for call in calls:
        outcome = next(waiting, None) if call.status is None else None
        result.append(call if outcome is None else _with_outcome(call, outcome))
    return tuple(result)


def _with_outcome(call: CallView, outcome: CallOutcome) -> CallView:
    shown = [_shown(output) for output in outcome.outputs]
    edited, told = _without_edit(outcome.text, call)
    text, told_apart = _without_printed(told, outcome.outputs)
    table = table_of(outcome.value)
    if not told_apart:
        # Where a table stands for the text, the text is folded away, and what was printed would be with it.
        said = "" if table else text
        shown = [
            item
            for item in shown
            if item.table or item.picture or (item.text and item.text not in said)
        ]
    seen = {item.picture.data for item in shown if item.picture}
    pictures = [Picture("image/png", data) for data in outcome.images if data not in seen]
    return replace(
        call,
        status=outcome.status,
        text=text,
        shown=(*shown, *(Shown("display", picture=picture) for picture in pictures)),
        table=table,
        edited=edited,
    )


def _without_edit(text: str, call: CallView) -> tuple[str, str]:
    """What a person put in place of the model's input, and the rest of the outcome."""
    edited, _, rest = text.removeprefix(_EDITED).partition("\n")
    return (_changed(edited, call), rest) if text.startswith(_EDITED) and rest else ("", text)


def _changed(edited: str, call: CallView) -> str:
    """The arguments that are others now; the whole input where that cannot be said."""
    try:
        given = _by_name(json.loads(edited))
    except (ValueError, RecursionError):  # a long one was cut
        return tidy(edited)
    before = dict(call.arguments)
    if "" in given or not before.keys() <= given.keys():
        return tidy(edited)
    now = {
        name: literal(value)
        for name, value in given.items()
        if _on_one_line(value) != before.get(name)
    }
    return ", ".join(f"{name}={value}" for name, value in now.items()) or tidy(edited)


def _without_printed(text: str, outputs: tuple[Output, ...]) -> tuple[str, bool]:
    """The outcome's own text, and whether what was printed could be told apart from it."""
    result, mark, printed = text.rpartition(_PRINTED)
    first = tidy(printed[:KEEP].split("\n", 1)[0])
    if mark and result and first and any(first in tidy(words_of(output)) for output in outputs):
        return tidy(result), True
    return tidy(text), False


def _shown(output: Output) -> Shown:
    data = output.data
    for media_type in _IMAGES:
        if isinstance(data.get(media_type), str):
            return Shown(output.kind, picture=Picture(media_type, data[media_type]))
    if (
        _WIDGET in data
    ):  # it lives in its kernel, and its words are those of the moment in which it was made
        return Shown(output.kind, "[a widget]")
    html = data.get("text/html")
    table = read_table(html) if isinstance(html, str) else None
    return Shown(
        output.kind,
        tidy(words_of(output)),
        markup_of(output) in ("text/markdown", "text/latex"),
        table,
    )
