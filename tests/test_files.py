"""One writer: whatever is at the place of a file, and whenever a write ends, nothing is lost and nothing is left."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import files
from archytas_nb.errors import FileError
from archytas_nb.files import OutputFile, is_signed, signed, unsigned
from tests.written import USES, Use, left

ROOT = Path(__file__).parent.parent
IS_ROOT = getattr(os, "geteuid", lambda: 1)() == 0
OTHER = 65534  # another user
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's link")

Tree = dict[str, tuple[int, bytes | str | None]]


def tree(folder: Path) -> Tree:
    """Everything in a folder: the rights, and the contents or where it leads."""
    found: Tree = {}
    for each in sorted(folder.rglob("*")):
        content: bytes | str | None = None
        if each.is_symlink():
            content = str(each.readlink())
        elif each.is_file():
            content = each.read_bytes()
        found[str(each.relative_to(folder))] = each.lstat().st_mode, content
    return found


@contextmanager
def place(use: Use) -> Iterator[tuple[Path, Path]]:
    """A new folder, and the place of the file in it."""
    root = Path(tempfile.mkdtemp(prefix="files-"))
    try:
        (root / "work").mkdir()
        yield root, root / "work" / use.name
    finally:
        shutil.rmtree(root)


# ── what is at the place ──────────────────────────────────────────────────────────────────────────

everywhere = pytest.mark.parametrize("name", USES)


@everywhere
def test_a_new_file_has_the_rights_of_new_files_or_is_private(name: str) -> None:
    use = USES[name]
    mask = os.umask(0o027)
    try:
        with place(use) as (_, path):
            use.write(path, "first")
            assert path.stat().st_mode & 0o777 == (0o600 if use.is_private else 0o640)
            assert left(path) == []
            if use.is_private and path.parent.name != "work":
                assert path.parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(mask)


@everywhere
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o777])
def test_a_file_keeps_its_rights_and_its_other_names_keep_the_contents(
    name: str, mode: int
) -> None:
    use = USES[name]
    with place(use) as (root, path):
        use.write(path, "first")
        path.chmod(mode)
        os.link(path, root / "other")
        before = path.read_bytes()
        use.write(path, "second")
        assert path.stat().st_mode & 0o777 == mode
        assert (root / "other").read_bytes() == before
        assert left(path) == []


@everywhere
@needs_root
def test_a_file_keeps_its_owner_unless_it_may_hold_secrets(name: str) -> None:
    use = USES[name]
    with place(use) as (_, path):
        use.write(path, "first")
        path.chmod(0o644)
        os.chown(path, OTHER, OTHER)
        use.write(path, "second")
        found = path.stat()
        if use.is_private:
            assert (found.st_uid, found.st_mode & 0o777) == (os.geteuid(), 0o600)
        else:
            assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (OTHER, OTHER, 0o644)


@everywhere
@pytest.mark.parametrize(
    "state", ["a directory", "read-only", "a pipe", "below a file", "a circle"]
)
def test_what_cannot_be_replaced_is_one_clear_error(name: str, state: str) -> None:
    use = USES[name]
    with place(use) as (root, path):
        if state == "below a file":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.parent.rmdir()
            path.parent.write_text("a file")
        else:
            use.write(path, "first")
            if state == "read-only":
                path.chmod(0o444)
            else:
                path.unlink()
            if state == "a directory":
                (path / "more").mkdir(parents=True)
            elif state == "a pipe":
                os.mkfifo(path)
            elif state == "a circle":
                path.symlink_to(path)
        if state == "a pipe" and path.suffix in (".jsonl", ".json"):
            return  # to read a pipe waits
        before = tree(root)
        with pytest.raises(Exception, match=path.name) as caught:
            use.write(path, "second")
        assert caught.type.__module__ == "archytas_nb.errors", caught.value
        assert tree(root) == before


@everywhere
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_of_ones_own_is_followed_and_stays_a_link(name: str, is_there: bool) -> None:
    use = USES[name]
    with place(use) as (root, path):
        target = root / f"real-{path.name}"
        if is_there:
            use.write(path, "first")
            path.rename(target)
            target.chmod(0o660)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))
        before = target.read_bytes() if is_there else None
        use.write(path, "second")
        assert path.is_symlink()
        assert target.read_bytes() != before
        assert not is_there or target.stat().st_mode & 0o777 == 0o660
        assert left(path) == []


@everywhere
@pytest.mark.parametrize(
    "text", ['{"cells": ["a year"], "nbformat": 4}\n', "x = 1\n", "[1, 2]", "\x00\x01", "no JSON"]
)
def test_a_file_of_the_person_is_not_replaced(name: str, text: str) -> None:
    use = USES[name]
    if use.takes_any:
        return
    with place(use) as (root, path):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        before = tree(root)
        try:
            use.write(path, "second")
        except Exception as error:
            assert type(error).__module__ == "archytas_nb.errors", error  # noqa: PT017
            assert tree(root) == before
        else:  # an entry was added to the file of another program
            assert path.name in (".mcp.json", "mcp_settings.json")
            assert '"nbformat": 4' in path.read_text()


@pytest.mark.parametrize("name", ["conversation", "script", "test", "notebook"])
def test_a_file_that_was_edited_is_not_replaced(name: str) -> None:
    """At any place: each byte of it is changed once."""
    use = USES[name]
    with place(use) as (_, path):
        use.write(path, "first")
        whole = path.read_bytes()
        for at in range(0, len(whole), 1 + len(whole) // 50):
            if whole[at : at + 1] in b"\r\n":
                continue
            edited = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
            path.write_bytes(edited)
            with pytest.raises(FileError):
                use.write(path, "second")
            assert path.read_bytes() == edited
        path.write_bytes(whole + b"# mine\n")
        with pytest.raises(FileError):
            use.write(path, "second")


@given(st.text(), st.text(), st.text(st.characters(categories=("L", "N", "P", "Z"))))
def test_a_text_is_signed_until_it_is_changed(before: str, after: str, more: str) -> None:
    text = signed(f"{before}{unsigned('by us')}{after}".replace("\r", ""), "by us")
    assert is_signed(text, "by us")
    assert is_signed(text.replace("\n", "\r\n"), "by us")
    assert not is_signed(text, "by them")
    assert not more or not is_signed(text + more, "by us")


# ── links ─────────────────────────────────────────────────────────────────────────────────────────


@st.composite
def roads(draw: st.DrawFn) -> list[tuple[str, bool, bool]]:
    """The folders on the way to a file, and the file: a folder or a link, whose, in whose folder."""
    kinds = st.sampled_from(["real", "real", "link", "relative"])
    return draw(st.lists(st.tuples(kinds, st.booleans(), st.booleans()), min_size=1, max_size=4))


@needs_root
@given(
    roads(),
    st.sampled_from(["replace", "private", "append", "recording", "conversation", "script"]),
    st.booleans(),
)
def test_no_link_of_another_user_is_followed_anywhere(
    road: list[tuple[str, bool, bool]], name: str, is_there: bool
) -> None:
    """Nor a link in the folder of another user, whoever it belongs to."""
    use = USES[name]
    with place(use) as (root, _):
        here = root / "work"
        real = root / "real"
        real.mkdir()
        is_planted = False
        for number, (kind, is_mine, is_my_folder) in enumerate(road):
            is_last = number == len(road) - 1
            step = here / (use.name if is_last else f"step{number}")
            if not is_my_folder:
                os.chown(here, OTHER, OTHER)
                here.chmod(0o777)
            if kind == "real":
                if not is_last:
                    step.mkdir()
            else:
                target = real / (use.name if is_last else f"folder{number}")
                if not is_last:
                    target.mkdir()
                step.symlink_to(
                    target if kind == "link" else os.path.relpath(target, here.resolve())
                )
                owner = 0 if is_mine else OTHER
                os.lchown(step, owner, owner)
                is_planted = is_planted or not is_mine or here.stat().st_uid != 0
            here = step
        if is_there:
            use.write(here.resolve(), "first")
        before = tree(root)
        if is_planted:
            with pytest.raises(FileError, match="link of another user"):
                use.write(here, "second")
            assert tree(root) == before
        else:
            use.write(here, "second")
            assert here.resolve().read_bytes()
            assert tree(root) != before


@needs_root
def test_a_file_beside_the_target_that_was_planted_is_not_used(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    for number in range(20):
        link = tmp_path / f".x.txt.{number:08x}.part"
        link.symlink_to(precious)
        os.lchown(link, OTHER, OTHER)
    OutputFile(tmp_path / "x.txt", "the file").write("new")
    assert precious.read_text() == "keep me"


# ── a write that ends ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file can be larger than this, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_at(name: str, step: int) -> None:
    use = USES[name]
    with place(use) as (root, path):
        for is_there in (False, True):
            if is_there:
                use.write(path, "first")
                path.chmod(0o640)
            before = tree(root)
            size = 0
            while True:
                with room(size):
                    try:
                        use.write(path, "second")
                    except FileError as error:
                        assert path.name in str(error)  # noqa: PT017
                    else:
                        break
                assert tree(root) == before, size
                size += step
            assert left(path) == []
            assert size > 0
            path.unlink()


@everywhere
def test_a_full_disk_changes_nothing(name: str) -> None:
    full_at(name, 61)


@pytest.mark.slow
@everywhere
def test_a_full_disk_at_every_byte_changes_nothing(name: str) -> None:
    full_at(name, 1)


def ended(*names: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.written", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_write_that_is_ended_at_any_step_loses_nothing() -> None:
    ended("private", "recording, appended", "script")


@pytest.mark.slow
def test_each_write_that_is_ended_at_any_step_loses_nothing() -> None:
    ended()


@pytest.mark.parametrize("state", ["absent", "open to all", "own link"])
def test_a_log_is_for_its_owner_only(tmp_path: Path, state: str) -> None:
    path = tmp_path / "made" / "server.log"
    if state != "absent":
        path.parent.mkdir()
        path.write_text("of before")
        path.chmod(0o666)
    if state == "own link":
        path.rename(tmp_path / "real.log")
        path.symlink_to(tmp_path / "real.log")
    with OutputFile(path, "the log").begin() as log:
        log.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    if state == "absent":
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "x.txt", "the file")
    texts = [f"{number}" * 50_000 for number in range(8)]

    def work(text: str) -> None:
        for _ in range(20):
            file.write(text)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for each in threads:
        each.start()
    seen = set()
    while any(each.is_alive() for each in threads):
        if file.path.exists():
            seen.add(file.path.read_text())
    for each in threads:
        each.join()
    assert seen <= set(texts)
    assert left(file.path) == []


@pytest.mark.parametrize("name", ["fchmod", "fchown", "fsync", "flock"])
def test_a_file_system_that_lacks_something_can_be_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network drives and sticks: without rights, owners, locks, or a wait for the disk."""

    def lacks(*_: object) -> None:
        number = errno.EPERM if name in ("fchmod", "fchown") else errno.ENOTSUP
        raise OSError(number, os.strerror(number))

    file = OutputFile(tmp_path / "x.txt", "the file")
    file.write("one")
    monkeypatch.setattr(fcntl if name == "flock" else os, name, lacks)
    with file.locked():
        file.write("two")
    assert (file.path.read_text(), left(file.path)) == ("two", [])


def test_a_long_name_and_names_like_patterns_can_be_written(tmp_path: Path) -> None:
    for name in ("x" * 255, "ä" * 127, "a.*[b]", "-f", " ", "new\nline"):
        file = OutputFile(tmp_path / name, "the file")
        file.write("one")
        file.write("two")
        assert file.path.read_text() == "two"
        assert left(file.path) == [each for each in left(file.path) if ".part" not in each]


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FileError):
        OutputFile(Path("x.txt"), "the file").write("new")
    monkeypatch.chdir(tmp_path)


# ── nobody else writes ────────────────────────────────────────────────────────────────────────────

PACKAGE = ROOT / "archytas_nb"
WRITES = {
    "write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile", "TemporaryFile", "truncate", "ftruncate",
    "symlink", "symlink_to", "hardlink_to", "rename", "renames", "mkdir", "makedirs", "fdopen",
}  # fmt: skip
OF_MODULES = {
    "os": {"open", "replace", "link"},
    "io": {"open", "FileIO"},
    "codecs": {"open"},
    "tempfile": {"mkdtemp"},
    "shutil": {"move", "copy", "copy2", "copyfile", "copymode", "copystat", "copytree"},
}
ALLOWED = {
    # It runs without the package, in a folder that is its user's alone.
    "models/embedded/serve.py": {"fdopen", "os.open", "replace"},
    # The folder of its user alone, in which a key is kept; the log before the last one.
    "models/embedded/process.py": {"mkdir", "replace"},
    # Empty directories in a folder of its own.
    "batch/claims.py": {"mkdir", "rename"},
    # Descriptors for reading alone, or that can be neither read nor written.
    "copies/inherited.py": {"os.open"},
    "copies/landlock.py": {"os.open"},
    "copies/lock.py": {"os.open"},
    "copies/prepared.py": {"os.open"},
    # What native code prints, in the scratch folder of a copy; the folder itself.
    "copies/program.py": {"os.open", "ftruncate"},
    "copies/scratch.py": {"rename", "tempfile.mkdtemp", "shutil.copyfile"},
    "copies/watch.py": {"write_text"},  # what the system does with the process of a copy
    # Contents in a temporary folder of its own; and files of the person, put back by an undo.
    "effects/states.py": {
        "mkdir",
        "open",
        "touch",
        "write_bytes",
        "replace",
        "shutil.copyfile",
        "symlink_to",
    },
}


# ── temporary folders ─────────────────────────────────────────────────────────────────────────────

MAKES = """
import os, signal, sys
from archytas_nb.files import TemporaryFolder
folder = TemporaryFolder("test")
(folder.path / "in it").mkdir()
child = os.fork() if sys.argv[1] == "forks" else -1
if child == 0:
    folder.remove()
    os.closerange(0, 3)
    signal.pause()  # it outlives its parent
print(folder.path, child, flush=True)
sys.stdin.readline()
"""


Maker = Callable[..., tuple["subprocess.Popen[str]", Path]]


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    """Starts a process that makes a temporary folder, and says where."""
    with ExitStack() as stack:

        def start(how: str = "") -> tuple[subprocess.Popen[str], Path]:
            process = subprocess.Popen(
                [sys.executable, "-c", MAKES, how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"TMPDIR": str(tmp_path)},
                cwd=ROOT,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            path, _, child = process.stdout.readline().strip().rpartition(" ")
            if child != "-1":
                stack.callback(os.kill, int(child), signal.SIGKILL)
            return process, Path(path)

        yield start


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_a_temporary_folder_of_a_killed_process_goes_with_the_next_one(maker: Maker) -> None:
    killed, left = maker()
    running, held = maker()
    assert left.parent == held.parent
    killed.kill()
    killed.wait()
    assert left.exists()
    ended, last = maker()
    assert not left.exists()
    assert held.exists()
    ended.communicate("\n")
    assert ended.returncode == 0
    assert not last.exists()
    assert held.exists()
    assert running.poll() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_neither_removes_nor_holds_a_temporary_folder(maker: Maker) -> None:
    parent, folder = maker("forks")
    assert (folder / "in it").exists()
    parent.kill()
    parent.wait()
    maker()
    assert not folder.exists()


def test_a_folder_of_another_name_or_kind_is_left(maker: Maker, tmp_path: Path) -> None:
    """Nothing that the package did not make is removed, whatever its name leads to."""
    other = tmp_path / "mine"
    other.mkdir()
    (tmp_path / f"{files._TEMPORARY}link").symlink_to(other)
    (tmp_path / f"{files._TEMPORARY}file").touch()
    maker()
    assert {each.name for each in tmp_path.iterdir()} >= {
        "mine",
        f"{files._TEMPORARY}link",
        f"{files._TEMPORARY}file",
    }


def writes(source: str) -> set[str]:
    """The calls in a module that write to the disk."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = None
        if isinstance(function, ast.Attribute):
            owner = getattr(function.value, "id", "")
        if name in OF_MODULES.get(owner or "", ()):
            found.add(f"{owner}.{name}")
        elif name == "open":
            given = [*node.args, *(each.value for each in node.keywords if each.arg == "mode")]
            modes = [
                each.value
                for each in given
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            if any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes):
                found.add("open")
        elif name in WRITES:
            found.add(name)
        elif name == "replace" and owner is not None and len(node.args) == 1 and not node.keywords:
            found.add(name)  # of a path: that of a text has two arguments
    return found


def test_no_other_module_writes_files() -> None:
    others = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        found = writes(file.read_text(encoding="utf-8"))
        if name != "files.py" and found - ALLOWED.get(name, set()):
            others[name] = found - ALLOWED.get(name, set())
    assert others == {}


@pytest.mark.parametrize(
    "source",
    [
        "open('x', 'w')", "path.open(mode='ab')", "path.open('x+')", "Path('x').write_text('')", "path.write_bytes(b'')",
        "os.replace(a, b)", "os.open(path, os.O_CREAT)", "tempfile.mkstemp()", "path.replace(other)", "shutil.copyfile(a, b)",
        "path.rename(other)", "os.makedirs(path)", "path.mkdir()", "path.touch()", "io.open('x', 'wb')",
    ],
)  # fmt: skip
def test_the_search_finds_a_write(source: str) -> None:
    assert writes(source)
