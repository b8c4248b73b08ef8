"""Where we are: the live namespace, the shell and the cell that runs.

In a notebook the namespace is the kernel's ``user_ns``; in a plain script the variables of ``__main__``. There
tools find objects by name and leave their results.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any, TypeAlias

Namespace: TypeAlias = MutableMapping[str, Any]


def live_namespace() -> Namespace:
    """The variables that the user sees.

    Returns:
        The kernel's namespace itself, not a copy; ``__main__``'s where no IPython runs.
    """
    shell = current_shell()
    namespace: Namespace = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    return namespace


def running_cell(shell: Any) -> tuple[str, str]:
    """The cell that runs, as the front end names it, and which run of it this is.

    Args:
        shell: The IPython shell, or None.

    Returns:
        Both empty where no cell is named: in a console, a terminal, under nbclient.
    """
    try:
        parent = shell.kernel.get_parent("shell")
        return str(parent["metadata"].get("cellId") or ""), str(parent["header"]["msg_id"])
    except (AttributeError, KeyError, TypeError, LookupError):
        return "", ""


def current_shell() -> Any:
    """The running IPython shell, or None. IPython is not imported for it."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shell_class = getattr(module, "InteractiveShell", None)
    return shell_class.instance() if shell_class is not None and shell_class.initialized() else None
