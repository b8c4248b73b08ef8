"""A cassette's lock lies beside it: whoever writes it waits for the others, and nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.file import CassetteFile
from archytas_nb.cassettes.values import Header
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import ModelReply
from tests.cassettes.tapes import ask, exchanged
from tests.cassettes.test_file import WRITER

HOLDER = """
import sys, time
from pathlib import Path
from archytas_nb.cassettes.file import CassetteFile
with CassetteFile(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""
ROOT = Path(__file__).parents[3]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_processes_with_temporary_folders_of_their_own_lose_nothing(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", [".x.jsonl.lock", ".x.jsonl.{pid}"])
def test_a_planted_link_is_never_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("keep me")
    folder, name = tmp_path / "cassettes", name.format(pid=os.getpid())
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "precious")
    try:
        Cassette(folder / "x.jsonl", "auto").add(ask("a"), ModelReply("1"))
    except ConfigurationError as error:
        assert name in str(error)  # noqa: PT017 - either way the target is as it was
    assert (tmp_path / "precious").read_text() == "keep me"


def test_nothing_is_left_in_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    Cassette(tmp_path / "x.jsonl", "auto").add(ask("a"), ModelReply("1"))
    assert names(tmp_path) == ["t", "x.jsonl"]
    assert names(tmp_path / "t") == []


def test_a_process_that_was_killed_holds_no_lock_and_its_file_goes_with_the_next_one(
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


def test_who_waits_too_long_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archytas_nb.cassettes.file._WAIT", 0.05)
    path = tmp_path / "x.jsonl"
    with CassetteFile(path).locked(), pytest.raises(ConfigurationError, match="another process"):  # noqa: SIM117
        with CassetteFile(path).locked():
            pass
    with CassetteFile(path).locked():
        pass


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    CassetteFile(folder / "x.jsonl").write(Header(), [exchanged("a")])
    folder.chmod(0o555)
    try:
        with pytest.raises(ConfigurationError, match="read-only"):
            Cassette(folder / "x.jsonl", "auto").add(ask("b"), ModelReply("1"))
        assert Cassette(folder / "x.jsonl", "replay").count == 1
    finally:
        folder.chmod(0o755)
