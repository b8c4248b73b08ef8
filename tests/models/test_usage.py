"""What a reply cost, in the dialects of the servers that say so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Usage
from archytas_nb.models.usage import usage_in

SAID: dict[str, tuple[dict[str, Any], Usage | None]] = {
    "openai": (
        {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 5},
            }
        },
        Usage(1, 9, 5, 4),
    ),
    "vllm, without details": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": None}},
        Usage(1, 9, 0, 4),
    ),
    "deepseek": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 8}},
        Usage(1, 9, 8, 4),
    ),
    "moonshot": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 8}},
        Usage(1, 9, 8, 4),
    ),
    "anthropic behind a proxy": (
        {"usage": {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 8}},
        Usage(1, 9, 8, 4),
    ),
    "groq": (
        {"x_groq": {"id": "r", "usage": {"prompt_tokens": 9, "completion_tokens": 4}}},
        Usage(1, 9, 0, 4),
    ),
    "llama.cpp, timings alone": (
        {"timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 35, "prompt_ms": 30.9}},
        Usage(1, 237, 236, 35),
    ),
    "llama.cpp, both": (
        {
            "usage": {"prompt_tokens": 237, "completion_tokens": 35},
            "timings": {"cache_n": 236, "prompt_n": 1},
        },
        Usage(1, 237, 236, 35),
    ),
    "llama-cpp-python in a stream": ({"choices": []}, None),
    "nothing known": ({"usage": None, "timings": None, "x_groq": None}, None),
}


@pytest.mark.parametrize("server", SAID)
def test_what_a_server_says_is_read_and_nothing_is_made_up(server: str) -> None:
    said, usage = SAID[server]
    assert usage_in(said) == usage


VALUE = st.one_of(
    st.none(), st.integers(-5, 50), st.floats(0, 50), st.text(max_size=2), st.booleans()
)
FIELDS = ["prompt_tokens", "completion_tokens", "cached_tokens", "prompt_cache_hit_tokens"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUE), st.one_of(VALUE, st.just({"cached_tokens": 9}))
)
def test_whatever_is_said_counts_are_whole_and_the_cached_ones_part_of_the_input(
    said: Any, details: Any
) -> None:
    usage = usage_in({"usage": {**said, "prompt_tokens_details": details}})
    assert usage is not None
    counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert usage.cached_tokens <= usage.input_tokens
