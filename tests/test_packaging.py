"""What the package says of itself agrees with what the gate tries."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def numbers(version: str) -> list[int]:
    """A version without the zeros at its end."""
    found = [int(part) for part in version.split(".")]
    while found and not found[-1]:
        found.pop()
    return found


def test_the_wheel_is_tried_with_every_lower_bound_that_is_promised() -> None:
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["anthropic"]]
    promised = dict(re.split(r">=", line, maxsplit=1) for line in lines)
    lines = (ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: numbers(version) for name, version in tried.items()} == {
        name: numbers(version) for name, version in promised.items()
    }


def test_no_dependency_has_an_upper_bound() -> None:
    assert not [line for line in PROJECT["dependencies"] if "<" in line or "==" in line]


def test_the_kernel_of_the_wheel_takes_the_interpreter_that_the_server_puts_in() -> None:
    kernel = json.loads(
        (ROOT / "jupyter-config/kernels/archytas_nb/kernel.json").read_text(encoding="utf-8")
    )
    assert kernel["argv"][0] == "python"
    assert "--ext=archytas_nb" in kernel["argv"]
