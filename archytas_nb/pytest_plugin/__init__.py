"""The pytest plugin: notebooks and tests with an agent answer from the cassettes that lie beside them.

    --agent-replay    answer from the cassettes; what was not recorded fails
    --agent-update    replay what is recorded, record what is missing, drop what is not asked any more
    --agent-record    record everything anew
    --agent-live      leave the cassettes alone and ask the model

pytest loads this file in every run of everybody who has the package, so it may import nothing but pytest: what it
does for a run with one of the options is in the other files of this room, which are imported then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from archytas_nb.cassettes.model import CassetteModel
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
    """Where an option was given, bring what carries it out."""
    config.addinivalue_line(
        "markers",
        "agent_cassette(path=None, model=None, volatile=()): which file the fixture agent_cassette uses, which "
        "model is recorded, and what may differ from run to run",
    )
    if config.option.agent_mode is not None:
        from archytas_nb.pytest_plugin.notebooks import AgentRuns

        config.pluginmanager.register(AgentRuns(config), "archytas_nb agent runs")


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Make models that answer by script: ``scripted_model(("add", {"a": 1, "b": 2}), ("final_answer", "3"))``.

    The arguments are those of `archytas_nb.testing.ScriptedModel`. When the test has ended, each reply must have
    been asked for.
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
    """A model that answers from ``cassettes/TEST_FILE/TEST_NAME.jsonl`` beside the test: ``Agent(model=…)``.

    It replays where no option says otherwise; ``pytest --agent-update`` records what is missing.
    """
    from archytas_nb.pytest_plugin.fixtures import cassette_model

    yield from cassette_model(request)
