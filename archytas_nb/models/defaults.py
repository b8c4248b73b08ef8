"""The default model of an endpoint: the first of its provider's list that the endpoint serves.

A default is gone if the endpoint lists its models without it, or refuses it as unknown. The states:

    | state | which are gone | the default             | after a refusal                          |
    |-------|----------------|-------------------------|------------------------------------------|
    | first | none           | the first               | next, or none                            |
    | next  | some           | the first of the others | next, or none                            |
    | none  | all            | the first               | none; the error says what is served, and |
    |       |                |                         | refused models are tried again later     |

Models that are gone are remembered until the process ends, for the same address and key: another
key may have them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from archytas_nb.models.published import defaults_at, is_same, published


class Default:
    """The default model of an endpoint; `name` is None if the endpoint has no list of defaults."""

    def __init__(self, base_url: str, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._base_url = base_url
        self._unlisted: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._told = self.name

    @property
    def _left(self) -> list[str]:
        return [name for name in self.names if name not in self._unlisted | self._refused]

    @property
    def name(self) -> str | None:
        """The first of the list that is not gone; the first of all if all of them are."""
        return next(iter([*self._left, *self.names]), None)

    def note_list(self, listed: Sequence[str]) -> None:
        """Take in what the endpoint lists; an empty list says nothing."""
        if listed:
            missing = (name for name in self.names if not any(is_same(x, name) for x in listed))
            self._unlisted = frozenset(missing)

    def leave(self, name: str) -> bool:
        """Leave a model that was refused as unknown; whether there is another one to ask."""
        self._refused |= {name}
        if self._left:
            return True
        self._refused = frozenset()
        return False

    def news(self) -> str | None:
        """The notice for a person if another model has become the default; None if none has."""
        before = self._told
        name = self.name
        if name == before or name is None or before is None:
            return None
        self._told = name
        return (
            f"the default model {before!r} is not available at {self._base_url!r}"
            f"{end_of(self._base_url, before)}, so the next default, {name!r}, is used. To "
            "choose another one, set the model"
        )


def end_of(base_url: str, name: str) -> str:
    """The end of a model, and who announced it, in parentheses; empty if nobody has."""
    known = published(base_url, name)
    if known is None or known.ends is None:
        return ""
    return f" (announced to end on {known.ends}, {known.source.address})"


def default_at(base_url: str, key: str) -> Default:
    """The default model at an endpoint for a key; the same object for the same arguments."""
    return _default(base_url, key, defaults_at(base_url))


@functools.lru_cache(maxsize=64)
def _default(base_url: str, key: str, names: tuple[str, ...]) -> Default:  # noqa: ARG001
    return Default(base_url, names)
