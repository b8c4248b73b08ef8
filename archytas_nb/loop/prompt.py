"""The words of the system prompt, for both wire forms.

Every sentence costs a small model attention and a large one money: each says something that the schema cannot.
"""

from __future__ import annotations

from collections.abc import Iterable

from archytas_nb.loop.wire import ANSWER, FAIL, ToolCard

ROLE = "You answer a data scientist who works in a live Jupyter notebook."

_REACT = """
You work in steps. In each step you reply with ONE JSON object and nothing else:

{{"thought": "…", "tool": "the tool's name", "tool_input": the tool's input}}

Then you are told the outcome, and you take the next step.
- If you know the answer without a tool, use {answer} at once. But never guess what a tool can find out.
- Call a tool once for each thing that you need, and never make the same call twice.
- What depends on a condition: compare first, in your thought, and do it only if the condition holds.
- If a call fails, read why, and call again with a better input.
- When all that was asked for is known and done, use {answer}. If no tool can do it, use {fail}.

For example, asked "How many months has a year?":
{{"thought": "I know that without a tool.", "tool": "{answer}", "tool_input": "A year has 12 months."}}

Asked "Which is warmer, the red room or the blue one? If that one is above 25, open its window.":
{{"thought": "I need both rooms. First red.", "tool": "warmth_of", "tool_input": {{"room": "red"}}}}
Outcome of warmth_of (done): 19.5
{{"thought": "Red has 19.5. I still need blue.", "tool": "warmth_of", "tool_input": {{"room": "blue"}}}}
Outcome of warmth_of (done): 22.0
{{"thought": "22.0 > 19.5, so blue is warmer. 22.0 < 25, so I do not open its window.", "tool": "{answer}", \
"tool_input": "The blue room is warmer, with 22.0 degrees. Its window stays closed."}}

These are your tools:

{tools}"""

_NATIVE = """
Use the tools to find out what you do not know: never guess what a tool can find out, and never make the same
call twice. When you know the answer, reply with it in plain text. If the task cannot be done, call {fail}
with the reason."""

_ANSWER_TEXT = f"""{ANSWER}:
    Give the user the final answer. Say it in full sentences, with the numbers that the tools found.

    _input_: (str) The answer
    _output_: None"""

_FAIL_TEXT = f"""{FAIL}:
    Give up, when the task cannot be done with these tools.

    _input_: (str) The reason
    _output_: None"""

FAIL_SPEC = {
    "type": "function",
    "function": {
        "name": FAIL,
        "description": "Give up, when the task cannot be done with these tools.",
        "parameters": {
            "type": "object",
            "properties": {"reason": {"type": "string", "description": "Why it cannot be done"}},
            "required": ["reason"],
            "additionalProperties": False,
        },
    },
}


def react_system(tools: Iterable[ToolCard], instructions: str = "") -> str:
    """The system prompt of the text protocol: the form of a reply and the text of every tool."""
    texts = [*(tool.text for tool in tools), _ANSWER_TEXT, _FAIL_TEXT]
    return _joined(_REACT.format(answer=ANSWER, fail=FAIL, tools="\n\n".join(texts)), instructions)


def native_system(instructions: str = "") -> str:
    """The system prompt of function calling: the tools travel beside it."""
    return _joined(_NATIVE.format(fail=FAIL), instructions)


def _joined(rules: str, instructions: str) -> str:
    return "\n".join(part for part in (ROLE, rules.strip("\n"), instructions.strip()) if part)
