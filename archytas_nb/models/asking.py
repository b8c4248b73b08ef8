"""How a request is asked until a reply comes: in which form, how often, and for how long.

Law of this file: it knows faults, forms and the clock, but no connection and no library. Whoever can ask once is
handed in; what was tried and what is waited for is yielded, so that a person sees it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator
from typing import TypeAlias

from archytas_nb.errors import ModelError
from archytas_nb.models import faults
from archytas_nb.models.capabilities import Capabilities, given_up, lowered, shorter
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.wording import context_tokens
from archytas_nb.react.events import AskModel, Delta, ModelReply, Notice

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


def persistently(ask: Callable[[], Asking], max_retries: int, deadline: Deadline, at: str) -> Asking:
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
    """
    form, forms, first = can, [can], None
    while True:
        try:
            reply = yield from once(form)
        except Faulted as faulted:
            error = faulted.fault.error
            if error.kind == "no_tools":
                can.tools = False
            first = first or faulted
            said, streamed = faulted.fault.said, stream and form.stream
            following = None
            if error.kind == "refused" and error.status in _ABOUT_THE_FORM:
                following = lowered(form, ask, said, extra, stream=streamed)
            elif error.kind == "overflow":
                form.context_tokens = can.context_tokens = context_tokens(said) or can.context_tokens
                following = shorter(form, ask, said)
            if following is None or following in forms:
                raise faulted if error.kind not in ("refused", "overflow") else first from None
            if lost := given_up(form, following):
                yield Notice("protocol", lost)
            form = following
            forms.append(form)
        else:
            if form is not can:
                can.learn(form)
            return reply
