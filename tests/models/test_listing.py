"""What a model's name alone says of it."""

from __future__ import annotations

import pytest

from archytas_nb.models.listing import Served, is_small
from archytas_nb.models.openai_chat import OpenAIModel

SMALL = [
    "qwen2.5-coder:1.5b",
    "qwen2.5-coder-1.5b-instruct-q4_k_m",
    "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
    "google/gemma-3-4b-it",
    "smollm2:360m",
]
NOT_SMALL = [
    "qwen3:8b",
    "qwen3-30b-a3b",
    "mixtral-8x7b-instruct",
    "Qwen2.5-7B-Instruct-1M",
    "llama-3.1-70b-4bit",
    "gpt-5-nano",
    "moonshot-v1-128k",
    "phi-4-mini",
    "",
]


@pytest.mark.parametrize("name", SMALL)
def test_a_model_of_few_parameters_is_a_small_one(name: str) -> None:
    assert is_small(name)
    assert OpenAIModel(name, "http://127.0.0.1:9/v1").is_small


@pytest.mark.parametrize("name", NOT_SMALL)
def test_a_model_of_many_or_of_no_known_number_of_parameters_is_not(name: str) -> None:
    assert not is_small(name)
    assert not OpenAIModel(name or None, "http://127.0.0.1:9/v1").is_small


def test_what_does_not_chat_says_so_in_its_name() -> None:
    assert [Served(name).chats for name in ("nomic-embed-text", "qwen3:8b")] == [False, True]
