"""Show a run in a terminal: the lines of the plain text, each as soon as it is known.

It writes to ``sys.stdout`` as it is at the time, nothing but text without escape codes. It knows the view of
a run and how `text` writes one.
"""

from __future__ import annotations

import sys

from archytas_nb.react.events import CallOutcomes, Event, Failed, Interrupted, Notice
from archytas_nb.trace.clean import tidy
from archytas_nb.trace.text import ending_lines, step_lines
from archytas_nb.trace.values import RunView, StepView


class TerminalLayer:
    """Prints each step when it is complete, and notices of waiting at once.

    Args:
        view: The run as it begins.
    """

    def __init__(self, view: RunView) -> None:  # noqa: ARG002 (it begins with nothing)
        self._printed = 0

    def update(self, view: RunView, event: Event) -> None:
        """Print the steps that an event has completed."""
        if isinstance(event, Notice) and event.kind in {"progress", "retry"}:
            self._write(f"   … {tidy(event.text)}")
        # The last step may still gain an outcome, a note or a rejection; those before it may not.
        complete = view.steps if isinstance(event, CallOutcomes) else view.steps[:-1]
        self._steps(complete)

    def finish(self, view: RunView) -> None:
        """Print what is left, and the ending; why there is no answer is said by the line's error, once."""
        self._steps(view.steps)
        if not isinstance(view.ending, (Failed, Interrupted)):
            self._write(("\n" if self._printed else "") + ending_lines(view))

    def _steps(self, steps: tuple[StepView, ...]) -> None:
        for step in steps[self._printed :]:
            if not step.empty:
                self._write("\n".join(step_lines(step)))
        self._printed = max(self._printed, len(steps))

    def _write(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
