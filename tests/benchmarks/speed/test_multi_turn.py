"""The benchmark of replayed conversations runs, and says what it measured."""

from __future__ import annotations

import re

import pytest


def test_it_replays_the_conversations_in_both_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bfcl_eval")
    from benchmarks.speed.multi_turn import main

    assert main(["--few"]) == 0
    said = capsys.readouterr().out
    assert re.findall(r"^(react|native): ", said, re.MULTILINE) == ["react", "native"]
