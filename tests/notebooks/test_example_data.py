"""The data of the example notebooks can be read without pkg_resources, which current environments lack."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pandas")
PACKAGES = ("palmerpenguins", "vega_datasets")
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("0*.ipynb"))


def data_cell(notebook: Path) -> str:
    """The first cell that reads data of a package, without its magic."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return next(
        each.removeprefix("%%tool\n") for each in sources if any(name in each for name in PACKAGES)
    )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda each: each.stem)
def test_the_data_of_a_notebook_is_read_without_pkg_resources(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pkg_resources", None)
    for name in [each for each in sys.modules if each.partition(".")[0] in PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    exec(compile(data_cell(notebook), notebook.name, "exec"), {})
