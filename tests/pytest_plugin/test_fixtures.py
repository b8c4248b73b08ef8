"""Fixtures for tests of users: a scripted model, and a recorded one with a cassette next to the test."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.cassettes.cassette import Tally
from archytas_nb.pytest_plugin.runs import summary, unused_of
from tests.pytest_plugin.runs import run_here
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


def test_a_test_is_recorded_once_and_then_replayed_without_an_option(
    test_file: Path,
) -> None:
    folder = test_file.parent
    never = run_here(folder, "test_double.py")
    assert never.code == 1
    assert "pytest --agent-update test_double.py::test_it" in never.out
    with Server(CALL, ANSWER) as server:
        done = run_here(folder, "--agent-update", "test_double.py", OPENAI_BASE_URL=server.url)
        assert len(server.chats) == 2
    assert done.code == 0, done.out
    assert "test_double.py::test_it  2 recorded" in done.lines
    cassette = folder / "cassettes" / "test_double" / "test_it.jsonl"
    assert len(cassette.read_text().splitlines()) > 3
    assert run_here(folder, "test_double.py").code == 0
    reported = run_here(folder, "--agent-replay", "test_double.py")
    assert "test_double.py::test_it  2 replayed, 200 + 20 tokens saved" in reported.lines


def test_a_changed_tool_fails_the_test(test_file: Path) -> None:
    folder = test_file.parent
    with Server(CALL, ANSWER) as server:
        run_here(folder, "--agent-record", "test_double.py", OPENAI_BASE_URL=server.url)
    test_file.write_text(TEST.replace("Double a number", "Double the number"))
    done = run_here(folder, "--agent-strict", "test_double.py")
    assert done.code == 1
    assert "CassetteMiss" in done.out
    assert "the text or schema of the tool 'double' has changed" in done.out


def test_the_marker_sets_file_model_and_volatile_parts(tmp_path: Path) -> None:
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
        done = run_here(tmp_path, *options, OPENAI_BASE_URL=server.url, NOW="2026-01-01")
        assert server.chats[0].body["model"] == "tiny-2"
    assert done.code == 0, done.out
    header = json.loads((tmp_path / "mine" / "one.jsonl").read_text().splitlines()[0])
    assert header["volatile"] == {"date": True}
    assert run_here(tmp_path, "test_marked.py", NOW="2026-02-02").code == 0


def test_tests_may_share_a_file(
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
            done = run_here(tmp_path, option, "test_shared.py", OPENAI_BASE_URL=server.url)
            assert len(server.chats) == len(plays)
        assert done.code == 0, done.out
    alone = run_here(tmp_path, "--agent-update", "test_shared.py::test_it[2]")
    assert alone.code == 0, alone.out
    done = run_here(tmp_path, "--agent-replay", "--agent-strict", "test_shared.py")
    assert done.code == 0, done.out


def test_unused_exchanges_fail_with_strict_and_are_dropped_by_update(
    test_file: Path,
) -> None:
    folder = test_file.parent
    with Server(CALL, ANSWER) as server:
        run_here(folder, "--agent-record", "test_double.py", OPENAI_BASE_URL=server.url)
    test_file.write_text("def test_it(agent_cassette): pass\n")
    strict = run_here(folder, "--agent-replay", "--agent-strict", "test_double.py")
    assert (strict.code, "2 recorded exchanges were not used" in strict.out) == (1, True)
    assert "2 dropped" in run_here(folder, "--agent-update", "test_double.py").out
    assert run_here(folder, "--agent-replay", "--agent-strict", "test_double.py").code == 0


def test_a_scripted_model_answers_by_script(scripted_model: object) -> None:
    import archytas_nb as nb

    model = scripted_model(("final_answer", "Yes."))  # type: ignore[operator]
    assert nb.Agent([], model=model).run("Really?").answer == "Yes."


def test_an_unused_scripted_reply_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text(
        "def test_it(scripted_model): scripted_model('used by nobody', protocol='native')\n"
    )
    done = run_here(tmp_path, "test_left.py")
    assert done.code == 1
    assert "1 scripted replies were not used; the next is 'used by nobody'" in done.out


def test_an_exchange_is_unused_where_no_user_of_the_cassette_asked_for_it() -> None:
    def report(cassette: str, unused: str, used: str) -> list[dict[str, Any]]:
        first = {"cassette": cassette, "unused": Counter(unused), "tally": {}}
        return [first, *({"used": each, "tally": {}} for each in used), {"tally": {}}]

    reports = [report("x", "aabbb", "aba"), report("x", "aabbb", "ab"), report("y", "a", "")]
    assert unused_of(reports) == {"x": Counter("bb"), "y": Counter("a")}


def test_the_summary_has_a_line_for_each_notebook() -> None:
    uses = {
        "a.ipynb": Tally(2, input_tokens=1000) + Tally(1, 1, ["tool"], 0, 2, output_tokens=50),
        "bcd.ipynb": Tally(replayed=1, missed=["tool", "tool", "question"], unused=3),
        "e.ipynb": Tally(unused=1),
        "f.ipynb": Tally(),
    }
    assert summary(uses) == [
        "a.ipynb    3 replayed, 1 recorded, 1 missed, 2 dropped, 1,000 + 50 tokens saved",
        "bcd.ipynb  1 replayed, 3 missed, 3 unused",
        "e.ipynb    1 unused",
        "f.ipynb    no requests",
        "some recorded exchanges were not used; pytest --agent-update removes them",
    ]
    assert summary({}) == []


class FourOfFive:
    """Gives a wrong answer to each fifth question."""

    asked = 0

    def play(self, exchange: Any) -> None:
        self.asked += 1
        Say("It is 9." if self.asked % 5 == 0 else "It is 8.", raw=True).play(exchange)


def test_an_evaluation_passes_at_the_share_that_is_demanded(tmp_path: Path) -> None:
    (tmp_path / "test_rate.py").write_text(
        "import archytas_nb as nb\n"
        "def test_it(agent_min_pass):\n"
        "    agent = nb.Agent([], model='tiny-1')\n"
        "    found = agent.evaluate([('What is twice 4?', 8)], store='answers.sqlite', workers=1)\n"
        "    assert found.rate >= agent_min_pass\n"
    )
    test, answers = "test_rate.py", tmp_path / "answers.sqlite"
    with Server(then=FourOfFive()) as server:
        live = {"OPENAI_BASE_URL": server.url}
        assert run_here(tmp_path, "--agent-live", "--agent-min-pass", "0.8", test, **live).code == 0
        assert not answers.exists()  # what is live is neither kept nor taken from a file
        assert run_here(tmp_path, "--agent-live", "--agent-min-pass", "0.9", test, **live).code == 1
        done = run_here(tmp_path, "--agent-update", "--agent-min-pass", "0.8", test, **live)
        assert done.code == 0, done.out
        assert len(server.chats) == 15
    replay = ("--agent-replay", "--agent-min-pass")
    assert run_here(tmp_path, *replay, "0.8", test).code == 0
    assert run_here(tmp_path, "--agent-replay", test).code == 1
    assert run_here(tmp_path, "--agent-min-pass", "80", test).code == 4
