"""However a gateway cuts, numbers and repeats the calls of a reply, the same calls are read."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models.completion import from_stream
from tests.world.streams import CALLS, GATEWAYS, Calls, Gateway


def replied(body: bytes, at: list[int]) -> Any:
    cuts = [0, *sorted(each % (len(body) + 1) for each in at), len(body)]
    flow = from_stream(body[a:b] for a, b in itertools.pairwise(cuts))
    while True:
        try:
            next(flow)
        except StopIteration as ended:
            return ended.value


def stream(*deltas: dict[str, Any], finish: str = "tool_calls", end: str = "\n\n") -> bytes:
    choices = [{"index": 0, "delta": each, "finish_reason": None} for each in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    lines = [f"data: {json.dumps({'choices': [each]}, ensure_ascii=False)}" for each in choices]
    return end.join([*lines, "data: [DONE]", ""]).encode()


def read(gateway: Gateway, calls: Calls) -> list[tuple[str, Any]]:
    chunks = gateway.chunks(calls)
    reply = replied(stream(*({"tool_calls": each} for each in chunks)), [])
    return [(each.name, json.loads(each.arguments)) for each in reply.calls]


@given(GATEWAYS, CALLS)
def test_the_same_calls_are_read_from_every_gateway(gateway: Gateway, calls: Calls) -> None:
    assert read(gateway, calls) == calls


@given(
    st.lists(st.sampled_from([*"añ∀ \x85", "😀", "two\nlines", "data: x", "[DONE]", "}"])),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["plain", "lines", "comments", "no empty lines"]),
    st.booleans(),
    st.lists(st.integers(0, 5000)),
)
def test_events_are_read_as_the_standard_says(
    texts: list[str], end: str, form: str, has_mark: bool, at: list[int]
) -> None:
    body = stream(*({"content": each} for each in texts), finish="stop").decode()
    if form == "lines":
        body = body.replace(', "finish_reason"', ',\ndata: "finish_reason"')
    elif form == "comments":
        body = re.sub("(?m)^data: ", ": ping\nid: 7\nevent: message\ndata:", body)
    elif form == "no empty lines":
        body = body.replace("\n\n", "\n")
    data = (b"\xef\xbb\xbf" if has_mark else b"") + body.replace("\n", end).encode()
    assert replied(data, at).text == "".join(texts)


@given(st.integers(0, 400), st.sampled_from([b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80"]))
def test_a_body_that_is_not_text_is_never_a_reply(at: int, bad: bytes) -> None:
    body = stream({"content": "It is three."}, finish="stop")
    begin, end = body.index(b"It is"), body.index(b"three.")
    at = begin + at % (end - begin)
    with pytest.raises(EOFError):
        replied(body[:at] + bad + body[at:], [])


# ── fields that are not ours ──────────────────────────────────────────────────────────────────────

_ITEM = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["reasoning.text", "reasoning.encrypted"]),
        "text": st.text("ab ", min_size=3, max_size=9),
        "format": st.sampled_from(["v1", "v2"]),
        "signature": st.none() | st.text("Sig", min_size=1, max_size=3),
    }
)


@given(
    st.lists(_ITEM, min_size=1, max_size=4),
    st.integers(1, 4),
    st.booleans(),
    st.dictionaries(st.sampled_from(["google", "x"]), st.text("ab", min_size=1), min_size=1),
)
def test_unknown_fields_come_out_as_they_came_in(
    items: list[dict[str, Any]], size: int, is_repeated: bool, extra: dict[str, str]
) -> None:
    details = [{**each, "index": number} for number, each in enumerate(items)]
    details = [each for each in details if len(set(each["text"])) > 1]
    deltas: list[dict[str, Any]] = []
    for each in details:
        pieces = [each["text"][at : at + size] for at in range(0, len(each["text"]), size)]
        if len(set(pieces)) == 1:
            pieces = [each["text"]]
        labels = {name: each[name] for name in ("type", "format", "index")}
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            more = (
                labels
                if is_repeated or not number
                else {"index": each["index"], "type": each["type"]}
            )
            signature = each["signature"] if is_last else None
            deltas.append({"reasoning_details": [{**more, "text": piece, "signature": signature}]})
    call = {
        "index": 0,
        "id": "c",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": extra,
    }
    reply = replied(stream(*deltas, {"tool_calls": [call]}), [])
    assert reply.kept.get("reasoning_details", []) == details
    assert reply.calls[0].extra == {"extra_content": extra}


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────

_SPELLINGS: dict[str, Any] = {
    "none": lambda cached: {},
    "nested": lambda cached: {"prompt_tokens_details": {"cached_tokens": cached}},
    "camel": lambda cached: {"promptTokensDetails": {"cachedTokens": cached}},
    "flat": lambda cached: {"cached_tokens": cached},
    "hit and miss": lambda cached: {
        "prompt_cache_hit_tokens": cached,
        "prompt_cache_miss_tokens": 7,
    },
    "read": lambda cached: {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0},
    "deep": lambda cached: {"details": {"cache": {"read": {"tokens": cached}}}},
    "content": lambda cached: {"cachedContentTokenCount": cached},
}


@given(
    st.integers(1, 5000),
    st.integers(0, 5000),
    st.integers(1, 500),
    st.integers(0, 500),
    st.sampled_from(sorted(_SPELLINGS)),
    st.lists(st.sampled_from(["zero", "null", "part", "whole"]), max_size=4),
    st.sampled_from(["usage", "choice", "x_groq", "delta"]),
)
def test_the_tokens_of_a_reply_are_counted_once_in_any_spelling(
    sent: int, cached: int, output: int, thought: int, spelling: str, before: list[str], where: str
) -> None:
    cached = 0 if spelling == "none" else min(cached, sent)
    if thought in (cached, cached + 7):  # the rest may be either
        thought = 0
    whole = {
        "prompt_tokens": sent,
        "completion_tokens": output,
        "total_tokens": sent + output + thought,
        **_SPELLINGS[spelling](cached),
    }
    part = {"prompt_tokens": sent, "completion_tokens": 1, "total_tokens": sent + 1}
    forms: dict[str, Any] = {
        "zero": {name: 0 for name in whole if isinstance(whole[name], int)},
        "null": None,
        "part": part,
        "whole": whole,
    }
    chunks: list[dict[str, Any]] = []
    for form in (*before, "whole", *(each for each in before if each in ("zero", "null"))):
        choice: dict[str, Any] = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
        chunk: dict[str, Any] = {"choices": [choice]}
        holder = {"usage": chunk, "choice": choice, "delta": choice["delta"]}.get(where)
        if holder is None:
            holder = chunk["x_groq"] = {}
        holder["usage"] = forms[form]
        chunks.append(chunk)
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks).encode()
    usage = replied(body, []).usage
    assert (usage.input_tokens, usage.cached_tokens) == (sent, cached)
    assert usage.output_tokens == output + thought
