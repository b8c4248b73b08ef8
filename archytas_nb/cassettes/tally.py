"""What a cassette was used for: counted while it is used, told to whoever runs the notebook.

A kernel is another process than the test runner, so the count is a small JSON file that the runner names by the
environment. It knows counts, and no request.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

from archytas_nb.loop.events import Usage


@dataclass(slots=True)
class Tally:
    """What a cassette was used for.

    Attributes:
        replayed: Exchanges that were given out.
        recorded: Exchanges that were added.
        missed: The cause of each request that was not recorded, in order.
        unused: Exchanges that nobody has asked for, and how each is called: its fingerprint, and which of the
            exchanges with that fingerprint it is, counted from 0.
        usage: What the replayed exchanges cost when they were recorded.
        pruned: Exchanges that were dropped.
    """

    replayed: int = 0
    recorded: int = 0
    missed: list[str] = field(default_factory=list)
    unused: list[tuple[str, int]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    pruned: int = 0

    def write(self, file: Path, cassette: Path, mode: str) -> None:
        """Put it where the runner looks; a runner that is gone is told nothing."""
        told = {"cassette": str(cassette), "mode": mode, **dataclasses.asdict(self)}
        beside = file.with_suffix(".part")
        try:
            beside.write_text(json.dumps(told), "utf-8")
            beside.replace(file)
        except OSError:
            return
