"""A file is whole or as it was, whatever happens to whoever writes it."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.file import CassetteFile
from archytas_nb.cassettes.values import Header
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, ModelReply
from tests.cassettes.tapes import ask, exchanged

WRITER = """
import sys
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.loop.events import ModelReply
from tests.cassettes.tapes import ask
cassette = Cassette(sys.argv[1], "auto")
for n in range(int(sys.argv[3])):
    cassette.add(ask(f"{sys.argv[2]} {n}"), ModelReply(f"{sys.argv[2]} {n}"))
"""


def test_processes_that_record_into_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [
        subprocess.Popen([*command, name, "15"], cwd=Path(__file__).parents[3])
        for name in ("one", "two")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    read = Cassette(path, "replay")
    assert all(read.find(ask(f"{name} {n}")) for name in ("one", "two") for n in range(15))
    assert read.unused == 0


def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    command = [sys.executable, "-c", WRITER, str(path), "one", "100000"]
    writer = subprocess.Popen(command, cwd=Path(__file__).parents[3])
    while not path.exists() or path.stat().st_size < 20_000:
        assert writer.poll() is None
    writer.kill()
    writer.wait(60)
    read = Cassette(path, "auto")
    assert read.count > 10
    assert read.find(ask("one 0")) is not None
    read.add(ask("two"), exchanged("two").reply)
    assert Cassette(path, "replay").count == read.count


def test_a_file_that_cannot_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CassetteFile(tmp_path / "x.jsonl")
    file.write(Header(), [exchanged("a")])
    before = file.path.read_bytes()

    def full(self: Path, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigurationError, match="no space left on device"):
        file.write(Header(), [exchanged("b")])
    assert file.path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_file_that_its_owner_made_read_only_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "record").add(ask("a"), ModelReply("1"))
    before = path.read_bytes()
    path.chmod(0o444)
    assert Cassette(path, "replay").find(ask("a")) is not None
    for mode in ("auto", "record"):
        with pytest.raises(
            ConfigurationError, match=r"cannot be written \(it is read-only\); chmod u\+w it"
        ):
            Cassette(path, mode).find(ask("b"))
        with pytest.raises(ConfigurationError, match="it is read-only"):
            Cassette(path, mode).add(ask("b"), ModelReply("2"))
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o444)


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    Cassette(path, "record").add(ask("a"), ModelReply("1"))
    path.chmod(0o660)
    Cassette(path).add(ask("b"), ModelReply("2"))
    assert path.stat().st_mode & 0o777 == 0o660


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        CassetteFile(tmp_path / "x.jsonl").read()


def test_it_notices_that_somebody_else_has_written(tmp_path: Path) -> None:
    one, two = CassetteFile(tmp_path / "x.jsonl"), CassetteFile(tmp_path / "x.jsonl")
    one.write(Header(), [])
    assert (one.was_changed, two.was_changed) == (False, True)
    two.read()
    two.write(Header(), [exchanged("a")])
    assert (one.was_changed, two.was_changed) == (True, False)


def test_an_exchange_is_added_without_writing_the_others_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    write(again._store._file, again._store._header, again._store.tape.entries)
    assert (tmp_path / "x.jsonl").read_bytes() == whole, (
        "added line by line it is the file that is written whole"
    )


@pytest.mark.parametrize("end", ["", '{"ref": "3f', '{"exchange": "8a"'])
def test_what_is_added_behind_a_last_line_without_an_end_begins_a_line(
    tmp_path: Path, end: str
) -> None:
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


def test_where_an_exchange_cannot_be_added_whole_the_file_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "auto")
    cassette.add(ask("one"), ModelReply("one"))
    before = path.read_bytes()
    opened = Path.open

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(data[:5])

    def narrow(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        return Full(str(self), "ab") if mode == "ab" else opened(self, mode, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", narrow)
        with pytest.raises(ConfigurationError, match="cannot be written"):
            cassette.add(ask("two"), ModelReply("two"))
    assert path.read_bytes() == before
    cassette.add(ask("three"), ModelReply("three"))
    assert Cassette(path, "replay").find(ask("three")) is not None


def test_a_long_conversation_is_opened_in_time_that_grows_with_its_parts(tmp_path: Path) -> None:
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

    read = Cassette(path, "replay", scrub=counted)
    assert read.count == 100
    assert looked_at < 1000
