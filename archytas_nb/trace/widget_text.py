"""The last text of a widget that only shows something, such as a progress bar.

A notebook is saved without its widgets unless the person wants that, and a page that is opened
again shows an error in the place of each. So when a run has ended, what only shows something
becomes text; a widget that a person can use stays.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from archytas_nb.trace.front_end import current_kernel
from archytas_nb.trace.view import CallView, RunView
from archytas_nb.words import tidy

_VIEW = "application/vnd.jupyter.widget-view+json"
_BOXES = {"BoxModel": " ", "HBoxModel": " ", "VBoxModel": "\n"}
_TEXTS = {"HTMLModel", "HTMLMathModel", "LabelModel"}
_PROGRESS = {"FloatProgressModel", "IntProgressModel"}
_BAR = 10  # characters
_TAG = re.compile(r"<[^<>]*>")


def widget_id(data: Mapping[str, Any]) -> str:
    """The id of the widget that a display shows; empty if it shows none."""
    view = data.get(_VIEW)
    return str(view.get("model_id", "")) if isinstance(view, Mapping) else ""


def with_last_texts(view: RunView, texts: Mapping[str, str]) -> RunView:
    """A run in which the last texts of widgets, by their ids, take the places of the widgets."""
    steps = []
    for step in view.steps:
        calls = [_without_widgets(call, texts) for call in step.calls]
        steps.append(replace(step, calls=tuple(calls)))
    return replace(view, steps=tuple(steps))


def _without_widgets(call: CallView, texts: Mapping[str, str]) -> CallView:
    shown = []
    for item in call.shown:
        model_id = widget_id(item.display.data) if item.display is not None else ""
        if model_id not in texts:
            shown.append(item)
        elif texts[model_id]:
            text = tidy(texts[model_id])
            shown.append(replace(item, kind="stdout", text=text, name="", display=None))
    runs = tuple(with_last_texts(run, texts) for run in call.runs)
    return replace(call, shown=tuple(shown), runs=runs)


def last_texts(ids: list[str]) -> dict[str, str]:
    """The current texts of widgets, by their ids: empty for one that was closed.

    One that a person can use, or whose text is not known, is left out.
    """
    if not ids:
        return {}
    import ipywidgets

    # Some libraries have widgets of their own.
    open_ids = getattr(getattr(current_kernel(), "comm_manager", None), "comms", {})
    states = ipywidgets.Widget.get_manager_state()["state"]
    found = {}
    for each in ids:
        text = _text(each, states)
        if each not in states and each not in open_ids:
            text = ""
        if text is not None:
            found[each] = text
    return found


def _text(model_id: str, states: Mapping[str, Any]) -> str | None:
    model = states.get(model_id)
    if model is None:
        return None
    name = model["model_name"]
    state = model["state"]
    label = str(state.get("description", ""))
    if name in _TEXTS:
        return _plain(f"{label} {state.get('value', '')}")
    if name in _PROGRESS:
        return f"{_plain(label)} {_bar(state)}".strip()
    if name not in _BOXES:
        return None
    texts = []
    for child in state.get("children", ()):
        text = _text(str(child).removeprefix("IPY_MODEL_"), states)
        if text is None:
            return None
        texts.append(text)
    return _BOXES[name].join(filter(None, texts))


def _bar(state: Mapping[str, Any]) -> str:
    least = state.get("min", 0)
    whole = state.get("max", 100) - least
    share = (state.get("value", 0) - least) / whole if whole > 0 else 1.0
    full = round(min(max(share, 0.0), 1.0) * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _plain(text: str) -> str:
    text = html.unescape(_TAG.sub("", text))
    return re.sub(r"[\xa0\u2007]", " ", text).strip()
