"""How well the confidence of answers tells how often they are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from archytas_nb.batch.interval import wilson

_BINS = 10
_COVERAGES = (1.0, 0.8, 0.5)


class Bin(NamedTuple):
    """Answers of about the same confidence: how many, their mean confidence, how many are right."""

    number: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Answers with labels: how confident the model was, and whether it was right.

    Attributes:
        answers: A pair for each answer: its confidence from 0 to 1, and whether it was right.
    """

    answers: tuple[tuple[float, bool], ...] = ()

    @property
    def bins(self) -> tuple[Bin, ...]:
        """The reliability picture: the answers in ten bins of confidence, without empty ones."""
        groups: dict[int, list[tuple[float, bool]]] = {}
        for confidence, is_right in self.answers:
            groups.setdefault(min(_BINS - 1, int(confidence * _BINS)), []).append(
                (confidence, is_right)
            )
        return tuple(
            Bin(
                len(each),
                math.fsum(confidence for confidence, _ in each) / len(each),
                sum(is_right for _, is_right in each) / len(each),
            )
            for _, each in sorted(groups.items())
        )

    @property
    def ece(self) -> float:
        """The expected calibration error: how far confidence is from accuracy, from 0 to 1."""
        if not self.answers:
            return math.nan
        total = math.fsum(each.number * abs(each.accuracy - each.confidence) for each in self.bins)
        return total / len(self.answers)

    def accuracy(self, coverage: float = 1.0) -> float:
        """The share of right answers among the most confident ones.

        Args:
            coverage: The share of answers that counts, from 0 to 1; at least one answer does.
        """
        if not self.answers:
            return math.nan
        kept = max(1, round(coverage * len(self.answers)))
        first = sorted(self.answers, key=lambda each: -each[0])[:kept]
        return sum(is_right for _, is_right in first) / kept

    def threshold(self, precision: float) -> float | None:
        """The least confidence from which on answers are right as often as is wished.

        It is the lowest one that a label supports: of the answers from it on, the share of right
        ones is at least the wished one. None if it is so for no threshold.

        Args:
            precision: The wished share of right answers, from 0 to 1.
        """
        found = None
        for confidence, right, number in self._prefixes():
            if right / number >= precision:
                found = confidence
        return found

    def _prefixes(self) -> Iterator[tuple[float, int, int]]:
        """For each confidence, from the highest: how many are right of how many from it on."""
        ordered = sorted(self.answers, key=lambda each: -each[0])
        right = 0
        for number, (confidence, is_right) in enumerate(ordered, 1):
            right += is_right
            is_last = number == len(ordered) or ordered[number][0] < confidence
            if is_last:
                yield confidence, right, number

    def __str__(self) -> str:
        """The reliability picture in lines, then the error and the accuracy by coverage."""
        lines = ["confidence  right  95 %         answers"]
        for each in self.bins:
            low, high = wilson(round(each.accuracy * each.number), each.number)
            bar = "█" * round(20 * each.accuracy)
            lines.append(
                f"{each.confidence:9.0%}  {each.accuracy:6.0%}  {low:4.0%} to {high:4.0%} "
                f"{each.number:8,}  {bar}"
            )
        parts = [f"{self.accuracy(each):.0%} right at {each:.0%}" for each in _COVERAGES]
        lines.append(f"expected calibration error {self.ece:.3f}; {', '.join(parts)} coverage")
        return "\n".join(lines)


def calibrated(pairs: Sequence[tuple[float | None, bool]]) -> Calibration:
    """The calibration of answers, without those whose confidence is not known."""
    return Calibration(tuple((each, right) for each, right in pairs if each is not None))
