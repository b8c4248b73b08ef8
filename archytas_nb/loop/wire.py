"""What the loop needs of a wire form. `wire_react` and `wire_native` are the two that there are.

A wire form turns the record into messages and a reply into an `Action`. It is pure: same record, same messages,
and the messages of a step never depend on what comes after it, so that a server's prompt cache is hit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from archytas_nb.loop.events import AskModel, Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange, Step
from archytas_nb.loop.lenient import replace_surrogates

ANSWER = "final_answer"
FAIL = "fail_task"


class ToolCard(Protocol):
    """What a wire form reads of a tool."""

    @property
    def name(self) -> str:
        """Legal on the wire."""

    @property
    def text(self) -> str:
        """What the model reads in the text protocol."""

    @property
    def repeat(self) -> bool:
        """Whether the same call may come to something else the next time."""

    def spec(self, level: Any = ...) -> Json:
        """The specification for function calling."""

    def input_schema(self, level: Any = ...) -> Json:
        """JSON schema of ``tool_input`` in the text protocol."""


CutIn: TypeAlias = Literal["", "answer", "reasoning", "other"]
"""Where a reply was cut off for its length; empty where all that counts of it had come by then."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a reply means.

    Attributes:
        thought: What the model said beside its calls.
        calls: Names and inputs of the calls, in order.
        answer: The final answer, or None.
        failure: The reason for giving up, or None.
        fault: Why the reply cannot be used, said to the model; empty where it can.
        repaired: What had to be mended to read it, said to the person; empty where nothing had to.
        unread: Calls that are not run because their input could not be read: the place of each in `calls`, and
            what the model is told.
        prose: Whether a fault is that the reply is plain text, which the next time is taken for the answer.
        null: Whether None is the answer, where the form of the answer allows that.
        reasoning: What the model thought where that is apart from what it said.
        extras: What came beside calls, by their places in `calls`.
        cut: Where the reply was cut off for its length: an answer is then not whole, and a call is unread.
    """

    thought: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    answer: Json = None
    failure: str | None = None
    fault: str = ""
    repaired: str = ""
    unread: tuple[tuple[int, str], ...] = ()
    prose: bool = False
    null: bool = False
    reasoning: str = ""
    extras: Mapping[int, Json] = field(default_factory=dict)
    cut: CutIn = ""

    @property
    def answers(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None or self.null


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What a request depends on beside the messages.

    Attributes:
        taken_away: Names of the tools that cannot be used now.
        last: The limit that makes this the last request of the run; empty otherwise.
        max_tokens: The most tokens of the reply.
        form: How the answer is to be given; None for text.
        seconds: What is left of the run's time, or None.
        asides: What came with calls of the history; see `AskModel.asides`.
    """

    max_tokens: int
    taken_away: Collection[str] = ()
    last: str = ""
    form: AnswerForm | None = None
    seconds: float | None = None
    asides: Mapping[str, Json] = field(default_factory=dict)


class Wire(Protocol):
    """One wire form of the conversation."""

    tools: Mapping[str, ToolCard]

    @property
    def name(self) -> Literal["react", "native"]:
        """Which of the two it is."""

    def system(self) -> Message:
        """The first message."""

    @property
    def beside(self) -> Json:
        """What travels beside the messages and counts as tokens too; None where nothing does."""

    def question(self, exchange: Exchange) -> list[Message]:
        """The messages that open an exchange."""

    def step(self, step: Step) -> list[Message]:
        """The messages of one step: what the model did and what came of it."""

    def closing(self, text: str) -> list[Message]:
        """The messages that close an exchange."""

    def ask(self, step: int, messages: Sequence[Message], options: AskOptions) -> AskModel:
        """The request for the next reply."""

    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """What a reply means.

        Args:
            reply: The reply.
            prose_is_answer: Whether plain text is to be taken for the answer.
            form: How the answer is to be given; None for text.
        """


def messages_of(wire: Wire, exchanges: Sequence[Exchange]) -> list[Message]:
    """The conversation so far in wire form, always one that a strict server accepts."""
    messages: list[Message] = replace_surrogates([wire.system()])
    for exchange in exchanges:
        messages += messages_of_exchange(wire, exchange)
    return messages


def messages_of_exchange(wire: Wire, exchange: Exchange) -> list[Message]:
    """One question, its steps and its end in wire form."""
    messages: list[Message] = replace_surrogates(wire.question(exchange))
    for step in exchange.steps:
        messages += messages_of_step(wire, step)
    if exchange.ending is not None:
        messages += replace_surrogates(wire.closing(exchange.closing))
    return messages


def messages_of_step(wire: Wire, step: Step) -> list[Message]:
    """One step in wire form; what a tool printed may hold half characters, and a message must not."""
    messages: list[Message] = replace_surrogates(wire.step(step))
    return messages


def last_words(limit: str) -> str:
    """What the model is told when a limit ends its run."""
    return (
        f"The run must end now: its limit {limit} is reached and no tool can be used any more. "
        "Say in your final answer what you found out so far, and what is missing."
    )


def user_content(text: str, images: Sequence[str]) -> Json:
    """The content of a message: plain text, or parts where there are images.

    Args:
        text: The text.
        images: PNG or JPEG, base64.
    """
    if not images:
        return text
    kinds = ("jpeg" if image.startswith("/9j/") else "png" for image in images)
    urls = (f"data:image/{kind};base64,{image}" for kind, image in zip(kinds, images, strict=True))
    return [
        {"type": "text", "text": text},
        *({"type": "image_url", "image_url": {"url": url}} for url in urls),
    ]


def with_words(message: Message, text: str) -> Message:
    """A message with more text at its end."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{text}"}
    return {**message, "content": [*content, {"type": "text", "text": text}]}


def question_of(exchange: Exchange, how: str) -> Message:
    """The message of a question, with how its answer is to be given where that is more than text."""
    text = exchange.question
    if exchange.form is not None:
        text = f"{text}\n\n({how} {exchange.form.text})"
    if exchange.remark:
        text = f"{text}\n\n{exchange.remark}"
    return {"role": "user", "content": user_content(text, exchange.images)}


def not_accepted(answer: Json, fault: str) -> str:
    """What the model is told of an answer that is not what was asked for."""
    said = as_text(answer)
    shown = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
    return f"Your answer {shown!r} is not accepted: {fault}\nGive the answer again, as it was asked for."


_SHOWN = 300


def with_reasoning(action: Action, reply: ModelReply) -> Action:
    """An action with what the model thought, also where that was all there was in a reply that was cut."""
    said = reply.reasoning.strip()
    only = not reply.text or (said and not reply.text.strip())
    cut: CutIn = "reasoning" if action.cut == "other" and only and not reply.calls else action.cut
    return replace(action, reasoning=said or action.reasoning, cut=cut)


def is_blank(answer: Json) -> bool:
    """Whether an answer says nothing."""
    return answer in (None, {}, []) or (isinstance(answer, str) and not answer.strip())


def only_value(given: Json) -> Json:
    """The value of an object with one field: models wrap a bare text in one."""
    return next(iter(given.values())) if isinstance(given, dict) and len(given) == 1 else given


def answer_in(given: Json, form: AnswerForm | None) -> Json:
    """The answer in what `ANSWER` was given; None where there is none.

    Text is found under whatever field it was put; an object with one field may be the answer itself. One with a
    form may be empty, too.
    """
    inner = only_value(given)
    named = isinstance(given, dict) and set(given) == {"answer"}
    answer = inner if named or (isinstance(inner, str) and form is None) else given
    return None if form is None and is_blank(answer) else answer


def as_text(answer: Json) -> str:
    """An answer as text: text as it is, anything else as JSON."""
    return answer.strip() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
