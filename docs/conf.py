"""Configuration of the documentation site: ``sphinx-build -W -c docs . site``.

The source directory is the repository, so that links between `docs` and `notebooks` work in a clone
as they do on the site.
"""

from __future__ import annotations

from typing import Any

from ipython_pygments_lexers import IPython3Lexer

from archytas_nb import __version__

project = "archytas_nb"
version = release = __version__
author = "The archytas_nb contributors"
project_copyright = "MIT"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "notebooks/*.ipynb"]
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
html_static_path = ["_static"]
html_css_files = ["trace.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# The first page of the site is docs/index.html: the root leads there.
html_additional_pages = {"index": "redirect.html"}
# A line of a magic is text that a shell prompt cannot be part of.
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Any) -> None:
    """Highlight magics in blocks that are marked as Python, as GitHub expects them to be."""
    app.add_lexer("python", IPython3Lexer)
