"""The questions of the benchmark of live proofs, and its reading of the outputs."""

from __future__ import annotations

import pytest

from benchmarks.success.proofs import Proved, live


@pytest.mark.parametrize(
    ("cell", "options", "expected"),
    [
        ("%load_ext archytas_nb\n%agent_cassette a/b.jsonl", "", "%load_ext archytas_nb\n"),
        ("run = %agent --new Which?", "", "run = %agent --new Which?"),
        ("%agent --new Which?", "--max-steps 9", "%agent --max-steps 9 --new Which?"),
        ("%agent --model script --python unwatched Clean.", "", "%agent --python unwatched Clean."),
        ("%agent_code", "--new", "%agent_code"),
    ],
)
def test_a_cell_asks_the_model_that_agent_takes(cell: str, options: str, expected: str) -> None:
    assert live(cell, options) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("x = f()\n\nverified: 1 of 1 values equal, no model asked", "proved"),
        ("x = f()\n\nnot verified: 1 of 2 values equal; x was 1 and is 2", "not proved"),
        ("# Hello\n\nnothing to verify: the code computes no value", "no values"),
        ("UsageError: no questions have been asked", "not proved"),
    ],
)
def test_a_proof_is_read_from_what_is_shown(shown: str, expected: str) -> None:
    assert Proved("%agent Which?", shown, 1.0).result == expected
