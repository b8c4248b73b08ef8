"""A scripted model that writes as a real one does: piece by piece, with time between them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any

from archytas_nb.loop.events import ActiveProtocol, AskModel, Delta, ModelReply
from archytas_nb.testing import ScriptedModel


class Typist(ScriptedModel):
    """Streams each reply of its script.

    Args:
        replies: As for `ScriptedModel`.
        protocol: The wire form to speak.
        pause: Seconds between two pieces.
        piece: Characters of a piece.
    """

    def __init__(
        self,
        *replies: Any,
        protocol: ActiveProtocol = "react",
        pause: float = 0.02,
        piece: int = 4,
    ) -> None:
        super().__init__(*replies, protocol=protocol)
        self._pause, self._piece = pause, piece

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        """The next reply of the script, written out."""
        script = super().complete(ask)
        try:
            while True:
                next(script)
        except StopIteration as end:
            reply: ModelReply = end.value
        for kind, text in (("reasoning", reply.reasoning), ("text", reply.text)):
            for piece in self._pieces(text):
                yield Delta("reasoning" if kind == "reasoning" else "text", piece)
                time.sleep(self._pause)
        return reply

    def _pieces(self, text: str) -> Iterator[str]:
        return (text[at : at + self._piece] for at in range(0, len(text), self._piece))
