"""Whatever a model sends, it is read in bounded work: some of these took time with the square of their length."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import ModelReply, WireCall
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.reply import read_action, read_arguments

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "s": {"type": "string"}}}
TOOLS = {"look": SCHEMA, "put": None}
PIECES = [
    "{}", "{", "[", "[{", '{"a":', '{"tool": "look", "tool_input": "', '"', "'", '{"s": "a" , "b', "</think>",
    "<think>", "<think></think>", '{"s": "a"b"c"}', "}", '{"tool": "look", "tool_input": {"a": 1}} ',
    "look(\n", "<function=look>", '<function=look><parameter=a>', "Action: look\nAction Input: ", "\\",
    '{\\"', "```json\n{", "“", "'a': ",
    "//", "/*", "<tool_call>", "1", "[TOOL_CALLS]look", "\ud800", "{'s': 'it's",
]  # fmt: skip
HARD = 30.0
"""Seconds: a hard bound, which only an endless loop passes."""


def read_all(text: str) -> None:
    for prose_is_answer, strict in ((False, False), (True, True)):
        read_action(text, TOOLS, prose_is_answer=prose_is_answer, strict=strict)
    read_arguments(text, SCHEMA)


@pytest.mark.parametrize("before", ["", '{"s": "', '{"tool": "look", "tool_input": {"a": ['])
@pytest.mark.parametrize("piece", PIECES)
def test_a_long_reply_of_one_piece_is_read_in_bounded_time(piece: str, before: str) -> None:
    began = time.process_time()
    read_all(before + piece * 20_000)
    assert time.process_time() - began < HARD


@given(st.lists(st.sampled_from(PIECES), max_size=4), st.integers(1, 300))
def test_no_mixture_of_pieces_raises_or_takes_for_ever(pieces: list[str], times: int) -> None:
    began = time.process_time()
    read_all("".join(pieces) * times)
    assert time.process_time() - began < HARD


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, "9" * 5000, '{"a": ' * 100_000, "{}" * 100_000]
)
def test_what_no_reader_can_take_is_a_fault_of_the_reply(text: str) -> None:
    wire = FunctionCalling({})
    for reply in (
        ModelReply(text),
        ModelReply(calls=(WireCall("look", text), WireCall("look", f'{{"a": {text}}}'))),
    ):
        action = wire.read(reply, prose_is_answer=False)
        assert action.calls == () or len(action.unread) == len(action.calls) or action.answers


def test_a_long_and_exact_input_is_read_whatever_its_length() -> None:
    text = "x" * 5_000_000
    assert read_arguments(f'{{"s": "{text}"}}', SCHEMA)[0] == {"s": text}
    said = read_action(
        f'{{"tool": "look", "tool_input": {{"s": "{text}"}}}}', TOOLS, prose_is_answer=False
    )
    assert said.calls == (("look", {"s": text}),)
