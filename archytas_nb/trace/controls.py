"""Asks a person with buttons and fields below the cell, while the cell runs.

    asked ──▶ is there a subshell? ──no──▶ `input()`, as everywhere else
                    │ yes
                    ▼
              the form is shown ──▶ button, field or Enter ──▶ the line that says the same

An answer is the same line that is typed into `input()`, so that what is decided, recorded and
replayed does not depend on how it was said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from archytas_nb.loop.events import ApprovalForm, UserQuestion
from archytas_nb.trace import front_end
from archytas_nb.trace.forms import ApprovalSheet, Decided, QuestionSheet, Sheet


class _Person(Protocol):
    """The person to ask where there are no controls; see `archytas_nb.kernel.person.Person`."""

    @property
    def there(self) -> bool: ...

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str: ...


@dataclass(eq=False)
class Controls:
    """Asks with controls where they work, and another person elsewhere.

    Attributes:
        otherwise: Who is asked where there are no controls.
    """

    otherwise: _Person
    _next: list[str] = field(default_factory=list)  # the lines after the one that was returned
    _seen: ApprovalForm | None = None  # what was shown when they were decided on
    _asked: set[str] = field(default_factory=set)  # the tools about which there was a question

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return self.otherwise.there

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Show the controls and wait; return the line that says the same.

        Raises:
            EOFError, OSError: There will be no answer; an UnansweredError: there was none in time.
            KeyboardInterrupt: The person interrupted instead of answering.
        """
        lines = self._next
        self._next = []
        note = _note_of(prompt)
        if lines and not note:
            # The changes are made, whatever they change; it is run only if it is what was seen.
            is_last = len(lines) == 1
            note = self._what_else_changed(form, is_last=is_last)
            if not note:
                self._next = lines[1:]
                return lines[0]
        if form is None or front_end.way() == "input":
            return self.otherwise.ask(prompt, form)
        if isinstance(form, UserQuestion):
            [line] = _answered(QuestionSheet(form))
            return line
        is_first = form.tool not in self._asked
        self._asked.add(form.tool)
        line, *self._next = _answered(ApprovalSheet(form, note, is_first=is_first))
        self._seen = form
        return line

    def _what_else_changed(self, form: ApprovalForm | UserQuestion | None, *, is_last: bool) -> str:
        """The differences of a call since the person saw it, except those that they made.

        Args:
            form: The call as it is now.
            is_last: Whether all changes are made.

        Returns:
            A sentence for the person; empty if nothing is.
        """
        seen = self._seen
        if seen is None or not isinstance(form, ApprovalForm) or form.tool != seen.tool:
            return "This is another call. Look at it before it runs."
        if not is_last:
            return ""
        same = {each.name: each.text for each in seen.arguments}
        others = [each for each in form.arguments if each.before is None]
        names = [each.name for each in others if same.get(each.name) != each.text]
        what = ""
        if names:
            what = f"the value of {', '.join(names)} is different"
        elif form.why != seen.why:
            what = "the reason for asking is different"
        if not what:
            return ""
        return f"Not run yet: after your change, {what}. Look at it again."


def _note_of(prompt: str) -> str:
    """The note above the line that asks, such as why an edit was not accepted."""
    note, _, _ = prompt.rpartition("\n")
    return note.strip()


_waiting: list[Sheet] = []  # the forms that wait for a person, the innermost last


def decide(what: Decided, name: str = "", reason: str = "") -> ApprovalForm | None:
    """Decide about a call that waits, from any thread.

    Args:
        what: The decision.
        name: The name of its question, see `ApprovalForm.name`; may be empty for the one that
            waits, unless it is to be run.
        reason: Why it is refused, for the model.

    Returns:
        The call; None if none of this name waits, and nothing was done.
    """
    for sheet in _waiting_calls():
        if sheet.answers_to(name) or (not name and what != "run"):
            sheet.decide(what, reason)
            return sheet.form
    return None


def waiting() -> ApprovalForm | None:
    """The call that waits for a person with controls, if one does."""
    return next((sheet.form for sheet in _waiting_calls()), None)


def _waiting_calls() -> list[ApprovalSheet]:
    return [sheet for sheet in reversed(tuple(_waiting)) if isinstance(sheet, ApprovalSheet)]


def _answered(sheet: Sheet) -> list[str]:
    """Show a sheet and wait for what the person does."""
    place = None
    handle = None
    if front_end.places and sheet.fits_trace:
        place = front_end.places[-1]
        place.children = (sheet.box,)
    else:
        handle = front_end.display(sheet.box)
    _waiting.append(sheet)
    try:
        return sheet.wait()
    finally:
        _waiting.remove(sheet)
        if place is not None:
            place.children = ()
        if handle is not None:
            handle.update(front_end.NOTHING, raw=True)
        sheet.close()
