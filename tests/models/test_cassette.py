"""A recording gives back what was recorded, once, and nothing else."""

import json
from pathlib import Path

import pytest

import archytas_nb as nb
from archytas_nb.errors import CassetteMiss, ConfigurationError
from archytas_nb.models.cassette import Cassette
from archytas_nb.models.cassette_model import CassetteModel
from archytas_nb.testing import ScriptedModel


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One
        b: The other
    """
    return a + b


SCRIPT = (("add", {"a": 1, "b": 2}), ("final_answer", "It is 3."))


def record(path: Path, protocol: str = "react") -> nb.Run:
    model = CassetteModel(Cassette(path, "record"), lambda: ScriptedModel(*SCRIPT, protocol=protocol))
    return nb.Agent([add], model=model, namespace={}).run("What is 1 + 2?")


def replay(path: Path, question: str = "What is 1 + 2?") -> nb.Run:
    def no_model() -> ScriptedModel:
        raise AssertionError("a replay must not make a model")

    return nb.Agent([add], model=CassetteModel(Cassette(path, "replay"), no_model), namespace={}).run(question)


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_a_replay_reproduces_the_events_of_the_recorded_run(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "x.jsonl"
    recorded = record(path, protocol)
    replayed = replay(path)
    assert replayed.events == recorded.events
    assert (replayed.answer, replayed.model, replayed.protocol) == ("It is 3.", "scripted", protocol)


def test_a_request_that_was_not_recorded_fails_loudly_and_says_how_to_record(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    with pytest.raises(CassetteMiss, match="--mode auto") as caught:
        replay(tmp_path / "x.jsonl", "What is 2 + 2?")
    assert caught.value.cause == "question"
    assert "    - What is 1 + 2?\n    + What is 2 + 2?" in str(caught.value)


def test_an_exchange_is_given_out_once(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    model = CassetteModel(cassette, lambda: None)
    nb.Agent([add], model=model, namespace={}).run("What is 1 + 2?")
    assert cassette.unused == 0
    with pytest.raises(CassetteMiss):
        nb.Agent([add], model=model, namespace={}).run("What is 1 + 2?")


def test_auto_records_what_is_missing_and_replays_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    asked: list[ScriptedModel] = []

    def live() -> ScriptedModel:
        asked.append(ScriptedModel(*SCRIPT))
        return asked[-1]

    for _ in range(2):
        nb.Agent([add], model=CassetteModel(Cassette(path, "auto"), live), namespace={}).run("What is 1 + 2?")
    assert len(asked) == 1


def test_a_cassette_is_lines_of_json_that_keep_each_text_once(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    text = (tmp_path / "x.jsonl").read_text("utf-8")
    header, *lines = map(json.loads, text.splitlines())
    assert header == {"cassette": 2, "models": {"default": {"name": "scripted", "protocol": "react"}}}
    exchanges = [line for line in lines if "exchange" in line]
    assert [exchange["step"] for exchange in exchanges] == [1, 2]
    assert exchanges[0]["reply"]["usage"] == {"requests": 1}
    assert text.count("Add two numbers.") == text.count('"content": "What is 1 + 2?"') == 1


def test_a_replay_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record(path)
    before = path.read_bytes(), path.stat().st_mtime_ns
    replay(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("text", ["", "not json", '{"cassette": 99}', '{"cassette": 1}', "[]"])
def test_a_file_that_is_no_cassette_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=r"x\.jsonl"):
        Cassette(tmp_path / "x.jsonl", "replay")


def test_a_replay_without_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        Cassette(tmp_path / "none.jsonl", "replay")
