"""Secrets that are known are masked in what a call returns, prints or raises, and not in values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.models.secrets import mask_results
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.fold import fold
from archytas_nb.trace.text import plain

SECRETS = st.one_of(
    st.from_regex(r"sk-[A-Za-z0-9_-]{20,60}", fullmatch=True),
    st.from_regex(r"[a-z]{4}[0-9]{2}[A-Za-z0-9+/\"', \\]{10,80}[a-z]", fullmatch=True),
)
WRAPPED: list[Callable[[str], Any]] = [
    str,
    lambda secret: f"key={secret}",
    lambda secret: {"token": secret, secret: 1},
    lambda secret: [{"a": {"b": (1, secret)}}] * 3,
    lambda secret: pd.DataFrame({"name": [secret, "x"], "n": [1, 2]}),
    lambda secret: pd.DataFrame({secret: [1, 2]}),
    lambda secret: pd.Series([1, 2], index=[secret, "x"], name=secret),
    lambda secret: {"frame": pd.DataFrame({"k": [f"{'x' * 30} {secret}"] * 50})},
    lambda secret: np.array([secret, "x"]),
    lambda secret: {secret},
    lambda secret: secret.encode(),
    lambda secret: "x" * 7_990 + secret * 3,
    lambda secret: pd.DataFrame({"long": ["y" * 40 + secret * 20] * 400}),
    lambda secret: [secret] * 2_000,
]


def ask(
    namespace: dict[str, Any], code: str, protocol: str = "react", **options: Any
) -> tuple[str, nb.Run[Any]]:
    """The model's view of code that it runs, and the run."""
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "x"), protocol=protocol)
    agent = nb.Agent(model=model, python="undoable", namespace=namespace, **options)
    run = agent.run("go")
    return "\n".join(str(each["content"]) for each in model.asked[-1].messages[2:]), run


def pieces(secret: str) -> list[str]:
    """The parts of a secret that tell most of it."""
    return [secret[: len(secret) * 2 // 3], secret[len(secret) // 3 :]]


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(secret=SECRETS, wrap=st.sampled_from(WRAPPED), data=st.data())
def test_a_known_secret_reaches_no_model(
    monkeypatch: pytest.MonkeyPatch, secret: str, wrap: Callable[[str], Any], data: st.DataObject
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", secret)
    cut = data.draw(st.integers(1, len(secret) - 1))
    code = data.draw(
        st.sampled_from(
            [
                "value",
                "print(value)",
                "raise ValueError(value)",
                "{'deep': [value]}",
                "raise KeyError(str(value)) from ValueError(str(value))",
                "print(value); value",
                f"print(secret[:{cut}], end=''); print(secret[{cut}:])",
                f"import sys\nsys.stdout.write(secret[:{cut}])\nsys.stdout.write(secret[{cut}:])",
            ]
        )
    )
    namespace = {"value": wrap(secret), "secret": secret}
    text, _ = ask(namespace, code)
    for each in pieces(secret):
        for written in (each, json.dumps(each)[1:-1], repr(each)[1:-1]):
            assert written not in text
    assert namespace["secret"] == secret


def test_a_secret_of_a_variable_is_masked_and_stays_in_the_kernel() -> None:
    key = "abc123-def456-ghi789"
    names = {"api_key": key, "frame": pd.DataFrame({"k": [key]})}
    text, run = ask(names, "print(api_key); frame.loc[0, 'k']")
    shown = plain(fold(run.question, run.events))
    assert text.count("{api_key}") == 2
    assert key not in text + shown
    assert run.calls[0][1].value == key


def test_what_is_left_of_a_cut_secret_is_masked() -> None:
    key = "abc123-def456-ghi789-jkl"
    mask = mask_results({"api_key": key})
    for text in (
        f"a {key[:9]}…",
        f"a {key[:20]}\n… 3,000 characters left out …\n{key[-8:]} b",
        f"{key[:12]}...",
        f"… {key[-7:]}",
    ):
        masked = mask(text)
        assert all(key[at : at + 6] not in masked for at in range(len(key) - 6)), masked
    for text in ("abc…", "abc12…x", "a… b … abc12"):  # too little to be it
        assert mask(text) == text
