"""The block of Python code with which an answer is to end: the request for it, and the reminder.

A model that leaves the code out is asked a second time, for nothing but the code. A small model
cannot write code in the form of its answers. Without tools it therefore answers in prose, and where
the endpoint constrains replies, it can write nothing but a text and the code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from archytas_nb.loop.events import AskModel, Message
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.wire import question_message, system_message

_ROLE = "You write Python code for cells of the notebook."
_AGAIN = "Now write only the whole code of that cell, as one block that begins with ```python."
_CORRECTED = (
    "Now write only the corrected cell, as one block that begins with ```python. Change as little "
    "as possible: what ran before it need not be repeated. The cell that failed:\n"
    "```python\n{source}\n```"
)
_LINES = r"""line ::= [^`\n]* "\n"
"""
_CODE = rf"""root ::= "```python\n" line+ "```"
{_LINES}"""
_TEXT_AND_CODE = rf"""root ::= piece{{20,600}} "\n```python\n" line+ "```"
piece ::= [^`] | "`" [^`\n]+ "`"
{_LINES}"""

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


class CodeRequests:
    """The requests for an answer that ends with code, without any tools.

    Args:
        exchange: The question.
        instructions: The user's instructions.
        has_grammars: Whether the endpoint constrains replies.
    """

    def __init__(self, exchange: Exchange, instructions: str, *, has_grammars: bool) -> None:
        self._exchange = exchange
        self._system = system_message(_ROLE, instructions)
        self._has_grammars = has_grammars

    def answer(self, ask: AskModel) -> AskModel:
        """The request for an answer in prose with its code; its limits are those of `ask`."""
        return self._request(ask, [question_message(self._exchange, "")], _TEXT_AND_CODE)

    def code(self, ask: AskModel, answer: str) -> AskModel:
        """The request for the code that an answer lacks."""
        again = _AGAIN
        if self._exchange.error is not None:
            again = _CORRECTED.format(source=self._exchange.error.source)
        messages = [
            question_message(self._exchange, "", can_write_code=False),
            {"role": "assistant", "content": answer},
            {"role": "user", "content": again},
        ]
        return self._request(ask, messages, _CODE)

    def _request(self, ask: AskModel, messages: Sequence[Message], grammar: str) -> AskModel:
        return AskModel(
            ask.step,
            (self._system, *messages),
            max_tokens=ask.max_tokens,
            seconds=ask.seconds,
            grammar=grammar if self._has_grammars else "",
        )
