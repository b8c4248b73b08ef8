"""The text protocol: a reply is one JSON object, and outcomes are user messages.

The object is ``{"thought", "tool", "tool_input"}``. If the endpoint supports it, decoding is
constrained by a schema with one branch for each allowed action. Replies are sent back in canonical
form, so invalid JSON is never sent back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol, Self

from archytas_nb.loop.events import REFUSED, AskModel, Json, Message, ModelReply
from archytas_nb.loop.history import AnswerForm, Exchange, Step
from archytas_nb.loop.lenient import replace_surrogates
from archytas_nb.loop.reply import ANSWER, FAIL, Action, read_action, with_reasoning

GIVE_UP = "Give up, when the task cannot be done with these tools."
_ROLE = "You answer a data scientist who works in a live Jupyter notebook."
VARIABLES = "Variables of the notebook, as they are now (what is written here needs no tool):"
THOUGHT_LENGTH = 200
"""Maximum number of characters in a thought. Such limits enlarge the grammars of llama.cpp, which
fail in the thousands, so answers are limited by tokens instead."""

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


class ToolCard(Protocol):
    """The interface of a tool for a wire protocol."""

    @property
    def name(self) -> str:
        """The name in requests."""

    @property
    def text(self) -> str:
        """What the model reads in the text protocol."""

    def spec(self) -> Json:
        """The specification for function calling."""

    def input_schema(self) -> Json:
        """JSON schema of ``tool_input`` in the text protocol."""


class Wire:
    """Base class of both wire protocols, with the tools and the user's instructions.

    A record always results in the same messages, whatever is added to it.
    """

    name: Literal["react", "native"]
    system: Message  # the first message
    tool_specs: Json = None  # the tools that are sent in a separate field

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        self.tools: Mapping[str, ToolCard] = dict(tools)
        self._instructions = instructions
        self._inputs: dict[str, Json] = {}  # the schemas of the tools' inputs

    def without_tools(self, names: Collection[str]) -> Self:
        """The same protocol without these tools."""
        tools = {name: tool for name, tool in self.tools.items() if name not in names}
        return type(self)(tools, self._instructions)

    def read(
        self, reply: ModelReply, *, prose_is_answer: bool, form: AnswerForm | None = None
    ) -> Action:
        """Read the text of a reply; with function calling, plain text is the answer."""
        native = self.name == "native"
        action = read_action(
            reply.text,
            self._inputs,
            prose_is_answer=prose_is_answer or native,
            strict=native,
            form=form,
            truncated=reply.finish == "length",
            refused=reply.finish == REFUSED,
        )
        return with_reasoning(action, reply)


class TextProtocol(Wire):
    """The text protocol."""

    name = "react"

    def __init__(self, tools: Mapping[str, ToolCard], instructions: str = "") -> None:
        super().__init__(tools, instructions)
        texts = "\n\n".join([*(tool.text for tool in self.tools.values()), _ENDS])
        rules = _RULES.format(answer=ANSWER, fail=FAIL, tools=texts)
        self.system = system_message(rules, instructions)
        self._inputs = {name: tool.input_schema() for name, tool in self.tools.items()}
        self._branches = {
            name: _branch(name, tool_input) for name, tool_input in self._inputs.items()
        }

    def question(self, exchange: Exchange) -> Message:
        """The question, and the type of the answer if one is required."""
        is_list = exchange.form is not None and exchange.form.schema.get("type") == "array"
        bare = "the bare value, with no sentence around it"
        what = "a list with an entry for each thing" if is_list else bare
        return question_message(exchange, f"The tool_input of {ANSWER} must be {what}:")

    def step(self, step: Step) -> list[Message]:
        """The calls as canonical JSON, then their outcomes; an unusable reply is not sent back."""
        if step.correction:
            unusable = {"role": "assistant", "content": "(A reply that could not be used.)"}
            return [unusable, {"role": "user", "content": step.correction}]
        thoughts = (step.thought, *[""] * len(step.calls))
        actions = [
            _action(thought, call.name, call.input)
            for thought, call in zip(thoughts, step.calls, strict=False)
        ]
        outcomes = [
            f"Outcome of {call.name} ({outcome.status}):\n{outcome.text}"
            f"{_AFTER_ERROR if outcome.status == 'error' else ''}"
            for call, outcome in zip(step.calls, step.outcomes, strict=True)
        ]
        images = [image for outcome in step.outcomes for image in outcome.images]
        return [
            {"role": "assistant", "content": "\n".join(actions)},
            {"role": "user", "content": user_content("\n\n".join(outcomes), images)},
        ]

    def closing_message(self, text: str) -> Message:
        """The final answer, as the model would have written it."""
        return {"role": "assistant", "content": _action("", ANSWER, text)}

    def with_actions(
        self, ask: AskModel, form: AnswerForm | None, disabled: Collection[str] = (), last: str = ""
    ) -> AskModel:
        """The request with the schema of all actions that are allowed now.

        Args:
            ask: The request with its messages.
            form: The required form of the answer; None for text.
            disabled: Names of tools that cannot be used now.
            last: The limit that makes this the last request of the run; empty otherwise.
        """
        text = {"type": "string"}
        answer = _branch(ANSWER, text if form is None else form.schema)
        if last:
            # The model may not have a value of the type yet, so text is allowed as well.
            legal = answer if form is None else {"oneOf": [answer, _branch(ANSWER, text)]}
            return replace(ask, messages=last_turn(ask.messages, last), schema=legal)
        branches = {**self._branches, ANSWER: answer, FAIL: _branch(FAIL, text)}
        allowed = [branch for name, branch in branches.items() if name not in disabled]
        return replace(ask, schema={"oneOf": allowed})


def _action(thought: str, name: str, tool_input: Json) -> str:
    return json.dumps(
        {"thought": thought, "tool": name, "tool_input": tool_input}, ensure_ascii=False
    )


def _branch(name: str, tool_input: Json) -> Json:
    return {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "maxLength": THOUGHT_LENGTH},
            "tool": {"const": name},
            "tool_input": tool_input,
        },
        "required": ["thought", "tool", "tool_input"],
        "additionalProperties": False,
    }


# ── messages of both wire protocols ───────────────────────────────────────────────────────────────


def system_message(rules: str, instructions: str) -> Message:
    """The first message of a conversation."""
    parts = (_ROLE, rules.strip("\n"), instructions.strip())
    text = "\n".join(part for part in parts if part)
    return {"role": "system", "content": text if text.isascii() else replace_surrogates(text)}


def question_message(exchange: Exchange, how: str) -> Message:
    """The message of a question; ``how`` introduces the type of the answer."""
    text = exchange.question
    context = exchange.context
    if context is not None and context.is_offered and context.text:
        text = f"{text}\n\n{VARIABLES}\n{context.text}"
    if exchange.form is not None:
        text = f"{text}\n\n({how} {exchange.form.text})"
    if exchange.hint:
        text = f"{text}\n\n{exchange.hint}"
    return {"role": "user", "content": user_content(text, exchange.images)}


def user_content(text: str, images: Sequence[str]) -> Json:
    """The content of a message: text, or parts if there are images (PNG or JPEG, base64)."""
    if not images:
        return text
    kinds = ("jpeg" if image.startswith("/9j/") else "png" for image in images)
    urls = (f"data:image/{kind};base64,{image}" for kind, image in zip(kinds, images, strict=True))
    pictures = ({"type": "image_url", "image_url": {"url": url}} for url in urls)
    return [{"type": "text", "text": text}, *pictures]


def last_turn(messages: Sequence[Message], limit: str) -> tuple[Message, ...]:
    """The messages with the instruction for the last turn, when a limit ends the run."""
    text = (
        f"The run must end now: its limit {limit} is reached and no tool can be used any more. "
        "Say in your final answer what you found out so far, and what is missing."
    )
    *before, last = messages
    content = last["content"]
    if isinstance(content, str):
        return (*before, {**last, "content": f"{content}\n\n{text}"})
    return (*before, {**last, "content": [*content, {"type": "text", "text": text}]})
