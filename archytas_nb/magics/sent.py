"""What `%agent_sent` shows."""

from __future__ import annotations

import time

from IPython.core.error import UsageError

from archytas_nb.models import sent
from archytas_nb.words import count, truncate_line, truncate_middle

MAX_SHOWN = 200_000
"""Characters of a request that are shown."""
_MAX_NAMES = 60


def requests_table() -> str:
    """All requests, a line for each, and what was in them together."""
    rows = [("", "time", "bytes", "values", "question", "data", "learned")]
    for number, each in enumerate(sent.requests, 1):
        about = each.purpose or sent.Purpose(f"({each.address})", "")
        learned = ", ".join(f"{times} {what}" for what, times in about.learned.items())
        rows.append(
            (
                str(number),
                time.strftime("%H:%M:%S", time.localtime(each.time)),
                f"{each.size:,}",
                about.values,
                truncate_line(" ".join(about.question.split()), _MAX_NAMES),
                "; ".join(about.kinds),
                learned,
            )
        )
    if len(rows) == 1:
        return "nothing was sent yet"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    total = sum(each.size for each in sent.requests)
    addresses = ", ".join(dict.fromkeys(each.address for each in sent.requests))
    sums = [f"{count(len(rows) - 1, 'request')}, {total:,} bytes, to {addresses}"]
    purposes = [each.purpose for each in sent.requests if each.purpose is not None]
    together = {
        "data": dict.fromkeys(kind for each in purposes for kind in each.kinds),
        "variables described": dict.fromkeys(it for each in purposes for it in each.variables),
        "columns named": dict.fromkeys(it for each in purposes for it in each.columns),
    }
    sums += [f"{what}: {', '.join(found) or 'none'}" for what, found in together.items()]
    return "\n".join([*lines, *sums])


def request_text(number: str) -> str:
    """The body of a request as it was sent; raises UsageError if there is none."""
    index = int(number) if number.isascii() and number.isdigit() else 0
    if not 1 <= index <= len(sent.requests):
        raise UsageError(
            f"there is no request {number!r}; expected a number from 1 to {len(sent.requests)}, "
            "as %agent_sent lists them"
        )
    body = sent.requests[index - 1].body
    if body is None:
        raise UsageError(f"the text of request {number} is no longer kept: it is too long ago")
    return truncate_middle(body.decode("utf-8", "replace"), MAX_SHOWN)
