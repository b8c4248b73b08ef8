"""The description of each shape of function for a model: the text and both levels of the schema.

``ARCHYTAS_GOLDEN=write pytest tests/tools/test_golden.py`` writes the files; read the diff before you commit
it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from archytas_nb.tools.tool import Tool
from tests.tools.docstyles import STYLES
from tests.tools.goldens import PAGES
from tests.tools.shapebook import bounded
from tests.tools.shapes import SHAPES

GOLDEN = Path(__file__).parent / "golden"


def pages(functions) -> str:
    parts = []
    for f in functions:
        tool = Tool.from_function(f)
        parts.append(tool.text)
        parts += [f"issue: {issue}" for issue in tool.issues]
        parts += [f"{level}: {json.dumps(tool.schema(level))}" for level in ("full", "simple")]
        parts += [f"tool_input: {json.dumps(bounded(tool.input_schema(), 200))}", ""]
    return "\n".join(parts)


@pytest.mark.parametrize("group", sorted([*SHAPES, *PAGES, "20_docstrings"]))
def test_the_model_reads_what_the_golden_file_shows(group):
    text = PAGES[group]() if group in PAGES else pages(SHAPES.get(group, STYLES))
    path = GOLDEN / f"{group}.txt"
    if os.environ.get("ARCHYTAS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
