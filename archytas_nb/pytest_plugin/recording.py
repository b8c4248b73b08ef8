"""Collects a notebook as one test, which runs it in a fresh kernel and saves its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import NoSuchKernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat.reader import NotJSONError

_EXPECTED = (
    CellExecutionError, DeadKernelError, NoSuchKernel, NotJSONError, nbformat.ValidationError
)  # fmt: skip


class NotebookFile(pytest.File):
    """One notebook."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test: the whole notebook."""
        yield NotebookRun.from_parent(self, name=self.config.option.agent_mode)


class NotebookRun(pytest.Item):
    """Runs a notebook and saves it."""

    def runtest(self) -> None:
        """Run all cells, and save the outputs."""
        option = self.config.option  # nbval's, where it is installed
        kernel = getattr(option, "nbval_kernel_name", None)
        if getattr(option, "nbval_current_env", False):
            kernel = "python3"  # which the Python that runs pytest stands for
        save(self.path, executed(self.path, kernel))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show a cell's error as the notebook would."""
        if isinstance(excinfo.value, _EXPECTED):
            return (
                f"{self.path.name} was not saved; the replies recorded so far are kept. "
                f"Continue with pytest --agent-update.\n{excinfo.value}"
            )
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, f"{self.path.name}: {self.name}"


def executed(path: Path, kernel: str | None = None) -> nbformat.NotebookNode:
    """Run a notebook in its folder and without time stamps; None takes the notebook's kernel."""
    book: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for cell in book.cells:
        cell.metadata.pop("execution", None)
    name: Any = {"kernel_name": kernel} if kernel else {}
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(book, timeout=None, record_timing=False, resources=resources, **name)
    client.execute()
    return book


def save(path: Path, book: nbformat.NotebookNode) -> None:
    """Save a notebook, unless nothing has changed."""
    text = nbformat.writes(book)  # type: ignore[no-untyped-call]
    text = text if text.endswith("\n") else f"{text}\n"
    if text != path.read_text("utf-8"):
        path.write_text(text, "utf-8", newline="\n")
