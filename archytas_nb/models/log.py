"""A line in the log for each request: where, how large, how long, and what came of it.

Law of this file: no key, no URL with credentials and nothing that anyone said gets into the log. It writes at
DEBUG alone, so that nothing is printed where nobody has set up a log.
"""

from __future__ import annotations

import logging
import time

from archytas_nb.loop.events import AskModel
from archytas_nb.models.asking import Asking, Faulted

_log = logging.getLogger("archytas_nb")


def logged(asking: Asking, at: str, model: str, ask: AskModel) -> Asking:
    """The same asking, told of in the log where that is wanted (``logging.getLogger("archytas_nb")``, DEBUG).

    Args:
        asking: One request.
        at: The endpoint, as it may be shown.
        model: The model's name.
        ask: The request.
    """
    return _told(asking, at, model, ask) if _log.isEnabledFor(logging.DEBUG) else asking


def _told(asking: Asking, at: str, model: str, ask: AskModel) -> Asking:
    began, outcome = time.perf_counter(), "left"
    try:
        reply = yield from asking
    except Faulted as faulted:
        error = faulted.fault.error
        outcome = f"{error.kind} (status {error.status})"
        raise
    except BaseException as error:
        outcome = type(error).__name__
        raise
    else:
        used = reply.usage
        tokens = f"{used.input_tokens} in, {used.cached_tokens} cached, {used.output_tokens} out"
        outcome = f"{reply.finish}, tokens: {tokens}"
        return reply
    finally:
        size = sum(len(str(message.get("content") or "")) for message in ask.messages)
        _log.debug(
            "asked %s for %r: %d messages of %d characters, %d tools, %s after %.3f s",
            at, model, len(ask.messages), size, len(ask.tools), outcome, time.perf_counter() - began,
        )  # fmt: skip
