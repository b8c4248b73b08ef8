"""Damages JSON: nearly valid or truncated JSON."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.loop.reading.truths import Made, Style, Truth, as_json, envelope, kind, meant, with_text


@kind
def trailing_commas(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(trailing=True, indent=rng.random() < 0.5).write(envelope(t, rng)), meant(t)


@kind
def single_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(quote=("'", "'")).write(envelope(t, rng)), meant(t)


@kind
def python_repr(t: Truth, o: Truth, rng: random.Random) -> Made:
    return repr(envelope(t, rng)), meant(t)


@kind
def python_literals(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = (
        {**t.input, "flag": rng.choice([True, False, None])} if "flag" not in t.input else t.input
    )
    fields = {**t.schema["properties"], "flag": {}}
    changed = Truth(t.name, given, {**t.schema, "properties": fields})
    t.schema["properties"].setdefault("flag", {})
    return Style(python=True).write(envelope(changed, rng)), meant(changed)


@kind
def single_quotes_with_apostrophes(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = with_text(t, rng, lambda text: "it's what they're after " + text.replace("'", ""))
    if given is None or any(
        "'" in each for each in given.values() if isinstance(each, str) and "it's" not in each
    ):
        return None
    if '"' in str(given) or "\\" in json.dumps(given, ensure_ascii=False) or "O'" in str(given):
        return None
    return Style(quote=("'", "'"), escape=False).write(envelope(t, rng, given)), ((t.name, given),)


@kind
def comments(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(comments=True, indent=True).write(envelope(t, rng)), meant(t)


@kind
def bare_keys(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(bare=True, indent=rng.random() < 0.5).write(envelope(t, rng)), meant(t)


@kind
def smart_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(quote=rng.choice([("“", "”"), ("‘", "’"), ("”", "”")])).write(
        envelope(t, rng)
    ), meant(t)


@kind
def missing_last_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    return rng.choice(["{}", "```json\n{}\n```", "{}\nObservation: 3"]).format("\0").replace(
        "\0", as_json(t, rng)[:-1]
    ), meant(t), _last_is_object(t.input)  # fmt: skip


def _last_is_object(given: dict[str, Any]) -> bool:
    """Whether the missing brace may also belong to an inner object."""
    last = next(reversed(given.values()), None)
    return isinstance(last, dict) and bool(last)


@kind
def missing_inner_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = as_json(t, rng)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', lambda string: "-" * len(string[0]), text)
    places = [n for n, mark in enumerate(outside) if mark == "}" and n < len(text) - 2]
    if not places:
        return None
    n = rng.choice(places)
    return text[:n] + text[n + 1 :], meant(t), True


@kind
def extra_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    return as_json(t, rng) + "}" * rng.randint(1, 3), meant(t)


@kind
def extra_keys(t: Truth, o: Truth, rng: random.Random) -> Made:
    extra: dict[str, Any] = rng.choice(
        [{"confidence": 0.9}, {"observation": "", "step": 1}, {"id": "call_1", "type": "function"}]
    )
    items = [*envelope(t, rng).items(), *extra.items()]
    rng.shuffle(items)
    return json.dumps(dict(items)), meant(t)


@kind
def keys_in_another_order(t: Truth, o: Truth, rng: random.Random) -> Made:
    items = list(envelope(t, rng).items())
    rng.shuffle(items)
    return json.dumps(dict(items)), meant(t)


@kind
def cut_in_a_string(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = with_text(t, rng, lambda text: f"{text} and a good many words more")
    if given is None:
        return None
    text = json.dumps(envelope(t, rng, given), ensure_ascii=False)
    return text[: text.index("many words") + rng.randint(-6, 6)] + rng.choice(
        ["", "\n```", "\n"]
    ), ()


@kind
def cut_anywhere(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = as_json(t, rng)
    return text[: rng.randint(text.index("tool_input") + 12, len(text) - 2)], (), False


@kind
def missing_closing_quote(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = with_text(t, rng, lambda text: f"{text} here")
    if given is None:
        return None
    return (
        json.dumps(envelope(t, rng, given), ensure_ascii=False).replace(' here"', " here", 1),
        (),
        False,
    )


@kind
def raw_line_breaks(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = with_text(t, rng, lambda text: f"{text}\nsecond line\n\tthird line")
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace("\\n", "").replace(
        "\\t", ""
    ):
        return None
    raw = (
        json.dumps(envelope(t, rng, given), ensure_ascii=False)
        .replace("\\n", "\n")
        .replace("\\t", "\t")
    )
    return raw, ((t.name, given),)


@kind
def unescaped_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    word = rng.choice(
        ['say "yes" to', '"first" word', 'print("a", "b")', 'the "end"', '<a href="x">y</a>', '""']
    )
    given = with_text(
        t,
        rng,
        lambda text: f"{text.replace(chr(34), '')} {word} it" if word[0] != '"' else f"{word} x",
    )
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace('\\"', ""):
        return None
    return json.dumps(envelope(t, rng, given), ensure_ascii=False).replace('\\"', '"'), (
        (t.name, given),
    )


@kind
def unescaped_backslashes(t: Truth, o: Truth, rng: random.Random) -> Made:
    word = rng.choice([r"\d+\s*", r"\[x\]", r"\(a\|b\)", r"C:\Work\Data"])
    given = with_text(t, rng, lambda text: word)
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace("\\\\", ""):
        return None
    return json.dumps(envelope(t, rng, given), ensure_ascii=False).replace("\\\\", "\\"), (
        (t.name, given),
    )


@kind
def paths_of_windows(t: Truth, o: Truth, rng: random.Random) -> Made:
    word = rng.choice(
        [
            r"C:\Users\me",
            r"D:\Xdata\Work",
            r"\\host\share\Data",
            r"C:\users\me",
            r"(\w)\1",
            r"C:\audio",
        ]
    )
    given = with_text(t, rng, lambda text: word)
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace("\\\\", ""):
        return None
    raw = json.dumps(envelope(t, rng, given), ensure_ascii=False).replace("\\\\", "\\")
    return raw, ((t.name, given),), word.startswith("\\\\")


@kind
def missing_commas_on_one_line(t: Truth, o: Truth, rng: random.Random) -> Made:
    if any(isinstance(each, list) and len(each) > 1 for each in _all(t.input)):
        return None
    return Style(commas=False).write(envelope(t, rng)), meant(t)


@kind
def one_missing_comma(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = Style(indent=rng.random() < 0.3).write(envelope(t, rng))
    outside = re.sub(r'"(?:[^"\\]|\\.)*"|\[[^\[\]]*\]', lambda each: "-" * len(each[0]), text)
    places = [n for n, mark in enumerate(outside) if mark == ","]
    if not places or "[" in outside:
        return None
    n = rng.choice(places)
    return text[:n] + text[n + 1 :], meant(t)


@kind
def missing_commas(t: Truth, o: Truth, rng: random.Random) -> Made:
    if any(isinstance(each, list) and len(each) > 1 for each in _all(t.input)):
        return None  # between the items of a list a missing comma has more than one meaning
    return Style(indent=True, commas=False).write(envelope(t, rng)), meant(t)


def _all(value: Any) -> Iterator[Any]:
    yield value
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _all(each)


@kind
def windows_line_ends(t: Truth, o: Truth, rng: random.Random) -> Made:
    return "\ufeff" + Style(indent=True, end="\r\n", trailing=True).write(envelope(t, rng)), meant(
        t
    )
