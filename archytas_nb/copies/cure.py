"""A cure: another text for a statement, with what was changed in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cure:
    """The replacement of a statement.

    Attributes:
        source: The statements.
        why: The change, for the comment.
    """

    source: str
    why: str

    @property
    def commented(self) -> str:
        """The statements under the comment."""
        return f"# {self.why}\n{self.source}"
