"""Ten cells that fail: how often does `%agent_fix` explain the failure, and correct the cell?

python -m benchmarks.success.failing_cells                   the model that `%agent` would take
python -m benchmarks.success.failing_cells --model NAME

A corrected cell is right if it runs and leaves the value that was meant. An explanation is right if it names what has
to be named; both are printed, to be read.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

_FRAMES = """\
import pandas as pd
penguins = pd.DataFrame({"species": ["Adelie", "Gentoo"], "mass": [3700, 5092]})"""


@dataclass(frozen=True)
class Failing:
    """A cell that fails.

    Attributes:
        name: What is wrong.
        before: The cell before it.
        source: The cell.
        is_right: Whether the variables are as they were meant to be, after the corrected cell.
        cause: Words of which an explanation has at least one of each group.
        corrected: A corrected cell that is right, for the test of this file.
    """

    name: str
    before: str
    source: str
    is_right: Callable[[Mapping[str, Any]], Any]
    cause: tuple[tuple[str, ...], ...]
    corrected: str


CELLS = (
    Failing(
        "a misspelled column",
        _FRAMES,
        'means = penguins.groupby("specie")["mass"].mean()',
        lambda names: names["means"]["Gentoo"] == 5092,
        (("specie",), ("column", "key", "exist", "species")),
        'means = penguins.groupby("species")["mass"].mean()',
    ),
    Failing(
        "a wrong dtype",
        'import pandas as pd\nsales = pd.DataFrame({"price": ["1.5", "2.5", "5.0"]})',
        'mean_price = sales["price"].sum() / len(sales)',
        lambda names: abs(names["mean_price"] - 3.0) < 1e-9,
        (("str", "text"), ("number", "numeric", "float", "int", "divi")),
        'mean_price = sales["price"].astype(float).sum() / len(sales)',
    ),
    Failing(
        "a missing file",
        'import pathlib\nimport pandas as pd\npathlib.Path("data").mkdir(exist_ok=True)\n'
        'pathlib.Path("data/rows.csv").write_text("a,b\\n1,2\\n")',
        'folder = "data"\ntable = pd.read_csv(folder + "rows.csv")',
        lambda names: list(names["table"].columns) == ["a", "b"],
        (("file", "path", "folder"), ("datarows.csv", "slash", "separator", "exist", "found")),
        'folder = "data"\ntable = pd.read_csv(folder + "/rows.csv")',
    ),
    Failing(
        "an index error",
        "values = [3, 1, 2]",
        "last = values[len(values)]",
        lambda names: names["last"] == 2,
        (("index",), ("range", "len", "bound")),
        "last = values[-1]",
    ),
    Failing(
        "a shape mismatch",
        "import numpy as np\nscores = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])",
        "weights = np.array([0.5, 0.5])\nweighted = scores @ weights",
        lambda names: list(names["weighted"]) == [2.5, 3.5, 4.5],
        (("shape", "dimension", "size", "mismatch"),),
        "weights = np.array([0.5, 0.5])\nweighted = weights @ scores",
    ),
    Failing(
        "a None",
        'words = ["pear", "apple", "fig"]',
        "ordered = words.sort()\nfirst = ordered[0]",
        lambda names: names["first"] == "apple",
        (("none",), ("sort",)),
        "ordered = sorted(words)\nfirst = ordered[0]",
    ),
    Failing(
        "a wrong argument",
        _FRAMES,
        'heaviest = penguins.sort_values("mass", descending=True).head(1)',
        lambda names: list(names["heaviest"]["species"]) == ["Gentoo"],
        (("descending",), ("argument", "parameter", "keyword", "ascending")),
        'heaviest = penguins.sort_values("mass", ascending=False).head(1)',
    ),
    Failing(
        "a division by zero",
        'readings = {"north": [1.0, 2.0], "south": []}',
        "means = {name: sum(each) / len(each) for name, each in readings.items()}",
        lambda names: names["means"]["north"] == 1.5,
        (("zero", "empty"),),
        "means = {name: sum(each) / len(each) for name, each in readings.items() if each}",
    ),
    Failing(
        "an import",
        "settings = {}",
        "from collections import Mapping\nis_mapping = isinstance(settings, Mapping)",
        lambda names: names["is_mapping"] is True,
        (("mapping",), ("collections.abc", "moved", "removed", "abc")),
        "from collections.abc import Mapping\nis_mapping = isinstance(settings, Mapping)",
    ),
    Failing(
        "a merge on a missing key",
        f'{_FRAMES}\nislands = pd.DataFrame({{"kind": ["Adelie", "Gentoo"], "island": ["Dream", "Biscoe"]}})',
        'joined = penguins.merge(islands, on="species")',
        lambda names: sorted(names["joined"]["island"]) == ["Biscoe", "Dream"],
        (("species",), ("key", "column", "islands", "kind")),
        'joined = penguins.merge(islands, left_on="species", right_on="kind")',
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The result of `%agent_fix` for a failing cell."""

    answer: str
    cell: str
    is_explained: bool
    is_corrected: bool


def attempt(
    shell: InteractiveShell, failing: Failing, options: str = "", model: Any = None
) -> Outcome:
    """Let a cell fail, ask for the corrected one, and run it.

    Args:
        shell: A shell with the extension.
        failing: The cell.
        options: Those of `%agent_fix`.
        model: A model instead of the one that they name.
    """
    shell.reset(new_session=False)
    if model is not None:
        shell.user_ns["given_model"] = model
        options += " --model given_model"
    cells: list[str] = []
    shell.set_next_input = lambda text, replace=False: cells.append(text)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        shell.run_cell(failing.before, store_history=True)
        failed = shell.run_cell(failing.source, store_history=True)
        assert failed.error_in_exec is not None, failing.name
        asked = shell.run_cell(f"%agent_fix --new {options}", store_history=True)
    if asked.error_in_exec is not None and not hasattr(asked.error_in_exec, "run"):
        raise asked.error_in_exec
    answer = str(getattr(asked.result, "answer", ""))
    said = answer.partition("```")[0].casefold() or answer.casefold()
    is_explained = all(any(word in said for word in group) for group in failing.cause)
    cell = cells[0] if cells else ""
    return Outcome(answer, cell, is_explained, bool(cell) and _runs(shell, failing, cell))


def _runs(shell: InteractiveShell, failing: Failing, cell: str) -> bool:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if shell.run_cell(cell, store_history=True).error_in_exec is not None:
            return False
    try:
        return bool(failing.is_right(shell.user_ns))
    except Exception:
        return False


def main(arguments: list[str] | None = None) -> int:
    """Run all cells, and print what came of them."""
    parser = argparse.ArgumentParser("python -m benchmarks.success.failing_cells")
    parser.add_argument("--model", default="", help="a name that %%agent --model takes")
    given = parser.parse_args(arguments)
    options = f"--model {given.model}" if given.model else ""
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "archytas_nb")
    explained = corrected = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for failing in CELLS:
            outcome = attempt(shell, failing, options)
            explained += outcome.is_explained
            corrected += outcome.is_corrected
            print(
                f"── {failing.name}: explained {outcome.is_explained}, corrected {outcome.is_corrected}"
            )
            print(outcome.answer, flush=True)
    print(f"\n{explained} of {len(CELLS)} explained, {corrected} of {len(CELLS)} corrected")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("ARCHYTAS_NB_DISCOVER", "0")
    raise SystemExit(main())
