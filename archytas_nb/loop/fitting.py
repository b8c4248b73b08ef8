"""Whether any tool fits a question, which a small model is asked before it begins.

In the middle of its work such a model takes whatever tool there is: asked for a price, it looks up a weight and
calls it euros. Asked about one tool at a time, in a prompt of its own and for yes or no, it judges well. It is
asked freely: bound to a JSON text it says yes to everything.
Pure: it makes requests and reads replies, and knows neither models nor wire forms.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from archytas_nb.loop.events import AskModel
from archytas_nb.loop.names import words
from archytas_nb.loop.wire import ANSWER, FAIL, ToolCard

MOST_TOOLS = 8
"""Tools that are asked about; each is a request. Where there are more, some tool will fit."""

LONGEST = 1000
"""Characters of a question that is judged: it is read once for each tool."""

ENOUGH = 2
"""Words of content that a question has in common with what a tool does, so that nobody has to be asked."""

_COMMON = re.compile(
    "what|which|many|much|have|with|from|that|this|does|there|name|give|tell|show|find|each|than|then|them|they|were"
    "|will|when|where|your|into|only|over|more|most|some|other|about|look|value|"
)

_REPLY_TOKENS = 3

_FITS = """Tool: {tool}
Request: {question}
Can this tool find out or do what the request asks for? Reply with yes or no."""
_FITS_RULE = "You judge whether a tool fits a question. Reply with yes or no."

_KNOWN = """Request: {question}
Do you know the answer by heart, with certainty? Reply with yes or no."""
_KNOWN_RULE = "You judge what a request needs. Reply with yes or no."

KNOWN = f"(None of your tools is about that, and you know it by heart: use {ANSWER}.)"
IMPOSSIBLE = (
    f"(None of your tools can find this out or do this: use {FAIL}, and say what is missing.)"
)


@dataclass(frozen=True, slots=True)
class Fitting:
    """What was found out.

    Attributes:
        tool: The tool that fits, or seems to by its words; empty where none does, or nothing is known.
        remark: What the model is told beside the question; empty where it is to go on as ever.
    """

    tool: str = ""
    remark: str = ""


def fit(
    question: str, tools: Mapping[str, ToolCard], seconds: float | None
) -> Generator[AskModel, str, Fitting]:
    """Find out whether some tool fits a question.

    Args:
        question: What the user asked, the first in its conversation: others need what was said before.
        tools: The tools by name.
        seconds: What is left of the run's time.

    Yields:
        Requests of step 0; it is sent the text of each reply.

    Returns:
        What was found out.
    """
    if not tools or len(tools) > MOST_TOOLS or len(question) > LONGEST:
        return Fitting()
    asked = words(question)
    likely = sorted(
        tools.values(), key=lambda tool: -len(asked & words(f"{tool.name} {tool.text}"))
    )
    for tool in likely:
        if len(_content(question) & _content(_described(tool))) >= ENOUGH:
            return Fitting(tool.name)
    for tool in likely:
        if (
            yield _request(
                _FITS_RULE, _FITS.format(tool=_described(tool), question=question), seconds
            )
        ) != "no":
            return Fitting(tool.name)
    return Fitting(remark=KNOWN if (yield known(question, seconds)) == "yes" else IMPOSSIBLE)


def known(question: str, seconds: float | None) -> AskModel:
    """The request that asks whether the model knows the answer without a tool."""
    return _request(_KNOWN_RULE, _KNOWN.format(question=question), seconds)


def unused(tool: str) -> str:
    """What a model is told that answers at once what it does not know, and that a tool would find out."""
    return (
        f"You used no tool, and {tool} fits the question: call it now. Only if it cannot help, give your answer "
        "again."
    )


def verdict(text: str) -> str:
    """``"yes"`` or ``"no"``; empty for any other reply."""
    said = text.strip(" \n\"'.*").lower()
    return next((each for each in ("yes", "no") if said.startswith(each)), "")


def _request(rule: str, asked: str, seconds: float | None) -> AskModel:
    messages = ({"role": "system", "content": rule}, {"role": "user", "content": asked})
    return AskModel(0, messages, max_tokens=_REPLY_TOKENS, seconds=seconds)


def _content(text: str) -> set[str]:
    """The words that say what a text is about, in English; plurals are taken for what they are plurals of."""
    found = {
        each.rstrip("s")
        for each in re.findall(r"[^\W_]{4,}", text.lower())
        if not _COMMON.fullmatch(each)
    }
    return {each for each in found if not _COMMON.fullmatch(each)}


def _described(tool: ToolCard) -> str:
    function = tool.spec()["function"]
    inputs = ", ".join(function["parameters"].get("properties", {}))
    return f"{tool.name}({inputs}): {str(function.get('description', '')).strip().partition(chr(10))[0]}"
