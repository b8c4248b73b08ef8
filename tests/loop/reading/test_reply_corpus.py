"""Replies as models write them are read correctly or rejected; no call is silently changed."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.loop.events import ModelReply, WireCall
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.reading.reply import Action, read_action, read_arguments
from tests.growth import assert_linear
from tests.loop.reading import damages, forms, truths  # noqa: F401 - two of them fill KINDS
from tests.loop.reading.replies import ADD, read
from tests.loop.reading.truths import KINDS, Call, Style, Truth
from tests.sampling import alternating, few_of


def same(calls: Any, meant: Any) -> bool:
    """Equal as JSON; a tool without arguments may be given null or an empty object."""
    left, right = ([[name, given or {}] for name, given in each] for each in (calls, meant))
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def judged(action: Action, case: Case) -> str:
    told = (
        bool(action.fault) and not action.calls and action.answer is None and action.failure is None
    )
    if told:
        return "right" if not case.meant or case.or_told else "told"
    if case.meant and same(action.calls, case.meant) and action.answer is None and not action.fault:
        return "right"
    return "wrong"


# ── the corpus ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """A reply and its intended calls; none if it is ambiguous.

    `or_told`: the reply leaves two readings, so that asking again is right too.
    """

    kind: str
    text: str
    meant: tuple[Call, ...]
    or_told: bool = False


def cases(truths: list[Truth], seeds: int = 1) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Every kind of corruption of every call, `seeds` times; each with the schemas of its tools."""
    for seed in range(seeds):
        for n, truth in enumerate(truths):
            for kind, make in KINDS.items():
                rng = random.Random(f"{seed}/{n}/{kind}")
                other = rng.choice(truths)
                if other.name == truth.name:
                    other = truth
                schemas = {truth.name: dict(truth.schema), other.name: dict(other.schema)}
                schemas = {
                    name: {**each, "properties": dict(each["properties"])}
                    for name, each in schemas.items()
                }
                mine = Truth(truth.name, truth.input, schemas[truth.name])
                made = make(mine, Truth(other.name, other.input, schemas[other.name]), rng)
                if made is not None:
                    yield (
                        Case(kind, made[0], made[1], made[2] if len(made) == 3 else False),
                        schemas,
                    )


def measured(calls: list[Truth], seeds: int) -> tuple[Counter[str], Counter[str], list[str]]:
    verdicts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    wrong = []
    for case, schemas in cases(calls, seeds):
        action = read_action(case.text, schemas, prose_is_answer=False)
        verdict = judged(action, case)
        verdicts[verdict] += 1
        kinds[case.kind] += 1
        if verdict == "wrong":
            wrong.append(f"{case.kind}: {case.text!r} → {action!r}")
    return verdicts, kinds, wrong


def test_reads_at_least_999_of_1000_damaged_replies_and_none_wrong() -> None:
    verdicts, kinds, wrong = measured(truths.built_in(), seeds=4)
    total = verdicts.total()
    assert total >= 3900
    assert len(kinds) >= 55
    assert wrong == []
    assert verdicts["right"] / total >= 0.999, verdicts


@pytest.mark.parametrize(
    ("every", "cases"), [(120, 600), pytest.param(12, 6000, marks=pytest.mark.slow)]
)
def test_the_same_holds_for_the_calls_of_a_public_benchmark(every: int, cases: int) -> None:
    pytest.importorskip("bfcl_eval")
    verdicts, _, wrong = measured(truths.bfcl()[::every], seeds=1)
    assert verdicts.total() >= cases
    assert wrong == []
    assert verdicts["right"] / verdicts.total() >= 0.999, verdicts


STYLES = [Style(), Style(indent=True), Style(quote=("'", "'")), Style(bare=True)]


def written(truth: Truth, style: Style) -> str:
    return style.write({"thought": "I need it, ok.", "tool": truth.name, "tool_input": truth.input})


def right_or_told(text: str, truth: Truth) -> bool:
    action = read_action(text, {truth.name: truth.schema}, prose_is_answer=False)
    if action.fault:
        return not action.calls and action.answer is None
    return same(action.calls, [(truth.name, truth.input)])


@pytest.mark.parametrize("style", STYLES)
def test_a_lost_or_doubled_structural_character_never_changes_a_call(style: Style) -> None:
    for truth in truths.built_in():
        _mark_by_mark(truth, style)


def _mark_by_mark(truth: Truth, style: Style) -> None:
    text = written(truth, style)
    quote = style.quote[0]
    strings = rf"{quote}(?:[^{quote}\\]|\\.)*{quote}"
    outside = re.sub(strings, lambda found: quote + "-" * (len(found[0]) - 2) + quote, text)
    for n, mark in enumerate(outside):
        if mark in "{}[]:," + quote:
            assert right_or_told(text[:n] + text[n + 1 :], truth), f"without {mark} at {n}"
            assert right_or_told(text[:n] + mark + text[n:], truth), f"with two {mark} at {n}"


@pytest.mark.parametrize("every", few_of(3, 1))
@pytest.mark.parametrize("style", STYLES[::2])
def test_a_truncated_reply_never_runs_with_fewer_arguments(style: Style, every: int) -> None:
    for truth in truths.built_in():
        text = written(truth, style)
        for n, rest in itertools.product(
            range(0, len(text), every), ("", "\n```", "\nObservation: 3", text, "\n" + text)
        ):
            assert right_or_told(text[:n] + rest, truth), text[:n] + rest


@pytest.mark.parametrize("quotes", ['"', '""', '"x"'])
def test_unescaped_quotes_never_truncate_an_argument(quotes: str) -> None:
    for truth, key, value in ((t, *item) for t in truths.built_in() for item in t.input.items()):
        if not isinstance(value, str) or json.dumps(value, ensure_ascii=False) != f'"{value}"':
            continue
        for n in range(len(value) + 1):
            changed = {**truth.input, key: value[:n] + quotes + value[n:]}
            text = json.dumps(
                {"tool": truth.name, "tool_input": changed}, ensure_ascii=False
            ).replace('\\"', '"')
            assert right_or_told(text, Truth(truth.name, changed, truth.schema)), text


QUOTED_WORDS = [
    '"x" is', 'print("a", "b")', '"{"a": 1}"', '{"a": 1}', 'the "end"', '""', '""" x', '5" pipe',
    '("b"): ', '{"a": "b"}', '[ "a", "b" ]', '"""\nx\n"""', '"a"}', '"]', '", "', '"b", "c"', '{"',
    '"}"', ', "q" ', 'x": "y',
]  # fmt: skip
TEXTS = [(t, key) for t in truths.built_in() for key, each in t.input.items() if type(each) is str]


@given(st.sampled_from(TEXTS), st.sampled_from(QUOTED_WORDS), st.integers(0, 100))
def test_unescaped_quotes_are_read_as_text_or_not_at_all(
    text: tuple[Truth, str], quoted: str, place: int
) -> None:
    truth, key = text
    value = truth.input[key]
    place = min(place, len(value))
    changed = {**truth.input, key: value[:place] + quoted + value[place:]}
    reply = json.dumps({"tool": truth.name, "tool_input": changed}, ensure_ascii=False)
    reply = reply.replace('\\"', '"').replace("\\n", "\n")
    assert right_or_told(reply, Truth(truth.name, changed, truth.schema)), reply


# ── any text ──────────────────────────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
whole_json = json_values.filter(
    lambda value: "\\ud" not in json.dumps(value) or not _has_halves(value)
)


def _has_halves(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


@given(whole_json, st.text().filter(lambda text: not _has_halves(text)), st.sampled_from([None, 2]))
def test_exact_json_is_read_without_repairs(value: Any, thought: str, indent: Any) -> None:
    text = json.dumps({"thought": thought, "tool": "any", "tool_input": value}, indent=indent)
    action = read_action(text, {"any": None}, prose_is_answer=False)
    assert (action.calls, action.thought, action.repaired) == ((("any", value),), thought, "")


@given(whole_json)
def test_exact_arguments_are_read_without_repairs(value: Any) -> None:
    assert read_arguments(json.dumps(value)) == (value, "", "")


pieces = st.sampled_from(
    ["{", "}", "[", "]", '"', "'", ":", ",", "\\", "\n", "```json\n", "<think>", "</think>", '"tool"', '"add"',
     '"tool_input"',
     "add(", ")", "Action: add\n", "Action Input:", "Observation:", "<tool_call>", "<function=add>", "true",
     "None",
     "1",
     "//",
     "/*", "“", "”", '"""', "\ud800", "NaN", "1e999", "{\\\"", "text "]
)  # fmt: skip
soup = st.lists(pieces | st.text(max_size=3), max_size=30).map("".join)


@settings(max_examples=600)
@given(soup, st.booleans(), st.booleans())
def test_any_text_gives_an_action_that_can_be_encoded(text: str, prose: bool, strict: bool) -> None:
    action = read(text, prose_is_answer=prose, strict=strict)
    ends = [
        bool(action.fault),
        bool(action.calls) or action.answer is not None or action.failure is not None,
    ]
    assert sum(ends) == 1, action
    json.dumps(
        [action.thought, action.calls, action.answer, action.fault],
        ensure_ascii=False,
        allow_nan=False,
    ).encode()


@settings(max_examples=300)
@given(soup)
def test_any_arguments_give_a_value_or_a_fault(text: str) -> None:
    value, _, fault = read_arguments(text, ADD)
    assert not (fault and value is not None)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


# ── time ──────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}
LOOK_TOOLS = {"look": SCHEMA, "put": None}
PIECES = [
    "{}", "{", "[", "[{", '{"a":', '{"tool": "look", "tool_input": "', '"', "'", '{"s": "a" , "b', "</think>",
    "<think>", "<think></think>", '{"s": "a"b"c"}', "}", '{"tool": "look", "tool_input": {"a": 1}} ',
    "look(\n", "<function=look>", "<function=look></function>", "<tool_call>look", "<parameter=a>",
    "<function=look><parameter=a>1</parameter></function>", "<function=look><parameter=a>1</parameter>",
    '<function=look><parameter=a>', "Action: look\nAction Input: ", "\\",
    '{\\"', "```json\n{", "“", "'a': ",
    "//", "/*", "<tool_call>", "1", "[TOOL_CALLS]look", "\ud800", "{'s': 'it's",
    '"""', '"""\nx""", "b": ', '"{"a":', '"{"a": 1}", ', ' ("b", "c") ', ', "b', '"a", b: ',
]  # fmt: skip


def read_all(text: str) -> None:
    for prose_is_answer, strict in ((False, False), (True, True)):
        read_action(text, LOOK_TOOLS, prose_is_answer=prose_is_answer, strict=strict)
    read_arguments(text, SCHEMA)


BEGINNINGS = ["", '{"s": "', '{"tool": "look", "tool_input": {"a": [']


@pytest.mark.parametrize(("piece", "before"), alternating(PIECES, BEGINNINGS))
def test_the_time_for_a_long_repetitive_reply_grows_with_its_length(
    piece: str, before: str
) -> None:
    assert_linear(lambda times: read_all(before + piece * times), 2_500)


@given(st.lists(st.sampled_from(PIECES), max_size=4), st.integers(1, 75))
def test_the_time_for_mixed_fragments_grows_with_their_length(
    pieces: list[str], times: int
) -> None:
    assert_linear(lambda size: read_all("".join(pieces) * size), times)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, "9" * 5000, '{"a": ' * 100_000, "{}" * 100_000]
)
def test_deeply_nested_and_long_replies_are_faults(text: str) -> None:
    wire = FunctionCalling({})
    for reply in (
        ModelReply(text),
        ModelReply(calls=(WireCall("look", text), WireCall("look", f'{{"a": {text}}}'))),
    ):
        action = wire.read(reply, prose_is_answer=False)
        assert action.calls == () or len(action.unreadable) == len(action.calls) or action.answers


def test_reads_a_long_exact_input() -> None:
    text = "x" * 5_000_000
    assert read_arguments(f'{{"s": "{text}"}}', SCHEMA)[0] == {"s": text}
    said = read_action(
        f'{{"tool": "look", "tool_input": {{"s": "{text}"}}}}', LOOK_TOOLS, prose_is_answer=False
    )
    assert said.calls == (("look", {"s": text}),)
