"""What the servers in the field say when they refuse, and what is made of it."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models import faults

URL = "http://127.0.0.1:1/v1"
NOW = dt.datetime(2026, 5, 1, 12, 0, 0, tzinfo=dt.UTC)

TOO_LONG = [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
    "the request exceeds the available context size, try increasing it",
    "Requested tokens (5000) exceed context window of 2048",
    "prompt is too long: 200001 tokens > 200000 maximum",
    "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
    "Prompt contains 33001 tokens, too large for model with 32768 maximum context length",
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "Please reduce the length of the messages or completion.",
    "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
    "Input tokens exceed the configured limit of 272000 tokens.",
]
NO_TOOLS = [
    (400, "registry.example/library/gemma:latest does not support tools"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
    (404, "No endpoints found that support tool use."),
    (400, "`tool calling` is not supported with this model"),
    (400, "Unsupported parameter: 'tools' is not supported with this model."),
    (
        422,
        '{"detail":[{"type":"extra_forbidden","loc":["body","tools"],"msg":"Extra inputs are not permitted"}]}',
    ),
    (400, "Function calling is not enabled for models/gemma-3"),
]


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised(said: str) -> None:
    for status in (400, 500):
        assert faults.for_status(status, said, URL, "m").error.kind == "overflow"


@pytest.mark.parametrize(
    ("status", "said"),
    [(429, "Rate limit reached: reduce the length of the messages"), (400, "max_tokens is too large: 9000"),
     (400, "temperature must be below 2"), (401, "no key with this context size")],
)  # fmt: skip
def test_other_refusals_are_not_taken_for_a_long_conversation(status: int, said: str) -> None:
    assert faults.for_status(status, said, URL, "m").error.kind != "overflow"


@pytest.mark.parametrize(("status", "said"), NO_TOOLS)
def test_an_endpoint_without_tools_is_recognised_only_where_tools_were_sent(
    status: int, said: str
) -> None:
    fault = faults.for_status(status, said, URL, "m", asked_with_tools=True)
    assert fault.error.kind == "no_tools"
    assert "protocol='react'" in str(fault.error)
    assert not fault.passing
    assert faults.for_status(status, said, URL, "m").error.kind != "no_tools"


@pytest.mark.parametrize(
    "said",
    ["messages[3]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
     "An assistant message with 'tool_calls' must be followed by messages for each 'tool_call_id'.",
     "Invalid 'tools[0].function.name': string does not match pattern"],
)  # fmt: skip
def test_a_bad_history_or_a_bad_tool_does_not_mean_that_there_are_no_tools(said: str) -> None:
    assert faults.for_status(400, said, URL, "m", asked_with_tools=True).error.kind == "refused"


@pytest.mark.parametrize(
    ("status", "kind", "passing"),
    [(400, "refused", False), (401, "auth", False), (402, "rate_limit", False), (403, "auth", False),
     (404, "not_found", False), (405, "not_found", False),
     (408, "server", True), (409, "server", True), (413, "overflow", False), (422, "refused", False),
     (429, "rate_limit", True), (500, "server", True), (501, "server", False), (503, "server", True),
     (529, "server", True)],
)  # fmt: skip
def test_a_status_has_one_meaning_and_its_message_names_the_url(
    status: int, kind: str, passing: bool
) -> None:
    fault = faults.for_status(status, "so it is", URL, "m")
    assert (fault.error.kind, fault.passing, fault.error.status) == (kind, passing, status)
    assert repr(URL) in str(fault.error)
    assert "so it is" in str(fault.error)
    assert f"HTTP {status}" in str(fault.error)


def test_a_server_error_about_the_form_of_the_reply_is_a_refusal() -> None:
    assert faults.for_status(500, "failed to parse grammar", URL, "m").error.kind == "refused"


def test_a_key_that_is_rejected_with_another_status_is_a_matter_of_the_key() -> None:
    said = "API key not valid. Please pass a valid API key."
    assert faults.for_status(400, said, URL, "m").error.kind == "auth"
    assert (
        faults.for_status(400, "the key of a dict is not valid", URL, "m").error.kind == "refused"
    )


def test_an_account_without_money_is_not_waited_for() -> None:
    assert "see to the account's credit" in str(
        faults.for_status(402, "Insufficient Balance", URL, "m").error
    )


def test_the_page_of_a_proxy_is_shown_by_its_title() -> None:
    page = "<html><head><title>502 Bad\n Gateway</title></head><body>" + "x" * 5000
    assert "502 Bad Gateway." in str(faults.for_status(502, page, URL, "m").error)


@given(st.text(max_size=3000), st.sampled_from([400, 404, 429, 500]))
def test_whatever_a_server_says_the_message_is_one_line_of_bounded_length(
    said: str, status: int
) -> None:
    text = str(faults.for_status(status, said, URL, "m").error)
    assert len(text) < 800
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": format_datetime(NOW + dt.timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - dt.timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "Fri, 01 May 2026 12:00:30 -0000"}, 30.0),
    ],
)
def test_a_wait_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert faults.retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("names", "wanted", "said"),
    [
        ([], "m", "It serves no model at all: load one first."),
        (
            ["llama3.1:8b", "qwen3"],
            "llama3.1",
            "It serves 'llama3.1:8b', 'qwen3'. Did you mean 'llama3.1:8b'?",
        ),
        (["org/Model-7B"], "model-7b", "It serves 'org/Model-7B'. Did you mean 'org/Model-7B'?"),
        (["abc"], "zzz", "It serves 'abc'."),
        (["m"], "m", "It does list 'm': check that the base URL is the right one."),
    ],
)
def test_the_models_that_there_are_come_with_the_one_that_was_meant(
    names: list[str], wanted: str, said: str
) -> None:
    assert faults.serves(names, wanted) == said


def test_a_long_list_of_models_is_cut() -> None:
    said = faults.serves([f"model-{n:03}" for n in range(90)], "model-07")
    assert "and 78 more" in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("said", "move"),
    [
        ("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
         "Put the question differently."),
        ("You uploaded an unsupported image. Please make sure your image is below 20 MB in size.",
         "Leave the image out"),
    ],
)  # fmt: skip
def test_what_may_stay_in_the_conversation_and_be_refused_for_ever_can_be_forgotten(
    said: str, move: str
) -> None:
    fault = faults.for_status(400, said, URL, "m", asked_with_images=True)
    assert fault.error.kind == "refused"
    assert move in str(fault.error)
    assert "agent.undo() or %agent --undo" in str(fault.error)
