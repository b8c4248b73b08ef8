"""Chat completions in the dialects of the servers that there are, and what they cost."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Delta, ModelReply, Usage, WireCall
from archytas_nb.models.completion import (
    NotACompletion,
    Price,
    ServerError,
    from_body,
    from_stream,
    price_of,
)
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.sse import Repeated
from archytas_nb.models.usage import tokens_in
from tests.growth import assert_linear


def read(chunks: Iterable[bytes]) -> tuple[list[Delta], ModelReply]:
    flow, seen = from_stream(chunks), []
    while True:
        try:
            seen.append(next(flow))
        except StopIteration as ended:
            return seen, ended.value


def stream(*events: Any, end: str = "\n\n", done: bool = True) -> bytes:
    lines = [
        e if isinstance(e, str) else f"data: {json.dumps(e, ensure_ascii=False)}" for e in events
    ]
    return (end.join([*lines, *(["data: [DONE]"] if done else [])]) + end).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return delta(tool_calls=[{**fields, "function": function}])


def cut(data: bytes, at: Iterable[int]) -> Iterator[bytes]:
    before = 0
    for end in [*sorted({n % (len(data) + 1) for n in at}), len(data)]:
        yield data[before:end]
        before = end


PIECES = [*"añ∀\u2028\x85", "😀", "two\nlines", '"quoted"', "data: [DONE]", "}"]


@given(
    st.lists(st.sampled_from(PIECES)),
    st.lists(st.integers(0, 5000)),
    st.sampled_from(["\n\n", "\r\n\r\n"]),
)
def test_a_stream_reads_the_same_however_its_bytes_are_cut(
    pieces: list[str], at: list[int], end: str
) -> None:
    data = stream(*[delta(content=p) for p in pieces], delta("stop"), end=end)
    seen, reply = read(cut(data, at))
    assert reply.text == "".join(pieces) == "".join(each.text for each in seen)
    assert reply.finish == "stop"


INPUTS = st.dictionaries(st.sampled_from("abc"), st.text(max_size=5), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from(["f", "g"]), INPUTS), min_size=1, max_size=4)
DIALECTS = {
    "as documented": lambda n, first: {"index": n, **({"id": f"call_{n}"} if first else {})},
    "no ids": lambda n, first: {"index": n},
    "one id for all": lambda n, first: {"index": n, "id": "call_x"},
    "index always 0": lambda n, first: {"index": 0, **({"id": f"call_{n}"} if first else {})},
    "no index": lambda n, first: {"id": f"call_{n}"},
    "no index, no id": lambda n, first: {},
}


@given(calls=CALLS, size=st.integers(1, 9), dialect=st.sampled_from(sorted(DIALECTS)))
def test_tells_calls_apart_whatever_their_ids_and_indices(
    dialect: str, calls: list[tuple[str, dict[str, str]]], size: int
) -> None:
    fields, events = DIALECTS[dialect], []
    for n, (name, given_) in enumerate(calls):
        text = json.dumps(given_)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events += [
            call(name if k == 0 else None, piece, **fields(n, k == 0))
            for k, piece in enumerate(pieces)
        ]
    _, reply = read([stream(*events, delta("tool_calls"))])
    assert reply.calls == tuple(WireCall(name, json.dumps(g)) for name, g in calls)


@given(st.integers(0, 300))
def test_a_truncated_stream_is_never_taken_for_complete(at: int) -> None:
    data = stream(delta(content="one "), delta(content="two"), delta("stop"))
    whole = data.index(b'"stop"') + len(b'"stop"}]}')
    at = max(at % (whole - 1), len(b"data:"))
    with pytest.raises(EOFError):
        read([data[:at]])


# Pieces that look like the fields around them, and raw events that are hardly of the same form.
_TRICKY = [
    "",
    " ",
    '"',
    "\\",
    '"content":',
    '{"content":"x"}',
    "\u2028",
    "é",
    "😀",
    "}]}",
    "a\nb",
]
_EVENTS = st.one_of(
    st.builds(delta, content=st.sampled_from(_TRICKY) | st.text(max_size=4)),
    st.builds(delta, content=st.text(max_size=3), role=st.just("assistant")),
    st.builds(delta, reasoning_content=st.text(max_size=3)),
    st.builds(lambda text: {**delta(content=text), "id": '"content": "a"'}, st.text(max_size=3)),
    st.builds(lambda text: {**delta(content=text), "usage": {"total_tokens": 3}}, st.text("ab")),
    st.just(delta("stop")),
    st.sampled_from(["data: [DONE]", ": ping", "data:"]),
    # Not all of it is JSON, and some has the field twice, with the beginning and end of a piece.
    st.sampled_from([
        'a"b', 'a", "content": "b', 'a", "content": "a', 'x", "content": "a', 'a", "role": "assistant',
        'a"}, "x": {"y": "b', "a\\", "a", "b", "",
    ]).map(
        lambda text: (
            'data: {"model": "m", "choices": [{"index": 0, "delta": {"content": "' + text
            + '"}, "finish_reason": null}]}'
        )
    ),
)  # fmt: skip


@given(
    st.lists(_EVENTS, min_size=1, max_size=12),
    st.sampled_from([(", ", ": "), (",", ":")]),
    st.booleans(),
    st.booleans(),
)
def test_events_of_a_known_form_are_read_like_any_other(
    events: list[Any], separators: tuple[str, str], is_ascii: bool, is_whole: bool
) -> None:
    """Reading an event by its form gives the same result, end or error as reading all of its JSON."""
    lines = [
        each
        if isinstance(each, str)
        else f"data: {json.dumps(each, ensure_ascii=is_ascii, separators=separators)}"
        for each in [delta(content="first"), delta(content="known"), *events]
    ]
    chunks = [f"{line}\n\n".encode() for line in [*lines, "data: [DONE]"]]
    if is_whole:
        chunks = [*chunks[:2], b"".join(chunks[2:])]

    def outcome() -> tuple[Any, str]:
        flow, seen = from_stream(chunks), []
        try:
            while True:
                seen.append(next(flow))
        except StopIteration as ended:
            return (seen, ended.value), ""
        except (EOFError, NotACompletion, ServerError) as error:
            return seen, f"{type(error).__name__} {error}"

    by_form = outcome()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Repeated, "learn", lambda *_: None)
        assert by_form == outcome()


def test_ignores_a_connection_that_breaks_after_the_end() -> None:
    def chunks() -> Iterator[bytes]:
        yield stream(delta(content="all"), delta("stop"), done=False)
        raise EOFError

    assert read(chunks())[1].text == "all"


def test_a_connection_that_breaks_before_the_end_is_an_error() -> None:
    def chunks() -> Iterator[bytes]:
        yield stream(delta(content="all"), done=False)
        raise EOFError("reset by peer")

    with pytest.raises(EOFError, match="reset by peer"):
        read(chunks())


def test_skips_comments_and_other_fields_of_events() -> None:
    others = (": ping", "event: message", "id: 7", "retry: 10")
    assert read([stream(*others, delta(content="a"), ": ping", delta("stop"))])[1].text == "a"


def test_an_event_that_is_not_json_ends_the_stream() -> None:
    with pytest.raises(EOFError, match="was not JSON"):
        read([stream(delta(content="a"), 'data: {"choices": [', delta("stop"))])


def test_a_server_that_does_not_stream_is_understood() -> None:
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    assert read([json.dumps(body, indent=1).encode()])[1].text == "whole"


def test_a_stream_of_whole_messages_is_understood() -> None:
    event = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    assert read([stream(event)])[1].text == "whole"


def test_rejects_other_bodies_and_truncated_completions() -> None:
    for data in (b"<html>hello</html>", b"hello", b"data: hello\n\n", b"[]", b'"x"', b"{}"):
        with pytest.raises(NotACompletion):
            read([data])
    for data in (b"", b"\n\n", b": ping\n\n", b'{"choices": [{"message'):
        with pytest.raises(EOFError):
            read([data])


CHOICE = {"error": {"message": "no memory", "code": 503}, "finish_reason": "error"}
ERRORS: list[tuple[Any, int]] = [
    ({"error": {"message": "no memory", "code": 503}}, 503),
    ({"error": {"message": "no memory", "code": "oom"}}, 500),
    ({"error": "no memory"}, 500),
    ({"object": "error", "message": "no memory", "code": 400}, 400),
    ([{"error": {"message": "no memory", "code": 503}}], 503),
    ({"choices": [CHOICE]}, 503),
]


def test_an_error_object_is_an_error_in_a_stream_and_in_a_body() -> None:
    for error, status in ERRORS:
        for attempt in (
            lambda error=error: read([stream(error)]),
            lambda error=error: from_body(json.dumps(error)),
        ):
            with pytest.raises(ServerError) as caught:
                attempt()
            assert "no memory" in caught.value.message
            assert caught.value.status == status


def body(usage: Any = None, finish: str | None = "stop", **message: Any) -> str:
    return json.dumps(
        {"model": "m", "choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    )


def test_a_body_and_a_stream_of_the_same_reply_read_the_same() -> None:
    calls = [{"id": "c", "index": 0, "function": {"name": "f", "arguments": '{"a": 1}'}}]
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    whole = from_body(
        body(usage, "tool_calls", content="hm", reasoning_content="so", tool_calls=calls)
    )
    events = [
        delta(content="hm"),
        delta(reasoning_content="so"),
        delta(tool_calls=calls),
        delta("tool_calls"),
    ]
    _, streamed = read([stream(*events, {"choices": [], "usage": usage})])
    assert whole == streamed
    assert whole.usage == streamed.usage == Usage(1, 9, 5, 4)
    assert whole.calls == (WireCall("f", '{"a": 1}'),)
    assert whole.reasoning == "so"


THINKING = {"content": [{"type": "thinking", "thinking": [{"text": "so"}]}, {"text": "b"}]}
PARTS = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
MESSAGES: list[tuple[dict[str, Any], str, str, tuple[WireCall, ...]]] = [
    ({"content": None}, "", "", ()),
    (PARTS, "ab", "", ()),
    (THINKING, "b", "so", ()),
    ({"content": None, "refusal": "I will not."}, "I will not.", "", ()),
    ({"content": "a", "reasoning": "so"}, "a", "so", ()),
    ({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, "", "",
     (WireCall("f", '{"a": 1}'),)),
    ({"tool_calls": [{"function": {"name": "f"}}]}, "", "", (WireCall("f", ""),)),
]  # fmt: skip


def test_reads_the_messages_of_all_servers() -> None:
    for message, text, reasoning, calls in MESSAGES:
        reply = from_body(body(**message))
        assert (reply.text, reply.reasoning, reply.calls) == (text, reasoning, calls)


def test_reads_why_a_reply_ended() -> None:
    maxima = ("model_length", "MAX_TOKENS", "token_limit", "context_window_exceeded", "truncated")
    ends = ("eos", "eos_token", "stop_sequence", "tool_calls", "content_filter")
    for finish, read_as in (*((each, "length") for each in maxima), *zip(ends, ends, strict=True)):
        assert from_body(body(finish=finish, content="a")).finish == read_as
        assert read([stream(delta(content="a"), delta(finish))])[1].finish == read_as
    with pytest.raises(EOFError, match="'error'"):
        from_body(body(finish="error", content="a"))
    with pytest.raises(EOFError, match="'error'"):
        read([stream(delta(content="a"), delta("error"))])


@pytest.mark.parametrize("size", [3, 1000])
def test_extra_content_is_kept_with_its_call(size: int) -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    calls = [
        {
            "index": 0,
            "id": "a",
            "function": {"name": "f", "arguments": '{"a": 1}'},
            "extra_content": extra,
        },
        {"index": 1, "id": "b", "function": {"name": "f", "arguments": "{}"}},
    ]
    kept = (WireCall("f", '{"a": 1}', {"extra_content": extra}), WireCall("f", "{}"))
    assert from_body(body(finish="tool_calls", tool_calls=calls)).calls == kept
    data = stream(*[delta(tool_calls=[each]) for each in calls], delta("tool_calls"))
    assert read(data[at : at + size] for at in range(0, len(data), size))[1].calls == kept


# ── replies of no form at all ─────────────────────────────────────────────────────────────────────

ODD = [None, True, 0, -1, 1.5, "", "text", [], [None], ["x"], [[]], {}, {"a": 1}, [{}]]
FUNCTION = {"name": "f", "arguments": "{}"}
MESSAGE = {
    "role": "assistant", "content": [{"type": "text", "text": "a"}, {"thinking": [{"text": "b"}]}],
    "tool_calls": [{"index": 0, "id": "x", "function": FUNCTION, "extra_content": {"a": 1}}],
    "reasoning_content": "so",
}  # fmt: skip
USAGE = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens": 2}
WHOLE = {
    "model": "m", "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop", "usage": USAGE}],
    "usage": USAGE, "x_groq": {"usage": USAGE},
}  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from places(value[key], (*at, key))


def replaced(value: Any, at: tuple[Any, ...], other: Any) -> Any:
    if not at:
        return other
    if isinstance(value, dict):
        return {
            key: replaced(each, at[1:], other) if key == at[0] else each
            for key, each in value.items()
        }
    return [replaced(each, at[1:], other) if n == at[0] else each for n, each in enumerate(value)]


def test_reads_or_rejects_any_json_value_in_any_place() -> None:
    for at, odd in itertools.product(places(WHOLE), ODD):
        data = replaced(WHOLE, at, odd)
        for attempt in (
            lambda data=data: from_body(json.dumps(data)),
            lambda data=data: read([stream(data, delta("stop"))])[1],
        ):
            try:
                reply = attempt()
            except (NotACompletion, ServerError, EOFError):
                continue
            texts = [reply.text, reply.reasoning, reply.finish, reply.model]
            texts += [text for each in reply.calls for text in (each.name, each.arguments)]
            assert all(isinstance(text, str) for text in texts), at


DEEP, LONG = "[" * 100_000, "9" * 5000


def test_rejects_a_body_that_no_reader_can_take() -> None:
    for text in (DEEP, LONG, '{"a": ' + DEEP, f'{{"a": {LONG}}}', "{}" * 100_000):
        with pytest.raises((NotACompletion, EOFError)):
            from_body(text)
        with pytest.raises((NotACompletion, EOFError)):
            read([f"data: {text}\n\n".encode()])


@pytest.mark.parametrize(
    "piece",
    [
        lambda n: b"data: {\n" * n,
        lambda n: b"data: " + b"[" * 50 * n,
        lambda n: call_pieces('{"a": ', n),
    ],
)
def test_a_stream_is_read_in_time_that_grows_with_its_length(piece: Any) -> None:
    def read_all(text: bytes) -> None:
        with contextlib.suppress(NotACompletion, EOFError):
            read([text[at : at + 1000] for at in range(0, len(text), 1000)])

    assert_linear(lambda n: read_all(piece(n)), 20_000)


def call_pieces(arguments: str, n: int) -> bytes:
    """A call from a server that repeats the name with each piece."""

    def event(arguments: str) -> bytes:
        call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": arguments}}
        return (
            b"data: "
            + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode()
            + b"\n\n"
        )

    return event(arguments) + event("1}") * n


TOKENS = {"prompt_tokens": 9, "completion_tokens": 4}
USAGES: list[tuple[dict[str, Any], Usage | None]] = [
    ({"usage": {**TOKENS, "prompt_tokens_details": {"cached_tokens": 5}}}, Usage(1, 9, 5, 4)),
    ({"usage": {**TOKENS, "prompt_tokens_details": None}}, Usage(1, 9, 0, 4)),
    ({"usage": {"prompt_tokens": 9, "completion_tokens": None}}, Usage(1, 9)),
    ({"x_groq": {"id": "r", "usage": TOKENS}}, Usage(1, 9, 0, 4)),
    ({"usage": {**TOKENS, "cost": 0.0125}}, Usage(1, 9, 0, 4, 0.0125)),
    ({"usage": {**TOKENS, "cost": {"total": 1}}}, Usage(1, 9, 0, 4)),
    ({"choices": []}, None),
    ({"usage": None, "x_groq": None}, None),
]


def test_reads_the_usage_that_a_server_reports_and_estimates_none() -> None:
    for part, usage in USAGES:
        tokens = tokens_in(part)
        assert (tokens and tokens.usage) == usage


VALUE = st.one_of(
    st.none(), st.integers(-5, 50), st.floats(0, 50), st.text(max_size=2), st.booleans()
)
FIELDS = ["prompt_tokens", "completion_tokens", "cost"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUE), st.one_of(VALUE, st.just({"cached_tokens": 9}))
)
def test_token_counts_are_integers_and_cached_ones_part_of_the_input(
    said: Any, details: Any
) -> None:
    tokens = tokens_in({"usage": {**said, "prompt_tokens_details": details}})
    assert tokens is not None
    usage = tokens.usage
    counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert usage.cached_tokens <= usage.input_tokens


OPENAI = "https://api.openai.com/v1"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    price_of.cache_clear()
    yield
    price_of.cache_clear()


def with_data(monkeypatch: pytest.MonkeyPatch, **prices: Any) -> None:
    """Prices per million tokens in place of those of genai-prices."""
    known: dict[str, Any] = {"sent": 2.0, "cached": 0.5, "written": 8.0, **prices}

    def calc_price(usage: Any, model: str, provider_api_url: str) -> Any:
        if (model, provider_api_url) != ("gpt-4.1", OPENAI):
            raise LookupError(model)
        cached = usage.get("cache_read_tokens", 0)
        usd = (usage.get("input_tokens", 0) - cached) * known["sent"] + cached * known["cached"]
        return SimpleNamespace(
            total_price=(usd + usage.get("output_tokens", 0) * known["written"]) / 1e6
        )

    module = SimpleNamespace(calc_price=calc_price, Usage=dict)
    monkeypatch.setitem(sys.modules, "genai_prices", module)
    price_of.cache_clear()


def test_cached_tokens_are_part_of_the_input_and_cost_less() -> None:
    price = Price(input=2.0, cached=0.5, output=8.0)
    assert price.cost(Usage(1, 1_000_000, 0, 0)) == 2.0
    assert price.cost(Usage(1, 1_000_000, 1_000_000, 0)) == 0.5
    assert price.cost(Usage(3, 400_000, 100_000, 50_000)) == pytest.approx(0.6 + 0.05 + 0.4)
    assert price.cost(Usage(1, 0, 10, 0)) >= 0


def test_a_price_belongs_to_the_endpoint_and_the_exact_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_data(monkeypatch)
    assert OpenAIModel("gpt-4.1", OPENAI, "sk-x").price == Price(2.0, 0.5, 8.0)
    assert OpenAIModel("gpt-9", OPENAI, "sk-x").price is None
    assert OpenAIModel("gpt-4.1", OPENAI, "sk-x", service_tier="flex").price is None
    assert OpenAIModel("gpt-4.1", "http://127.0.0.1:9/v1").price is None
    assert EmbeddedModel().price is None


def test_a_price_that_cannot_be_calculated_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for prices in ({"sent": object()}, {"written": None}):
        with_data(monkeypatch, **prices)
        assert price_of(OPENAI, "gpt-4.1") is None


def test_without_the_extra_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    price_of.cache_clear()
    assert price_of(OPENAI, "gpt-4.1") is None


def test_reads_the_data_of_genai_prices() -> None:
    pytest.importorskip("genai_prices")
    price = price_of(OPENAI, "gpt-4.1-mini-2025-04-14")
    assert price is not None
    assert 0 < price.cached < price.input < price.output
    assert price_of("https://example.org/v1", "gpt-4.1-mini") is None


def test_alternatives_of_tokens_are_read_in_any_form() -> None:
    """In one body or in pieces, also of servers that leave them empty."""
    one = {"token": "yes", "logprob": 0.0, "top_logprobs": [{"token": "no", "logprob": -1.0}]}
    part = {"content": [one]}
    whole = {"index": 0, "message": {"content": "yes"}, "logprobs": part, "finish_reason": "stop"}
    piece = {"index": 0, "delta": {"content": "yes"}, "logprobs": part, "finish_reason": None}
    body = from_body(json.dumps({"model": "m", "choices": [whole]}))
    head = delta(role="assistant")
    _, streamed = read([stream(head, {"choices": [piece]}, delta(finish="stop"))])
    for reply in (body, streamed):
        [token] = reply.tokens
        assert (token.text, reply.text) == ("yes", "yes")
        assert dict(token.alternatives) == pytest.approx({"no": 0.36788, "yes": 1.0}, rel=1e-4)
    for empty in (None, {}, {"content": None}, {"content": []}, {"content": [None, {}]}, "none"):
        other = {**whole, "logprobs": empty}
        assert from_body(json.dumps({"model": "m", "choices": [other]})).text == "yes"
