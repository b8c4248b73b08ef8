"""The rest of a widget when a run has ended: the text of one that only shows something."""

from __future__ import annotations

from typing import Any

import ipywidgets
import pytest

from archytas_nb.loop.events import Output
from archytas_nb.trace import live
from archytas_nb.trace.fold import fold
from archytas_nb.trace.widget_text import last_texts
from tests.trace.samples import answer, call


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


def test_a_display_is_taken_away_and_the_last_text_of_its_widget_is_in_the_step(
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
    shows = call(1, "bootstrap", {}, "done", outputs=(output,))
    left = displays.settle(fold("q", [*shows, *answer(2, "done")]))
    assert seen == [(view, False), ({"text/html": ""}, True)]
    assert list(left.displays) == []
    [item] = left.calls[0].shown
    assert item.text.startswith("read:")
    assert "░" not in item.text
