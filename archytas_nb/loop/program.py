"""Runs a program of the model: its requests, its calls, and what is remembered of them.

It does no I/O: `RunProgram` and `ResumeProgram` are requests like the others of the loop. Every
call of a program is an ordinary tool call with one outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
from archytas_nb.loop.limits import Guards, call_key
from archytas_nb.loop.program_protocol import Made
from archytas_nb.loop.record import Step, call_id
from archytas_nb.words import one_line

_INTERRUPTED_BEFORE = "Not run: the user interrupted before."


@dataclass(slots=True)
class CallMemory:
    """The successful calls of a run, so that a program that is written again does not repeat them.

    The n-th of several equal calls of a program takes the result of the n-th one that earlier
    programs of the run made. Within one program, a call is made again unless it equals the one just
    before. Tools that may repeat a call are left out.
    """

    may_repeat: frozenset[str] = frozenset()
    _before: dict[str, list[CallOutcome]] = field(default_factory=dict)  # by earlier programs
    _made: dict[str, list[CallOutcome]] = field(default_factory=dict)  # by this program
    _taken: Counter[str] = field(default_factory=Counter)
    _last: str = ""  # the key of the last successful call

    def begin(self) -> None:
        """Another program begins."""
        for key, outcomes in self._made.items():
            self._before.setdefault(key, []).extend(outcomes)
        self._made = {}
        self._taken.clear()
        self._last = ""

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """The outcome of an equal call that a call takes; None if it is to be made."""
        if call.name in self.may_repeat:
            return None
        key = call_key(call)
        before = self._before.get(key, [])
        number = self._taken[key]
        if number < len(before):
            self._taken[key] += 1
            self._last = key
            return before[number]
        if key == self._last:
            outcome = (self._made.get(key) or before)[-1]
            self._made.setdefault(key, []).append(outcome)
            return outcome
        return None

    def add(self, call: ToolCall, outcome: CallOutcome) -> None:
        """Keep the outcome of a call that was made."""
        if outcome.status == "done":
            key = call_key(call)
            self._made.setdefault(key, []).append(outcome)
            self._last = key


@dataclass(slots=True)
class ProgramRunner:
    """Runs the programs of one run.

    Attributes:
        question: The number of the question in the conversation.
        guards: The limits of the run.
        memory: The calls that are not made twice.
        calls: The calls of the current program, in order.
        outcomes: One for each of them.
        text: What was run of the current program.
    """

    question: int
    guards: Guards
    memory: CallMemory
    calls: list[ToolCall] = field(default_factory=list)
    outcomes: list[CallOutcome] = field(default_factory=list)
    text: str = ""
    _lines: list[int] = field(default_factory=list)  # of the calls

    def begin(self) -> None:
        """Another program begins."""
        self.memory.begin()
        self.calls = []
        self.outcomes = []
        self._lines = []
        self.text = ""

    @property
    def was_interrupted(self) -> bool:
        """Whether a call of the program was interrupted."""
        return any(each.status == "interrupted" for each in self.outcomes)

    @property
    def made(self) -> list[Made]:
        """The calls as the model reads them."""
        return [
            Made(_call_text(call), one_line(outcome.text, 200), outcome.status != "done")
            for call, outcome in zip(self.calls, self.outcomes, strict=True)
        ]

    def run(
        self, text: str, thought: str = "", *, is_part: bool = False, refusal: str = ""
    ) -> Requests[ProgramFaults | ProgramEnded]:
        """Run a program, or the next part of it, to its end.

        Args:
            text: The program.
            thought: What the model wrote before it.
            is_part: Whether it continues what was run since `begin`.
            refusal: Why none of its calls is made; empty if they are.

        Raises:
            TypeError: The driver did not send a reply to the request.
            ValueError: The driver sent the outcome of another call.
        """
        offset = self.text.count("\n") + 1 if is_part and self.text else 0
        reply = yield RunProgram(self.guards.steps, text, thought, is_part)
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
        return reply

    def step(self, thought: str, report: str, reasoning: str = "", *, correction: str = "") -> Step:
        """The current program as a step of the record."""
        return Step(
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
        calls: list[ToolCall] = []
        for each in waiting:
            number = len(self.calls) + len(calls) + 1
            calls.append(
                ToolCall(call_id(self.question, self.guards.steps, number), each.name, each.input)
            )
        found: dict[str, CallOutcome] = {}
        for call in calls:
            if refusal:
                found[call.id] = CallOutcome("not_run", refusal, call_id=call.id)
            elif (earlier := self.memory.earlier(call)) is not None:
                found[call.id] = replace(
                    earlier, call_id=call.id, outputs=(), seconds=0.0, repeats=earlier.call_id
                )
        to_make = [call for call in calls if call.id not in found]
        if to_make:
            lines = {call.id: each.line + offset for call, each in zip(calls, waiting, strict=True)}
            reply = yield RunCalls(
                self.guards.steps,
                tuple(to_make),
                program=self.text,
                lines=tuple(lines[call.id] for call in to_make),
            )
            if not isinstance(reply, CallOutcomes):
                raise TypeError(
                    f"the loop asked for calls to be run and was sent {reply!r}; expected "
                    "CallOutcomes"
                )
            for call, outcome in zip(to_make, reply.outcomes, strict=True):
                if outcome.call_id != call.id:
                    raise ValueError(
                        f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}"
                    )
                self.memory.add(call, outcome)
                found[call.id] = outcome
        outcomes = [found[call.id] for call in calls]
        self.calls += calls
        self.outcomes += outcomes
        return outcomes


def _call_text(call: ToolCall) -> str:
    """A call as a program writes it."""
    given = call.input if isinstance(call.input, dict) else {}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return one_line(f"{call.name}({arguments})", 200)
