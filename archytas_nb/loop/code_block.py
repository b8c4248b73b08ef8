"""The block of Python code with which an answer is to end: what the model is told, and told again.

A small model explains what is wrong and leaves the code out, or cannot write it in the form of its
answers. So it is asked a second time, for nothing but the code, and where the endpoint constrains
replies it can write nothing else.
"""

from __future__ import annotations

import re
from dataclasses import replace

from archytas_nb.loop.events import AskModel
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.wire import question_message, system_message

ROLE = "You write Python code for cells of the notebook."
AGAIN = (
    "Now write the whole code of that cell, corrected and complete, as one block that begins with "
    "```python. Write nothing else."
)
GRAMMAR = r"""root ::= "```python\n" line+ "```"
line ::= [^`\n]* "\n"
"""

_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py|python3|ipython)?[ \t]*\n(?P<code>.*?)^[ \t]*```",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)


def block_in(text: str) -> str:
    """The first block of Python code of a text, with its fences; empty if there is none."""
    found = _BLOCK.search(text)
    if found is None or not found["code"].strip():
        return ""
    return found[0]


def request_again(
    ask: AskModel, exchange: Exchange, answer: str, instructions: str, *, has_grammars: bool
) -> AskModel:
    """The request for the code that an answer lacks.

    Args:
        ask: The request whose limits it has.
        exchange: The question.
        answer: The answer.
        instructions: The user's instructions.
        has_grammars: Whether the endpoint constrains replies.
    """
    asked = question_message(replace(exchange, wants_code=False), "")
    messages = (
        system_message(ROLE, instructions),
        asked,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": AGAIN},
    )
    return AskModel(
        ask.step,
        messages,
        max_tokens=ask.max_tokens,
        seconds=ask.seconds,
        grammar=GRAMMAR if has_grammars else "",
    )
