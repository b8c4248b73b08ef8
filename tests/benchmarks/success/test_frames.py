"""The benchmark of questions about tables: what it reads, what counts as right, and its pieces."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.testing import ScriptedModel
from benchmarks.success import frames, frames_own, frames_scripted


class Small(ScriptedModel):
    is_small = True
    continues_replies = True
    has_grammars = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two questions, of which the second cannot be read."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "ships.csv").write_text("name,depth\nIda,2.5\nUwe,4\n")
    question = {
        "id": 3, "level": "easy", "question": "How deep is the deepest ship?", "constraints": "",
        "format": "@depth[number] @name[text]", "file_name": "ships.csv",
    }  # fmt: skip
    lines = [json.dumps(question), '{"id": 4, "level": nobody may read this']
    (tmp_path / "da-dev-questions.jsonl").write_text("\n".join(lines))
    label = {"id": 3, "common_answers": [["depth", "4.0"], ["name", "Uwe"]]}
    (tmp_path / "da-dev-labels.jsonl").write_text(json.dumps(label) + '\n{"id": 4, "secret')
    return tmp_path


def test_only_the_questions_of_the_list_are_read_and_asked(folder: Path) -> None:
    [asked] = frames.questions_in(folder, [3], is_typed=True)
    model: Any = Small("answer({'depth': df['depth'].max(), 'name': 'Uwe'})", protocol="program")
    result = frames.ask(asked, model)
    assert (result.right, result.answer, result.repairs) == (True, "@depth[4.0] @name[Uwe]", 0)
    assert "all          1/1" in frames.report([result])


def test_an_answer_as_text_has_the_values_behind_their_names(folder: Path) -> None:
    [asked] = frames.questions_in(folder, [3])
    model: Any = Small("answer(f\"@depth[{df['depth'].max()}] @name[Uwe]\")", protocol="program")
    assert frames.ask(asked, model).right
    labels = [("depth", "4.0"), ("name", "Uwe")]
    assert frames.is_right("@depth[4] and @name[ Uwe]", labels)
    assert not frames.is_right("@depth[4.01] @name[Uwe]", labels)
    assert not frames.is_right("@depth[4]", labels)
    assert not frames.is_right("", [])


@pytest.mark.parametrize("name", frames.PIECES)
def test_each_piece_can_be_taken_away(name: str) -> None:
    with ExitStack() as patches:
        for each in frames.PIECES[name]():
            patches.enter_context(each)


@pytest.mark.parametrize(
    ("answer", "expected", "is_right"),
    [
        ("The mean is 5,076.0 g.", 5076.0, True),
        ("5076", 5076.0, True),
        ("5077", 5076.0, False),
        ("3,14", 3.14, True),
        ("Trail 11 it is", "trail 11", True),
        ("none", 3.0, False),
    ],
)
def test_an_own_answer_is_right_if_it_has_the_value(
    answer: str, expected: frames_own.Expected, is_right: bool
) -> None:
    assert frames_own.has(answer, expected) is is_right


def test_our_own_questions_have_answers_and_two_halves() -> None:
    halves = [list(frames_own.questions(half)) for half in ("choose", "blind")]  # type: ignore[arg-type]
    assert [len(each) for each in halves] == [30, 30]
    assert {each.level for each in halves[1]} == {"en", "de", "fr", "es"}
    assert all(each.is_right(each.label) for half in halves for each in half)


@pytest.mark.parametrize("way", frames_scripted.WAYS)
def test_nothing_is_lost_between_a_right_program_and_its_answer(way: str) -> None:
    written = frames_scripted.programs()
    for asked in [*frames_own.questions("choose"), *frames_own.questions("blind")][::7]:
        is_right, answer = frames_scripted.asked_in(way, asked, written[asked.question])
        assert is_right, (asked.question, answer)
