"""The requests that were sent are kept, also while several threads send."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from archytas_nb.models import sent


def test_requests_of_several_threads_are_all_kept() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            bodies = [b"body %d" % number for number in range(3000)]
            list(pool.map(lambda body: sent.record("here", body), bodies))
    finally:
        sys.setswitchinterval(before)
    kept = {each.body for each in sent.requests}
    assert set(bodies) <= kept
