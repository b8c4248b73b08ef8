"""Show a run in a terminal: the lines of the plain text, each as soon as it is known.

It writes to ``sys.stdout`` as it is at the time, nothing but text without escape codes. It knows the view of
a run and how `text` writes one.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from archytas_nb.loop.events import Event, Failed, Interrupted, Notice
from archytas_nb.trace.clean import tidy
from archytas_nb.trace.text import call_lines, ending_lines, head_lines, indented, numbered
from archytas_nb.trace.values import RunView, StepView


class TerminalLayer:
    """Prints what a call is made for before it is run, its outcome when it is there, and a wait when it begins.

    Args:
        view: The run as it begins.
    """

    def __init__(self, view: RunView) -> None:  # noqa: ARG002 (it begins with nothing)
        self._begun = False  # whether anything of the run was printed
        self._over = 0  # steps that are printed whole
        self._heads = self._calls = 0  # of the step after them, what is printed

    def update(self, view: RunView, event: Event) -> None:
        """Print what an event has made known."""
        if isinstance(event, Notice) and event.kind in {"progress", "retry"}:
            self._write([f"   … {tidy(event.text)}"])
        self._steps(view.steps, over=False)

    def finish(self, view: RunView) -> None:
        """Print what is left, and the ending; why there is no answer is said by the line's error, once."""
        self._steps(view.steps, over=True)
        if not isinstance(view.ending, (Failed, Interrupted)):
            self._write([*([""] if self._begun else []), ending_lines(view)])

    def _steps(self, steps: tuple[StepView, ...], *, over: bool) -> None:
        """Print what is new, and count the steps to which nothing can be added any more."""
        for index, step in enumerate(steps[self._over :], self._over + 1):
            complete = over or index < len(steps)
            self._new_of(step, complete=complete)
            if complete:
                self._over, self._heads, self._calls = index, 0, 0

    def _new_of(self, step: StepView, *, complete: bool) -> None:
        # That a request was tried again was printed when it happened.
        head = head_lines(
            replace(step, notes=tuple(note for note in step.notes if note.kind != "retry"))
        )
        calls = [call for call in step.calls if complete or call.status is not None]
        if step.calls:
            lines = indented(head[self._heads :])
            body = [line for call in calls[self._calls :] for line in call_lines(call)]
            lines += indented(body) if self._calls else numbered(step, body)
        else:  # it may still become a step with calls, whose number stands before the first of them
            lines = numbered(step, head) if complete else []
        if step.calls or complete:
            self._heads, self._calls = len(head), len(calls)
        self._write(lines)

    def _write(self, lines: list[str]) -> None:
        if lines:
            self._begun = True
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
