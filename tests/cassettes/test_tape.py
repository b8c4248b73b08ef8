"""Exchanges are found once each, in order; the nearest one is the one that a person would point at."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.cassettes.tape import Tape
from archytas_nb.cassettes.values import Asked, Exchanged
from archytas_nb.loop.events import ModelReply
from tests.cassettes.tapes import ask, exchanged, request


@given(
    st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=14)
)
def test_each_exchange_is_given_out_once_and_equal_ones_in_order(
    recorded: list[str], asked: list[str]
) -> None:
    tape = Tape(exchanged(each, reply=f"{each}{n}") for n, each in enumerate(recorded))
    left = {
        name: [f"{name}{n}" for n, each in enumerate(recorded) if each == name] for name in "abcd"
    }
    for name in asked:
        found = tape.take(request(ask(name)).key)
        wanted = left[name].pop(0) if left[name] else None
        assert (found.reply.text if found else None) == wanted  # type: ignore[union-attr]
    assert len(tape.unused) == sum(map(len, left.values()))


@given(
    st.lists(st.sampled_from("abc"), max_size=8),
    st.sets(st.integers(0, 7)),
    st.lists(st.sampled_from("xy"), max_size=4),
)
def test_what_was_used_stays_used_when_others_record(
    recorded: list[str], used: set[int], others: list[str]
) -> None:
    entries = [exchanged(each, reply=f"{n}") for n, each in enumerate(recorded)]
    tape = Tape(entries)
    for n, each in enumerate(recorded):
        if n in used:
            tape.take(request(ask(each)).key)
    before = tape.unused
    more = [exchanged(each, reply=f"new {n}") for n, each in enumerate(others)]
    tape.follow([*entries, *more])
    assert tape.unused == [*before, *more]


def test_a_reply_that_was_cut_is_found_under_its_own_bound_alone() -> None:
    asked = request(ask("a", max_tokens=1024))
    whole, cut = (
        Exchanged(asked, ModelReply("half", finish=finish)) for finish in ("stop", "length")
    )
    assert Tape([whole]).take(asked.key, max_tokens=16384) == whole
    assert Tape([cut]).take(asked.key, max_tokens=16384) is None
    assert Tape([cut]).take(asked.key, max_tokens=1024) == cut
    assert Tape([cut, whole]).take(asked.key, max_tokens=16384) == whole


def test_unused_exchanges_have_names_that_another_process_can_drop_them_by() -> None:
    entries = [
        exchanged("a", reply="1"),
        exchanged("b"),
        exchanged("a", reply="2"),
        Asked("Run?", "y"),
    ]
    tape = Tape(entries)
    tape.take(entries[0].key)
    names = tape.unused_names()
    other = Tape(entries)
    other.use_all_but(names)
    assert other.unused == tape.unused == entries[1:]
    assert other.prune() == 3
    assert other.entries == entries[:1]


def test_the_nearest_exchange_is_that_of_the_question_that_was_changed() -> None:
    questions = ["How many Gentoo penguins are there?", "Where do they live?", "Who counted them?"]
    tape = Tape(exchanged(each) for each in questions)
    nearest = tape.nearest(request(ask("Where do they breed?")))
    assert nearest is not None
    assert nearest.request.messages[-1].content["content"] == questions[1]


def test_the_nearest_exchange_of_a_later_step_is_the_same_step_of_the_same_question() -> None:
    tape = Tape(
        [
            exchanged("q1"),
            exchanged("q1", "call", "outcome 1", step=2),
            exchanged("q2"),
            exchanged("q2", "call", "outcome 2", step=2),
        ]
    )
    tape.take(exchanged("q1").key)
    tape.take(exchanged("q2").key)
    nearest = tape.nearest(request(ask("q2", "call", "outcome 3", step=2)))
    assert nearest == exchanged("q2", "call", "outcome 2", step=2)


def test_the_nearest_exchange_is_that_of_the_same_question_where_an_earlier_one_has_failed() -> (
    None
):
    def tool(name: str, text: str = "") -> dict[str, Any]:
        return {"function": {"name": name, "description": text}}

    entries = [
        exchanged("How many Gentoo penguins are there?", tools=(tool("count"), tool("ask_user"))),
        exchanged(
            "How many Gentoo penguins are there?",
            "124",
            "And Adelie?",
            tools=(tool("count"), tool("ask_user")),
        ),
        exchanged("And how many Adelie?", tools=(tool("count"),)),
    ]
    changed = (tool("count", "Count them."), tool("ask_user"))
    assert Tape(entries).nearest(request(ask("And Adelie?", tools=changed))) == entries[1]
    assert Tape(entries).nearest(request(ask("And how many Adelies?", tools=changed))) == entries[0]


def test_where_all_are_used_the_nearest_is_a_used_one() -> None:
    tape = Tape([exchanged("a")])
    tape.take(exchanged("a").key)
    assert tape.nearest(request(ask("a"))) == exchanged("a")
    assert Tape([Asked("Run?", "y")]).nearest(request(ask("a"))) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["", "cell 1", "cell 2"])), max_size=10
    )
)
def test_a_cell_that_is_run_again_is_given_again_what_it_was_given(
    asked: list[tuple[str, str]],
) -> None:
    tape = Tape(exchanged(name, reply=str(n)) for n, name in enumerate("abab"))
    given_ = [(name, origin, tape.take(exchanged(name).key, origin)) for name, origin in asked]
    tape.give_back("cell 1")
    again = [
        tape.take(exchanged(name).key, origin) for name, origin, _ in given_ if origin == "cell 1"
    ]
    assert again == [found for _, origin, found in given_ if origin == "cell 1"]


def test_what_nobody_in_particular_asked_is_not_given_back() -> None:
    tape = Tape([exchanged("a")])
    tape.take(exchanged("a").key)
    assert tape.give_back("") == []
    assert tape.unused == []
