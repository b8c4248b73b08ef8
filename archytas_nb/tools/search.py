"""Finds tools by words: of many, a model gets those that fit, and finds others when it needs them.

They are ranked by BM25 over the texts that a model reads of them. The libraries for it need numpy
or are no longer maintained, and the formula is one line.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.tool import Tool
from archytas_nb.words import count

TOOL = "find_tools"
"""The name of the tool that finds others."""
FOUND = 5
"""How many tools one search finds."""
_SATURATION, _LENGTH = 1.5, 0.75  # the parameters of BM25, as they are mostly set
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"\d+|[^\W\d_]+")
_ENDINGS = ("ing", "ies", "es", "ed", "s", "e")
_MIN_STEM = 3
_WITHOUT_SPACES = "\u3040"
"""From here on are the letters of languages that put no spaces between words."""


def best(tools: Mapping[str, Tool], what: str, most: int = FOUND) -> list[str]:
    """The names of the tools whose texts fit best, the best first; each shares a word with it.

    Args:
        tools: The tools by name.
        what: The words to look for.
        most: Maximum number of names.
    """
    words = {*_words(what)}
    texts = {name: _counted(tool.text) for name, tool in tools.items()}
    frequency = Counter(word for each in texts.values() for word in words & each.keys())
    mean = sum(each.total() for each in texts.values()) / max(len(texts), 1)

    def score(name: str) -> float:
        text = texts[name]
        length = 1 - _LENGTH + _LENGTH * text.total() / mean
        total = 0.0
        for word in words & text.keys():
            rarity = math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            total += rarity * text[word] * (_SATURATION + 1) / (text[word] + _SATURATION * length)
        return total

    fitting = {name: points for name in texts if (points := score(name)) > 0}
    # Equal ones keep their order.
    return sorted(fitting, key=lambda name: -fitting[name])[:most]


@functools.lru_cache(maxsize=4096)
def _counted(text: str) -> Counter[str]:
    """The words of a text, with how often each occurs."""
    return Counter(_words(text))


def _words(text: str) -> list[str]:
    """The words of a text or a name, without their endings."""
    words: list[str] = []
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        if word[0] >= _WITHOUT_SPACES:
            words += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        else:
            words.append(_stem(word.lower()))
    return words


def _stem(word: str) -> str:
    """A word without its ending, so that ``counts`` and ``counting`` are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM:
            return word.removesuffix(ending)
    return word


def search_tool(tools: Mapping[str, Tool], written: Callable[[Tool], str]) -> Tool:
    """The tool with which a model finds others, which it can call from then on.

    Args:
        tools: The tools that it finds.
        written: The model's description of a tool that was found.
    """
    tools = MappingProxyType(dict(tools))

    def find(what: str, run: CurrentRun) -> str:  # noqa: D417 - the model does not see the run
        """Find tools that are not listed here: there are many more.

        Args:
            what: What a tool is to do, in a few words
        """
        names = best(tools, what)
        if not names:
            return f"None of {count(len(tools), 'tool')} fits {what!r}: try other words."
        run.offers += names
        texts = "\n\n".join(written(tools[each]) for each in names)
        return f"You can call these now:\n\n{texts}"

    return Tool.from_function(find, TOOL, pure=True, max_chars=60_000)


def not_described(
    tools: Mapping[str, Tool], question: str, known: Collection[str], most: int
) -> frozenset[str]:
    """The names of the tools that a model has to find, as there are more than are described.

    Args:
        tools: The tools of the user.
        question: The first question of the conversation: the tools that fit it are described.
        known: The names of those that were described before.
        most: How many are described without a search.
    """
    if len(tools) <= most:
        return frozenset()
    return frozenset(tools) - {*best(tools, question, min(FOUND, most))} - {*known}
