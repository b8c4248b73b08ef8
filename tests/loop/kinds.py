"""What every corruption is made of, and the list of all of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.loop.truths import Call, Truth

Made = tuple[str, tuple[Call, ...]] | tuple[str, tuple[Call, ...], bool] | None
Corruption = Callable[[Truth, Truth, random.Random], Made]
KINDS: dict[str, Corruption] = {}


def kind(make: Corruption) -> Corruption:
    KINDS[make.__name__.strip("_")] = make
    return make


def envelope(truth: Truth, rng: random.Random, given: Any = None) -> dict[str, Any]:
    thought = rng.choice(
        ["I need this first.", "Let's see: the user wants it.", "", "Step 1, then step 2."]
    )
    return {
        "thought": thought,
        "tool": truth.name,
        "tool_input": truth.input if given is None else given,
    }


def with_text(
    truth: Truth, rng: random.Random, make: Callable[[str], str]
) -> dict[str, Any] | None:
    """The input with one of its strings changed; None where it has none."""
    keys = [key for key, value in truth.input.items() if isinstance(value, str)]
    if not keys:
        return None
    key = rng.choice(keys)
    return {**truth.input, key: make(truth.input[key])}


def as_json(truth: Truth, rng: random.Random) -> str:
    return json.dumps(envelope(truth, rng), ensure_ascii=rng.random() < 0.5)


def meant(truth: Truth) -> tuple[Call, ...]:
    return ((truth.name, truth.input),)
