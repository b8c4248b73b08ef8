"""The model's text until a person stopped it stays in the trace, marked as stopped."""

from __future__ import annotations

from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import RunInterrupted
from archytas_nb.loop.events import AskModel, Delta, Interrupted, ModelReply
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from archytas_nb.trace.live import TraceView
from archytas_nb.trace.view import RunView


class Stopped(ScriptedModel):
    """A model that is stopped when it has written some pieces of a reply."""

    def __init__(self, *pieces: str, protocol: Any) -> None:
        super().__init__(protocol=protocol)
        self.pieces = pieces

    def complete(self, ask: AskModel) -> Any:
        if not ask.step:
            return ModelReply("yes")
        yield Delta("reasoning", "Hmm. ")
        for piece in self.pieces:
            yield Delta("text", piece)
        raise KeyboardInterrupt


def stopped(model: Any, observers: Any = ()) -> Run[Any]:
    it = nb.Agent([], model=model, namespace={})
    with pytest.raises(RunInterrupted) as caught:
        it.run("Why?", observers=observers)
    assert it.exchanges == []  # it is no answer that a later question could build on
    run: Run[Any] = caught.value.run
    return run


REPLIES: list[tuple[Any, list[str], list[str]]] = [
    ("native", ["The sky is blue, ", "because"], ["The sky is blue, because"]),
    (
        "react",
        ['{"thought": "I know it.", "tool": "final_answer", ', '"tool_input": "The sky is\\n'],
        ["I know it.", "The sky is"],
    ),
    ("react", ['{"thought": "I look it u'], ["I look it u"]),
    ("react", ['{"thought": "So.", "tool": "look", "tool_input": {"name": "df'], ["So.", "look"]),
]


@pytest.mark.parametrize(("protocol", "pieces", "kept"), REPLIES)
def test_the_text_is_kept_in_the_record_and_in_every_form_of_the_trace(
    protocol: Any, pieces: list[str], kept: list[str]
) -> None:
    run = stopped(Stopped(*pieces, protocol=protocol))
    assert isinstance(run.ending, Interrupted)
    assert (run.answer, run.status, run.incomplete) == ("", "interrupted", False)
    view: RunView = fold("Why?", run.events)
    shown = bundle(view)[0]
    for text in (run.ending.text, *(shown[each] for each in shown)):
        assert all(part in text for part in kept)
    for each in shown.values():
        assert "Interrupted during a request to the model" in each
        assert "incomplete" in each


@pytest.mark.parametrize(("protocol", "pieces", "kept"), REPLIES)
def test_the_text_is_printed_where_no_widget_can_show_it(
    capsys: pytest.CaptureFixture[str], protocol: Any, pieces: list[str], kept: list[str]
) -> None:
    with TraceView("Why?", "terminal") as view:
        stopped(Stopped(*pieces, protocol=protocol), [view.on_event])
    printed = capsys.readouterr().out
    assert all(part in printed for part in kept)
    assert "Interrupted during a request to the model" in printed


def test_an_interrupt_while_a_piece_is_shown_keeps_the_pieces_up_to_it() -> None:
    model = Stopped("The sky ", "is blue", "and more", protocol="native")

    def show(event: Any) -> None:
        if isinstance(event, Delta) and event.text == "is blue":
            raise KeyboardInterrupt

    run = stopped(model, [show])
    assert isinstance(run.ending, Interrupted)
    assert run.ending.text == "The sky is blue"


def test_nothing_is_kept_where_nothing_was_written() -> None:
    run = stopped(Stopped(protocol="native"))
    assert run.ending == Interrupted("a request to the model")
    assert "incomplete" not in bundle(fold("Why?", run.events))[0]["text/plain"]
