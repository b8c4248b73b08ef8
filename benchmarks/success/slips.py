"""How many slips of small models are cured without a request, by kind.

    python -m benchmarks.success.slips CASES [SEED] [--without]

Each case is a random table, a program with a computed answer and one or two slips in it
(`tests/small/slips.py`), which a scripted model writes again and again. Right is the right answer,
doubted another one with a doubt, none no answer, wrong another one without a doubt. With
``--without`` nothing is cured. No model is asked.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

from archytas_nb.sandbox import in_copy as session
from benchmarks.success.frames import PIECES
from tests.small.direct import DirectCopy
from tests.small.slips import SLIPS, case
from tests.small.test_slips import came_of


def main() -> None:
    """Draw the cases and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--without", action="store_true", help="cure nothing")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    kinds = list(SLIPS)
    warnings.simplefilter("ignore")
    with ExitStack() as patches:
        for each in [*PIECES["cures"](), *PIECES["missing"]()] if given.without else ():
            patches.enter_context(each)
        patches.enter_context(patch.object(session, "Copy", DirectCopy))
        for seed in range(given.seed, given.seed + given.cases):
            drawn = case(random.Random(seed), kinds[seed % len(kinds)])
            name = drawn.slips[0] if len(drawn.slips) == 1 else "two slips"
            came = came_of(drawn).split(":")[0]
            counts.setdefault(name, Counter())[came] += 1
            counts.setdefault("all", Counter())[came] += 1
            if came == "wrong":
                print(f"wrong with seed {seed}, expected {drawn.expected!r}:\n{drawn.program}")
    for name, found in sorted(counts.items(), key=lambda each: each[0] == "all"):
        listed = ", ".join(
            f"{each} {found[each]}" for each in ("right", "doubted", "none", "wrong")
        )
        print(f"{name:12} {found.total():5}: {listed}")


if __name__ == "__main__":
    main()
