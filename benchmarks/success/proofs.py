"""The questions of example notebooks, asked live: is the code of their runs proved?

python -m benchmarks.success.proofs                                   notebooks 01 and 08
python -m benchmarks.success.proofs notebooks/02_tools_in_depth.ipynb --options "--max-steps 9"

Cassettes and scripted models are left out, so that the model is asked which `%agent` would take. After each question
its code is printed, with what `%agent_code` says of it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
EXAMPLES = (NOTEBOOKS / "01_quickstart.ipynb", NOTEBOOKS / "08_your_data.ipynb")
NEXT_CELL = "get_ipython().set_next_input = lambda text, replace=False: print(text)"
"""Shows the code of a run, which has no next cell here to go to."""

_QUESTION = re.compile(r"%agent (?!_)")
_MODEL = re.compile(r"(%agent .*?)(?:-m|--model) \S+ ")


@dataclass(frozen=True)
class Proved:
    """A question that was asked.

    Attributes:
        cell: The question, as it was asked.
        shown: What `%agent_code` showed after it.
        seconds: What the question took.
    """

    cell: str
    shown: str
    seconds: float

    @property
    def proof(self) -> str:
        """The line that says whether the code is proved."""
        lines = [line for line in self.shown.splitlines() if "verif" in line]
        return lines[-1] if lines else "no code"

    @property
    def result(self) -> Literal["proved", "not proved", "no values"]:
        """Whether all values are equal; there are none if no call returned one."""
        if self.proof.startswith("verified: "):
            return "proved"
        return "no values" if self.proof.startswith("nothing to verify") else "not proved"


def asked_live(notebook: Path, options: str = "") -> Iterator[Proved]:
    """Run a notebook with the model that `%agent` takes, and prove the code of each question."""
    book = nbformat.read(notebook, as_version=4)
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    empty = nbformat.v4.new_notebook(metadata=metadata)
    client = NotebookClient(empty, timeout=900, allow_errors=True)
    sources = [each.source for each in book.cells if each.cell_type == "code"]
    with client.setup_kernel(cwd=str(notebook.parent)):
        _shown(client, NEXT_CELL)
        for source in sources:
            cell = live(source, options)
            started = time.perf_counter()
            _shown(client, cell)
            seconds = time.perf_counter() - started
            if _QUESTION.search(cell):
                yield Proved(cell, _shown(client, "%agent_code"), seconds)


def live(source: str, options: str = "") -> str:
    """A cell without cassette and without the model that it names."""
    source = re.sub(r"^%agent_cassette .*\n?", "", source, flags=re.MULTILINE)
    source = _MODEL.sub(r"\1", source)
    return _QUESTION.sub(f"%agent {options} ", source) if options else source


def _shown(client: NotebookClient, source: str) -> str:
    """Run a cell; what it showed as text."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    texts = []
    for output in cell.outputs:
        match output.output_type:
            case "stream":
                texts.append(output.text)
            case "error":
                texts.append(f"{output.ename}: {output.evalue}")
            case _:
                texts.append(output.data.get("text/plain", ""))
    return "\n".join(texts)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.success.proofs", description="Is the code of live runs proved?"
    )
    parser.add_argument("notebooks", nargs="*", type=Path, default=EXAMPLES, metavar="NOTEBOOK")
    parser.add_argument("--options", default="", help="options for each %%agent")
    given = parser.parse_args(arguments)
    found = []
    for notebook in given.notebooks:
        for each in asked_live(notebook, given.options):
            found.append(each)
            print(
                f"── {notebook.stem}, {each.seconds:.1f} s: {each.cell}\n{each.shown}", flush=True
            )
    print("\nseconds  question")
    for each in found:
        print(f"{each.seconds:7.1f}  {each.cell}\n         {each.proof}")
    results = Counter(each.result for each in found)
    print(", ".join(f"{number} {result}" for result, number in results.items()))
    return int(results["not proved"] > 0)


if __name__ == "__main__":
    sys.exit(main())
