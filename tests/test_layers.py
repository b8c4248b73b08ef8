"""The layers of the package, and who may import which library.

A module imports only modules of lower layers or of its own package, no module imports itself
through others, and each library has a fixed importer. Imports inside functions and those for type
checkers count like any other.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "archytas_nb"
NAME = "archytas_nb"

LAYERS = (
    ("__main__",),
    ("", "command", "pytest_plugin"),  # "" is the package itself, with the public names
    ("magics",),
    ("chat", "mcp"),
    ("agent",),
    ("aio", "batch"),
    ("driver",),
    ("prepare",),
    ("background", "conversation", "fork", "memory", "progress", "telemetry", "template"),
    ("rules", "skills"),
    ("cassettes", "run"),
    ("code",),
    ("answers", "kernel", "models", "sandbox", "trace"),
    ("undo",),
    ("cells",),
    ("interrupts", "settings", "small"),
    ("provenance",),
    ("loop", "testing", "tools"),
    ("loop.events",),
    ("loop.decision",),
    ("copies", "effects", "functions", "objects"),
    ("files", "hints"),
    (
        "acts",
        "choices",
        "errors",
        "exact",
        "extras",
        "namespace",
        "numbers",
        "syntax",
        "untrusted",
        "version",
        "words",
    ),
)
"""The packages and the modules outside of them, from the top to the bottom."""

IMPORTERS = {
    "pydantic_monty": {"sandbox"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "uvicorn": {"mcp.server"},
    "httpx2": {"mcp"},
    "anyio": {"mcp"},
    "jsonschema": {"mcp.client"},
    "acp": {"chat.bridge"},
    "jupyter_ai_acp_client": {"chat.persona"},
    "jupyter_ai_persona_manager": {"chat.persona"},
    "jupyter_core": {"kernel.registered", "mcp"},
    "cloudpickle": {"batch.parcel", "copies.message"},
    "openai": {"models.endpoint"},
    "anthropic": {"models.anthropic"},
    "PIL": {"tools.data"},
    "yaml": {"skills"},
    "ipywidgets": {
        "trace.actions",
        "trace.live",
        "trace.front_end",
        "trace.forms",
        "trace.header",
        "trace.reopened",
        "trace.map_panel",
        "trace.widget_text",
    },
    "comm": {"trace.widget_text"},
    "pygments": {"trace.safe", "trace.terminal"},
    "rich": {"trace.terminal"},
    "pydantic": {"tools"},
    "pydantic_core": {"tools"},
    "docstring_parser": {"tools"},
    "typing_extensions": {"tools"},
    "IPython": {"magics", "command"},
    "traitlets": {"magics", "command"},
    "jupyter_client": {"pytest_plugin.runs"},
    "ipykernel": {"magics"},
    "markdown_it": {"trace"},
    "xllamacpp": {"models"},
    "huggingface_hub": {"models"},
    "genai_prices": {"models.completion"},
    "opentelemetry": {"telemetry"},
    "filelock": {"models", "files", "batch.store"},
    "platformdirs": {"models"},
    "psutil": {"copies", "models.embedded.process", "kernel.registered", "mcp.process"},
    "threadpoolctl": {"copies.watch"},
    "xxhash": {"undo.tables"},
    "narwhals": {"tools.tables"},
    "pytest": {"pytest_plugin"},
    "nbclient": {"pytest_plugin.runs"},
    "nbformat": {"pytest_plugin.runs", "code.files"},
}
"""Who may import a third-party library: a module, or a package. Any other library is not imported."""

LATE = {"IPython": {"copies", "kernel", "trace"}}
"""Who may look something up while it runs, so that it works without it."""

NEVER = {"numpy", "pandas", "polars", "matplotlib"}


class Import(ast.NodeVisitor):
    """The modules that a file imports.

    Attributes:
        found: Each import with its line.
        late: The lines of imports that run only when a function is called.
        typing_only: The lines of imports for type checkers only.
    """

    def __init__(self, module: str, is_package: bool) -> None:
        self.module = module
        self.is_package = is_package
        self.found: list[tuple[int, str]] = []
        self.late: set[int] = set()
        self.typing_only: set[int] = set()
        self._functions = 0
        self._is_typing = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def _add(self, line: int, *names: str) -> None:
        self.found += [(line, name) for name in names]
        if self._functions:
            self.late.add(line)
        if self._is_typing:
            self.typing_only.add(line)

    def visit_If(self, node: ast.If) -> None:
        before = self._is_typing
        self._is_typing = before or _last_name(node.test) == "TYPE_CHECKING"
        for each in node.body:
            self.visit(each)
        self._is_typing = before
        for each in node.orelse:
            self.visit(each)

    def visit_Import(self, node: ast.Import) -> None:
        self._add(node.lineno, *(alias.name for alias in node.names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = [NAME, *[part for part in self.module.split(".") if part]]
            up = node.level - (1 if self.is_package else 0)
            base = ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])
        if base == NAME or (PACKAGE / Path(*base.split(".")[1:])).is_dir():
            self._add(node.lineno, *(f"{base}.{alias.name}" for alias in node.names))
        else:
            self._add(node.lineno, base)

    def visit_Call(self, node: ast.Call) -> None:
        is_import = _last_name(node.func) in ("import_module", "__import__")
        if is_import and node.args and isinstance(node.args[0], ast.Constant):
            self._add(node.lineno, str(node.args[0].value))
        self.generic_visit(node)


def _last_name(node: ast.expr) -> str:
    """The name of a name or of an attribute; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(package: Path) -> dict[str, Import]:
    """The imports of each module."""
    found = {}
    for module, path in modules(package):
        visitor = Import(module, path.name == "__init__.py")
        visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
        found[module] = visitor
    return found


def package_of(module: str) -> str:
    is_inside = "." in module or (PACKAGE / module).is_dir()
    return module.split(".", maxsplit=1)[0] if is_inside else module


PLACES = {name: place for place, names in enumerate(LAYERS) for name in names}


def name_in_layers(module: str) -> str | None:
    """The name in `LAYERS` that stands for a module: its own, or its package's."""
    return next((name for name in (module, package_of(module)) if name in PLACES), None)


def faults(package: Path) -> list[str]:
    """Every rule that a file of the package breaks."""
    said = []
    all_imports = imports(package)
    for module, visitor in all_imports.items():
        if name_in_layers(module) is None:
            said.append(f"{module} is on no layer; add it to LAYERS")
            continue
        for line, imported in visitor.found:
            is_ours = imported.split(".")[0] == NAME
            if line in visitor.typing_only and not is_ours:
                continue  # it is never loaded
            if line in visitor.late and package_of(module) in LATE.get(imported.split(".")[0], ()):
                continue
            wrong = fault(module, imported)
            if wrong:
                said.append(f"{module or NAME}:{line} imports {imported}: {wrong}")
    return said + circle(all_imports)


def circle(all_imports: dict[str, Import]) -> list[str]:
    """A circle of modules that import each other, if there is one."""
    targets: dict[str, set[str]] = {}
    for module, visitor in all_imports.items():
        inner = [name.partition(".")[2] for _, name in visitor.found if name.startswith(NAME)]
        found = {module_of(each, all_imports) for each in inner}
        targets[module] = found - {module}
    try:
        TopologicalSorter(targets).prepare()
    except CycleError as error:
        return [f"modules import each other in a circle: {' ← '.join(error.args[1])}"]
    return []


def module_of(name: str, known: Collection[str]) -> str:
    """The module that an import names: itself, or the one that defines what is imported."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def fault(module: str, imported: str) -> str:
    """Which rule an import breaks; empty where it breaks none."""
    top, _, inner = imported.partition(".")
    if top == NAME:
        return inner_fault(module, inner)
    if top in NEVER:
        return "the package never imports it"
    # Python's own since 3.14
    if top in sys.stdlib_module_names or top == "annotationlib":
        return ""
    importers = IMPORTERS.get(top)
    if importers is None:
        return "no module may import it; add it to IMPORTERS"
    return (
        ""
        if module in importers or package_of(module) in importers
        else f"only these may import it: {', '.join(sorted(importers))}"
    )


def inner_fault(module: str, inner: str) -> str:
    mine = name_in_layers(module)
    theirs = name_in_layers(inner)
    if theirs is None:  # a name that a module defines
        theirs = name_in_layers(inner.rpartition(".")[0])
    assert mine is not None
    assert theirs is not None
    if mine == theirs or PLACES[theirs] > PLACES[mine]:
        return ""
    where = "above" if PLACES[theirs] < PLACES[mine] else "on the same layer as"
    return f"{theirs or NAME} is {where} {mine or NAME}"


def test_every_file_keeps_the_rules_of_layers_and_libraries() -> None:
    assert faults(PACKAGE) == []


def test_the_files_were_found_and_read() -> None:
    assert len(list(modules(PACKAGE))) > 30
    visitor = Import("agent", is_package=False)
    visitor.visit(ast.parse((PACKAGE / "agent.py").read_text(encoding="utf-8")))
    assert "archytas_nb.prepare" in [name for _, name in visitor.found]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("loop/x.py", "from archytas_nb.kernel import execute", "kernel is above loop"),
        (
            "loop/x.py",
            "from archytas_nb.tools.tool import Tool",
            "tools is on the same layer as loop",
        ),
        (
            "tools/x.py",
            "from archytas_nb.loop.loop import react_loop",
            "loop is on the same layer as tools",
        ),
        (
            "models/x.py",
            "import archytas_nb.kernel.execute",
            "kernel is on the same layer as models",
        ),
        (
            "trace/x.py",
            "def f():\n    from archytas_nb.models.choose import choose_model",
            "models is on the same layer as trace",
        ),
        ("kernel/x.py", "from ..agent import Agent", "agent is above kernel"),
        ("agent.py", "from . import magics", "magics is above agent"),
        (
            "errors.py",
            "from archytas_nb.loop.events import ToolCall",
            "loop.events is above errors",
        ),
        ("loop/events.py", "from archytas_nb.loop.record import Step", "loop is above loop.events"),
        ("testing.py", "from archytas_nb.agent import Agent", "agent is above testing"),
        ("models/x.py", "import openai", "only these may import it: models.endpoint"),
        (
            "trace/text.py",
            "import ipywidgets",
            "only these may import it: trace.actions, trace.forms, trace.front_end",
        ),
        (
            "kernel/x.py",
            "from IPython.display import display",
            "only these may import it: command, magics",
        ),
        (
            "models/x.py",
            "def f():\n    import IPython",
            "only these may import it: command, magics",
        ),
        ("loop/x.py", "import pydantic", "only these may import it: tools"),
        ("tools/x.py", "import numpy as np", "never imports it"),
        ("trace/x.py", "import importlib\nimportlib.import_module('pandas')", "never imports it"),
        ("tools/x.py", "import requests", "no module may import it; add it to IMPORTERS"),
        ("attic/x.py", "", "is on no layer"),
        (
            "errors.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from archytas_nb.run import Run",
            "run is above errors",
        ),
    ],
)
def test_reports_a_file_that_breaks_a_rule(tmp_path: Path, file: str, text: str, said: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    [found] = faults(tmp_path)
    assert said in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "loop/x.py",
            "from archytas_nb.loop.events import ToolCall\nfrom archytas_nb.errors import ToolError",
        ),
        (
            "kernel/x.py",
            "from archytas_nb.tools.tool import Tool\nfrom archytas_nb.loop import events",
        ),
        (
            "kernel/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from openai import OpenAI",
        ),
        ("loop/events.py", "from archytas_nb.errors import ToolError"),
        ("agent.py", "from archytas_nb.run import Run"),
        ("testing.py", "from archytas_nb.loop.events import AskModel"),
        ("models/endpoint.py", "import json\nimport openai"),
        ("trace/x.py", "def f():\n    from IPython.display import display"),
    ],
)
def test_does_not_report_a_file_that_keeps_the_rules(tmp_path: Path, file: str, text: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    "back",
    [
        "from archytas_nb.tools.x import f",
        "def g():\n    from archytas_nb.tools import x",
        "import typing\nif typing.TYPE_CHECKING:\n    from archytas_nb.tools.x import f",
        "import importlib\nimportlib.import_module('archytas_nb.tools.x')",
    ],
)
def test_reports_modules_that_import_each_other(tmp_path: Path, back: str) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "x.py").write_text("from archytas_nb.tools.y import g", encoding="utf-8")
    (folder / "y.py").write_text("from archytas_nb.tools.z import h", encoding="utf-8")
    (folder / "z.py").write_text("", encoding="utf-8")
    assert faults(tmp_path) == []
    (folder / "z.py").write_text(back, encoding="utf-8")
    [found] = faults(tmp_path)
    assert "in a circle" in found
    assert {"tools.x", "tools.y", "tools.z"} <= set(re.findall(r"tools\.\w", found))
