"""Conversations survive everything that models write and tools raise."""

from __future__ import annotations

import json

from archytas_nb.loop.events import ModelReply
from tests.faults.talk import ADD, Talk
from tests.servers.plays import Say


def test_an_input_that_cannot_be_used_is_told_to_the_model(talk: Talk) -> None:
    for given in [
        '{"a": 1, "b": ',
        "not json at all",
        '{"a": "one", "b": 2}',
        '{"a": 1}',
        '{"a": 1, "b": 2, "c": 3}',
    ]:
        talk.with_(Say(calls=(("add", given),)), then=Say("Three."))
        run = talk.ask()
        assert run.answer == "Three."
        assert len(talk.server.chats) == 2
        assert all(outcome.status == "error" for _, outcome in run.calls)
        told = json.dumps(talk.server.chats[1].messages[-1])
        assert "add" in told or "a" in told
        talk.goes_on()


def test_a_tool_that_is_not_there_is_answered_with_those_that_are(talk: Talk) -> None:
    talk.with_(Say(calls=(("addd", {"a": 1, "b": 2}),)), then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    assert "add" in json.dumps(talk.server.chats[1].messages[-1])
    talk.goes_on()


def test_whatever_the_servers_ids_each_call_is_run_once_and_in_order(talk: Talk) -> None:
    for ids in ["good", "same", "empty", "none"]:
        calls = (("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}), ("add", {"a": 3, "b": 3}))
        talk.with_(
            Say(calls=calls if talk.protocol == "native" else calls[:1], ids=ids), then=Say("Done.")
        )
        run = talk.ask()
        assert [outcome.text for _, outcome in run.calls] == ["2", "4", "6"][: len(run.calls)]
        assert len(run.calls) == (3 if talk.protocol == "native" else 1)
        talk.goes_on()


def test_an_empty_reply_is_told_to_the_model(talk: Talk) -> None:
    talk.with_(Say(), then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == 2
    talk.goes_on()


def test_a_model_that_stays_silent_ends_incomplete_with_a_reason(talk: Talk) -> None:
    talk.with_(then=Say())
    run = talk.ask()
    assert run.status == "stopped"
    assert run.incomplete
    assert run.reason == "max_errors=5"
    assert len(talk.server.chats) <= 6
    talk.goes_on()


def test_a_reply_of_bare_json_ends(talk: Talk) -> None:
    for text in ["42", "true", '"three"', "[1, 2]", '{"x": 3}', "null"]:
        talk.with_(then=Say(text, raw=True))
        run = talk.ask()
        assert run.status in ("answered", "stopped")
        assert len(talk.server.chats) <= 6
        talk.goes_on()


def test_a_reply_that_was_cut_off_for_its_length_is_not_taken_for_whole(talk: Talk) -> None:
    cut = Say('{"thought": "it is", "tool": "final_ans', raw=True, finish="length")
    talk.with_(cut, then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert "cut off" in json.dumps(talk.server.chats[1].messages[-1])
    talk.goes_on()


def test_a_tool_that_raises_is_told_to_the_model(talk: Talk) -> None:
    talk.with_(Say(calls=(("boom", {}),)), then=Say("The disk is full."))
    run = talk.ask()
    assert run.answer == "The disk is full."
    assert "the disk is full" in json.dumps(talk.server.chats[1].messages[-1])
    talk.goes_on()


def test_a_model_that_calls_without_end_is_stopped_and_heard(talk: Talk) -> None:
    plays = [Say(calls=(("add", {"a": n, "b": n}),)) for n in range(4)]
    talk.with_(*plays, then=Say("I only got so far."), agent={"max_steps": 4})
    run = talk.ask()
    assert run.incomplete
    assert run.reason == "max_steps=4"
    assert run.answer == "I only got so far."
    assert len(talk.server.chats) == 5
    talk.goes_on()


def test_a_model_that_makes_the_same_call_without_end_is_stopped(talk: Talk) -> None:
    talk.with_(then=ADD)
    run = talk.ask()
    assert run.incomplete
    assert len(run.calls) == 1
    assert len(talk.server.chats) <= 21
    talk.goes_on()


def test_what_a_reasoning_model_thought_is_kept_apart_and_sent_back_as_it_came(talk: Talk) -> None:
    thinking = Say(
        calls=(("add", {"a": 1, "b": 2}),), extra={"reasoning_content": "Let me see, one and two."}
    )
    talk.with_(thinking, then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    replies = [event for event in run.events if isinstance(event, ModelReply)]
    assert replies[0].reasoning == "Let me see, one and two."
    sent = [each.get("reasoning_content") for each in talk.server.chats[1].body["messages"]]
    # The text protocol writes the messages of the model itself.
    expected = ["Let me see, one and two."] if talk.protocol == "native" else []
    assert [each for each in sent if each is not None] == expected
    talk.goes_on()


def test_reasoning_under_either_name_is_read(talk: Talk) -> None:
    for field in ["reasoning", "reasoning_content"]:
        talk.with_(Say("Three.", extra={field: "One and two."}))
        [reply] = [event for event in talk.ask().events if isinstance(event, ModelReply)]
        assert reply.reasoning == "One and two."
        talk.goes_on()


def test_what_was_thought_in_the_text_is_no_part_of_the_answer(talk: Talk) -> None:
    final = (
        "Three."
        if talk.protocol == "native"
        else '{"thought": "", "tool": "final_answer", "tool_input": "Three."}'
    )
    talk.with_(Say(f"<think>Two and one.</think>{final}", raw=True))
    run = talk.ask()
    assert run.answer == "Three."
    talk.goes_on()
    assert "Two and one" not in json.dumps(talk.server.chats[-1].messages)


def test_the_tokens_of_a_run_are_added_up(talk: Talk) -> None:
    talk.with_(ADD, then=Say("Three."))
    usage = talk.ask().usage
    assert (usage.requests, usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (
        2,
        200,
        120,
        20,
    )
    talk.goes_on()
