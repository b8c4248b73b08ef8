"""A cassette replays what was recorded, once, and nothing else."""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette, Tally
from archytas_nb.cassettes.difference import nearest_reply
from archytas_nb.cassettes.file import RecordedAnswer, RecordedReply
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.cassettes.tape import Tape
from archytas_nb.errors import CassetteMiss, ConfigurationError, FileError, ModelError
from archytas_nb.loop.events import ModelReply, Usage
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.view import ending_title
from tests.cassettes.tapes import (
    QUESTION,
    SCRIPT,
    add,
    agent,
    ask,
    exchanged,
    no_model,
    record,
    replay,
    request,
)


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_a_replay_has_the_events_of_the_recorded_run_and_writes_nothing(
    tmp_path: Path, protocol: str
) -> None:
    path = tmp_path / "x.jsonl"
    recorded = record(path, protocol)
    before = path.read_bytes(), path.stat().st_mtime_ns
    replayed = replay(path)
    assert replayed.events == recorded.events
    answered = replayed.answer, replayed.model, replayed.protocol
    assert answered == ("It is 3.", "scripted", protocol)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_missing_request_is_an_error_that_names_the_command_to_record(
    tmp_path: Path,
) -> None:
    record(tmp_path / "x.jsonl")
    with pytest.raises(CassetteMiss, match="--mode auto") as caught:
        replay(tmp_path / "x.jsonl", "What is 2 + 2?")
    assert caught.value.cause == "question"
    assert "    - What is 1 + 2?\n    + What is 2 + 2?" in str(caught.value)


def test_an_exchange_is_replayed_once(tmp_path: Path) -> None:
    record(tmp_path / "x.jsonl")
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    model = CassetteModel(cassette, no_model)
    nb.Agent([add], model=model, namespace={}).run(QUESTION)
    assert cassette.unused == 0
    with pytest.raises(CassetteMiss, match="every recorded reply to it has been used") as caught:
        nb.Agent([add], model=model, namespace={}).run(QUESTION)
    assert caught.value.cause == "asked_again"


def test_equal_requests_get_their_replies_in_order(tmp_path: Path) -> None:
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


def test_later_recordings_are_inserted_where_they_were_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for mode, questions in (("record", ("first", "third")), ("auto", ("first", "second", "third"))):
        replies = ("a", "c") if mode == "record" else ("b",)
        live = ScriptedModel(*(("final_answer", each) for each in replies))
        model = CassetteModel(Cassette(path, mode), lambda live=live: live)
        for question in questions:
            nb.Agent([], model=model, namespace={}).run(question)
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    answers = [
        json.loads(line["reply"]["text"])["tool_input"] for line in lines if "exchange" in line
    ]
    assert answers == ["a", "b", "c"]


def test_the_first_exchange_of_a_new_recording_replaces_the_old_one(
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


def test_the_format_of_the_file(tmp_path: Path) -> None:
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
    assert text.count("Add two numbers.") == text.count('"content": "What is 1 + 2?') == 1


def test_rejects_other_files_except_to_record_over_them_by_force(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for text in ("\n", "not json", '{"cassette": 99}', '{"cassette": 1}', "[]", '{"cells": []}'):
        path.write_text(text)
        for mode in ("replay", "auto", "record"):
            with pytest.raises(FileError, match=r"x\.jsonl"):
                Cassette(path, mode)  # type: ignore[arg-type]
        with pytest.raises(FileError):
            Cassette(path, "auto", force=True)
        assert path.read_text() == text
        cassette = Cassette(path, "record", force=True)
        assert path.read_text() == text  # until there is a reply
        cassette.add(ask("a"), ModelReply("1"))
        assert Cassette(path, "replay").count == 1


def test_an_empty_file_is_an_empty_cassette(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for mode in ("auto", "record"):
        path.write_text("")
        cassette = Cassette(path, mode)  # type: ignore[arg-type]
        cassette.add(ask("a"), ModelReply("1"))
        assert Cassette(path, "replay").count == 1


def test_a_file_that_takes_the_place_of_a_cassette_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for mode in ("auto", "record"):
        path.unlink(missing_ok=True)
        cassette = Cassette(path, mode)  # type: ignore[arg-type]
        path.write_text("my notes")
        with pytest.raises(FileError):
            cassette.add(ask("a"), ModelReply("1"))
        assert path.read_text() == "my notes"
        path.unlink()
        cassette.add(ask("b"), ModelReply("2"))
        assert Cassette(path, "replay").count == 2  # what was paid for before, too


@pytest.mark.parametrize("mode", ["auto", "record"])
def test_a_reply_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    """It is replayed from memory, and a further one is not asked for while the disk is full."""
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, mode)
    cassette.add(ask("one"), ModelReply("1"))
    before = path.read_bytes()

    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for text in ("two", "three"):
            with pytest.raises(FileError, match="No space"):
                cassette.add(ask(text), ModelReply(text), origin=text)
        with pytest.raises(FileError):
            cassette.find(ask("four"))
        if mode == "auto":
            cassette.start_question("two", "again")
            found = cassette.find(ask("two"), origin="two")
            assert found is not None
            assert found.reply == ModelReply("two")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]
    other = Cassette(path, "auto")  # another kernel writes meanwhile
    other.add(ask("other"), ModelReply("0"))
    assert cassette.find(ask("four")) is None
    read = Cassette(path, "replay")
    assert read.count == 4
    assert all(read.find(ask(each)) for each in ("one", "two", "three", "other"))


def test_a_reply_that_cannot_be_recorded_is_no_failure_of_the_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileError) as caught:
        agent(tmp_path / "x.jsonl", "auto", lambda: ScriptedModel(*SCRIPT)).run(QUESTION)
    ending = caught.value.run.ending
    assert ending.by == "recording"
    assert "endpoint" not in ending_title(ending)


def test_a_cassette_that_is_not_there_and_an_unknown_mode_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with pytest.raises(ConfigurationError, match=r"does not exist.*--mode auto"):
        Cassette(tmp_path / "none.jsonl", "replay")
    with pytest.raises(ConfigurationError, match="'play'; expected one of"):
        Cassette(path, "play")  # type: ignore[arg-type]


def test_two_kernels_record_into_one_cassette(tmp_path: Path) -> None:
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


def test_two_new_recordings_replace_the_old_one_and_not_each_other(
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


def test_threads_share_a_cassette(tmp_path: Path) -> None:
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


def test_warns_about_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "auto")
    cassette.add(ask("one"), ModelReply("1"))
    whole = path.read_bytes()
    cassette.add(ask("two"), ModelReply("2"))
    path.write_bytes(path.read_bytes()[:-25])
    with pytest.warns(UserWarning, match=r"is incomplete and was ignored\. To record it: "):
        read = Cassette(path, "auto")
    assert read.find(ask("one")) is not None
    assert read.find(ask("two")) is None
    read.add(ask("two"), ModelReply("2"))
    assert path.read_bytes().startswith(whole)
    assert Cassette(path, "replay").count == 2


def test_a_file_that_cannot_be_written_is_an_error_before_the_model_is_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "folder").mkdir()
    live = ScriptedModel(*SCRIPT)
    with pytest.raises(FileError, match="folder"):
        agent(tmp_path / "folder", "record", lambda: live).run(QUESTION)
    assert live.asked == []


def test_prune_drops_what_was_not_asked_for(tmp_path: Path) -> None:
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
    with pytest.raises(ConfigurationError, match="never writes"):
        Cassette(path, "replay").prune()


@pytest.mark.parametrize("mode", ["auto", "replay"])
def test_reports_each_event_in_a_line(tmp_path: Path, mode: Any) -> None:
    """The report wrote the names of all unused exchanges at each event."""
    path, report = tmp_path / "x.jsonl", tmp_path / "report.jsonl"
    recorded = Cassette(path)
    for n in range(50):
        recorded.add(ask(f"q{n}"), ModelReply("yes", usage=Usage(1, 10, 0, 2)))
    cassette, sizes = Cassette(path, mode, report=report), [report.stat().st_size]
    for n in range(50):
        cassette.find(ask(f"q{n}"))
        sizes.append(report.stat().st_size)
    assert max(b - a for a, b in itertools.pairwise(sizes)) < 250 < sizes[0]
    cassette.miss(ask("something else"))
    first, *events = map(json.loads, report.read_text().splitlines())
    assert first["cassette"] == str(path)
    assert Counter(first["unused"]) == Counter(each["used"] for each in events[:-1])
    tally = {"replayed": 50, "missed": ["question"], "input_tokens": 500, "output_tokens": 100}
    assert events[-1]["tally"] == {**asdict(Tally()), **tally}


@pytest.mark.parametrize("mode", ["auto", "replay"])
def test_a_cell_that_is_run_again_gets_the_same_replies(tmp_path: Path, mode: str) -> None:
    record(tmp_path / "x.jsonl")
    again = agent(tmp_path / "x.jsonl", mode)
    answers = [again.run(QUESTION, origin="cell#1").answer for _ in range(3)]
    assert answers == ["It is 3."] * 3


def test_later_questions_of_a_cell_are_no_new_run(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "x.jsonl")
    for reply in "12":
        cassette.add(ask("a"), ModelReply(reply))
    cassette = Cassette(tmp_path / "x.jsonl", "replay")
    for execution in ("first", "second"):
        replies = []
        for _ in range(2):
            cassette.start_question("cell", execution)
            found = cassette.find(ask("a"), origin="cell")
            replies.append(found.reply.text if found and found.reply else None)
        assert replies == ["1", "2"]


def test_recording_a_cell_again_replaces_its_exchanges(
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


@given(
    st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=14)
)
def test_takes_each_exchange_once_and_in_order(recorded: list[str], asked: list[str]) -> None:
    tape = Tape(exchanged(each, reply=f"{each}{n}") for n, each in enumerate(recorded))
    left = {
        name: [f"{name}{n}" for n, each in enumerate(recorded) if each == name] for name in "abcd"
    }
    for name in asked:
        found = tape.take(request(ask(name)).key)
        wanted = left[name].pop(0) if left[name] else None
        assert (found.reply.text if found else None) == wanted  # type: ignore[union-attr]
    assert len(tape.unused) == sum(map(len, left.values()))


@given(
    st.lists(st.sampled_from("abc"), max_size=8),
    st.sets(st.integers(0, 7)),
    st.lists(st.sampled_from("xy"), max_size=4),
)
def test_used_exchanges_stay_used_when_others_record(
    recorded: list[str], used: set[int], others: list[str]
) -> None:
    entries = [exchanged(each, reply=f"{n}") for n, each in enumerate(recorded)]
    tape = Tape(entries)
    for n, each in enumerate(recorded):
        if n in used:
            tape.take(request(ask(each)).key)
    before = tape.unused
    more = [exchanged(each, reply=f"new {n}") for n, each in enumerate(others)]
    tape.follow([*entries, *more])
    assert tape.unused == [*before, *more]


def test_a_truncated_reply_fits_only_its_own_limit() -> None:
    cut, whole = (
        RecordedReply(request(ask("a", max_tokens=1024)), ModelReply("half", finish=finish))
        for finish in ("length", "stop")
    )
    assert [each.fits(16384) for each in (cut, whole)] == [False, True]
    assert [each.fits(1024) for each in (cut, whole)] == [True, True]


def test_prune_keeps_what_another_process_asked_for(tmp_path: Path) -> None:
    recorded = Cassette(tmp_path / "x.jsonl")
    for question, reply in ("a1", "b2", "a3", "c4", "a5"):
        recorded.add(ask(question), ModelReply(reply))
    keys = [request(ask(each)).key for each in "ac"]
    assert Cassette(tmp_path / "x.jsonl").prune({keys[0]: 1, keys[1]: 1, "unknown": 2}) == 2
    left = [each.reply.text for each in Cassette(tmp_path / "x.jsonl").tape.entries]
    assert left == ["1", "2", "3"]


def test_the_nearest_request_is_of_the_same_step() -> None:
    tape = Tape(
        [
            exchanged("q1"),
            exchanged("q1", "call", "outcome 1", step=2),
            exchanged("q2"),
            exchanged("q2", "call", "outcome 2", step=2),
        ]
    )
    tape.take(exchanged("q1").key)
    tape.take(exchanged("q2").key)
    nearest = nearest_reply(request(ask("q2", "call", "outcome 3", step=2)), tape)
    assert nearest == exchanged("q2", "call", "outcome 2", step=2)
    used = Tape([exchanged("a")])
    used.take(exchanged("a").key)
    assert nearest_reply(request(ask("a")), used) == exchanged("a")
    assert nearest_reply(request(ask("a")), Tape([RecordedAnswer("Run?", "y")])) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["", "cell 1", "cell 2"])), max_size=10
    )
)
def test_gives_a_cell_again_what_it_used(
    asked: list[tuple[str, str]],
) -> None:
    tape = Tape(exchanged(name, reply=str(n)) for n, name in enumerate("abab"))
    given_ = [(name, origin, tape.take(exchanged(name).key, origin)) for name, origin in asked]
    tape.give_back("cell 1")
    again = [
        tape.take(exchanged(name).key, origin) for name, origin, _ in given_ if origin == "cell 1"
    ]
    assert again == [found for _, origin, found in given_ if origin == "cell 1"]
