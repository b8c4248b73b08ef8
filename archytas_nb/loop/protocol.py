"""What the two wire protocols share: the action that a reply means, and texts that both send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from archytas_nb.loop.events import Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange

ANSWER = "final_answer"
FAIL = "fail_task"
GIVE_UP = "Give up, when the task cannot be done with these tools."
_ROLE = "You answer a data scientist who works in a live Jupyter notebook."
_MAX_SHOWN = 300


class ToolCard(Protocol):
    """What a wire protocol reads of a tool."""

    @property
    def name(self) -> str:
        """Legal on the wire."""

    @property
    def text(self) -> str:
        """What the model reads in the text protocol."""

    def spec(self, level: Any = ...) -> Json:
        """The specification for function calling."""

    def input_schema(self, level: Any = ...) -> Json:
        """JSON schema of ``tool_input`` in the text protocol."""


CutIn: TypeAlias = Literal["", "answer", "reasoning", "other"]
"""Where a reply was cut off for its length; empty where nothing of it is missing."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a reply means.

    Attributes:
        thought: The text beside the calls.
        calls: Names and inputs of the calls, in order.
        answer: The final answer, or None.
        failure: The reason for giving up, or None.
        fault: Why the reply cannot be used, for the model; empty where it can.
        repaired: What had to be repaired to read it, for a person; empty where nothing had to.
        unread: Calls that are not run because their input could not be read: the place of each in
            `calls`, and what the model is told.
        prose: Whether the fault is that the reply is plain text, which the next time is taken for
            the answer.
        null: Whether None is the answer, where the form of the answer allows that.
        reasoning: The reasoning that came apart from the text.
        extras: What the server sent beside calls, by their places in `calls`.
        cut: Where the reply was cut off: an answer is then incomplete, and a call is unread.
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


def system_message(rules: str, instructions: str) -> Message:
    """The first message of a conversation."""
    parts = (_ROLE, rules.strip("\n"), instructions.strip())
    return {"role": "system", "content": "\n".join(part for part in parts if part)}


def question_message(exchange: Exchange, how: str) -> Message:
    """The message of a question; ``how`` introduces the type of an answer that is not text."""
    text = exchange.question
    if exchange.form is not None:
        text = f"{text}\n\n({how} {exchange.form.text})"
    if exchange.remark:
        text = f"{text}\n\n{exchange.remark}"
    return {"role": "user", "content": user_content(text, exchange.images)}


def user_content(text: str, images: Sequence[str]) -> Json:
    """The content of a message: text, or parts where there are images (PNG or JPEG, base64)."""
    if not images:
        return text
    kinds = ("jpeg" if image.startswith("/9j/") else "png" for image in images)
    urls = (f"data:image/{kind};base64,{image}" for kind, image in zip(kinds, images, strict=True))
    pictures = ({"type": "image_url", "image_url": {"url": url}} for url in urls)
    return [{"type": "text", "text": text}, *pictures]


def last_turn(messages: Sequence[Message], limit: str) -> tuple[Message, ...]:
    """The messages with what the model is told when a limit ends its run."""
    text = (
        f"The run must end now: its limit {limit} is reached and no tool can be used any more. "
        "Say in your final answer what you found out so far, and what is missing."
    )
    *before, last = messages
    content = last["content"]
    if isinstance(content, str):
        return (*before, {**last, "content": f"{content}\n\n{text}"})
    return (*before, {**last, "content": [*content, {"type": "text", "text": text}]})


def not_accepted(answer: Json, fault: str) -> str:
    """What the model is told about an answer that is not of the form that was asked for."""
    text = as_text(answer)
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    again = "Give the answer again, as it was asked for."
    return f"Your answer {shown!r} is not accepted: {fault}\n{again}"


def with_reasoning(action: Action, reply: ModelReply) -> Action:
    """An action with the reasoning of its reply, which may be all that came before it was cut."""
    reasoning = reply.reasoning.strip()
    only = not reply.text or (reasoning and not reply.text.strip())
    cut: CutIn = "reasoning" if action.cut == "other" and only and not reply.calls else action.cut
    return replace(action, reasoning=reasoning or action.reasoning, cut=cut)


def only_value(given: Json) -> Json:
    """The value of an object with one field: models wrap a bare text in one."""
    return next(iter(given.values())) if isinstance(given, dict) and len(given) == 1 else given


def answer_in(given: Json, form: AnswerForm | None) -> Json:
    """The answer in the input of `ANSWER`; None where there is none.

    Text is found under whatever field it was put; an object with one field may be the answer
    itself. One with a form may be empty, too.
    """
    inner = only_value(given)
    named = isinstance(given, dict) and set(given) == {"answer"}
    answer = inner if named or (isinstance(inner, str) and form is None) else given
    blank = answer in (None, {}, []) or (isinstance(answer, str) and not answer.strip())
    return None if form is None and blank else answer


def as_text(answer: Json) -> str:
    """An answer as text: text as it is, anything else as JSON."""
    return answer.strip() if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
