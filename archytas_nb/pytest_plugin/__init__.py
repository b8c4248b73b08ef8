"""The pytest plugin: notebooks and tests with an agent answer from the cassettes beside them.

pytest imports this file in every run, wherever the package is installed, so it imports nothing but
pytest; the other files of this folder are imported where an option or a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from archytas_nb.cassettes.switch import CassetteModel
    from archytas_nb.testing import ScriptedModel

_OPTIONS = {
    "replay": "answer from the cassettes beside notebooks and tests; fail on what was not recorded",
    "update": "replay what is recorded, record what is missing, drop what is not asked any more",
    "record": "record the cassettes anew, and save the outputs of the notebooks",
    "live": "leave the cassettes alone: ask the model, and do not compare the outputs of notebooks",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; the last of them counts."""
    group = parser.getgroup("archytas_nb", "notebooks and tests with an agent")
    for mode, text in _OPTIONS.items():
        group.addoption(
            f"--agent-{mode}", action="store_const", const=mode, dest="agent_mode", help=text
        )
    group.addoption(
        "--agent-strict",
        action="store_true",
        help="fail also where a recorded exchange was not asked for",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, where an option was given, the hooks."""
    config.addinivalue_line(
        "markers",
        "agent_cassette(path=None, model=None, volatile=()): the file of the fixture "
        "agent_cassette, the model that is recorded, and what may differ from run to run",
    )
    if config.option.agent_mode is not None:
        from archytas_nb.pytest_plugin.runs import PLUGIN, AgentRuns

        config.pluginmanager.register(AgentRuns(config), PLUGIN)


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Make scripted models: ``scripted_model(("add", {"a": 1}), ("final_answer", "3"))``.

    The arguments are those of `archytas_nb.testing.ScriptedModel`. The test fails where a reply is
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
def agent_cassette(request: pytest.FixtureRequest) -> Iterator[CassetteModel]:
    """A model that answers from ``cassettes/TEST_FILE/TEST_NAME.jsonl``: ``Agent(model=…)``.

    It replays without an option; ``pytest --agent-update`` records what is missing.
    """
    from archytas_nb.pytest_plugin.runs import cassette_model

    yield from cassette_model(request)
