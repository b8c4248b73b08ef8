"""The metadata of the package agrees with what is tested."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

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
    promised = dict(re.split(r">=", line, maxsplit=1) for line in lines)
    lines = (ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: numbers(version) for name, version in tried.items()} == {
        name: numbers(version) for name, version in promised.items()
    }


def test_no_dependency_has_an_upper_bound() -> None:
    assert not [line for line in PROJECT["dependencies"] if "<" in line or "==" in line]


def test_the_kernelspec_of_the_wheel_uses_the_interpreter_of_the_server() -> None:
    kernel = json.loads(
        (ROOT / "jupyter-config/kernels/archytas_nb/kernel.json").read_text(encoding="utf-8")
    )
    assert kernel["argv"][0] == "python"
    assert "--ext=archytas_nb" in kernel["argv"]
