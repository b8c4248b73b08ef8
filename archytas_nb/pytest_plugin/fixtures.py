"""The cassette of one plain test. It knows a test's place and options; the cassette does the rest."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.model import CassetteModel
from archytas_nb.models.discover import choose_model
from archytas_nb.pytest_plugin.environment import CASSETTE_MODES
from archytas_nb.pytest_plugin.notebooks import FAILED, PROPERTY
from archytas_nb.pytest_plugin.told import Told

_USED = pytest.StashKey[set[Path]]()
"""The cassettes that were used in this run."""


def cassette_model(request: pytest.FixtureRequest) -> Iterator[CassetteModel]:
    """Give a test its model, and see afterwards what became of the cassette."""
    node, config = request.node, request.config
    marker = node.get_closest_marker("agent_cassette")
    said: dict[str, Any] = dict(marker.kwargs) if marker else {}
    mode = config.option.agent_mode or "replay"
    named = said.get("path")  # which other tests may name too, run now or not
    path = request.path.parent / (named or cassette_of_test(request))
    used = config.stash.setdefault(_USED, set())
    again = mode == "record" and path in used  # what another test has just recorded stays
    used.add(path)
    name = (
        os.path.relpath(request.path, config.invocation_params.dir)
        + node.nodeid.partition(".py")[2]
    )
    cassette = Cassette(
        path,
        CASSETTE_MODES["update" if again else mode],  # type: ignore[arg-type]
        volatile=said.get("volatile"),
        rerun=f"pytest --agent-update {shlex.quote(name)}",
    )
    yield CassetteModel(cassette, lambda: choose_model(said.get("model")))
    if mode == "live":
        return
    failed = node.stash.get(FAILED, False)
    if mode == "update" and not failed and not named:
        cassette.prune()
    tally = cassette.tally
    usage = tally.usage
    told = Told(
        name, tally.replayed, tally.recorded, tally.missed, 0 if named else cassette.unused, tally.pruned,
        usage.input_tokens, usage.output_tokens,
    )  # fmt: skip
    node.user_properties.append((PROPERTY, told.as_text()))
    runs = config.pluginmanager.get_plugin("archytas_nb agent runs")
    if runs is not None and not failed:
        runs.judge(told)


def cassette_of_test(request: pytest.FixtureRequest) -> Path:
    """Where a test's cassette lies."""
    test = request.node.nodeid.partition("::")[2]
    legal = re.sub(r"[^\w.-]+", "-", test).strip("-")
    return request.path.parent / "cassettes" / request.path.stem / f"{legal}.jsonl"
