"""Hooks of the documentation site: the example notebooks are pages of it, without being copied."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent


@event_priority(100)  # before the plugin that turns notebooks into pages
def on_files(files: Any, config: Any) -> Any:
    """Add the notebooks to the files of the site."""
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        uri = f"notebooks/{path.name}"
        files.append(File(uri, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Make a notebook's links to the folder ``docs`` links to the pages of the site."""
    if not page.file.src_uri.endswith(".ipynb"):
        return output
    return re.sub(r'href="\.\./docs/([\w/-]+)\.md(#[^"]*)?"', r'href="../../\1/\2"', output)
