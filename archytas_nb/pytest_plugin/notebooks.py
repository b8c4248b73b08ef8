"""What pytest does in a run with one of our options: environments, reports, and who carries a notebook out.

Under ``--agent-replay`` and ``--agent-live`` nbval runs the notebooks; under ``--agent-update`` and
``--agent-record`` our own collector does, for nbval compares outputs and these save them.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from archytas_nb.errors import ConfigurationError
from archytas_nb.pytest_plugin.environment import KernelEnvironment, cassette_beside
from archytas_nb.pytest_plugin.told import Told, read_reports, summary, unused_of

if TYPE_CHECKING:
    from archytas_nb.pytest_plugin.recording import NotebookFile

PROPERTY = "agent_cassette"
FAILED = pytest.StashKey[bool]()
"""Whether a test has failed already."""

_OURS = ("archytas_nb", "%agent")
"""What a notebook of ours has in it; any other is recorded only where it is named on the command line."""

_PICTURES = {r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+": "data:image"}
"""A figure's bytes depend on the version of the library that drew it, and on the fonts of the machine."""


class AgentRuns:
    """Our part in one test run.

    Args:
        config: pytest's.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._mode: str = config.option.agent_mode
        self._told: list[Told] = []
        self._running: _Notebook | None = None
        option = config.option
        self._nbval_is_there = hasattr(option, "nbval")
        self._runs_notebooks = self._mode in ("record", "update")
        if self._nbval_is_there and self._runs_notebooks:
            option.nbval = option.nbval_lax = False
        elif self._nbval_is_there and self._mode == "live" and option.nbval:
            option.nbval, option.nbval_lax = False, True  # another answer is no fault
        if self._nbval_is_there and (option.nbval or option.nbval_lax):
            self._runs_notebooks = True
            if getattr(option, "dist", "no") in (
                "load",
                "worksteal",
            ):  # xdist's: the cells share a kernel
                option.dist = "loadfile"

    def pytest_report_header(self) -> str:
        """Say the mode, and what it leaves out."""
        if self._runs_notebooks:
            return f"agent: {self._mode}"
        why = "give --nbval too" if self._nbval_is_there else "nbval is not installed"
        return f"agent: {self._mode} (notebooks are not run: {why})"

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> NotebookFile | None:
        """Take the notebooks of ours that are to be recorded."""
        if self._mode not in ("record", "update") or file_path.suffix != ".ipynb":
            return None
        text = file_path.read_text("utf-8", errors="replace")
        if not (parent.session.isinitpath(file_path) or any(each in text for each in _OURS)):
            return None
        if importlib.util.find_spec("nbclient") is None:
            raise pytest.UsageError(
                f"--agent-{self._mode} runs notebooks with nbclient: pip install nbclient"
            )
        from archytas_nb.pytest_plugin.recording import NotebookFile

        return NotebookFile.from_parent(parent, path=file_path, mode=self._mode)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the environment before the notebook's kernel starts."""
        if item.path.suffix != ".ipynb":
            return
        if self._running is None or self._running.path != item.path:
            self._end_notebook()
            self._running = _Notebook(item.path, self._mode, self.rerun(item.path))
        self._running.cells += 1
        patterns = getattr(item.parent, "sanitize_patterns", None)
        if patterns is not None and self._mode == "replay":
            patterns.update(self._running.volatile())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note that a test has failed: what it did not get to is not unused."""
        report = yield
        if report.failed:
            item.stash[FAILED] = True
            if self._running is not None and self._running.path == item.path:
                self._running.failed = True
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        """After the last cell: take the environment back and see what became of the cassettes."""
        try:
            return (yield)
        finally:
            running = self._running
            if running is not None and (nextitem is None or nextitem.path != item.path):
                told = running.told(self.name(running.path))
                self._end_notebook()
                if told is not None:
                    item.user_properties.append((PROPERTY, told.as_text()))
                    if not running.failed and running.cells == cells_of(item):
                        self.judge(told)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather what was told, with xdist from the workers' reports."""
        if report.when == "teardown":
            self._told += [
                Told.from_text(str(text))
                for name, text in report.user_properties
                if name == PROPERTY
            ]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say per notebook and test what became of its cassettes."""
        lines = summary(self._told, "pytest --agent-update")
        if lines:
            terminalreporter.section(f"agent: {self._mode}", sep="-")
            for line in lines:
                terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind."""
        self._end_notebook()

    def judge(self, told: Told) -> None:
        """Fail where that is asked for and exchanges are left over."""
        if (
            self._config.option.agent_strict
            and self._mode == "replay"
            and (told.unused or told.missed)
        ):
            pytest.fail(
                f"{told.name}: {len(told.missed)} requests were not recorded, {told.unused} recorded exchanges "
                f"were not asked for; pytest --agent-update {shlex.quote(told.name)} mends both",
                pytrace=False,
            )

    def name(self, path: Path) -> str:
        """A path as a person would type it."""
        name = os.path.relpath(path, self._config.invocation_params.dir)
        return str(path) if name.startswith(os.pardir) else name

    def rerun(self, path: Path) -> str:
        """The command that records what a notebook misses."""
        return f"pytest --agent-update {shlex.quote(self.name(path))}"

    def _end_notebook(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


def cells_of(item: pytest.Item) -> int:
    """How many tests a notebook has where all of it is run: of some of its cells, exchanges are left over."""
    book = getattr(item.parent, "nb", None)
    return 1 if book is None else sum(cell.cell_type == "code" for cell in book.cells)


class _Notebook:
    """One notebook while it is run.

    Attributes:
        failed: Whether a cell has failed.
        cells: How many were run.
    """

    def __init__(self, path: Path, mode: str, rerun: str) -> None:
        self.path = path
        self.failed = False
        self.cells = 0
        self._mode = mode
        self._folder = Path(tempfile.mkdtemp(prefix="archytas_nb-"))
        self._environment = KernelEnvironment(path, mode, self._folder, rerun)
        self._environment.enter()

    def volatile(self) -> dict[str, str]:
        """What the notebook's cassettes allow to differ, as nbval wants it: patterns and what they become."""
        from archytas_nb.cassettes.store import volatile_of

        paths = {
            cassette_beside(self.path),
            *(Path(each["cassette"]) for each in read_reports(self._folder)),
        }
        found = dict(_PICTURES)
        for path in sorted(paths):
            try:
                found |= volatile_of(path)
            except ConfigurationError:
                continue  # the cell that uses it says so
        return found

    def told(self, name: str) -> Told | None:
        """What became of its cassettes; None where it has none."""
        reports = read_reports(self._folder)
        told = Told(name)
        for each in reports:
            told.add(each)
        unused = {
            path: names
            for path, names in unused_of(reports).items()
            if not self._is_shared(Path(path))
        }
        beside = cassette_beside(self.path)
        if self._mode == "update" and not self.failed:
            told.pruned += sum(_drop(path, names) for path, names in unused.items())
        elif self._mode != "record":
            told.unused = sum(map(len, unused.values()))
            if not reports and beside.exists():
                told.unused = _count(beside)
        return told if reports or told.unused else None

    def _is_shared(self, cassette: Path) -> bool:
        """Whether another notebook names the cassette too: what this one does not ask for is not unused then."""
        folders = {self.path.parent, cassette.parent, cassette.parent.parent}
        others = {each.resolve() for folder in folders for each in folder.glob("*.ipynb")} - {
            self.path.resolve()
        }
        return any(cassette.name in each.read_text("utf-8", errors="replace") for each in others)

    def end(self) -> None:
        """Take back what it was given."""
        self._environment.leave()
        shutil.rmtree(self._folder, ignore_errors=True)


def _drop(path: str, names: list[tuple[str, int]]) -> int:
    from archytas_nb.cassettes.cassette import Cassette

    return Cassette(path, "auto").drop(names) if names else 0


def _count(path: Path) -> int:
    from archytas_nb.cassettes.cassette import Cassette

    try:
        return Cassette(path, "replay").unused
    except ConfigurationError:
        return 0
