"""Controls of a run while it works: a person can end it, and tell the agent something.

A press or a text arrives on another thread, which writes no widget and no state of the run.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from archytas_nb import settings
from archytas_nb.loop.record import Inbox
from archytas_nb.trace import front_end


class StopButton:
    """Ends a run as an interrupt does, but not what comes after it.

    open ──press──▶ stopped ──close──▶ closed      the signal is sent, and has arrived
      └────close──────────────────────▶ closed     a later press does nothing

    Attributes:
        widget: The button.
        was_pressed: Whether it has ended the run, or came while the run was ending.

    Args:
        on_press: Called before the interrupt is sent, on another thread.
        interrupts: Whether the main thread is interrupted; a run in the background ends otherwise.
    """

    _SECONDS_TO_ARRIVE = 0.05

    def __init__(
        self, on_press: Callable[[], object] = lambda: None, *, interrupts: bool = True
    ) -> None:
        import ipywidgets

        self.was_pressed = False
        self._on_press = on_press
        self._interrupts = interrupts
        self._is_open = True
        self._lock = threading.Lock()
        self.layout = ipywidgets.Layout(width="auto", height="auto", flex="none")
        tooltip = "Stop now and keep the results so far"
        self.widget = ipywidgets.Button(description="Stop", tooltip=tooltip, layout=self.layout)
        self.widget.on_click(self._press)
        front_end.reachable(self.widget)

    @property
    def works(self) -> bool:
        """Whether a click would arrive while the cell runs."""
        return settings.value("ask_with") != "input" and front_end.has_subshell(
            front_end.current_kernel()
        )

    def _press(self, _: Any = None) -> None:
        """Interrupt the main thread, once; called on another thread."""
        with self._lock:
            if self._is_open and not self.was_pressed:
                self.was_pressed = True
                self._on_press()
                if self._interrupts:
                    _interrupt_main()

    def close(self) -> None:
        """Do nothing from now on; a stop that was sent arrives here at the latest."""
        try:
            self._shut()
        except KeyboardInterrupt:
            self._shut()
            if not self.was_pressed:
                raise

    def _shut(self) -> None:
        with self._lock:
            self._is_open = False
        if self.was_pressed and self._interrupts:
            time.sleep(self._SECONDS_TO_ARRIVE)


def _interrupt_main() -> None:
    """Interrupt the main thread, also while it waits for the system."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


class TellField:
    """A field in which a person tells the agent something while it works; Enter sends it.

    The text is put into the inbox on another thread, which writes no widget.

    Attributes:
        widget: The field.
    """

    def __init__(self, inbox: Inbox, on_sent: Callable[[], object]) -> None:
        import ipywidgets

        self._inbox = inbox
        self._on_sent = on_sent
        self._sent: SimpleQueue[str] = SimpleQueue()  # texts that are still in the field
        self._refused: SimpleQueue[str] = SimpleQueue()
        self.layout = ipywidgets.Layout(
            width="auto", min_width="0", max_width="24em", flex="1 1 6em", margin="2px 2px 2px auto"
        )
        self.widget = ipywidgets.Text(placeholder=_TELL, layout=self.layout)
        self.widget.on_msg(self._on_message)
        front_end.reachable(self.widget)

    def _on_message(self, _: Any, content: Any, __: Any = None) -> None:
        """Send the text; called on another thread."""
        text = str(self.widget.value)
        if content.get("event") != "submit" or not text.strip():
            return
        if self._inbox.put(text.strip()):
            self._sent.put(text)
            self._on_sent()
        else:
            self._refused.put(text.strip())

    def clear(self) -> None:
        """Empty the field if what is in it was sent."""
        for text in _all_of(self._sent):
            if self.widget.value == text:
                self.widget.value = ""

    def close(self) -> list[str]:
        """The texts that came after the end of the run."""
        return _all_of(self._refused)


_TELL = "Tell the agent something; Enter sends it"


def _all_of(texts: SimpleQueue[str]) -> list[str]:
    found: list[str] = []
    with suppress(Empty):
        while True:
            found.append(texts.get_nowait())
    return found
