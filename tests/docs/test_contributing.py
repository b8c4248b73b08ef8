"""CONTRIBUTING.md names files, functions and commands that exist; so do the commands of the benchmarks' page."""

from __future__ import annotations

import builtins
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs import modules

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BENCHMARKS = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
CODE = [each for block in TEXT.split("\n") for each in re.findall(r"`([^`]+)`", block)]
INSIDE = [each.parent for each in ROOT.glob("*/**/__init__.py")]
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


def test_the_page_of_modules_is_up_to_date() -> None:
    assert modules.PAGE.read_text("utf-8") == modules.page(), "run `python -m tests.docs.modules`"


def test_a_module_without_a_docstring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("x = 1")
    with pytest.raises(ValueError, match=r"new\.py"):
        modules.sentence(tmp_path / "new.py")


@pytest.mark.parametrize("module", MODULES)
def test_a_command_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.partition("## Where to change what")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| change ")
]


def files_of(cell: str) -> list[Path]:
    paths = [each for each in re.findall(r"`([^`]+)`", cell) if each in PATHS]
    return [file for path in paths for folder in FOLDERS for file in folder.glob(path.rstrip("/"))]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_only_what_stands_in_its_modules(row: list[str]) -> None:
    files = [file for file in files_of(row[1]) if file.is_relative_to(ROOT / "archytas_nb")]
    words = set(re.findall(r"\w+", "\n".join(file.read_text("utf-8") for file in files)))
    spans = {*re.findall(r"`([^`]+)`", row[1])} & {*CODE}
    names = [name for name in NAMES if any(re.search(rf"\b{name}\b", each) for each in spans)]
    assert [name for name in names if name not in words and f"{name}.py" not in spans] == []


def test_every_test_file_of_a_command_exists() -> None:
    files = re.findall(r"tests/[\w/]+\.py", TEXT)
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert len(files) > 20


def test_the_question_to_a_scripted_model_shows_both_outcomes() -> None:
    [code] = re.findall(r'    python -c "\n(.*?)\n    "\n', TEXT, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert "double(number=21) → 42" in done.stdout
    assert "double was not called" in done.stdout


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
