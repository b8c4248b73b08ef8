"""How long the two hundred replayed conversations of `tests.test_multi_turn` take, in each wire form.

``python -m benchmarks.speed.multi_turn`` prints the seconds; ``--check`` makes more than the wanted 20 an error.
"""

from __future__ import annotations

import argparse
import time
from typing import Literal

from tests.test_multi_turn import (
    SAMPLES,
)
from tests.test_multi_turn import (
    test_each_conversation_ends_in_the_same_state_as_direct_calls as replay,
)

WANTED = 20.0
PROTOCOLS: tuple[Literal["react", "native"], ...] = ("react", "native")


def main(arguments: list[str] | None = None) -> int:
    """Replay them, print the times, and judge where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where they take too long")
    parser.add_argument("--few", action="store_true", help="only those of a normal test run")
    options = parser.parse_args(arguments)
    sample = SAMPLES[0] if options.few else SAMPLES[-1]
    total = 0.0
    for protocol in PROTOCOLS:
        started, used = time.perf_counter(), time.process_time()
        replay(protocol, at_once=False, sample=sample)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        total += seconds
        print(f"{protocol}: {seconds:.2f} s, {used:.2f} s of the processor")
    print(f"{'ok ' if total <= WANTED else 'NOT'}  both: {total:.2f} s (at most {WANTED:g})")
    return int(options.check and total > WANTED)


if __name__ == "__main__":
    raise SystemExit(main())
