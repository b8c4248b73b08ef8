"""How long to wait, in each way in which endpoints tell it."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models.waits import MAX_WAIT_SECONDS, wait_told

SECONDS = st.decimals(min_value="0.1", max_value="59", places=1).map(float)
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo"}
HEADERS: dict[str, Any] = {
    "seconds": lambda s: {"retry-after": f"{s}"},
    "milliseconds": lambda s: {"retry-after-ms": f"{s * 1000:.0f}", "retry-after": "99"},
    "used up": lambda s: {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": f"{s}s"},
}
BODIES: dict[str, Any] = {
    "RetryInfo": lambda s: [{"error": {"details": [{**RETRY_INFO, "retryDelay": f"{s}s"}]}}],
    "retry_after": lambda s: {"retry_after": s},
    "retry_after_ms": lambda s: {"error": {"retry_after_ms": s * 1000}},
    "retryAfterMs": lambda s: {"error": {"metadata": {"retryAfterMs": s * 1000}}},
    "headers in the body": lambda s: {
        "error": {
            "metadata": {
                "headers": {
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": f"{(time.time() + s) * 1000:.0f}",
                }
            }
        }
    },
}
TEXTS: dict[str, Any] = {
    "in s": lambda s: f"Please try again in {s}s.",
    "in ms": lambda s: f"try again in {s * 1000:.0f}ms",
    "in capitals": lambda s: f"PLEASE RETRY AFTER {s} SECONDS",
    "in minutes": lambda s: f"Limit reached. Try again in {s / 60:.9f} minutes.",
    "in parts": lambda s: f"Try again in 0m{s}s.",
}


@given(SECONDS)
def test_each_way_of_telling_a_wait_is_read(seconds: float) -> None:
    found = {name: wait_told(made(seconds), None, "") for name, made in HEADERS.items()}
    for name, made in BODIES.items():
        found[name] = wait_told({}, made(seconds), json.dumps(made(seconds)))
    for name, made in TEXTS.items():
        found[name] = wait_told({}, None, made(seconds))
    for name, wait in found.items():
        assert wait == pytest.approx(seconds, abs=1.0 if "headers" in name else 0.02), name


def test_a_date_is_a_wait_until_then() -> None:
    date = formatdate(time.time() + 30, usegmt=True)
    assert 25 <= (wait_told({"retry-after": date}, None, "") or 0) <= 30
    assert wait_told({"retry-after": formatdate(0, usegmt=True)}, None, "") == 0


def test_the_longest_one_counts_but_no_period_of_a_limit() -> None:
    assert wait_told({"retry-after": "3"}, {"retry_after": 9}, "try again in 5s") == 9
    period = "Limit of 500 requests in 1 day reached. Try again in 20 s."
    assert wait_told({}, None, period) == 20
    assert (wait_told({}, None, "Try again in 2 hours.") or 0) > MAX_WAIT_SECONDS


@given(st.text(max_size=200), st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_any_text_can_be_read(text: str, fields: dict[str, str]) -> None:
    assert (wait_told(fields, fields, text) or 0) >= 0


def test_what_is_no_wait_is_none() -> None:
    for text in ("", "in 3 attempts", "after 5 retries", "within 3 seconds", "-3"):
        assert wait_told({"retry-after": "soon"}, None, text) is None, text
    assert wait_told({"x-ratelimit-reset-tokens": "6m0s"}, None, "") is None  # some are left
    deep: Any = 1
    for _ in range(100):
        deep = {"retry": [deep]}
    assert wait_told({}, deep, "") is None
