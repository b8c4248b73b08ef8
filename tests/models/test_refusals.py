"""The errors for the texts with which servers reject requests."""

from __future__ import annotations

import importlib
import json
from typing import Any

import openai
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel
from archytas_nb.models import refusal_table, refusals
from archytas_nb.models.completion import ServerError
from archytas_nb.models.refusal_table import CASES, WORDS, Refusal, Sign, case_of
from archytas_nb.models.refusals import EndpointErrors, models_hint

# Texts of current releases, with the tokens of the context where the text names them.
TOO_LONG: list[tuple[str, int | None]] = [
    ("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", 128000),
    ("Your input is not acceptable. context_length_exceeded invalid_request_error", None),
    ("Input tokens exceed the configured limit of 272000 tokens.", None),
    ("This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens. (parameter=input_tokens)", 262144),
    ("The decoder prompt (length 5021) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller", 4096),
    ("You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens.", 4096),
    ("the request exceeds the available context size. try increasing the context size exceed_context_size_error n_prompt_tokens=14429 n_ctx=8192", 8192),
    ("request (5021 tokens) exceeds the available context size (4096 tokens)", 4096),
    ("Context size has been exceeded.", None),
    ("prompt too long; exceeded max context length by 123 tokens", None),
    ("the input length exceeds the context length", None),
    ("Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", 4096),
    ("Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support mid-generation context overflow.", 4096),
    ("prompt is too long: 200001 tokens > 200000 maximum", 200000),
    ("input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, decrease input length", 200000),
    ("The input token count (40000) exceeds the maximum number of tokens allowed (32768).", None),
    ("Prompt contains 33001 tokens and 0 draft tokens, too large for model with 32768 maximum context length", None),
    ("Please reduce the length of the messages or completion.", None),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072),
    ("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131040),
]  # fmt: skip
NOT_TOO_LONG = [
    "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.",
    "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
    "temperature must be below 2",
    "Unknown parameter: 'context_length'.",
    "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024.",
    "This model does not support image input",
    "Failed to load the model: not enough memory",
    "ThrottlingException: Too many tokens, please wait before trying again. You are being throttled.",
    "",
]
NO_IMAGES = [
    "Invalid content type. image_url is only supported by certain models.",
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "Qwen/Qwen3-8B is not a multimodal model",
    "At most 0 image(s) may be provided in one prompt.",
    "this model does not support image input (ref: b8bd630e)",
    "Failed to create new sequence: this model is missing data required for image input",
    "Model does not support images. Please use a model that does.",
    "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text`",
    "messages[0].content must be a string",
    "No endpoints found that support image input",
]
OTHER_IMAGES = [
    "Invalid image: the file could not be decoded",
    "The image format webp is not supported. Use PNG.",
    "You uploaded an unsupported image. Please make sure your image is valid base64",
    "image size 9000x9000 is not supported: too large",
    "temperature must be below 2",
]


def test_recognises_a_conversation_that_is_too_long_and_its_limit() -> None:
    for text, tokens in TOO_LONG:
        assert (refusal_table.matches("overflow", text), refusals.context_tokens(text)) == (
            True,
            tokens,
        ), text
    for text in NOT_TOO_LONG:
        assert not refusal_table.matches("overflow", text), text
    echo = f"Unsupported message: {'x' * refusal_table.SEARCHED_CHARS} the prompt is too long"
    assert not refusal_table.matches("overflow", echo), "what is sent back is not judged"


def test_recognises_an_endpoint_that_takes_no_images_or_few() -> None:
    for text in NO_IMAGES:
        assert refusals.image_limit(text) == 0, text
    for text in OTHER_IMAGES:
        assert refusals.image_limit(text) is None, text
    assert refusals.image_limit("At most 1 image(s) may be provided in one request.") == 1


MOST_TOKENS = [
    ("This model supports at most 2048 completion tokens", 2048),
    ("`max_tokens` must be less than or equal to `8192`, the maximum value", 8192),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
    ("max_tokens is wrong", None),
]


def test_reads_the_highest_limit_of_a_reply() -> None:
    for text, most in MOST_TOKENS:
        assert refusals.token_limit(text) == most, text


@given(st.text(max_size=2000))
def test_any_text_can_be_matched(text: str) -> None:
    assert refusal_table.matches("overflow", text) in (True, False)
    assert (refusals.context_tokens(text) or 1) > 0
    assert (refusals.image_limit(text) or 0) >= 0
    refusals.token_limit(text)
    refusals.prompt_tokens(text)


HISTORIES = {
    "wants_thoughts": [
        "Missing `reasoning_content` field in the assistant message at message index 2.",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 3",
    ],
    "wants_signatures": [
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly",
    ],
}


def test_recognises_required_forms_of_the_history() -> None:
    for wish, texts in HISTORIES.items():
        for text in texts:
            assert [name for name in HISTORIES if refusal_table.matches(name, text)] == [wish], text
            assert not any(
                refusal_table.matches(name, text) for name in ("overflow", "no_model")
            ), text
    for text in ("Unknown parameter: 'messages[2].reasoning_content'.", "The system is overloaded"):
        assert not any(refusal_table.matches(name, text) for name in HISTORIES), text


def example_of(sign: Sign) -> Refusal:
    """A response that has nothing but a sign: its last status, the example of its words."""
    statuses = [status for status in range(400, 600) if status in (sign.statuses or {400})]
    text = "so it is" if sign.words is None else WORDS[sign.words].example
    return Refusal(statuses[-1], text, 7.0 if sign.waits else None, sign.has_image or False)


def test_each_row_is_reached_by_its_example() -> None:
    for case in CASES:
        for sign in case.signs:
            example = example_of(sign)
            assert case_of(example) is case, sign
            failed = fault(example.status, example.raw, PICTURES if example.has_image else None)
            assert failed.kind == case.kind, sign


def test_each_example_has_the_words_of_its_row_alone() -> None:
    for name, words in WORDS.items():
        others = {each for each in WORDS if refusal_table.matches(each, words.example)} - {name}
        # Other words about images are in the texts which say that there can be none.
        assert others <= {"image", "no_images"}, name
        assert refusal_table.matches(name, words.example), name
        assert words.server, name


@given(st.integers(100, 999), st.text(max_size=2000), st.booleans(), st.none() | st.floats(0, 900))
def test_each_response_has_a_meaning(
    status: int, text: str, image: bool, wait: float | None
) -> None:
    assert case_of(Refusal(status, text, wait, image)) in CASES


URL = "http://127.0.0.1:1/v1"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PICTURES = AskModel(1, ({"role": "user", "content": [IMAGE]},))


def fault(status: int, text: str, ask: AskModel | None = None) -> ModelError:
    return EndpointErrors(URL).of_server(ServerError(text, status), "m", ask)


STATUSES = [
    (400, "refused", False), (401, "auth", False), (402, "rate_limit", True),
    (403, "auth", False), (404, "not_found", False), (405, "not_found", False),
    (408, "server", True), (409, "server", True), (413, "overflow", False),
    (422, "refused", False), (429, "rate_limit", True), (500, "server", True),
    (501, "server", False), (503, "server", True), (529, "server", True),
]  # fmt: skip
TEXTS = [
    (400, "max_tokens is too large: 9000", "refused"),
    (401, "no key with this context size", "auth"),
    (429, "Rate limit reached: reduce the length of the messages", "rate_limit"),
    (500, TOO_LONG[7][0], "overflow"),
    (500, "failed to parse grammar", "server"),
    (400, "API key not valid. Please pass a valid API key.", "auth"),
    (400, "the key of a dict is not valid", "refused"),
    (400, "The model `gpt-9` does not exist", "not_found"),
]


def test_each_status_and_text_has_one_kind_of_error_that_names_the_url() -> None:
    for status, kind, passing in STATUSES:
        failed = fault(status, "so it is")
        assert (failed.kind, failed.passing, failed.status) == (kind, passing, status)
        assert all(each in str(failed) for each in (repr(URL), "so it is", f"HTTP {status}"))
    for status, text, kind in TEXTS:
        found = fault(status, text).kind
        assert found == kind or (kind == "not_found" and found == "refused"), text
    assert "Check the account's credit" in str(fault(402, "Insufficient Balance"))
    page = "<html><head><title>502 Bad\n Gateway</title></head><body>" + "x" * 5000
    assert "502 Bad Gateway." in str(fault(502, page))


def test_says_how_to_remove_a_question_that_would_be_refused_again() -> None:
    for text, move in [
        (
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "Rephrase the question.",
        ),
        (
            "You uploaded an unsupported image. Please make sure your image is below 20 MB in size.",
            "Omit the image",
        ),
    ]:
        failed = fault(400, text, PICTURES)
        assert failed.kind == "refused"
        assert move in str(failed)
        assert "agent.forget_last() or %agent_undo" in str(failed)


@given(st.text(max_size=3000), st.sampled_from([400, 404, 429, 500]))
def test_a_message_is_one_line_of_limited_length(text: str, status: int) -> None:
    message = str(fault(status, text))
    assert len(message) < 800
    assert len(message.splitlines()) == 1


def test_reads_a_wait_in_seconds_or_milliseconds() -> None:
    for headers, seconds in (
        ({}, None), ({"retry-after": ""}, None), ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None), ({"retry-after": "nan"}, None), ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5), ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
    ):  # fmt: skip
        assert ServerError.from_response(429, "", headers, URL).wait == seconds, headers  # type: ignore[arg-type]


ERRORS: list[tuple[Any, str, str, int]] = [
    ({"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
     "too long", "context_length_exceeded invalid_request_error", 500),
    ({"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 14, "n_ctx": 8},
     "too long", "400 exceed_context_size_error n_prompt_tokens=14 n_ctx=8", 400),
    ({"object": "error", "message": "no", "type": "Bad", "code": "422"}, "no", "422 Bad", 422),
    ({"message": "Provider returned error", "code": 502, "metadata": {"raw": '{"error": "no eyes"}'}},
     'Provider returned error: no eyes', '502 {"error": "no eyes"}', 502),
    ({"message": "too much", "code": 429, "metadata": {"raw": "busy"}}, "too much", "429 busy", 429),
    ([{"error": {"code": 400, "message": "no such key", "status": "INVALID"}}], "no such key", "400", 400),
    ({"detail": "Not Found"}, "Not Found", "", 500),
    ("no memory", "no memory", "", 500),
    ({"message": "no", "metadata": "x", "code": "9" * 5000}, "no", "9" * 500, 500),
    (None, "", "", 500), ([1], "", "", 500),
]  # fmt: skip


def test_reads_message_codes_and_status_of_an_error() -> None:
    for error, message, codes, status in ERRORS:
        read = ServerError.from_object(error, "")
        assert (read.message, read.codes, read.status) == (message, codes, status), error
    for place in ("http://[::1", "//[oops]:99/%", "http://ex\u2100ample.com/"):
        error = ServerError.from_response(302, "", {"location": place}, "http://127.0.0.1:9/v1")
        assert (error.status, error.to) == (302, "")


def test_lists_available_models_with_the_most_similar_first() -> None:
    for names, wanted, text in (
        ([], "m", "It serves no models: load one first."),
        (["llama3.1:8b", "qwen3"], "llama3.1", "It serves 'llama3.1:8b', 'qwen3'. Did you mean 'llama3.1:8b'?"),
        (["org/Model-7B"], "model-7b", "It serves 'org/Model-7B'. Did you mean 'org/Model-7B'?"),
        (["abc"], "zzz", "It serves 'abc'."),
    ):  # fmt: skip
        assert models_hint(names, wanted) == text
    text = models_hint([f"model-{n:03}" for n in range(90)], "model-07")
    assert "and 78 more" in text
    assert len(text) < 400


# The transport's name depends on the version of the client.
_BASE = next(each for each in openai.DefaultHttpxClient.__mro__ if each.__name__ == "Client")
httpx: Any = importlib.import_module(_BASE.__module__.partition(".")[0])

AT, KEY = "http://127.0.0.1:1/v1", "sk-do-not-show-0123456789"
ASK = AskModel(1, ())
FAULTS = EndpointErrors(AT, KEY)
REQUEST = httpx.Request("POST", AT)


def refused(status: int, body: str) -> ModelError:
    error = ServerError.from_response(status, body, httpx.Headers(), AT)
    return FAULTS.of_client(
        because(openai.APIConnectionError(request=REQUEST), error), 300.0, "m", ASK
    )


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_translates_exceptions_of_the_client() -> None:
    for error, kind, said in [
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
            "disconnected",
        ),
        (openai.OpenAIError(f"odd {KEY}"), "server", "odd …"),
    ]:
        fault = FAULTS.of_client(error, 300.0, "m", ASK)
        assert fault.kind == kind
        assert said in str(fault)
        assert repr(AT) in str(fault)
        assert KEY not in f"{fault!r}"


def test_a_key_echoed_by_the_server_is_hidden() -> None:
    for body in [
        {"message": f"key {KEY}", "code": KEY, "metadata": {"raw": f"<{KEY}>"}},
        f"bad {KEY}",
        None,
        [KEY],
    ]:
        fault = refused(400, json.dumps({"error": body}))
        assert fault.status == 400
        assert KEY not in f"{fault!r} {fault}"


def test_a_body_that_cannot_be_read_does_not_hide_the_status() -> None:
    for body in ["", "<html>", "[" * 100_000, '{"error": {"message": "half', "9" * 5000, "null"]:
        fault = refused(503, body)
        assert (fault.status, fault.kind, fault.passing) == (503, "server", True)


def test_an_error_in_the_place_of_a_reply_is_judged_with_its_codes() -> None:
    error = ServerError(f"no {KEY}", 400, f"context_length_exceeded {KEY}")
    fault = FAULTS.of_server(error, "m", ASK)
    assert fault.kind == "overflow"
    assert KEY not in f"{fault!r} {fault}"
