"""A type checker's view of a user's code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

TOOLS = """
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
PLAIN = "def (a: int, *, b: str =) -> list[str]"

AGENTS = """
import archytas_nb as nb
agent = nb.Agent("gpt-5")
reveal_type(agent.run("?"))
reveal_type(agent.run("?", output_type=int, max_steps=3).output)
reveal_type(agent("?", output_type=list[str]).output)
reveal_type(agent.run("?", output_type=int | None).output)
async def main() -> None:
    reveal_type(await agent.arun("?", output_type=float))
def untyped(run: nb.Run) -> nb.Run: return run
@agent.tool
def double(n: int) -> int: return 2 * n
reveal_type(double(2))
agent.run("?", max_step=3)  # wrong
nb.Agent(system_prompt="Be brief.")  # wrong
agent.chat("?")  # wrong
agent.run("?").text  # wrong
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Mypy's output for both sources; one run, because it reads the package for a minute."""
    folder = tmp_path_factory.mktemp("types")
    sources = [folder / "tools.py", folder / "agents.py"]
    for source, text in zip(sources, (TOOLS, AGENTS), strict=True):
        source.write_text(text)
    cache = Path(__file__).parents[1] / ".mypy_cache"  # which the check of the package fills
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache)]
    done = subprocess.run(
        [*command, *map(str, sources)], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


def revealed(printed: list[str], source: str) -> list[str]:
    types = [
        line.split('"')[1]
        for line in printed
        if line.startswith(source) and "Revealed type" in line
    ]
    return [each.replace("builtins.", "").replace("archytas_nb.run.", "") for each in types]


def errors(printed: list[str], source: str) -> list[int]:
    return sorted(
        {
            int(line.split(":")[1])
            for line in printed
            if line.startswith(source) and ": error:" in line
        }
    )


def test_a_decorated_function_keeps_its_type(printed: list[str]) -> None:
    kept = [
        PLAIN,
        "def (a: int) -> int",
        "def (a: int) -> typing.Coroutine[Any, Any, int]",
        PLAIN,
    ]
    assert revealed(printed, "tools.py") == kept, printed
    assert errors(printed, "tools.py") == [], printed


def test_a_type_checker_knows_the_type_of_the_output(printed: list[str]) -> None:
    types = ["Run[str]", "int", "list[str]", "Any", "Run[float]", "int"]
    assert revealed(printed, "agents.py") == types, printed
    wrong = [number for number, line in enumerate(AGENTS.splitlines(), 1) if "# wrong" in line]
    assert errors(printed, "agents.py") == wrong, printed
