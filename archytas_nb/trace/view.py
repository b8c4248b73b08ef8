"""Show a run while it happens, in the way that fits the place where it happens.

    live      a person at a notebook: widgets while it runs, then one static output in their place
    static    nobody there (nbclient, nbconvert, papermill): one static output at the end, nothing before
    terminal  IPython without a kernel: lines on stdout as they come
    quiet     nothing is shown

`TraceView` observes a run and never disturbs it: whatever goes wrong in drawing is logged. It knows the fold
and the static forms, and calls for IPython and the widgets on first use.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, Protocol, Self, get_args

from archytas_nb.loop.events import Answered, Ending, Event, Failed, Interrupted, Stopped
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.steps import advance, fold
from archytas_nb.trace.values import RunView

Mode = Literal["live", "static", "terminal", "quiet"]

_log = logging.getLogger("archytas_nb")


class Layer(Protocol):
    """One way to show a run."""

    def update(self, view: RunView, event: Event) -> None:
        """Show what an event, already folded into `view`, has changed."""

    def finish(self, view: RunView) -> None:
        """Show the run as it will stay; called once."""


def display_mode(shell: Any = None) -> Mode:
    """Find out how runs can be shown.

    Args:
        shell: The IPython shell; None asks for the current one.

    Returns:
        ``"quiet"`` where there is no shell at all, ``"terminal"`` where it has no kernel, ``"live"`` where a
        notebook is before a person, otherwise ``"static"``.
    """
    if shell is None:
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return "quiet"
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return "terminal"
    return "live" if getattr(kernel, "_allow_stdin", False) and _is_notebook(kernel) else "static"


def _is_notebook(kernel: Any) -> bool:
    """Whether the request came from a notebook, which names its cell.

    A console (jupyter console, qtconsole) has a person too, but draws no widgets and ignores updates of what it
    has displayed: there a live trace would stay for ever what it was at first.
    """
    try:
        return "cellId" in kernel.get_parent("shell")["metadata"]
    except (AttributeError, KeyError, TypeError):
        return False


class TraceView:
    """Observes one run and shows it.

    Args:
        question: What was asked.
        mode: Where it is shown; see `display_mode`.
        model: The model's name, until a reply tells it.
        protocol: How the model is spoken to.

    Attributes:
        view: The run so far, as `RunView`.

    Raises:
        ValueError: The mode is not one of the four.
    """

    def __init__(
        self, question: str, *, mode: Mode = "live", model: str = "", protocol: str = ""
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}; expected one of {get_args(Mode)}")
        self.mode: Mode = mode
        self.view: RunView = fold(question, (), model=model, protocol=protocol)
        self._closed = False
        self._layer = self._open(mode)

    def _open(self, mode: Mode) -> Layer | None:
        try:
            if mode == "live":
                from archytas_nb.trace.widget import LiveLayer

                return LiveLayer(self.view)
            if mode == "terminal":
                from archytas_nb.trace.terminal import TerminalLayer

                return TerminalLayer(self.view)
        except Exception:  # noqa: BLE001 (a run is never disturbed by its view)
            _log.exception("the live trace could not be opened; the run is shown when it has ended")
        return None if mode == "quiet" else StaticLayer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_event(self, event: Event) -> None:
        """Take one event; the ending closes the view.

        Args:
            event: Any event, in order. Nothing is ever raised for it but KeyboardInterrupt.
        """
        try:
            self.view = advance(self.view, event)
            if self._layer is not None and not self._closed:
                self._layer.update(self.view, event)
        except Exception:  # noqa: BLE001 (a run is never disturbed by its view)
            _log.exception("the trace could not show %s", type(event).__name__)
        if isinstance(event, (Answered, Failed, Stopped, Interrupted)):
            self.close()

    def close(self, ending: Ending | None = None) -> None:
        """Show the run as it will stay; called again, it does nothing.

        Args:
            ending: How the run ended, where no event has told it; None leaves the run unfinished.
        """
        if self._closed:
            return
        if ending is not None and self.view.ending is None:
            self.on_event(ending)
            return
        self._closed = True
        try:
            if self._layer is not None:
                self._layer.finish(self.view)
        except Exception:  # noqa: BLE001 (a run is never disturbed by its view)
            _log.exception("the trace could not be finished")


class StaticLayer:
    """Shows nothing until the run has ended, then all of it in one output."""

    def update(self, view: RunView, event: Event) -> None:
        """Wait."""

    def finish(self, view: RunView) -> None:
        """Display the bundle."""
        from IPython.display import display

        data, metadata = bundle(view)
        display(data, raw=True, metadata=metadata)  # type: ignore[no-untyped-call]
