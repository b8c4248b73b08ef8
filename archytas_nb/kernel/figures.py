"""Figures that a tool drew with pyplot and left open, without showing them. Imports no plotting library.

In a cell the inline backend shows such figures below it. A tool's figures belong into its own output, so they
are drawn into it and closed where closing is what the inline backend would have done.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from archytas_nb.kernel.capture import Capture
from archytas_nb.tools.pictures import picture

_MAX = 10
"""How many figures of one call are drawn; each takes a moment."""

_SILENT = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
"""Backends that show nothing by themselves."""


class Figures:
    """The figures that are new since this was made."""

    def __init__(self) -> None:
        self._before = {id(figure) for figure in _open().values()}

    def take(self, capture: Capture, returned: Sequence[Any] = ()) -> None:
        """Add the new figures to a call's output and close them.

        Args:
            capture: The record.
            returned: What the calls returned; a figure that is returned is shown as the result, and not twice.
        """
        new = {
            number: figure for number, figure in _open().items() if id(figure) not in self._before
        }
        results = {id(each) for value in returned for each in (value, _figure_of(value))}
        drawn = 0
        for number, figure in new.items():
            if id(figure) not in results and drawn < _MAX:
                drawn += 1
                _draw(figure, capture)
            if _closes():
                sys.modules["matplotlib.pyplot"].close(number)
        if len(new) > _MAX:
            capture.write(
                "stderr", f"{len(new)} figures were left open; {drawn} of them are shown\n"
            )


def _figure_of(value: Any) -> Any:
    """The figure of axes; whatever else was returned has none, and is not asked."""
    if not str(type(value).__module__).startswith(("matplotlib", "seaborn")):
        return None
    try:
        return value.figure
    except Exception:  # noqa: BLE001 - a user's attribute may do anything
        return None


def _open() -> dict[int, Any]:
    """The open figures by their numbers."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    managers = getattr(getattr(helpers, "Gcf", None), "figs", {})
    return {number: manager.canvas.figure for number, manager in list(managers.items())}


def _closes() -> bool:
    """Whether a figure that stays open is shown nowhere but below the cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    backend = str(pyplot.get_backend()).lower() if pyplot is not None else ""
    return "inline" in backend or backend in _SILENT


def _draw(figure: Any, capture: Capture) -> None:
    png = picture(figure)
    if png is not None:
        capture.display({"image/png": png, "text/plain": repr(figure)})
