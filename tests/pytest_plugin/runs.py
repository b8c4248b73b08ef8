"""Notebooks in a folder, recorded from a real server, and pytest runs over them in processes of their own."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pytest

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
    """The result of a command."""

    code: int
    out: str
    lines: list[str] = field(default_factory=list)


def run_python(*arguments: str, folder: Path | None = None, **variables: str) -> Done:
    """Run Python with no endpoint but what is named."""
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, env=environment(variables), check=False, cwd=folder,
    )  # fmt: skip
    out = done.stdout + done.stderr
    return Done(done.returncode, out, out.splitlines())


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that knows no endpoint but what is named."""
    ours = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("ARCHYTAS", "OPENAI"))
    }
    return ours | {"ARCHYTAS_NB_DISCOVER": "0"} | variables


def pytest_arguments(folder: Path, *options: str) -> list[str]:
    """Arguments with which nothing of this project's configuration counts in a folder."""
    fixed = (
        "-p",
        "no:cacheprovider",
        f"--rootdir={folder}",
        "-c",
        os.devnull,
        "--color=no",
        "-Werror",
    )
    return [*fixed, *options]


def run_installed_pytest(folder: Path, *options: str, **variables: str) -> Done:
    """Run pytest as a user does, with every plugin that is installed."""
    return run_python(
        "-m", "pytest", *pytest_arguments(folder, *options), folder=folder, **variables
    )


def run_pytest(folder: Path, *options: str, **variables: str) -> Done:
    """Run pytest in a folder, with our plugin and nbval's but no others.

    The process is forked from one that has imported what each of these runs would import, which takes longer than
    the run itself. Where a process cannot be forked it is an ordinary one.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return run_installed_pytest(folder, *options, **variables)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nbclient", "nbformat", "openai", "pytest", "IPython"])
    plugins = ["--disable-plugin-autoload", "-p", "archytas_nb"]
    plugins += [] if "no:nbval" in options else ["-p", "nbval"]
    printed = folder.parent / f"{folder.name}.printed"
    arguments = pytest_arguments(folder, *plugins, *options)
    process = context.Process(
        target=_pytest, args=(folder, arguments, environment(variables), printed)
    )
    process.start()
    process.join()
    out = printed.read_text("utf-8")
    printed.unlink()
    assert process.exitcode is not None
    return Done(process.exitcode, out, out.splitlines())


def _pytest(folder: Path, arguments: list[str], variables: dict[str, str], printed: Path) -> None:
    with printed.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path.insert(0, str(folder))
    sys.exit(pytest.main(arguments))


def run_here(folder: Path, *options: str, **variables: str) -> Done:
    """Run pytest in this process, for tests in which no kernel takes part."""
    printed, before = io.StringIO(), set(sys.modules)
    plugins = ["--disable-plugin-autoload", "-p", "archytas_nb", "-p", "no:faulthandler"]
    with (
        mock.patch.dict(os.environ, environment(variables), clear=True),
        mock.patch.object(sys, "path", [str(folder), *sys.path]),
        mock.patch.object(sys, "dont_write_bytecode", new=True),  # a test file changes quickly
        contextlib.chdir(folder),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        arguments = pytest_arguments(folder, *plugins, "--capture=sys", *options)
        code = int(pytest.main(arguments))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    return Done(code, printed.getvalue(), printed.getvalue().splitlines())


def write_notebook(path: Path, *cells: str, **metadata: Any) -> Path:
    """Write a notebook without outputs."""
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell, metadata=metadata) for cell in cells]
    )
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"
    nbformat.write(book, path)
    return path


def change(path: Path, old: str, new: str) -> None:
    """Change a text in a notebook's file."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
