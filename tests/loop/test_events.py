"""The values of a run."""

from __future__ import annotations

import dataclasses
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import NO_OUTPUT, Answered, CallOutcome, ModelReply, Usage

usages = st.builds(Usage, *[st.integers(0, 99)] * 4)


def test_rejects_an_outcome_without_text() -> None:
    with pytest.raises(ValueError, match="never empty"):
        CallOutcome("done", "")


def test_rejects_an_unknown_status() -> None:
    with pytest.raises(ValueError, match=r"'finished'.*'done'"):
        CallOutcome("finished", "x")  # type: ignore[arg-type]


def test_events_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Answered("x").text = "y"  # type: ignore[misc]


def test_equality_ignores_seconds_tokens_and_objects() -> None:
    assert CallOutcome("done", "3", value=3, seconds=1.0) == CallOutcome(
        "done", "3", value=4, seconds=2.0
    )
    assert ModelReply("x", usage=Usage(1, 2, 3, 4), model="a") == ModelReply(
        "x", model="b", seconds=9
    )


@given(usages, usages)
def test_usage_adds_up_field_by_field(a: Usage, b: Usage) -> None:
    total = a + b
    assert dataclasses.astuple(total) == tuple(
        x + y for x, y in zip(dataclasses.astuple(a), dataclasses.astuple(b), strict=True)
    )


def test_what_was_printed_comes_before_the_result() -> None:
    for parts, text in [
        ({"result": NO_OUTPUT}, NO_OUTPUT),
        ({"result": NO_OUTPUT, "printed": "a\n"}, "a"),
        ({"result": "7", "printed": "a"}, "a\n\nReturned: 7"),
        ({"result": "x\n1", "printed": "a"}, "a\n\nReturned:\nx\n1"),
        ({"result": "ValueError: x", "printed": "a", "status": "error"}, "a\n\nValueError: x"),
        ({"result": NO_OUTPUT, "changed": "Created: a"}, "Created: a"),
        ({"result": "7", "hint": "\n(kept)", "advice": "Stop."}, "7\n(kept)\nStop."),
    ]:
        assert CallOutcome(**{"status": "done", **parts}).text == text  # type: ignore[arg-type]


def test_an_image_is_said_to_be_sent_only_if_it_is() -> None:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (800).to_bytes(4) + (450).to_bytes(4)
    png = b64encode(head).decode()
    drawn = CallOutcome("done", NO_OUTPUT, images=(png,), drawn=1)
    assert drawn.text == "1 image (800 × 450) was shown to the user, attached."
    assert drawn.written(with_images=False) == "1 image was shown to the user, but not sent to you."
    many = CallOutcome("done", "7", images=(png,) * 2, drawn=5)
    assert many.text.endswith(
        "2 images (800 × 450) were shown to the user, attached.\n"
        "3 more images were shown to the user, but not sent to you."
    )
