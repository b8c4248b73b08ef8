"""Runs notebooks and tests with their cassettes, and reports what became of the cassettes.

With ``--agent-replay`` and ``--agent-live`` nbval runs the notebooks and compares their outputs;
with ``--agent-update`` and ``--agent-record`` our own collector runs them and saves their outputs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.file import volatile_of
from archytas_nb.cassettes.switch import MODE, PATH, REPORT, RERUN, CassetteModel
from archytas_nb.errors import ConfigurationError
from archytas_nb.models.choose import choose_model

if TYPE_CHECKING:
    from archytas_nb.pytest_plugin.recording import NotebookFile

PROPERTY = "agent_cassette"
PLUGIN = "archytas_nb agent runs"
UPDATE = "pytest --agent-update"
MODES = {"replay": "replay", "update": "auto", "record": "record", "live": "off"}
"""The mode of a cassette for each option."""
_FAILED = pytest.StashKey[bool]()
_USED = pytest.StashKey[set[Path]]()  # the cassettes of tests that were used in this run
_OURS = ("archytas_nb", "%agent")
"""A notebook without these words is recorded only where it is named on the command line."""
_PICTURES = {r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=]+": "data:image"}
"""The bytes of a figure depend on the library that drew it, and on the fonts of the machine."""
_REFUSING = "http://127.0.0.1:9/no-model-is-asked-in-a-replay/v1"
"""Nothing listens there: code that asks a model past the cassette is refused and sees why."""
_ENDPOINT = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "ARCHYTAS_NB_BASE_URL", "ARCHYTAS_NB_API_KEY",
    "ARCHYTAS_NB_WARM",
)  # fmt: skip


@dataclass
class Use:
    """What the cassettes of one notebook or test were used for, as in `Tally`."""

    name: str
    replayed: int = 0
    recorded: int = 0
    missed: list[str] = field(default_factory=list)
    unused: int = 0
    pruned: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, tally: Mapping[str, Any]) -> None:
        """Add the tally of one cassette, except for its unused exchanges."""
        self.replayed += tally["replayed"]
        self.recorded += tally["recorded"]
        self.pruned += tally["pruned"]
        self.missed += tally["missed"]
        self.input_tokens += tally["usage"]["input_tokens"]
        self.output_tokens += tally["usage"]["output_tokens"]

    def line(self, width: int) -> str:
        """One line of the summary, where the name takes `width` columns."""
        counts = {
            "replayed": self.replayed, "recorded": self.recorded, "missed": len(self.missed),
            "unused": self.unused, "dropped": self.pruned,
        }  # fmt: skip
        shown = [f"{count} {what}" for what, count in counts.items() if count]
        if self.input_tokens or self.output_tokens:
            shown.append(f"{self.input_tokens:,} + {self.output_tokens:,} tokens not paid")
        return f"{self.name:{width}}  {', '.join(shown) or 'nothing asked'}"


def summary(uses: Sequence[Use]) -> list[str]:
    """The lines at the end of a test run."""
    width = max((len(use.name) for use in uses), default=0)
    lines = [use.line(width) for use in uses]
    causes = Counter(cause for use in uses for cause in use.missed)
    if causes:
        counts = ", ".join(f"{cause} {count}" for cause, count in causes.items())
        lines.append(f"missed, by cause: {counts}")
    if any(use.unused and not use.missed for use in uses):
        lines.append(
            f"unused exchanges were recorded and are not asked for any more; {UPDATE} drops them"
        )
    tokens = sum(use.input_tokens + use.output_tokens for use in uses)
    if len(uses) > 1 and tokens:
        replayed = sum(use.replayed for use in uses)
        lines.append(f"in all {replayed} replayed, {tokens:,} tokens not paid")
    return lines


def unused_of(reports: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """The exchanges that no user of a cassette asked for, by the cassette's path."""
    unused: dict[str, set[tuple[str, int]]] = {}
    for report in reports:
        names = {(key, number) for key, number in report["unused"]}
        unused[report["cassette"]] = unused.get(report["cassette"], names) & names
    return {path: sorted(names) for path, names in unused.items()}


class AgentRuns:
    """The hooks of a test run with one of the options."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._mode: str = config.option.agent_mode
        self._uses: list[Use] = []
        self._running: _Notebook | None = None
        option = config.option
        self._has_nbval = hasattr(option, "nbval")
        self._runs_notebooks = self._mode in ("record", "update")
        if self._has_nbval and self._runs_notebooks:
            option.nbval = option.nbval_lax = False
        elif self._has_nbval and self._mode == "live" and option.nbval:
            option.nbval, option.nbval_lax = False, True  # another answer is no failure
        if self._has_nbval and (option.nbval or option.nbval_lax):
            self._runs_notebooks = True
            if getattr(option, "dist", "no") in ("load", "worksteal"):
                option.dist = "loadfile"  # of xdist: the cells of a notebook share a kernel

    def pytest_report_header(self) -> str:
        """Show the mode, and whether notebooks are run."""
        why = "give --nbval too" if self._has_nbval else "nbval is not installed"
        note = "" if self._runs_notebooks else f" (notebooks are not run: {why})"
        return f"agent: {self._mode}{note}"

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> NotebookFile | None:
        """Collect the notebooks that are to be recorded."""
        if self._mode not in ("record", "update") or file_path.suffix != ".ipynb":
            return None
        text = file_path.read_text("utf-8", errors="replace")
        if not (parent.session.isinitpath(file_path) or any(word in text for word in _OURS)):
            return None
        if importlib.util.find_spec("nbclient") is None:
            raise pytest.UsageError(
                f"--agent-{self._mode} runs notebooks with nbclient: pip install nbclient"
            )
        from archytas_nb.pytest_plugin.recording import NotebookFile

        return NotebookFile.from_parent(parent, path=file_path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the environment before the notebook's kernel starts."""
        if item.path.suffix != ".ipynb":
            return
        if self._running is None or self._running.path != item.path:
            self.pytest_unconfigure()
            self._running = _Notebook(item.path, self._mode, self._name(item.path))
        self._running.cells += 1
        patterns = getattr(item.parent, "sanitize_patterns", None)  # of nbval
        if patterns is not None and self._mode == "replay":
            patterns.update(self._running.volatile())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note that a test has failed: it did not come to use all exchanges."""
        report = yield
        if report.failed:
            item.stash[_FAILED] = True
            if self._running is not None and self._running.path == item.path:
                self._running.has_failed = True
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
                use = running.use()
                self.pytest_unconfigure()
                if use is not None:
                    self.report(item, use, has_failed=running.has_failed or running.is_part(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the uses, also those of xdist's workers."""
        if report.when == "teardown":
            properties = report.user_properties
            self._uses += [Use(**json.loads(str(use))) for n, use in properties if n == PROPERTY]

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

    def report(self, item: pytest.Item, use: Use, *, has_failed: bool) -> None:
        """Add a use to the summary; with ``--agent-strict`` fail where exchanges are left over."""
        item.user_properties.append((PROPERTY, json.dumps(asdict(use))))
        is_strict = self._config.option.agent_strict and self._mode == "replay"
        if is_strict and not has_failed and (use.unused or use.missed):
            pytest.fail(
                f"{use.name}: {len(use.missed)} requests were not recorded, {use.unused} recorded "
                f"exchanges were not asked for; {UPDATE} {shlex.quote(use.name)} fixes both",
                pytrace=False,
            )

    def _name(self, path: Path) -> str:
        """A path as a person would type it."""
        name = os.path.relpath(path, self._config.invocation_params.dir)
        return str(path) if name.startswith(os.pardir) else name


class _Notebook:
    """One notebook while it runs: a kernel takes its environment from ours when it starts."""

    def __init__(self, path: Path, mode: str, name: str) -> None:
        self.path, self._mode, self._name = path, mode, name
        self.has_failed = False
        self.cells = 0
        self._beside = path.parent / "cassettes" / f"{path.stem}.jsonl"
        self._folder = Path(tempfile.mkdtemp(prefix="archytas_nb-"))
        values: dict[str, str | None] = dict.fromkeys((PATH, REPORT, RERUN))
        if mode != "live":
            rerun = f"{UPDATE} {shlex.quote(name)}"
            values = {PATH: str(self._beside), REPORT: str(self._folder), RERUN: rerun}
        if mode == "replay":
            values |= {**dict.fromkeys(_ENDPOINT), "OPENAI_BASE_URL": _REFUSING}
        self._before = _set_environment({**values, MODE: MODES[mode]})

    def end(self) -> None:
        """Restore the environment."""
        _set_environment(self._before)
        shutil.rmtree(self._folder, ignore_errors=True)

    def is_part(self, item: pytest.Item) -> bool:
        """Whether only some cells were run, which leave exchanges over."""
        book = getattr(item.parent, "nb", None)
        cells = 1 if book is None else sum(cell.cell_type == "code" for cell in book.cells)
        return self.cells != cells

    def volatile(self) -> dict[str, str]:
        """What may differ in the outputs, for nbval: patterns and their replacements."""
        found = dict(_PICTURES)
        paths = {self._beside, *(Path(report["cassette"]) for report in self._reports())}
        for path in sorted(paths):
            with suppress(ConfigurationError):  # the cell that uses it shows the error
                patterns = volatile_of(path).patterns
                found |= {pattern: f"{{{name}}}" for name, pattern in patterns.items()}
        return found

    def use(self) -> Use | None:
        """The use of its cassettes; None where it has none. An update drops what is unused."""
        reports = self._reports()
        use = Use(self._name)
        for report in reports:
            use.add(report)
        unused = {p: names for p, names in unused_of(reports).items() if not self._is_shared(p)}
        if self._mode == "update" and not self.has_failed:
            left = ((path, names) for path, names in unused.items() if names)
            use.pruned += sum(Cassette(path, "auto").prune(names) for path, names in left)
        elif self._mode != "record":
            use.unused = sum(map(len, unused.values()))
            if not reports and self._beside.exists():
                with suppress(ConfigurationError):
                    use.unused = Cassette(self._beside, "replay").unused
        return use if reports or use.unused else None

    def _reports(self) -> list[dict[str, Any]]:
        """What the kernels of the notebook reported about their cassettes."""
        paths = sorted(self._folder.glob("*.json"))
        return [json.loads(path.read_text("utf-8")) for path in paths]

    def _is_shared(self, cassette: str) -> bool:
        """Whether another notebook names the cassette, and may use what this one does not."""
        path = Path(cassette)
        folders = {self.path.parent, path.parent, path.parent.parent}
        notebooks = {each.resolve() for folder in folders for each in folder.glob("*.ipynb")}
        others = notebooks - {self.path.resolve()}
        return any(path.name in each.read_text("utf-8", errors="replace") for each in others)


def _set_environment(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Set variables, or remove those that are None; return what they were before."""
    before = {name: os.environ.get(name) for name in values}
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return before


def cassette_model(request: pytest.FixtureRequest) -> Iterator[CassetteModel]:
    """The model of one plain test; the use of its cassette is reported after the test."""
    node, config = request.node, request.config
    marker = node.get_closest_marker("agent_cassette")
    given: dict[str, Any] = dict(marker.kwargs) if marker else {}
    mode = config.option.agent_mode or "replay"
    test = node.nodeid.partition("::")[2]
    file = re.sub(r"[^\w.-]+", "-", test).strip("-") + ".jsonl"
    # A file that the marker names may be shared with other tests: nothing in it is unused.
    shared = given.get("path")
    path = request.path.parent / (shared or Path("cassettes", request.path.stem, file))
    used = config.stash.setdefault(_USED, set())
    is_begun = mode == "record" and path in used  # what another test has just recorded stays
    used.add(path)
    name = f"{os.path.relpath(request.path, config.invocation_params.dir)}::{test}"
    cassette = Cassette(
        path,
        MODES["update" if is_begun else mode],  # type: ignore[arg-type]
        volatile=given.get("volatile"),
        rerun=f"{UPDATE} {shlex.quote(name)}",
    )
    yield CassetteModel(cassette, lambda: choose_model(given.get("model")))
    runs = config.pluginmanager.get_plugin(PLUGIN)
    if mode == "live" or runs is None:
        return
    has_failed = node.stash.get(_FAILED, False)
    if mode == "update" and not has_failed and not shared:
        cassette.prune()
    use = Use(name, unused=0 if shared else cassette.unused)
    use.add(asdict(cassette.tally))
    runs.report(node, use, has_failed=has_failed)
