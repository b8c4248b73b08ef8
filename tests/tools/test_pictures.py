"""Pictures: what a user shows to a model, and what a value draws of itself."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from archytas_nb.tools.data import attached, picture
from archytas_nb.tools.tool import Tool

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
        f"data:image/x;base64,{text(data)}",
        file,
        str(file),
    ]
    assert {attached(each) for each in forms} == {text(data)}


def test_what_draws_itself_is_an_image() -> None:
    assert attached(Drawn()) == text(PNG) == picture(Drawn())


def test_a_figure_is_drawn() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    figure.add_subplot().plot([1, 2])
    assert base64.b64decode(attached(figure)).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nonsense", "'nonsense' is neither the path of a file nor PNG or JPEG in base64"),
        (b"GIF89a", "is neither PNG nor JPEG; save it as one of them"),
        (text(b"GIF89a"), "neither the path of a file nor PNG or JPEG"),
        ("a\0b", "neither the path of a file"),
        (3, "the image is 3; expected PNG or JPEG"),
        (pd.DataFrame({"a": [1]}), "the image is an object of type 'DataFrame'; expected PNG"),
        (PNG + bytes(5_000_000), r"at most 5,000,000 are sent: make it smaller"),
        ("x" * 500_000, "neither the path of a file"),
    ],
)
def test_what_is_no_image_is_refused_with_what_was_expected(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        attached(value)
    assert len(str(caught.value)) < 200


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no image")
    for value in (file, str(file)):
        with pytest.raises(ValueError, match="is neither PNG nor JPEG"):
            attached(value)


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.png"):
        attached(tmp_path / "none.png")


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
    assert "the user sees it" in outcome.text


def test_what_is_no_picture_is_not_said_to_be_seen() -> None:
    def draw() -> str:
        """Draw."""
        return "no picture"

    assert Tool.from_function(draw).call(None, {}).text == "no picture"
