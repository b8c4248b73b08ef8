"""The first sign of a question: a line below its cell, shown before anything heavy is imported.

    shown ──taken──▶ the trace takes its place
      └──not taken─▶ empty: the question could not be asked

It imports nothing of the package but what the extension has imported already.
"""

from __future__ import annotations

from typing import Any, Self

from archytas_nb.namespace import is_notebook

# As the line of the trace that takes its place.
_STYLE = (
    "line-height:26px;opacity:.65;font-size:calc(.82*var(--jp-content-font-size1,14px));"
    "font-family:var(--jp-content-font-family,system-ui,-apple-system,'Segoe UI',sans-serif)"
)


class FirstSign:
    """Shows that a question has begun, from its ``with`` on, if a person is at a notebook.

    Args:
        shell: The shell of IPython.
        is_wanted: Whether the question will have a trace.
    """

    def __init__(self, shell: Any, *, is_wanted: bool) -> None:
        self._is_shown = is_wanted and is_notebook(getattr(shell, "kernel", None))
        self._handle: Any = None

    def __enter__(self) -> Self:
        from IPython.display import display

        if self._is_shown:
            page = f'<div class="anb-trace" style="{_STYLE}">starting</div>'
            data = {"text/html": page, "text/plain": "starting"}
            self._handle = display(data, raw=True, display_id=True)
        return self

    def take(self) -> Any:
        """The handle of the output, for what is shown in its place; None if there is none."""
        handle, self._handle = self._handle, None
        return handle

    def __exit__(self, *_: object) -> None:
        handle = self.take()
        if handle is not None:
            handle.update({"text/html": ""}, raw=True)
