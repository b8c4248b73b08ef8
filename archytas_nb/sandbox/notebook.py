"""The variables of the notebook that programs may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.values import to_sandbox
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.variables import is_code, is_hidden, user_names, why_not_passed


class NotebookVariables:
    """The variables of the notebook for one question.

    A variable that a program names is bound in the sandbox until the next program begins, which
    reads it again.

    Args:
        variables: All of them.
        handles: The objects that the sandbox refers to.
        is_open: Whether a program may name them.

    Attributes:
        lent: The names that are bound in the sandbox to their values.
    """

    def __init__(self, variables: Mapping[str, Any], handles: Handles, *, is_open: bool) -> None:
        self.borrowed_names: set[str] = set()
        self._variables = variables
        self._handles = handles
        self._is_open = is_open

    def has(self, name: str) -> bool:
        """Whether a program may name this variable."""
        if not self._is_open or name not in self._variables:
            return False
        if is_hidden(name) or is_secret(name):
            return False
        value = self._variables[name]
        return not why_not_passed(name, value) and not is_code(value)

    def names(self) -> list[str]:
        """The variables that a program may name."""
        return [name for name in user_names(self._variables) if self.has(name)]

    def reserve_names(self, names: Iterable[str]) -> None:
        """Count variables of earlier programs as borrowed if the notebook has their names now."""
        self.borrowed_names.update(filter(self.has, names))

    def lend(self, name: str) -> Any:
        """The value of a variable, converted for the sandbox."""
        self.borrowed_names.add(name)
        return to_sandbox(self._variables[name], self._handles)
