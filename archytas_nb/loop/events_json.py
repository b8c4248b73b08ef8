"""The values of a run to JSON and back, so that what happened can be kept and compared.

It knows the events and JSON. Live objects (a tool's value, an exception) are left out: a file cannot hold them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, get_args

from archytas_nb.loop.events import CallOutcome, Event, Json, Output, ToolCall, Usage, WireCall

_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (ToolCall, Output, CallOutcome, WireCall, Usage, *get_args(Event))
}
_NOT_JSON = ("value", "error")
_EVENT_NAMES = re.compile(rf"\b(?:{'|'.join(_CLASSES)})\b")


def to_json(value: Any) -> Json:
    """Turn an event, or a value inside one, into what JSON can carry.

    ``CallOutcome.value`` and ``.error`` and ``Verdict.value`` are live objects and are left out.

    Args:
        value: Any value of a run, or a tuple, list, dict or scalar of them.

    Returns:
        Dicts (each event under its class name in ``"event"``), lists and scalars.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if f.name not in _NOT_JSON]
        return {
            "event": type(value).__name__,
            **{name: to_json(getattr(value, name)) for name in names},
        }
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(data: Json) -> Any:
    """Turn what `to_json` made back into events.

    Args:
        data: A dict with the key ``"event"``, as `to_json` makes it.

    Returns:
        The event; equal to the one that was written.

    Raises:
        ValueError: The dict names no value of a run.
    """
    name = data.get("event") if isinstance(data, Mapping) else None
    if name not in _CLASSES:
        raise ValueError(f"no event is named {name!r}; expected one of {sorted(_CLASSES)}")
    cls = _CLASSES[name]
    hints = {f.name: f.type for f in dataclasses.fields(cls)}
    return cls(
        **{key: _field(item, str(hints[key])) for key, item in data.items() if key != "event"}
    )


def _field(item: Json, hint: str) -> Any:
    """Only a field that is typed so holds events: a tool's input may look like one and must stay data."""
    holds_events = _EVENT_NAMES.search(hint) is not None
    if isinstance(item, list) and hint.startswith("tuple["):
        return tuple(from_json(each) if holds_events else each for each in item)
    return from_json(item) if holds_events else item
