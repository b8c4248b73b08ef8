"""A recording gives back what was recorded, once, and nothing else."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.model import CassetteModel
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError
from archytas_nb.loop.events import ModelReply
from archytas_nb.testing import ScriptedModel
from tests.cassettes.tapes import QUESTION, SCRIPT, add, agent, ask, no_model, record, replay


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_a_replay_reproduces_the_events_of_the_recorded_run(tmp_path: Path, protocol: str) -> None:
    path = tmp_path / "x.jsonl"
    recorded = record(path, protocol)
    replayed = replay(path)
    assert replayed.events == recorded.events
    assert (replayed.answer, replayed.model, replayed.protocol) == (
        "It is 3.",
        "scripted",
        protocol,
    )


def test_a_request_that_was_not_recorded_fails_loudly_and_says_how_to_record(
    tmp_path: Path,
) -> None:
    record(tmp_path / "x.jsonl")
    with pytest.raises(CassetteMiss, match="--mode auto") as caught:
        replay(tmp_path / "x.jsonl", "What is 2 + 2?")
    assert caught.value.cause == "question"
    assert "    - What is 1 + 2?\n    + What is 2 + 2?" in str(caught.value)


def test_an_exchange_is_given_out_once_and_asking_again_is_told_apart(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    model = CassetteModel(cassette, no_model)
    nb.Agent([add], model=model, namespace={}).run(QUESTION)
    assert cassette.unused == 0
    with pytest.raises(CassetteMiss, match="recorded 1 time, and is asked once more") as caught:
        nb.Agent([add], model=model, namespace={}).run(QUESTION)
    assert caught.value.cause == "asked_again"


def test_the_same_request_gets_its_replies_in_the_order_of_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(*(("final_answer", each) for each in ("one", "two", "three")))
    recording = CassetteModel(Cassette(path, "auto"), lambda: live)
    said = [
        nb.Agent([], model=recording, namespace={}).run("Say a number.").answer for _ in range(3)
    ]
    replaying = CassetteModel(Cassette(path, "replay"), no_model)
    again = [
        nb.Agent([], model=replaying, namespace={}).run("Say a number.").answer for _ in range(3)
    ]
    assert said == again == ["one", "two", "three"]


def test_auto_records_what_is_missing_and_replays_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record(path)
    run = agent(path, "auto").run(QUESTION)
    assert run.answer == "It is 3."
    live = ScriptedModel(("final_answer", "I cannot."))
    assert agent(path, "auto", lambda: live).run("Why?").answer == "I cannot."
    assert replay(path, "Why?").answer == "I cannot."
    assert replay(path).answer == "It is 3."


def test_what_is_recorded_later_stands_where_it_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for mode, questions in (("record", ("first", "third")), ("auto", ("first", "second", "third"))):
        live = ScriptedModel(
            *(("final_answer", each) for each in ("a", "c" if mode == "record" else "b"))
        )
        if mode == "auto":
            live = ScriptedModel(("final_answer", "b"))
        model = CassetteModel(Cassette(path, mode), lambda live=live: live)
        for question in questions:
            nb.Agent([], model=model, namespace={}).run(question)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    answers = [
        json.loads(line["reply"]["text"])["tool_input"] for line in lines if "exchange" in line
    ]
    assert answers == ["a", "b", "c"]


def test_a_new_recording_takes_the_place_of_the_old_one_with_its_first_exchange(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    record(path)
    before = path.read_bytes()
    broken = agent(path, "record", lambda: ScriptedModel(ModelError("down")))
    with pytest.raises(ModelError, match="down"):
        broken.run(QUESTION)
    assert path.read_bytes() == before
    agent(path, "record", lambda: ScriptedModel(("final_answer", "No."))).run("Really?")
    assert replay(path, "Really?").answer == "No."
    with pytest.raises(CassetteMiss):
        replay(path)


def test_off_asks_the_model_and_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("not a cassette")
    assert (
        agent(path, "off", lambda: ScriptedModel(("final_answer", "Live."))).run("Hm?").answer
        == "Live."
    )
    assert path.read_text() == "not a cassette"


def test_a_cassette_is_lines_of_json_that_keep_each_text_once(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    text = (tmp_path / "x.jsonl").read_text("utf-8")
    header, *lines = map(json.loads, text.splitlines())
    assert header == {
        "cassette": 2,
        "models": {"default": {"name": "scripted", "protocol": "react"}},
    }
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
def test_a_file_that_is_no_cassette_is_refused_by_name_but_may_be_recorded_anew(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    for mode in ("replay", "auto"):
        with pytest.raises(ConfigurationError, match=r"x\.jsonl"):
            Cassette(tmp_path / "x.jsonl", mode)
    record(tmp_path / "x.jsonl")
    assert replay(tmp_path / "x.jsonl").answer == "It is 3."


def test_a_replay_without_a_file_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"does not exist. Record it .*--mode auto"):
        Cassette(tmp_path / "none.jsonl", "replay")


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'play'; expected one of"):
        Cassette(tmp_path / "x.jsonl", "play")  # type: ignore[arg-type]


def test_two_kernels_record_into_one_cassette_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    one, two = Cassette(path, "auto"), Cassette(path, "auto")
    for n in range(3):
        one.add(ask(f"one {n}"), ModelReply(f"1.{n}"))
        two.add(ask(f"two {n}"), ModelReply(f"2.{n}"))
    read = Cassette(path, "replay")
    for name, number in (("one", 1), ("two", 2)):
        for n in range(3):
            found = read.find(ask(f"{name} {n}"))
            assert found is not None
            assert found.reply == ModelReply(f"{number}.{n}")
    assert read.unused == 0


def test_two_kernels_that_record_anew_replace_the_old_recording_and_not_each_other(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "record").add(ask("old"), ModelReply("old"))
    one, two = Cassette(path, "record"), Cassette(path, "record")
    one.add(ask("one"), ModelReply("1"))
    two.add(ask("two"), ModelReply("2"))
    one.add(ask("three"), ModelReply("3"))
    read = Cassette(path, "replay")
    assert [read.find(ask(each)) is not None for each in ("one", "two", "three", "old")] == [
        True
    ] * 3 + [False]


def test_agents_in_threads_share_a_cassette(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    recording = Cassette(path, "auto")
    threads = [
        threading.Thread(target=lambda n=n: recording.add(ask(f"q{n}"), ModelReply(f"a{n}")))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = Cassette(path, "replay")
    found = [read.find(ask(f"q{n}")) for n in range(12)]
    assert [each and each.reply for each in found] == [ModelReply(f"a{n}") for n in range(12)]


def test_a_line_that_was_not_written_to_its_end_is_said_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "auto")
    cassette.add(ask("one"), ModelReply("1"))
    whole = path.read_bytes()
    cassette.add(ask("two"), ModelReply("2"))
    path.write_bytes(path.read_bytes()[:-25])
    with pytest.warns(UserWarning, match="was not written to its end"):
        read = Cassette(path, "auto")
    assert read.find(ask("one")) is not None
    assert read.find(ask("two")) is None
    read.add(ask("two"), ModelReply("2"))
    assert path.read_bytes().startswith(whole)
    assert Cassette(path, "replay").count == 2


def test_what_cannot_be_recorded_is_said_before_a_model_is_asked(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    live = ScriptedModel(*SCRIPT)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        agent(tmp_path / "folder", "record", lambda: live).run(QUESTION)
    assert live.asked == []


def test_dropping_what_was_not_asked_for_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    first = Cassette(path, "auto")
    for each in ("one", "two", "three"):
        first.add(ask(each), ModelReply(each))
    cassette = Cassette(path, "auto")
    cassette.find(ask("two"))
    assert (cassette.unused, cassette.prune(), cassette.unused) == (2, 2, 0)
    assert [Cassette(path, "replay").find(ask(each)) is not None for each in ("one", "two")] == [
        False,
        True,
    ]
    with pytest.raises(ConfigurationError, match="writes nothing"):
        Cassette(path, "replay").prune()


def test_an_earlier_miss_is_named_with_the_next(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    assert "miss 2" not in str(cassette.miss(ask("one")))
    assert "It is miss 2: mend the first one first" in str(cassette.miss(ask("two")))


def test_a_report_is_kept_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record(path)
    report = tmp_path / "report.json"
    cassette = Cassette(path, "replay", report=report)

    def told() -> dict[str, Any]:
        return json.loads(report.read_text())

    assert (told()["replayed"], len(told()["unused"])) == (0, 2)
    nb.Agent([add], model=CassetteModel(cassette, no_model), namespace={}).run(QUESTION)
    assert (told()["replayed"], told()["unused"], told()["usage"]["requests"]) == (2, [], 2)
    cassette.miss(ask("something else"))
    assert told()["missed"] == ["tools"]


@pytest.mark.parametrize("mode", ["auto", "replay"])
def test_a_cell_that_is_run_again_is_given_again_what_it_was_given(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "x.jsonl"
    record(path)
    again = agent(path, mode)
    answers = [again.run(QUESTION, origin="cell#1").answer for _ in range(3)]
    assert answers == ["It is 3."] * 3


def test_the_later_questions_of_one_run_of_a_cell_are_no_new_run(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "x.jsonl")
    for reply in "12":
        cassette.add(ask("a"), ModelReply(reply))
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    for execution in ("first", "second"):
        replies = []
        for _ in range(2):
            cassette.begins("cell", execution)
            found = cassette.find(ask("a"), origin="cell")
            replies.append(found.reply.text if found and found.reply else None)
        assert replies == ["1", "2"]


def test_a_cell_that_is_recorded_again_replaces_what_it_had_once_its_new_reply_is_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    replies = [
        ("final_answer", "one"),
        ("final_answer", "two"),
        ModelError("down"),
        ("final_answer", "uno"),
    ]
    live = ScriptedModel(*replies)
    talk = agent(path, "record", lambda: live)
    talk.run("first?", origin="1")
    talk.run("second?", origin="2")
    before = path.read_bytes()
    with pytest.raises(ModelError):
        talk.run("First?", origin="1")
    assert path.read_bytes() == before
    talk.run("First?", origin="1")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    texts = [
        json.loads(line["reply"]["text"])["tool_input"] for line in lines if "exchange" in line
    ]
    assert texts == ["uno", "two"]
