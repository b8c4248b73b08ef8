"""The order of the packages: a module imports from lower layers only, and each library has a fixed importer."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "archytas_nb"
NAME = "archytas_nb"

LAYERS = {
    "version": 0, "errors": 0, "words": 0, "loop.events": 0,
    "tools": 1, "loop": 1, "settings": 1,
    "models": 2, "kernel": 2, "trace": 2,
    "cassettes": 3,
    "agent": 4, "asking": 4, "driver": 4, "answers": 4, "run": 4, "batch": 4,
    "aio": 4, "hints": 4, "progress": 4, "question": 4,
    "magics": 5, "command": 5, "": 5, "__main__": 5, "pytest_plugin": 5,
}  # fmt: skip
ALONE = {
    "testing": {"loop.events", "errors"},
    "errors": set(),
    "words": set(),
    "loop.events": {"words"},
}
"""Files that may import nothing of ours but this."""

IMPORTERS = {
    "openai": {"models.endpoint"},
    "anthropic": {"models.anthropic"},
    "ipywidgets": {"trace.live"},
    "pygments": {"trace.safe"},
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
    "filelock": {"models", "cassettes.file", "batch.store"},
    "platformdirs": {"models"},
    "psutil": {"models.process"},
    "xxhash": {"kernel.tables"},
    "pytest": {"pytest_plugin"},
    "nbclient": {"pytest_plugin.runs"},
    "nbformat": {"pytest_plugin.runs"},
}
"""Who may import a third-party library: a module, or a package. Any other library is not imported."""

LATE = {"IPython": {"kernel", "trace"}}
"""Who may look something up while it runs, so that it works without it."""

NEVER = {"numpy", "pandas", "polars", "matplotlib"}


class Import(ast.NodeVisitor):
    """The modules that a file imports, also those that it imports late; not those for type checkers only."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module, self.is_package = module, is_package
        self.found: list[tuple[int, str]] = []
        self.late: set[int] = set()
        self._functions = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def _add(self, line: int, *names: str) -> None:
        self.found += [(line, name) for name in names]
        if self._functions:
            self.late.add(line)

    def visit_If(self, node: ast.If) -> None:
        test = (
            node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        )
        for each in node.orelse if test == "TYPE_CHECKING" else [*node.body, *node.orelse]:
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
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if (
            called in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            self._add(node.lineno, str(node.args[0].value))
        self.generic_visit(node)


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def package_of(module: str) -> str:
    return (
        module.split(".", maxsplit=1)[0] if "." in module or (PACKAGE / module).is_dir() else module
    )


def layer(module: str) -> int | None:
    return LAYERS.get(module, LAYERS.get(package_of(module)))


def faults(package: Path) -> list[str]:
    """Every rule that a file of the package breaks."""
    said = []
    for module, path in modules(package):
        text = path.read_text(encoding="utf-8")
        if layer(module) is None and module not in ALONE:
            said.append(f"{module} is on no layer; add it to LAYERS")
            continue
        visitor = Import(module, path.name == "__init__.py")
        visitor.visit(ast.parse(text))
        for line, imported in visitor.found:
            if line in visitor.late and package_of(module) in LATE.get(imported.split(".")[0], ()):
                continue
            wrong = fault(module, imported)
            if wrong:
                said.append(f"{module or NAME}:{line} imports {imported}: {wrong}")
    return said


def fault(module: str, imported: str) -> str:
    """Which rule an import breaks; empty where it breaks none."""
    top, _, inner = imported.partition(".")
    if top == NAME:
        return inner_fault(module, inner)
    if top in NEVER:
        return "the package never imports it"
    if top in sys.stdlib_module_names:
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
    if module in ALONE:
        allowed = ALONE[module]
        return (
            ""
            if any(inner == each or inner.startswith(f"{each}.") for each in allowed)
            else "it may import less"
        )
    target = next(
        (each for each in (inner, inner.rpartition(".")[0]) if layer(each) is not None), ""
    )
    mine, theirs = layer(module), layer(target)
    assert mine is not None
    assert theirs is not None
    if theirs < mine:
        return ""
    if theirs > mine:
        return f"layer {theirs} is above layer {mine}"
    same = (
        package_of(module) == package_of(target) or mine > 3
    )  # session and run, magics and what is imported as the package itself
    return "" if same else "another package on the same layer"


def test_every_file_keeps_the_rules_of_layers_and_libraries() -> None:
    assert faults(PACKAGE) == []


def test_the_files_were_found_and_read() -> None:
    assert len(list(modules(PACKAGE))) > 30
    visitor = Import("agent", is_package=False)
    visitor.visit(ast.parse((PACKAGE / "agent.py").read_text(encoding="utf-8")))
    assert "archytas_nb.asking" in [name for _, name in visitor.found]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("loop/x.py", "from archytas_nb.kernel import execute", "layer 2 is above layer 1"),
        (
            "loop/x.py",
            "from archytas_nb.tools.tool import Tool",
            "another package on the same layer",
        ),
        (
            "tools/x.py",
            "from archytas_nb.loop.loop import react_loop",
            "another package on the same layer",
        ),
        ("models/x.py", "import archytas_nb.kernel.execute", "another package on the same layer"),
        (
            "trace/x.py",
            "def f():\n    from archytas_nb.models.choose import choose_model",
            "another package",
        ),
        ("kernel/x.py", "from ..agent import Agent", "layer 4 is above layer 2"),
        ("agent.py", "from . import magics", "layer 5 is above layer 4"),
        ("errors.py", "from archytas_nb.loop.events import ToolCall", "it may import less"),
        ("loop/events.py", "from archytas_nb.errors import ToolError", "it may import less"),
        ("testing.py", "from archytas_nb.agent import Agent", "it may import less"),
        ("models/x.py", "import openai", "only these may import it: models.endpoint"),
        ("trace/text.py", "import ipywidgets", "only these may import it: trace.live"),
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
            "errors.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from archytas_nb.run import Run",
        ),
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
