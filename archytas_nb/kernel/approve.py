"""May this call be run? The policy decides, the tool says whether it wants to be asked about, a person answers.

Nothing here runs a tool. Where nobody can be asked nothing waits: the call is refused, and the refusal says how
it can be allowed. Whatever goes wrong on the way to an answer means no.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias, get_args

from archytas_nb.kernel.decision import Asking, Decision
from archytas_nb.kernel.dialogue import harmless
from archytas_nb.kernel.namespace import Namespace
from archytas_nb.kernel.person import Person
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.bound import BoundCall
from archytas_nb.tools.tool import Tool

Policy = Literal["ask", "auto", "deny"]
"""What becomes of a call whose tool wants approval: ask the person, run it, refuse it."""

Approve: TypeAlias = Policy | Callable[[Tool, ToolCall], str]
"""A policy; or a callable that is asked about every call and returns the reason for a refusal, or ``""``."""


class Approver:
    """Decides on the calls of one run.

    Args:
        approve: A policy, a callable, or None for ``"ask"``.
        allow: Names of tools that are run without being asked about.
        person: Who is asked.

    Raises:
        ValueError: ``approve`` is none of these.
        TypeError: ``allow`` is one name, not several.
    """

    def __init__(self, approve: Approve | None, allow: Collection[str], person: Person) -> None:
        if not (approve is None or callable(approve) or approve in get_args(Policy)):
            raise ValueError(
                f"approve is {approve!r}; expected 'ask', 'auto', 'deny' or a callable"
            )
        if isinstance(allow, str):
            raise TypeError(f"allow is {allow!r}; expected the names of tools, as in [{allow!r}]")
        self._approve: Approve = approve or "ask"
        self._allowed = set(allow)
        self._person = person

    def decide(
        self, tool: Tool, call: ToolCall, bound: BoundCall, namespace: Namespace
    ) -> Decision:
        """Decide on a call.

        Args:
            tool: The tool.
            call: What the model asked for.
            bound: The same with validated arguments.
            namespace: What arguments by reference may name, where the person edits the input.

        Returns:
            What to run, or why not.

        Raises:
            KeyboardInterrupt: The person interrupted instead of answering.
        """
        if self._allowed & {tool.name, tool.source_name}:
            return Decision(bound)
        if callable(self._approve):
            refusal = _asked(self._approve, tool, call)
            return Decision(refusal=refusal) if refusal else Decision(bound)
        if self._approve == "auto":
            return Decision(bound)
        wanted, why = _wants(tool, bound)
        if not wanted:
            return Decision(bound)
        if self._approve == "deny":
            return _refused(tool, "needs approval, and this run denies whatever does")
        if not self._person.there:
            return _refused(tool, "needs a person's approval, and nobody can be asked here")
        try:
            decision = Asking(self._person, tool, call.input, bound, namespace).decide(why)
        except (EOFError, OSError):
            return _refused(tool, "needs a person's approval, and nobody answered")
        if decision.always:
            self._allowed.add(tool.name)
        return decision


def _refused(tool: Tool, why: str) -> Decision:
    how = (
        f"To allow it, run with --approve auto, or name {tool.name!r} in the list of allowed tools."
    )
    return Decision(refusal=f"Refused: {tool.name} {why}. {how}")


def _asked(approve: Callable[[Tool, ToolCall], Any], tool: Tool, call: ToolCall) -> str:
    try:
        said = approve(tool, call)
    except Exception as error:  # noqa: BLE001 - who cannot be asked has not agreed
        return f"{call.name} was not run: asking for approval failed with {error!r}"
    if isinstance(said, str):
        return said
    return f"{call.name} was not run: approve answered {said!r}; expected the reason for a refusal, or ''"


def _wants(tool: Tool, bound: BoundCall) -> tuple[bool, str]:
    """Whether the tool wants approval for these arguments, and what it says to the person about it."""
    try:
        said = tool.wants_approval(bound)
    except Exception as error:  # noqa: BLE001 - who cannot decide leaves it to the person
        return True, f"(You are asked because the tool's own check failed: {harmless(repr(error))})"
    return bool(said), f"({harmless(said)})" if isinstance(said, str) else ""
