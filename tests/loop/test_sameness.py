"""Whether two outcomes are the same is said where something depends on it, and nowhere else."""

from __future__ import annotations

import pytest

from archytas_nb.loop.sameness import compared

THEN = ", so what is to be done only then is not to be done"


def told(question: str, *said: str) -> str:
    names = ("anna", "bela", "cora")
    worked = [
        ("checksum", {"file": "x", "server": name}, each)
        for name, each in zip(names, said, strict=False)
    ]
    return compared(question, [("other", None, "5"), *worked], "checksum")


@pytest.mark.parametrize(
    ("question", "said", "words"),
    [
        (
            "Only if they are the same, delete it.",
            ("a1", "b2"),
            f"anna (a1) and bela (b2) are not the same{THEN}.",
        ),
        (
            "Only if they are the same, delete it.",
            ("a1", "a1"),
            "anna (a1) and bela (a1) are the same.",
        ),
        ("Delete it if they match.", ("4", "5"), f"anna (4) and bela (5) are not the same{THEN}."),
        ("Delete it if they match.", ("4", "4.0"), "anna (4) and bela (4.0) are the same."),
        ("Tell me when the two differ.", ("4", "4"), f"anna (4) and bela (4) are the same{THEN}."),
        ("Tell me when the two differ.", ("4", "5"), "anna (4) and bela (5) are not the same."),
        ("Are the two identical?", ("4", "5"), "anna (4) and bela (5) are not the same."),
        ("I ask whether both match.", ("4", "5"), "anna (4) and bela (5) are not the same."),
    ],
)
def test_two_outcomes_are_compared_where_the_question_asks_whether_they_are_the_same(
    question: str, said: tuple[str, ...], words: str
) -> None:
    assert told(f"Look at anna and bela. {question}", *said) == words


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Delete the file on bela.", ("a", "b")),
        ("Delete it if they are not the same.", ("a", "b")),
        ("Delete it unless they match.", ("a", "b")),
        ("Delete it if they nearly match.", ("a", "b")),
        ("If they are the same, and the sizes match, delete it.", ("a", "b")),
        ("If they are the same or the disk is full, delete it.", ("a", "b")),
        ("If they are the same, delete it. Otherwise keep it.", ("a", "b")),
        ("If they have the same first letter, delete it.", ("a", "b")),
        ("If they are equal in size, delete it.", ("a", "b")),
        ("If they are the same as those of cora, delete it.", ("a", "b")),
        ("If they differ by 5, delete it.", ("1", "5")),
        ("Is there a football match today?", ("a", "b")),
        ("At the same time, look up both.", ("a", "b")),
        (f"{'x' * 1000}. Are they the same?", ("a", "b")),
    ],
)
def test_where_the_question_asks_something_else_there_is_silence(
    question: str, said: tuple[str, ...]
) -> None:
    assert told(f"Look at anna and bela. {question}", *said) == ""


@pytest.mark.parametrize(
    "said",
    [
        ("a",),
        ("a", "a", "a"),
        ("a", "line\nline"),
        ("a", "b" * 61),
        ("a", ""),
        ("not found", "not found"),
        ("None", "none"),
        ("Kim", "kim"),
        ("20", "20 C"),
        ("20", "twenty"),
        ("2024-03-09", "March 9, 2024"),
    ],
)
def test_outcomes_that_are_no_pair_of_words_or_numbers_are_not_compared(
    said: tuple[str, ...],
) -> None:
    assert told("Look at anna and bela. Are they the same?", *said) == ""


def test_things_that_the_question_does_not_name_are_not_compared() -> None:
    assert told("Are they the same?", "a", "b") == ""
