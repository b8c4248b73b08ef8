"""What was said and done, free of any wire form.

An `Exchange` is one question with its steps and its end. The conversation keeps exchanges, and a wire form
(`wire_react`, `wire_native`) turns them into messages. So a conversation can change its protocol or lose weight
without touching the record, and a call can never be separated from its outcome: they live in one `Step`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from archytas_nb.react.events import CallOutcome, Ending, Failed, Interrupted, Stopped, ToolCall


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model and what came of it.

    Attributes:
        thought: What the model said beside its calls.
        calls: The calls it made; empty for a reply that could not be used.
        outcomes: One for each call, in the same order.
        correction: What the model is told of a reply that could not be used; empty otherwise.
    """

    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    outcomes: tuple[CallOutcome, ...] = ()
    correction: str = ""

    def __post_init__(self) -> None:
        if [call.id for call in self.calls] != [outcome.call_id for outcome in self.outcomes]:
            raise ValueError(f"each call needs exactly one outcome, in order: {self.calls!r} {self.outcomes!r}")


@dataclass(slots=True)
class Exchange:
    """One question, the steps towards its answer, and how it ended.

    Attributes:
        question: What the user asked.
        steps: Grows while the run goes on.
        ending: None while the run goes on.
    """

    question: str
    steps: list[Step] = field(default_factory=list)
    ending: Ending | None = None

    @property
    def is_worth_keeping(self) -> bool:
        """False where nothing came of the question: it is then as if it had not been asked."""
        return bool(self.steps) or getattr(self.ending, "text", "") != "" or self.ending_is_reason

    @property
    def ending_is_reason(self) -> bool:
        """True where the model itself gave up: its reason belongs to the conversation."""
        return getattr(self.ending, "by", "") == "model"

    @property
    def closing(self) -> str:
        """The assistant's last words in the conversation, never empty, so that roles always alternate."""
        ending = self.ending
        if isinstance(ending, Interrupted):
            return "(I was interrupted here.)"
        if isinstance(ending, Stopped):
            return ending.text or f"(I was stopped here by the limit {ending.limit}.)"
        if isinstance(ending, Failed):
            # An endpoint's error is no word of the model's; it may name an address that is nobody's business.
            return ending.reason if ending.by == "model" and ending.reason else "(I could not go on here.)"
        return getattr(ending, "text", "") or "(The run ended here.)"
