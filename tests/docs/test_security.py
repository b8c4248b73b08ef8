"""The page on security: its example works as it says."""

import re
from pathlib import Path
from typing import Any

import archytas_nb as nb

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_takes_a_name_and_gives_the_value() -> None:
    [code] = re.findall(
        r"```python\n(.*?)```", (DOCS / "security.md").read_text("utf-8"), re.DOTALL
    )
    here: dict[str, Any] = {"__name__": "x", "report": "abc"}
    try:
        exec(code, here)
        assert nb.toolbox["archive"].call("report", here).value == "kept 3 characters"
        assert nb.toolbox["archive"].call("abc", here).status == "error"
    finally:
        nb.toolbox.remove("archive")
