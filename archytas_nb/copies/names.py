"""The variables of a kernel as a copy gets them: with some more, and without others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any


class Names(Mapping[str, Any]):
    """The variables of a kernel, whatever they are when they are read.

    Args:
        variables: All of them.
        also: Further objects of the copy, by name; a variable of the same name takes precedence.
        without: The names of variables that the copy does not get.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        also: Mapping[str, Any] | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._variables = variables
        self._also = dict(also or {})
        self._without = frozenset(without)

    def __getitem__(self, name: str) -> Any:
        if name in self._without:
            raise KeyError(name)
        return self._variables[name] if name in self._variables else self._also[name]

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self._variables, *self._also])
        return (name for name in names if name not in self._without)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def held(self) -> dict[str, Any]:
        """In a fork: the variables that functions of the kernel read, changed to these."""
        if type(self._variables) is not dict:
            return dict(self)
        for name, value in self._also.items():
            self._variables.setdefault(name, value)
        for name in self._without:
            self._variables.pop(name, None)
        return self._variables
