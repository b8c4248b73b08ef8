"""CONTRIBUTING.md names files, functions and commands that exist; so do the commands of the benchmarks' page."""

from __future__ import annotations

import builtins
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BENCHMARKS = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
CODE = [each for block in TEXT.split("\n") for each in re.findall(r"`([^`]+)`", block)]
INSIDE = [each.parent for each in ROOT.glob("*/*/__init__.py")]
FOLDERS = (ROOT, ROOT / "archytas_nb", *INSIDE)
PATHS = sorted(
    {each for each in CODE if re.fullmatch(r"[\w.*/-]+(?:/|\.(?:py|md|ipynb|json|txt))", each)}
)
NAMES = sorted(
    {
        name
        for each in {*CODE} - {*PATHS}
        if re.fullmatch(r"_?[A-Za-z][\w.]*(?:\(…\))?", each)
        for name in re.findall(r"\w+", each)
    }
    - set(dir(builtins))
)
MODULES = sorted(set(re.findall(r"python -m ((?:tests|benchmarks)[\w.]*)", TEXT + BENCHMARKS)))


@pytest.mark.parametrize("path", [each for each in PATHS if "NAME" not in each])
def test_a_path_exists(path: str) -> None:
    assert any(list(folder.glob(path.rstrip("/"))) for folder in FOLDERS), f"{path} does not exist"


def test_every_name_stands_in_the_code() -> None:
    files = [
        *(ROOT / "archytas_nb").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        ROOT / "pyproject.toml",
    ]
    words = set(re.findall(r"\w+", "\n".join(file.read_text("utf-8") for file in files)))
    assert [name for name in NAMES if name not in words] == []
    assert len(NAMES) > 30


@pytest.mark.parametrize("module", MODULES)
def test_a_command_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_each_benchmark_has_its_command_on_the_page_of_benchmarks() -> None:
    programs = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for file in (ROOT / "benchmarks").rglob("*.py")
        if 'if __name__ == "__main__":' in file.read_text("utf-8")
    ]
    # What another program starts is none to be started by a person.
    started = {"benchmarks.speed.server", "benchmarks.speed.peer", "benchmarks.speed.peer_map"}
    assert {*programs} - started <= {*MODULES}
    assert len(programs) > len(started)
