"""The command of the FAQ exports a notebook as the page says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_notebook_is_exported_to_markdown_without_html(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^jupyter (nbconvert .*)$", page, re.MULTILINE)
    shutil.copy(ROOT / "notebooks" / "01_quickstart.ipynb", tmp_path / "my_notebook.ipynb")
    subprocess.run(
        [sys.executable, "-m", "jupyter", *shlex.split(command)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=120,
    )
    exported = (tmp_path / "my_notebook.md").read_text(encoding="utf-8")
    assert "The Gentoo birds are well-fed" in exported
    assert "anb-trace" not in exported
