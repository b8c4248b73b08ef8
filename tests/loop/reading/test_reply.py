"""Replies are read as calls or answers, and the model is told of faults."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.reading.reply import (
    Partial,
    read_action,
    read_arguments,
    read_partial,
)
from archytas_nb.loop.reading.thoughts import HAS_NONE, split_thoughts
from tests.loop.cards import over
from tests.loop.reading.replies import ADD, read

# ── what counts as a call ─────────────────────────────────────────────────────────────────────────


@over("text, calls",
    [
        ('{"tool": "write", "tool_input": "<think> is a tag"}', (("write", "<think> is a tag"),)),
        ('<think>a<think>b</think>c</think>{"tool": "now"}', (("now", None),)),
        ('{"tool": "write", "tool_input": "say "hi" to them"}', (("write", 'say "hi" to them'),)),
        ('{"tool": "write", "tool_input": "{\\"a\\": 1}"}', (("write", '{"a": 1}'),)),
        ('{"tool": "add", "tool_input": "{\\"a\\": 1}"}', (("add", {"a": 1}),)),
        ('{"tool": "add", "tool_input": "{"a": 1}"}', (("add", {"a": 1}),)),
        ('{"tool": "write", "tool_input": "{"a": 1}"}', (("write", '{"a": 1}'),)),
        ('{"tool": "add", "a": 1, "b": 2}', (("add", {"a": 1, "b": 2}),)),
        ('{"tool": "functions.add", "tool_input": {"a": 1}}', (("add", {"a": 1}),)),
        ('{"tool": "write", "tool_input": "say "\nand" done"}', (("write", 'say "\nand" done'),)),
        ("math.sqrt(2)", (("math_sqrt", 2),)),
        ('add(1, "x")', (("add", {"a": 1, "b": "x"}),)),
        ('add(a=1, b="x")', (("add", {"a": 1, "b": "x"}),)),
        ('write("x")', (("write", "x"),)),
        ("now()", (("now", None),)),
        ('[add(a=1), write("x")]', (("add", {"a": 1}),)),
        ("print(add({'a': True}))", (("add", {"a": True}),)),
        ('[{"tool": "add", "tool_input": {"a": 1}}, {"tool": "now", "tool_input": null}]',
         (("add", {"a": 1}), ("now", None))),
        ('Action: add\nAction Input: {"a": 1}\nObservation: x', (("add", {"a": 1}),)),
        ('Action: write\nAction Input: "hello there"', (("write", "hello there"),)),
        ('{"tool": "lookup", "tool_input": 1}', (("lookup", 1),)),
    ],
)  # fmt: skip
def test_reads_calls(text: str, calls: Any) -> None:
    action = read(text)
    assert (action.calls, action.fault) == (calls, "")


@over(
    "text, said",
    [
        ('{"tool": "write", "tool_input": "hello wor', "no closing quote"),
        ('{"tool": "write", "tool_input": "a 5" pipe"}', "no closing quote"),
        ('{"tool": "add", "tool_input": {"a": 12', "cut off"),
        ('{"tool": "math_sqrt", "tool_input": 12', "cut off"),
        (
            '{"tool": "add", "tool_input": {"a": 1}} no, rather {"tool": "now"}',
            "two different calls",
        ),
        ('{"tool": "add", "tool": "write", "tool_input": "x"}', "twice with different values"),
        ('{"tool": "add", "action": "write", "tool_input": "x"}', "both 'add' and 'write'"),
        ('{"tool": "add", "tool_input": {"a": 1}, "toolInput": {"a": 2}}', "two different inputs"),
        ('{"tool": "add", "tool_input": {"a": 1}, "b": 2}', "'b' stands beside"),
        ('{"tool": "add", "tool_input": {"a": 1}}, "b": 2}}', "closes it before its end"),
        ('{"tool": "add", "tool_input": {"a": NaN}}', "NaN is no JSON value"),
        ('{"tool": "add", "tool_input": {"a": 1e999}}', "too large"),
        ('{"tool": "add", "why": "because"}', "no tool_input"),
        ("add(a=open('x'))", "expect"),
        ("add(**{'a': 1})", "expect"),
        ("add(a=-1e999)", "too large"),
        (f"add(a=0x{'f' * 5000})", "expect"),
        (f"add(a={'[' * 90}{']' * 90})", "nested too deeply"),
        (f"add(a={'[' * 5000}{']' * 5000})", "nested too deeply"),
        ("add(1, b=2)", "could not be read"),
        ("add(1, 2, 3)", "values without names"),
        ('{"tool": "write", "tool_input": "{"a": 1} or"}', "has no closing quote"),
        ("Action: write\nAction Input: hello there", "could not be read"),
        ('{"tool": "lookup", "tool_input": 1} {"tool": "now"}', "no such tool"),
        ('{"thought": "hm"}', "no tool is named"),
        (
            '{"tool": "add", "tool_input": {"a": 1, "thought": "then b"}',
            "'thought' is no argument of 'add'",
        ),
        (
            '"tool": "write", "tool_input": {"tool": "now", "tool_input": null}}',
            "a name or a brace is missing",
        ),
        ("It is 42.", "plain text"),
        ("42", "plain text"),
        ("", "empty"),
        ('<think>{"tool": "now"}', "empty"),
    ],
)
def test_rejects_ambiguous_replies_with_a_reason(text: str, said: str) -> None:
    action = read(text)
    assert said in action.fault
    assert (action.calls, action.answer, action.failure) == ((), None, None)


def test_quotes_the_unreadable_part_to_the_model() -> None:
    assert (
        '«{"tool": "write", "tool_input": "hello wor»'
        in read('Sure: {"tool": "write", "tool_input": "hello wor').fault
    )


def test_runs_only_the_first_of_several_loose_calls() -> None:
    action = read(
        '{"tool": "add", "tool_input": {"a": 1}}\n{"tool": "add", "tool_input": {"a": 2}}'
    )
    assert action.calls == (("add", {"a": 1}),)
    assert "only the first" in action.repaired


def test_accepts_a_call_and_the_answer_after_it() -> None:
    action = read(
        '{"tool": "now", "tool_input": null}\n{"tool": "final_answer", "tool_input": "noon"}'
    )
    assert (action.calls, action.answer) == ((("now", None),), "noon")


def test_a_call_takes_precedence_over_fail_task() -> None:
    action = read(
        '[{"tool": "now", "tool_input": null}, {"tool": "fail_task", "tool_input": "no"}]'
    )
    assert (action.calls, action.failure) == ((("now", None),), None)


@over("given_", ['"42"', '{"answer": "42"}', '{"text": "42"}'])
def test_unwraps_an_answer(given_: str) -> None:
    assert read(f'{{"tool": "final_answer", "tool_input": {given_}}}').answer == "42"


@over("given_", ['""', '"  "', "null", "{}", '{"answer": ""}', "[]"])
def test_an_empty_answer_is_no_answer(given_: str) -> None:
    action = read(f'{{"tool": "final_answer", "tool_input": {given_}}}')
    assert action.answer is None
    assert "needs the answer" in action.fault


@over("text", ["42", "true", "It is {x: 1}.", '["a"]', '{"mean": 3}'])
def test_plain_text_is_the_answer_if_allowed(text: str) -> None:
    assert read(text, prose_is_answer=True).answer == text


def test_a_broken_call_is_not_shown_as_the_answer() -> None:
    action = read('{"tool": "write", "tool_input": "hello wor', prose_is_answer=True)
    assert action.answer is None
    assert action.fault


# ── calls in the text of function calling ─────────────────────────────────────────────────────────


@over(
    "text",
    [
        '{"name": "add", "arguments": {"a": 1}}',
        'Let me add.\n```json\n{"name": "add", "arguments": {"a": 1}}\n```',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
        'I will call {"name": "add", "arguments": {"a": 1}}',
        'add({"a": 1})',
        '<function=add>{"a": 1}</function>',
    ],
)
def test_reads_a_call_in_the_text_of_a_native_reply(text: str) -> None:
    assert read(text, prose_is_answer=True, strict=True).calls == (("add", {"a": 1}),)


@over("text, said, thought",
    [
        ("[THINK]Two and one.[/THINK]Three.", "Three.", "Two and one."),
        ("Two and one.[/THINK]Three.", "Three.", "Two and one."),
        ("<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>final<|message|>Three.<|return|>",
         "Three.", "Two."),
        ("<|channel|>final<|message|>Three.", "Three.", ""),
        ("<|channel|>analysis<|message|>Two and", "", "Two and"),
    ],
)  # fmt: skip
def test_separates_thoughts_in_the_tags_of_several_models(
    text: str, said: str, thought: str
) -> None:
    assert split_thoughts(text) == (said, thought)


@over(
    "text",
    [
        'I used `{"name": "add", "arguments": {"a": 1}}` and got 2.',
        "You could call add(1, 2) yourself, for instance.",
        '{"name": "Bob", "age": 3}',
        '{"name": "Bob", "input": 3}',
        "Write `df.agg({'name': len})`.",
        'In JavaScript: const add = { name: "Bob", f: add() }\nand so on.',
        '```\n{ "name": bob, "function": f }\n```',
        "42",
        "Outcome of the test: {ok}",
        '```json\n{"tool": "hammer", "tool_input": 1}\n```',
    ],
)
def test_an_answer_that_mentions_a_call_or_is_json_stays_an_answer(text: str) -> None:
    action = read(text, prose_is_answer=True, strict=True)
    assert (action.calls, action.answer) == ((), text)


@over(
    "text",
    ["<tool_call>add{a=1}</tool_call>", "<function=add><parameter=a>1</parameter></function>",
     "<function=add><parameter=a>1", '<function=sum><parameter=a>"x"</parameter></function>',
     "<function=now></function><function=sum><parameter=a>x</parameter></function>",
     '[TOOL_CALLS]sum[ARGS]{"a": 1}', "Action: add\nAction Input: one",
     '<invoke name="sum"><parameter name="a">1</parameter></invoke>',
     "<start_function_call>call:add{a:1}<end_function_call>", "<|tool_call>call:add{a:1}<tool_call|>",
     '{"name": "add", "arguments": {"a": 1'],
)  # fmt: skip
def test_an_unreadable_call_in_the_text_is_a_fault(text: str) -> None:
    action = read(text, prose_is_answer=True, strict=True)
    assert action.fault
    assert (action.calls, action.answer) == ((), None)


def test_removes_thoughts_from_an_answer() -> None:
    assert split_thoughts("<think>a</think> b") == ("b", "a")
    assert split_thoughts("a</think>b") == ("b", "a")


# ── arguments of function calling ─────────────────────────────────────────────────────────────────


@over(
    "text, value, mended",
    [
        ("", None, ""),
        ('{"a": 1}', {"a": 1}, ""),
        ("{'a': True,}", {"a": True}, "Python's"),
        ('"{\\"a\\": 1}"', {"a": 1}, "JSON inside a string"),
        ('{"a": 1}{"a": 1}', {"a": 1}, "ignored"),
        ('{"a": 1}}', {"a": 1}, "ignored"),
        ("hello", "hello", "text instead of JSON"),
        ("5", 5, ""),
    ],
)
def test_repairs_arguments_with_one_meaning(text: str, value: Any, mended: str) -> None:
    found, how, fault = read_arguments(text, ADD)
    assert (found, fault) == (value, "")
    assert mended in how
    assert bool(how) is bool(mended)


@over(
    "text",
    [
        '{"a": 1',
        '{"a": "x',
        '{"a": 1}{"a": 2}',
        '{"a": 1, "a": 2}',
        '"{\\"a\\": "',
        '{"a": 1} or so',
    ],
)
def test_rejects_ambiguous_arguments(text: str) -> None:
    value, _, fault = read_arguments(text, ADD)
    assert value is None or isinstance(value, str)
    assert fault


@over("depth", [90, 300, 500, 900, 2000, 100_000])
@over("strict", [True, False])
def test_deep_nesting_is_a_fault(depth: int, strict: bool) -> None:
    deep = "[" * depth + "]" * depth
    action = {"thought": "", "tool": "look", "tool_input": {"place": "DEEP"}}
    text = json.dumps(action).replace('"DEEP"', deep)
    assert (
        "nested too deeply"
        in read_action(text, {"look": None}, prose_is_answer=strict, strict=strict).fault
    )
    assert "nested too deeply" in read_arguments(f'{{"place": {deep}}}')[2]


# ── a reply that is still being written ─────────────────────────────────────────────────────────


@over(
    "text, partial",
    [
        ("", Partial()),
        ("Plain words", Partial(text="Plain words")),
        ('{"thou', Partial()),
        ('{"thought": "I count', Partial("I count")),
        ('```json\n{"thought": "I\\u', Partial("I")),
        ('{"thought": "a\\nb", "tool": "cou', Partial("a\nb")),
        (
            '{"thought": "a", "tool": "count", "tool_input": {"n": 1',
            Partial("a", "count", '{"n": 1'),
        ),
        (
            '{"thought": "a", "tool": "count", "tool_input": {"n": 1}}',
            Partial("a", "count", '{"n": 1}'),
        ),
        (
            '{"thought": "a", "tool": "final_answer", "tool_input": "There are \\"1',
            Partial("a", "final_answer", 'There are "1'),
        ),
        (
            '{"tool": "final_answer", "tool_input": {"answer": "Yes"}}',
            Partial("", "final_answer", "Yes"),
        ),
    ],
)
def test_reads_a_partial_reply(text: str, partial: Partial) -> None:
    """Thought, tool and text appear as soon as they begin, without JSON syntax."""
    assert read_partial(text) == partial


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 200))
def test_reads_a_reply_truncated_anywhere(thought: str, words: str, cut: int) -> None:
    """A reply truncated anywhere is read without an error; a complete one has the original values."""
    reply = json.dumps({"thought": thought, "tool": "final_answer", "tool_input": words})
    begun = read_partial(reply[:cut])
    if begun.tool:
        assert words.startswith(begun.text)
    assert thought.startswith(begun.thought)
    assert read_partial(reply) == Partial(thought, "final_answer", words)


@given(
    st.lists(
        st.sampled_from([
            "{", "}", "[", "]", "[/", "THINK]", "[/THINK]", "</think>", "<think>", "◁/think▷", "<|", "|>", "/think",
            "analysis", "assistantfinal", '"', "a", " ", "\n", "\ud800", "<|return|>", "<|channel|>final<|message|>",
        ]),
        max_size=8,
    ).map("".join)
)  # fmt: skip
def test_a_text_that_begins_with_a_brace_and_has_no_tag_has_no_thought(rest: str) -> None:
    text = "{" + rest
    if HAS_NONE.match(text.strip()):
        assert split_thoughts(text) == (text.strip(), "")
    if not any(each in text for each in ("<", "◁", "[/", "\ud800")):
        assert HAS_NONE.match(text)
