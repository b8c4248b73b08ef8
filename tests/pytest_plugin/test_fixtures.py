"""What a user's own tests get: a scripted model, and a recorded one with its cassette beside the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pytest_plugin.runs import run_pytest
from tests.servers.plays import Say
from tests.servers.server import Server

TEST = '''
import pytest
import archytas_nb as nb

def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number
    """
    return 2 * number

def test_it(agent_cassette):
    assert nb.Agent([double], model=agent_cassette).run("Double 4.").answer == "It is 8."
'''
CALL, ANSWER = Say(calls=(("double", {"number": 4}),)), Say("It is 8.")


@pytest.fixture
def test_file(tmp_path: Path) -> Path:
    (tmp_path / "test_double.py").write_text(TEST)
    return tmp_path / "test_double.py"


def test_a_plain_test_is_recorded_once_and_replays_from_then_on_without_any_option(
    test_file: Path,
) -> None:
    folder = test_file.parent
    never = run_pytest(folder, "test_double.py")
    assert never.code == 1
    assert "pytest --agent-update test_double.py::test_it" in never.out
    with Server(CALL, ANSWER) as server:
        done = run_pytest(folder, "--agent-update", "test_double.py", OPENAI_BASE_URL=server.url)
        assert len(server.chats) == 2
    assert done.code == 0, done.out
    assert "test_double.py::test_it  2 recorded" in done.lines
    cassette = folder / "cassettes" / "test_double" / "test_it.jsonl"
    assert len(cassette.read_text().splitlines()) > 3
    assert run_pytest(folder, "test_double.py").code == 0
    reported = run_pytest(folder, "--agent-replay", "test_double.py")
    assert "test_double.py::test_it  2 replayed, 200 + 20 tokens not paid" in reported.lines


def test_a_changed_tool_fails_the_test_and_is_named(test_file: Path) -> None:
    folder = test_file.parent
    with Server(CALL, ANSWER) as server:
        run_pytest(folder, "--agent-record", "test_double.py", OPENAI_BASE_URL=server.url)
    test_file.write_text(TEST.replace("Double a number", "Double the number"))
    done = run_pytest(folder, "--agent-strict", "test_double.py")
    assert done.code == 1
    assert "CassetteMiss" in done.out
    assert "the text or schema of the tool 'double' has changed" in done.out


def test_a_marker_names_the_file_the_model_and_what_may_differ(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(
        "import os, pytest, archytas_nb as nb\n"
        "@pytest.mark.agent_cassette(path='mine/one.jsonl', model='tiny-2', volatile=['date'])\n"
        "@pytest.mark.parametrize('n', [1])\n"
        "def test_it(agent_cassette, n):\n"
        "    run = nb.Agent([], model=agent_cassette).run('Is it ' + os.environ['NOW'] + '?')\n"
        "    assert (run.answer, run.model) == ('Yes.', 'tiny-2')\n"
    )
    with Server(Say("Yes."), models=("tiny-1", "tiny-2")) as server:
        options = ("--strict-markers", "--agent-record", "test_marked.py")
        done = run_pytest(tmp_path, *options, OPENAI_BASE_URL=server.url, NOW="2026-01-01")
        assert server.chats[0].body["model"] == "tiny-2"
    assert done.code == 0, done.out
    header = json.loads((tmp_path / "mine" / "one.jsonl").read_text().splitlines()[0])
    assert header["volatile"] == ["date"]
    assert run_pytest(tmp_path, "test_marked.py", NOW="2026-02-02").code == 0


def test_tests_that_name_one_file_share_it_and_leave_each_other_what_they_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_shared.py").write_text(
        "import pytest, archytas_nb as nb\n"
        "@pytest.mark.agent_cassette(path='shared.jsonl')\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_it(agent_cassette, n):\n"
        "    assert nb.Agent([], model=agent_cassette).run(f'Is it {n}?').answer == f'It is {n}.'\n"
    )
    one, two = Say("It is 1."), Say("It is 2.")
    for option, plays in (
        ("--agent-record", (one, two)),
        ("--agent-record", (one, two)),
        ("--agent-update", ()),
    ):
        with Server(*plays) as server:
            done = run_pytest(tmp_path, option, "test_shared.py", OPENAI_BASE_URL=server.url)
            assert len(server.chats) == len(plays)
        assert done.code == 0, done.out
    alone = run_pytest(tmp_path, "--agent-update", "test_shared.py::test_it[2]")
    assert alone.code == 0, alone.out
    done = run_pytest(tmp_path, "--agent-replay", "--agent-strict", "test_shared.py")
    assert done.code == 0, done.out


def test_what_a_test_does_not_ask_any_more_is_dropped_or_fails_where_that_is_asked_for(
    test_file: Path,
) -> None:
    folder = test_file.parent
    with Server(CALL, ANSWER) as server:
        run_pytest(folder, "--agent-record", "test_double.py", OPENAI_BASE_URL=server.url)
    test_file.write_text("def test_it(agent_cassette): pass\n")
    strict = run_pytest(folder, "--agent-replay", "--agent-strict", "test_double.py")
    assert (strict.code, "2 recorded exchanges were not asked for" in strict.out) == (1, True)
    assert "2 dropped" in run_pytest(folder, "--agent-update", "test_double.py").out
    assert run_pytest(folder, "--agent-replay", "--agent-strict", "test_double.py").code == 0


def test_live_asks_the_model_and_leaves_the_cassette_alone(test_file: Path) -> None:
    with Server(CALL, ANSWER) as server:
        done = run_pytest(
            test_file.parent, "--agent-live", "test_double.py", OPENAI_BASE_URL=server.url
        )
    assert done.code == 0, done.out
    assert not (test_file.parent / "cassettes").exists()


def test_a_scripted_model_answers_by_script(scripted_model: object) -> None:
    import archytas_nb as nb

    model = scripted_model(("final_answer", "Yes."))  # type: ignore[operator]
    assert nb.Agent([], model=model).run("Really?").answer == "Yes."


def test_a_scripted_reply_that_is_left_over_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text(
        "def test_it(scripted_model): scripted_model('used by nobody', protocol='native')\n"
    )
    done = run_pytest(tmp_path, "test_left.py")
    assert done.code == 1
    assert "1 scripted replies were not asked for; the next is 'used by nobody'" in done.out
