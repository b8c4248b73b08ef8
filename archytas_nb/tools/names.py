"""Names: which ones a tool may have, and which one was probably meant. Knows no tools, only text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from archytas_nb.errors import ToolError

RESERVED = frozenset({"final_answer", "fail_task"})
"""Names of the actions that end a run; no tool may take one."""

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def legal_name(name: str) -> str:
    """Make a tool's name one that every endpoint takes: dots become underscores.

    Args:
        name: A function's name or the one that the user chose; may be dotted, like ``"math.factorial"``.

    Returns:
        The name on the wire, matching ``^[a-zA-Z0-9_-]{1,64}$``.

    Raises:
        ToolError: The name is empty, reserved, too long or has other characters.
    """
    fix = 'choose another with @tool(name="…")'
    if not isinstance(name, str):
        raise ToolError(f"a tool's name is text, not {name!r}; {fix}")
    wire = name.replace(".", "_")
    if not wire:
        raise ToolError(f"a tool's name is empty; {fix}")
    if wire in RESERVED:
        raise ToolError(f"the name {name!r} is reserved: it ends a run; {fix}")
    if name == "<lambda>":
        raise ToolError(f"a lambda has no name and no docstring; write it with def, or {fix}")
    if not _LEGAL.fullmatch(wire):
        raise ToolError(
            f"{name!r} is no tool name: expected 1 to 64 characters out of a-z, A-Z, 0-9, _ and -; {fix}"
        )
    return wire


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None where none is near."""
    names = [each for each in known if isinstance(each, str)]
    folded = {each.casefold(): each for each in reversed(names)}
    found = difflib.get_close_matches(str(name)[:200].casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the nearest known name, or an empty string."""
    near = nearest(name, known)
    return f", did you mean {near!r}?" if near is not None else ""
