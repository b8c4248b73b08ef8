"""A reply that is nothing but markup and names a tool is a call or a fault; anything else is an answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.reading.reply import read_action
from archytas_nb.loop.reading.thoughts import HTML_ELEMENTS, split_thoughts

TOOLS: dict[str, Any] = {
    "add_up": {
        "type": "object",
        "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}},
        "required": ["first", "second"],
    },
    "look_up": {
        "type": "object",
        "properties": {"place": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["place"],
    },
}
FIELDS = ("first", "second", "place", "limit")
_WORD = st.text("abcdefghijklmnoxyz_", min_size=2, max_size=9).filter(
    lambda word: word[0] != "_" and word not in {*FIELDS, *TOOLS, *HTML_ELEMENTS}
)
_PREFIX = st.sampled_from(["", "functions.", "default_api.", "tools/", "x:"])
_SUFFIX = st.sampled_from(["", ":0", "()", "<|channel|>commentary"])
_TEXT = st.text("abc dé.,", min_size=1, max_size=12).filter(lambda text: text.strip() == text)
CALLS = st.one_of(
    st.tuples(
        st.just("add_up"),
        st.fixed_dictionaries({"first": st.integers(-9, 9), "second": st.integers(-9, 9)}),
    ),
    st.tuples(
        st.just("look_up"),
        st.fixed_dictionaries({"place": _TEXT}, optional={"limit": st.integers(0, 9)}),
    ),
)


def read(text: str, *, strict: bool = True) -> Any:
    return read_action(text, TOOLS, prose_is_answer=True, strict=strict)


@st.composite
def objects(draw: Any) -> tuple[str, tuple[str, Any]]:
    """A call as JSON, with any keys, around or beside the arguments."""
    name, given_ = draw(CALLS)
    spoken = draw(_PREFIX.filter(lambda each: each != "x:")) + name + draw(_SUFFIX)
    keys = draw(st.lists(_WORD, min_size=3, max_size=3, unique=True))
    form = draw(st.sampled_from(["object", "text", "beside"]))
    value: Any = {keys[0]: spoken, keys[1]: given_}
    if form == "text":
        value = {keys[0]: spoken, keys[1]: json.dumps(given_)}
    elif form == "beside":
        value = {keys[0]: spoken, **given_}
    if draw(st.booleans()):
        value = {keys[2]: [value]}
    text = json.dumps(value, indent=draw(st.sampled_from([None, 1])))
    if draw(st.booleans()):
        text = f"```json\n{text}\n```"
    return text, (name, given_)


@st.composite
def elements(draw: Any) -> tuple[str, tuple[str, Any]]:
    """A call in tags, with any names of the elements and attributes."""
    name, given_ = draw(CALLS)
    outer, inner, attribute, key = draw(st.lists(_WORD, min_size=4, max_size=4, unique=True))
    prefix = draw(st.sampled_from(["", "x:", "mm:"]))
    form = draw(st.sampled_from(["attribute", "equals", "tag", "child", "object"]))
    arguments = draw(st.sampled_from(["attribute", "equals", "tag", "pairs"]))
    rows = []
    for field, value in given_.items():
        rows.append(
            {
                "attribute": f'<{prefix}{inner} {key}="{field}">{value}</{prefix}{inner}>',
                "equals": f"<{inner}={field}>{value}</{inner}>",
                "tag": f"<{prefix}{field}>{value}</{prefix}{field}>",
                "pairs": f"<{inner}>{field}</{inner}><{key}>{value}</{key}>",
            }[arguments]
        )
    body = "\n".join(rows)
    text = {
        "attribute": f'<{prefix}{outer} {attribute}="{name}">\n{body}\n</{prefix}{outer}>',
        "equals": f"<{outer}={name}>\n{body}\n</{outer}>",
        "tag": f"<{prefix}{name}>\n{body}\n</{prefix}{name}>",
        "child": f"<{outer}><{attribute}>{name}</{attribute}>\n{body}\n</{outer}>",
        "object": f'<{outer} {attribute}="{name}">{json.dumps(given_)}</{outer}>',
    }[form]
    if draw(st.booleans()):
        around = draw(_WORD)
        text = f"<{around}s>\n{text}\n</{around}s>"
    if draw(st.booleans()):
        text = f"```xml\n{text}\n```"
    return text, (name, given_)


@given(objects() | elements())
def test_a_call_in_any_markup_is_read(made: tuple[str, tuple[str, Any]]) -> None:
    text, call = made
    action = read(text)
    assert action.calls == (call,), action
    assert action.answer is None


@given(objects() | elements(), st.integers(1, 40))
def test_damaged_markup_with_a_tool_is_never_the_answer_and_never_another_call(
    made: tuple[str, tuple[str, Any]], cut: int
) -> None:
    text, (name, given_) = made
    action = read(text[:-cut])
    if name not in text[:-cut]:
        return
    if action.calls:
        assert action.calls == ((name, given_),)
    else:
        assert action.fault
        assert action.answer is None


_PROSE = st.sampled_from(
    [
        "It is 3.", "Use add_up for that.", "Call `look_up(place=\"Rome\")` next.", "add_up",
        "**Bold** and *italic*.", "| a | b |\n|---|---|\n| 1 | 2 |", "- one\n- two", "> quoted",
        'The object {"first": 1} has one key.', "a < b and c > d", "# Title\n\nText.",
    ]
)  # fmt: skip
_BLOCKS = st.sampled_from(
    [
        '```json\n{"first": 1, "second": 2}\n```',
        '```json\n{"tool": "add_up", "parameters": {"first": 1, "second": 2}}\n```',
        '```xml\n<call name="add_up"><first>1</first></call>\n```',
        "<details><summary>More</summary>It is add_up.</details>",
        "<div>It is <b>3</b>.</div>",
        "<p>One.</p>\n<p>Two.</p>",
    ]
)
_DATA = st.sampled_from(
    [
        '{"name": "Gentoo", "mass": 5000}', '[{"first": 1}, {"first": 2}]', "[1, 2, 3]", "{}",
        '<penguin name="Gentoo"><mass>5000</mass></penguin>', "<a>1</a>\n<b>2</b>",
        '<?xml version="1.0"?>\n<rows><row id="1"/></rows>', "<note><to>Ann</to></note>\nThat is it.",
        "<answer>It is 3.</answer>",
        '{"text": "call add_up with first and second"}', "<ul><li>add_up and look_up</li></ul>",
        "<ul>\n<li>add_up</li>\n<li>look_up</li>\n</ul>", "<p><code>add_up</code></p>",
    ]
)  # fmt: skip


@given(st.lists(_PROSE, min_size=1, max_size=3), st.lists(_BLOCKS, max_size=2), st.booleans())
def test_an_ordinary_answer_stays_one(prose: list[str], blocks: list[str], first: bool) -> None:
    parts = [*blocks, *prose] if first else [*prose, *blocks]
    text = "\n\n".join(parts)
    action = read(text)
    assert not action.calls or '"tool": "add_up"' in text  # a whole call of the documented form
    if not action.calls:
        assert (action.fault, action.answer) == ("", text)


@given(_DATA)
def test_data_that_was_asked_for_stays_the_answer(text: str) -> None:
    action = read(text)
    assert (action.calls, action.fault, action.answer) == ((), "", text)


_OPENINGS = {
    "<{}>": "</{}>",
    "<x:{}>": "</x:{}>",
    "[{}]": "[/{}]",
    "<|{}|>": "<|/{}|>",
    "<|{}>": "<{}|>",
    "◁{}▷": "◁/{}▷",
    "<|begin_of_{}|>": "<|end_of_{}|>",
    "<|START_{}|>": "<|END_{}|>",
}


@given(
    st.sampled_from(sorted(_OPENINGS)),
    st.sampled_from(["think", "thought", "reasoning", "scratchpad", "inner_monologue"]),
    _TEXT,
    st.sampled_from(["It is 3.", "3", "**3** rows", '{"a": 1}', "# Three"]),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_a_block_in_front_of_the_answer_is_a_thought(
    opening: str, name: str, thought: str, answer: str, gap: str
) -> None:
    if opening == "[{}]" or "START" in opening:
        name = name.upper()
    text = f"{opening.format(name)}{thought}{_OPENINGS[opening].format(name)}{gap}{answer}"
    assert split_thoughts(text) == (answer, thought.strip())
