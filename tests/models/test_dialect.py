"""Messages as an endpoint wants them; the conversation itself stays as it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from archytas_nb.models.dialect import UNKNOWN_THOUGHT, with_extras, with_thoughts, without_system


def call(id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "add", "arguments": "{}"}}


TALK: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How many?"},
    {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
    {"role": "tool", "tool_call_id": "a", "content": "1"},
    {"role": "tool", "tool_call_id": "b", "content": "2"},
    {"role": "assistant", "content": None, "tool_calls": [call("c")]},
    {"role": "tool", "tool_call_id": "c", "content": "3"},
    {"role": "assistant", "content": "Three."},
)
ASIDES = {"a": {"reasoning": "Hm.", "extra": {"s": 1}}, "b": {"extra": {"s": 2}}}


@pytest.fixture(autouse=True)
def unchanged() -> Any:
    before = copy.deepcopy(TALK)
    yield
    assert before == TALK


def test_a_system_prompt_begins_the_first_question() -> None:
    first, *rest = without_system(TALK)
    assert first == {"role": "user", "content": "Be brief.\n\nHow many?"}
    assert tuple(rest) == TALK[2:]


def test_a_system_prompt_stands_before_the_parts_of_a_question_with_images() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]
    [first] = without_system((TALK[0], {"role": "user", "content": parts}))
    assert first["content"] == [{"type": "text", "text": "Be brief."}, *parts]


@pytest.mark.parametrize("messages", [(), TALK[:1], TALK[1:], (TALK[0], TALK[2])])
def test_messages_that_do_not_begin_so_stay_as_they_are(messages: Any) -> None:
    assert without_system(messages) == messages


def test_a_model_gets_back_what_it_thought_and_a_mark_where_that_is_not_known() -> None:
    told = with_thoughts(TALK, ASIDES)
    thoughts = [message["reasoning_content"] for message in told if message["role"] == "assistant"]
    assert thoughts == ["Hm.", UNKNOWN_THOUGHT, UNKNOWN_THOUGHT]
    assert [message for message in told if message["role"] != "assistant"] == [
        message for message in TALK if message["role"] != "assistant"
    ]


def test_each_call_gets_back_what_came_beside_it() -> None:
    told = with_extras(TALK, ASIDES, signed=False)
    assert [each.get("extra_content") for m in told for each in m.get("tool_calls", ())] == [
        {"s": 1},
        {"s": 2},
        None,
    ]


def test_where_a_signature_is_required_the_first_call_of_a_reply_has_one() -> None:
    told = with_extras(TALK, {"b": ASIDES["b"]}, signed=True)
    extras = [each.get("extra_content") for m in told for each in m.get("tool_calls", ())]
    skipped = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert extras == [skipped, {"s": 2}, skipped]
