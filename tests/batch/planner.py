"""A scripted model for planned maps: it writes programs, and answers single rows and judgements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from archytas_nb import Tool
from archytas_nb.loop.events import AskModel, ModelReply, Usage

PLANS = "run once for each row"
"""What only the request for a program contains."""


class Planner:
    """Writes these programs in turn, the last one again and again.

    Args:
        programs: What it writes when it is asked for a program.
        single: The answer to a row that is asked by itself, given its question.
        judged: The answer to a judgement, given its question; None where none is expected.
        tokens: How many it says that each request had.

    Attributes:
        plans, singles, judgements: The requests of each kind: all messages, or the question.
    """

    name = "planner"
    protocol = "native"
    is_scripted = True
    price = None

    def __init__(
        self,
        *programs: str,
        single: Callable[[str], str] = lambda question: "0",
        judged: Callable[[str], str] | None = None,
        tokens: int = 100,
    ) -> None:
        self.programs = list(programs)
        self.single, self.judged = single, judged
        self.usage = Usage(1, tokens, 0, 10)
        self.plans: list[Any] = []
        self.singles: list[str] = []
        self.judgements: list[str] = []
        self._lock = threading.Lock()

    @property
    def requests(self) -> int:
        return len(self.plans) + len(self.singles) + len(self.judgements)

    def complete(self, ask: AskModel) -> Iterator[Any]:
        yield from ()
        usage = self.usage
        with self._lock:
            if PLANS in str(ask.messages[0]):
                self.plans.append(ask.messages)
                program = self.programs[min(len(self.plans), len(self.programs)) - 1]
                return ModelReply(f"```python\n{program}\n```", usage=usage)
            question = str(ask.messages[-1]["content"])
            if self.judged is not None and "JUDGE" in question:
                self.judgements.append(question)
                return ModelReply(self.judged(question), usage=usage)
            self.singles.append(question)
        return ModelReply(self.single(question), usage=usage)


class Counting:
    """Tools that count their calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._lock = threading.Lock()

    def tools(self, *, pure: bool = True, **options: Any) -> list[Tool]:
        def price_of(product: str) -> float:
            """Get the price of a product.

            Args:
                product: The product
            """
            with self._lock:
                self.calls.append(product)
            if product == "gone":
                raise LookupError("no such product")
            return float(len(product))

        return [Tool.from_function(price_of, pure=pure, **options)]
