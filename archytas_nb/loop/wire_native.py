"""Function calling: the tools travel beside the messages, calls and outcomes have messages of their own.

A call that the model wrote into its text instead is taken for what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from archytas_nb.loop.calls import resolve_name
from archytas_nb.loop.events import REFUSED, AskModel, Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange, Step
from archytas_nb.loop.prompt import FAIL_SPEC, native_system
from archytas_nb.loop.reply import read_action, read_arguments, split_think
from archytas_nb.loop.wire import (
    ANSWER,
    FAIL,
    Action,
    AskOptions,
    CutIn,
    ToolCard,
    answer_in,
    last_words,
    only_value,
    question_of,
    user_content,
    with_reasoning,
    with_words,
)

_CUT = "your reply was cut off for its length; send less in one call"


class NativeWire:
    """Function calling over a fixed set of tools."""

    name: Literal["native"] = "native"

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        self.tools = tools
        self._system: Message = {"role": "system", "content": native_system(instructions)}
        self._specs = {name: tool.spec() for name, tool in tools.items()}
        self._inputs: dict[str, Json] = {
            name: spec["function"]["parameters"] for name, spec in self._specs.items()
        }

    @property
    def beside(self) -> Json:
        """The tools."""
        return [*self._specs.values(), FAIL_SPEC]

    def system(self) -> Message:
        """The rules."""
        return self._system

    def question(self, exchange: Exchange) -> list[Message]:
        """The question as it is, and the type of the answer where one is asked for."""
        return [question_of(exchange, f"Give the answer by calling {ANSWER}, with:")]

    def step(self, step: Step) -> list[Message]:
        """The calls under our ids, then one message for each outcome, then the images that they hold."""
        if step.correction:
            said: Message = {
                "role": "assistant",
                "content": step.thought or "(A reply that could not be used.)",
            }
            return [said, {"role": "user", "content": step.correction}]
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _legal(call.name), "arguments": _arguments(call.input)},
            }
            for call in step.calls
        ]
        said = {"role": "assistant", "content": step.thought or None, "tool_calls": calls}
        answers = [
            {"role": "tool", "tool_call_id": outcome.call_id, "content": outcome.text}
            for outcome in step.outcomes
        ]
        return [said, *answers, *_shown(step)]

    def closing(self, text: str) -> list[Message]:
        """The answer in plain text."""
        return [{"role": "assistant", "content": text}]

    def ask(self, step: int, messages: Sequence[Message], options: AskOptions) -> AskModel:
        """The messages and the tools that are offered now; the last turn has none."""
        sent, bound = tuple(messages), options.max_tokens
        if options.last:
            sent = (*sent[:-1], with_words(sent[-1], last_words(options.last)))
            return AskModel(
                step, sent, max_tokens=bound, seconds=options.seconds, asides=options.asides
            )
        offered = [spec for name, spec in self._specs.items() if name not in options.taken_away]
        ends = [FAIL_SPEC] if options.form is None else [options.form.spec, FAIL_SPEC]
        tools = (*offered, *ends)
        return AskModel(
            step, sent, tools, max_tokens=bound, seconds=options.seconds, asides=options.asides
        )

    def read(
        self,
        reply: ModelReply,
        *,
        prose_is_answer: bool,  # noqa: ARG002 - here it always is
        form: AnswerForm | None = None,
    ) -> Action:
        """Read calls, an answer or a fault out of the reply."""
        cut = reply.finish == "length"
        if reply.calls:
            action = self._from_calls(reply, form)
        else:
            refused = reply.finish == REFUSED
            action = read_action(
                reply.text,
                self._inputs,
                prose_is_answer=True,
                strict=True,
                form=form,
                cut=cut,
                refused=refused,
            )
        return with_reasoning(action, reply)

    def _from_calls(self, reply: ModelReply, form: AnswerForm | None) -> Action:  # noqa: C901
        thought, reasoning = split_think(reply.text)
        calls: list[tuple[str, Json]] = []
        unread: list[tuple[int, str]] = []
        extras: dict[int, Json] = {}
        answer: Json = None
        null = False
        failure: str | None = None
        cut: CutIn = ""
        repaired: list[str] = []
        for call in reply.calls:
            name = resolve_name(call.name, self._inputs)
            given, how, fault = read_arguments(call.arguments, self._inputs.get(name))
            is_last = call is reply.calls[-1]
            if reply.finish == "length" and (fault or (is_last and not _is_whole(call.arguments))):
                given, how, fault, cut = None, "", _CUT, "other"
            if how:
                repaired.append(f"{name}: {how}")
            if name == ANSWER and not fault:
                answer = answer_in(given, form)
                null = form is not None and answer is None
            elif name == FAIL and not fault:
                failure = str(only_value(given) or "no reason given")
            else:
                if fault:
                    unread.append(
                        (len(calls), f"{name} was not run: {fault}. Send the call again.")
                    )
                if call.extra is not None:
                    extras[len(calls)] = call.extra
                calls.append((name, given))
        if cut and [name for name, _ in calls] == [ANSWER]:
            text = reply.calls[-1].arguments
            return Action(
                thought, answer=text, fault=f"{ANSWER}: {_CUT}", reasoning=reasoning, cut="answer"
            )
        if answer is None and not null and not calls and failure is None:
            return Action(thought, fault=f"{ANSWER} needs the answer.")
        if calls or answer is not None or null:
            failure = None  # what the calls come to may change its mind
        return Action(
            thought, tuple(calls), answer, failure, repaired="; ".join(repaired), unread=tuple(unread),
            null=null, reasoning=reasoning, extras=extras, cut=cut,
        )  # fmt: skip


def _is_whole(arguments: str) -> bool:
    """Whether arguments are surely not cut off: a bare number or text may be."""
    try:
        return isinstance(json.loads(arguments), (dict, list, str))
    except (ValueError, RecursionError):
        return False


def _shown(step: Step) -> list[Message]:
    """The images of a step as a turn of the user's, because a tool's message can hold none.

    Templates refuse a user's message after a tool's, so the assistant asks for it.
    """
    shown = [
        (call.name, o.images) for call, o in zip(step.calls, step.outcomes, strict=True) if o.images
    ]
    if not shown:
        return []
    images = [image for _, each in shown for image in each]
    which = ", ".join(
        f"{name} ({len(each)} images)" if len(each) > 1 else name for name, each in shown
    )
    text = f"{'The image' if len(images) == 1 else 'The images'} of {which}:"
    return [
        {"role": "assistant", "content": "(Show me what is to be seen.)"},
        {"role": "user", "content": user_content(text, images)},
    ]


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _arguments(given: Json) -> str:
    """Arguments as an object: chat templates fail on anything else."""
    if given is None:
        given = {}
    return json.dumps(given if isinstance(given, dict) else {"input": given}, ensure_ascii=False)
