"""What a user's own tests get: a scripted model, and a recorded one with its cassette beside the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.pytest_plugin.runs import Use, summary, unused_of
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
    assert "test_double.py::test_it  2 replayed, 200 + 20 tokens not paid" in reported.lines


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
    assert header["volatile"] == ["date"]
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
    assert (strict.code, "2 recorded exchanges were not asked for" in strict.out) == (1, True)
    assert "2 dropped" in run_here(folder, "--agent-update", "test_double.py").out
    assert run_here(folder, "--agent-replay", "--agent-strict", "test_double.py").code == 0


def test_live_does_not_touch_the_cassette(test_file: Path) -> None:
    with Server(CALL, ANSWER) as server:
        done = run_here(
            test_file.parent, "--agent-live", "test_double.py", OPENAI_BASE_URL=server.url
        )
    assert done.code == 0, done.out
    assert not (test_file.parent / "cassettes").exists()


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
    assert "1 scripted replies were not asked for; the next is 'used by nobody'" in done.out


def report(cassette: str, *unused: tuple[str, int], **counts: Any) -> dict[str, Any]:
    usage = {"input_tokens": 0, "output_tokens": 0, **counts.pop("usage", {})}
    empty = {"replayed": 0, "recorded": 0, "missed": [], "pruned": 0}
    return {"cassette": cassette, "unused": list(unused), "usage": usage, **empty, **counts}


def test_an_exchange_is_unused_where_no_user_of_the_cassette_asked_for_it() -> None:
    reports = [
        report("x", ("a", 0), ("b", 0), ("b", 1)),
        report("x", ("b", 1), ("c", 0)),
        report("y", ("a", 0)),
    ]
    assert unused_of(reports) == {"x": [("b", 1)], "y": [("a", 0)]}


def test_adds_up_several_cassettes() -> None:
    use = Use("n")
    use.add(report("x", replayed=2, usage={"input_tokens": 5, "output_tokens": 1}))
    use.add(report("y", replayed=1, recorded=1, missed=["question"], pruned=2))
    assert (use.replayed, use.recorded, use.missed, use.pruned) == (3, 1, ["question"], 2)


def test_the_summary() -> None:
    uses = [
        Use("a.ipynb", replayed=2, input_tokens=1000, output_tokens=50),
        Use("bcd.ipynb", replayed=1, missed=["tool", "tool", "question"], unused=3),
        Use("e.ipynb", unused=1),
        Use("f.ipynb"),
    ]
    assert summary(uses) == [
        "a.ipynb    2 replayed, 1,000 + 50 tokens not paid",
        "bcd.ipynb  1 replayed, 3 missed, 3 unused",
        "e.ipynb    1 unused",
        "f.ipynb    nothing asked",
        "missed, by cause: tool 2, question 1",
        "unused exchanges were recorded and are not asked for any more; pytest --agent-update drops them",
        "in all 3 replayed, 1,050 tokens not paid",
    ]
    assert summary([]) == []
