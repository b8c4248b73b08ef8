"""A conversation with several questions: replacement, length, and messages."""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Generator
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, CallOutcomes, Delta, ModelReply, Notice, Usage
from archytas_nb.testing import ScriptedModel
from tests.strict import fault_of, is_prefix

PROTOCOLS: tuple[Literal["react", "native"], ...] = ("react", "native")
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()


def look(a: int) -> str:
    """Look at something.

    Args:
        a: Where
    """
    return f"{a} " * 300


def table(a: int) -> list[int]:
    """Make a long list.

    Args:
        a: Where it begins
    """
    return list(range(a, a + 400))


class Summarising(ScriptedModel):
    """Summarises what it is asked to summarise, beside its script."""

    context_tokens: int | None = None

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        if ask.about.startswith("summarising"):
            self.asked.append(ask)
            text = str(ask.messages[0]["content"])
            return ModelReply(f"S{zlib.crc32(text.encode())}", usage=Usage(requests=1))
        return (yield from super().complete(ask))


def agent(protocol: str, *script: Any, context: int | None = None, **options: Any) -> nb.Agent:
    model = Summarising(*script, protocol=protocol)  # type: ignore[arg-type]
    model.context_tokens = context
    return nb.Agent([look, table], model, **{"namespace": {}, **options})


def more(it: nb.Agent, *script: Any) -> None:
    it.model._remaining += script  # type: ignore[attr-defined]


def asked(it: nb.Agent, since: int = 0) -> list[AskModel]:
    return it.model.asked[since:]  # type: ignore[attr-defined, no-any-return]


# ── origins ───────────────────────────────────────────────────────────────────────────────────────

cells = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(cells, st.data(), st.sampled_from(PROTOCOLS), st.sampled_from([None, 3000]))
def test_rerunning_a_cell_sends_the_same_requests(
    cells: list[list[int]], data: st.DataObject, protocol: str, context: int | None
) -> None:
    it = agent(protocol, context=context)
    first: list[list[AskModel]] = []
    for n, looks in enumerate(cells):
        first.append(run_cell(it, n, looks))
    again = data.draw(st.lists(st.integers(0, len(cells) - 1), min_size=1, max_size=3))
    earlier: set[int] = set()
    for n in again:
        before = [exchange.question for exchange in it.exchanges]
        asks = run_cell(it, n, cells[n])
        # With a short context it is the same until a cell before it was run again.
        if context is None or all(n <= other for other in earlier):
            assert asks == first[n]
        earlier.add(n)
        assert [exchange.question for exchange in it.exchanges] == before
    assert fault_of(it.messages) == ""


def run_cell(it: nb.Agent, n: int, looks: list[int]) -> list[AskModel]:
    more(it, *[("look", {"a": a}) for a in looks], ("final_answer", f"Answer {n}."))
    since = len(asked(it))
    it.run(f"Question {n}?", origin=f"cell {n}")
    return asked(it, since)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_exchange_is_replaced_in_place_and_sees_only_earlier_ones(
    protocol: str,
) -> None:
    it = agent(protocol, *[("final_answer", str(n)) for n in range(4)])
    for question, origin in (("A?", "a"), ("B?", "b"), ("C?", "c"), ("B!", "b")):
        it.run(question, origin=origin)
    assert [exchange.question for exchange in it.exchanges] == ["A?", "B!", "C?"]
    users = [m["content"] for m in asked(it)[-1].messages if m["role"] == "user"]
    assert [each.partition("\n")[0] for each in users] == ["A?", "B!"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_old_exchange_stays_if_the_new_one_has_no_result(protocol: str) -> None:
    it = agent(protocol, ("final_answer", "1"), ("final_answer", "2"), ModelError("gone"))
    it.run("A?", origin="a")
    it.run("B?", origin="b")
    with pytest.raises(ModelError):
        it.run("A again?", origin="a")
    assert [exchange.question for exchange in it.exchanges] == ["A?", "B?"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_interrupted_exchange_with_steps_replaces_the_old_one(protocol: str) -> None:
    it = agent(protocol, ("final_answer", "1"), ("look", {"a": 1}), KeyboardInterrupt())
    it.run("A?", origin="a")
    with pytest.raises(nb.RunInterrupted):
        it.run("A again?", origin="a")
    assert [exchange.question for exchange in it.exchanges] == ["A again?"]


def test_questions_without_an_origin_never_replace_each_other() -> None:
    it = agent("react", ("final_answer", "1"), ("final_answer", "2"))
    it.run("A?")
    it.run("A?")
    assert len(it.exchanges) == 2


# ── undo, reset, preview ──────────────────────────────────────────────────────────────────────────


@settings(max_examples=30, deadline=None)
@given(cells, st.sampled_from(PROTOCOLS))
def test_undo_restores_the_previous_conversation(cells: list[list[int]], protocol: str) -> None:
    it = agent(protocol)
    states = [it.messages]
    for n, looks in enumerate(cells):
        run_cell(it, n, looks)
        states.append(it.messages)
    for n in reversed(range(len(cells))):
        assert it.messages == states[n + 1]
        assert it.forget_last() == f"Question {n}?"
        assert it.messages == states[n]
    assert it.forget_last() is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_undo_removes_an_unfinished_run(protocol: str) -> None:
    it = agent(protocol, ("final_answer", "1"), ("look", {"a": 1}))
    it.run("One?")
    stream = it.stream("Two?")
    while not isinstance(next(stream), CallOutcomes):
        pass
    assert it.forget_last() == "Two?"
    assert [exchange.question for exchange in it.exchanges] == ["One?"]
    with pytest.raises(nb.RunInterrupted):
        next(stream)


@settings(max_examples=40, deadline=None)
@given(
    cells,
    st.sampled_from(PROTOCOLS),
    st.sampled_from([None, 900]),
    st.sampled_from([None, int, list[str]]),
)
def test_a_preview_equals_the_request_and_changes_nothing(
    cells: list[list[int]], protocol: str, context: int | None, kind: Any
) -> None:
    it = agent(protocol, context=context)
    for n, looks in enumerate(cells):
        run_cell(it, n, looks)
    names, messages = dict(it._setup.namespace or {}), it.messages
    wanted: dict[str, Any] = {"output_type": kind, "images": [PNG], "origin": "cell 0"}
    shown = it.preview("What next?", **wanted)
    assert (dict(it._setup.namespace or {}), it.messages) == (names, messages)
    more(it, ("final_answer", {None: "x", int: 3, list[str]: ["a"]}[kind]))
    it.run("What next?", **wanted)
    assert shown == asked(it)[-1]


def test_a_preview_rejects_what_a_run_rejects() -> None:
    with pytest.raises(ValueError, match="empty"):
        agent("react").preview(" ")


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_endless_conversation_stays_within_the_models_context(
    protocol: str,
) -> None:
    it = agent(protocol, context=6000)
    notices = 0
    for n in range(25):
        more(it, ("look", {"a": n}), ("final_answer", f"It is {n}."))
        run = it.run(f"Question {n}?")
        notices += sum(
            isinstance(event, Notice) and event.kind == "compaction" for event in run.events
        )
    assert 1 <= notices <= 12
    asks = [each for each in asked(it) if not each.is_side_request]
    assert max(len(str(ask.messages)) for ask in asks) < 6000 * 4
    assert all(fault_of(ask.messages) == "" for ask in asks)
    broken = sum(not is_prefix(a.messages, b.messages) for a, b in itertools.pairwise(asks))
    assert broken == notices, "only a compaction costs the prompt cache"
    assert len(it.exchanges) == 25
    assert fault_of(it.messages) == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_with_a_longer_context_is_sent_more(protocol: str) -> None:
    it = agent(
        protocol, *[("look", {"a": n}) for n in range(4)], ModelError("long", kind="overflow")
    )
    more(it, ("final_answer", "x"))
    it.run("Look!")
    assert it.exchanges[-1].compaction.max_tokens is not None
    it.model = ScriptedModel(("final_answer", "y"), protocol=protocol)  # type: ignore[arg-type]
    assert it.exchanges[-1].compaction.max_tokens is None
    assert it.run("And now?").answer == "y"


class Other(Summarising):
    """A model with another name and a context of its own."""

    name = "other"

    def __init__(self, *replies: Any, protocol: Any, context_tokens: int | None = None) -> None:
        super().__init__(*replies, protocol=protocol)
        self.context_tokens = context_tokens


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_for_one_question_leaves_what_was_learned_of_the_agents_own_model(
    protocol: str,
) -> None:
    it = agent(
        protocol, *[("look", {"a": n}) for n in range(4)], ModelError("long", kind="overflow")
    )
    more(it, *[("final_answer", "x")] * 2)
    it.run("Look!")
    learned = it.exchanges[-1].compaction
    assert learned.max_tokens is not None
    other = Other(("final_answer", "y"), protocol=protocol)
    assert it.run("And now?", model=other).answer == "y"
    assert it.exchanges[0].compaction == learned
    it.run("And then?")
    assert it.exchanges[-1].compaction.max_tokens == learned.max_tokens
    sent = [len(str(ask.messages)) for ask in (*asked(it)[-1:], *other.asked)]
    assert sent[0] < sent[1], "the other model is sent all of the conversation"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_short_context_of_a_model_for_one_question_shortens_nothing_for_the_own_model(
    protocol: str,
) -> None:
    it = agent(protocol, *[("look", {"a": n}) for n in range(4)], *[("final_answer", "x")] * 2)
    it.run("Look!")
    short = Other(("final_answer", "y"), protocol=protocol, context_tokens=2500)
    it.run("And now?", model=short)
    assert it.exchanges[-1].compaction.dropped_steps or it.exchanges[-1].compaction.dropped
    it.run("And then?")
    assert "0 0 0" in str(asked(it)[-1].messages)
    assert it.exchanges[-1].compaction == it.exchanges[0].compaction


# ── images ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_image_of_a_question_is_sent_with_it_and_stays_in_the_conversation(
    protocol: str,
) -> None:
    it = agent(protocol, ("final_answer", "A dot."), ("final_answer", "Yes."))
    it.run("What is this?", images=[base64.b64decode(PNG)])
    it.run("Sure?")
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    for ask in asked(it):
        [text, image] = ask.messages[1]["content"]
        assert text["text"].startswith("What is this?\n")
        assert image == part
    assert it.messages[-2] == {"role": "user", "content": "Sure?"}
    assert fault_of(it.messages) == ""


def test_one_image_needs_no_list() -> None:
    ask = agent("react").preview("What is this?", images=PNG)
    assert len(ask.messages[1]["content"]) == 2


def test_rejects_an_unreadable_image_before_asking_the_model() -> None:
    it = agent("react")
    with pytest.raises(ValueError, match=r"is not an image; expected PNG or JPEG"):
        it.run("What is this?", images=["nonsense"])
    assert asked(it) == []


def test_a_single_figure_needs_no_list() -> None:
    class Figure:
        def _repr_png_(self) -> bytes:
            return base64.b64decode(PNG)

    [image] = agent("react").preview("What is this?", images=Figure()).messages[1]["content"][1:]
    assert image["image_url"]["url"].endswith(PNG)
