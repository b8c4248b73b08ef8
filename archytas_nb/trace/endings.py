"""How a run ended, in words, and its answer."""

from __future__ import annotations

import re

from archytas_nb.loop import events as ev
from archytas_nb.trace.safe import tidy

_ANSWER_LIMIT = 100_000
_FAILURES: dict[ev.FailedBy, str] = {
    "model": "✗ The model gave up",
    "endpoint": "✗ The endpoint failed",
    "cassette": "✗ The cassette has no reply for this request",
    "recording": "✗ The reply could not be recorded",
    "setup": "✗ The run could not start",
    "condition": "✗ The answer could not be checked",
}


def ending_title(ending: ev.Ending | None) -> str:
    """How a run ended, in one line; empty if it was answered."""
    match ending:
        case ev.Answered():
            return ""
        case ev.Failed(by=by):
            return _FAILURES[by]
        case ev.Stopped(cut=True):
            what = "Incomplete" if ending.text else "No"
            return f"■ {what} answer: {tidy(ending.limit, 200)}"
        case ev.Stopped():
            title = f"■ Stopped by the limit {tidy(ending.limit, 200)}"
            return title + _incomplete(ending.text)
        case ev.Interrupted():
            how = "You stopped the run" if ending.stopped else "Interrupted"
            title = f"■ {how} during {tidy(ending.during, 200)}"
            return title + _incomplete(ending.text)
        case None:  # a copy is made while the run goes on; how that ended is not known in it
            return "■ The run had not finished when this was saved"


def _incomplete(answer: str) -> str:
    return "; the answer is incomplete" if answer else ""


def ending_text(ending: ev.Ending | None) -> str:
    """The answer in the model's Markdown, or the reason why there is none."""
    match ending:
        case (
            ev.Answered(text=text)
            | ev.Stopped(text=text)
            | ev.Interrupted(text=text)
            | ev.Failed(reason=text)
        ):
            return tidy(text, _ANSWER_LIMIT).strip()
        case _:
            return ""


def answer_markdown(ending: ev.Ending | None) -> str:
    """The answer as Markdown, if there is one; "124." is a number, not an empty list."""
    answer = ""
    if not isinstance(ending, ev.Failed):
        answer = ending_text(ending)
    return re.sub(r"\A(\d+)([.)])\Z", r"\1\\\2", answer)
