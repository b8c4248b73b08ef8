"""Whether work grows with its size and not with the square of it: a ratio is measured, not seconds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

TIMES = 4
"""How much larger the larger size is."""

MOST = 10.0
"""How much longer it may take; linear work takes 4 times as long, quadratic work 16 times."""

SHORT = 0.05
"""Seconds in which the larger size may be done whatever the ratio: so little says nothing of growth."""


def assert_linear(work: Callable[[int], object], size: int, tries: int = 5) -> None:
    """Fail where four times the size takes far more than four times as long, in each of several tries.

    A busy machine makes one measurement too long now and then; it cannot make all of them so.

    Args:
        work: Does work of a size.
        size: The smaller size.
        tries: How often it is measured.
    """
    ratios = []
    for _ in range(tries):
        small, large = _seconds(work, size), _seconds(work, TIMES * size)
        ratios.append(large / max(small, 1e-9))
        if large < SHORT or ratios[-1] < MOST:
            return
    pytest.fail(f"{TIMES} times the size takes {min(ratios):.1f} times as long")


def _seconds(work: Callable[[int], object], size: int) -> float:
    # Nothing is collected meanwhile: what the process holds says nothing of the work, and is large after other tests.
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.process_time()
        work(size)
        return time.process_time() - began
    finally:
        if collects:
            gc.enable()
