"""The output of `%agent_history --sent`."""

from __future__ import annotations

import json
import time

from IPython.core.error import UsageError

from archytas_nb.magics.overview import Overview, TextResult
from archytas_nb.models import sent
from archytas_nb.words import count, truncate_line, truncate_middle

MAX_SHOWN = 200_000
"""Characters of a request that are shown."""
_MAX_NAMES = 60
_NOTHING = (
    "nothing was sent yet; %agent --dry-run QUESTION shows what would be sent, without sending it"
)


def requests_table() -> Overview:
    """All requests, a row for each, and what was in them together."""
    head = ("", "time", "bytes", "values", "question", "data", "learned")
    rows = []
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
    if not rows:
        return Overview(head, (), _NOTHING)
    total = sum(each.size for each in sent.requests)
    addresses = ", ".join(dict.fromkeys(each.address for each in sent.requests))
    sums = [f"{count(len(rows), 'request')}, {total:,} bytes, to {addresses}"]
    purposes = [each.purpose for each in sent.requests if each.purpose is not None]
    together = {
        "data": dict.fromkeys(kind for each in purposes for kind in each.kinds),
        "variables described": dict.fromkeys(it for each in purposes for it in each.variables),
        "columns named": dict.fromkeys(it for each in purposes for it in each.columns),
    }
    sums += [f"{what}: {', '.join(found) or 'none'}" for what, found in together.items()]
    sums.append("%agent_history --sent N shows one as it was sent")
    return Overview(head, tuple(rows), _NOTHING, tuple(sums))


class SentRequest(TextResult):
    """The body of a request: as text byte for byte, on a page in its parts, each folded."""

    __slots__ = ("heading",)
    heading: str

    def _repr_html_(self) -> str | None:
        from archytas_nb.magics.dry_run import parts_html

        try:
            body = json.loads(str(self))
        except ValueError:  # it was cut, or is not JSON
            return None
        if not isinstance(body, dict) or not ("messages" in body or "input" in body):
            return None
        return parts_html(self.heading, body, str(self))


def request_text(number: str) -> SentRequest:
    """The body of a request as it was sent; raises UsageError if there is none."""
    index = int(number) if number.isascii() and number.isdigit() else 0
    if not 1 <= index <= len(sent.requests):
        raise UsageError(
            f"there is no request {number!r}; expected a number from 1 to {len(sent.requests)}, "
            "as %agent_history --sent lists them"
        )
    each = sent.requests[index - 1]
    if each.body is None:
        raise UsageError(
            f"the text of request {number} is no longer kept: it was too large, or many followed "
            "it; expected a later one"
        )
    shown = SentRequest(truncate_middle(each.body.decode("utf-8", "replace"), MAX_SHOWN))
    at = time.strftime("%H:%M:%S", time.localtime(each.time))
    shown.heading = f"Request {number}, sent at {at} to {each.address}: {each.size:,} bytes"
    return shown
