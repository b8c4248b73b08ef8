"""The file of a map's results: rows are claimed by one kernel at a time, and come back from those that are gone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archytas_nb import ConfigurationError
from archytas_nb.batch import store as module
from archytas_nb.batch.store import OPEN, RowFailure, RowResult, Store, stored
from archytas_nb.loop.events import Usage

ROOT = Path(__file__).parent.parent.parent
DONE = RowResult("done", "yes", usage=Usage(1, 10, 0, 5), spent=Usage(1, 10, 0, 5))
FAILED = RowResult("failed", error="no", usage=Usage(1, 10), spent=Usage(1, 10), kind="server")
HOLDER = """
import sys, time
from pathlib import Path
from types import FrameType
from archytas_nb.batch.store import Store
store = Store(Path(sys.argv[1]))
print(store.claim("a").state, flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "map.sqlite"


@pytest.fixture
def pair(path: Path) -> Iterator[tuple[Store, Store]]:
    one, two = Store(path), Store(path)
    yield one, two
    one.close()
    two.close()


def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without locks, or on another machine."""
    monkeypatch.setattr(module, "_held_lock", lambda owner: None)


def test_a_row_in_progress_is_left_to_its_owner_until_it_has_a_result(
    pair: tuple[Store, Store],
) -> None:
    one, two = pair
    assert one.claim("a").state == "mine"
    assert two.claim("a").state == "elsewhere"
    assert two.claim("b").state == "mine"
    assert one.put("a", DONE) == DONE
    claim = two.claim("a")
    assert (claim.state, claim.row) == ("ended", DONE)


def test_a_row_that_failed_before_the_map_is_tried_again_and_one_that_failed_during_it_is_not(
    pair: tuple[Store, Store], path: Path
) -> None:
    one, two = pair
    one.claim("a")
    one.put("a", FAILED)
    assert two.claim("a").state == "ended"
    assert two.claim("a", stored(path, ["a"])["a"]).state == "mine"


def test_an_interrupted_row_is_open_to_others(pair: tuple[Store, Store]) -> None:
    one, two = pair
    one.claim("a")
    one.put("a", OPEN)
    assert two.claim("a").state == "mine"


def test_closing_the_file_gives_back_the_rows_and_leaves_no_other_file(path: Path) -> None:
    one = Store(path)
    one.claim("a")
    one.close()
    two = Store(path)
    assert two.claim("a").state == "mine"
    two.close()
    assert [each.name for each in path.parent.iterdir()] == ["map.sqlite"]
    assert not list(Path(module.tempfile.gettempdir()).glob(f"*{one._owner}*"))


def test_the_rows_of_a_killed_process_are_free_at_once(path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        other = Store(path)
        assert other.claim("a").state == "elsewhere"
        process.send_signal(signal.SIGSTOP)
        assert other.claim("a").state == "elsewhere"
        process.kill()
        process.wait()
        assert other.claim("a").state == "mine"
        other.close()


def test_an_owner_without_a_sign_of_life_is_gone_after_the_lease_and_may_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_locks(monkeypatch)
    monkeypatch.setattr(module, "_BEAT", 1000.0)
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    one, two = Store(path), Store(path)
    one.claim("a")
    one.claim("b")
    assert two.claim("a").state == "elsewhere"
    now[0] = module.LEASE - 1
    assert two.claim("a").state == "elsewhere"
    now[0] = module.LEASE + 1
    assert two.claim("a").state == "mine"
    # It was suspended and goes on: what it has paid counts, and nobody disturbs the new owner.
    one.put("a", FAILED)
    assert one.claim("a", FAILED).state == "elsewhere"
    row = two.put("a", DONE)
    assert row.usage == FAILED.usage + DONE.usage
    assert stored(path, ["a"])["a"] == replace(DONE, usage=row.usage, spent=row.spent)
    one.claim("c")
    assert two.claim("b").state == "elsewhere"
    one.close()
    assert two.claim("b").state == "mine"
    two.close()


def test_signs_of_life_keep_an_owner_for_longer_than_the_lease(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_locks(monkeypatch)
    monkeypatch.setattr(module, "_BEAT", 0.01)
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    one, two = Store(path), Store(path)
    one.claim("a")

    def last_sign() -> int:
        assert two.claim("a").state == "elsewhere"
        [(sign, _)] = two._beats.values()
        return sign

    for _ in range(3):
        seen = last_sign()
        while last_sign() == seen:
            time.sleep(0.01)
        now[0] += 0.9 * module.LEASE
    assert two.claim("a").state == "elsewhere"
    one.close()
    two.close()


def test_a_row_that_is_done_stays_done_and_counts_what_was_paid_twice(
    pair: tuple[Store, Store], path: Path
) -> None:
    one, two = pair
    one.put("a", DONE)
    late = two.put("a", replace(DONE, answer="no"))
    assert late.answer == "yes"
    assert late.usage == DONE.usage + DONE.usage
    assert stored(path, ["a"]) == {"a": late}


def test_what_a_request_may_cost_is_known_after_a_crash(path: Path) -> None:
    one = Store(path)
    one.claim("a")
    one.note("a", Usage(1, 100, 0, 50, 0.5))
    assert stored(path, ["a"])["a"].spent == Usage(1, 100, 0, 50, 0.5)
    one.put("a", replace(DONE, spent=Usage(0, -90, 0, -45, -0.5)))
    assert stored(path, ["a"])["a"].spent == DONE.spent
    one.close()


EARLIER = """
CREATE TABLE archytas_nb_rows (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, answer TEXT NOT NULL, error TEXT NOT NULL,
    usage TEXT NOT NULL, seconds REAL NOT NULL, spent TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO archytas_nb_rows VALUES ('a', 'done', '"yes"', '', '[1,10,0,5,0]', 0.0, '[1,10,0,5,0]');
PRAGMA user_version=1;
"""


def test_a_file_of_the_earlier_layout_is_read_as_it_is_and_goes_on(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.executescript(EARLIER)
    database.close()
    before = path.read_bytes()
    assert stored(path, ["a", "b"]) == {"a": DONE}
    assert path.read_bytes() == before
    store = Store(path)
    assert store.claim("a").state == "ended"
    assert store.claim("b").state == "mine"
    store.put("b", FAILED)
    store.close()
    assert stored(path, ["a", "b"]) == {"a": DONE, "b": FAILED}


FAILURES = st.builds(
    RowFailure,
    st.sampled_from(["raised", "bound", "gave_up", "wrong_type", "lost"]),
    st.text(min_size=4, max_size=20),
    st.integers(0, 99),
    st.text(max_size=20),
    st.none() | st.sampled_from(["ValueError", "KeyError"]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(failure=FAILURES)
def test_a_failure_comes_back_from_the_file_as_it_was(path: Path, failure: RowFailure) -> None:
    store = Store(path)
    failed = RowResult("failed", error="no", failure=failure)
    store.put("f", failed)
    store.close()
    [kept] = stored(path, ["f"]).values()
    assert kept.failure == failure


@given(failure=FAILURES, value=st.text(alphabet="qzw", min_size=5, max_size=9))
def test_what_a_model_reads_without_values_does_not_depend_on_the_text(
    failure: RowFailure, value: str
) -> None:
    other = replace(failure, text=value)
    if failure.kind != "bound":
        assert failure.without_values == other.without_values
    assert value in other.in_words
    if failure.kind == "raised" and failure.line and failure.raised:
        assert failure.raised in failure.without_values


def test_another_table_of_that_name_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE archytas_nb_rows (id INTEGER)")
    database.close()
    with pytest.raises(ConfigurationError, match=r"map\.sqlite"):
        stored(path, ["a"])
    with pytest.raises(ConfigurationError, match=r"map\.sqlite"):
        Store(path).claim("a")


def test_a_file_that_another_process_locks_for_too_long_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.1)
    store = Store(path)
    with sqlite3.connect(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConfigurationError, match=r"map\.sqlite.*locked"):
            store.claim("a")
        other.rollback()
    other.close()
    assert store.claim("a").state == "mine"
    store.close()


class World:
    """Three kernels, as seen by the file; any of them may be killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stores = [Store(path) for _ in range(3)]
        self.mine: list[set[str]] = [set(), set(), set()]

    def restart(self, at: int, *, kill: bool) -> None:
        if kill:  # the system releases the lock; the table still has the owner
            store = self.stores[at]
            assert store._process is not None
            store._process.release()
            store._closed.set()
            assert store._database is not None
            store._database.close()
        else:
            self.stores[at].close()
        self.stores[at] = Store(self.path)
        self.mine[at] = set()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "done", "failed", "kill", "close"]),
        st.integers(0, 2),
        st.sampled_from("abcd"),
    ),
    max_size=30,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_a_row_has_one_owner_at_a_time_and_is_never_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]]
) -> None:
    world = World(tmp_path_factory.mktemp("store") / "map.sqlite")
    done = set[str]()
    try:
        for what, at, key in steps:
            if what == "claim":
                claim = world.stores[at].claim(key, stored(world.path, [key]).get(key, OPEN))
                owned = [n for n in range(3) if key in world.mine[n]]
                if key in done:
                    assert claim.state == "ended"
                elif owned:
                    assert claim.state == "elsewhere"
                else:
                    assert claim.state == "mine"
                    world.mine[at].add(key)
            elif what in ("done", "failed") and key in world.mine[at]:
                world.stores[at].put(key, DONE if what == "done" else FAILED)
                world.mine[at].remove(key)
                done |= {key} if what == "done" else set()
            elif what in ("kill", "close"):
                world.restart(at, kill=what == "kill")
        assert {
            key for key, row in stored(world.path, "abcd").items() if row.status == "done"
        } == done
    finally:
        for each in world.stores:
            each.close()


def test_each_kernel_counts_what_the_others_spend_for_the_same_rows(
    pair: tuple[Store, Store], path: Path
) -> None:
    one, two = pair
    two.put("a", DONE)
    two.put("x", DONE)
    one.watch({"a": Usage(), "b": Usage(), "c": Usage()})
    assert one.spent_elsewhere() == DONE.spent
    two.claim("b")
    two.note("b", Usage(1, 100))
    one.claim("c")
    one.note("c", Usage(1, 100))
    assert one.spent_elsewhere() == DONE.spent + Usage(1, 100)
    two.put("b", replace(FAILED, spent=Usage(0, -90)))
    assert one.spent_elsewhere() == DONE.spent + Usage(1, 10)
    two.put("c", DONE)  # it was taken for gone
    one.put("c", DONE)
    assert one.spent_elsewhere() == DONE.spent + DONE.spent + Usage(1, 10)


IS_ROOT = getattr(os, "geteuid", lambda: 1)() == 0
OTHER = 54321  # a user who is not there


@pytest.mark.skipif(not IS_ROOT, reason="only root can make another user's link")
@pytest.mark.parametrize("kind", ["the file", "its directory", "a file to be made"])
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, kind: str) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir()
    shared.mkdir()
    if kind != "a file to be made":
        with closing(Store(own / "map.sqlite")) as store:
            store.claim("a")
            store.put("a", DONE)
    before = {each.name: each.read_bytes() for each in own.iterdir()}
    if kind == "its directory":
        planted = shared / "folder"
        planted.symlink_to(own)
        path = planted / "map.sqlite"
    else:
        path = planted = shared / "map.sqlite"
        planted.symlink_to(own / "map.sqlite")
    os.lchown(planted, OTHER, OTHER)
    with pytest.raises(ConfigurationError, match="link of another user"):
        stored(path, ["a"])
    with pytest.raises(ConfigurationError, match="link of another user"):
        Store(path)
    assert {each.name: each.read_bytes() for each in own.iterdir()} == before


def test_a_link_of_ones_own_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    path = tmp_path / "map.sqlite"
    path.symlink_to(tmp_path / "results" / "real.sqlite")
    with closing(Store(path)) as store:
        store.claim("a")
        store.put("a", DONE)
    assert stored(path, ["a"]) == {"a": DONE}
    assert path.is_symlink()
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["real.sqlite"]


def test_links_in_a_circle_are_no_file_of_results(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    for use in (lambda path: stored(path, ["a"]), Store):
        with pytest.raises(ConfigurationError, match=r"the file of results .*one"):
            use(tmp_path / "one")


def test_a_wait_for_a_locked_file_can_be_interrupted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(path).close()
    waits = module.stop.sleep

    def interrupted(seconds: float) -> None:
        signal.raise_signal(signal.SIGINT)
        waits(seconds)

    monkeypatch.setattr(module.stop, "sleep", interrupted)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(KeyboardInterrupt, match="another program"):
            Store(path)
    monkeypatch.undo()
    Store(path).close()


def test_a_store_waits_until_another_program_has_written(path: Path) -> None:
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.5, other.execute, ["ROLLBACK"])
    timer.start()
    Store(path).close()
    timer.join()
    other.close()


def test_an_interrupt_at_any_call_leaves_a_file_that_works(path: Path) -> None:
    """Python interrupts code where a call begins or has ended, so this interrupts each of these."""

    def is_interrupted(store: Store, at: int) -> bool:
        """Keep a result; whether that made so many calls, and was interrupted at the last one."""
        left = at

        def interrupt(frame: FrameType, event: str, arg: object) -> None:
            nonlocal left
            left -= event in {"call", "c_return"}
            if not left:
                raise KeyboardInterrupt

        earlier = sys.getprofile()
        sys.setprofile(interrupt)
        try:
            store.put("a", DONE)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(earlier)
        return False

    at = 1
    with closing(Store(path)) as store:
        while is_interrupted(store, at):
            store.put(f"row {at}", DONE)
            at += 1
        assert at > 50
    rows = stored(path, ["a", *(f"row {n}" for n in range(1, at))])
    assert len(rows) == at
    assert {row.status for row in rows.values()} == {"done"}
