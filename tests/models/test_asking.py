"""How a request is asked until a reply comes, by hand: no server, no clock that moves."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.models import asking
from archytas_nb.models.asking import Asking, Faulted, GivenUp, adapting, persistently
from archytas_nb.models.capabilities import Capabilities, body_of
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.faults import Fault

ASK = AskModel(1, ({"role": "user", "content": "hello"},), max_tokens=100, thinking_tokens=800)
AT = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr(asking, "time", SimpleNamespace(sleep=waits.append))
    return waits


def fault(
    kind: Any = "server", said: str = "", *, passing: bool = True, wait: float | None = None
) -> Faulted:
    return Faulted(
        Fault(ModelError("it broke. Mend it.", kind=kind, status=400), passing, wait, said)
    )


def plays(*outcomes: Faulted | ModelReply) -> tuple[list[Any], Any]:
    """What the forms were, and something that asks once and plays these outcomes in order."""
    seen: list[Any] = []
    left = iter(outcomes)

    def once(form: Any = None) -> Asking:
        seen.append(form and replace(form))  # as it was then: what is learned changes it
        outcome = next(left)
        yield Delta("text", "so ")
        if isinstance(outcome, Faulted):
            raise outcome
        return outcome

    return seen, once


def heard(flow: Asking) -> tuple[list[str], ModelReply]:
    said: list[str] = []
    while True:
        try:
            event = next(flow)
        except StopIteration as ended:
            return said, ended.value
        if isinstance(event, Notice):
            said.append(event.text)


@given(failures=st.integers(0, 6), retries=st.integers(0, 4))
def test_a_passing_failure_is_tried_again_so_often_and_no_more(failures: int, retries: int) -> None:
    seen, once = plays(*[fault() for _ in range(failures)], ModelReply("fine"))
    if failures <= retries:
        said, reply = heard(persistently(once, retries, Deadline(), AT))
        assert (reply.text, len(said), len(seen)) == ("fine", failures, failures + 1)
    else:
        with pytest.raises(GivenUp) as caught:
            heard(persistently(once, retries, Deadline(), AT))
        assert (caught.value.tried, len(seen)) == (retries, retries + 1)


def test_waits_grow_and_the_servers_wish_counts_before_them(slept: list[float]) -> None:
    _, once = plays(fault(), fault(), fault(wait=7.0), fault(), ModelReply())
    heard(persistently(once, 9, Deadline(), AT))
    assert slept == [0.5, 1.0, 7.0, 4.0]


def test_a_lasting_failure_or_one_with_too_long_a_wait_is_not_tried_again(
    slept: list[float],
) -> None:
    for bad in (fault(passing=False), fault(wait=61.0)):
        _, once = plays(bad)
        with pytest.raises(GivenUp):
            heard(persistently(once, 9, Deadline(), AT))
    assert slept == []


def test_a_wait_beyond_the_deadline_is_the_deadline_and_names_what_had_gone_wrong(
    slept: list[float],
) -> None:
    _, once = plays(fault(wait=30.0))
    with pytest.raises(GivenUp) as caught:
        heard(persistently(once, 9, Deadline(20.0), AT))
    assert caught.value.error.kind == "deadline"
    assert "within the 20 s that were left after it broke" in str(caught.value.error)
    assert slept == []


def test_what_is_taken_is_learned_with_a_reply_and_not_before() -> None:
    can = Capabilities()
    refusal = fault("refused", "Unknown parameter: 'stream_options'")
    seen, once = plays(refusal, ModelReply("fine"))
    assert heard(adapting(once, ASK, can, stream=True))[1].text == "fine"
    assert [form.stream_options for form in seen] == [True, False]
    assert can.stream_options is False

    can = Capabilities()
    _, once = plays(refusal, fault("server"))
    with pytest.raises(Faulted):
        heard(adapting(once, ASK, can, stream=True))
    assert can == Capabilities()


THOUGHT = [
    ModelReply("", reasoning="hm, " * 50, finish="length", usage=Usage(1, 10, 0, 100)),
    ModelReply("", finish="length", usage=Usage(1, 10, 0, 100)),  # where the thoughts are not sent
    ModelReply("<think>hm, hm", finish="length", usage=Usage(1, 10, 0, 100)),
]


@pytest.mark.parametrize("thought", THOUGHT)
def test_a_model_that_thought_its_reply_away_is_given_more_room_from_then_on(
    thought: ModelReply,
) -> None:
    can = Capabilities()
    _, once = plays(thought, ModelReply("fine", usage=Usage(1, 10, 0, 500)))
    said, reply = heard(adapting(once, ASK, can, stream=True))
    assert said == ["the model thought until its reply was cut off: asking again, with more room"]
    assert (reply.text, reply.usage) == ("fine", Usage(2, 20, 0, 600))
    assert can.thinks
    assert body_of(ASK, can, {}, stream=True)["max_tokens"] == 800
    _, once = plays(thought)
    assert (
        heard(adapting(once, ASK, can, stream=True))[1].finish == "length"
    )  # there is an end to it


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply("half an ans", finish="length"),
        ModelReply("<think>a</think>b", finish="length"),
        ModelReply(""),
    ],
)
def test_a_reply_that_was_cut_off_in_its_words_is_left_to_the_loop(reply: ModelReply) -> None:
    _, once = plays(reply)
    assert heard(adapting(once, ASK, Capabilities(), stream=True)) == ([], reply)


def test_an_interrupt_in_a_wait_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "time", SimpleNamespace(sleep=interrupt))
    _, once = plays(fault(), ModelReply())
    with pytest.raises(KeyboardInterrupt):
        heard(persistently(once, 3, Deadline(), AT))
