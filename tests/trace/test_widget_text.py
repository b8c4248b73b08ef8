"""What remains of a widget when a run has ended: the text of one that only shows something."""

from __future__ import annotations

from typing import Any

import ipywidgets
import pytest

from archytas_nb.loop.events import Output
from archytas_nb.trace import live
from archytas_nb.trace.widget_text import last_texts


def bar() -> Any:
    parts = [ipywidgets.HTML("read:\u200750% &lt;1"), ipywidgets.FloatProgress(3, max=6)]
    return ipywidgets.HBox(parts)


def test_a_progress_bar_becomes_text_and_what_can_be_used_does_not() -> None:
    shown = bar()
    slider = ipywidgets.HBox([ipywidgets.IntSlider()])
    closed = ipywidgets.HTML("gone")
    key = closed.model_id
    closed.close()
    texts = last_texts([shown.model_id, slider.model_id, key])
    assert set(texts) == {shown.model_id, key}
    assert texts[key] == ""
    assert texts[shown.model_id].startswith("read: 50% <1 █")


def test_a_display_is_replaced_by_the_last_text_of_its_widget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[dict[str, Any], bool]] = []

    def note(data: dict[str, Any], *_: Any, update: bool = False, **__: Any) -> None:
        seen.append((data, update))

    monkeypatch.setattr(live, "_display", note)
    shown = bar()
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": shown.model_id}}
    output = Output("display", view, display_id="a")
    displays = live.Displays()
    displays.take(output)
    shown.children[1].value = 6
    displays.settle([output])
    (first, _), (last, is_update) = seen
    assert first == view
    assert is_update
    assert set(last) == {"text/plain"}
    assert "░" not in last["text/plain"]
