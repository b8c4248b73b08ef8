"""The pytest plugin: replays and records the cassettes of notebooks and tests.

pytest imports this file in every run if the package is installed, so it imports only pytest. The
other modules are imported when an option or a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from archytas_nb.cassettes.switch import CassetteModel
    from archytas_nb.testing import ScriptedModel

_OPTIONS = {
    "replay": "replay the cassettes of notebooks and tests; fail on unrecorded requests",
    "update": "replay what is recorded, record what is missing, remove what is no longer used",
    "record": "record all cassettes again, and save the outputs of the notebooks",
    "check": "replay the notebooks, and fail if an answer no longer holds at the end",
    "live": "ignore the cassettes: call the model, and do not compare notebook outputs",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; the last one given takes precedence."""
    group = parser.getgroup("archytas_nb", "notebooks and tests with an agent")
    for mode, text in _OPTIONS.items():
        group.addoption(
            f"--agent-{mode}", action="store_const", const=mode, dest="agent_mode", help=text
        )
    group.addoption(
        "--agent-strict",
        action="store_true",
        help="also fail if a recorded exchange was not used",
    )
    group.addoption(
        "--agent-min-pass",
        metavar="SHARE",
        type=_share,
        default=1.0,
        help="the share of runs, from 0 to 1, that the fixture agent_min_pass demands (default: 1)",
    )


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(text)  # which argparse turns into a message
    return share


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, where an option was given, the hooks."""
    config.addinivalue_line(
        "markers",
        "agent_cassette(path=None, model=None, volatile=()): the file of the fixture "
        "agent_cassette, the model to record, and what may differ between runs",
    )
    if config.option.agent_mode is not None:
        from archytas_nb.pytest_plugin.runs import PLUGIN, AgentRuns

        config.pluginmanager.register(AgentRuns(config), PLUGIN)


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Make scripted models: ``scripted_model(("add", {"a": 1}), ("final_answer", "3"))``.

    The arguments are those of `archytas_nb.testing.ScriptedModel`. The test fails if a reply is
    left over.
    """
    from archytas_nb.testing import ScriptedModel

    made: list[ScriptedModel] = []

    def make(*replies: Any, **keywords: Any) -> ScriptedModel:
        made.append(ScriptedModel(*replies, **keywords))
        return made[-1]

    yield make
    for model in made:
        model.check()


@pytest.fixture
def agent_min_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The value of ``--agent-min-pass``: ``assert agent.evaluate(…).rate >= agent_min_pass``.

    The test asks as the other options say: with ``--agent-live`` the file of answers is ignored,
    with ``--agent-replay`` all answers must be there.
    """
    option = request.config.option
    if option.agent_mode is not None:
        from archytas_nb.cassettes.switch import MODE
        from archytas_nb.pytest_plugin.runs import MODES

        monkeypatch.setenv(MODE, MODES[option.agent_mode])
    return float(option.agent_min_pass)


@pytest.fixture
def agent_cassette(request: pytest.FixtureRequest) -> Iterator[CassetteModel]:
    """A model that answers from ``cassettes/TEST_FILE/TEST_NAME.jsonl``: ``Agent(model=…)``.

    It replays without an option; ``pytest --agent-update`` records what is missing.
    """
    from archytas_nb.pytest_plugin.runs import cassette_model

    yield from cassette_model(request)
