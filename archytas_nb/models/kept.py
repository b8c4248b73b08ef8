"""Fields of a reply that are not ours: joined when they were streamed, put back when it is sent.

Endpoints sign, encrypt and number what they want back, so a field that this package does not know
is returned as it came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from archytas_nb.loop.events import Json

ITEMS = "response_items"
"""The items of a reply of the Responses API, and in a call its place among them."""


def joined(values: Sequence[Json]) -> Json:
    """The value of a field that came in pieces; a single one is returned unchanged.

    Texts are concatenated, except for a label, which is the same in each piece. Objects in lists
    belong together if they have the same number and type.
    """
    values = [each for each in values if each is not None]
    if len(values) < 2:
        return values[0] if values else None
    if all(isinstance(each, str) for each in values):
        return values[0] if len(set(values)) == 1 else "".join(values)
    if all(isinstance(each, dict) for each in values):
        return _joined_objects(values)
    if all(isinstance(each, list) for each in values):
        return _joined_lists(values)
    return values[-1]


def _joined_objects(objects: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    pieces: dict[str, list[Json]] = {}
    for each in objects:
        for name, value in each.items():
            pieces.setdefault(name, []).append(value)
    return {name: joined(values) for name, values in pieces.items()}


def _joined_lists(lists: Sequence[list[Json]]) -> list[Json]:
    """The items of all lists; those that continue an earlier one are joined with it."""
    groups: dict[object, list[Json]] = {}
    for items in lists:
        for item in items:
            key: object = len(groups), "no number"
            if isinstance(item, dict) and isinstance(item.get("index"), int):
                key = item["index"], str(item.get("type"))
            groups.setdefault(key, []).append(item)
    return [joined(each) for each in groups.values()]


def overlaid(value: Json, more: Json, without: Collection[str] = ()) -> Json:
    """A copy of a message to which the fields `more` were added, except those named in `without`.

    What the message has itself stays; objects and lists in it get their own fields.
    """
    if isinstance(value, dict) and isinstance(more, Mapping):
        added = {
            name: overlaid(value.get(name), each, without)
            for name, each in more.items()
            if name not in without
        }
        return {**value, **added}
    if isinstance(value, (list, tuple)) and isinstance(more, (list, tuple)):
        pairs = zip_longest(value, more[: len(value)])
        return [overlaid(each, its, without) for each, its in pairs]
    return more if value is None else value
