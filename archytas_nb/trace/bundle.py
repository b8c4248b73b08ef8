"""A run as one display bundle: the same run in every form that a front end may choose from.

What differs from run to run (seconds, tokens, names of versions) is metadata, so that two runs that went the
same way have equal outputs. Pure.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.trace.clean import tidy
from archytas_nb.trace.html import html, value_html
from archytas_nb.trace.markdown import fenced, harmless, markdown
from archytas_nb.trace.text import plain
from archytas_nb.trace.values import RunView
from archytas_nb.trace.words import answer_markdown, is_answer, model_name

Metadata = dict[str, Any]


def bundle(view: RunView) -> tuple[dict[str, str], Metadata]:
    """Make what Jupyter displays and saves of a run.

    Args:
        view: The run, finished or not.

    Returns:
        Content by media type (``text/plain``, ``text/markdown``, ``text/html``), and the output's metadata
        under the key ``"archytas_nb"``.
    """
    data = {
        "text/plain": plain(view),
        "text/markdown": markdown(view),
        "text/html": str(html(view)),
    }
    return data, _metadata(view)


def value_bundle(view: RunView, text: str, *, with_steps: bool) -> tuple[dict[str, str], Metadata]:
    """Make what Jupyter displays of a run as a value: the answer, and folded behind it the steps.

    Args:
        view: The run, finished.
        text: The run as plain text.
        with_steps: Whether the steps are there to be unfolded.

    Returns:
        As `bundle` does.
    """
    said = harmless(answer_markdown(view.ending)) if is_answer(view.ending) else ""
    data = {
        "text/plain": tidy(text),
        "text/markdown": said or fenced(text),
        "text/html": str(value_html(view, with_steps=with_steps)),
    }
    return data, _metadata(view)


def _metadata(view: RunView) -> Metadata:
    facts = {
        "version": __version__,
        "model": model_name(view),
        "protocol": view.protocol,
        "steps": len(view.steps),
        "ending": type(view.ending).__name__ if view.ending is not None else None,
        "seconds": round(view.seconds, 3),
        "usage": asdict(view.usage),
    }
    return {"archytas_nb": facts}
