"""Whether a front end takes clicks while a cell runs, and where controls are shown in it.

A front end that sends the messages of widgets on a subshell delivers a click while the main thread
is busy. The click arrives on another thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Literal

from archytas_nb import settings
from archytas_nb.namespace import is_notebook

Way = Literal["controls", "input"]
"""How a person is asked."""

_SECONDS_TO_SEND = 0.2  # at most
_SECONDS_TO_CONNECT = 1.0  # until a front end has answered to its first widget; 0.1 s is usual
_without: set[int] = set()  # kernels, by id, whose front end has not made a subshell


def keep_busy(kernel: Any, request: dict[str, Any]) -> None:
    """Have the front end show that the cell of a request still runs.

    What is done on a subshell ends with the status idle, which a front end takes for the kernel's.
    """
    if request and has_subshell(kernel):
        content = {"execution_state": "busy"}
        kernel.session.send(kernel.iopub_socket, "status", content, parent=request)


def send(kernel: Any) -> None:
    """Wait until what was displayed is sent, which needs the interpreter."""
    thread = getattr(kernel, "iopub_thread", None)
    if thread is None:
        return
    sent = threading.Event()
    thread.schedule(sent.set)  # after what was displayed before
    sent.wait(_SECONDS_TO_SEND)


def has_subshell(kernel: Any) -> bool:
    """Whether the front end has made a subshell; ipykernel 6 has none."""
    thread = getattr(kernel, "shell_channel_thread", None)
    manager = getattr(thread, "manager", None)
    if manager is None or not hasattr(manager, "list_subshell"):
        return False
    return bool(manager.list_subshell())


def way() -> Way:
    """How a person is asked here and now.

    Where no widget was shown before, an empty one is: a front end makes its subshell for the first
    one. One that makes none is not tried again.

    Raises:
        ConfigurationError: The setting ``ask_with`` cannot be read.
    """
    wanted = settings.value("ask_with")
    kernel = current_kernel()
    if wanted == "input" or kernel is None or not is_notebook(kernel):
        return "input"
    if has_subshell(kernel):
        return "controls"
    if wanted == "auto" and id(kernel) in _without:
        return "input"
    if _connected(kernel):
        return "controls"
    _without.add(id(kernel))
    return "input"


def takes_presses() -> bool:
    """Whether a person at a notebook can be shown buttons.

    Raises:
        ConfigurationError: The setting ``ask_with`` cannot be read.
    """
    return is_notebook(current_kernel()) and settings.value("ask_with") != "input"


def _connected(kernel: Any) -> bool:
    """Show an empty widget, and wait until the front end has made a subshell for it."""
    import ipywidgets

    probe = ipywidgets.VBox()
    handle = None
    if not places:
        handle = display(probe)
    ends = time.monotonic() + _SECONDS_TO_CONNECT
    try:
        while not has_subshell(kernel):
            if time.monotonic() > ends:
                return False
            time.sleep(0.01)
    finally:
        if handle is not None:
            handle.update(NOTHING, raw=True)
        probe.close()
    return True


def current_kernel() -> Any:
    """The kernel of this process; None in a terminal."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


NOTHING = {"text/html": ""}
"""What takes the place of the widgets; nbconvert warns of an output without any media type."""


def display(widget: Any) -> Any:
    """Display a widget, without a text that would be left where it cannot be drawn."""
    from IPython.display import display as show

    return show(view_of(widget), raw=True, display_id=True)  # type: ignore[no-untyped-call]


def view_of(widget: Any) -> dict[str, Any]:
    """The data of a display that shows a widget."""
    model = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return {"application/vnd.jupyter.widget-view+json": model}


WITHOUT_KERNEL = (
    ".jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator"
    ":is([data-status=unknown],[data-status=dead],[data-status=terminating]))"
)
"""A selector of a notebook whose kernel does not answer, in which no button would do anything."""


# ── where controls are shown ──────────────────────────────────────────────────────────────────────

places: list[Any] = []  # the boxes of the traces that are shown, the innermost last


def open_place(box: Any) -> None:
    """Have what is asked shown in a box of a trace."""
    places.append(box)


def close_place(box: Any) -> None:
    """No longer show anything there."""
    with suppress(ValueError):
        places.remove(box)


def reachable(widget: Any) -> Any:
    """A widget whose messages are not sent to the shell that runs the cell.

    ipykernel 7.4 has a front end reply to the shell that wrote a widget last, which is the busy
    one; other versions do not, and have no such attribute.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = None  # noqa: SLF001
    return widget
