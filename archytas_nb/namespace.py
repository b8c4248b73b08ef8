"""The live kernel: its shell, its namespace and the cell that runs.

In a notebook the namespace is the kernel's ``user_ns``, in a plain script ``__main__``'s variables.
Tools find objects there by name and leave their results there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import MutableMapping
from typing import Any, NamedTuple, TypeAlias

Namespace: TypeAlias = MutableMapping[str, Any]

FROM_OUTSIDE = (KeyboardInterrupt, SystemExit)
"""The exceptions of a person or a signal; any other comes from the object being read."""


def current_shell() -> Any:
    """The running IPython shell, or None; does not import IPython."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shell_class = getattr(module, "InteractiveShell", None)
    if shell_class is not None and shell_class.initialized():
        return shell_class.instance()
    return None


def live_namespace() -> Namespace:
    """The variables that the user sees: the kernel's namespace itself, not a copy."""
    shell = current_shell()
    if shell is None:
        return vars(sys.modules["__main__"])
    namespace: Namespace = shell.user_ns
    return namespace


class contained:  # noqa: N801 - used like a function: `with contained():`
    """End the block without an exception, whatever an object of the namespace raises in it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and not issubclass(kind, FROM_OUTSIDE)


def running_cell(shell: Any) -> tuple[str, str]:
    """The id of the cell that runs and of its execution; both empty in a terminal and nbclient."""
    try:
        parent = shell.kernel.get_parent("shell")
        return str(parent["metadata"].get("cellId") or ""), str(parent["header"]["msg_id"])
    except (AttributeError, LookupError, TypeError):
        return "", ""


def cell_request(kernel: Any) -> dict[str, Any]:
    """The message that the front end sent to run the cell; empty where there is none."""
    try:
        return dict(kernel.get_parent("shell"))
    except (AttributeError, TypeError):
        return {}


def is_notebook(kernel: Any) -> bool:
    """Whether a notebook runs the cell, and a person can be asked."""
    # A console has a person too, but draws no widgets and updates. Only a notebook names its cell.
    is_cell = "cellId" in cell_request(kernel).get("metadata", {})
    return is_cell and bool(getattr(kernel, "_allow_stdin", False))


def is_console(kernel: Any) -> bool:
    """Whether a person asks from a front end that shows text alone, and never changes it.

    A notebook names its cells. Else, what has a person and numbers its messages as jupyter_client
    does is a console; pages in a browser do not, and are sent HTML.
    """
    try:
        parent = kernel.get_parent("shell")
        session, message = parent["header"]["session"], parent["header"]["msg_id"]
        is_cell = "cellId" in parent["metadata"]
    except (AttributeError, LookupError, TypeError):
        return False
    has_person = bool(getattr(kernel, "_allow_stdin", False))
    numbered = rf"{re.escape(str(session))}_\d+_\d+"
    return has_person and not is_cell and re.fullmatch(numbered, str(message)) is not None


class Cell(NamedTuple):
    """The cell that runs: its id, its execution and its number; the texts may be empty."""

    id: str
    execution: str
    number: int


def cells_of(shell: Any) -> list[str]:
    """The cells that were run, by their number."""
    cells: list[str] = shell.history_manager.input_hist_parsed
    return cells


def cell_of(shell: Any) -> Cell:
    """The cell that runs in a shell of IPython."""
    return Cell(*running_cell(shell), len(cells_of(shell)) - 1)
