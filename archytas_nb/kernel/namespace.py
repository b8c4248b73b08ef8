"""The live namespace: where tools find objects by name and leave their results.

In a notebook it is the kernel's ``user_ns``; in a plain script the variables of ``__main__``.
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


def current_shell() -> Any:
    """The running IPython shell, or None. IPython is not imported for it."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shell_class = getattr(module, "InteractiveShell", None)
    return shell_class.instance() if shell_class is not None and shell_class.initialized() else None
