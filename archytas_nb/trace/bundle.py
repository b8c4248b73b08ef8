"""A run as one display bundle: the same run in every form that a front end may choose from.

What differs from run to run (seconds, tokens, names of versions) is metadata, so that two runs that went the
same way have equal outputs. Pure.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.trace.html import html
from archytas_nb.trace.markdown import markdown
from archytas_nb.trace.text import plain
from archytas_nb.trace.values import RunView
from archytas_nb.trace.words import model_name

Metadata = dict[str, Any]


def bundle(view: RunView, *, seconds: float | None = None) -> tuple[dict[str, str], Metadata]:
    """Make what Jupyter displays and saves of a run.

    Args:
        view: The run, finished or not.
        seconds: How long it took on the clock; None for the sum of what the model and the tools took.

    Returns:
        Content by media type (``text/plain``, ``text/markdown``, ``text/html``), and the output's metadata
        under the key ``"archytas_nb"``.
    """
    data = {"text/plain": plain(view), "text/markdown": markdown(view), "text/html": str(html(view))}
    facts = {
        "version": __version__,
        "model": model_name(view),
        "protocol": view.protocol,
        "steps": len(view.steps),
        "ending": type(view.ending).__name__ if view.ending is not None else None,
        "seconds": round(view.seconds if seconds is None else seconds, 3),
        "usage": asdict(view.usage),
    }
    return data, {"archytas_nb": facts}
