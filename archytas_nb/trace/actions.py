"""Buttons below the trace of the last question: a person can go on with it when it has ended.

    offered ──press──▶ working ──▶ offered     what came of it is below the row
       └──the next question begins──▶ closed   the row is gone

A press runs between cells, on the main thread, as the magic that its tooltip names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from archytas_nb.trace import front_end
from archytas_nb.trace.html import CLASSES, DIM, PRE, ROOT
from archytas_nb.trace.safe import (
    ACTIONS,
    CODE_RULES,
    Html,
    code,
    element,
    join,
    rules_for,
    stylesheet,
)

_log = logging.getLogger("archytas_nb")
_SHEET = (
    f".{ACTIONS} .widget-button{{width:auto;height:24px;line-height:22px;padding:0 .7em;"
    "font-size:.86em;background:none;color:inherit;"
    "border:1px solid rgba(128,128,128,.45);border-radius:4px}"
    f".{ACTIONS} .widget-hbox{{gap:.4em}}"
    f".{ACTIONS} .widget-button:hover{{background:rgba(128,128,128,.12)}}"
    # A page keeps the buttons of a kernel that has gone.
    f".jupyter-widgets-disconnected .{ACTIONS},.jupyter-widgets-disconnected.{ACTIONS},"
    f"{front_end.WITHOUT_KERNEL} .{ACTIONS}{{display:none!important}}"
    f"@media print{{.{ACTIONS}{{display:none!important}}}}"
)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a press.

    Attributes:
        said: In words.
        code: Code that the person can copy.
    """

    said: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One button.

    Attributes:
        label: On it.
        magic: The tooltip: the magic that does the same.
        do: Does it, on the main thread.
    """

    label: str
    magic: str
    do: Callable[[], Done]


class Between(Protocol):
    """The main thread of a kernel, where work runs between cells."""

    def submit(self, work: Callable[[], Any], /) -> Any:
        """Run something as soon as no cell is running."""


class ActionRow:
    """A row of buttons, and what came of the last press.

    Args:
        actions: The buttons.
        between: Where a press runs.
    """

    def __init__(self, actions: Sequence[Action], between: Between) -> None:
        import ipywidgets

        self._between = between
        self._is_open = True
        self._works = False
        self._actions = list(actions)
        self._layout = ipywidgets.Layout(margin="0", width="auto")
        self._html = ipywidgets.HTML("", layout=self._layout)
        self._style = ipywidgets.ButtonStyle()
        self._row = ipywidgets.HBox([], layout=self._layout)
        self.widget = ipywidgets.VBox([self._row, self._html], layout=self._layout)
        self.widget.add_class(ACTIONS)
        self._sheet = stylesheet(_SHEET + rules_for(None, CODE_RULES))
        self._draw(Done())

    def change(self, actions: Sequence[Action]) -> None:
        """Have other buttons; those with the same label stay where they are."""
        self._actions = list(actions)
        if self._is_open:
            self._draw(Done())

    def press(self, label: str) -> None:
        """Press a button, as a person does; what is not offered now is not done."""
        with_label = [each for each in self._actions if each.label == label]
        if with_label and self._is_open and not self._works:
            self._works = True
            self._between.submit(lambda: self._do(with_label[0]))

    def _do(self, action: Action) -> None:
        try:
            if self._is_open:
                self._html.value = self._page(Done(f"{action.label} …"))
            done = action.do()
        except Exception as error:  # noqa: BLE001 (there is no cell that could show it)
            _log.debug("an action failed", exc_info=True)
            done = Done(f"{action.label} failed: {error}")
        except KeyboardInterrupt:
            done = Done(f"{action.label} was interrupted")
        finally:
            self._works = False
        if self._is_open:
            self._draw(done)

    def _draw(self, done: Done) -> None:
        import ipywidgets

        shown = {each.description: each for each in self._row.children}
        buttons = []
        for action in self._actions:
            button = shown.pop(action.label, None)
            if button is None:
                button = ipywidgets.Button(
                    description=action.label,
                    tooltip=action.magic,
                    layout=self._layout,
                    style=self._style,
                )
                button.on_click(lambda pressed: self.press(pressed.description))
                front_end.reachable(button)
            buttons.append(button)
        self._row.children = tuple(buttons)
        for each in shown.values():
            each.close()
        self._html.value = self._page(done)

    def _page(self, done: Done) -> Html:
        parts = []
        if done.said:
            style = f"{DIM};white-space:pre-wrap;font-size:.86em"
            parts.append(element("div", done.said, role="status", style=style))
        if done.code:
            parts.append(element("pre", code(done.code, "python"), style=PRE))
        return join(self._sheet, element("div", *parts, class_=CLASSES, style=ROOT))

    def close(self) -> None:
        """Take the row away."""
        self._is_open = False
        for each in (*self._row.children, self._html, self._row, self.widget):
            each.close()
        for each in (self._style, self._layout):
            each.close()


def moment() -> str:
    """The time of day, as a person reads it."""
    return time.strftime("%H:%M")
