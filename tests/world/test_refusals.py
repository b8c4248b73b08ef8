"""Whatever an endpoint refuses, in whatever words, a run ends as if that had never been there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from archytas_nb.agent import Agent
from archytas_nb.models import learnt
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.negotiate import MOST_REQUESTS
from archytas_nb.run import Run
from tests.world.quirks import FEATURES, WRAPPERS, Refuses
from tests.world.world import Endpoint, World, calls_then_answers

ANSWER = "It is 3."
GIVEN = {"größe": 2, "text": "abc"}
OWN = {"temperature": 0, "seed": 1, "parallel_tool_calls": False, "reasoning_effort": "low"}
IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
WORDS = (
    "Bad Request", "", "invalid_request_error", "Provider returned error", "Error 5021: see log",
    "{name} is not supported", "Unknown field {name}", "no {name} here", "Invalid value for {name}",
    "the tool 'measure' cannot be used", "function calling with streaming is unavailable",
    "max_tokens or temperature is wrong", "unexpected schema", "the prompt is malformed",
    "Das Modell unterstützt das nicht.", "不支持该参数", "1024", "Expected 8192, got 16384",
)  # fmt: skip
NOT_ALONE = frozenset({"tool_choice", "response_format"})
"""Features that the requests of these questions do not have, or not in each protocol."""
NAMES = sorted(FEATURES.keys() - NOT_ALONE)


def measure(
    größe: Annotated[int, Field(ge=0, multiple_of=2)],  # noqa: PLC2401 - as users write
    text: Annotated[str, Field(pattern="[a-z]+", max_length=20000)] | None = None,
) -> int:
    """Measure something.

    Args:
        größe: The size.
        text: The text.
    """
    RAN.append((größe, text))
    return größe


measure.__doc__ = (measure.__doc__ or "").replace("something.", "something. " + "Long. " * 300, 1)
RAN: list[Any] = []


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def asked(endpoint: Endpoint, *, images: bool = False) -> Run:
    """Ask a new agent one question."""
    RAN.clear()
    api = "responses" if endpoint.api == "responses" else "auto"
    model = endpoint.client(max_retries=1, api=api, **OWN)
    agent = Agent([measure], model, ask_user=False, namespace={})
    return agent.run("What is the size?", images=[IMAGE] if images else [])


def after_a_restart() -> None:
    """Nothing is known but what the file says."""
    capabilities_of.cache_clear()


quirks = st.lists(
    st.builds(
        lambda name, words, status, wrapper: Refuses(
            name, words.replace("{name}", name), status, wrapper
        ),
        st.sampled_from(NAMES),
        st.sampled_from(WORDS),
        st.sampled_from([400, 400, 422, 404, 415]),
        st.sampled_from(sorted(WRAPPERS)),
    ),
    max_size=5,
    unique_by=lambda quirk: quirk.feature,
)


def check(
    world: World, refused: list[Refuses], *, images: bool, api: str = "chat/completions"
) -> None:
    """The run ends well, with few requests, and later ones without any that is refused."""
    learnt.forget()
    endpoint = world.endpoint(calls_then_answers("measure", GIVEN, ANSWER), *refused, api=api)
    run = asked(endpoint, images=images)
    assert (run.status, run.answer) == ("answered", ANSWER), run.answer
    assert RAN == [(2, "abc")]
    first = endpoint.statuses.index(200)
    assert first <= MOST_REQUESTS
    assert endpoint.refused <= MOST_REQUESTS
    assert len(endpoint.statuses) - endpoint.refused <= 3  # a call, the answer, another protocol
    for begins in (lambda: None, after_a_restart):
        begins()
        before = endpoint.refused
        again = asked(endpoint, images=images)
        assert (again.answer, RAN) == (ANSWER, [(2, "abc")])
        assert endpoint.refused == before


@settings(max_examples=10)
@given(quirks, st.booleans())
def test_a_run_ends_as_if_what_is_refused_had_never_been_there(
    world: World, refused: list[Refuses], images: bool
) -> None:
    check(world, refused, images=images)


@pytest.mark.slow
@settings(max_examples=300)
@given(quirks, st.booleans())
def test_many_compositions_end_as_if_what_is_refused_had_never_been_there(
    world: World, refused: list[Refuses], images: bool
) -> None:
    check(world, refused, images=images)


@settings(max_examples=5)
@given(quirks, st.booleans())
def test_a_run_in_the_responses_api_ends_as_if_what_is_refused_had_never_been_there(
    world: World, refused: list[Refuses], images: bool
) -> None:
    check(world, refused, images=images, api="responses")


@pytest.mark.slow
@settings(max_examples=300)
@given(quirks, st.booleans())
def test_many_compositions_in_the_responses_api_end_as_if_they_had_never_been_there(
    world: World, refused: list[Refuses], images: bool
) -> None:
    check(world, refused, images=images, api="responses")
