"""What a text lists side by side, as in "Rhine, Elbe or Oder".

It rather finds too little: a small model follows what it reads, and a wrong name costs more than a missing one.
Pure text.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Literal, TypeAlias

LONGEST = 2000
"""Characters of a text that is looked through."""
MOST_PARTS = 24
"""Parts of a clause; where there are more, nobody compares them one by one."""

_CLAUSE = re.compile(r"[.?!;:](?=\s|$)|[()\n]")
_JOINT = re.compile(r",? (and|or|und|oder|et|ou|vs\.?) |, ")
_ARTICLE = re.compile(r"(?:the|a|an|der|die|das|den) ", re.IGNORECASE)
_QUOTES = "\"'“”`"
_ASKS = re.compile(
    r"(?:which|who|what|whose|is|are|was|were|does|do|did|has|have|had|will|can|how|in|for|of|compare|between)",
    re.IGNORECASE,
)
_JOINS = re.compile(
    r"\b(?:with|without|in|at|on|of|for|from|to|by|as|than|then|not|if)\b", re.IGNORECASE
)

Kind: TypeAlias = Literal["name", "number", "code", "word"]


def beside(thing: str, text: str) -> list[str]:
    """The names that a text lists beside this one.

    Args:
        thing: A name: with capitals ("New York"), of code or with digits ("a.csv", "2015"), or else plain words.
        text: A text, of which each clause is looked at for itself.

    Returns:
        The other names of the list, which are of the same kind. Plain words count only where they cannot be much
        else: three or more of them, or two that "or" joins at the end of a clause or that have articles.
    """
    if not thing.strip() or len(text) > LONGEST or thing.lower() not in text.lower():
        return []
    for clause in _CLAUSE.split(text):
        things = _listed_with(thing.strip(), clause.strip())
        if things:
            return [each for each in things if each.lower() != thing.strip().lower()]
    return []


def _listed_with(thing: str, clause: str) -> list[str]:
    """The list of a clause that has the thing; empty where there is none."""
    parts, joints = _parts(clause)
    if thing.lower() not in clause.lower() or len(parts) > MOST_PARTS:
        return []
    for at in range(len(parts)):
        for end in range(len(parts), at + 1, -1):
            things = _items(thing, parts[at:end], first=at == 0)
            if things is None or not any(joints[at : end - 1]):
                continue
            is_whole = _bare(parts[end - 1]).lower() == things[-1].lower()
            if _kind(thing) == "word":
                if not joints[end - 2] or any(_JOINS.search(each) for each in things):
                    continue  # "if a and b differ, tell me"; "the readings, with replacement and with a seed"
                if at == 0 and is_whole and joints[0] == "" and _ASKS.match(clause):
                    continue  # "Which has the higher mean, age or income": the mean is none of them
                articles = all(_ARTICLE.search(part) for part in parts[at:end])
                # "the servers anna and bela": what comes after a plural says what it is made of
                follows = re.search(r"\w{3,}s \w[\w-]*$", parts[at]) is not None and is_whole
                is_pair = joints[at] in ("or", "oder") and (is_whole or articles)
                if len(things) == 2 and not (is_pair or follows):
                    continue
            return things
    return []


def _parts(clause: str) -> tuple[list[str], list[str]]:
    """A clause cut where something is joined, and the word of each joint; a comma alone has none."""
    parts, joints, at = [], [], 0
    for joint in _JOINT.finditer(clause):
        parts.append(clause[at : joint.start()])
        joints.append(joint[1] or "")
        at = joint.end()
    return [*parts, clause[at:]], joints


def _items(thing: str, parts: list[str], *, first: bool) -> list[str] | None:
    """One name of each part: the end of the first, the beginning of the last, and all of those between."""
    things = [
        _at_end(thing, parts[0], opens=first),
        *map(_bare, parts[1:-1]),
        _at_start(thing, parts[-1]),
    ]
    same = all(each and _kind(each) == _kind(thing) for each in things)
    if not same or len({each.lower() for each in things}) < len(things):
        return None
    return things if thing.lower() in {each.lower() for each in things} else None


def _at_end(thing: str, part: str, *, opens: bool) -> str:
    words = part.split()
    if _kind(thing) != "name":
        return _bare(" ".join(words[-len(thing.split()) :]))
    run = list(takewhile(_is_name, reversed(words)))[::-1]
    if opens and len(run) == len(words) > 1 and _ASKS.fullmatch(run[0]):
        run = run[1:]
    return _bare(" ".join(run))


def _at_start(thing: str, part: str) -> str:
    words = _bare(part, ends=False).split()
    if _kind(thing) != "name":
        return _bare(" ".join(words[: len(thing.split())]))
    return _bare(" ".join(takewhile(_is_name, words)))


def _is_name(word: str) -> bool:
    return word.strip(_QUOTES)[:1].isupper() and word != "I"


def _bare(part: str, *, ends: bool = True) -> str:
    """Without article and quotes."""
    part = _ARTICLE.sub("", part.strip(), count=1) if _ARTICLE.match(part.strip()) else part.strip()
    return part.strip(_QUOTES + " ") if ends else part


def _kind(thing: str) -> Kind | None:
    """None for what is no name at all, such as a whole clause."""
    words = thing.split()
    if not words or len(words) > 3:
        return None
    if re.fullmatch(r"-?\d+(?:\.\d+)?", thing):
        return "number"
    if re.search(r"[\d_./\\]", thing):
        return "code" if len(words) == 1 else None
    if all(map(_is_name, words)):
        return "name"
    return None if any(map(_is_name, words)) or thing == "I" else "word"
