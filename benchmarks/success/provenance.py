"""Which wrong numbers of an answer are found, and which right ones are marked without reason.

    python -m benchmarks.success.provenance [ANSWERS] [SEED]

Makes answers over the tables that scikit-learn ships, in five locales, each from results of calls
as a run has them: two out of three numbers are told as they are in a result, rounded as people do,
the others are derived. Then one number of each answer is replaced by a wrong one. Prints how many of
these are found, how many right ones are marked, and the wrong ones that were not found. Needs
pandas and scikit-learn.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archytas_nb.numbers import numbers_in
from archytas_nb.provenance import Source, link
from archytas_nb.tools.render import render

LOCALES = {
    "en": (",", ".", "{0} is {1}."),
    "de": (".", ",", "{0} beträgt {1}."),
    "fr": ("\u202f", ",", "{0} vaut {1}."),
    "ch": ("’", ".", "{0}: {1}."),
    "in": ("in", ".", "{0} है {1}।"),
}
UNITS = ("", "", " mm", " kg", " %")


@dataclass(frozen=True)
class Made:
    """A number of an answer: its value, how it is written, and how it was worked out."""

    kind: str
    about: str
    value: float
    text: str


def main() -> None:
    """Print the figures."""
    answers = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    right, marked, planted, found = Counter(), Counter(), 0, 0
    missed: list[str] = []
    frames = dict(_frames())
    for number in range(answers):
        locale = list(LOCALES)[number % len(LOCALES)]
        name = rng.choice(list(frames))
        sources, numbers = _case(name, frames[name], rng, locale)
        answer = _sentences(numbers, locale)
        spans = link(answer, sources)
        wrong = {span.start for span in spans if span.origin == "nowhere"}
        place = 0
        for each in numbers:
            place = answer.index(each.text, place)
            right[each.kind] += 1
            if any(place <= start < place + len(each.text) for start in wrong):
                marked[each.kind] += 1
                print("marked:", locale, each)
            place += len(each.text)
        victim = rng.randrange(len(numbers))
        false = _planted(numbers[victim], rng, locale)
        changed = [*numbers[:victim], false, *numbers[victim + 1 :]]
        answer = _sentences(changed, locale)
        start = answer.index(false.text, len(_sentences(changed[:victim], locale)))
        planted += 1
        spans = link(answer, sources)
        hit = [s for s in spans if start <= s.start < start + len(false.text)]
        if any(span.origin == "nowhere" for span in hit):
            found += 1
        else:
            missed.append(f"{locale} {numbers[victim].text} → {false.text}: {hit}")
    for kind, total in right.items():
        print(f"{kind}: {marked[kind]} of {total} right ones marked")
    print(f"{sum(marked.values())} of {sum(right.values())} right ones marked")
    print(f"{found} of {planted} wrong ones found")
    print("\n".join(missed))


def _frames() -> Iterator[tuple[str, Any]]:
    from sklearn import datasets

    for name in ("iris", "wine", "diabetes", "breast_cancer", "linnerud"):
        yield name, getattr(datasets, f"load_{name}")(as_frame=True).frame


def _case(
    name: str, frame: Any, rng: random.Random, locale: str
) -> tuple[list[Source], list[Made]]:
    """Some results, and numbers that are told of them."""
    columns = [str(each) for each in frame.columns if frame[each].nunique() > 4]
    column, other = rng.sample(columns, 2)
    key = "target" if "target" in frame and frame["target"].nunique() < 5 else None
    results: list[tuple[str, Any]] = [(f"mean({column!r})", float(frame[column].mean()))]
    if key:
        results.append((f"mean_by({column!r})", frame.groupby(key)[[column, other]].mean()))
    results.append((f"head({name!r})", frame[[column, other]].head(rng.randint(3, 8))))
    results.append(
        (
            f"span({other!r})",
            {
                "min": float(frame[other].min()),
                "max": float(frame[other].max()),
                "rows": len(frame),
            },
        )
    )
    results.append((f"max({other!r})", float(frame[other].max())))
    sources = [
        Source(call, render(value).text, value, step)
        for step, (call, value) in enumerate(results, 1)
    ]
    told = [
        ("result", "The mean", results[0][1]),
        ("result", "The greatest", results[-1][1]),
        ("result", "The count", len(frame)),
    ]
    if key:
        means = results[1][1][column]
        a, b = means.iloc[0], means.iloc[1]
        told += [
            ("result", "The first mean", a),
            ("result", "The second mean", b),
            ("derived", "The difference", a - b),
            ("derived", "The ratio", a / b if b else a),
            ("share", "The share", means.iloc[0] / means.sum() * 100),
        ]
    head = results[-3][1][column]
    told += [("result", "A value", head.iloc[0]), ("derived", "Their sum", head.sum())]
    told = [each for each in told if abs(each[2]) > 1e-9]  # the columns of diabetes are centred
    chosen = rng.sample(told, 3)
    return sources, [
        Made(kind, about, float(value), _written(float(value), kind, rng, locale))
        for kind, about, value in chosen
    ]


def _sentences(numbers: list[Made], locale: str) -> str:
    return " ".join(LOCALES[locale][2].format(each.about, each.text) for each in numbers)


def _written(value: float, kind: str, rng: random.Random, locale: str) -> str:
    if float(value).is_integer() and abs(value) >= 1:
        return _grouped(f"{abs(value):.0f}", locale)
    digits = rng.choice((3, 3, 4, 5))
    text = f"{abs(value):.{digits}g}"
    if "e" in text:
        text = f"{abs(value):.{digits}f}" if abs(value) < 1 else f"{abs(value):.0f}"
    text = _grouped(text, locale)
    return f"{text} %" if kind == "share" else text


def _grouped(text: str, locale: str) -> str:
    group, point, _ = LOCALES[locale]
    whole, _, part = text.partition(".")
    if len(whole) > 3:
        if group == "in":
            head, tail = whole[:-3], whole[-3:]
            pairs = [head[max(0, n - 2) : n] for n in range(len(head), 0, -2)][::-1]
            whole = ",".join([*pairs, tail])
        else:
            whole = f"{int(whole):,}".replace(",", group)
    return f"{whole}{point}{part}" if part else whole


def _planted(made: Made, rng: random.Random, locale: str) -> Made:
    """The same number, wrong: another factor, other digits, or another size."""
    while True:
        value = abs(made.value) * rng.choice((0.83, 0.9, 1.07, 1.13, 1.31, 1.9, 12.0, 0.12))
        if float(made.value).is_integer():
            value = float(round(value))
        text = _written(value, made.kind, rng, locale)
        readings = next(numbers_in(text)).readings
        if not any(each.is_of(made.value) for each in readings):
            return Made(made.kind, made.about, value, text)


if __name__ == "__main__":
    main()
