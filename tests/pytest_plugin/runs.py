"""Notebooks in a folder, recorded from a real server, and pytest runs over them in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

ONE = '''%%tool
def one(times: int = 1) -> int:
    """Give one.

    Args:
        times: How often it counts
    """
    return 1 * times
'''
CELLS = ("%load_ext archytas_nb", ONE, "%agent What is it?")


@dataclass
class Done:
    """What came of a command."""

    code: int
    out: str
    lines: list[str] = field(default_factory=list)


def run_python(*arguments: str, folder: Path | None = None, **variables: str) -> Done:
    """Run Python with no endpoint but what is named."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ARCHYTAS", "OPENAI"))}
    environment["ARCHYTAS_NB_DISCOVER"] = "0"
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, env=environment | variables, check=False, cwd=folder,
    )  # fmt: skip
    out = done.stdout + done.stderr
    return Done(done.returncode, out, out.splitlines())


def run_pytest(folder: Path, *options: str, **variables: str) -> Done:
    """Run pytest in a folder, with nothing of this project's configuration."""
    fixed = ("-p", "no:cacheprovider", f"--rootdir={folder}", "-c", os.devnull, "--color=no", "-Werror")
    return run_python("-m", "pytest", *fixed, *options, folder=folder, **variables)


def write_notebook(path: Path, *cells: str, **metadata: Any) -> Path:
    """Write a notebook without outputs."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell, metadata=metadata) for cell in cells])
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"
    nbformat.write(book, path)
    return path


def change(path: Path, old: str, new: str) -> None:
    """Change a text in a notebook's file."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
