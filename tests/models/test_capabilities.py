"""The form of a request, and the next one after a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import AskModel
from archytas_nb.models.capabilities import Capabilities, body_of, capabilities_of, lowered, shorter

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


@given(st.lists(SAID, min_size=60, max_size=60), st.booleans())
def test_whatever_is_said_an_endpoint_is_asked_in_finitely_many_forms(
    said: list[str], stream: bool
) -> None:
    form, seen = Capabilities(), [Capabilities()]
    for text in said:
        following = lowered(form, replace(ASK, messages=PICTURES), text, OWN, stream=stream)
        if following is None or following in seen:
            break
        seen.append(form := following)
    else:
        pytest.fail(f"{len(seen)} forms and no end")


@given(st.lists(SAID, max_size=10), st.booleans())
def test_every_form_bounds_the_reply_and_carries_the_whole_conversation(
    said: list[str], stream: bool
) -> None:
    form = Capabilities()
    for text in said:
        form = lowered(form, ASK, text, OWN, stream=stream) or form
        body = body_of(ASK, form, OWN, stream=stream)
        assert body["messages"] == HELLO
        assert body["tools"] == ASK.tools
        bounds = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
        assert len(bounds) == 1
        assert 0 < bounds[0] <= 4096


def test_fields_of_the_users_own_win() -> None:
    body = body_of(
        ASK, Capabilities(), {"max_completion_tokens": 7, "response_format": None}, stream=False
    )
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body
    assert body["response_format"] is None


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert body_of(AskModel(1, HELLO), Capabilities(), {}, stream=False) == {"messages": HELLO}


def test_a_model_at_an_endpoint_has_one_record() -> None:
    capabilities_of.cache_clear()
    here = "http://127.0.0.1:9/v1"
    assert capabilities_of(here, "a") is capabilities_of(here, "a")
    assert capabilities_of(here, "a") is not capabilities_of(here, "b")
    assert capabilities_of("https://api.openai.com/v1", "a").length_field == "max_completion_tokens"


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ("max_tokens is too large: 4096. This model supports at most 2048 completion tokens", 2048),
        (("maximum context length is 8192 tokens. However, you requested 8292 tokens (4196 in the messages, "
         "4096 in the completion)"), 3996),
        ("maximum context length is 4096 tokens and your request has 3700 input tokens", 396),
        ("maximum context length is 4096 tokens and your request has 4000 input tokens", None),
    ],
)  # fmt: skip
def test_a_bound_is_lowered_to_what_there_is_room_for(said: str, most: int | None) -> None:
    less = shorter(Capabilities(), ASK, said)
    assert (less and less.most_tokens) == most
