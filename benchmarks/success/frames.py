"""How often the embedded model answers a question about a data frame, with the files of a benchmark.

    python -m benchmarks.success.frames FOLDER --ids FILE [--every N] [--without PIECE …] [--cache FOLDER]

It fetches nothing. FOLDER has the files of InfiAgent-DABench (`da-dev-questions.jsonl`,
`da-dev-labels.jsonl`, and the CSV files in `tables` or `da-dev-tables`); only the questions whose ids
stand in FILE are read further than their ids. `--own` asks the questions of `frames_own.py` instead.

A question is right if each labelled name has an equal value in the answer, written as
``@name[value]``: the same text, or numbers that differ by less than 1e-6. Seconds are upper bounds
where other processes run. With `--cache`, replies are kept by what was asked: a changed piece then
costs only the requests that it changes, and seconds and tokens are those of the first time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict
from unittest.mock import patch

from archytas_nb import Agent, prepare
from archytas_nb.batch.interval import wilson
from archytas_nb.copies import examine, place
from archytas_nb.loop.events import AskModel
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.sandbox import in_copy as session
from archytas_nb.small import copy_protocol
from archytas_nb.small import in_copy as programs
from archytas_nb.small.copy_protocol import COPY_CARD
from benchmarks.success.frames_own import Asked, questions

# ── the questions ─────────────────────────────────────────────────────────────────────────────────


def questions_in(folder: Path, ids: Sequence[int], *, is_typed: bool = False) -> Iterator[Asked]:
    """The questions of the benchmark with these ids, in their order.

    Typed, the answer is a dict with the parts that the question asks for.
    """
    import pandas as pd

    wanted = set(ids)
    found = {each["id"]: each for each in _rows(folder / "da-dev-questions.jsonl", wanted)}
    labels = {each["id"]: each for each in _rows(folder / "da-dev-labels.jsonl", wanted)}
    tables = folder / "tables"
    if not tables.is_dir():
        tables = folder / "da-dev-tables"

    def reader(path: Path) -> Callable[[], Mapping[str, Any]]:
        return lambda: {"df": pd.read_csv(path)}

    def judge(values: Sequence[tuple[str, str]]) -> Callable[[Any], bool]:
        return lambda answer: is_right(str(answer), values)

    for number in ids:
        each = found[number]
        values = [(name, str(value)) for name, value in labels[number]["common_answers"]]
        names = list(dict.fromkeys(re.findall(r"@(\w+)\s*\[", each["format"])))
        text = f"{each['question']}\nConstraints: {each['constraints']}\nFormat: {each['format']}"
        parts = None
        if is_typed:
            parts = TypedDict("Answer", dict.fromkeys(names, float | str))  # type: ignore[operator]
        else:
            text += f"\nThe text of the answer: {' '.join(f'@{name}[{{…}}]' for name in names)}"
        yield Asked(
            str(number), each["level"], text, reader(tables / each["file_name"]), judge(values),
            " ".join(f"@{name}[{value}]" for name, value in values), parts,
        )  # fmt: skip


def _rows(path: Path, wanted: set[int]) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        number = re.search(r'"id":\s*(\d+)', line)
        if number and int(number[1]) in wanted:
            yield json.loads(line)


def is_right(answer: str, labels: Sequence[tuple[str, str]]) -> bool:
    """Whether an answer has an equal value for each labelled name."""
    got = dict(re.findall(r"@(\w+)\s*\[(.*?)\]", answer))
    return bool(labels) and all(_equal(got.get(name), value) for name, value in labels)


def _equal(got: str | None, label: str) -> bool:
    if got is None:
        return False
    if got.strip() == label.strip():
        return True
    try:
        return abs(float(got) - float(label)) < 1e-6
    except ValueError:
        return False


# ── without a piece ───────────────────────────────────────────────────────────────────────────────

Patches = Callable[[], list[AbstractContextManager[Any]]]

PIECES: dict[str, Patches] = {
    "example": lambda: [patch.object(copy_protocol.CopyProtocol, "example", ())],
    "cures": lambda: [
        patch.object(examine, "cure_of", lambda _: None),
        patch.object(examine, "cure_before", lambda *_: None),
        patch.object(session, "unfolded", lambda _: None),
        patch.object(programs, "with_printed", lambda end, _: end),
        _by_fork(),
    ],
    "missing": lambda: [patch.object(examine, "without_missing", lambda *_: None), _by_fork()],
    "values": lambda: [patch.object(prepare, "COPY_CARD", replace(COPY_CARD, has_values=False))],
    "grammar": lambda: [patch.object(programs, "PYTHON_LINES", "")],
    "hints": lambda: [patch.object(examine, "hints", lambda _: []), _by_fork()],
    "nan": lambda: [
        patch.object(session.CopySession, "_lacks_value", lambda *_: ""),
        patch.object(session, "_has_no_value", lambda _: False),
    ],
    "heat": lambda: [patch.object(programs, "WARM", 0.0)],
    "continued": lambda: [patch.object(programs, "CONTINUES", False)],
    "fresh": lambda: [patch.object(programs, "MAX_PROGRAMS", 2)],
    "again": lambda: [patch.object(programs, "MAX_PROGRAMS", 1)],
    "form": lambda: [patch.object(programs, "form_of", lambda _: ())],
    "names": lambda: [patch.object(programs, "misnamed", lambda *_: None)],
    "doubt": lambda: [patch.object(programs.ProgramsInCopy, "_answered_in_doubt", _no_answer)],
    "origins": lambda: [patch.object(programs, "invented_numbers", lambda *_: [])],
}
"""By name: patches that take one piece away. A name that the product has no more is an error."""


def _no_answer(*_: object) -> Iterator[Any]:
    """In place of an answer in doubt."""
    return
    yield


def _by_fork() -> AbstractContextManager[Any]:
    """Copies are forks: a prepared process has the modules as they are in their files."""
    return patch.object(place.Copy, "_ways", lambda _: [("fork", 0.0)])


# ── a model whose replies are kept ────────────────────────────────────────────────────────────────


class KeptModel:
    """The embedded model; what it has replied before is taken from a folder.

    Args:
        folder: Where replies are kept; None to ask always.
    """

    def __init__(self, folder: Path | None) -> None:
        self._model = EmbeddedModel()
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Any:
        """The reply to a request."""
        if self._folder is None:
            return (yield from self._model.complete(ask))
        asked = replace(ask, seconds=None, provider_metadata={})
        key = hashlib.sha256(repr(asked).encode()).hexdigest()[:24]
        file = self._folder / f"{key}.pickle"
        if not file.exists():
            started = time.monotonic()
            reply = yield from self._model.complete(ask)
            file.write_bytes(pickle.dumps((reply, time.monotonic() - started)))
        reply, seconds = pickle.loads(file.read_bytes())
        _spent.append(seconds)
        return reply


_spent: list[float] = []


# ── asking ────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Result:
    """The result of one question."""

    id: str
    level: str
    right: bool
    answer: str
    label: str
    status: str
    seconds: float
    repairs: int | None
    input_tokens: int
    output_tokens: int
    programs: list[str] = field(default_factory=list)


def ask(asked: Asked, model: Any, **options: Any) -> Result:
    """Ask one question."""
    _spent.clear()
    started = time.monotonic()
    agent = Agent([], model=model, namespace=dict(asked.variables()), **options)
    try:
        run = agent.run(asked.question, output_type=asked.output_type)
    except Exception as error:
        run = getattr(error, "run", None)
        if run is None:
            raise
    seconds = time.monotonic() - started
    if _spent:
        seconds = sum(_spent)
    answer = run.answer
    if isinstance(run.value, dict):
        answer = " ".join(f"@{name}[{value}]" for name, value in run.value.items())
    return Result(
        asked.id, asked.level, asked.is_right(answer), answer, asked.label, run.status, seconds,
        getattr(run.ending, "repairs", None), run.usage.input_tokens, run.usage.output_tokens,
        [each.program for each in run.steps if each.program],
    )  # fmt: skip


def report(results: Sequence[Result]) -> str:
    """The rates by level with 95 % intervals, then seconds and tokens."""
    lines = []
    levels = ["all", *dict.fromkeys(each.level for each in results)]
    groups = {level: [each for each in results if level in ("all", each.level)] for level in levels}
    groups["no repair"] = [each for each in results if each.repairs == 0]
    groups["repaired"] = [each for each in results if each.repairs]
    groups["no answer"] = [each for each in results if each.repairs is None]
    for level, group in groups.items():
        right = sum(each.right for each in group)
        low, high = wilson(right, len(group))
        lines.append(f"{level:10} {right:3}/{len(group):<3} {low:.0%}–{high:.0%}")
    seconds = sorted(each.seconds for each in results)
    middle = statistics.median(seconds)
    read = statistics.mean(each.input_tokens for each in results)
    written = statistics.mean(each.output_tokens for each in results)
    lines.append(f"seconds    median {middle:.1f}, mean {statistics.mean(seconds):.1f}")
    lines.append(f"tokens     {read:.0f} read (with the cached prefix), {written:.0f} written")
    return "\n".join(lines)


def main() -> None:
    """Ask the questions and print what came of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--ids", type=Path, help="a file with an id in each line")
    parser.add_argument("--own", choices=["choose", "blind"], help="the questions of frames_own.py")
    parser.add_argument("--typed", action="store_true", help="ask for typed answers, not for texts")
    parser.add_argument("--every", type=int, default=1, help="only every nth question")
    parser.add_argument("--first", type=int, default=0, help="the place of the first one")
    parser.add_argument("--without", action="append", default=[], choices=sorted(PIECES))
    parser.add_argument("--cache", type=Path, help="a folder for the replies of the model")
    parser.add_argument("--json", type=Path, help="a file for the results")
    parser.add_argument("--quiet", action="store_true", help="print only the rates")
    given = parser.parse_args()
    if given.own:
        asked = list(questions(given.own))
    elif given.folder and given.ids:
        ids = [int(line) for line in given.ids.read_text().split()]
        asked = list(questions_in(given.folder, ids, is_typed=given.typed))
    else:
        parser.error("expected FOLDER and --ids, or --own")
    model = KeptModel(given.cache)
    results = []
    with ExitStack() as patches:
        for name in given.without:
            for each in PIECES[name]():
                patches.enter_context(each)
        for each in asked[given.first :: given.every]:
            result = ask(each, model)
            results.append(result)
            mark = "right" if result.right else "wrong"
            if not given.quiet:
                shown = " ".join(result.answer.split())[:100]
                print(f"{result.id:>5} {result.level:7} {mark} {result.seconds:5.1f} s "
                      f"repairs {result.repairs}: {shown}", flush=True)  # fmt: skip
            if given.json:
                given.json.write_text(json.dumps([vars(one) for one in results], indent=1))
    print(report(results))


if __name__ == "__main__":
    sys.exit(main())
