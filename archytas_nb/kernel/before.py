"""Asks a person before code of a model connects, starts, deletes or writes outside of the folder.

    what code does                       asked about as a call of
    ───────────────────────────────────  ──────────────────────────────────────────────────────────
    an act that `ask_before` names       one of these tools, which no model has: with the same form,
                                         the same answers, and the program that waits
    the same in the body of a tool       nothing: a tool has its own approval

The ledger of a call (`effects/ledger.py`) sees an act before it happens. It stops honest code, but
is not a sandbox: native code and started programs are not limited.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from archytas_nb.choices import AskBefore
from archytas_nb.functions import origin
from archytas_nb.kernel.guard import ToolGuard
from archytas_nb.tools.tool import ApprovalCheck, Tool


def connect(address: str) -> None:
    """Connect to an address.

    Args:
        address: The host with the port, or the URL.
    """


def start(command: str) -> None:
    """Start a program, or end one.

    Args:
        command: The command line.
    """


def delete(path: str) -> None:
    """Delete a file or folder.

    Args:
        path: The path.
    """


def change_outside(path: str) -> None:
    """Change something outside of the working folder.

    Args:
        path: The path.
    """


_FUNCTIONS = {
    "network": (connect, "This code of the model wants to use the network."),
    "process": (start, "This code of the model wants to start a program, or to end one."),
    "delete": (delete, "This code of the model wants to delete something that existed before."),
    "outside": (change_outside, "This code of the model wants to write outside of your folder."),
}


@cache
def act_tool(kind: AskBefore) -> Tool:
    """The tool in whose name the person is asked; made once, so that a permission stays valid."""
    function, note = _FUNCTIONS[kind]
    check = ApprovalCheck(required=True, note=note)
    return replace(Tool.from_function(function, approve=lambda: check), act=kind)


def ask(kind: AskBefore, target: str) -> bool:
    """Ask about the next act of the running code, unless it is allowed.

    Returns:
        Whether a person has decided on it now.

    Raises:
        PermissionError: It was refused, or nobody can be asked.
        KeyboardInterrupt: The person ends the run.
    """
    caller = origin.origin_of_call()
    if not isinstance(caller, ToolGuard):
        return False
    return caller.permit(act_tool(kind), target)
