"""The order of the rooms: a file imports from lower floors only, and each outside thing has one door."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "archytas_nb"
NAME = "archytas_nb"

FLOORS = {
    "version": 0, "errors": 0, "words": 0, "loop.events": 0,
    "tools": 1, "loop": 1, "settings": 1,
    "models": 2, "kernel": 2, "trace": 2,
    "cassettes": 3,
    "agent": 4, "driver": 4, "answers": 4, "run": 4, "batch": 4,
    "aio": 4, "hints": 4, "progress": 4, "question": 4,
    "magics": 5, "command": 5, "": 5, "__main__": 5, "pytest_plugin": 5,
}  # fmt: skip
ALONE = {
    "testing": {"loop.events", "errors"},
    "errors": set(),
    "words": set(),
    "loop.events": set(),
}
"""Files that may import nothing of ours but this."""

DOORS = {
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
"""Who may import what is not ours and not Python's: a file, or a room. Anything else has no door."""

LATE = {"IPython": {"kernel", "trace"}}
"""Who may look something up while it runs, so that it works without it."""

NEVER = {"numpy", "pandas", "polars", "matplotlib"}


class Import(ast.NodeVisitor):
    """The modules that a file imports, also those that it imports late; not those for type checkers only."""

    def __init__(self, module: str, is_room: bool) -> None:
        self.module, self.is_room = module, is_room
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
            up = node.level - (1 if self.is_room else 0)
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


def room(module: str) -> str:
    return (
        module.split(".", maxsplit=1)[0] if "." in module or (PACKAGE / module).is_dir() else module
    )


def floor(module: str) -> int | None:
    return FLOORS.get(module, FLOORS.get(room(module)))


def faults(package: Path) -> list[str]:
    """Every rule that a file of the package breaks."""
    said = []
    for module, path in modules(package):
        text = path.read_text(encoding="utf-8")
        if floor(module) is None and module not in ALONE:
            said.append(f"{module} stands on no floor; say on which in FLOORS")
            continue
        visitor = Import(module, path.name == "__init__.py")
        visitor.visit(ast.parse(text))
        for line, imported in visitor.found:
            if line in visitor.late and room(module) in LATE.get(imported.split(".")[0], ()):
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
    doors = DOORS.get(top)
    if doors is None:
        return "it has no door"
    return (
        ""
        if module in doors or room(module) in doors
        else f"its door is {', '.join(sorted(doors))}"
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
        (each for each in (inner, inner.rpartition(".")[0]) if floor(each) is not None), ""
    )
    mine, theirs = floor(module), floor(target)
    assert mine is not None
    assert theirs is not None
    if theirs < mine:
        return ""
    if theirs > mine:
        return f"floor {theirs} is above floor {mine}"
    same = (
        room(module) == room(target) or mine > 3
    )  # session and run, magics and the doors of the package
    return "" if same else "another room on the same floor"


def test_every_file_keeps_the_rules_of_layers_and_libraries() -> None:
    assert faults(PACKAGE) == []


def test_the_files_were_found_and_read() -> None:
    assert len(list(modules(PACKAGE))) > 30
    visitor = Import("agent", is_room=False)
    visitor.visit(ast.parse((PACKAGE / "agent.py").read_text(encoding="utf-8")))
    assert "archytas_nb.loop.loop" in [name for _, name in visitor.found]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("loop/x.py", "from archytas_nb.kernel import execute", "floor 2 is above floor 1"),
        ("loop/x.py", "from archytas_nb.tools.tool import Tool", "another room on the same floor"),
        (
            "tools/x.py",
            "from archytas_nb.loop.loop import react_loop",
            "another room on the same floor",
        ),
        ("models/x.py", "import archytas_nb.kernel.execute", "another room on the same floor"),
        (
            "trace/x.py",
            "def f():\n    from archytas_nb.models.choose import choose_model",
            "another room",
        ),
        ("kernel/x.py", "from ..agent import Agent", "floor 4 is above floor 2"),
        ("agent.py", "from . import magics", "floor 5 is above floor 4"),
        ("errors.py", "from archytas_nb.loop.events import ToolCall", "it may import less"),
        ("loop/events.py", "from archytas_nb.errors import ToolError", "it may import less"),
        ("testing.py", "from archytas_nb.agent import Agent", "it may import less"),
        ("models/x.py", "import openai", "its door is models.endpoint"),
        ("trace/text.py", "import ipywidgets", "its door is trace.live"),
        ("kernel/x.py", "from IPython.display import display", "its door is command, magics"),
        ("models/x.py", "def f():\n    import IPython", "its door is command, magics"),
        ("loop/x.py", "import pydantic", "its door is tools"),
        ("tools/x.py", "import numpy as np", "never imports it"),
        ("trace/x.py", "import importlib\nimportlib.import_module('pandas')", "never imports it"),
        ("tools/x.py", "import requests", "it has no door"),
        ("attic/x.py", "", "stands on no floor"),
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
