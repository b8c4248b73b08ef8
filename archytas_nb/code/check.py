"""Checks whether an answer still holds, without asking a model.

The data that its calls read are compared; if they have changed, the code of the run runs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from archytas_nb.code.derive import Code
from archytas_nb.code.recorded import Recorded
from archytas_nb.code.verify import Difference, verify
from archytas_nb.hints import hinted


@hinted
@dataclass(frozen=True, slots=True)
class Check:
    """Whether the answer of a run still holds.

    Attributes:
        status: ``"holds"``, ``"changed"``, or ``"cannot say"``.
        reason: The result of the comparison, or why nothing is known; may be empty.
        changed: The variables and functions that have changed.
        differences: The compared values that differ.
    """

    status: Literal["holds", "changed", "cannot say"]
    reason: str = ""
    changed: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def why(self) -> str:
        """The first change, or why nothing is known."""
        return self._why({})

    def text(self, changed: Mapping[str, str]) -> str:
        """The check in words.

        Args:
            changed: How a variable changed, such as ``"changed in cell 6"``, if that is known.
        """
        why = self._why(changed)
        if self.differences:
            last = self.differences[-1]
            return f"{last.change} ({why})"
        return f"{self.status} ({why})" if why else self.status

    def _why(self, changed: Mapping[str, str]) -> str:
        names = ", ".join(f"{each} {changed.get(each, 'changed')}" for each in self.changed)
        return ": ".join(filter(None, (names, self.reason)))

    def __str__(self) -> str:
        return self.text({})


def check(code: Code, recorded: Recorded) -> Check:
    """Check the answer of a run against the variables as they are now."""
    reads = recorded.reads
    why = _reason_for_silence(code, recorded)
    if why or reads is None:
        return Check("cannot say", why)
    changed = tuple(reads.changed())
    if not changed:
        if reads.unread:
            name, what = next(iter(reads.unread.items()))
            return Check("cannot say", f"{name!r} cannot be read as a whole: {what}")
        return Check("holds", "nothing it read has changed")
    if reads.changed_by_run:
        # The code would change it once more.
        by_run = min(reads.changed_by_run)
        return Check("cannot say", f"the question itself changed {by_run!r}", changed)
    return _compared(code, recorded, changed)


def _compared(code: Code, recorded: Recorded, changed: tuple[str, ...]) -> Check:
    """Check the answer by the values that the code computes now."""
    proof = verify(code, recorded, from_now=True)
    if proof.differences:
        return Check("changed", "", changed, proof.differences)
    if proof.values and proof.why:
        # There were other calls, and the same answer.
        return Check("holds", "the answer did not change", changed)
    if proof.was_run and proof.why:
        return Check("changed", proof.why, changed)
    if proof.why:
        return Check("cannot say", proof.why, changed)
    if proof.not_compared:
        left = proof.not_compared[0]
        return Check("cannot say", f"{left} cannot be compared", changed)
    looked = set(changed)
    looked &= recorded.reads.looked if recorded.reads is not None else set()
    if looked or not proof.values:
        what = f"the model read {min(looked)!r} itself" if looked else "no value to compare"
        return Check("cannot say", what, changed)
    return Check("holds", "the values did not change", changed)


def _reason_for_silence(code: Code, recorded: Recorded) -> str:
    """Why no check is possible, whatever has changed; empty if one is."""
    reads = recorded.reads
    if not recorded.answer:
        return "there is no answer"
    if reads is None:
        return "the data that its calls read were not recorded"
    if reads.effects:
        what, which = next(iter(reads.effects.items()))
        return f"it depends on {what}: {which}"
    has_code = any(block.is_verbatim for block in code.blocks)
    if not (code.calls or has_code or code.answer.has_value or reads.looked):
        return "the model answered without calling a tool"
    return ""
