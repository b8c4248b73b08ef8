"""How much a copy may use."""

from __future__ import annotations

from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]

from archytas_nb.copies.program import Bounds


@dataclass(frozen=True)
class CopyLimits:
    """The limits of a copy.

    Attributes:
        seconds: How long a program may run.
        memory: How many bytes a copy may use in addition to those that it shares with the kernel;
            None for half of what is free when it begins.
        printed: Characters of printed text that are kept of a statement.
        text: Characters of the text of a value.
        value: Bytes of a value that is brought back.
        figures: How many figures are brought back.
        scratch: Bytes of files in the scratch folder.
        quiet: After how many seconds a forked copy that neither computes nor waits counts as hung.
    """

    seconds: float = 60.0
    memory: int | None = None
    printed: int = 100_000
    text: int = 20_000
    value: int = 256 << 20
    figures: int = 20
    scratch: int = 512 << 20
    quiet: float = 2.0

    def bytes_of_memory(self) -> int:
        """How many bytes it may use in addition to those that it shares."""
        if self.memory is not None:
            return self.memory
        return int(psutil.virtual_memory().available) // 2

    def bounds(self) -> Bounds:
        """The limits of the program in the copy."""
        return Bounds(self.printed, self.text, self.value, self.figures)
