"""Function calling: the tools travel beside the messages, calls and outcomes have messages of their own.

A call that the model wrote into its text instead is taken for what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from archytas_nb.react.events import AskModel, Json, Message, ModelReply, WireCall
from archytas_nb.react.history import Step
from archytas_nb.react.parse import loads_repaired, read_action, without_think
from archytas_nb.react.prompt import FAIL_SPEC, native_system
from archytas_nb.react.wire import ANSWER, FAIL, Action, ToolCard, last_words


class NativeWire:
    """Function calling over a fixed set of tools."""

    name: Literal["native"] = "native"

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        self.tools = tools
        self._system: Message = {"role": "system", "content": native_system(instructions)}
        self._specs = {name: tool.spec() for name, tool in tools.items()}

    def system(self) -> Message:
        """The rules."""
        return self._system

    def question(self, text: str) -> list[Message]:
        """The question as it is."""
        return [{"role": "user", "content": text}]

    def step(self, step: Step) -> list[Message]:
        """The calls under our ids, then one message for each outcome."""
        if step.correction:
            said: Message = {"role": "assistant", "content": step.thought or "(A reply that could not be used.)"}
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
        return [said, *answers]

    def closing(self, text: str) -> list[Message]:
        """The answer in plain text."""
        return [{"role": "assistant", "content": text}]

    def ask(
        self, step: int, messages: Sequence[Message], *, taken_away: Collection[str], last: str, max_tokens: int
    ) -> AskModel:
        """The messages and the tools that are offered now; the last turn has none."""
        if last:
            sent = (*messages, {"role": "user", "content": last_words(last)})
            return AskModel(step, sent, max_tokens=max_tokens)
        offered = tuple(spec for name, spec in self._specs.items() if name not in taken_away)
        return AskModel(step, tuple(messages), tools=(*offered, FAIL_SPEC), max_tokens=max_tokens)

    def read(self, reply: ModelReply, *, offered: Collection[str], prose_is_answer: bool) -> Action:
        """Read calls, an answer or a fault out of the reply."""
        del offered  # a server may let a model call what it was not offered; the executor answers that
        if reply.calls:
            return _from_calls(reply.calls, thought=_thought(reply))
        text = without_think(reply.text).strip()
        written = read_action(text, self.tools, prose_is_answer=True, strict=True)
        if written.calls or written.failure is not None:
            return written
        if text:
            answer = written.answer if written.answer is not None and written.repaired else text
            if reply.finish == "length" and not prose_is_answer:
                return Action(
                    thought=text[:500], fault="Your reply was cut off for its length. Say it in fewer words."
                )
            return Action(thought=reply.reasoning, answer=answer)
        return Action(fault="Your reply was empty. Call a tool, or reply with the answer in plain text.")


def _thought(reply: ModelReply) -> str:
    return (without_think(reply.text).strip() or reply.reasoning).strip()


def _from_calls(sent: Sequence[WireCall], thought: str) -> Action:
    calls: list[tuple[str, Json]] = []
    answer: Json = None
    failure: str | None = None
    repaired: list[str] = []
    for call in sent:
        given, how = loads_repaired(call.arguments)
        if how:
            repaired.append(f"{call.name}: {how}")
        if call.name == ANSWER:
            answer = _only_value(given)
        elif call.name == FAIL:
            failure = str(_only_value(given))
        else:
            calls.append((call.name, given))
    if calls:
        failure = None  # what the calls come to may change its mind
    return Action(thought, tuple(calls), answer, failure, repaired="; ".join(repaired))


def _only_value(given: Json) -> Json:
    return next(iter(given.values())) if isinstance(given, dict) and len(given) == 1 else given


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _arguments(given: Json) -> str:
    """Arguments as an object: chat templates fail on anything else."""
    if given is None:
        given = {}
    return json.dumps(given if isinstance(given, dict) else {"input": given}, ensure_ascii=False)
