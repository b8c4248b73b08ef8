"""The estimate of tokens, held against what real tokenizers count (o200k_base, cl100k_base, Qwen 2.5)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.loop.messages import message_tokens, text_tokens

MEASURED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("kind", MEASURED)
def test_the_estimate_is_never_far_below_the_largest_count_and_never_twice_as_high(
    kind: str,
) -> None:
    estimate, counted = text_tokens(MEASURED[kind]["text"]), max(MEASURED[kind]["tokens"].values())
    assert 0.95 * counted <= estimate <= 2 * counted


@pytest.mark.parametrize("kind", ["json", "csv", "english", "chinese"])
def test_a_long_text_is_estimated_from_pieces_of_it(kind: str) -> None:
    once = MEASURED[kind]["text"] + "\n"
    times = 300_000 // len(once)
    assert text_tokens(once * times) == pytest.approx(text_tokens(once) * times, rel=0.05)


def test_a_text_of_ten_megabytes_is_estimated_at_once() -> None:
    began = time.monotonic()
    text_tokens('{"a": 1} ' * 1_200_000)
    assert time.monotonic() - began < 5


def test_every_text_counts() -> None:
    assert text_tokens("") == 1
    assert text_tokens("\ud83d") >= 1
    assert message_tokens([{"role": "user", "content": "a"}]) > 1
