"""What became of the cassettes of one notebook or test: read from the kernel's files, put into lines.

It knows counts and files of counts; it knows neither pytest nor a notebook.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(slots=True)
class Told:
    """What became of the cassettes of one notebook or test.

    Attributes:
        name: The notebook, or the test.
        replayed: Exchanges that were given out.
        recorded: Exchanges that were added.
        missed: The causes of requests that were not recorded, in order.
        unused: Exchanges that were not asked for.
        pruned: Exchanges that were dropped.
        input_tokens: What the replayed exchanges had cost, sent.
        output_tokens: What they had cost, written by the model.
    """

    name: str
    replayed: int = 0
    recorded: int = 0
    missed: list[str] = field(default_factory=list)
    unused: int = 0
    pruned: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, tally: dict[str, Any]) -> None:
        """Add what one cassette was used for, but for what was not used."""
        self.replayed += tally["replayed"]
        self.recorded += tally["recorded"]
        self.pruned += tally["pruned"]
        self.missed += tally["missed"]
        self.input_tokens += tally["usage"]["input_tokens"]
        self.output_tokens += tally["usage"]["output_tokens"]

    def as_text(self) -> str:
        """As JSON, to travel in a test report."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `as_text` wrote."""
        return cls(**json.loads(text))

    def line(self, width: int) -> str:
        """One line for a person; the name takes `width` columns."""
        counts = {
            "replayed": self.replayed,
            "recorded": self.recorded,
            "missed": len(self.missed),
            "unused": self.unused,
            "dropped": self.pruned,
        }
        said = [f"{count} {what}" for what, count in counts.items() if count]
        if self.input_tokens or self.output_tokens:
            said.append(f"{self.input_tokens:,} + {self.output_tokens:,} tokens not paid")
        return f"{self.name:{width}}  {', '.join(said) or 'nothing asked'}"


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """What the kernels of a notebook wrote about their cassettes."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def unused_of(reports: Iterable[dict[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """What none of the users of a cassette asked for, by the cassette's path."""
    left: dict[str, list[set[tuple[str, int]]]] = {}
    for report in reports:
        names = {(key, number) for key, number in report["unused"]}
        left.setdefault(report["cassette"], []).append(names)
    return {path: sorted(set.intersection(*each)) for path, each in left.items()}


def summary(told: Sequence[Told], rerun: str) -> list[str]:
    """The lines at the end of a test run."""
    if not told:
        return []
    width = max(len(each.name) for each in told)
    lines = [each.line(width) for each in told]
    causes = Counter(cause for each in told for cause in each.missed)
    if causes:
        lines.append(
            "missed, by cause: " + ", ".join(f"{cause} {count}" for cause, count in causes.items())
        )
    if any(each.unused and not each.missed for each in told):
        lines.append(
            f"unused exchanges were recorded and are not asked for any more; {rerun} drops them"
        )
    tokens = sum(each.input_tokens + each.output_tokens for each in told)
    if len(told) > 1 and tokens:
        lines.append(
            f"in all {sum(each.replayed for each in told)} replayed, {tokens:,} tokens not paid"
        )
    return lines
