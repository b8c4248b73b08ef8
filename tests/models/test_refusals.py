"""What servers say when they refuse, and the errors that are raised for it."""

from __future__ import annotations

import datetime as dt
import importlib
import json
from email.utils import format_datetime
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import AskModel
from archytas_nb.models import refusals
from archytas_nb.models.completion import ServerError, error_text, retry_after, status_of
from archytas_nb.models.refusals import EndpointErrors, RequestError, serves

TOO_LONG = {
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.",
        128000,
    ),
    "openai, by code": (
        "Your input is not acceptable. context_length_exceeded invalid_request_error",
        None,
    ),
    "openai, new": ("Input tokens exceed the configured limit of 272000 tokens.", None),
    "openai, one message": (
        "Invalid 'messages[3].content': string too long. Expected a string with maximum length 10485760.",
        None,
    ),
    "vllm": (
        "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=262145)",
        262144,
    ),
    "vllm, engine": (
        "The decoder prompt (length 5021) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.",
        4096,
    ),
    "vllm, parameter": (
        "You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens.",
        4096,
    ),
    "compatible, in brackets": (
        "Input length (265330) exceeds model's maximum context length (262144).",
        262144,
    ),
    "sglang": (
        "The input (400013 tokens) is longer than the model's context length (262144 tokens).",
        262144,
    ),
    "llama.cpp": ("the request exceeds the available context size, try increasing it", None),
    "llama.cpp, with sizes": (
        "the request exceeds the available context size. try increasing the context size or enable context shift exceed_context_size_error n_prompt_tokens=14429 n_ctx=8192",
        8192,
    ),
    "llama.cpp, later": (
        "request (5021 tokens) exceeds the available context size (4096 tokens)",
        4096,
    ),
    "llama.cpp, while it writes": ("Context size has been exceeded.", None),
    "llama-cpp-python": ("Requested tokens (5000) exceed context window of 2048", 2048),
    "llama-cpp-python, by code": (
        "This model's maximum context length is 2048 tokens. However, you requested 5100 tokens (5000 in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
        2048,
    ),
    "ollama": ("prompt too long; exceeded max context length by 123 tokens", None),
    "ollama, other": ("the input length exceeds the context length", None),
    "lm studio": (
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input",
        4096,
    ),
    "lm studio, other": (
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        None,
    ),
    "lm studio, while it writes": (
        "Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat.",
        4096,
    ),
    "anthropic": ("prompt is too long: 200001 tokens > 200000 maximum", 200000),
    "anthropic, with the reply": (
        "input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, decrease input length or `max_tokens` and try again",
        200000,
    ),
    "gemini": (
        "The input token count (40000) exceeds the maximum number of tokens allowed (32768).",
        None,
    ),
    "mistral": (
        "Prompt contains 33001 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        None,
    ),
    "tgi": (
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        4096,
    ),
    "tgi, other": ("`inputs` must have less than 1024 tokens. Given: 1500", None),
    "groq": ("Please reduce the length of the messages or completion.", None),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131072,
    ),
    "moonshot": ("Your request exceeded model token limit: 262144 (requested: 300001)", 262144),
    "openrouter": (
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        131040,
    ),
    "minimax": ("invalid params, context window exceeds limit (2013)", None),
    "cohere": ("too many tokens: total number of tokens in the prompt cannot exceed 4081", None),
    "bedrock": ("Input is too long for requested model.", None),
    "zhipu": ("Prompt exceeds max length", None),
    "dashscope": ("Range of input length should be [1, 30720]", None),
}

NOT_TOO_LONG = [
    "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.",
    "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
    "temperature must be below 2",
    "Unknown parameter: 'context_length'.",
    "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129.",
    "Invalid value for 'content': expected a string, got null.",
    "This model does not support image input",
    "Failed to load the model: not enough memory",
    "schema is too deeply nested",
    "ThrottlingException: Too many tokens, please wait before trying again. You are being throttled.",
    "Rate limit reached: too many tokens per minute",
    "invalid image: too large",
    "",
]


@pytest.mark.parametrize("server", TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised_with_its_bound(server: str) -> None:
    said, tokens = TOO_LONG[server]
    assert refusals.says("overflow", said)
    assert refusals.context_tokens(said) == tokens


@pytest.mark.parametrize("said", NOT_TOO_LONG)
def test_another_refusal_is_not_taken_for_a_conversation_that_is_too_long(said: str) -> None:
    assert not refusals.says("overflow", said)
    assert refusals.context_tokens(said) is None


def test_a_conversation_that_is_said_back_is_not_judged() -> None:
    echo = f"Unsupported message: {'x' * refusals.LOOKED_AT} the prompt is too long, it exceeds the context size"
    assert not refusals.says("overflow", echo)


NO_IMAGES = {
    "openai": "Invalid content type. image_url is only supported by certain models.",
    "llama.cpp": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "llama.cpp, older": "image input is not supported by this server",
    "llama.cpp, oldest": 'Failed to parse messages: Unsupported content part type: "image_url"; messages = [ { "role": "user", "content": [ { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo" } } ] } ]',
    "vllm": "Qwen/Qwen3-8B is not a multimodal model",
    "vllm, limit": "At most 0 image(s) may be provided in one prompt.",
    "ollama": "this model does not support image input (ref: b8bd630e)",
    "ollama, other": "Failed to create new sequence: this model is missing data required for image input",
    "ollama, older": "json: cannot unmarshal array into Go struct field Message.messages.content of type string",
    "lm studio": "Model does not support images. Please use a model that does.",
    "deepseek": "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 77",
    "groq": "messages[0].content must be a string",
    "pydantic": '[{"type":"string_type","loc":["body","messages",0,"content"],"msg":"Input should be a valid string"}]',
    "fireworks": "Vision is not supported for this model",
    "openrouter": "No endpoints found that support image input",
    "tinker": '{"loc":"body -> messages -> 0 -> content -> 0 -> type","msg":"Input should be \'text\'"}',
}
OTHER = [
    "Invalid image: the file could not be decoded",
    "The image format webp is not supported. Use PNG.",
    "Unsupported image type: image/tiff",
    "You uploaded an unsupported image. Please make sure your image is valid base64 and has one of the formats",
    "image size 9000x9000 is not supported: too large",
    "'url' field must be a base64 encoded image.",
    "temperature must be below 2",
    "This model's maximum context length is 4096 tokens.",
]


@pytest.mark.parametrize("server", NO_IMAGES)
def test_an_endpoint_without_eyes_is_recognised(server: str) -> None:
    assert refusals.most_images(NO_IMAGES[server]) == 0


@pytest.mark.parametrize("said", OTHER)
def test_one_bad_image_does_not_mean_that_there_are_no_eyes(said: str) -> None:
    assert refusals.most_images(said) is None


def test_a_bound_on_images_is_read() -> None:
    assert refusals.most_images("At most 1 image(s) may be provided in one request.") == 1


FIELDS = ["temperature", "seed", "top_k", "reasoning_effort"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "temperature"),
        ('[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":1}]', "seed"),
        ("Unrecognized request argument supplied: top_k", "top_k"),
        ("property 'reasoning_effort' is unsupported", "reasoning_effort"),
        ("temperature must be below 2", None),
        ("Unsupported parameter: 'my_temperature'", None),
        ("Unknown parameter: 'logprobs'.", None),
    ],
)  # fmt: skip
def test_a_field_that_is_refused_is_told_from_a_value_that_is(said: str, field: str | None) -> None:
    assert refusals.refused_field(said, FIELDS) == field


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ("This model supports at most 2048 completion tokens", 2048),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value", 8192),
        ("max_tokens must be less than or equal to 4096", 4096),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("max_tokens is wrong", None),
    ],
)
def test_the_highest_bound_on_a_reply_is_read(said: str, most: int | None) -> None:
    assert refusals.most_tokens(said) == most


@given(st.text(max_size=2000))
def test_whatever_is_said_can_be_judged(said: str) -> None:
    assert refusals.says("overflow", said) in (True, False)
    assert (refusals.context_tokens(said) or 1) > 0
    assert (refusals.most_images(said) or 0) >= 0
    refusals.says("no_tools", said)
    refusals.refused_field(said, FIELDS)
    refusals.most_tokens(said)
    refusals.prompt_tokens(said)


THOUGHTS = {
    "deepseek": "Missing `reasoning_content` field in the assistant message at message index 2. For more information, please refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls",
    "deepseek, later": "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "kimi": "thinking is enabled but reasoning_content is missing in assistant tool call message at index 3",
}
SIGNATURES = {
    "gemini": "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:add` , position 2.",
    "vertex": "Unable to submit request because function call `add` in the 2. content block is missing a `thought_signature`.",
}
NO_SYSTEM = {
    "gemma, by its template": "System role not supported",
    "mistral, by its template": "Only user and assistant roles are supported!",
    "openai": "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    "gemini": "Developer instruction is not enabled for models/gemma-3-27b-it",
}


def test_each_wish_for_a_history_in_another_form_is_understood_and_taken_for_no_other() -> None:
    judges = ["wants_thoughts", "wants_signatures", "no_system"]
    for at, said in enumerate((THOUGHTS, SIGNATURES, NO_SYSTEM)):
        for text in said.values():
            assert [refusals.says(judge, text) for judge in judges] == [
                n == at for n in range(3)
            ], text
            assert not refusals.says("no_tools", text)
            assert not refusals.says("overflow", text)
            assert not refusals.says("no_model", text)


@pytest.mark.parametrize(
    "said",
    [
        "Unknown parameter: 'messages[2].reasoning_content'.",
        "The reasoning_content is included in the input messages, which is not allowed.",
        "the system is not supported by a contract",
        "The system is overloaded",
    ],
)
def test_a_word_about_thoughts_or_systems_alone_is_no_wish(said: str) -> None:
    assert not refusals.says("wants_thoughts", said)
    assert not refusals.says("no_system", said)


URL = "http://127.0.0.1:1/v1"
NOW = dt.datetime(2026, 5, 1, 12, 0, 0, tzinfo=dt.UTC)

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOLS = AskModel(1, (), tools=({"type": "function"},))
PICTURES = AskModel(1, ({"role": "user", "content": [IMAGE]},))


def fault(status: int, said: str, ask: AskModel | None = None) -> RequestError:
    return EndpointErrors(URL).of_server(ServerError(said, status), "m", ask)


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


@pytest.mark.parametrize("server", ["openai", "llama.cpp", "tgi", "groq"])
def test_a_conversation_that_is_too_long_is_an_overflow(server: str) -> None:
    for status in (400, 500):
        assert fault(status, TOO_LONG[server][0]).error.kind == "overflow"


@pytest.mark.parametrize(
    ("status", "said"),
    [(429, "Rate limit reached: reduce the length of the messages"), (400, "max_tokens is too large: 9000"),
     (400, "temperature must be below 2"), (401, "no key with this context size")],
)  # fmt: skip
def test_other_refusals_are_not_taken_for_a_long_conversation(status: int, said: str) -> None:
    assert fault(status, said).error.kind != "overflow"


@pytest.mark.parametrize(("status", "said"), NO_TOOLS)
def test_an_endpoint_without_tools_is_recognised_only_where_tools_were_sent(
    status: int, said: str
) -> None:
    failed = fault(status, said, TOOLS)
    assert failed.error.kind == "no_tools"
    assert "protocol='react'" in str(failed.error)
    assert not failed.passing
    assert fault(status, said).error.kind != "no_tools"


@pytest.mark.parametrize(
    "said",
    ["messages[3]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
     "An assistant message with 'tool_calls' must be followed by messages for each 'tool_call_id'.",
     "Invalid 'tools[0].function.name': string does not match pattern"],
)  # fmt: skip
def test_a_bad_history_or_a_bad_tool_does_not_mean_that_there_are_no_tools(said: str) -> None:
    assert fault(400, said, TOOLS).error.kind == "refused"


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
    failed = fault(status, "so it is")
    assert (failed.error.kind, failed.passing, failed.error.status) == (kind, passing, status)
    assert repr(URL) in str(failed.error)
    assert "so it is" in str(failed.error)
    assert f"HTTP {status}" in str(failed.error)


def test_a_server_error_about_the_form_of_the_reply_is_a_refusal() -> None:
    assert fault(500, "failed to parse grammar").error.kind == "refused"


def test_a_key_that_is_rejected_with_another_status_is_a_matter_of_the_key() -> None:
    said = "API key not valid. Please pass a valid API key."
    assert fault(400, said).error.kind == "auth"
    assert fault(400, "the key of a dict is not valid").error.kind == "refused"


def test_an_account_without_money_is_not_waited_for() -> None:
    assert "see to the account's credit" in str(fault(402, "Insufficient Balance").error)


def test_the_page_of_a_proxy_is_shown_by_its_title() -> None:
    page = "<html><head><title>502 Bad\n Gateway</title></head><body>" + "x" * 5000
    assert "502 Bad Gateway." in str(fault(502, page).error)


@given(st.text(max_size=3000), st.sampled_from([400, 404, 429, 500]))
def test_whatever_a_server_says_the_message_is_one_line_of_bounded_length(
    said: str, status: int
) -> None:
    text = str(fault(status, said).error)
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
        ({"retry-after": f"Fri, 01 May {'9' * 30} 12:00:30 GMT"}, None),
        ({"retry-after": f"Fri, {2**33} May 2026 12:00:30 GMT"}, None),
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
    assert retry_after(headers, NOW) == seconds


def test_an_error_object_of_odd_values_is_read_all_the_same() -> None:
    assert error_text({"detail": [{"msg": 1, "loc": 5}, {"msg": "x", "loc": ["body", 0]}]}) == (
        "1 at 5; x at body.0",
        "",
    )
    assert status_of({"code": "9" * 5000}) == 500
    for place in ("http://[::1", "//[oops]:99/%", "http://ex\u2100ample.com/"):
        error = ServerError.of(302, "", {"location": place}, "http://127.0.0.1:9/v1")
        assert (error.status, error.to) == (302, "")


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
        (["m"], "m", "It serves 'm'."),
    ],
)
def test_the_models_that_there_are_come_with_the_one_that_was_meant(
    names: list[str], wanted: str, said: str
) -> None:
    assert serves(names, wanted) == said


def test_a_long_list_of_models_is_cut() -> None:
    said = serves([f"model-{n:03}" for n in range(90)], "model-07")
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
    failed = fault(400, said, PICTURES)
    assert failed.error.kind == "refused"
    assert move in str(failed.error)
    assert "agent.undo() or %agent --undo" in str(failed.error)


ERRORS: list[tuple[Any, str, str, int]] = [
    ({"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
     "too long", "context_length_exceeded invalid_request_error", 400),
    ({"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 14, "n_ctx": 8},
     "too long", "400 exceed_context_size_error n_prompt_tokens=14 n_ctx=8", 400),
    ({"object": "error", "message": "no", "type": "Bad", "code": "422"}, "no", "422 Bad", 422),
    ({"message": "Provider returned error", "code": 502, "metadata": {"raw": '{"error": "no eyes"}'}},
     'Provider returned error: no eyes', '502 {"error": "no eyes"}', 502),
    ({"message": "Provider returned error", "code": 429, "metadata": {"raw": "busy upstream"}},
     "Provider returned error: busy upstream", "429 busy upstream", 429),
    ({"message": "too much", "code": 429, "metadata": {"raw": "busy"}}, "too much", "429 busy", 429),
    ([{"error": {"code": 400, "message": "no such key", "status": "INVALID"}}], "no such key", "400", 500),
    ({"detail": "Not Found"}, "Not Found", "", 500),
    ({"detail": [{"loc": ["body", "x"], "msg": "Field required"}, {"loc": ["body", "y"], "msg": "Too long"}]},
     "Field required at body.x; Too long at body.y", "", 500),
    ({"detail": [1, None]}, "", "", 500),
    ("no memory", "no memory", "", 500),
    ({"message": None}, "", "", 500),
    ({"message": "no", "metadata": "x"}, "no", "", 500),
    (None, "", "", 500),
    ([1], "", "", 500),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "codes", "status"), ERRORS)
def test_message_codes_and_status_are_read(
    error: Any, message: str, codes: str, status: int
) -> None:
    assert error_text(error) == (message, codes)
    assert status_of(error) == status


# The transport's name depends on the version of the client.
_BASE = next(each for each in openai.DefaultHttpxClient.__mro__ if each.__name__ == "Client")
httpx: Any = importlib.import_module(_BASE.__module__.partition(".")[0])

AT, KEY = "http://127.0.0.1:1/v1", "sk-do-not-show-0123456789"
ASK = AskModel(1, ())
FAULTS = EndpointErrors(AT, KEY)
REQUEST = httpx.Request("POST", AT)


def refused(status: int, body: str) -> RequestError:
    error = ServerError.of(status, body, httpx.Headers(), AT)
    return FAULTS.of_client(
        because(openai.APIConnectionError(request=REQUEST), error), 300.0, "m", ASK
    )


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            because(openai.APITimeoutError(REQUEST), httpx.ConnectTimeout("")),
            "timeout",
            "within 10 s",
        ),
        (
            because(openai.APITimeoutError(REQUEST), httpx.ReadTimeout("")),
            "timeout",
            "sent nothing for 300 s",
        ),
        (
            because(openai.APIConnectionError(request=REQUEST), httpx.ConnectError(f"no {KEY}")),
            "unreachable",
            "no …",
        ),
        (
            because(openai.APIConnectionError(request=REQUEST), httpx.ReadError("reset")),
            "unreachable",
            "broke off",
        ),
        (openai.OpenAIError(f"odd {KEY}"), "server", "odd …"),
    ],
)
def test_what_the_client_raises_is_put_into_words(error: Exception, kind: str, said: str) -> None:
    fault = FAULTS.of_client(error, 300.0, "m", ASK)
    assert fault.error.kind == kind
    assert said in str(fault.error)
    assert repr(AT) in str(fault.error)
    assert KEY not in f"{fault!r}"


@pytest.mark.parametrize(
    "body",
    [
        {"message": f"key {KEY}", "code": KEY, "metadata": {"raw": f"<{KEY}>"}},
        f"bad {KEY}",
        None,
        [KEY],
    ],
)
def test_a_status_never_shows_the_key_that_the_server_says_back(body: object) -> None:
    fault = refused(400, json.dumps({"error": body}))
    assert fault.error.status == 400
    assert KEY not in f"{fault!r} {fault.error} {fault.refusal}"


@pytest.mark.parametrize(
    "body", ["", "<html>", "[" * 100_000, '{"error": {"message": "half', "9" * 5000, "null"]
)
def test_a_body_that_cannot_be_read_does_not_hide_the_status(body: str) -> None:
    fault = refused(503, body)
    assert (fault.error.status, fault.error.kind, fault.passing) == (503, "server", True)


def test_an_error_in_the_place_of_a_reply_is_judged_with_its_codes() -> None:
    error = ServerError(f"no {KEY}", 400, f"context_length_exceeded {KEY}")
    fault = FAULTS.of_server(error, "m", ASK)
    assert fault.error.kind == "overflow"
    assert KEY not in f"{fault!r} {fault.refusal}"
