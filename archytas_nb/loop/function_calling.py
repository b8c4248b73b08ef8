"""The function calling protocol: tools are a field of the request, outcomes are tool messages.

A call that the model wrote into its text instead is executed as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

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
    GIVE_UP,
    ToolCard,
    Wire,
    last_turn,
    question_message,
    system_message,
    user_content,
)

_RULES = f"""
Use the tools to find out what you do not know: never guess what a tool can find out, and never \
make the same
call twice. When you know the answer, reply with it in plain text. If the task cannot be done, \
call {FAIL}
with the reason."""

_FAIL_SPEC = {
    "type": "function",
    "function": {
        "name": FAIL,
        "description": GIVE_UP,
        "parameters": {
            "type": "object",
            "properties": {"reason": {"type": "string", "description": "Why it cannot be done"}},
            "required": ["reason"],
            "additionalProperties": False,
        },
    },
}

SHOW_IMAGES = "(Show me what is to be seen.)"
"""The assistant's message between the outcomes of a step and their images."""

_TRUNCATED = "your reply was cut off for its length; send less in one call"


class FunctionCalling(Wire):
    """The function calling protocol."""

    name: ActiveProtocol = "native"
    sends_replies = True

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        super().__init__(tools, instructions)
        self.system = system_message(_RULES, instructions)
        self._specs = {name: tool.spec() for name, tool in self.tools.items()}
        self._inputs = {name: spec["function"]["parameters"] for name, spec in self._specs.items()}
        self.tool_specs = [*self._specs.values(), _FAIL_SPEC]

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        return question_message(exchange, f"Give the answer by calling {ANSWER}, with:")

    def step(self, step: StepRecord) -> list[Message]:
        """The calls with our ids, then one message for each outcome, then their images."""
        if step.correction:
            thought = step.thought or "(A reply that could not be used.)"
            reply: Message = {"role": "assistant", "content": thought}
            return [reply, {"role": "user", "content": step.correction}]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": legal_name(call.name), "arguments": _arguments(call.input)},
            }
            for call in step.calls
        ]
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
        self, ask: AskModel, form: AnswerForm | None, disabled: Collection[str] = (), last: str = ""
    ) -> AskModel:
        """The request with the tools that are allowed now."""
        if last:
            return replace(ask, messages=last_turn(ask.messages, last))
        allowed = [spec for name, spec in self._specs.items() if name not in disabled]
        if form is not None:
            allowed.append(form.spec)
        return replace(ask, tools=(*allowed, _FAIL_SPEC))

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

    def _action_of_calls(self, reply: ModelReply, form: AnswerForm | None) -> Action:
        thought, reasoning = split_thoughts(reply.text)
        read = [self._read_call(call, reply) for call in reply.calls]
        ends = {each.name: each.input for each in read if each.is_ending}
        calls = [each for each in read if not each.is_ending]
        is_truncated = any(each.is_cut for each in read)
        if is_truncated and [each.name for each in calls] == [ANSWER]:
            return Action(
                thought,
                answer=reply.calls[-1].arguments,
                fault=f"{ANSWER}: {_TRUNCATED}",
                reasoning=reasoning,
                truncated="answer",
            )

        answer = read_answer(ends.get(ANSWER), form)
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
    """The images of a step as a user message, because tool messages cannot contain images.

    Chat templates reject a user message after a tool message, so the assistant asks for it.
    """
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
    return [
        {"role": "assistant", "content": SHOW_IMAGES},
        {"role": "user", "content": user_content(text, images)},
    ]


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
