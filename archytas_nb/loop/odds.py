"""How probable the options of an answer were to the model, by the tokens of its reply.

A reply is written token by token, and some endpoints say of each token how probable it and some
others were. Where an answer can only be one of a few options, such as a `Literal` or a bool, most
of its tokens could not be others: only at a branch, where the options differ, one was chosen. There
the probability is shared among the tokens that begin an option. So a long option is not less
probable than a short one, and tokens that no option begins with do not count.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from archytas_nb.errors import argument_error
from archytas_nb.loop.events import Json, Token

Odds: TypeAlias = Mapping[str, Mapping[str, float]]
"""The probability of each option, by the field of the answer; ``"answer"`` if it has no fields."""

WHOLE = "answer"
"""The name of an answer that has no fields."""

_MAX_OPTIONS = 64
_TEXT_STYLES: Sequence[Callable[[Json], str]] = (
    lambda value: json.dumps(value, ensure_ascii=False),
    repr,  # of a program
)


def options_in(schema: Json) -> dict[str, tuple[Json, ...]]:
    """The options of each field that can only have a few values; of the whole, `WHOLE`.

    Args:
        schema: The JSON schema of an answer, without references.
    """
    found = _options(schema)
    if len(found) > 1:
        return {WHOLE: found}
    if not isinstance(schema, Mapping):
        return {}
    fields = {name: _options(each) for name, each in schema.get("properties", {}).items()}
    return {name: each for name, each in fields.items() if len(each) > 1}


def odds_of(schema: Json, answer: Json, tokens: Sequence[Token]) -> Odds:
    """The probability of each option of an answer, estimated from the tokens of its reply.

    Args:
        schema: The JSON schema of the answer.
        answer: The answer as JSON.
        tokens: The reply in which it was written.
    """
    if not any(each.alternatives for each in tokens):
        return {}
    found = {}
    for name, options, chosen in _chosen(schema, answer):
        place = _place("".join(each.text for each in tokens), name, chosen)
        if place is not None:
            start, style = place
            shares = _shares([style(each) for each in options], style(chosen), tokens, start)
            found[name] = {label(each): shares[style(each)] for each in options}
    return found


def agreement(schema: Json, answer: Json, others: Sequence[Json]) -> Odds:
    """The share of each option among several answers, the first of which counts as given.

    Args:
        schema: The JSON schema of the answers.
        answer: The answer.
        others: Other answers to the same question; answers of another kind do not count.
    """
    votes: dict[str, Counter[str]] = {}
    for each in (answer, *others):
        for name, _, chosen in _chosen(schema, each):
            votes.setdefault(name, Counter())[label(chosen)] += 1
    return {
        name: {label(each): votes[name][label(each)] / votes[name].total() for each in options}
        for name, options in options_in(schema).items()
        if name in votes
    }


def chosen_odds(schema: Json, answer: Json, odds: Odds) -> dict[str, float]:
    """The probability of what was chosen, by field."""
    return {
        name: odds[name][label(chosen)]
        for name, _, chosen in _chosen(schema, answer)
        if name in odds
    }


def check_threshold(unsure: Any) -> None:
    """Raise ValueError unless this is a confidence from 0 to 1."""
    is_number = isinstance(unsure, (int, float)) and not isinstance(unsure, bool)
    if not is_number or not 0 <= unsure <= 1:
        raise argument_error(
            f"unsure is {unsure!r}; expected the lowest confidence that you accept, from 0 to 1, "
            "such as 0.8, or 0 to only see the confidence of each answer"
        )


def require_options(schema: Json) -> None:
    """Raise ValueError unless an answer, or a field of it, can only have a few values."""
    if not options_in(schema):
        raise argument_error(
            "unsure= needs the type of an answer that has a few options: Literal, bool, Enum, an "
            "int with bounds, or a type with such fields"
        )


def as_json(text: str) -> Json:
    """An answer that is JSON, also in a block of code; else it is a text."""
    text = text.strip()
    if fenced := re.fullmatch(r"```\w*\n(.*)\n```", text, re.DOTALL):
        text = fenced[1].strip()
    with suppress(ValueError):
        return json.loads(text)
    return text.strip("'")


def label(value: Json) -> str:
    """How an option is called: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _chosen(schema: Json, answer: Json) -> Iterator[tuple[str, tuple[Json, ...], Json]]:
    """The fields with their options, and the one that an answer has."""
    for name, options in options_in(schema).items():
        value = answer.get(name) if name != WHOLE and isinstance(answer, Mapping) else answer
        chosen = [each for each in options if label(each) == label(value)]
        if chosen:
            yield name, options, chosen[0]


def _options(schema: Json) -> tuple[Json, ...]:
    """The values that a schema allows; none if they are more than a few."""
    if not isinstance(schema, Mapping):
        return ()
    if "const" in schema:
        return (schema["const"],)
    if isinstance(schema.get("enum"), (list, tuple)):
        return tuple(schema["enum"])
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        parts = [_options(each) for each in branches]
        return tuple(each for part in parts for each in part) if all(parts) else ()
    match schema.get("type"):
        case "boolean":
            return (True, False)
        case "null":
            return (None,)
        case "integer":
            return _integers(schema)
    return ()


def _integers(schema: Mapping[str, Any]) -> tuple[Json, ...]:
    least = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf - 1) + 1)
    most = schema.get("maximum", schema.get("exclusiveMaximum", math.inf + 1) - 1)
    if not 0 < most - least < _MAX_OPTIONS:
        return ()
    return tuple(range(math.ceil(least), math.floor(most) + 1))


def _place(text: str, name: str, chosen: Json) -> tuple[int, Callable[[Json], str]] | None:
    """The last place of a value in a reply, and its text there."""
    before = r"(?<![\w.])"
    if name != WHOLE:
        before = rf"""(?<!\w)["']?{re.escape(name)}["']?\s*[:=]\s*"""
    found: list[tuple[int, Callable[[Json], str]]] = []
    for style in (*_TEXT_STYLES, label):
        matches = re.finditer(rf"{before}({re.escape(style(chosen))})(?!\w)", text)
        found += [(match.start(1), style) for match in matches]
    # A text with quotes begins one place before the same without.
    quoted = [each for each in found if each[1] is not label]
    return max(quoted or found, key=lambda each: each[0], default=None)


def _shares(
    options: Sequence[str], chosen: str, tokens: Sequence[Token], start: int
) -> dict[str, float]:
    """The probability of each option, of which one begins at a place of the reply."""
    shares = dict.fromkeys(options, 0.0)
    left, alive, place = 1.0, list(options), 0
    for token in tokens:
        end = place + len(token.text)
        if end > start and len(alive) > 1 and token.alternatives:
            # Before the option, a token may have a quote or a blank.
            before = token.text[: max(0, start - place)]
            rests = {each: before + each[max(0, place - start) :] for each in alive}
            weights = _weights(rests, token)
            total = math.fsum(weights.values())
            alive = _begun(rests, token.text) or [chosen]
            if total:
                for each, weight in weights.items():
                    if each:
                        shares[each] += left * weight / total
                left *= weights[""] / total
        place = end
    for each in alive:
        shares[each] += left / len(alive)
    return shares


def _weights(rests: Mapping[str, str], token: Token) -> dict[str, float]:
    """How probable the options are that a token decided against; empty for its own weight."""
    weights = dict.fromkeys(rests, 0.0) | {"": 0.0}
    for text, weight in token.alternatives:
        begun = [""] if text == token.text else _begun(rests, text)
        for each in begun:
            weights[each] += weight / len(begun)
    return weights


def _begun(rests: Mapping[str, str], token: str) -> list[str]:
    """The options that a token begins, goes on with, or ends.

    Args:
        rests: The rest of each option that is still to be written.
        token: The token.
    """
    found = [
        each
        for each, rest in rests.items()
        if token and rest and (rest.startswith(token) or token.startswith(rest))
    ]
    # A number that is written to its end is followed by anything but a digit.
    return found or [each for each, rest in rests.items() if not rest]
