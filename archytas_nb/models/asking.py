"""How a request is asked until a reply comes: in which form, how often, and for how long.

Law of this file: it knows faults, forms and the clock, but no connection and no library. Whoever can ask once is
handed in; what was tried and what is waited for is yielded, so that a person sees it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from dataclasses import replace
from typing import TypeAlias

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import REFUSED, AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.reply import read_action
from archytas_nb.models import faults
from archytas_nb.models.capabilities import (
    Capabilities,
    given_up,
    lowered,
    shorter,
    with_room_to_think,
    with_tools_still,
)
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.wording import context_tokens

FIRST_WAIT = 0.5
"""Seconds before the first retry, where the server does not say; each further wait is twice as long."""

_ABOUT_THE_FORM = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses with which servers refuse a form, llama.cpp with 500 among them."""

Asking: TypeAlias = Generator[Delta | Notice, None, ModelReply]
"""Yields the pieces of a reply and the retries, returns the reply."""


class Faulted(Exception):
    """Carries a fault from where it shows to where it is decided what follows."""

    def __init__(self, fault: faults.Fault) -> None:
        super().__init__()
        self.fault = fault


class GivenUp(Exception):
    """Nothing helped.

    Attributes:
        error: Why.
        tried: How often it had been tried again by then.
    """

    def __init__(self, error: ModelError, tried: int) -> None:
        super().__init__()
        self.error = error
        self.tried = tried


def persistently(
    ask: Callable[[], Asking], max_retries: int, deadline: Deadline, at: str
) -> Asking:
    """Ask again after a failure that may pass, in sight.

    Args:
        ask: Asks once; raises `Faulted`.
        max_retries: How often it may be asked again.
        deadline: When it is given up; a wait that would not end before is not begun.
        at: The endpoint, as it may be shown.

    Yields:
        What the asking yields, and each retry with its wait.

    Raises:
        GivenUp: No reply came.
    """
    tried = 0
    while True:
        try:
            return (yield from ask())
        except Faulted as faulted:
            fault = faulted.fault
        wait = FIRST_WAIT * 2**tried if fault.wait is None else fault.wait
        if not fault.passing or tried >= max_retries or wait > faults.LONGEST_WAIT:
            raise GivenUp(fault.error, tried) from None
        what = faults.shortened(str(fault.error).partition(". ")[0], 160)
        left = deadline.left
        if left is not None and wait >= left:
            raise GivenUp(faults.out_of_time(at, deadline.seconds, what).error, tried) from None
        tried += 1
        yield Notice("retry", f"{what}. Trying again in {wait:g} s ({tried} of {max_retries}).")
        time.sleep(wait)


def adapting(
    once: Callable[[Capabilities], Asking],
    ask: AskModel,
    can: Capabilities,
    extra: Collection[str] = (),
    *,
    stream: bool,
) -> Asking:
    """Ask, and where the endpoint rejects the form of the request, ask in the next form that it may take.

    What it takes is remembered only once it has given a reply: a refusal may have had another reason.

    Args:
        once: Asks in a form; raises `Faulted`.
        ask: The request.
        can: What the endpoint has shown; learns from this.
        extra: Names of the caller's own fields, which may be given up too, in sight.
        stream: Whether a stream is wanted.

    Yields:
        What the asking yields, and what is given up or asked for again.

    Returns:
        The reply; its usage includes that of a reply which was thought away.
    """
    form, forms, first, spent = can, [can], None, Usage()
    while True:
        try:
            reply = yield from once(form)
        except Faulted as faulted:
            fault, first = faulted.fault, first or faulted
            _note_context(fault, can, form)
            following = _following(fault, form, ask, extra, stream=stream)
            if following is None or following in forms:
                reason = faulted if fault.error.kind not in ("refused", "overflow") else first
                can.tools = can.tools and reason.fault.error.kind != "no_tools"
                raise reason from None
            if lost := given_up(form, following):
                yield Notice("protocol", lost)
            form = following
            forms.append(form)
        else:
            if form is not can:
                can.learn(form)
            if can.extras == "unwanted" and any(call.extra is not None for call in reply.calls):
                can.extras = "returned"
            _note_calls(can, ask, reply)
            roomier = with_room_to_think(form, ask, reply)
            spent += reply.usage
            if roomier is None:
                return replace(reply, usage=spent)
            yield Notice(
                "retry",
                "the model thought until its reply was cut off: asking again, with more room",
            )
            form = roomier
            forms.append(form)


def _note_context(fault: faults.Fault, *records: Capabilities) -> None:
    """Remember how long a conversation may be, whatever comes of the refusal that says it."""
    if fault.error.kind == "overflow":
        for record in records:
            record.context_tokens = context_tokens(fault.said) or record.context_tokens


def _note_calls(can: Capabilities, ask: AskModel, reply: ModelReply) -> None:
    """Remember how the model calls; one that has given a call may well show one in a text now and then."""
    if reply.calls:
        can.calls = "given"
    elif ask.tools and can.calls == "unseen" and reply.finish != REFUSED:
        functions = [each["function"] for each in ask.tools]
        known = {each["name"]: each.get("parameters") for each in functions}
        if read_action(reply.text, known, prose_is_answer=True, strict=True).calls:
            can.calls = "written"


def _following(
    fault: faults.Fault, form: Capabilities, ask: AskModel, extra: Collection[str], *, stream: bool
) -> Capabilities | None:
    """The form to ask in after this one was refused; None where there is none, or the form was not the reason."""
    if fault.error.kind == "no_tools":
        return with_tools_still(form, fault.said, extra)
    if fault.error.kind == "refused" and fault.error.status in _ABOUT_THE_FORM:
        return lowered(form, ask, fault.said, extra, stream=stream and form.stream)
    # Who has little credit left (402) is refused a long reply, and may have a short one.
    is_too_long = fault.error.kind == "overflow" or fault.error.status == 402
    return shorter(form, ask, fault.said) if is_too_long else None
