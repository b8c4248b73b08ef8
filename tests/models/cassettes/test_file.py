"""A file is whole or as it was, whatever happens to whoever writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.cassettes.cassette import Cassette
from archytas_nb.models.cassettes.file import CassetteFile
from archytas_nb.models.cassettes.values import Header
from archytas_nb.react.events import ModelReply
from tests.models.cassettes.tapes import ask, exchanged

WRITER = """
import sys
from archytas_nb.models.cassettes.cassette import Cassette
from archytas_nb.react.events import ModelReply
from tests.models.cassettes.tapes import ask
cassette = Cassette(sys.argv[1], "auto")
for n in range(int(sys.argv[3])):
    cassette.add(ask(f"{sys.argv[2]} {n}"), ModelReply(f"{sys.argv[2]} {n}"))
"""


def test_processes_that_record_into_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, "15"], cwd=Path(__file__).parents[3]) for name in ("one", "two")]
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


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with pytest.raises(ConfigurationError, match=r"cannot be written \(it is read-only\); chmod u\+w it"):
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
