"""May this call be run? Tools that ask for it are run only when a person says yes.

Where nobody can be asked (a notebook run by a test, a script without a terminal) nothing waits: the call is
refused, and the model is told why.
"""

from __future__ import annotations

import json
import sys

from archytas_nb.kernel.namespace import current_shell
from archytas_nb.react.events import ToolCall
from archytas_nb.tools.tool import Tool

_LONGEST = 2000


def ask_person(tool: Tool, call: ToolCall) -> str:
    """Decide on a call by the tool's own ``approve``.

    Args:
        tool: The tool; its ``approve`` says whether to ask.
        call: The call.

    Returns:
        The reason for a refusal, which the model reads; empty where the call may be run.

    Raises:
        KeyboardInterrupt: The person interrupted instead of answering.
    """
    if not tool.approve:
        return ""
    if not person_is_there():
        return f"Refused: {call.name} needs a person's approval, and nobody can be asked here."
    given = json.dumps(call.input, ensure_ascii=False, default=repr)
    shown = given if len(given) <= _LONGEST else f"{given[:_LONGEST]}… ({len(given)} characters)"
    try:
        said = input(f"Run {call.name} with {shown}? [y]es, or the reason why not: ").strip()
    except EOFError:
        return f"Refused: {call.name} needs a person's approval, and nobody answered."
    if said.lower() in ("y", "yes"):
        return ""
    reason = "" if said.lower() in ("", "n", "no") else f" The reason: {said}"
    return f"The user refused this call.{reason}"


def person_is_there() -> bool:
    """Whether somebody can be asked: a front end that takes input, or a terminal."""
    shell = current_shell()
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    return shell is not None or (sys.stdin is not None and sys.stdin.isatty())
