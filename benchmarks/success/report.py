"""Results → a table for people and JSON for machines. Pure: it runs nothing and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

from benchmarks.success.runner import Result
from benchmarks.success.task import KINDS

HEAD = (
    "kind",
    "solved",
    "steps",
    "calls",
    "tokens in",
    "cached",
    "out",
    "seconds",
    "first token",
    "tokens/s",
)


def table(results: Sequence[Result]) -> str:
    """A Markdown table: one row for each kind, one for all.

    Steps, calls, tokens and seconds are means of a task; the time to the first token is the mean of a request.
    (Those about a question beforehand are no steps.)
    """
    rows = [_row(kind, [each for each in results if each.kind == kind]) for kind in KINDS]
    rows = [row for row in rows if row] + [_row("all", list(results))]
    return "\n".join([_line(HEAD), _line(["---", *["---:"] * (len(HEAD) - 1)]), *map(_line, rows)])


def as_json(results: Sequence[Result], facts: dict[str, Any], *, transcripts: bool = False) -> str:
    """The results with the facts of the run beside them.

    Args:
        results: The results.
        facts: What was run where.
        transcripts: Whether to keep the events, of the tasks that are for tuning.
    """
    rows = [each.to_json() for each in results]
    for row in rows:
        if not transcripts:
            row.pop("transcript")
        for key in ("seconds", "first_token", "writing"):
            row[key] = round(row[key], 2)
    solved = sum(each.solved for each in results)
    return json.dumps(
        {**facts, "solved": solved, "tasks": len(results), "results": rows},
        indent=1,
        ensure_ascii=False,
        default=repr,  # objects that a program gave to a call
    )


def compared(before: Sequence[dict[str, Any]], after: Sequence[Result]) -> str:
    """The changes task by task since an earlier run: a sum alone hides as much as it says."""
    was = {row["name"]: row["solved"] for row in before}
    gained = [each.name for each in after if each.solved and was.get(each.name) is False]
    lost = [each.name for each in after if not each.solved and was.get(each.name)]
    return f"gained {len(gained)}: {', '.join(gained) or '–'}\nlost {len(lost)}: {', '.join(lost) or '–'}"


def _row(kind: str, results: list[Result]) -> list[str]:
    if not results:
        return []
    count, steps = len(results), sum(each.steps for each in results)
    requests = sum(each.requests or each.steps for each in results)
    writing = fsum(each.writing for each in results)
    out = sum(each.output_tokens for each in results)
    return [
        kind,
        f"{sum(each.solved for each in results)}/{count}",
        f"{steps / count:.1f}",
        f"{sum(each.calls for each in results) / count:.1f}",
        _mean(each.input_tokens for each in results),
        _mean(each.cached_tokens for each in results),
        f"{out / count:.0f}",
        f"{fsum(each.seconds for each in results) / count:.1f}",
        f"{fsum(each.first_token for each in results) / max(requests, 1):.2f}",
        f"{out / writing:.1f}" if writing else "–",
    ]


def _mean(counts: Iterable[int]) -> str:
    """The mean; a dash where a server counts nothing."""
    known = list(counts)
    return f"{sum(known) / len(known):.0f}" if any(known) else "–"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
