"""Runs notebooks and tests with their cassettes, and reports how the cassettes were used.

With ``--agent-replay`` and ``--agent-live`` nbval runs the notebooks and compares their outputs;
with ``--agent-update`` and ``--agent-record`` our own collector runs them and saves their outputs.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import operator
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.cassettes.cassette import Cassette, Tally
from archytas_nb.cassettes.switch import MODE, PATH, REPORT, RERUN, CassetteModel
from archytas_nb.errors import ConfigurationError, FileError
from archytas_nb.files import OutputFile
from archytas_nb.models.choose import choose_model

PLUGIN = "archytas_nb agent runs"
UPDATE = "pytest --agent-update"
MODES: dict[str, Any] = {
    "replay": "replay", "check": "replay", "update": "auto", "record": "record", "live": "off"
}  # fmt: skip
"""The mode of a cassette for each option."""
_CHECK = "%agent_check --runs all --strict"
"""The cell that ``--agent-check`` adds at the end of a notebook."""
_RUN_WHOLE = ("record", "update", "check")
"""The modes in which our own collector runs notebooks."""
_USED = pytest.StashKey[set[Path]]()  # the cassettes of tests that were used in this run
_OURS = ("archytas_nb", "%agent")
"""A notebook without these words is recorded only where it is named on the command line."""
_PICTURES = {r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+": "data:image"}
"""The bytes of a figure depend on the library that drew it, and on the fonts of the machine."""
_NO_MODEL = "http://127.0.0.1:9/no-model-is-asked-in-a-replay/v1"
"""Nothing listens there: a request that bypasses the cassette fails, with the reason in its URL."""
_ENDPOINT = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "ARCHYTAS_NB_BASE_URL", "ARCHYTAS_NB_API_KEY",
    "ARCHYTAS_NB_WARM",
)  # fmt: skip


def summary(uses: Mapping[str, Tally]) -> list[str]:
    """The lines at the end of a test run, one for each notebook and test."""
    width = max(map(len, uses), default=0)
    lines = []
    for name, tally in uses.items():
        counts = {**asdict(tally), "missed": len(tally.missed)}
        words = ("replayed", "recorded", "missed", "unused", "dropped")
        shown = [f"{counts[word]} {word}" for word in words if counts[word]]
        if tally.input_tokens or tally.output_tokens:
            shown.append(f"{tally.input_tokens:,} + {tally.output_tokens:,} tokens saved")
        lines.append(f"{name:{width}}  {', '.join(shown) or 'no requests'}")
    if any(tally.unused and not tally.missed for tally in uses.values()):
        lines.append(f"some recorded exchanges were not used; {UPDATE} removes them")
    return lines


def unused_of(reports: Iterable[list[dict[str, Any]]]) -> dict[str, Counter[str]]:
    """The keys that no user of a cassette requested, by the cassette's path."""
    found: dict[str, list[Counter[str]]] = {}
    for first, *events in reports:
        used = Counter(event["used"] for event in events if "used" in event)
        found.setdefault(first["cassette"], []).append(Counter(first["unused"]) - used)
    return {path: functools.reduce(operator.and_, each) for path, each in found.items()}


class AgentRuns:
    """The hooks of a test run with one of the options."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._mode: str = config.option.agent_mode
        self._uses: dict[str, Tally] = {}
        self._running: _Notebook | None = None
        self.failed: set[object] = set()  # paths of notebooks and ids of tests
        option = config.option
        self._has_nbval = hasattr(option, "nbval")
        self._runs_notebooks = self._mode in _RUN_WHOLE
        if self._has_nbval and self._runs_notebooks:
            option.nbval = option.nbval_lax = False
        elif self._has_nbval and self._mode == "live" and option.nbval:
            option.nbval = False
            option.nbval_lax = True  # another answer is not a failure
        if self._has_nbval and (option.nbval or option.nbval_lax):
            self._runs_notebooks = True
            if getattr(option, "dist", "no") in ("load", "worksteal"):
                option.dist = "loadfile"  # of xdist: the cells of a notebook share a kernel

    def pytest_report_header(self) -> str:
        """Show the mode, and whether notebooks are run."""
        note = ""
        if not self._runs_notebooks:
            note = f" (notebooks are not run: {self._why_not})"
        return f"agent: {self._mode}{note}"

    @property
    def _why_not(self) -> str:
        if self._has_nbval:
            return "add --nbval"
        return "nbval is not installed"

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> NotebookFile | None:
        """Collect the notebooks that are to be recorded."""
        if file_path.suffix != ".ipynb":
            return None
        if not self._runs_notebooks and parent.session.isinitpath(file_path):
            raise pytest.UsageError(f"{file_path.name} is not run: {self._why_not}")
        if self._mode not in _RUN_WHOLE:
            return None
        text = file_path.read_text("utf-8", errors="replace")
        if not (parent.session.isinitpath(file_path) or any(word in text for word in _OURS)):
            return None
        if importlib.util.find_spec("nbclient") is None:
            raise pytest.UsageError(f"--agent-{self._mode} needs nbclient: pip install nbclient")
        return NotebookFile.from_parent(parent, path=file_path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the environment before the notebook's kernel starts."""
        if item.path.suffix != ".ipynb":
            return
        if self._running is None or self._running.path != item.path:
            self.pytest_unconfigure()
            self._running = _Notebook(item.path, self._mode, self.name(item.path))
        self._running.cells += 1
        patterns = getattr(item.parent, "sanitize_patterns", None)  # of nbval
        if patterns is not None and self._mode == "replay":
            patterns.update(self._running.volatile())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Have nbval run cells with their history, as a front end does: questions are about it."""
        kernel: Any = getattr(item.parent, "kernel", None)  # of nbval
        if item.path.suffix == ".ipynb" and hasattr(kernel, "execute_cell_input"):
            kernel.execute_cell_input = functools.partial(_executed, kernel)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note that a test has failed: it did not come to use all exchanges."""
        report = yield
        if report.failed:
            self.failed |= {item.nodeid, item.path}
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        """After the last cell of a notebook, report the use of its cassettes."""
        try:
            return (yield)
        finally:
            running = self._running
            if running is not None and (nextitem is None or nextitem.path != item.path):
                has_failed = item.path in self.failed
                tally = running.tally(has_failed=has_failed)
                self.pytest_unconfigure()
                if tally is not None:
                    is_whole = not has_failed and running.is_whole(item)
                    self.report(item, running.name, tally, is_whole=is_whole)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the uses, also those of xdist's workers."""
        if report.when != "teardown":
            return
        for name, use in report.user_properties:
            if name.startswith(PLUGIN):
                self._uses[name.removeprefix(PLUGIN)] = Tally(**json.loads(str(use)))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the use of the cassettes of each notebook and test."""
        if self._uses:
            terminalreporter.section(f"agent: {self._mode}", sep="-")
            for line in summary(self._uses):
                terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Restore the environment."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def report(self, item: pytest.Item, name: str, tally: Tally, *, is_whole: bool) -> None:
        """Add a use to the summary; with ``--agent-strict`` fail where exchanges are left over."""
        item.user_properties.append((PLUGIN + name, json.dumps(asdict(tally))))
        is_strict = self._config.option.agent_strict and self._mode == "replay"
        if is_strict and is_whole and (tally.unused or tally.missed):
            pytest.fail(
                f"{name}: {len(tally.missed)} requests were not recorded, {tally.unused} recorded "
                f"exchanges were not used; {UPDATE} {shlex.quote(name)} fixes both",
                pytrace=False,
            )

    def name(self, path: Path) -> str:
        """A path as a person would type it."""
        name = os.path.relpath(path, self._config.invocation_params.dir)
        if name.startswith(os.pardir):
            return str(path)
        return name


def _executed(kernel: Any, source: str, allow_stdin: bool | None = None) -> str:  # noqa: FBT001
    """Execute a cell in a kernel of nbval; returns the id of the message."""
    message: str = kernel.kc.execute(
        source, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
    )
    return message


class NotebookFile(pytest.File):
    """A notebook that is recorded."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test: the whole notebook."""
        yield NotebookRun.from_parent(self, name=self.config.option.agent_mode)


class NotebookRun(pytest.Item):
    """Runs a notebook in a fresh kernel and saves it; imports nbclient only then."""

    def runtest(self) -> None:
        """Run all cells in the notebook's folder, and save the outputs, without time stamps.

        To check the answers, a cell is added at the end, and nothing is saved.
        """
        import nbformat
        from nbclient import NotebookClient

        book: Any = nbformat.read(self.path, as_version=4)  # type: ignore[no-untyped-call]
        for cell in book.cells:
            cell.metadata.pop("execution", None)
        option = self.config.option  # nbval's, where it is installed
        if option.agent_mode == "check":
            book.cells.append(nbformat.v4.new_code_cell(_CHECK))  # type: ignore[no-untyped-call]
        kernel = getattr(option, "nbval_kernel_name", None)
        if getattr(option, "nbval_current_env", False):
            kernel = "python3"  # which the Python that runs pytest stands for
        options: dict[str, Any] = {"resources": {"metadata": {"path": str(self.path.parent)}}}
        if kernel:  # without a name, the kernel of the notebook
            options["kernel_name"] = kernel
        NotebookClient(book, timeout=None, record_timing=False, **options).execute()
        if option.agent_mode == "check":
            return
        text = nbformat.writes(book)  # type: ignore[no-untyped-call]
        if not text.endswith("\n"):
            text = f"{text}\n"
        if text != self.path.read_text("utf-8"):
            OutputFile(
                self.path, "the notebook", "Its cells have run; the file is unchanged"
            ).write(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show a cell's error as the notebook would."""
        from jupyter_client.kernelspec import NoSuchKernel
        from nbclient.exceptions import CellExecutionError, DeadKernelError
        from nbformat import ValidationError
        from nbformat.reader import NotJSONError

        expected: tuple[type[BaseException], ...]
        expected = CellExecutionError, DeadKernelError, NoSuchKernel, NotJSONError, ValidationError
        expected = *expected, FileError
        if isinstance(excinfo.value, expected) and self.config.option.agent_mode == "check":
            return f"{self.path.name}: {excinfo.value}"
        if isinstance(excinfo.value, expected):
            return (
                f"{self.path.name} was not saved; the replies recorded so far are kept. "
                f"Continue with pytest --agent-update.\n{excinfo.value}"
            )
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The place of the item."""
        return self.path, None, f"{self.path.name}: {self.name}"


class _Notebook:
    """One notebook while it runs: a kernel takes its environment from ours when it starts."""

    def __init__(self, path: Path, mode: str, name: str) -> None:
        self.path = path
        self._mode = mode
        self.name = name
        self.cells = 0
        self._beside = path.parent / "cassettes" / f"{path.stem}.jsonl"
        self._folder = tempfile.TemporaryDirectory(prefix="archytas_nb-")
        self._environment = pytest.MonkeyPatch()
        values = {MODE: MODES[mode]}
        removed = [PATH, REPORT, RERUN]
        if mode != "live":
            rerun = f"{UPDATE} {shlex.quote(name)}"
            values |= {PATH: str(self._beside), REPORT: self._folder.name, RERUN: rerun}
        if MODES[mode] == "replay":
            removed += _ENDPOINT
            values["OPENAI_BASE_URL"] = _NO_MODEL
        for variable in removed:
            self._environment.delenv(variable, raising=False)
        for variable, value in values.items():
            self._environment.setenv(variable, value)

    def end(self) -> None:
        """Restore the environment."""
        self._environment.undo()
        self._folder.cleanup()

    def is_whole(self, item: pytest.Item) -> bool:
        """Whether all cells were run; others would leave exchanges over."""
        book = getattr(item.parent, "nb", None)
        cells = 1
        if book is not None:
            cells = sum(cell.cell_type == "code" for cell in book.cells)
        return self.cells == cells

    def volatile(self) -> dict[str, str]:
        """The parts of outputs that may differ, for nbval: patterns and their replacements."""
        found = dict(_PICTURES)
        for path in {self._beside, *(Path(first["cassette"]) for first, *_ in self._reports())}:
            with suppress(ConfigurationError):  # the cell that uses it shows the error
                patterns = Cassette(path, "replay").matcher.volatile.patterns
                found |= {pattern: f"{{{name}}}" for name, pattern in patterns.items()}
        return found

    def tally(self, *, has_failed: bool) -> Tally | None:
        """The use of its cassettes; None where it has none. An update drops what is unused."""
        reports = self._reports()
        tally = sum((Tally(**report[-1]["tally"]) for report in reports), Tally())
        unused = {p: keys for p, keys in unused_of(reports).items() if not self._is_shared(p)}
        if self._mode == "update" and not has_failed:
            left = ((path, keys) for path, keys in unused.items() if keys)
            tally.dropped += sum(Cassette(path, "auto").prune(keys) for path, keys in left)
        elif self._mode == "replay":
            tally.unused = sum(keys.total() for keys in unused.values())
            if not reports and self._beside.exists():
                with suppress(ConfigurationError):
                    tally.unused = Cassette(self._beside, "replay").unused
        if reports or tally.unused:
            return tally
        return None

    def _reports(self) -> list[list[dict[str, Any]]]:
        """The reports of the notebook's kernels about their cassettes."""
        paths = sorted(Path(self._folder.name).glob("*.jsonl"))
        # A kernel that was killed may have left a line without its end.
        texts = [path.read_text("utf-8").rpartition("\n")[0] for path in paths]
        return [list(map(json.loads, text.splitlines())) for text in texts if text]

    def _is_shared(self, cassette: str) -> bool:
        """Whether another notebook names the cassette, and may use what this one does not."""
        path = Path(cassette)
        folders = {self.path.parent, path.parent, path.parent.parent}
        notebooks = {each.resolve() for folder in folders for each in folder.glob("*.ipynb")}
        others = notebooks - {self.path.resolve()}
        return any(path.name in each.read_text("utf-8", errors="replace") for each in others)


def cassette_model(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The model of one plain test; the use of its cassette is reported after the test."""
    node = request.node
    config = request.config
    marker = node.get_closest_marker("agent_cassette")
    given: dict[str, Any] = dict(marker.kwargs) if marker else {}
    mode = config.option.agent_mode or "replay"
    if mode == "live":
        yield choose_model(given.get("model"))
        return
    test = node.nodeid.partition("::")[2]
    file = re.sub(r"[^\w.-]+", "-", test).strip("-") + ".jsonl"
    # A file that the marker names may be shared with other tests: nothing in it is unused.
    shared = given.get("path")
    path = request.path.parent / (shared or Path("cassettes", request.path.stem, file))
    used = config.stash.setdefault(_USED, set())
    is_begun = mode == "record" and path in used  # what another test has just recorded stays
    used.add(path)
    name = f"{os.path.relpath(request.path, config.invocation_params.dir)}::{test}"
    rerun = f"{UPDATE} {shlex.quote(name)}"
    way = MODES["update" if is_begun else mode]
    cassette = Cassette(path, way, volatile=given.get("volatile"), rerun=rerun)
    yield CassetteModel(cassette, lambda: choose_model(given.get("model")))
    runs = config.pluginmanager.get_plugin(PLUGIN)
    if runs is None:
        return
    has_failed = node.nodeid in runs.failed
    if mode == "update" and not has_failed and not shared:
        cassette.prune()
    if not shared:
        cassette.tally.unused = cassette.unused
    runs.report(node, name, cassette.tally, is_whole=not has_failed)
