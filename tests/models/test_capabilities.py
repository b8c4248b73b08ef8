"""The form of a request, the next one after a refusal, and what is learnt from it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.model import ReplyStream
from archytas_nb.models import remote
from archytas_nb.models.body import (
    IMAGE_OMITTED,
    UNKNOWN_THOUGHT,
    body_of,
    returned_fields,
    with_images,
)
from archytas_nb.models.bounds import Deadline
from archytas_nb.models.capabilities import Capabilities, capabilities_of
from archytas_nb.models.features import Request, changes_of
from archytas_nb.models.negotiate import MOST_REQUESTS, adapt_request
from archytas_nb.models.refusals import EndpointErrors, count_images, room_for_reply
from archytas_nb.models.remote import with_retries

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
HELLO = ({"role": "user", "content": "hello"},)
PICTURES = ({"role": "user", "content": [{"type": "text", "text": "hello"}, IMAGE, IMAGE]},)
OWN = {"temperature": 0, "seed": 1}
ASK = AskModel(1, HELLO, tools=({"type": "function"},), schema={"type": "object"}, max_tokens=4096)
SAID = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "stream_options", "stream is off", "max_tokens", "use max_tokens, not max_completion_tokens",
            "at most 16 tokens", "at most 900 completion tokens", "response_format",
            "maximum context length is 4096 tokens and 120 input tokens", "temperature is not supported",
            "unsupported parameter: 'seed'", "image input is not supported", "at most 1 image",
            "System role not supported", "reasoning_content is missing", "missing a thought_signature",
        ]
    ),
)  # fmt: skip


@given(st.lists(SAID, min_size=20, max_size=20), st.booleans(), st.booleans())
def test_any_sequence_of_refusals_ends_after_few_requests(
    said: list[str], stream: bool, has_tools: bool
) -> None:
    ask = replace(ASK, messages=PICTURES, tools=ASK.tools if has_tools else ())
    can = Capabilities()
    before = replace(can)
    seen, once = plays(*(fault("refused", text, passing=False) for text in said))
    with pytest.raises(ModelError) as caught:
        heard(adapt_request(once, ask, can, OWN, stream=stream))
    if caught.value.kind == "no_tools":
        with pytest.raises(ModelError):
            heard(adapt_request(once, replace(ask, tools=()), can, OWN, stream=stream))
    assert len(seen) <= 1 + MOST_REQUESTS
    assert can == before  # nothing was accepted, so nothing is known


@given(st.lists(SAID, max_size=6), st.booleans())
def test_every_form_carries_the_whole_conversation(said: list[str], stream: bool) -> None:
    form = Capabilities()
    for text in said:
        request = Request(ASK, OWN, stream)
        found = changes_of(request, form, text)
        form = form.with_changes(found[:1])
        body = body_of(ASK, form, OWN, stream=stream)
        assert body["messages"] == HELLO
        assert len(body["tools"]) == len(ASK.tools)
        bounds = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
        assert len(bounds) <= 1
        assert all(0 < each <= 4096 for each in bounds)


def test_fields_of_the_user_override_ours() -> None:
    body = body_of(
        ASK, Capabilities(), {"max_completion_tokens": 7, "response_format": None}, stream=False
    )
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body
    assert body["response_format"] is None


@pytest.mark.parametrize("has_grammars", [True, False])
def test_a_grammar_takes_the_place_of_the_schema_where_there_are_grammars(
    has_grammars: bool,
) -> None:
    ask = replace(ASK, grammar='root ::= "yes"', stop=("\n", "  #"))
    body = body_of(ask, Capabilities(grammars=has_grammars), {}, stream=False)
    assert body.get("grammar") == ('root ::= "yes"' if has_grammars else None)
    assert ("response_format" in body) == (not has_grammars)
    assert body["stop"] == ["\n", "  #"]


def test_sends_nothing_that_was_not_requested() -> None:
    assert body_of(AskModel(1, HELLO), Capabilities(), {}, stream=False) == {"messages": HELLO}


def test_a_model_at_an_endpoint_has_one_record() -> None:
    capabilities_of.cache_clear()
    here = "http://127.0.0.1:9/v1"
    assert capabilities_of(here, "a", "openai") is capabilities_of(here, "a", "openai")
    assert capabilities_of(here, "a", "openai") is not capabilities_of(here, "b", "openai")
    assert (
        capabilities_of("https://api.openai.com/v1", "a", "openai").length_field
        == "max_completion_tokens"
    )


def test_max_tokens_is_lowered_to_the_room_that_is_left() -> None:
    for said, most in [
        ("max_tokens is too large: 4096. This model supports at most 2048 completion tokens", 2048),
        (
            (
                "maximum context length is 8192 tokens. However, you requested 8292 tokens (4196 in the messages, "
                "4096 in the completion)"
            ),
            3996,
        ),
        ("maximum context length is 4096 tokens and your request has 3700 input tokens", 396),
        ("maximum context length is 4096 tokens and your request has 4000 input tokens", None),
    ]:
        assert room_for_reply(said, 4096) == most


ASK_ASKING = AskModel(
    1, ({"role": "user", "content": "hello"},), max_tokens=100, thinking_tokens=800
)
AT = EndpointErrors("http://127.0.0.1:1/v1")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(remote, "sleep", waits.append)
    return waits


def fault(
    kind: Any = "server", said: str = "", *, passing: bool = True, wait: float | None = None
) -> ModelError:
    status = 400 if kind == "refused" else 503
    return ModelError(
        "it broke. Mend it.", kind=kind, status=status, passing=passing, wait=wait, refusal=said
    )


def plays(*outcomes: ModelError | ModelReply) -> tuple[list[Any], Any]:
    """The forms of requests, and a model that plays these outcomes in order."""
    seen: list[Any] = []
    left = iter(outcomes)

    def once(form: Any = None) -> ReplyStream:
        seen.append(form and replace(form))  # as it was then: what is learned changes it
        outcome = next(left)
        yield Delta("text", "so ")
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    return seen, once


def heard(flow: ReplyStream) -> tuple[list[str], ModelReply]:
    said: list[str] = []
    while True:
        try:
            event = next(flow)
        except StopIteration as ended:
            return said, ended.value
        if isinstance(event, Notice):
            said.append(event.text)


@given(failures=st.integers(0, 6), retries=st.integers(0, 4))
def test_a_temporary_failure_is_retried_max_retries_times(failures: int, retries: int) -> None:
    seen, once = plays(*[fault() for _ in range(failures)], ModelReply("fine"))
    if failures <= retries:
        said, reply = heard(with_retries(once, retries, Deadline(), AT))
        assert (reply.text, len(said), len(seen)) == ("fine", failures, failures + 1)
    else:
        with pytest.raises(ModelError) as caught:
            heard(with_retries(once, retries, Deadline(), AT))
        assert (f"Tried {retries + 1} times" in str(caught.value)) is (retries > 0)
        assert len(seen) == retries + 1


def test_waits_double_unless_the_server_asks_for_another(slept: list[float]) -> None:
    _, once = plays(fault(), fault(), fault(wait=7.0), fault(), ModelReply())
    heard(with_retries(once, 9, Deadline(), AT))
    assert slept == [0.5, 1.0, 7.0, 4.0]


def test_a_permanent_failure_or_too_long_a_wait_is_not_retried(
    slept: list[float],
) -> None:
    for bad in (fault(passing=False), fault(wait=61.0)):
        _, once = plays(bad)
        with pytest.raises(ModelError):
            heard(with_retries(once, 9, Deadline(), AT))
    assert slept == []


def test_a_wait_beyond_the_deadline_is_a_deadline_error_with_its_cause(
    slept: list[float],
) -> None:
    _, once = plays(fault(wait=30.0))
    with pytest.raises(ModelError) as caught:
        heard(with_retries(once, 9, Deadline(20.0), AT))
    assert caught.value.kind == "deadline"
    assert "within the 20 s that were left after it broke" in str(caught.value)
    assert slept == []


def test_a_form_is_remembered_only_after_a_reply() -> None:
    can = Capabilities()
    refusal = fault("refused", "Unknown parameter: 'stream_options'", passing=False)
    seen, once = plays(refusal, ModelReply("fine"))
    assert heard(adapt_request(once, ASK_ASKING, can, stream=True))[1].text == "fine"
    assert ["stream_options" in form.without for form in seen] == [False, True]
    assert can.without == {"stream_options"}

    can = Capabilities()
    _, once = plays(refusal, fault("server"))
    with pytest.raises(ModelError):
        heard(adapt_request(once, ASK_ASKING, can, stream=True))
    assert can == Capabilities()


THOUGHT = [
    ModelReply("", reasoning="hm, " * 50, finish="length", usage=Usage(1, 10, 0, 100)),
    ModelReply("", finish="length", usage=Usage(1, 10, 0, 100)),  # where the thoughts are not sent
    ModelReply("<think>hm, hm", finish="length", usage=Usage(1, 10, 0, 100)),
]


def test_a_model_that_only_reasoned_gets_more_tokens_from_then_on() -> None:
    for thought in THOUGHT:
        can = Capabilities()
        _, once = plays(thought, ModelReply("fine", usage=Usage(1, 10, 0, 500)))
        said, reply = heard(adapt_request(once, ASK_ASKING, can, stream=True))
        assert said == [
            "the reply was truncated during reasoning; asking again with a higher limit"
        ]
        assert (reply.text, reply.usage) == ("fine", Usage(2, 20, 0, 600))
        assert can.thinks
        assert body_of(ASK_ASKING, can, {}, stream=True)["max_tokens"] == 800
        _, once = plays(thought)
        assert (
            heard(adapt_request(once, ASK_ASKING, can, stream=True))[1].finish == "length"
        )  # there is an end to it


def test_a_reply_that_was_cut_off_in_its_text_is_not_retried() -> None:
    for reply in [
        ModelReply("half an ans", finish="length"),
        ModelReply("<think>a</think>b", finish="length"),
        ModelReply(""),
    ]:
        _, once = plays(reply)
        assert heard(adapt_request(once, ASK_ASKING, Capabilities(), stream=True)) == ([], reply)


def test_an_interrupt_in_a_wait_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(remote, "sleep", interrupt)
    _, once = plays(fault(), ModelReply())
    with pytest.raises(KeyboardInterrupt):
        heard(with_retries(once, 3, Deadline(), AT))


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
EXTRA = {"tool_calls": [{"extra_content": {"s": 1}}, {"extra_content": {"s": 2}}]}
ASIDES = {2: {"reasoning_content": "Hm.", **EXTRA}}


def sent(messages: Any, provider_metadata: Any = None, **form: Any) -> Any:
    ask = AskModel(1, messages, provider_metadata=provider_metadata or {})
    return body_of(ask, Capabilities(**form), {}, stream=False)["messages"]


@pytest.fixture(autouse=True)
def unchanged() -> Any:
    before = copy.deepcopy(TALK)
    yield
    assert before == TALK


def test_a_system_prompt_begins_the_first_question() -> None:
    first, *rest = sent(TALK, system=False)
    assert first == {"role": "user", "content": "Be brief.\n\nHow many?"}
    assert tuple(rest) == TALK[2:]


def test_a_system_prompt_precedes_the_parts_of_a_question_with_images() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]
    [first] = sent((TALK[0], {"role": "user", "content": parts}), system=False)
    assert first["content"] == [{"type": "text", "text": "Be brief."}, *parts]


def test_other_beginnings_of_a_conversation_are_not_changed() -> None:
    for messages in [(), TALK[:1], TALK[1:], (TALK[0], TALK[2])]:
        assert sent(messages, system=False) == messages


def test_thoughts_are_sent_back_or_a_placeholder_if_unknown() -> None:
    told = sent(TALK, ASIDES, thoughts=True)
    thoughts = [message["reasoning_content"] for message in told if message["role"] == "assistant"]
    assert thoughts == ["Hm.", UNKNOWN_THOUGHT, UNKNOWN_THOUGHT]
    assert [message for message in told if message["role"] != "assistant"] == [
        message for message in TALK if message["role"] != "assistant"
    ]


def test_extra_content_of_calls_is_sent_back() -> None:
    told = sent(TALK, ASIDES, extras="returned")
    assert [each.get("extra_content") for m in told for each in m.get("tool_calls", ())] == [
        {"s": 1},
        {"s": 2},
        None,
    ]


def test_fields_that_are_not_ours_are_sent_back_unless_the_endpoint_rejects_them() -> None:
    details = [{"type": "reasoning.encrypted", "data": "Ab", "index": 0, "note": None}]
    provider_metadata = {
        5: {"reasoning_details": details, "tool_calls": [{"function": {"sign": "S"}}]}
    }
    said = sent(TALK, provider_metadata)[5]
    assert said["reasoning_details"] == details
    assert said["tool_calls"][0]["function"] == {**call("c")["function"], "sign": "S"}
    assert returned_fields(AskModel(1, TALK, provider_metadata=provider_metadata)) == {
        "reasoning_details",
        "sign",
    }
    without = sent(TALK, provider_metadata, without=frozenset({"reasoning_details"}))[5]
    assert "reasoning_details" not in without
    assert without["tool_calls"] == said["tool_calls"]
    assert sent(TALK, provider_metadata, extras="unwanted") == TALK


def test_where_a_signature_is_required_the_first_call_of_a_reply_has_one() -> None:
    told = sent(TALK, {2: {"tool_calls": [{}, EXTRA["tool_calls"][1]]}}, extras="required")
    extras = [each.get("extra_content") for m in told for each in m.get("tool_calls", ())]
    skipped = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert extras == [skipped, {"s": 2}, skipped]


PART = st.one_of(
    st.just(IMAGE), st.text(max_size=5).map(lambda text: {"type": "text", "text": text})
)
CONTENT = st.one_of(st.none(), st.text(max_size=5), st.lists(PART, min_size=1, max_size=4))
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": CONTENT})
)


@given(MESSAGES, st.integers(0, 5))
def test_at_most_the_last_images_are_kept(messages: list[Any], most: int) -> None:
    before = copy.deepcopy(messages)
    result = with_images(messages, most)
    assert messages == before  # what was recorded is not changed
    assert count_images(result) == min(most, count_images(messages))
    assert [message["role"] for message in result] == [message["role"] for message in messages]
    if count_images(messages) > most > 0:
        last = [n for n, message in enumerate(messages) if count_images([message])][-1]
        assert count_images([result[last]]) > 0


@given(MESSAGES)
def test_without_images_each_is_replaced_by_a_line_of_text(messages: list[Any]) -> None:
    result = with_images(messages, 0)
    assert all(
        message["content"] is None or isinstance(message["content"], str) for message in result
    )
    assert sum(str(message["content"]).count(IMAGE_OMITTED) for message in result) == count_images(
        messages
    )


@given(MESSAGES)
def test_nothing_changes_if_all_images_are_allowed(messages: list[Any]) -> None:
    assert list(with_images(messages, max(1, count_images(messages)))) == messages


def test_the_text_beside_an_image_stays_in_its_place() -> None:
    content = [{"type": "text", "text": "before"}, IMAGE, {"type": "text", "text": "after"}]
    [message] = with_images([{"role": "user", "content": content}], 0)
    assert message["content"] == f"before\n{IMAGE_OMITTED}\nafter"
