"""The function calling protocol: tools are a field of the request, outcomes are tool messages.

A call that the model wrote into its text instead is executed as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from archytas_nb.loop.calls import resolve_name, split_thoughts
from archytas_nb.loop.events import AskModel, Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange, Step
from archytas_nb.loop.reply import (
    ANSWER,
    FAIL,
    Action,
    only_value,
    read_answer,
    read_arguments,
    with_reasoning,
)
from archytas_nb.loop.text_protocol import (
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

    name = "native"

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        super().__init__(tools, instructions)
        self.system = system_message(_RULES, instructions)
        self._specs = {name: tool.spec() for name, tool in self.tools.items()}
        self._inputs = {name: spec["function"]["parameters"] for name, spec in self._specs.items()}
        self.tool_specs = [*self._specs.values(), _FAIL_SPEC]

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        return question_message(exchange, f"Give the answer by calling {ANSWER}, with:")

    def step(self, step: Step) -> list[Message]:
        """The calls with our ids, then one message for each outcome, then their images."""
        if step.correction:
            thought = step.thought or "(A reply that could not be used.)"
            reply: Message = {"role": "assistant", "content": thought}
            return [reply, {"role": "user", "content": step.correction}]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _legal(call.name), "arguments": _arguments(call.input)},
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
        """The request with the tools that are allowed now; see `TextProtocol.with_actions`."""
        if last:
            return replace(ask, messages=last_turn(ask.messages, last))
        allowed = [spec for name, spec in self._specs.items() if name not in disabled]
        ends = [_FAIL_SPEC] if form is None else [form.spec, _FAIL_SPEC]
        return replace(ask, tools=(*allowed, *ends))

    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """Read calls, an answer or a fault from the reply."""
        if not reply.calls:
            return super().read(reply, prose_is_answer=prose_is_answer, form=form)
        return with_reasoning(self._from_calls(reply, form), reply)

    def _from_calls(self, reply: ModelReply, form: AnswerForm | None) -> Action:
        thought, reasoning = split_thoughts(reply.text)
        calls: list[tuple[str, Json]] = []
        unreadable: list[tuple[int, str]] = []
        extras: dict[int, Json] = {}
        repaired: list[str] = []
        ends: dict[str, Json] = {}
        is_truncated = False
        for call in reply.calls:
            name = resolve_name(call.name, self._inputs)
            tool_input, how, fault = read_arguments(call.arguments, self._inputs.get(name))
            # In a truncated reply, a bare number or text may be incomplete.
            is_part = call is reply.calls[-1] and not isinstance(tool_input, (dict, list))
            if reply.finish == "length" and (fault or is_part):
                tool_input, how, fault, is_truncated = None, "", _TRUNCATED, True
            if how:
                repaired.append(f"{name}: {how}")
            if name in (ANSWER, FAIL) and not fault:
                ends[name] = tool_input
                continue
            if fault:
                unreadable.append(
                    (len(calls), f"{name} was not run: {fault}. Send the call again.")
                )
            if call.extra is not None:
                extras[len(calls)] = call.extra
            calls.append((name, tool_input))
        answer = read_answer(ends.get(ANSWER), form)
        null = form is not None and ANSWER in ends and answer is None
        if is_truncated and [name for name, _ in calls] == [ANSWER]:
            text = reply.calls[-1].arguments
            return Action(
                thought,
                answer=text,
                fault=f"{ANSWER}: {_TRUNCATED}",
                reasoning=reasoning,
                truncated="answer",
            )
        failure = None
        if answer is None and not null and not calls:
            if FAIL not in ends:
                return Action(thought, fault=f"{ANSWER} needs the answer.")
            failure = str(only_value(ends[FAIL]) or "no reason given")
        return Action(
            thought, tuple(calls), answer, failure, repaired="; ".join(repaired),
            unreadable=tuple(unreadable), null=null, reasoning=reasoning, extras=extras,
            truncated="other" if is_truncated else "",
        )  # fmt: skip


def _images(step: Step) -> list[Message]:
    """The images of a step as a user message, because tool messages cannot contain images.

    Chat templates reject a user message after a tool message, so the assistant asks for it.
    """
    shown = [(call.name, outcome.images) for call, outcome in step.pairs if outcome.images]
    if not shown:
        return []
    images = [image for _, each in shown for image in each]
    which = ", ".join(
        f"{name} ({len(each)} images)" if len(each) > 1 else name for name, each in shown
    )
    text = f"{'The image' if len(images) == 1 else 'The images'} of {which}:"
    return [
        {"role": "assistant", "content": SHOW_IMAGES},
        {"role": "user", "content": user_content(text, images)},
    ]


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _arguments(tool_input: Json) -> str:
    """Arguments as an object, because chat templates fail with anything else."""
    if tool_input is None:
        tool_input = {}
    return json.dumps(
        tool_input if isinstance(tool_input, dict) else {"input": tool_input}, ensure_ascii=False
    )
