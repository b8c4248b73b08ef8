"""What became of the cassettes is counted once, and told in lines that a person can act on."""

from __future__ import annotations

from typing import Any

from archytas_nb.pytest_plugin.runs import Use, summary, unused_of


def report(cassette: str, *unused: tuple[str, int], **counts: Any) -> dict[str, Any]:
    usage = {
        "requests": 0,
        "input_tokens": 0,
        "cached_tokens": 0,
        "output_tokens": 0,
        **counts.pop("usage", {}),
    }
    empty = {"replayed": 0, "recorded": 0, "missed": [], "pruned": 0}
    return {
        "cassette": cassette,
        "unused": [list(each) for each in unused],
        "usage": usage,
        **empty,
        **counts,
    }


def test_an_exchange_is_unused_where_none_of_its_users_asked_for_it() -> None:
    reports = [
        report("x", ("a", 0), ("b", 0), ("b", 1)),
        report("x", ("b", 1), ("c", 0)),
        report("y", ("a", 0)),
    ]
    assert unused_of(reports) == {"x": [("b", 1)], "y": [("a", 0)]}


def test_counts_of_several_cassettes_add_up() -> None:
    told = Use("n")
    told.add(report("x", replayed=2, usage={"input_tokens": 5, "output_tokens": 1}))
    told.add(report("y", replayed=1, recorded=1, missed=["question"], pruned=2))
    assert (told.replayed, told.recorded, told.missed, told.pruned) == (3, 1, ["question"], 2)


def test_the_summary_names_each_and_says_the_next_move() -> None:
    told = [
        Use("a.ipynb", replayed=2, input_tokens=1000, output_tokens=50),
        Use("bcd.ipynb", replayed=1, missed=["tool", "tool", "question"], unused=3),
        Use("e.ipynb", unused=1),
        Use("f.ipynb"),
    ]
    assert summary(told) == [
        "a.ipynb    2 replayed, 1,000 + 50 tokens not paid",
        "bcd.ipynb  1 replayed, 3 missed, 3 unused",
        "e.ipynb    1 unused",
        "f.ipynb    nothing asked",
        "missed, by cause: tool 2, question 1",
        "unused exchanges were recorded and are not asked for any more; pytest --agent-update drops them",
        "in all 3 replayed, 1,050 tokens not paid",
    ]
    assert summary([]) == []
