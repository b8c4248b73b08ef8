"""The text protocol: one JSON object a reply, ``{"thought", "tool", "tool_input"}``, outcomes as user messages.

Replies are written back in one canonical form, so broken JSON is never re-sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from archytas_nb.loop.events import REFUSED, AskModel, CallOutcome, Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange, Step
from archytas_nb.loop.prompt import react_system
from archytas_nb.loop.reply import read_action
from archytas_nb.loop.wire import (
    ANSWER,
    FAIL,
    Action,
    AskOptions,
    ToolCard,
    last_words,
    question_of,
    user_content,
    with_reasoning,
    with_words,
)

THOUGHT_LENGTH = 200
"""Characters. Grammars of llama.cpp grow with it, and fail in the thousands: answers are bounded by tokens."""

_AFTER_ERROR = (
    "\n\nIt gave no result. Read why, and call again with an input in the form that is expected, "
    "for one thing at a time."
)
"""What a small model does not conclude by itself from how a call ended."""


class ReactWire:
    """The text protocol over a fixed set of tools."""

    name: Literal["react"] = "react"

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        self.tools = tools
        self._system: Message = {
            "role": "system",
            "content": react_system(tools.values(), instructions),
        }
        self._inputs: dict[str, Json] = {name: tool.input_schema() for name, tool in tools.items()}
        self._branches = {name: _branch(name, given) for name, given in self._inputs.items()}
        text = {"type": "string"}
        self._ends = [_branch(ANSWER, text), _branch(FAIL, text)]

    @property
    def beside(self) -> Json:
        """Nothing: the tools stand in the system prompt."""
        return None

    def system(self) -> Message:
        """The rules and every tool's text."""
        return self._system

    def question(self, exchange: Exchange) -> list[Message]:
        """The question as it is, and the type of the answer where one is asked for."""
        is_list = exchange.form is not None and exchange.form.schema.get("type") == "array"
        bare = (
            "a list with an entry for each thing"
            if is_list
            else "the bare value, with no sentence around it"
        )
        return [question_of(exchange, f"The tool_input of {ANSWER} must be {bare}:")]

    def step(self, step: Step) -> list[Message]:
        """The action in canonical JSON, then its outcome; an unusable reply is named, not repeated."""
        if step.correction:
            said = {"role": "assistant", "content": "(A reply that could not be used.)"}
            return [said, {"role": "user", "content": step.correction}]
        actions = [
            _action(step.thought if n == 0 else "", c.name, c.input)
            for n, c in enumerate(step.calls)
        ]
        outcomes = [
            f"Outcome of {call.name} ({outcome.status}):\n{outcome.text}{_hint(outcome)}"
            for call, outcome in zip(step.calls, step.outcomes, strict=True)
        ]
        images = [image for outcome in step.outcomes for image in outcome.images]
        return [
            {"role": "assistant", "content": "\n".join(actions)},
            {"role": "user", "content": user_content("\n\n".join(outcomes), images)},
        ]

    def closing(self, text: str) -> list[Message]:
        """The final answer, as the model would have written it."""
        return [{"role": "assistant", "content": _action("", ANSWER, text)}]

    def ask(self, step: int, messages: Sequence[Message], options: AskOptions) -> AskModel:
        """The messages, and the schema of every action that is legal now: one branch for each tool."""
        sent, bound = tuple(messages), options.max_tokens
        answer, fail = self._ends
        text = answer
        if options.form is not None:
            answer = _branch(ANSWER, options.form.schema)
        if options.last:
            sent = (*sent[:-1], with_words(sent[-1], last_words(options.last)))
            # Who is stopped may have nothing of the type yet: text will do then.
            schema = text if options.form is None else {"oneOf": [answer, text]}
            return AskModel(step, sent, schema=schema, max_tokens=bound, seconds=options.seconds)
        offered = [
            branch for name, branch in self._branches.items() if name not in options.taken_away
        ]
        ends = [
            branch
            for name, branch in ((ANSWER, answer), (FAIL, fail))
            if name not in options.taken_away
        ]
        legal = {"oneOf": [*offered, *ends]}
        return AskModel(step, sent, schema=legal, max_tokens=bound, seconds=options.seconds)

    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """Read the action out of the reply's text."""
        cut = reply.finish == "length"
        refused = reply.finish == REFUSED
        action = read_action(
            reply.text,
            self._inputs,
            prose_is_answer=prose_is_answer,
            form=form,
            cut=cut,
            refused=refused,
        )
        return with_reasoning(action, reply)


def _hint(outcome: CallOutcome) -> str:
    return _AFTER_ERROR if outcome.status == "error" else ""


def _action(thought: str, name: str, given: Json) -> str:
    return json.dumps({"thought": thought, "tool": name, "tool_input": given}, ensure_ascii=False)


def _branch(name: str, given: Json) -> Json:
    return {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "maxLength": THOUGHT_LENGTH},
            "tool": {"const": name},
            "tool_input": given,
        },
        "required": ["thought", "tool", "tool_input"],
        "additionalProperties": False,
    }
