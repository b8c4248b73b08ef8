"""The metadata of the package agrees with what is tested."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path

from archytas_nb.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def numbers(version: str) -> list[int]:
    """A version without trailing zeros."""
    found = [int(part) for part in version.split(".")]
    while found and not found[-1]:
        found.pop()
    return found


def test_the_wheel_is_tested_with_every_declared_lower_bound() -> None:
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["anthropic"]]
    promised = dict(line.partition(";")[0].split(">=") for line in lines)
    lines = (ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: numbers(version) for name, version in tried.items()} == {
        name: numbers(version) for name, version in promised.items()
    }


def test_the_page_of_versions_has_the_declared_lower_bounds_and_the_version() -> None:
    page = " ".join((ROOT / "docs" / "versions.md").read_text(encoding="utf-8").split())
    bounds = dict(line.partition(";")[0].split(">=") for line in PROJECT["dependencies"])
    bounds["Python"] = PROJECT["requires-python"].removeprefix(">=")
    named = re.findall(r"(\w+) ([\d.]+\d) and later", page.partition("All tests run")[0])
    assert len(named) > 3
    assert {name: bounds.get(name.lower(), bounds.get(name)) for name, _ in named} == dict(named)
    assert f"This is version {__version__}," in page


def imported(file: Path) -> set[str]:
    """The top-level modules that a file imports anywhere, also by name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.Call(
                func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]
            ):
                found.add(module)
    return {each.partition(".")[0] for each in found}


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_library_that_is_imported_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    of_users = [lines for name, lines in extras.items() if name not in ("docs", "test")]
    lines = [*PROJECT["dependencies"], *(line for each in of_users for line in each)]
    declared = {normal(re.split(r"[\[<>=~; ]", line, maxsplit=1)[0]) for line in lines}
    modules = set().union(*map(imported, (ROOT / "archytas_nb").rglob("*.py")))
    modules -= {*sys.stdlib_module_names, "annotationlib", "archytas_nb"}  # Python 3.14 has it
    modules -= {"jupyter_ai_acp_client", "jupyter_ai_persona_manager"}  # they load the module
    modules -= {"threadpoolctl"}  # comes with scikit-learn, and is read only where it is loaded
    modules -= {"PIL"}  # comes with what makes large pictures, such as matplotlib
    assert {"openai", "pydantic_core", "psutil", "nbclient"} <= modules
    providers = importlib.metadata.packages_distributions()
    undeclared = {
        module
        for module in modules
        # A distribution may have its modules from another one that it depends on.
        if not {normal(each) for each in [*providers.get(module, []), module]} & declared
    }
    assert undeclared == set()


def test_no_dependency_has_an_upper_bound() -> None:
    versions = [line.partition(";")[0] for line in PROJECT["dependencies"]]
    assert not [each for each in versions if "<" in each or "==" in each]


def test_the_kernelspec_of_the_wheel_uses_the_interpreter_of_the_server() -> None:
    kernel = json.loads(
        (ROOT / "jupyter-config/kernels/archytas_nb/kernel.json").read_text(encoding="utf-8")
    )
    assert kernel["argv"][0] == "python"
    assert "--ext=archytas_nb" in kernel["argv"]
