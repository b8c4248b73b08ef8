"""Interrupts that are held back for a moment."""

from __future__ import annotations

import signal
import threading

import pytest

from archytas_nb.kernel.interrupts import defer_interrupts


def test_an_interrupt_in_the_block_is_noted_and_not_raised() -> None:
    with defer_interrupts() as hold:
        signal.raise_signal(signal.SIGINT)
        assert hold.interrupted


def test_after_the_block_interrupts_are_raised_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="broken"), defer_interrupts():
        raise ValueError("broken")
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_noted_by_the_innermost_block() -> None:
    with defer_interrupts() as outer:
        with defer_interrupts() as inner:
            signal.raise_signal(signal.SIGINT)
        assert (outer.interrupted, inner.interrupted) == (False, True)


def test_where_interrupts_are_ignored_they_stay_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with defer_interrupts() as hold:
            signal.raise_signal(signal.SIGINT)
        assert not hold.interrupted
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_elsewhere_than_on_the_main_thread_nothing_is_changed() -> None:
    seen: list[object] = []

    def work() -> None:
        with defer_interrupts() as hold:
            seen.extend([hold.interrupted, signal.getsignal(signal.SIGINT)])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [False, before]
