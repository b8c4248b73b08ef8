"""Everything about a question is decided once: a dry run shows the request that a run sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel
from archytas_nb.testing import ScriptedModel

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Flock:
    """A value that JSON does not have, so that it is kept in a variable."""


def catch() -> Flock:
    """Catch a flock."""
    return Flock()


def spend(amount: int) -> str:
    """Spend an amount.

    Args:
        amount: How much
    """
    return f"spent {amount}"


def _agent(protocol: Any, values: Any, context: Any, *, small: bool) -> nb.Agent:
    replies: list[Any] = [("catch", {}), ("final_answer", "Done.")] * 3
    if protocol == "program":
        replies = ["flock = catch()\nanswer('Done.')"] * 3
    model = ScriptedModel(*replies)
    model.is_small = small  # type: ignore[attr-defined]
    names = {"birds": [1, 2, 3], "limit": 5}
    return nb.Agent(
        [catch, spend], model, protocol, namespace=names, context=context, values=values
    )


def _sent_first(agent: nb.Agent, question: str, origin: str) -> AskModel:
    """The first request of a run that is not aside."""
    run = agent.run(question, origin=origin)
    asked = (each for each in run.events if isinstance(each, AskModel) and not each.is_side_request)
    return replace(next(asked), seconds=None)


@pytest.mark.parametrize("protocol", ["react", "native", "program"])
@pytest.mark.parametrize("values", ["all", "scalars", "none", "strict"])
@pytest.mark.parametrize("context", ["auto", "none", "all"])
@pytest.mark.parametrize("small", [False, True])
def test_a_dry_run_shows_the_first_request(
    protocol: str, values: str, context: str, small: bool
) -> None:
    agent = _agent(protocol, values, context, small=small)
    for question, origin in (("Catch the birds.", "a"), ("And now?", "b"), ("And now?", "b")):
        before = (list(agent.exchanges), dict(agent._setup.variables))
        shown = replace(agent.preview(question, origin=origin), seconds=None)
        assert (list(agent.exchanges), dict(agent._setup.variables)) == before
        assert _sent_first(agent, question, origin) == shown


def test_a_dry_run_shows_no_result_that_the_question_replaces() -> None:
    agent = _agent("native", "all", "all", small=False)
    agent.run("Catch the birds.", origin="a")
    stored = set(agent._setup.variables) - {"birds", "limit"}
    assert stored
    text = str(agent.preview("Catch the birds.", origin="a").messages)
    assert not any(name in text for name in stored)
    assert stored <= set(agent._setup.variables)


@pytest.mark.parametrize("asked", [{"images": [IMAGE]}, {"output_type": int}])
def test_a_dry_run_refuses_what_a_run_refuses(asked: dict[str, Any]) -> None:
    agent = _agent("native", "none", "auto", small=False)
    with pytest.raises(ConfigurationError) as shown:
        agent.preview("What is it?", **asked)
    with pytest.raises(ConfigurationError) as run:
        agent.run("What is it?", **asked)
    assert str(shown.value) == str(run.value)
