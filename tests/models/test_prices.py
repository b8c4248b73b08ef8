"""What tokens cost, and that nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Usage
from archytas_nb.models.embedded import EmbeddedModel
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.models.prices import _PRICES, Price, price_of

OPENAI = "https://api.openai.com/v1"


def test_cached_tokens_are_part_of_the_input_and_cost_less() -> None:
    price = Price(input=2.0, cached=0.5, output=8.0)
    assert price.cost(Usage(1, 1_000_000, 0, 0)) == 2.0
    assert price.cost(Usage(1, 1_000_000, 1_000_000, 0)) == 0.5
    assert price.cost(Usage(3, 400_000, 100_000, 50_000)) == pytest.approx(0.6 + 0.05 + 0.4)


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.sampled_from(sorted(_PRICES)))
def test_two_runs_cost_what_they_cost_together_and_never_less_than_nothing(
    one: int, two: int, cached: int, written: int, model: str
) -> None:
    price = _PRICES[model]
    first, second = Usage(1, one, min(cached, one), written), Usage(2, two, 0, written)
    assert price.cost(first + second) == pytest.approx(price.cost(first) + price.cost(second))
    assert price.cost(first) >= 0
    assert price.cost(Usage(1, 0, one, 0)) >= 0


@pytest.mark.parametrize("model", sorted(_PRICES))
def test_a_cached_token_is_never_dearer_and_a_written_one_never_cheaper(model: str) -> None:
    price = _PRICES[model]
    assert 0 < price.cached <= price.input < price.output


def test_a_dated_snapshot_costs_what_its_family_does_where_it_has_no_price_of_its_own() -> None:
    assert (
        price_of(OPENAI, "gpt-4.1-mini-2025-04-14")
        == price_of(OPENAI, "gpt-4.1-mini")
        == Price(0.4, 0.1, 1.6)
    )
    assert price_of(OPENAI, "gpt-4o-2024-05-13") != price_of(OPENAI, "gpt-4o")


@pytest.mark.parametrize(
    "model",
    ["gpt-4.1-mini-fast", "ft:gpt-4.1-mini:me::1", "gpt-4o-audio-preview", "gpt-5-2025", "gpt", ""],
)
def test_a_name_that_is_only_alike_has_no_price(model: str) -> None:
    assert price_of(OPENAI, model) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "https://api.openai.com.example.org/v1",
        "https://openrouter.ai/api/v1",
    ],
)
def test_another_endpoint_has_no_price_whatever_its_model_is_called(url: str) -> None:
    assert price_of(url, "gpt-4.1-mini") is None


def test_a_model_says_its_price_without_asking_anyone() -> None:
    assert OpenAIModel(None, OPENAI, "sk-x").price == price_of(OPENAI, "gpt-4.1-mini")
    assert OpenAIModel(None, "http://127.0.0.1:9/v1").price is None
    assert OpenAIModel("gpt-5", OPENAI, "sk-x", service_tier="flex").price is None
    assert EmbeddedModel().price is None
