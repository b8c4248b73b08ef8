"""A claim is taken at most once, also while the map ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from archytas_nb.batch.claims import Claims, take
from archytas_nb.batch.elsewhere import Elsewhere, RowEndError, SentCalls
from archytas_nb.batch.parcel import dumps, pack
from archytas_nb.batch.store import RowResult
from archytas_nb.batch.worker import Order, call_there, carry_out
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.tools.tool import Tool

has_begun, may_end = threading.Event(), threading.Event()


def work() -> str:
    has_begun.set()
    may_end.wait(30)
    return "done"


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    has_begun.clear()
    may_end.clear()
    yield
    may_end.set()


def test_a_claim_that_was_taken_is_never_free_again_while_the_map_ends() -> None:
    # Many claims, so that emptying the folder takes longer than a look at one of them.
    claims = Claims()
    tokens = [f"attempt-{number}" for number in range(400)]
    assert all(claims.take(each) for each in tokens)
    found: set[bool | None] = set()
    has_ended = threading.Event()

    def retry() -> None:
        while not has_ended.is_set():
            found.update(take(claims.folder, each) for each in tokens)
            has_begun.set()

    thread = threading.Thread(target=retry)
    thread.start()
    has_begun.wait(10)
    claims.close()
    has_ended.set()
    thread.join(10)
    assert found <= {False, None}
    assert take(claims.folder, "another") is None
    assert not list(Path(claims.folder).parent.glob(f"{Path(claims.folder).name}*"))


@pytest.mark.parametrize("may_repeat", [True, False])
def test_without_a_claim_only_what_may_run_twice_begins(may_repeat: bool, tmp_path: Path) -> None:
    may_end.set()
    parcel = pack(work, {}, [])
    order = Order("t", str(tmp_path / "of another machine"), may_repeat, parcel.digest, dumps(()))
    report = carry_out(order, parcel.data)
    assert has_begun.is_set() is may_repeat
    assert report.state == ("ended" if may_repeat else "refused")


@pytest.mark.parametrize("may_repeat", [True, False])
def test_what_a_stop_finds_begun_is_unknown_unless_it_may_run_twice(may_repeat: bool) -> None:
    with ThreadPoolExecutor(1) as executor:
        elsewhere = Elsewhere(executor, has_begun.is_set)
        elsewhere.open()
        with pytest.raises((KeyboardInterrupt, RowEndError)) as ended:
            elsewhere.run(pack(work, {}, []), (), "pay", may_repeat=may_repeat)
        may_end.set()
        elsewhere.close()
    assert isinstance(ended.value, KeyboardInterrupt) is may_repeat
    if isinstance(ended.value, RowEndError):
        assert ended.value.result.status == "unknown"
        assert "pay" in ended.value.result.error


def test_what_a_stop_finds_waiting_never_begins() -> None:
    with ThreadPoolExecutor(1) as executor:
        elsewhere = Elsewhere(executor, lambda: True)
        elsewhere._claims = Claims()
        executor.submit(may_end.wait, 30)
        with pytest.raises(KeyboardInterrupt):
            elsewhere.run(pack(work, {}, []), (), "pay", may_repeat=False)
        may_end.set()
    assert not has_begun.is_set()


def pay() -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("status", ["open", "failed"])
def test_a_row_that_ends_early_is_unknown_once_it_has_paid(pure: bool, status: str) -> None:
    tool = Tool.from_function(pay, pure=pure)
    with ThreadPoolExecutor(1) as executor:
        elsewhere = Elsewhere(executor, lambda: False)
        elsewhere.open()
        parcel = pack(call_there, {"the tools": {"pay": tool}}, [tool])
        noted: list[str] = []
        calls = SentCalls(elsewhere, parcel, noted.append, may_repeat=False)
        outcome = calls.outcome(tool, None, CallingProgram(), None, lambda: False)
        elsewhere.close()
    assert outcome.result == "paid"
    assert len(noted) == (not pure)
    ended = calls.ended(RowResult(status, error="so it is", kind="executor"))
    assert (ended.status == "unknown") is not pure
    assert calls.ended(RowResult("done")).status == "done"
