"""The interval of a rate: how certain it is after this many runs."""

from __future__ import annotations

import math

_Z = 1.959964  # 95 %


def wilson(passed: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a rate; from 0 to 1 where nothing was run."""
    if not runs:
        return 0.0, 1.0
    rate = passed / runs
    spread = _Z * _Z / runs
    middle = rate + spread / 2
    half = _Z * math.sqrt(rate * (1 - rate) / runs + spread / (4 * runs))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))
