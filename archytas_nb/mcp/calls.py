"""Calls by another program, each as a run of the notebook.

The program takes the place of the model: its one call is validated, approved, watched and traced
by an ordinary `Agent`. It runs on the main thread of the kernel, between cells.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from archytas_nb.agent import Agent
from archytas_nb.choices import ActiveProtocol
from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.loop.events import (
    AskModel,
    CallOutcome,
    Delta,
    Json,
    ModelReply,
    WireCall,
)
from archytas_nb.run import Run
from archytas_nb.untrusted import fault
from archytas_nb.words import did_you_mean

MAX_ARGUMENTS = 1_000
"""How many arguments a call may have: each is checked, and shown in the notebook."""


class ProgramModel:
    """A program in the place of the model: it makes one call, and its run ends with the outcome.

    Args:
        name: The name of the program, which the trace shows as the model's.
        tool: The name of the tool.
        arguments: The arguments, as JSON.
    """

    protocol: ActiveProtocol = "native"
    is_scripted = True  # no cassette records it: nothing is asked of it
    is_program = True  # what a person permits for their own questions does not cover its calls

    def __init__(self, name: str, tool: str, arguments: Mapping[str, Json]) -> None:
        self.name = name
        self._call = WireCall(tool, json.dumps(dict(arguments), ensure_ascii=False))
        self._has_called = False

    def complete(self, _: AskModel) -> Generator[Delta, None, ModelReply]:
        """The call; then the end of the run."""
        yield from ()
        if self._has_called:
            return ModelReply(f"The result was returned to {self.name}.")
        self._has_called = True
        return ModelReply(calls=(self._call,), finish="tool_calls")


def run_call(
    agent: Agent, caller: str, tool: str, arguments: Mapping[str, Json], **options: Any
) -> tuple[CallOutcome, Run[Any] | None]:
    """Run a call of another program.

    Args:
        agent: An agent with the tools and settings of the notebook and no conversation.
        caller: The name of the program.
        tool: The name of the tool.
        arguments: The arguments.
        options: Options of `Agent.run`, such as ``observers``.

    Returns:
        The outcome, and the run; None if there is no such tool. Nothing is raised except by a
        condition that is broken in the notebook itself.
    """
    if tool not in agent.tools:
        guess = did_you_mean(tool, list(agent.tools)) or "."
        return CallOutcome("error", f"The notebook has no tool named {tool!r}{guess}"), None
    if len(arguments) > MAX_ARGUMENTS:
        text = f"{tool} was not called: it has {len(arguments):,} arguments, and at most "
        return CallOutcome("error", f"{text}{MAX_ARGUMENTS:,} are read."), None
    if (why := fault(dict(arguments))) is not None:
        return CallOutcome("error", f"{tool} was not called because of its arguments: {why}."), None
    model = ProgramModel(caller, tool, arguments)
    run: Run[Any] | None
    try:
        run = agent.run(f"{caller} calls {tool}", model=model, progress=False, **options)
    except (ArchytasError, RunInterrupted) as error:
        run = getattr(error, "run", None)
        if run is None:
            return CallOutcome("error", str(error), error=error), None
    if not run.calls and run.status == "interrupted":
        return CallOutcome("interrupted", "Not run: the user interrupted here."), run
    if not run.calls:
        return CallOutcome("error", f"{tool} was not called: {run.reason or run.status}."), run
    # The outcome is there as a model may read it.
    [exchange] = agent.exchanges
    return exchange.steps[0].outcomes[0], run
