"""The cost of defining a tool, next to the baseline: pydantic's adapters for the same four types, without a tool.

Nothing is asserted about time: ``pytest tests/benchmarks/speed --benchmark-only`` shows the ratio. A round defines
1,000 different functions, so milliseconds in the table are microseconds a tool.
"""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from archytas_nb.tools.tool import Tool

COUNT = 1000
SOURCE = '''
def tool_{n}(query: str, limit: int = 10, tags: list[str] | None = None, exact: bool = False) -> dict[str, int]:
    """Search the catalogue number {n}.

    Args:
        query (str): What to look for.
        limit (int): The most results. Defaults to 10.
        tags (list[str]): Only results with these tags.
        exact (bool): Whether the words must match exactly.

    Returns:
        dict[str, int]: Hits by name.
    """
    return {{query: limit}}
'''


@pytest.fixture(scope="module")
def functions():
    made = []
    for n in range(COUNT):
        scope: dict = {}
        exec(SOURCE.format(n=n), scope)
        made.append(scope[f"tool_{n}"])
    return made


def test_define_a_thousand_tools_and_their_wire_form(benchmark, functions):
    specs = benchmark.pedantic(
        lambda: [Tool.from_function(f).spec() for f in functions],
        rounds=3,
        iterations=1,
        warmup_rounds=1,
    )
    assert [spec["function"]["name"] for spec in specs] == [f"tool_{n}" for n in range(COUNT)]


def test_baseline_four_adapters_and_their_schemas_a_thousand_times(benchmark):
    kinds = (str, int, list[str] | None, bool)
    schemas = benchmark.pedantic(
        lambda: [[TypeAdapter(kind).json_schema() for kind in kinds] for _ in range(COUNT)],
        rounds=3,
        iterations=1,
    )
    assert len(schemas) == COUNT


def test_validate_a_thousand_inputs(benchmark, functions):
    tool = Tool.from_function(functions[0])
    sent = {"query": "penguin", "limit": "3", "tags": ["a", "b"], "exact": True}
    faults = benchmark.pedantic(
        lambda: [tool.check(sent) for _ in range(COUNT)], rounds=3, iterations=1
    )
    assert not any(faults)
