"""The function calling protocol: tools are a field of the request, outcomes are tool messages.

A request extends the one before, so that the endpoint's cache keeps matching: within a conversation
no specification is removed, changed or moved, and new ones are added at the end. A tool that is
switched off is refused when it is called. A call that the model wrote into its text instead is
executed as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from archytas_nb.choices import ActiveProtocol
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    AskModel,
    Json,
    Message,
    ModelReply,
    WireCall,
)
from archytas_nb.loop.reading.calls import resolve_name
from archytas_nb.loop.reading.reply import (
    Action,
    TruncatedPart,
    only_value,
    read_action,
    read_answer,
    read_arguments,
    with_reasoning,
)
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.record import AnswerForm, Exchange, StepRecord
from archytas_nb.loop.wire import (
    NAMED,
    NO_TEXT,
    ToolCard,
    Wire,
    last_turn,
    question_message,
    system_message,
    user_content,
)

_RULES = f"""
Your tools act on its real objects. The user sees each call with its output and figures, and then \
your answer, which may be Markdown.
- Take every number and name from a result in this conversation, and say what you assumed, such \
as units, missing values or formats of dates.
- Put calls that do not need each other's results into one reply.
- Change, overwrite or delete only what the user asked for.
- Begin the answer with the result, then say what limits it. Do not copy a table that a call has \
shown.
- If you can do only a part, give that part and say what is missing. Call {FAIL} only if you have \
nothing to give."""

_ROW_RULES = f"""
Each question is about one row of a table, and a program reads the answer. Take every number and \
name from the row or from a result. Call {FAIL} only if there is no answer."""

_ANSWER_SPEC = {
    "type": "function",
    "function": {
        "name": ANSWER,
        "description": "Answer a question that asks for a value of a type.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {}},
            "required": ["answer"],
        },
    },
}
_FAIL_SPEC = {
    "type": "function",
    "function": {
        "name": FAIL,
        "description": "Give up, with nothing to give.",
        "parameters": {
            "type": "object",
            "properties": {"reason": {"type": "string"}},
            "required": ["reason"],
            "additionalProperties": False,
        },
    },
}

_TRUNCATED = "your reply was cut off for its length; send less in one call"


class FunctionCalling(Wire):
    """The function calling protocol.

    Args:
        tools: The tools by name.
        instructions: The user's instructions.
        earlier: The specifications that were sent before in the conversation; they are kept.
        row: The question, if it is about one of many rows.
    """

    name: ActiveProtocol = "native"
    sends_replies = True

    def __init__(
        self,
        tools: Mapping[str, ToolCard],
        instructions: str = "",
        earlier: Sequence[Json] = (),
        row: Exchange | None = None,
    ) -> None:
        super().__init__(tools, instructions)
        self.system = system_message(_RULES if row is None else _ROW_RULES, instructions)
        self._earlier = earlier
        self._row = row
        specs = {each["function"]["name"]: each for each in earlier}
        specs = {name: spec for name, spec in specs.items() if name not in (ANSWER, FAIL)}
        specs |= {name: tool.spec() for name, tool in self.tools.items()}
        self.switched_off = tuple(name for name in specs if name not in self.tools)
        self._inputs = {name: spec["function"]["parameters"] for name, spec in specs.items()}
        is_typed = row is None or row.form is not None  # all rows have the same type
        endings = [_ANSWER_SPEC, _FAIL_SPEC] if is_typed else [_FAIL_SPEC]
        self.tool_specs = [*endings, *specs.values()]

    def without_tools(self, names: Collection[str]) -> Self:
        """The same protocol without these tools."""
        tools = {name: tool for name, tool in self.tools.items() if name not in names}
        other = type(self)(tools, self._instructions, self._earlier, self._row)
        return other.with_searched(self.searched)

    def offering(self, names: Collection[str]) -> Self:
        """The same protocol, with the specifications of tools that were found at the end."""
        other = super().offering(names)
        added = [tool.spec() for name, tool in other.tools.items() if name not in self.tools]
        other.tool_specs = [*self.tool_specs, *added]
        inputs = {each["function"]["name"]: each["function"]["parameters"] for each in added}
        other._inputs = self._inputs | inputs  # noqa: SLF001 - of the same class
        return other

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        form = exchange.form
        more = []
        if form is not None and not form.is_whole:
            name = form.text.partition("\n")[0]  # what its parts are, the schema says
            exchange = replace(exchange, form=replace(form, text=name))
            more.append(f"(Its JSON schema: {json.dumps(form.schema, ensure_ascii=False)})")
        if form is not None and form.is_named:
            more.append(f"({NAMED})")
        return question_message(exchange, f"Give the answer by calling {ANSWER}, with:", more)

    def messages(self, step: StepRecord) -> list[Message]:
        """The messages of one step, or of what the person said between two of them."""
        if step.said:
            return [{"role": "user", "content": step.said}]
        return self.step(step)

    def step(self, step: StepRecord) -> list[Message]:
        """The calls with our ids, then one message for each outcome, then their images."""
        if step.correction and step.rejected is None:
            written = step.written or step.thought or NO_TEXT
            reply: Message = {"role": "assistant", "content": written}
            return [reply, {"role": "user", "content": step.correction}]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": legal_name(call.name), "arguments": _arguments(call.input)},
            }
            for call in step.all_calls
        ]
        if step.rejected is not None:
            reply = {"role": "assistant", "content": step.written or None, "tool_calls": calls}
            told = {"role": "tool", "tool_call_id": step.rejected.id, "content": step.correction}
            return [reply, told]
        if not calls:  # of a program of another protocol, only its calls are sent
            return []
        reply = {"role": "assistant", "content": step.thought or None, "tool_calls": calls}
        outcomes = [
            {"role": "tool", "tool_call_id": outcome.call_id, "content": outcome.text}
            for outcome in step.outcomes
        ]
        return [reply, *outcomes, *_images(step)]

    def closing_message(self, text: str) -> Message:
        """The answer in plain text."""
        return {"role": "assistant", "content": text}

    def with_actions(
        self,
        ask: AskModel,
        form: AnswerForm | None,  # noqa: ARG002 - the question names the type
        disabled: Collection[str] = (),  # noqa: ARG002 - a call of one is refused
        last: str = "",
    ) -> AskModel:
        """The request with all tools; in the last turn without any."""
        if last:
            return replace(ask, messages=last_turn(ask.messages, last))
        return replace(ask, tools=tuple(self.tool_specs))

    def read(
        self,
        reply: ModelReply,
        *,
        prose_is_answer: bool,  # noqa: ARG002 - in this protocol it always is
        form: AnswerForm | None = None,
    ) -> Action:
        """Read calls, an answer or a fault from a reply; plain text is always an answer."""
        if reply.calls:
            action = self._action_of_calls(reply, form)
        else:
            action = read_action(
                reply.text,
                self._inputs,
                prose_is_answer=True,
                strict=True,
                form=form,
                finish=reply.finish,
            )
        return with_reasoning(action, reply)

    def ending_call(
        self,
        reply: ModelReply,
        action: Action,  # noqa: ARG002
    ) -> tuple[str, Json, Json] | None:
        """The name, input and extra fields of the call with which a reply ends the run, if any."""
        read = (self._read_call(call, reply) for call in reply.calls)
        found = next((each for each in read if each.is_ending), None)
        return None if found is None else (found.name, found.input, found.extra)

    def _action_of_calls(self, reply: ModelReply, form: AnswerForm | None) -> Action:
        thought, reasoning = split_thoughts(reply.text)
        read = [self._read_call(call, reply) for call in reply.calls]
        ends = {each.name: each.input for each in read if each.is_ending}
        calls = [each for each in read if not each.is_ending]
        is_truncated = any(each.is_cut for each in read)
        # An answer that was cut off has a fault, so it is among the calls and not the endings. Its
        # beginning is shown to the person.
        if is_truncated and [each.name for each in calls] == [ANSWER]:
            return Action(
                thought,
                answer=reply.calls[-1].arguments,
                fault=f"{ANSWER}: {_TRUNCATED}",
                reasoning=reasoning,
                truncated="answer",
            )

        answer = read_answer(ends.get(ANSWER), form)
        # A type may permit None, so null is an answer there; without a type there is none.
        null = form is not None and ANSWER in ends and answer is None
        failure = None
        if answer is None and not null and not calls:
            if FAIL not in ends:
                return Action(thought, fault=f"{ANSWER} needs the answer.")
            failure = str(only_value(ends[FAIL]) or "no reason given")

        truncated: TruncatedPart = ""
        if is_truncated:
            truncated = "other"
        return Action(
            thought,
            calls=tuple((each.name, each.input) for each in calls),
            answer=answer,
            failure=failure,
            repaired="; ".join(f"{each.name}: {each.repairs}" for each in read if each.repairs),
            unreadable=tuple(
                (index, f"{each.name} was not run: {each.fault}")
                for index, each in enumerate(calls)
                if each.fault
            ),
            null=null,
            reasoning=reasoning,
            extras={
                index: each.extra for index, each in enumerate(calls) if each.extra is not None
            },
            truncated=truncated,
        )

    def _read_call(self, call: WireCall, reply: ModelReply) -> _ReadCall:
        name = resolve_name(call.name, {**self._inputs, ANSWER: None, FAIL: None})
        tool_input, repairs, fault = read_arguments(call.arguments, self._inputs.get(name))
        # The rest of a bare number or text at the end of the reply may be missing.
        may_lack_its_end = call is reply.calls[-1] and not isinstance(tool_input, (dict, list))
        if reply.finish == "length" and (fault or may_lack_its_end):
            return _ReadCall(name, fault=_TRUNCATED, extra=call.extra, is_cut=True)
        return _ReadCall(name, tool_input, repairs, fault, call.extra)


@dataclass(frozen=True, slots=True)
class _ReadCall:
    """A call from the server, with its arguments decoded."""

    name: str
    input: Json = None
    repairs: str = ""  # of the arguments
    fault: str = ""  # why the arguments cannot be used
    extra: Json = None
    is_cut: bool = False  # whether the end of the arguments is missing

    @property
    def is_ending(self) -> bool:
        """Whether it is the answer, or gives up, instead of calling a tool."""
        return self.name in (ANSWER, FAIL) and not self.fault


def _images(step: StepRecord) -> list[Message]:
    """The images of a step as a user message, because tool messages cannot contain images."""
    images: list[str] = []
    sources = []
    for call, outcome in step.pairs:
        images += outcome.images
        if len(outcome.images) == 1:
            sources.append(call.name)
        elif outcome.images:
            sources.append(f"{call.name} ({len(outcome.images)} images)")
    if not images:
        return []
    what = "The images"
    if len(images) == 1:
        what = "The image"
    text = f"{what} of {', '.join(sources)}:"
    return [{"role": "user", "content": user_content(text, images)}]


def keywords(schema: Json) -> Iterator[str]:
    """The keywords of a schema, and of those inside it."""
    if isinstance(schema, list):
        for each in schema:
            yield from keywords(each)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
                for each in value.values():
                    yield from keywords(each)
            elif name not in ("enum", "const", "default", "required", "examples"):
                yield from keywords(value)


def legal_name(name: str) -> str:
    """A tool's name as it is sent in a conversation: the model may have invented it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _arguments(tool_input: Json) -> str:
    """Arguments as an object, because chat templates fail with anything else."""
    arguments = {"input": tool_input}
    if tool_input is None:
        arguments = {}
    elif isinstance(tool_input, dict):
        arguments = tool_input
    return json.dumps(arguments, ensure_ascii=False)
