"""What a person can do with a map while it runs: pause, go on, stop, retry what failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from archytas_nb import settings
from archytas_nb.trace import front_end
from archytas_nb.trace import html as draw
from archytas_nb.trace.header import StopButton
from archytas_nb.trace.safe import element, stylesheet

_PANEL = "archytas-nb-map"
# A page keeps widgets after their kernel has gone, with broken icons and buttons that do nothing.
_HIDE_DEAD = (
    f".jp-OutputArea-child:has(.jupyter-widgets-disconnected.{_PANEL},"
    f".jupyter-widgets-disconnected .{_PANEL}){{display:none}}"
)


class MapPanel:
    """What a person can do with a map while it runs: pause, go on, stop, retry what failed.

    What is pressed is put into the queue of the main thread, which does it between two rows.

    Args:
        do: Has the main thread call a function.
        pause: Lets no row begin (True), or lets them begin again (False).
        retry: Asks again about the rows that have failed.
    """

    def __init__(
        self,
        do: Callable[[Callable[[], object]], object],
        pause: Callable[[bool], object],
        retry: Callable[[], object],
    ) -> None:
        import ipywidgets

        self._pause = pause
        self._is_paused = False
        self._drawn: tuple[tuple[str, str], ...] = ()
        self._stop = StopButton()
        self._paused = ipywidgets.Button(description="Pause", tooltip="let no other row begin")
        self._retry = ipywidgets.Button(
            description="Retry what failed", tooltip="ask again about the rows that failed"
        )
        self._failures = ipywidgets.HTML(element("div", stylesheet(_HIDE_DEAD)))
        self._paused.on_click(lambda _: do(self._toggle))
        self._retry.on_click(lambda _: do(retry))
        for each in (self._paused, self._retry):
            front_end.reachable(each)
        self._buttons = ipywidgets.HBox()
        self._shown: tuple[Any, ...] = (self._paused, self._stop.widget)
        self.box = ipywidgets.VBox().add_class(_PANEL)
        self._handle = front_end.display(self.box)

    @property
    def is_shown(self) -> bool:
        """Whether the buttons are shown, and the rows that failed below them."""
        return bool(self.box.children)

    @property
    def was_stopped(self) -> bool:
        """Whether the person has ended the map with the button."""
        return self._stop.was_pressed

    def _toggle(self) -> None:
        self._is_paused = not self._is_paused
        self._pause(self._is_paused)
        self._paused.description = "Go on" if self._is_paused else "Pause"

    def draw(self, failures: Sequence[tuple[str, str]]) -> None:
        """Show the buttons, and the rows that failed last with the reason; on the main thread."""
        if not self.box.children:
            if not self._stop.works:
                return
            self._buttons.children = self._shown
            self.box.children = (self._buttons, self._failures)
        if self._drawn == tuple(failures):
            return
        self._drawn = tuple(failures)
        if failures:
            self._buttons.children = (*self._shown, self._retry)  # nothing moves when it appears
        rows = [
            element("div", element("span", "✗ "), row, element("span", f" · {why}", style=draw.DIM))
            for row, why in failures
        ]
        self._failures.value = element("div", stylesheet(_HIDE_DEAD), *rows, class_=draw.CLASSES)

    def close(self) -> None:
        """Remove the panel; a stop that was pressed arrives here at the latest.

        Raises:
            KeyboardInterrupt: The person interrupted the kernel.
        """
        try:
            self._stop.close()
        finally:
            self._handle.update(front_end.NOTHING, raw=True)
            every = (self._paused, self._retry, self._stop.widget, self._failures)
            for each in (*every, self._buttons, self.box):
                with suppress(Exception):
                    each.close()


def map_panel(
    do: Callable[[Callable[[], object]], object],
    pause: Callable[[bool], object],
    retry: Callable[[], object],
) -> MapPanel | None:
    """The panel of a map, if a person is at a notebook; see `MapPanel`."""
    kernel = front_end.current_kernel()
    if kernel is None or not front_end.is_notebook(kernel) or settings.value("ask_with") == "input":
        return None
    return MapPanel(do, pause, retry)
