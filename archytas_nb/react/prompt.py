"""The words of the system prompt, for both wire forms.

Every sentence costs a small model attention and a large one money: each says something that the schema cannot.
"""

from __future__ import annotations

from collections.abc import Iterable

from archytas_nb.react.wire import ANSWER, FAIL, ToolCard

ROLE = "You answer a data scientist who works in a live Jupyter notebook."

_REACT = """
You work in steps. In each step you reply with ONE JSON object and nothing else:

{{"thought": "…", "tool": "the tool's name", "tool_input": the tool's input}}

Then you are told the outcome, and you take the next step. Never guess what a tool can find out, and never make \
the same call twice. When you know all that was asked for, use {answer}. If it cannot be done, use {fail}.

For example, asked "How long are the Rhine and the Elbe?", with a tool that knows rivers:

{{"thought": "I need both. First the Rhine.", "tool": "length_of", "tool_input": {{"river": "Rhine"}}}}
Outcome of length_of (done): 1233
{{"thought": "The Rhine is 1233. I still need the Elbe.", "tool": "length_of", "tool_input": {{"river": "Elbe"}}}}
Outcome of length_of (done): 1094
{{"thought": "I have both.", "tool": "{answer}", "tool_input": "The Rhine is 1233 km long, the Elbe 1094 km."}}

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
