"""Previews of arrays and frames, and pictures."""

from __future__ import annotations

import base64
import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb.tools.data import encode_image, fitting, picture
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool


def test_a_long_value_shows_its_first_and_its_last_rows() -> None:
    for long in [
        pd.DataFrame({"a": range(5000, 6000)}),
        pd.Series(range(5000, 6000)),
        pd.Index(range(5000, 6000)),
        np.arange(5000, 6000),
        pl.DataFrame({"a": range(5000, 6000)}),
        pl.Series("a", range(5000, 6000)),
    ]:
        text = render(long).text
        assert "5000" in text
        assert "5999" in text
        assert "5500" not in text
        assert not render(long).whole


def test_a_long_cell_of_a_frame_is_shortened() -> None:
    for frame in (pd.DataFrame, pl.DataFrame):
        text = render(frame({"a": ["x" * 10_000, "b"], "c": [1, 2]})).text
        assert "x" * 400 in text
        assert "x" * 600 not in text
        assert "cells are cut at 500 characters" in text
        many = {f"c{n}": ["x" * 10_000] * 20 for n in range(9)}
        assert len(render(frame(many)).text) < 3_000
        assert "the first 2 columns of 9" in render(frame(many)).text


def test_items_of_a_list_in_a_cell_are_not_cut() -> None:
    numbers = [1 / 3 + n for n in range(1000)]
    cells = render(pd.DataFrame({"a": [numbers] * 20})).text.split("\n")
    for cell in cells[2:5]:
        found = [float(each) for each in re.findall(r"\d+\.\d+", cell)]
        assert found == numbers[: len(found)]
        assert len(found) > 3


def test_a_series_is_cut_by_position_whatever_its_index() -> None:
    labels = [n / 2 for n in range(1000)]
    series = pd.Series(range(5000, 6000), index=labels)
    for value in (series, {"a": series}):
        text = render(value).text
        assert "5004" in text
        assert "5997" in text
        assert "5005" not in text


def test_a_styler_is_shown_as_its_frame() -> None:
    pytest.importorskip("jinja2")
    frame = pd.DataFrame({"a": [1, 2]})
    for wrap in (lambda each: each, lambda each: [each]):
        assert render(wrap(frame.style)).text == render(wrap(frame)).text


def test_long_texts_in_data_inside_a_value_are_cut() -> None:
    rendered = render([pd.Series(["x" * 10_000] * 5)], 100_000)
    assert len(rendered.text) < 2500


def test_no_row_is_shown_twice() -> None:
    for rows in [21, 25]:
        text = render(pd.DataFrame({"a": range(5000, 5000 + rows)})).text
        assert all(text.count(str(5000 + n)) <= 1 for n in range(rows))


def test_a_value_without_rows_has_no_first_and_last_rows() -> None:
    wide = pd.DataFrame({f"c{n}": [] for n in range(30)})
    assert "rows:" not in render(wide).text


def test_data_inside_a_value_shows_what_is_in_it() -> None:
    for inner, shown in [
        (np.array([1.5, 2.5]), ["1.5", "2.5"]),
        (np.array([[1, 2], [3, 4]]), ["[1, 2]", "[3, 4]"]),
        (np.arange(5000, 6000), ["5000", "5999", "1,000 int64"]),
        (np.arange(5000, 6000).reshape(100, 10), ["5000", "5999", "100 × 10 int64"]),
        (pd.Series(["x", "y"]), ["x", "y"]),
        (pd.Index(["x", "y"]), ["x", "y"]),
        (pl.Series("a", ["x", "y"]), ["x", "y"]),
        (pd.DataFrame({"weight": [1], "height": [2]}), ["1 × 2 ", "weight", "height"]),
        (pl.DataFrame({"weight": [1], "height": [2]}), ["1 × 2 ", "weight", "height"]),
        (np.array([]), ["ndarray 0 float64"]),
    ]:
        for value in ({"a": inner}, [inner], {"a": {"b": [inner]}}):
            rendered = render(value)
            assert all(each in rendered.text for each in shown), rendered.text
            assert rendered.whole == render(inner).whole
            assert len(rendered.text) < 700


PNG = b"\x89PNG\r\n\x1a\n rest"
JPEG = b"\xff\xd8\xff\xe0 rest"


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Drawn:
    """Something that draws itself."""

    def _repr_png_(self) -> bytes:
        return PNG


@pytest.mark.parametrize("data", [PNG, JPEG])
def test_an_image_may_come_as_bytes_text_url_path_or_the_paths_name(
    tmp_path: Path, data: bytes
) -> None:
    file = tmp_path / "image"
    file.write_bytes(data)
    forms: list[Any] = [
        data,
        bytearray(data),
        text(data),
        file,
        str(file),
    ]
    assert {encode_image(each) for each in forms} == {text(data)}


def test_an_object_with_a_png_representation_is_an_image() -> None:
    assert encode_image(Drawn()) == text(PNG) == picture(Drawn())


def test_a_figure_is_drawn() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    figure.add_subplot().plot([1, 2])
    assert base64.b64decode(encode_image(figure)).startswith(b"\x89PNG")


def test_rejects_what_is_not_an_image() -> None:
    for value, said in [
        ("nonsense", "'nonsense' is not an image; expected PNG or JPEG"),
        (b"GIF89a", "is not an image"),
        (text(b"GIF89a"), "is not an image"),
        ("a\0b", "is not an image"),
        (3, "3 is not an image"),
        (pd.DataFrame({"a": [1]}), "a DataFrame is not an image; expected PNG or JPEG"),
        ("plot.png", "or the path of a file that exists"),
        (PNG + bytes(5_000_000), r"at most 5,000,000 can be sent: make it smaller"),
        ("x" * 500_000, "is not an image"),
    ]:
        with pytest.raises(ValueError, match=said) as caught:
            encode_image(value)
        assert len(str(caught.value)) < 200


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no image")
    for value in (file, str(file)):
        with pytest.raises(ValueError, match="is not an image"):
            encode_image(value)


def test_names_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.png"):
        encode_image(tmp_path / "none.png")


@pytest.mark.parametrize("kind", ["Figure", "Axes", "Image", "Drawn"])
def test_a_tool_that_returns_a_picture_tells_the_model_that_the_user_sees_it(kind: str) -> None:
    value: Any = Drawn()
    if kind == "Image":
        value = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    elif kind != "Drawn":
        figure = pytest.importorskip("matplotlib.figure").Figure()
        value = figure if kind == "Figure" else figure.add_subplot()

    def draw() -> object:
        """Draw."""
        return value

    outcome = Tool.from_function(draw).call(None, {})
    assert len(outcome.images) == 1
    assert kind in outcome.text
    assert "1 image (" in outcome.text or kind == "Drawn"
    assert "shown to the user, attached" in outcome.text


def test_other_results_are_not_announced_as_drawn() -> None:
    def draw() -> str:
        """Draw."""
        return "no picture"

    assert Tool.from_function(draw).call(None, {}).text == "no picture"


@pytest.mark.parametrize("size", [(5, 300), (300, 5), (6, 4), (81, 1)])
def test_a_picture_is_never_longer_than_what_endpoints_take(size: tuple[int, int]) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=size)
    drawn = base64.b64decode(picture(figure) or "")
    longest = max(struct.unpack(">II", drawn[16:24]))
    if max(size) > 80:
        assert 1_000 < longest <= 1_600
    else:
        assert longest == max(size) * figure.dpi or longest > 500


def test_a_tall_picture_of_any_library_is_reduced() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (20, 9_000), "red")
    for made in (picture(image), fitting(_png_of(image))):
        assert made is not None
        assert struct.unpack(">II", base64.b64decode(made)[16:24])[1] == 1_568
    small = _png_of(image.resize((20, 100)))
    assert fitting(small) == small


def _png_of(image: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()
