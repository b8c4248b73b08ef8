"""Whether two outcomes are the same is said where something depends on it, and nowhere else."""

from __future__ import annotations

import pytest

from archytas_nb.react.sameness import compared

THEN = ", so what is to be done only then is not to be done"


def told(question: str, *said: str) -> str:
    names = ("anna", "bela", "cora")
    worked = [("checksum", {"file": "x", "server": name}, each) for name, each in zip(names, said, strict=False)]
    return compared(question, [("other", None, "5"), *worked], "checksum")


@pytest.mark.parametrize(
    ("question", "said", "words"),
    [
        ("Only if they are the same, delete it.", ("a", "b"), f"anna (a) and bela (b) are not the same{THEN}."),
        ("Only if they are the same, delete it.", ("a", "a"), "anna (a) and bela (a) are the same."),
        ("Delete it if they match.", ("4", "5"), f"anna (4) and bela (5) are not the same{THEN}."),
        ("Tell me when the two differ.", ("4", "4"), f"anna (4) and bela (4) are the same{THEN}."),
        ("Tell me when the two differ.", ("4", "5"), "anna (4) and bela (5) are not the same."),
        ("Are the two identical?", ("4", "5"), "anna (4) and bela (5) are not the same."),
        ("I want to know whether both match.", ("4", "5"), "anna (4) and bela (5) are not the same."),
    ],
)
def test_two_outcomes_are_compared_where_the_question_asks_whether_they_are_the_same(
    question: str, said: tuple[str, ...], words: str
) -> None:
    assert told(question, *said) == words


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Delete the file on bela.", ("a", "b")),
        ("Delete it if they are not the same.", ("a", "b")),
        ("Delete it unless they match.", ("a", "b")),
        ("Delete it if they nearly match.", ("a", "b")),
        ("If they are the same, and the sizes match, delete it.", ("a", "b")),
        ("Only if they are the same, delete it.", ("a",)),
        ("Only if they are the same, delete it.", ("a", "a", "a")),
        ("Only if they are the same, delete it.", ("a", "line\nline")),
        ("Only if they are the same, delete it.", ("a", "b" * 61)),
        ("Only if they are the same, delete it.", ("a", "")),
        ("Only if they are the same, delete it. " + "x" * 1000, ("a", "b")),
        ("At the same time, look up both.", ("a", "b")),
    ],
)
def test_where_the_question_asks_something_else_or_the_outcomes_are_no_pair_there_is_silence(
    question: str, said: tuple[str, ...]
) -> None:
    assert told(question, *said) == ""
