"""A run as plain text, Markdown and HTML, of which a front end shows one.

Facts that differ in a second run (versions, ids) are metadata; times and tokens are those of the
replies, which a cassette keeps. So a run and its replay have equal data.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from archytas_nb.trace.html import html as run_html
from archytas_nb.trace.html import value_html
from archytas_nb.trace.safe import embedded
from archytas_nb.trace.text import fenced, harmless, markdown, plain
from archytas_nb.trace.view import RunView, answer_markdown
from archytas_nb.version import __version__
from archytas_nb.words import tidy

Bundle = tuple[dict[str, str], dict[str, Any]]
"""Content by media type, and the output's metadata."""


def bundle(view: RunView) -> Bundle:
    """A run as Jupyter displays and saves it."""
    data = {
        "text/plain": plain(view),
        "text/markdown": markdown(view),
        "text/html": embedded(run_html(view)),
    }
    return data, _metadata(view)


def value_bundle(view: RunView, text: str, *, with_steps: bool) -> Bundle:
    """A finished run as the value of a cell: the answer and, optionally, the steps, folded."""
    answer = answer_markdown(view.ending)
    data = {
        "text/plain": tidy(text),
        "text/markdown": harmless(answer) if answer else fenced(text),
        "text/html": embedded(value_html(view, with_steps=with_steps)),
    }
    return data, _metadata(view)


def _metadata(view: RunView) -> dict[str, Any]:
    ending = None
    if view.ending is not None:
        ending = type(view.ending).__name__
    facts = {
        "version": __version__,
        "model": view.model_name,
        "protocol": view.protocol,
        "steps": len(view.steps),
        "ending": ending,
        "seconds": round(view.seconds, 3),
        # Most endpoints report no price.
        "usage": {name: n for name, n in asdict(view.usage).items() if n or name != "usd"},
    }
    return {"archytas_nb": facts}
