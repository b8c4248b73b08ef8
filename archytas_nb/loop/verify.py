"""Questions that a small model is asked about its own work: whether a tool fits, and whether its answer stands.

Nothing here reads words of any language: the model is asked for yes or no, and numbers are compared as digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field

from archytas_nb.loop.events import AskModel
from archytas_nb.loop.wire import ANSWER, FAIL, ToolCard

MAX_TOOLS = 8
"""Tools that are asked about; each is a request. Where there are more, some tool will fit."""

MAX_QUESTION = 1000
"""Characters of a question that is judged: it is read once for each tool."""

MAX_COUNT = 10
"""Whole numbers up to this one are mostly counts of what was just listed, and need no source."""

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

_NUMBER = re.compile(r"(?<![A-Za-z0-9_.,])\d+(?:[.,'’\u00a0\u202f]\d+)*")


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a tool fits a question.

    Attributes:
        tool: The tool that fits; empty where none does, or nobody was asked.
        remark: What the model is told below the question; empty for nothing.
    """

    tool: str = ""
    remark: str = ""


def fit(
    question: str, tools: Mapping[str, ToolCard], seconds: float | None
) -> Generator[AskModel, str, Fit]:
    """Ask tool by tool whether one fits the first question of a conversation.

    Args:
        question: What the user asked.
        tools: The tools by name.
        seconds: What is left of the run's time.

    Yields:
        Requests of step 0; it is sent the text of each reply.

    Returns:
        What was found out.
    """
    if not tools or len(tools) > MAX_TOOLS or len(question) > MAX_QUESTION:
        return Fit()
    for tool in tools.values():
        asked = _FITS.format(tool=_described(tool), question=question)
        if (yield _request(_FITS_RULE, asked, seconds)) != "no":
            return Fit(tool.name)
    return Fit(remark=KNOWN if (yield known(question, seconds)) == "yes" else IMPOSSIBLE)


def known(question: str, seconds: float | None) -> AskModel:
    """The request that asks whether the model knows the answer without a tool."""
    return _request(_KNOWN_RULE, _KNOWN.format(question=question), seconds)


def unused(tool: str) -> str:
    """The correction for an answer that the model does not know and has not looked up."""
    return (
        f"You used no tool, and {tool} fits the question: call it now. Only if it cannot help, give your answer "
        "again."
    )


def verdict(text: str) -> str:
    """``"yes"`` or ``"no"``; empty for any other reply."""
    said = text.strip(" \n\"'.*").lower()
    return next((each for each in ("yes", "no") if said.startswith(each)), "")


@dataclass(slots=True)
class EndCheck:
    """Asks once for each reason before the end of a run counts; a model that repeats its end is believed."""

    _asked: set[str] = field(default_factory=set)

    def correction(
        self, answer: str | None, sources: Callable[[], Iterable[str]], *, just_failed: bool
    ) -> str:
        """What the model is told instead of ending; empty where the end counts.

        Args:
            answer: The final answer; None where the model gives up.
            sources: Makes the texts that a number of the answer may come from.
            just_failed: Whether the last call failed.
        """
        if just_failed and self._is_first("failure"):
            end = "Give up again" if answer is None else "Give your answer again"
            return (
                f"Your last call failed, but another input may work. {end} only if there is none. Otherwise call "
                "the tool now, with an input in the form that is expected and for one thing."
            )
        if answer is None:
            return ""
        if (numbers := unfounded(answer, sources())) and self._is_first("numbers"):
            return (
                f"You were told nothing that contains {', '.join(numbers)}. If no tool can find it out, give "
                "your answer again. Otherwise call the tool now."
            )
        return ""

    def _is_first(self, reason: str) -> bool:
        is_first = reason not in self._asked
        self._asked.add(reason)
        return is_first


def unfounded(answer: str, sources: Iterable[str]) -> list[str]:
    """Find the numbers of an answer that no source holds, nor one that rounds to them.

    Args:
        answer: The answer.
        sources: Questions, tools' texts and outcomes.

    Returns:
        The numbers as the answer writes them, in order, each once.
    """
    numbers = {text: _readings(text) for text in _NUMBER.findall(answer)}
    doubtful = {
        text: readings
        for text, readings in numbers.items()
        if readings and not any(value in range(MAX_COUNT + 1) for value, _ in readings)
    }
    if not doubtful:
        return []
    held = {
        value
        for source in sources
        for text in _NUMBER.findall(source)
        for value, _ in _readings(text)
    }
    return [
        text
        for text, readings in doubtful.items()
        if not any(value == round(each, digits) for value, digits in readings for each in held)
    ]


def _readings(number: str) -> list[tuple[float, int]]:
    """Values that a number may have, with its decimals: languages differ in what a comma means."""
    found = []
    for group, point in (",.", ".,"):
        form = rf"(\d{{1,3}}(?:[{group}'’\u00a0\u202f]\d{{3}})+|\d+)(?:[{point}](\d+))?"
        if match := re.fullmatch(form, number):
            whole, decimals = re.sub(r"\D", "", match[1]), match[2] or ""
            found.append((float(f"{whole}.{decimals}"), len(decimals)))
    return found


def _request(rule: str, asked: str, seconds: float | None) -> AskModel:
    messages = ({"role": "system", "content": rule}, {"role": "user", "content": asked})
    return AskModel(0, messages, max_tokens=_REPLY_TOKENS, seconds=seconds)


def _described(tool: ToolCard) -> str:
    function = tool.spec()["function"]
    inputs = ", ".join(function["parameters"].get("properties", {}))
    return f"{tool.name}({inputs}): {str(function.get('description', '')).strip().partition(chr(10))[0]}"
