"""The record of a call keeps the order, the beginning and the end, and reads as a person sees it."""

import base64
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.output import KEEP, KEEP_DISPLAYED, MAX_CHARS, MAX_IMAGES, Capture, guarded
from tests.kernel.tools import text_of


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(min_size=1)), max_size=20))
def test_text_is_kept_in_order_and_neighbours_of_one_kind_are_joined(
    pieces: list[tuple[str, str]],
) -> None:
    capture = Capture()
    for kind, text in pieces:
        capture.write(kind, text)  # type: ignore[arg-type]
    outputs = capture.outputs()
    assert "".join(str(each.data["text/plain"]) for each in outputs) == "".join(
        text for _, text in pieces
    )
    kinds = [each.kind for each in outputs]
    assert all(a != b for a, b in itertools.pairwise(kinds))


def test_of_endless_output_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() -> None:
    capture = Capture()
    capture.write("stdout", "first\n")
    for n in range(3000):
        capture.write("stdout" if n % 2 else "stderr", f"{n:04} " + "x" * 995)
    capture.write("stdout", "last\n")
    outputs = capture.outputs()
    kept = sum(len(str(each.data["text/plain"])) for each in outputs)
    assert 2 * KEEP <= kept <= 2 * KEEP + 100
    assert str(outputs[0].data["text/plain"]).startswith("first\n")
    assert str(outputs[-1].data["text/plain"]).endswith("last\n")
    assert f"{3000 * 1000 + 11 - 2 * KEEP:,} characters left out" in text_of(outputs)
    assert len(capture.text()) <= MAX_CHARS


def test_one_enormous_piece_is_cut_the_same_way() -> None:
    capture = Capture()
    capture.write("stdout", "a" + "x" * 5_000_000 + "z")
    text = text_of(capture.outputs())
    assert (text[0], text[-1]) == ("a", "z")
    assert f"{5_000_002 - 2 * KEEP:,} characters left out" in text


def test_of_a_long_series_of_displays_the_first_ones_and_the_last_are_kept() -> None:
    capture = Capture()
    for n in range(KEEP_DISPLAYED + 50):
        capture.display({"text/plain": str(n)})
    shown = [each.data["text/plain"] for each in capture.outputs() if each.kind == "display"]
    assert shown[:2] == ["0", "1"]
    assert shown[-1] == str(KEEP_DISPLAYED + 49)
    assert len(shown) == KEEP_DISPLAYED
    assert "50 displayed things left out" in text_of(capture.outputs())


def test_a_display_is_updated_in_its_place_and_cleared_output_is_gone() -> None:
    capture = Capture()
    capture.display({"text/plain": "0 %"}, "bar")
    capture.write("stdout", "between\n")
    capture.display({"text/plain": "100 %"}, "bar", update=True)
    capture.display({"text/plain": "nobody's"}, "other", update=True)
    assert capture.text() == "100 %\nbetween"
    capture.clear(wait=True)
    assert capture.text() == "100 %\nbetween"
    capture.write("stdout", "new\n")
    assert capture.text() == "new"
    capture.clear()
    assert capture.outputs() == ()


def test_the_model_reads_what_a_person_sees() -> None:
    capture = Capture()
    capture.write("stderr", "10 %\r50 %\r100 %\n\x1b[31mred\x1b[0m\r\n")
    capture.display(
        {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "**bold**"}
    )
    html = "<style>p {}</style><p>shown <b>here</b></p>"
    capture.display({"text/plain": "<IPython.core.display.HTML object>", "text/html": html})
    assert capture.text() == "100 %\nred\n**bold**\nshown here"


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_000,
        "<" * 2_000_000,
        "\x1b[" * 1_000_000,
        "ipykernel_" * 200_000,
        "\r" * 2_000_000,
    ],
)
def test_no_text_is_so_odd_that_reading_it_takes_for_ever(text: str) -> None:
    capture = Capture()
    capture.write("stdout", text)
    capture.display({"text/html": text})
    assert len(capture.text()) <= MAX_CHARS


def test_pictures_are_handed_on_as_base64_and_not_too_many_of_them() -> None:
    capture = Capture()
    for n in range(MAX_IMAGES + 3):
        capture.display({"image/png": b"\x89PNG" + bytes([n])})
    assert len(capture.images()) == MAX_IMAGES
    assert base64.b64decode(capture.images()[1]) == b"\x89PNG\x01"
    wrapped = Capture()
    wrapped.display({"image/png": "iVBO\nRw0K\n"})
    assert wrapped.images() == ("iVBORw0K",)


def test_the_file_of_a_cell_has_no_name_in_it() -> None:
    capture = Capture()
    capture.write("stderr", "/tmp/ipykernel_123/456.py:4: UserWarning: careful\n")
    assert text_of(capture.outputs(), "stderr") == "<cell>:4: UserWarning: careful\n"


def test_who_watches_is_given_each_piece_and_may_fail_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    def watch(text: str) -> None:
        seen.append(text)
        if len(seen) == 2:
            raise RuntimeError("no screen")

    capture = Capture(guarded(watch))
    for text in ("a", "b", "c"):
        capture.write("stdout", text)
    assert seen == ["a", "b"]
    assert capture.text() == "abc"
    assert "could not be shown live" in caplog.text
