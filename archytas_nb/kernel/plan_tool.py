"""A plan as a call that a person approves: they see, edit and refuse it as any other call."""

from __future__ import annotations

from archytas_nb.tools.tool import Tool


def plan_tool(fault: str = "") -> Tool:
    """The tool that stands for a plan while a person decides about it; it only returns the plan.

    Args:
        fault: The fault of the plan as the person edited it; empty if there is none.
    """

    def plan(steps: str) -> str:
        """Carry out a plan.

        Args:
            steps: The steps, one on each line: what | tool | check
        """
        return steps

    return Tool.from_function(plan, approve=lambda: fault or "nothing is run before you approve it")
