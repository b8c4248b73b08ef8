"""Programs in a copy change nothing in the notebook, whatever they do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archytas_nb.copies.place import Copy, CopyError
from archytas_nb.loop import events as ev
from archytas_nb.sandbox.in_copy import CopySession, Ran

STATEMENTS = (
    "ships.drop(0, inplace=True)",
    "ships['port'] = 'sea'",
    "ships.loc[1, 'depth'] = -1.0",
    "ships['depth'].fillna(0, inplace=True)",
    "ships.columns = ['a', 'b']",
    "ships.sort_values('depth', inplace=True)",
    "ships.to_csv('ships.csv')",
    "ships = ships.dropna()",
    "del ships['port']",
    "del ships",
    "depths[:] = 7",
    "depths.sort()",
    "np.copyto(depths, 1.0)",
    "config['ports'].append('sea')",
    "config.clear()",
    "config['deep'] = ships",
    "limit += 1",
    "open('notes.txt', 'w').write('gone')",
    "__import__('os').remove('notes.txt')",
    "__import__('os').rename('notes.txt', 'other.txt')",
    "__import__('pathlib').Path('new.txt').write_text('new')",
    "__import__('shutil').rmtree('folder')",
    "globals().clear()",
    "raise SystemExit",
    "1 / 0",
    "answer(len(config))",
)


def variables() -> dict[str, Any]:
    return {
        "ships": pd.DataFrame({"depth": [2.0, None, 4.0], "port": ["Kiel", "Husum", "Kiel"]}),
        "depths": np.array([3.0, 1.0, 2.0]),
        "config": {"ports": ["Kiel"], "deep": (1, 2)},
        "limit": 3,
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notes.txt").write_text("kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> dict[str, bytes]:
    """The content of all files."""
    found = (Path(root) / each for root, _, names in os.walk(folder) for each in names)
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def same(one: dict[str, Any], other: dict[str, Any]) -> Iterator[bool]:
    yield one.keys() == other.keys()
    yield one["ships"].equals(other["ships"])
    yield list(one["ships"]) == list(other["ships"])
    yield np.array_equal(one["depths"], other["depths"])
    yield (one["config"], one["limit"]) == (other["config"], other["limit"])


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6), max_size=2))
def test_nothing_in_the_notebook_changes(project: Path, programs: list[list[str]]) -> None:
    namespace = variables()
    objects = {name: id(each) for name, each in namespace.items()}
    before = files_in(project)
    session = CopySession({}, namespace, ["ships"], project)
    for statements in programs:
        ended = session.run("\n".join(statements))
        assert isinstance(ended, ev.ProgramEnded)
    session.close()
    assert all(same(namespace, variables()))
    assert {name: id(each) for name, each in namespace.items()} == objects
    assert files_in(project) == before


def test_a_program_that_cannot_be_parsed_runs_nothing(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run("found = 1\nanswer(")
    session.close()
    assert isinstance(ended, ev.ProgramFaults)
    assert (ended.faults[0].line, ended.faults[0].source) == (2, "answer(")


def test_a_part_goes_on_behind_what_ran_and_another_program_begins_anew(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run("found = 20\nwrong = fuond")
    assert isinstance(ended, ev.ProgramEnded)
    assert (ended.ran, ended.error is not None) == ("found = 20", True)
    assert any("found" in each for each in ended.hints)
    ended = session.run("answer(found + 1)", is_part=True)
    assert isinstance(ended, ev.ProgramEnded)
    assert ended.answer == 21
    ended = session.run("answer(found)")
    assert isinstance(ended, ev.ProgramEnded)
    assert ended.error is not None
    assert ended.error.raised == "NameError"
    session.close()


def test_the_next_question_has_the_variables_of_the_one_before(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    session.run("kiel = ships[ships['port'] == 'Kiel']\nanswer(len(kiel))")
    before = session.close()
    assert isinstance(before, Ran)
    session = CopySession({}, variables(), ["ships"], project, before)
    ended = session.run("answer(kiel['depth'].max())")
    session.close()
    assert isinstance(ended, ev.ProgramEnded)
    assert ended.answer == 4.0


def test_what_a_question_changed_in_a_table_is_not_there_for_the_next(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    session.run("ports = ships.pop('port')\nships['depth'] = 0\nanswer(1)")
    before = session.close()
    for program in (
        "answer(ships['port'].nunique())",
        "answer(len(set(ports)) + 0 * len(ships.port))",
    ):
        session = CopySession({}, variables(), ["ships"], project, before)
        ended = session.run(program)
        session.close()
        assert isinstance(ended, ev.ProgramEnded)
        assert (ended.answer, ended.error) == (2, None)


def test_the_first_answer_counts(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run("try:\n    answer(1)\nexcept Exception:\n    answer(2)\nfound = 3")
    session.close()
    assert isinstance(ended, ev.ProgramEnded)
    assert (ended.answer, ended.has_answer) == (1, True)
    assert "found" not in (ended.ran or "")


@pytest.mark.parametrize("value", ["float('nan')", "None", "''", "f'the mean is {float(\"nan\")}'"])
def test_an_answer_without_a_value_is_a_fault(project: Path, value: str) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run(f"answer({value})")
    session.close()
    assert isinstance(ended, ev.ProgramEnded)
    assert not ended.has_answer
    assert ended.error is not None
    assert "no value" in ended.error.text


def test_imports_of_short_names_are_in_what_ran(project: Path) -> None:
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run("answer(float(np.mean(ships['depth'])))")
    session.close()
    assert isinstance(ended, ev.ProgramEnded)
    assert (ended.ran or "").splitlines()[0] == "import numpy as np"


def test_a_copy_that_cannot_be_made_is_a_lost_program(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise CopyError("a copy of the kernel cannot be made")

    monkeypatch.setattr(Copy, "run", refused)
    session = CopySession({}, variables(), ["ships"], project)
    ended = session.run("answer(1)")
    session.close()
    assert isinstance(ended, ev.ProgramEnded)
    assert (ended.has_answer, ended.lost) == (False, "a copy of the kernel cannot be made")
