"""Type checkers see the decorator as the identity."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
from archytas_nb.tools.toolbox import tool

@tool
def plain(a: int, *, b: str = "") -> list[str]: return [b] * a

@tool()
def called(a: int) -> int: return a

@tool(name="x", repeat=True)
async def optioned(a: int) -> int: return a

reveal_type(plain)
reveal_type(called)
reveal_type(optioned)
reveal_type(tool(plain))
"""
PLAIN = 'Revealed type is "def (a: int, *, b: str =) -> list[str]"'


def test_a_decorated_function_keeps_its_type(tmp_path):
    pytest.importorskip("mypy")
    source = tmp_path / "user.py"
    source.write_text(CODE)
    # In the cache that the check of the package has filled: pydantic alone takes seconds to read.
    cache = Path(__file__).parents[2] / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [
        line.partition("note: ")[2].replace("builtins.", "")
        for line in done.stdout.splitlines()
        if "note: " in line
    ]
    assert said == [
        PLAIN,
        'Revealed type is "def (a: int) -> int"',
        'Revealed type is "def (a: int) -> typing.Coroutine[Any, Any, int]"',
        PLAIN,
    ], done.stdout
    assert "error:" not in done.stdout
