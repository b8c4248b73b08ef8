"""The model's knowledge of the notebook, also where a long conversation is shortened."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.loop.conversation import ContextWindow, sent_with
from archytas_nb.loop.descriptions import described_in, recalled, without_versions, written
from archytas_nb.loop.events import Answered, CallOutcome, ToolCall
from archytas_nb.loop.record import Context, Described, Exchange, StepRecord
from tests.loop.cards import wire
from tests.loop.test_messages import Holds

NAMES = st.lists(st.sampled_from([f"name_{letter}" for letter in "abcdefgh"]), unique=True)


def context(lines: list[str], cards: list[str], mentioned: list[str], turn: int) -> Context:
    """A context that tells of these names, each differently in each question."""
    told = {name: Described("variable", f"line of {turn}", mark=f"{turn}") for name in lines}
    for name in cards:
        card = f"{name}: card of {turn}\n  column: int64"
        told[name] = Described("variable", f"line of {turn}", card=card, mark=f"{turn}")
    text = written(told)
    return Context(text, tuple(told), told, (*cards, *mentioned))


def step(question: int, number: int, words: int) -> StepRecord:
    call = ToolCall(f"q{question:02}s{number:02}c01", "look", {"a": number})
    return StepRecord("", (call,), (CallOutcome("done", "word " * words, call_id=call.id),))


TURNS = st.lists(st.tuples(NAMES, NAMES, NAMES, st.integers(0, 3)), min_size=1, max_size=7)


@given(TURNS, st.integers(900, 3000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_what_is_left_out_is_told_again_below_the_question(
    turns: list[tuple[list[str], list[str], list[str], int]], tokens: int, summarises: bool
) -> None:
    past: list[Exchange] = []
    form = wire("native")
    for turn, (lines, cards, asked, steps) in enumerate(turns, 1):
        # As it is before a question: what is known is what is still sent.
        known = described_in(sent_with(past, ""))
        new = [name for name in lines if name not in known and name not in cards]
        carded = {name for name, each in known.items() if each.card}
        mentioned = [name for name in asked if name in carded]  # others get a card
        exchange = Exchange(f"Question {turn}?", context=context(new, cards, mentioned, turn))
        window = ContextWindow(form, past, exchange, Holds(tokens), 100, summarises=summarises)
        for number in range(steps + 1):
            before = window.messages
            compaction = exchange.compaction
            window.compact()
            sent = "\n".join(str(each["content"]) for each in window.messages)
            everything = described_in([*past, exchange])
            for name, each in everything.items():
                assert name in re.findall(r"\w+", sent), name
                if each.card and name in (*cards, *mentioned):
                    assert each.card in sent
            if exchange.compaction == compaction:
                assert window.messages[: len(before)] == before
            exchange.steps.append(step(turn, number, 60))
            window.add(exchange.steps[-1])
        exchange.ending = Answered("It is so.")
        past.append(exchange)


@given(NAMES, NAMES, NAMES)
def test_only_what_is_not_sent_any_more_is_told_again(
    first: list[str], second: list[str], now: list[str]
) -> None:
    one = Exchange("1?", context=context(first, [], [], 1))
    two = Exchange("2?", context=context(second, [], [], 2))
    found = recalled(context(now, [], [], 3), [one], [two])
    assert set(found.described) == {*now, *first} - (set(second) - set(now))
    assert described_in([two, Exchange("3?", context=found)]).keys() == {*first, *second, *now}
    assert recalled(found, [one], [two]) == found


def test_a_card_is_told_again_only_where_the_question_names_it() -> None:
    left_out = [Exchange("1?", context=context(["name_b"], ["name_a"], [], 1))]
    named = recalled(context([], [], ["name_a"], 2), left_out, [])
    assert "name_a: card of 1" in named.text
    other = recalled(context([], [], [], 2), left_out, [])
    assert "card of 1" not in other.text
    assert "name_b, name_a: line of 1" in other.text


def test_a_newer_line_ends_a_card() -> None:
    card = Exchange("1?", context=context([], ["name_a"], [], 1))
    line = Exchange("2?", context=context(["name_a"], [], [], 2))
    assert described_in([card])["name_a"].card
    assert not described_in([card, line])["name_a"].card
    assert described_in([line, card])["name_a"].card


def test_numbered_names_stand_together_and_versions_are_no_part_of_what_is_compared() -> None:
    def told(**kinds: Any) -> dict[str, Described]:
        return {name: Described(*each) for name, each in kinds.items()}

    described = told(
        a1=("variable", "int"),
        a2=("variable", "int"),
        a3=("variable", "int"),
        df=("variable", "DataFrame 2 × 1", "x"),
        f=("function", "f(x)"),
        np=("library", "numpy 2.4.6 (np)"),
        day=("date", "2026-11-28, Python 3.13.1"),
        old=("gone",),
    )
    text = written(described)
    assert text.splitlines() == [
        "df: DataFrame 2 × 1: x",
        "a1 … a3: int",
        "Functions of the notebook: f(x)",
        "Date and versions: 2026-11-28, Python 3.13.1, numpy 2.4.6 (np)",
        "No longer there: old",
    ]
    described |= told(day=("date", "2027-01-01, Python 3.14.0"), np=("library", "numpy 3 (np)"))
    assert without_versions(text) == without_versions(written(described))
    del described["day"]
    assert "\nImported since: numpy 3 (np)\n" in written(described)
    assert written({}) == ""
