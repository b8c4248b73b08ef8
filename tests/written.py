"""The files that the package writes, with each write ended at each step: ``python -m tests.written``.

Each use writes a file twice. The second write runs in a child process that is killed, interrupted or finds the disk
full at the nth system call that changes something, for each n. It prints a line for each case in which the earlier
contents are not whole, or a file is left that the next write does not remove.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.code.files import FilePart, write
from archytas_nb.errors import ArchytasError
from archytas_nb.files import OutputFile
from archytas_nb.kernel.registered import register
from archytas_nb.loop.events import AskModel, ModelReply
from archytas_nb.mcp import clients
from archytas_nb.testing import ScriptedModel


def _exchange(text: str) -> tuple[AskModel, ModelReply]:
    return AskModel(1, ({"role": "user", "content": text},)), ModelReply(text)


def _record(path: Path, text: str) -> None:
    Cassette(path, "auto").add(*_exchange(text))


def _append(path: Path, text: str) -> None:
    cassette = Cassette(path, "auto")
    for each in cassette.tape.entries:
        cassette.tape.take(each.key)
    cassette.add(*_exchange(text))


def _prune(path: Path, text: str) -> None:
    _record(path, text)
    cassette = Cassette(path, "auto")
    cassette.find(_exchange(text)[0])
    cassette.prune()


def _record_again(path: Path, text: str) -> None:
    Cassette(path, "record").add(*_exchange(text))


def _save(path: Path, text: str) -> None:
    agent = Agent([], model=ScriptedModel(("final_answer", text)), namespace={})
    agent.run(text, progress=False)
    agent.save(path)


def _code(path: Path, text: str) -> None:
    write(path, [FilePart(f"x = {text!r}")], {}, repr)


def _entry(path: Path, text: str) -> None:
    client = next(name for name, file in clients.FILES.items() if file.path.endswith(path.name))
    clients.write_entry(
        client, path.parents[len(Path(clients.FILES[client].path).parts) - 1], text, "token"
    )


def _register(path: Path, text: str) -> None:
    os.environ["JUPYTER_RUNTIME_DIR"] = str(path.parent)
    register("law", text, "token")


@dataclass(frozen=True)
class Use:
    """Something that writes a file.

    Attributes:
        name: The name of the file, in a folder of its own.
        write: Writes a text to it, in the form of the file.
        is_private: Whether a new file is for its owner only.
        adds: Whether what was there before stays in it.
        takes_any: Whether it replaces what it did not write: the caller has looked.
    """

    name: str
    write: Callable[[Path, str], None]
    is_private: bool = False
    adds: bool = False
    takes_any: bool = False


USES = {
    "replace": Use(
        "plain.txt", lambda path, text: OutputFile(path, "the file").write(text), takes_any=True
    ),
    "private": Use(
        "secret.json",
        lambda path, text: OutputFile(path, "the file", is_private=True).write(text),
        True,
        takes_any=True,
    ),
    "append": Use(
        "log.txt",
        lambda path, text: OutputFile(path, "the file").append(f"{text}\n".encode()),
        adds=True,
        takes_any=True,
    ),
    "recording": Use("tape.jsonl", _record, adds=True),
    "recording, appended": Use("tape.jsonl", _append, adds=True),
    "recording, pruned": Use("tape.jsonl", _prune),
    "recording again": Use("tape.jsonl", _record_again),
    "conversation": Use("talk.json", _save, True),
    "script": Use("work.py", _code),
    "test": Use("test_work.py", _code),
    "notebook": Use("work.ipynb", _code),
    "claude": Use(".mcp.json", _entry, True),
    "jupyter-ai": Use(".jupyter/mcp_settings.json", _entry, True),
    "registration": Use(f"archytas_nb-law-{os.getpid()}.json", _register, True, takes_any=True),
}

# ── a write that ends at a step ───────────────────────────────────────────────────────────────────

STEPS = (
    "open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate", "truncate", "fchmod",
    "chmod", "fchown", "chown", "link", "symlink", "utime",
)  # fmt: skip
FULL = ("open", "write", "fsync", "replace", "mkdir", "fchmod")
"""What fails on a full disk, or where there are no more files."""


class Ended:
    """Counts the calls that change something on the disk, and ends the nth."""

    def __init__(self, fault: str, at: int) -> None:
        self.fault = fault
        self.at = at
        self.number = 0
        for name in STEPS:
            if hasattr(os, name):
                setattr(os, name, self._ended(name, getattr(os, name)))

    def _ended(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not (args[1] & (os.O_CREAT | os.O_TRUNC)):
                return function(*args, **kwargs)
            if self.fault == "full" and name not in FULL:
                return function(*args, **kwargs)
            self.number += 1
            if self.number == self.at:
                if name == "write":
                    function(args[0], args[1][: len(args[1]) // 2])
                if self.fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.fault == "interrupt":
                    raise KeyboardInterrupt
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **kwargs)

        return call


def ended(use: Use, path: Path, fault: str, at: int) -> bool:
    """Write in a child process that ends at a step; whether there was such a step."""
    child = os.fork()
    if child == 0:
        status = 0
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            steps = Ended(fault, at)
            try:
                use.write(path, "second")
            except (ArchytasError, KeyboardInterrupt):
                status = 1
            else:
                status = 1 if steps.number >= at else 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def whole(use: Use, path: Path, before: bytes | None, after: bytes) -> bool:
    """Whether a file has its earlier contents, or its new ones."""
    if before is None and not path.exists():
        return True
    found = path.read_bytes()
    if use.adds and before is not None:  # a line may be cut, which a reader leaves out
        return keeps(path, before)
    return found in (before, after)


def keeps(path: Path, before: bytes) -> bool:
    """Whether all lines are in a file that were there before."""
    found = path.read_bytes().splitlines()
    return all(line in found for line in before.splitlines())


def left(path: Path) -> list[str]:
    """The files in a folder besides one."""
    return (
        sorted(each.name for each in path.parent.iterdir() if each != path)
        if path.parent.exists()
        else []
    )


def cases(name: str, fault: str, *, is_new: bool) -> tuple[int, list[str]]:
    """End a use at each of its steps; the number of steps, and what was not right."""
    use = USES[name]
    faults: list[str] = []
    root = Path(tempfile.mkdtemp(prefix="written-"))
    number = 0
    try:
        path = _place(root, use, 0)
        for text in ("second",) if is_new else ("first", "second"):
            use.write(path, text)
        after = path.read_bytes()
        while True:
            number += 1
            path = _place(root, use, number)
            before = None
            if not is_new:
                use.write(path, "first")
                before = path.read_bytes()
                path.chmod(0o640)
            if not ended(use, path, fault, number):
                break
            where = f"{name}, {'new' if is_new else 'there'}, {fault} at step {number}"
            faults += (f"{where}: {each}" for each in wrong(use, path, fault, before, after))
    finally:
        shutil.rmtree(root)
    return number - 1, faults


def wrong(use: Use, path: Path, fault: str, before: bytes | None, after: bytes) -> Iterator[str]:
    """The faults after a write that has ended, and after the next one."""
    if not whole(use, path, before, after) and not _is_as_new(path):
        yield "the contents are not whole"
    if fault == "full" and left(path):
        yield f"left {left(path)}"
    if fault == "full" and before is None and path.exists():
        yield "a file is there"
    if before is not None and path.stat().st_mode & 0o777 != 0o640:
        yield f"the rights are {path.stat().st_mode & 0o777:o}"
    use.write(path, "third")
    if left(path):
        yield f"after the next write, {left(path)} are left"
    if use.adds and before is not None and not keeps(path, before):
        yield "the next write lost what was there"


def _place(root: Path, use: Use, number: int) -> Path:
    """A place of its own for a file."""
    (root / str(number)).mkdir()
    return root / str(number) / use.name


def _is_as_new(path: Path) -> bool:
    """Whether a file whose contents differ each time is a whole one."""
    try:
        if path.suffix == ".jsonl":
            return Cassette(path, "replay").count > 0
        if path.suffix in (".json", ".ipynb"):
            return bool(json.loads(path.read_bytes()))
    except (ArchytasError, ValueError):
        return False
    return False


def main() -> int:
    """End all uses at all steps; the exit status."""
    total = 0
    bad = 0
    for name in sys.argv[1:] or USES:
        for fault in ("kill", "interrupt", "full"):
            for is_new in (False, True):
                number, faults = cases(name, fault, is_new=is_new)
                total += number
                bad += len(faults)
                for each in faults:
                    print(each)
                if not number:
                    print(f"{name}, {fault}: nothing was ended")
                    bad += 1
    print(f"{total} cases, {bad} wrong")
    return 1 if bad or not total else 0


if __name__ == "__main__":
    sys.exit(main())
