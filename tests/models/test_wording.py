"""What servers in the field say when they refuse, word by word, and what it is taken for."""

# ruff: noqa: E501 - what a server says is kept in one piece
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models import wording

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
    assert wording.is_overflow(said)
    assert wording.context_tokens(said) == tokens


@pytest.mark.parametrize("said", NOT_TOO_LONG)
def test_another_refusal_is_not_taken_for_a_conversation_that_is_too_long(said: str) -> None:
    assert not wording.is_overflow(said)
    assert wording.context_tokens(said) is None


def test_a_conversation_that_is_said_back_is_not_judged() -> None:
    echo = f"Unsupported message: {'x' * wording.LOOKED_AT} the prompt is too long, it exceeds the context size"
    assert not wording.is_overflow(echo)


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
    assert wording.most_images(NO_IMAGES[server]) == 0


@pytest.mark.parametrize("said", OTHER)
def test_one_bad_image_does_not_mean_that_there_are_no_eyes(said: str) -> None:
    assert wording.most_images(said) is None


def test_a_bound_on_images_is_read() -> None:
    assert wording.most_images("At most 1 image(s) may be provided in one request.") == 1


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
    assert wording.refused_field(said, FIELDS) == field


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
    assert wording.most_tokens(said) == most


@given(st.text(max_size=2000))
def test_whatever_is_said_can_be_judged(said: str) -> None:
    assert wording.is_overflow(said) in (True, False)
    assert (wording.context_tokens(said) or 1) > 0
    assert (wording.most_images(said) or 0) >= 0
    wording.takes_no_tools(said)
    wording.refused_field(said, FIELDS)
    wording.most_tokens(said)
    wording.prompt_tokens(said)


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
    judges = [wording.wants_thoughts, wording.wants_signatures, wording.takes_no_system]
    for at, said in enumerate((THOUGHTS, SIGNATURES, NO_SYSTEM)):
        for text in said.values():
            assert [judge(text) for judge in judges] == [n == at for n in range(3)], text
            assert not wording.takes_no_tools(text)
            assert not wording.is_overflow(text)
            assert not wording.knows_no_model(text)


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
    assert not wording.wants_thoughts(said)
    assert not wording.takes_no_system(said)
