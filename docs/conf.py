"""Configuration of the documentation site: ``sphinx-build -W -c docs . site``.

The source directory is the repository, so that links between `docs` and `notebooks` work in a clone
as they do on the site.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import bygroups
from pygments.token import Keyword, Operator, Text

from archytas_nb import __version__

project = "archytas_nb"
version = release = __version__
author = "The archytas_nb contributors"
project_copyright = "MIT"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["README.md", "docs/**.md", "notebooks/*.ipynb"]
templates_path = ["_templates"]

# Notebooks are shown as they were saved.
nb_execution_mode = "off"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autoclass_content = "class"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
# Docstrings put names into single backticks.
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "archytas_nb"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# The first page of the site is README.html: the root leads there.
html_additional_pages = {"index": "redirect.html"}
# A line of a magic is text that a shell prompt cannot be part of.
copybutton_exclude = ".linenos, .gp, .go"


class CellLexer(IPython3Lexer):
    """Python with magics; the cell below ``%%tool`` is Python, too."""

    tokens: ClassVar[dict[str, Any]] = {
        **IPython3Lexer.tokens,
        "root": [
            (r"\A(%%)(tool)(.*\n)", bygroups(Operator, Keyword, Text)),
            *IPython3Lexer.tokens["root"],
        ],
    }


SECTIONS = """
```{toctree}
:hidden:

docs/sections/tutorial
docs/sections/guides
docs/sections/reference
docs/sections/explanation
```
"""
"""The pages of the site; on its own, the README would show this as a block of code."""


def add_sections(_: Any, page: str, source: list[str]) -> None:
    """Add the pages of the site to its first page."""
    if page == root_doc:
        source[0] += SECTIONS


def setup(app: Any) -> None:
    """Highlight magics in notebooks, and in blocks that are marked as Python for GitHub."""
    app.connect("source-read", add_sections)
    for language in ("python", "ipython3"):
        app.add_lexer(language, CellLexer)
