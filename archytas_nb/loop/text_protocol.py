"""The text protocol: a reply is one JSON object, and outcomes are user messages.

The object is ``{"thought", "tool", "tool_input"}``. If the endpoint supports it, decoding is
constrained by a schema with one branch for each allowed action. Replies are sent back in canonical
form, so invalid JSON is never sent back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Self

from archytas_nb.choices import ActiveProtocol
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    VAR,
    AskModel,
    CallOutcome,
    Json,
    Message,
    ModelReply,
    ToolCall,
)
from archytas_nb.loop.reading.reply import Action, read_action, with_reasoning
from archytas_nb.loop.record import AnswerForm, Exchange, StepRecord
from archytas_nb.loop.wire import (
    GIVE_UP,
    NAMED,
    NO_TEXT,
    ToolCard,
    Wire,
    last_turn,
    question_message,
    system_message,
    user_content,
)

THOUGHT_LENGTH = 200
"""Maximum number of characters in a thought of a small model. Such limits enlarge the grammars of
llama.cpp, which fail in the thousands, so answers are limited by tokens instead."""

_RULES = """
You work in steps. In each step you reply with ONE JSON object and nothing else:

{{"thought": "…", "tool": "the tool's name", "tool_input": the tool's input}}

Then you are told the outcome, and you take the next step.
- If you know the answer without a tool, use {answer} at once. But never guess what a tool can \
find out.
- Call a tool once for each thing that you need, and never make the same call twice.
- What depends on a condition: compare first, in your thought, and do it only if the condition \
holds.
- If a call fails, read why, and call again with a better input.
- When all that was asked for is known and done, use {answer}. If no tool can do it, use {fail}.

For example, asked "How many months has a year?":
{{"thought": "I know that without a tool.", "tool": "{answer}", "tool_input": "A year has 12 \
months."}}

Asked "Which is warmer, the red room or the blue one? If that one is above 25, open its window.":
{{"thought": "I need both rooms. First red.", "tool": "warmth_of", "tool_input": {{"room": "red"}}}}
Outcome of warmth_of (done): 19.5
{{"thought": "Red has 19.5. I still need blue.", "tool": "warmth_of", "tool_input": {{"room": \
"blue"}}}}
Outcome of warmth_of (done): 22.0
{{"thought": "22.0 > 19.5, so blue is warmer. 22.0 < 25, so I do not open its window.", \
"tool": "{answer}", "tool_input": "The blue room is warmer, with 22.0 degrees. Its window stays \
closed."}}

These are your tools:

{tools}"""

_SHORT_RULES = """
You work in steps. In each step you reply with ONE JSON object and nothing else:

{{"thought": "…", "tool": "the tool's name", "tool_input": the tool's input}}

Then you are told the outcome, and you take the next step. Your tools act on the user's real \
objects; the user sees each call with its output, and then your answer, which may be Markdown.
- Take every number and name from a result in this conversation, and say what you assumed.
- Change, overwrite or delete only what the user asked for.
- When all that was asked for is known and done, use {answer}: the result first, then what limits \
it. If you can do only a part, give that part and say what is missing. Use {fail} only if you have \
nothing to give.

These are your tools:

{tools}"""

_ENDS = f"""{ANSWER}:
    Give the user the final answer. Say it in full sentences, with the numbers that the tools found.

    _input_: (str) The answer
    _output_: None

{FAIL}:
    {GIVE_UP}

    _input_: (str) The reason
    _output_: None"""

_AFTER_ERROR = (
    "\n\nIt gave no result. Read why, and call again with an input in the form that is expected, "
    "for one thing at a time."
)
"""Added because small models do not draw this conclusion from the status alone."""


class TextProtocol(Wire):
    """The text protocol.

    Args:
        tools: The tools by name.
        instructions: The user's instructions.
        teaches: Whether the rules have examples, and thoughts are short, as small models need it.
    """

    name: ActiveProtocol = "react"
    examples: tuple[str, ...] = (
        "A year has {} months.",
        "The {} room is warmer, with {} degrees. Its window stays closed.",
    )

    def __init__(
        self, tools: Mapping[str, ToolCard], instructions: str = "", *, teaches: bool = True
    ) -> None:
        super().__init__(tools, instructions)
        self._teaches = teaches
        if not teaches:
            self.examples = ()
        texts = "\n\n".join([*(tool.text for tool in self.tools.values()), _ENDS])
        rules = (_RULES if teaches else _SHORT_RULES).format(answer=ANSWER, fail=FAIL, tools=texts)
        self.system = system_message(rules, instructions)
        self._inputs = {name: tool.input_schema() for name, tool in self.tools.items()}
        self._branches = {
            name: self._branch(name, tool_input) for name, tool_input in self._inputs.items()
        }

    def without_tools(self, names: Collection[str]) -> Self:
        """The same protocol without these tools."""
        tools = {name: tool for name, tool in self.tools.items() if name not in names}
        other = type(self)(tools, self._instructions, teaches=self._teaches)
        return other.with_searched(self.searched)

    def offering(self, names: Collection[str]) -> Self:
        """The same protocol; the result of a search describes the tools that were found."""
        other = super().offering(names)
        added = {
            name: tool.input_schema()
            for name, tool in other.tools.items()
            if name not in self.tools
        }
        other._inputs = self._inputs | added  # noqa: SLF001 - of the same class
        branches = {name: self._branch(name, each) for name, each in added.items()}
        other._branches = self._branches | branches  # noqa: SLF001
        return other

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        is_list = exchange.form is not None and exchange.form.schema.get("type") == "array"
        bare = "the bare value, with no sentence around it"
        what = bare
        if is_list:
            what = "a list with an entry for each thing"
        more = [f"({NAMED})"] if self._may_name(exchange.form) else []
        return question_message(exchange, f"The tool_input of {ANSWER} must be {what}:", more)

    def _may_name(self, form: AnswerForm | None) -> bool:
        """Whether a variable may be named for an answer; a small model confuses names and texts."""
        return form is not None and form.is_named and not self._teaches

    def step(self, step: StepRecord) -> list[Message]:
        """The calls as canonical JSON, then their outcomes; a rejected reply as it was written.

        Broken JSON is not sent back.
        """
        if step.correction:
            written = step.written or step.thought or NO_TEXT
            if _is_broken(written):  # a model copies what it has written
                written = UNREADABLE
            if step.rejected is not None:
                written = _action("", step.rejected.name, step.rejected.input)
            reply = {"role": "assistant", "content": written}
            return [reply, {"role": "user", "content": step.correction}]
        if not step.calls:  # of a program of another protocol, only its calls are sent
            return []
        actions: list[str] = []
        outcomes: list[str] = []
        images: list[str] = []
        thought = step.thought  # it belongs to the first call
        for call, outcome in step.pairs:
            actions.append(_action(thought, call.name, call.input))
            thought = ""
            outcomes.append(_outcome_text(call, outcome))
            images += outcome.images
        return [
            {"role": "assistant", "content": "\n".join(actions)},
            {"role": "user", "content": user_content("\n\n".join(outcomes), images)},
        ]

    def closing_message(self, text: str) -> Message:
        """The final answer, as the model would have written it."""
        return {"role": "assistant", "content": _action("", ANSWER, text)}

    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """Read the object in the text of a reply."""
        action = read_action(
            reply.text,
            self._inputs,
            prose_is_answer=prose_is_answer,
            form=form,
            finish=reply.finish,
        )
        return with_reasoning(action, reply)

    def with_actions(
        self, ask: AskModel, form: AnswerForm | None, disabled: Collection[str] = (), last: str = ""
    ) -> AskModel:
        """The request with the schema of all actions that are allowed now."""
        text = {"type": "string"}
        answer = self._branch(ANSWER, text)
        if form is not None:
            schema = form.schema
            if self._may_name(form):
                schema = {"oneOf": [schema, _REFERENCE]}
            answer = self._branch(ANSWER, schema)
        if last:
            legal = answer
            if form is not None:  # the model may not have a value of the type yet
                legal = {"oneOf": [answer, self._branch(ANSWER, text)]}
            return replace(ask, messages=last_turn(ask.messages, last), schema=legal)
        branches = {**self._branches, ANSWER: answer, FAIL: self._branch(FAIL, text)}
        allowed = [branch for name, branch in branches.items() if name not in disabled]
        return replace(ask, schema={"oneOf": allowed})

    def _branch(self, name: str, tool_input: Json) -> Json:
        thought: Json = {"type": "string"}
        if self._teaches:
            thought["maxLength"] = THOUGHT_LENGTH
        return {
            "type": "object",
            "properties": {"thought": thought, "tool": {"const": name}, "tool_input": tool_input},
            "required": ["thought", "tool", "tool_input"],
            "additionalProperties": False,
        }


UNREADABLE = "(a reply that could not be read)"
"""Stands for a reply with broken JSON."""

_REFERENCE = {
    "type": "object",
    "properties": {VAR: {"type": "string"}},
    "required": [VAR],
    "additionalProperties": False,
}
"""The schema of the name of a variable."""


def _is_broken(text: str) -> bool:
    """Whether a reply has JSON that is not valid."""
    if "{" not in text:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def _outcome_text(call: ToolCall, outcome: CallOutcome) -> str:
    text = f"Outcome of {call.name} ({outcome.status}):\n{outcome.text}"
    if outcome.status == "error":
        return f"{text}{_AFTER_ERROR}"
    return text


def _action(thought: str, name: str, tool_input: Json) -> str:
    return json.dumps(
        {"thought": thought, "tool": name, "tool_input": tool_input}, ensure_ascii=False
    )
