"""A claim is taken at most once, also while the map ends."""

from __future__ import annotations

import threading
from pathlib import Path

from archytas_nb.batch.claims import Claims, take


def test_a_claim_that_was_taken_is_never_free_again_while_the_map_ends() -> None:
    # Many claims, so that emptying the folder takes longer than a look at one of them.
    claims = Claims()
    tokens = [f"attempt-{number}" for number in range(400)]
    assert all(claims.take(each) for each in tokens)
    found: set[bool | None] = set()
    has_begun, has_ended = threading.Event(), threading.Event()

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
