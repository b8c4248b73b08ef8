"""A file is complete or unchanged, whatever happens to the processes that write it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.cassettes import match
from archytas_nb.cassettes.cassette import Cassette, Mode
from archytas_nb.cassettes.file import (
    CassetteFile,
    Entry,
    RecordedAnswer,
    RecordedReply,
    lines_of,
)
from archytas_nb.cassettes.match import Matcher, Request
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, ModelReply, Usage, WireCall
from tests.cassettes.tapes import ask, exchanged, request

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["\u2028\x85\n", "\ud800", "", "{}", "\x00", "é\\\"'"]
)


REPLIES = st.builds(
    ModelReply,
    TEXTS,
    st.lists(st.builds(WireCall, TEXTS, TEXTS), max_size=2).map(tuple),
    TEXTS,
    st.sampled_from(["stop", "length", "tool_calls"]),
    TEXTS,
    st.builds(Usage, *[st.integers(0, 999)] * 4),
    st.floats(0, 9),
)


REQUESTS = st.builds(
    lambda texts, step, tools, schema, most: request(
        ask(*texts, step=step, tools=tuple(tools), schema=schema, max_tokens=most)
    ),
    st.lists(TEXTS, min_size=1, max_size=4),
    st.integers(1, 9),
    st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2),
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.none() | st.integers(1, 9),
)


ENTRIES = st.lists(
    st.builds(RecordedReply, REQUESTS, REPLIES)
    | st.builds(
        RecordedReply, REQUESTS, st.none(), st.just("overflow"), st.just({"context_tokens": 9})
    )
    | st.builds(RecordedAnswer, TEXTS, TEXTS),
    max_size=4,
)


HEADER = {
    "cassette": 2,
    "models": {"default": {"name": "m", "protocol": "native"}},
    "volatile": {"date": True},
}


def text_of(entries: list[Entry]) -> str:
    refs: set[str] = set()
    lines = [json.dumps(HEADER), *(line for entry in entries for line in lines_of(entry, refs))]
    return "".join(f"{line}\n" for line in lines)


def read(text: str) -> tuple[Any, list[Entry], str]:
    file = CassetteFile(Path("x"), Matcher())
    entries = file.parse(text)
    return file._header, entries, file.warning


@given(ENTRIES)
def test_reads_what_it_writes(entries: list[Entry]) -> None:
    assert read(text_of(entries)) == (HEADER, entries, "")


@given(ENTRIES, st.data())
def test_a_file_that_is_cut_off_anywhere_keeps_the_exchanges_before(
    entries: list[Entry], data: st.DataObject
) -> None:
    text = text_of(entries)
    first = text.index("\n") + 1
    cut = text[: data.draw(st.integers(first, len(text)))]
    header, kept, _ = read(cut)
    assert header == HEADER
    assert kept == entries[: len(kept)]
    assert len(kept) >= sum(
        cut.startswith(text_of(entries[:n])) for n in range(1, len(entries) + 1)
    )


@given(ENTRIES)
def test_writes_each_part_once(entries: list[Entry]) -> None:
    lines = text_of(entries).split("\n")
    parts = [line for line in lines if line.startswith('{"ref"')]
    assert len(parts) == len(set(parts))


def test_half_a_surrogate_pair_is_written_as_utf_8(tmp_path: Path) -> None:
    file = CassetteFile(tmp_path / "x.jsonl", Matcher())
    file.write([exchanged("ü", reply="\ud83d ü")])
    assert "ü" in (tmp_path / "x.jsonl").read_bytes().decode("utf-8")
    assert file.read() == [exchanged("ü", reply="\ud83d ü")]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '{"exchange": "1", "step": 1, "messages": ["no"], "reply": {}}',
        '{"exchange": "1", "step": 1, "messages": []}',
        '{"exchange": "1", "step": 1, "messages": [], "reply": {"txt": ""}}',
        '{"ref": "1", "note": "?"}',
        "[]",
        '<<<<<<< HEAD\n{"cassette": 2}\n=======',
    ],
)
def test_names_a_broken_line(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line 2 is .*\. Nothing was written to it"):
        read(f'{{"cassette": 2}}\n{line}\n\n')


def test_rejects_other_versions_and_binary_files(tmp_path: Path) -> None:
    for version in (1, 3):
        with pytest.raises(ConfigurationError, match=f"version {version}; expected 2"):
            read(f'{{"cassette": {version}, "model": "m"}}\n')
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        CassetteFile(tmp_path / "x.jsonl", Matcher()).read()


def test_the_key_of_a_request_depends_on_what_the_model_reads() -> None:
    """Every word, tool, schema and model counts; the step, the time that is left and the bound do not."""
    base = request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=5))
    assert (
        base.key
        == request(
            ask("a", step=9, tools=({"t": 1},), schema={"s": 1}, max_tokens=5, seconds=3)
        ).key
    )
    assert base.key == request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=6)).key
    others: list[Request] = [
        request(ask("b", tools=({"t": 1},), schema={"s": 1}, max_tokens=5)),
        request(ask("a", tools=({"t": 2},), schema={"s": 1}, max_tokens=5)),
        request(ask("a", tools=({"t": 1},), schema={"s": 2}, max_tokens=5)),
        request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=5), model="other"),
    ]
    assert len({each.key for each in [base, *others]}) == 5


ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.loop.events import ModelReply
from tests.cassettes.tapes import ask
cassette = Cassette(sys.argv[1], "auto")
for n in range(int(sys.argv[3])):
    cassette.add(ask(f"{sys.argv[2]} {n}"), ModelReply(f"{sys.argv[2]} {n}"))
"""


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_processes_leave_a_complete_file(tmp_path: Path, kills: int) -> None:
    path, count = tmp_path / "x.jsonl", 0
    for kill in range(kills):
        size = path.stat().st_size if path.exists() else 0
        command = [sys.executable, "-c", WRITER, str(path), f"{kill}", "100000"]
        writer = subprocess.Popen(command, cwd=ROOT)
        while not path.exists() or path.stat().st_size < size + 5_000:
            assert writer.poll() is None
        writer.kill()
        writer.wait(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last line may be cut off
            read = Cassette(path, "auto")
        assert read.count > count
        assert read.find(ask(f"{kill} 0")) is not None
        count = read.count
    read.add(ask("two"), exchanged("two").reply)
    assert Cassette(path, "replay").count == count + 1
    assert names(tmp_path) == ["x.jsonl"]


def test_a_file_that_cannot_be_written_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CassetteFile(tmp_path / "x.jsonl", Matcher())
    file.write([exchanged("a")])
    before = file.path.read_bytes()

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigurationError, match="no space left on device"):
        file.write([exchanged("b")])
    assert file.path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "record").add(ask("a"), ModelReply("1"))
    before = path.read_bytes()
    path.chmod(0o444)
    assert Cassette(path, "replay").find(ask("a")) is not None
    for mode in ("auto", "record"):
        with pytest.raises(ConfigurationError, match=r"cannot be written: .*read-only"):
            Cassette(path, mode).find(ask("b"))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"cannot be written: .*read-only"):
            Cassette(path, mode).add(ask("b"), ModelReply("2"))  # type: ignore[arg-type]
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o444)
    path.chmod(0o660)
    Cassette(path).add(ask("b"), ModelReply("2"))
    assert path.stat().st_mode & 0o777 == 0o660


def test_exchanges_are_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each exchange wrote all of the file, so 2,000 of them took 68 seconds."""
    written = 0
    write = CassetteFile.write

    def counted(*args: Any) -> None:
        nonlocal written
        written += 1
        write(*args)

    monkeypatch.setattr(CassetteFile, "write", counted)
    cassette = Cassette(tmp_path / "x.jsonl", "auto")
    for n in range(50):
        cassette.add(ask(f"one {n}"), ModelReply(f"one {n}"))
    again = Cassette(tmp_path / "x.jsonl", "auto")
    for n in range(50):
        assert again.find(ask(f"one {n}")) is not None
    for n in range(50):
        again.add(ask(f"two {n}"), ModelReply(f"two {n}"))
    assert written == 1
    whole = (tmp_path / "x.jsonl").read_bytes()
    write(again._file, again.tape.entries)
    assert (tmp_path / "x.jsonl").read_bytes() == whole, (
        "added line by line it is the file that is written whole"
    )


@pytest.mark.parametrize("end", ["", '{"ref": "3f', '{"exchange": "8a"'])
def test_appends_to_a_last_line_that_was_cut_off(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "auto").add(ask("one"), ModelReply("one"))
    path.write_text(path.read_text("utf-8").rstrip("\n") + ("\n" + end if end else ""), "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = Cassette(path, "auto")
    assert again.find(ask("one")) is not None
    again.add(ask("two"), ModelReply("two"))
    read = Cassette(path, "replay")
    assert (read.count, read.find(ask("two")) is not None) == (2, True)


def test_an_exchange_that_cannot_be_appended_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "auto")
    cassette.add(ask("one"), ModelReply("one"))
    before = path.read_bytes()
    write = os.write

    def full(file: int, data: bytes) -> int:
        if os.fstat(file).st_size > len(before):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:5])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ConfigurationError, match="cannot be written"):
            cassette.add(ask("two"), ModelReply("two"))
    assert path.read_bytes() == before
    cassette.add(ask("three"), ModelReply("three"))
    assert Cassette(path, "replay").find(ask("three")) is not None


def test_opening_a_long_conversation_takes_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request read all its messages anew, secrets and all, although requests share them."""
    path = tmp_path / "x.jsonl"
    recorded, messages = Cassette(path, "auto"), []
    for n in range(100):
        messages.append({"role": "user", "content": f"question {n}"})
        recorded.add(AskModel(1, tuple(messages)), ModelReply("yes"))
    looked_at = 0

    def counted(text: str) -> str:
        nonlocal looked_at
        looked_at += 1
        return text

    monkeypatch.setattr(match, "_functions", {"counted": counted})
    read = Cassette(path, "replay")
    assert read.count == 100
    assert looked_at < 1000


HOLDER = """
import sys, time
from pathlib import Path
from archytas_nb.cassettes.file import CassetteFile
from archytas_nb.cassettes.match import Matcher
with CassetteFile(Path(sys.argv[1]), Matcher()).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_processes_that_record_into_one_file_lose_nothing(tmp_path: Path) -> None:
    path, link = tmp_path / "here" / "x.jsonl", tmp_path / "there"
    link.symlink_to(tmp_path / "here")
    writers = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        environment = {**os.environ, "TMPDIR": str(tmp_path / name)}
        through = link / "x.jsonl" if name == "three" and (tmp_path / "here").exists() else path
        command = [sys.executable, "-c", WRITER, str(through), name, "25"]
        writers.append(subprocess.Popen(command, cwd=ROOT, env=environment))
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    read = Cassette(path, "replay")
    missing = [
        (name, n)
        for name in ("one", "two", "three")
        for n in range(25)
        if not read.find(ask(f"{name} {n}"))
    ]
    assert missing == []
    assert names(path.parent) == ["x.jsonl"]


@pytest.mark.parametrize("name", [".x.jsonl.lock", ".x.jsonl.part"])
def test_a_planted_link_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("keep me")
    folder = tmp_path / "cassettes"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "precious")
    try:
        Cassette(folder / "x.jsonl", "auto").add(ask("a"), ModelReply("1"))
    except ConfigurationError as error:
        assert name in str(error)  # noqa: PT017 - either way the target is as it was
    assert (tmp_path / "precious").read_text() == "keep me"


IS_ROOT = getattr(os, "geteuid", lambda: 1)() == 0
OTHER = 54321  # a user who is not there


@pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's link")
@pytest.mark.parametrize("mode", ["auto", "record", "replay"])
@pytest.mark.parametrize("where", ["the file", "its directory", "behind a link"])
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, where: str, mode: Mode) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir()
    shared.mkdir()
    cassette = Cassette(own / "x.jsonl", "auto")
    cassette.add(ask("a"), ModelReply("1"))
    before = (own / "x.jsonl").read_bytes()
    planted = shared / "x.jsonl" if where == "the file" else shared / "folder"
    planted.symlink_to(own / "x.jsonl" if where == "the file" else own)
    os.lchown(planted, OTHER, OTHER)
    path = planted if where == "the file" else planted / "x.jsonl"
    if where == "behind a link":
        path = tmp_path / "mine"
        path.symlink_to(Path("shared") / "folder" / "x.jsonl")
    with pytest.raises(ConfigurationError, match="link of another user"):
        Cassette(path, mode).add(ask("b"), ModelReply("2"))
    assert (own / "x.jsonl").read_bytes() == before
    assert names(own) == ["x.jsonl"]


@pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's link")
def test_a_link_that_another_user_makes_while_the_cassette_is_in_use_is_not_followed(
    tmp_path: Path,
) -> None:
    path, precious = tmp_path / "x.jsonl", tmp_path / "precious"
    cassette = Cassette(path, "auto")
    cassette.add(ask("a"), ModelReply("1"))
    precious.write_text("keep me")
    path.unlink()
    path.symlink_to(precious)
    os.lchown(path, OTHER, OTHER)
    with pytest.raises(ConfigurationError, match="link of another user"):
        cassette.add(ask("b"), ModelReply("2"))
    assert precious.read_text() == "keep me"


@pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's link")
@pytest.mark.parametrize("owner", [OTHER, 0])
def test_a_link_in_the_directory_of_another_user_is_not_followed(
    tmp_path: Path, owner: int
) -> None:
    folder = tmp_path / "of another user"
    folder.mkdir()
    os.chown(folder, OTHER, OTHER)
    (folder / "x.jsonl").symlink_to(tmp_path / "y.jsonl")
    os.lchown(folder / "x.jsonl", owner, owner)
    with pytest.raises(ConfigurationError, match="link of another user"):
        Cassette(folder / "x.jsonl", "auto").add(ask("a"), ModelReply("1"))
    assert not (tmp_path / "y.jsonl").exists()


def test_own_links_are_followed_and_endless_ones_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").symlink_to("y.jsonl")
    Cassette(tmp_path / "x.jsonl", "auto").add(ask("a"), ModelReply("1"))
    assert Cassette(tmp_path / "y.jsonl", "replay").count == 1
    (tmp_path / "z.jsonl").symlink_to("z.jsonl")
    with pytest.raises(ConfigurationError, match=r"z\.jsonl"):
        Cassette(tmp_path / "z.jsonl", "auto").add(ask("a"), ModelReply("1"))


def test_a_killed_process_holds_no_lock(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder, holder.stdout:
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    Cassette(path, "auto").add(ask("a"), ModelReply("1"))
    assert names(tmp_path) == ["x.jsonl"]


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everywhere")
def test_names_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    CassetteFile(folder / "x.jsonl", Matcher()).write([exchanged("a")])
    folder.chmod(0o555)
    try:
        with pytest.raises(ConfigurationError, match="read-only"):
            Cassette(folder / "x.jsonl", "auto").add(ask("b"), ModelReply("1"))
        assert Cassette(folder / "x.jsonl", "replay").count == 1
    finally:
        folder.chmod(0o755)
