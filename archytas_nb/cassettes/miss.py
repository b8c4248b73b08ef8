"""The error for a request that was not recorded: what has changed, where, and the next move. Pure."""

from __future__ import annotations

import shlex

from archytas_nb.cassettes.difference import content_text, first_difference
from archytas_nb.cassettes.tape import Tape
from archytas_nb.cassettes.values import Request
from archytas_nb.errors import CassetteMiss

_SHOWN = 100  # characters of the request's last message


def miss_of(request: Request, tape: Tape, *, path: str, rerun: str, earlier: int) -> CassetteMiss:
    """Explain why a request is not on a tape.

    Args:
        request: The request.
        tape: What was recorded.
        path: The cassette's file, as it was named.
        rerun: How to record what is missing.
        earlier: How many requests were missed before.

    Returns:
        The error, to be raised.
    """
    begin = f"the cassette {path!r} holds no reply to this request"
    again = f"Record what is missing, with a model at hand: {rerun}"
    nearest = tape.nearest(request)
    if nearest is None:
        return CassetteMiss(
            f"{begin}: no exchange with a model is recorded in it. {again}", cause="empty"
        )
    if nearest.key == request.key and (times := tape.times(request.key, request.max_tokens)):
        begins = f"%agent_cassette {shlex.quote(path)}"
        return CassetteMiss(
            f"{begin}: it was recorded {times} time{'s' if times > 1 else ''}, and is asked once more. Where the "
            f"cell was only run again, {begins} or a new kernel begins from the start. {again}",
            cause="asked_again",
        )
    found = first_difference(request, nearest.request)
    asked = content_text(request.messages[-1]) if request.messages else ""
    short = asked if len(asked) <= _SHOWN else f"{asked[: _SHOWN - 1]}…"
    lines = [f"{begin} (step {request.step}, ending with {short!r}): {found.said}."]
    lines += [f"  {found.where}"] if found.where else []
    lines += [found.lines] if found.lines else []
    if earlier:
        lines.append(
            f"  (It is miss {earlier + 1}: mend the first one first, it may have caused this one.)"
        )
    return CassetteMiss("\n".join([*lines, again]), cause=found.cause, tool=found.tool)
