"""Runs a program of the model: its requests, its calls, and what is remembered of them.

It does no I/O: `RunProgram` and `ResumeProgram` are requests like the others of the loop. Every
call of a program is an ordinary tool call with one outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from archytas_nb.loop.calls_made import CallsOfPrograms, taken
from archytas_nb.loop.events import (
    CallOutcome,
    CallOutcomes,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
    Requests,
    ResumeProgram,
    RunCalls,
    RunProgram,
    ToolCall,
)
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.program_protocol import WrittenCall, call_written
from archytas_nb.loop.record import StepRecord, call_id
from archytas_nb.words import collapse_whitespace


@dataclass(slots=True)
class ProgramRunner:
    """Runs the programs of one run.

    Attributes:
        question: The number of the question in the conversation.
        guards: The limits of the run.
        memory: The calls that are not made twice.
        hides_values: Whether the model does not read the arguments of calls, which are values.
        calls: The calls of the current program, in order.
        outcomes: The outcome of each of these calls.
        text: The executed part of the current program.
        has_failed: Whether it had a fault, raised, or was lost.
    """

    question: int
    guards: Guards
    memory: CallsOfPrograms
    hides_values: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    outcomes: list[CallOutcome] = field(default_factory=list)
    text: str = ""
    has_failed: bool = False

    def begin(self, program: str = "", *, is_again: bool = False) -> None:
        """Another program begins; `is_again` is for one that may repeat calls of one before."""
        self.memory.begin(program, after_failure=self.has_failed or is_again)
        self.has_failed = False
        self.calls = []
        self.outcomes = []
        self.text = ""

    @property
    def was_interrupted(self) -> bool:
        """Whether a call of the program was interrupted."""
        return any(each.status == "interrupted" for each in self.outcomes)

    @property
    def made(self) -> list[WrittenCall]:
        """The calls as the model reads them."""
        return [
            WrittenCall(
                self._call_text(call),
                collapse_whitespace(outcome.text, 200),
                outcome.status != "done",
            )
            for call, outcome in zip(self.calls, self.outcomes, strict=True)
        ]

    @property
    def told(self) -> list[WrittenCall]:
        """The calls as a report lists them; where values stay, equal ones are listed once.

        How often a program called something may itself be a value.
        """
        return list(dict.fromkeys(self.made)) if self.hides_values else self.made

    def _call_text(self, call: ToolCall) -> str:
        return (
            f"{call.name}(…)" if self.hides_values else collapse_whitespace(call_written(call), 200)
        )

    def run(
        self,
        text: str,
        thought: str = "",
        *,
        is_part: bool = False,
        refusal: str = "",
        may_lack: bool = False,
    ) -> Requests[ProgramFaults | ProgramEnded]:
        """Run a program, or the next part of it, to its end.

        Args:
            text: The program.
            thought: The model's text before it.
            is_part: Whether it continues what was run since `begin`.
            refusal: Why none of its calls is made; empty if they are.
            may_lack: Whether its answer counts although a part of it is missing.

        Raises:
            TypeError: The driver did not send a reply to the request.
            ValueError: The driver sent the outcome of another call.
        """
        offset = self.text.count("\n") + 1 if is_part and self.text else 0
        reply = yield RunProgram(self.guards.steps, text, thought, is_part, may_lack=may_lack)
        if not isinstance(reply, ProgramFaults):
            self.text = f"{self.text}\n{text}" if offset else text
        while isinstance(reply, ProgramWaits):
            outcomes = yield from self._outcomes(reply.calls, offset, refusal)
            reply = yield ResumeProgram(self.guards.steps, tuple(outcomes))
        if not isinstance(reply, ProgramFaults | ProgramEnded):
            raise TypeError(
                f"the loop asked for a program to be run and was sent {reply!r}; expected "
                "ProgramFaults, ProgramWaits or ProgramEnded"
            )
        if isinstance(reply, ProgramFaults) or reply.error is not None or reply.lost:
            self.has_failed = True
        return reply

    def step(
        self, thought: str, report: str, reasoning: str = "", *, correction: str = ""
    ) -> StepRecord:
        """The current program as a step of the record."""
        return StepRecord(
            thought,
            tuple(self.calls),
            tuple(self.outcomes),
            correction,
            reasoning,
            program=self.text,
            report=report,
        )

    def _outcomes(
        self, waiting: Sequence[ProgramCall], offset: int, refusal: str
    ) -> Requests[list[CallOutcome]]:
        """One outcome for each call that the program waits for."""
        calls = self._numbered(waiting)
        outcomes = {call.id: self._known(call, refusal) for call in calls}
        to_make = [
            (call, each)
            for call, each in zip(calls, waiting, strict=True)
            if outcomes[call.id] is None
        ]
        if to_make:
            outcomes |= yield from self._made(to_make, offset)
        ordered = [each for call in calls if (each := outcomes[call.id]) is not None]
        self.calls += calls
        self.outcomes += ordered
        return ordered

    def _numbered(self, waiting: Sequence[ProgramCall]) -> list[ToolCall]:
        """The calls with their ids in the run."""
        step = self.guards.steps
        first = len(self.calls) + 1
        return [
            ToolCall(call_id(self.question, step, number), each.name, each.input)
            for number, each in enumerate(waiting, first)
        ]

    def _known(self, call: ToolCall, refusal: str) -> CallOutcome | None:
        """The outcome of a call that is not made; None if it has to be."""
        earlier = self.memory.earlier(call)
        if earlier is not None:
            return replace(taken(earlier, call), repeats=earlier.call_id)
        if refusal:
            return CallOutcome("not_run", refusal, call_id=call.id)
        return None

    def _made(
        self, to_make: Sequence[tuple[ToolCall, ProgramCall]], offset: int
    ) -> Requests[dict[str, CallOutcome]]:
        """The outcomes of calls that are made now, by the ids of the calls."""
        reply = yield RunCalls(
            self.guards.steps,
            tuple(call for call, _ in to_make),
            program=self.text,
            lines=tuple(each.line + offset if each.line else 0 for _, each in to_make),
            objects={call.id: each.objects for call, each in to_make},
        )
        if not isinstance(reply, CallOutcomes):
            raise TypeError(
                f"the loop asked for calls to be run and was sent {reply!r}; expected CallOutcomes"
            )
        for (call, _), outcome in zip(to_make, reply.outcomes, strict=True):
            if outcome.call_id != call.id:
                raise ValueError(
                    f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}"
                )
            self.memory.add(call, outcome)
        return {each.call_id: each for each in reply.outcomes}
