"""A wire protocol: the form in which a conversation is sent and replies are read.

`Wire` is the base class of all of them. A record always results in the same messages, whatever is
added to it later, so that the server's prompt cache keeps matching.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self

from archytas_nb.choices import ActiveProtocol, AskBefore
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    AskModel,
    Json,
    Message,
    ModelReply,
)
from archytas_nb.loop.reading.lenient import replace_surrogates
from archytas_nb.loop.reading.reply import Action
from archytas_nb.loop.record import AnswerForm, Exchange, StepRecord

GIVE_UP = "Give up, when the task cannot be done with these tools."
NO_CODE = (
    "(You cannot run code here. For what your tools cannot compute, give the user the code, and "
    "mention that `%agent --python undoable` lets you run it.)"
)
CODE_IN_COPY = (
    "(Code runs in a copy of the notebook: it has all variables but secrets, all functions and "
    "libraries, and can read files of the project. It changes nothing outside: no variable, no "
    'file, no network. Names persist until the question is answered; keep("name") makes a value '
    "a new variable of the notebook. If the user wants something changed, give them the code, and "
    "mention `%agent --python undoable`.)"
)


_ACTS: Mapping[AskBefore, str] = {
    "network": "connects", "process": "starts or ends a program", "delete": "deletes a file",
    "outside": "changes a file outside of the working folder",
}  # fmt: skip


def code_in_notebook(
    *, asks: bool, is_watched: bool, asks_before: Collection[AskBefore] = ()
) -> str:
    """The text for a model whose code runs on the variables themselves.

    Args:
        asks: Whether the user approves the code.
        is_watched: Whether changes of variables can be undone.
        asks_before: Before what code does the user is asked.
    """
    undone = "variables and of files that Python wrote" if is_watched else "files that Python wrote"
    acts = " or ".join(words for act, words in _ACTS.items() if act in asks_before)
    approved = f" The user is asked before it {acts}." if acts else ""
    if asks:
        approved = " The user approves the code before it runs." + approved
    return (
        "(Code runs in the notebook itself. Variables persist, but new names that begin with _ are "
        "scratch: only code sees them, and they are removed after the question. The user can undo "
        f"changes of {undone}; nothing else, such as databases or the network.{approved})"
    )


VARIABLES = "Variables when this was asked (what is written here needs no tool):"
_PAUSE = "(Interrupted by a message from the user.)"
NAMED = (
    'Or send {"$var": "NAME"}, with the name of a variable that holds it, or a path, such as '
    'df["x"].'
)
"""How an answer of a type is named instead of sent, in words for the model."""
NO_TEXT = "(no text)"
"""Stands for a reply without any text, as messages must not be empty."""
_ROLE = "You answer a data scientist who works in a live Jupyter notebook."


CODE = (
    "The variables of other cells are there: use them as they are, and assign none of them. End "
    "the answer with the whole code of the cell as one block of code that begins with ```python."
)
"""The text below a question whose answer must end with code."""


class ToolCard(Protocol):
    """The interface of a tool for a wire protocol."""

    @property
    def name(self) -> str:
        """The name in requests."""

    @property
    def text(self) -> str:
        """The text that the model reads in the text protocol."""

    def spec(self, level: Literal["full", "simple"] = "full") -> Json:
        """The specification for function calling; the simple one without references."""

    def input_schema(self) -> Json:
        """JSON schema of ``tool_input`` in the text protocol."""


class Wire(ABC):
    """Base class of the wire protocols, with the tools and the user's instructions.

    Attributes:
        name: The protocol's name.
        tools: The tools by name.
        system: The first message.
        tool_specs: The tools that are sent in a separate field of the request; None if there is
            no such field.
        sends_replies: Whether the messages of the model are sent as it wrote them, so that fields
            which are not ours go back with them. The texts of other protocols are written again.
        sends_answered_programs: Whether later questions are sent with the programs that answered
            the earlier ones, also with those that called nothing.
        examples: The answers in the examples of the first message, with ``{}`` for what may differ.
        answer_action, fail_action: How a reply answers, and how it gives up.
        switched_off: Tools that are still sent, because they were with an earlier question, and
            that cannot be called.
        searched: Tools that are not described, as there are many: the model has to find them.
    """

    name: ActiveProtocol
    system: Message
    tool_specs: Json = None
    sends_replies: bool = False
    sends_answered_programs: bool = False
    examples: tuple[str, ...] = ()
    answer_action: str = ANSWER
    fail_action: str = FAIL
    switched_off: Collection[str] = ()
    searched: Mapping[str, ToolCard] = {}

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        self.tools: Mapping[str, ToolCard] = dict(tools)
        self._instructions = instructions

    @property
    def instructions(self) -> str:
        """The user's instructions."""
        return self._instructions

    @property
    def tool_texts(self) -> tuple[str, ...]:
        """The descriptions of the tools in the first message, if they are there."""
        return tuple(tool.text for tool in self.tools.values())

    def without_tools(self, names: Collection[str]) -> Self:
        """The same protocol without these tools."""
        tools = {name: tool for name, tool in self.tools.items() if name not in names}
        return type(self)(tools, self._instructions).with_searched(self.searched)

    def with_searched(self, tools: Mapping[str, ToolCard]) -> Self:
        """The same protocol with tools that the model has to find."""
        other = copy.copy(self)
        other.searched = tools
        return other

    def offering(self, names: Collection[str]) -> Self:
        """The same protocol with tools that were found; what was sent before stays as it is."""
        other = copy.copy(self)
        found = {name: tool for name, tool in self.searched.items() if name in names}
        other.tools = {**self.tools, **found}
        return other

    @abstractmethod
    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""

    def messages(self, step: StepRecord) -> list[Message]:
        """The messages of one step, or of what the person said between two of them."""
        if step.said:  # some servers accept no two messages of the user in a row
            pause = {"role": "assistant", "content": _PAUSE}
            return [pause, {"role": "user", "content": step.said}]
        return self.step(step)

    @abstractmethod
    def step(self, step: StepRecord) -> list[Message]:
        """The messages of one step: what the model did, and the outcomes."""

    @abstractmethod
    def closing_message(self, text: str) -> Message:
        """The assistant's last message of an exchange that has ended."""

    @abstractmethod
    def with_actions(
        self, ask: AskModel, form: AnswerForm | None, disabled: Collection[str] = (), last: str = ""
    ) -> AskModel:
        """The request with the actions that are allowed now.

        Args:
            ask: The request with its messages.
            form: The required form of the answer; None for text.
            disabled: Names of tools that cannot be used now.
            last: The limit that makes this the last request of the run; empty otherwise.
        """

    @abstractmethod
    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """Read calls, an answer or a fault from a reply.

        Args:
            reply: The reply.
            prose_is_answer: Whether text without any call is accepted as the answer.
            form: The required form of the answer; None for text.
        """

    def ending_call(
        self,
        reply: ModelReply,  # noqa: ARG002
        action: Action,
    ) -> tuple[str, Json, Json] | None:
        """The name, input and extra fields of the call with which a reply ends the run.

        None if it is all that the text of the reply says.
        """
        if not action.calls:
            return None
        if action.answers:
            return ANSWER, action.answer, None
        return FAIL, action.failure, None


# ── messages of several wire protocols ────────────────────────────────────────────────────────────


def system_message(rules: str, instructions: str) -> Message:
    """The first message of a conversation."""
    parts = (_ROLE, rules.strip("\n"), instructions.strip())
    text = "\n".join(part for part in parts if part)
    return {"role": "system", "content": replace_surrogates(text)}


def question_message(
    exchange: Exchange, how: str, more: Sequence[str] = (), *, can_write_code: bool = True
) -> Message:
    """The message of a question.

    Args:
        exchange: The question.
        how: The words that introduce the type of the answer.
        more: Further facts about the type.
        can_write_code: Whether the text of an answer can have a block of code.
    """
    form = ""
    if exchange.form is not None:
        form = "\n\n".join([f"({how} {exchange.form.text})", *more])
    parts = [exchange.question, *_told(exchange, form)]
    if exchange.is_row and form:  # what all rows have comes first, so that it is cached
        parts = [form, exchange.question, *_told(exchange, "")]
    if exchange.wants_code and can_write_code:
        parts.append(CODE)
    return {"role": "user", "content": user_content("\n\n".join(parts), exchange.images)}


def _told(exchange: Exchange, form: str) -> Iterator[str]:
    """The text below a question, part by part."""
    context = exchange.context
    if context is not None and context.is_offered and context.text:
        yield f"{VARIABLES}\n{context.text}"
    if exchange.error is not None:
        yield exchange.error.text
    if form:
        yield form
    if exchange.condition:
        yield f"(The answer is checked before it is accepted: {exchange.condition})"
    if exchange.switched_off:
        yield f"(Not available now: {', '.join(exchange.switched_off)}.)"
    if exchange.code_place:
        yield exchange.code_place
    if exchange.hint:
        yield exchange.hint
    if exchange.plan:
        yield exchange.plan


def user_content(text: str, images: Sequence[str]) -> Json:
    """The content of a message: text, or parts if there are images (PNG or JPEG, base64)."""
    if not images:
        return text
    parts: list[Json] = [{"type": "text", "text": text}]
    for image in images:
        kind = "jpeg" if image.startswith("/9j/") else "png"
        url = f"data:image/{kind};base64,{image}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def last_instruction(limit: str) -> str:
    """The message to the model when a limit ends the run."""
    return (
        f"The run must end now: its limit {limit} is reached and no tool can be used any more. "
        "Say in your final answer what you found out so far, and what is missing."
    )


def last_turn(messages: Sequence[Message], limit: str) -> tuple[Message, ...]:
    """The messages with the instruction for the last turn, when a limit ends the run."""
    return with_text(messages, last_instruction(limit))


def with_text(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """The messages with a text at the end of the last one."""
    *before, last = messages
    content = last["content"]
    if isinstance(content, str):
        return (*before, {**last, "content": f"{content}\n\n{text}"})
    return (*before, {**last, "content": [*content, {"type": "text", "text": text}]})


def repeats_example(answer: str, examples: Iterable[str], sources: Iterable[str]) -> bool:
    """Whether an answer is that of an example instead of the question's.

    Args:
        answer: The answer.
        examples: The answers in the examples, with ``{}`` for what may differ.
        sources: The question, the texts of the tools and the outcomes. If they contain most of the
            example's words, the question is about the same things, and the answer may be right.
    """
    said = " ".join(answer.split())
    for example in examples:
        pattern = ".{1,40}?".join(map(re.escape, example.split("{}")))
        if not re.search(pattern, said):
            continue
        words = set(re.findall(r"[a-z]{4,}", example.lower()))
        known = set(re.findall(r"[a-z]{4,}", " ".join(sources).lower()))
        if len(words & known) * 2 < len(words):
            return True
    return False
