"""What a model reads of values and exceptions: bounded and deterministic."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import os
import pathlib
import re
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from archytas_nb.tools.render import Drained, failure_text, render
from archytas_nb.tools.tool import Tool


class Color(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Point:
    x: int
    when: dt.date


class Model(BaseModel):
    name: str
    tags: list[str] = []


class Pair(NamedTuple):
    a: int
    b: int


class Plain:
    pass


def test_renders_values_of_many_types():
    for value, text in [
        (None, "(no output)"),
        ("", "(empty text)"),
        (" \n", "(only white space)"),
        ("hello", "hello"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (10**5000, "an integer of 16610 bits"),
        ([], "[]"),
        ([1, "a", None], '[1, "a", null]'),
        ((1, 2), "[1, 2]"),
        ({3, 1, 2}, "[1, 2, 3]"),
        ({"b", "a"}, '["a", "b"]'),
        ({1, "a", None}, '[null, 1, "a"]'),
        ({"a": {1: 2}, (1, 2): None}, '{"a": {"1": 2}, "[1, 2]": null}'),
        ([{"a": 1}, {"a": 2}], '[\n{"a": 1},\n{"a": 2}\n]'),
        ({"größe": 1}, '{"größe": 1}'),
        (b"abc", "3 bytes: b'abc'"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), "2024-01-02T03:00:00+00:00"),
        (dt.timedelta(hours=2), "2:00:00"),
        (decimal.Decimal("1.10"), "1.10"),
        (Color.RED, "r"),
        (Point(1, dt.date(2024, 1, 2)), '{"x": 1, "when": "2024-01-02"}'),
        (Model(name="a"), '{"name": "a", "tags": []}'),
        (Pair(1, 2), '{"a": 1, "b": 2}'),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (np.float64(2.5), "2.5"),
        (np.int32(3), "3"),
        (np.bool_(True), "true"),
        (np.array(4), "4"),
        ([np.int64(1), np.nan], '[1, "nan"]'),
        (range(3), "range(0, 3)"),
        (1 + 2j, "(1+2j)"),
        (ValueError("no"), "ValueError: no"),
        (collections.deque([1, 2]), "[1, 2]"),
        (collections.OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
        ({"a": 1}.keys(), '["a"]'),
        ((n for n in range(3)), "[0, 1, 2]"),
        (map(str, [1, 2]), '["1", "2"]'),
        (Drained([1], complete=False), "[1]\n… the first 1 items; the rest was not read"),
    ]:
        assert render(value).text == text


def test_memory_addresses_are_left_out():
    assert render(Plain()).text == f"<{Plain.__module__}.Plain object>"
    assert render([Plain()]).text == f'["<{Plain.__module__}.Plain object>"]'


def test_an_object_may_define_its_own_text():
    class Ours:
        def _ai_repr_(self):
            return "for the model"

        def _repr_llm_(self):
            return "second"

    class Theirs:
        def _repr_llm_(self):
            return "for the model too"

    assert (render(Ours()).text, render(Theirs()).text) == ("for the model", "for the model too")


def test_a_value_that_contains_itself_is_rendered():
    loop: list = [1]
    loop.append(loop)
    assert render(loop).text == '[1, "… (contains itself)"]'
    assert not render(loop).whole


def test_long_text_keeps_head_and_tail_and_counts_omitted_characters():
    shown = render("a" * 6000 + "b" * 6000)
    assert len(shown.text) <= 8000
    assert shown.text.startswith("aaa")
    assert shown.text.endswith("bbb")
    head, _, rest = shown.text.partition("\n… ")
    count, _, tail = rest.partition(" characters left out …\n")
    assert int(count.replace(",", "")) == 12_000 - len(head) - len(tail)
    assert not shown.whole


def test_long_containers_keep_first_and_last_items():
    shown = render(list(range(100_000)), 100_000)
    assert shown.text.startswith("[0, 1, 2")
    assert shown.text.endswith("99998, 99999]")
    assert '"… 99,000 items left out …"' in shown.text
    assert not shown.whole


def test_pandas_frames_show_shape_types_nulls_and_first_rows():
    frame = pd.DataFrame({"n": [1.5, None, 3.0] * 20, "s": ["a", "b", None] * 20})
    lines = render(frame).text.split("\n")
    assert lines[:3] == [
        "DataFrame of 60 rows × 2 columns",
        "columns:",
        "  n (float64, 20 missing)",
    ]
    assert lines[3].endswith(
        ", 20 missing)"
    )  # the name of the text type differs between versions of pandas
    assert lines[4] == "first 10 rows:"
    assert len(lines) == 22
    assert lines[16] == "last 5 rows:"
    assert not render(frame).whole


def test_a_small_frame_is_shown_completely():
    shown = render(pd.DataFrame({"n": [1, 2]}))
    assert shown.text == "DataFrame of 2 rows × 1 columns\ncolumns:\n  n (int64)\nrows:\nn\n1\n2"


def test_frames_without_rows_with_many_columns_and_with_equal_names_are_shown():
    assert render(pd.DataFrame({"a": []})).text.startswith("DataFrame of 0 rows × 1 columns")
    wide = render(pd.DataFrame([range(100)])).text
    assert "… 60 more columns" in wide
    assert (
        "DataFrame of 1 rows × 2 columns" in render(pd.DataFrame([[1, 2]], columns=["a", "a"])).text
    )


def test_polars_frames_and_series_are_shown_too():
    frame = pl.DataFrame({"n": [1, None], "s": ["a", "b"]})
    assert render(frame).text == (
        "DataFrame of 2 rows × 2 columns\ncolumns:\n  n (Int64, 1 missing)\n  s (String)\n"
        "rows:\nn,s\n1,a\n(missing),b"
    )
    assert render(frame["n"]).text == "Series 'n' of 2 values, dtype Int64, 1 missing\n1\n(missing)"


def test_series_indexes_and_arrays_show_size_type_and_values():
    assert render(pd.Series([1, 2], name="n")).text == "Series 'n' of 2 values, dtype int64\n1\n2"
    assert render(pd.Index([1, 2])).text == "Index of 2 values, dtype int64\n1\n2"
    assert render(np.arange(3)).text == "ndarray of shape 3, dtype int64\n[0, 1, 2]"
    long = render(np.zeros((1000, 1000)))
    assert (
        long.text
        == f"ndarray of shape 1000 × 1000, dtype float64\nfirst values: {[0.0] * 10}\nlast values: {[0.0] * 5}"
    )
    assert not long.whole


def test_data_in_a_container_is_rendered_as_on_its_own():
    for inner in (pd.DataFrame({"x": [1]}), np.zeros((2, 3)), pd.Series([1, 2])):
        assert json.loads(render({"a": inner}).text) == {"a": render(inner).text}


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("data", [PNG, (PNG, {}), base64.b64encode(PNG).decode()])
def test_an_object_with_a_png_is_an_image(data):
    class Picture:
        def _repr_png_(self):
            return data

    shown = render(Picture())
    assert shown.text == "[image: Picture]"
    assert [base64.b64decode(image) for image in shown.images] == [PNG]


@pytest.mark.parametrize("data", [None, b"no png", "text", PNG + b"x" * 6_000_000])
def test_an_invalid_picture_is_shown_as_text(data):
    class Picture:
        def _repr_png_(self):
            return data

        def __repr__(self):
            return "Picture!"

    assert (render(Picture()).text, render(Picture()).images) == ("Picture!", ())


def test_a_matplotlib_figure_is_an_image():
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure(figsize=(1, 1))
    axes = figure.subplots()
    assert base64.b64decode(render(figure).images[0])[:4] == b"\x89PNG"
    assert render(axes).images


def test_none_of_the_data_libraries_is_imported():
    code = (
        "import sys; from archytas_nb.tools.render import render; render({'a': [1]}); render(object());"
        "print({'numpy', 'pandas', 'polars', 'matplotlib'} & set(sys.modules))"
    )
    env = {**os.environ, "PYTHONWARNINGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout.strip() == "set()"


def inner(x):
    raise ValueError(f"bad \x1b[31m{x}\x1b[0m")


def test_type_message_and_the_users_frames_are_shown():
    def f(x: int) -> int:
        """Do.

        Args:
            x: One.
        """
        return inner(x)

    outcome = Tool.from_function(f).call(3)
    lines = outcome.text.split("\n")
    assert lines[0] == "ValueError: bad 3"
    assert lines[1].endswith("in f: return inner(x)")
    assert lines[2].endswith('in inner: raise ValueError(f"bad \\x1b[31m{x}\\x1b[0m")')
    assert len(lines) == 3
    assert isinstance(outcome.error, ValueError)


def test_frames_of_libraries_are_left_out():
    def f() -> None:
        """Do."""
        json.loads("{")

    text = Tool.from_function(f).call(None).text
    assert text.startswith("JSONDecodeError: Expecting")
    assert "decoder.py" not in text
    assert text.endswith('json.loads("{")')


def test_causes_are_shown_unless_suppressed():
    def chained() -> None:
        """Do."""
        try:
            inner(1)
        except ValueError as error:
            raise KeyError("outer") from error

    def silent() -> None:
        """Do."""
        try:
            inner(1)
        except ValueError:
            raise KeyError("outer") from None

    assert "\ncaused by ValueError: bad 1" in Tool.from_function(chained).call(None).text
    assert "ValueError: bad" not in Tool.from_function(silent).call(None).text.split("\n")[0]
    assert "caused by" not in Tool.from_function(silent).call(None).text


def test_lines_of_a_cell_have_their_source_and_no_path(tmp_path):
    import linecache

    source = 'def f() -> None:\n    """Do."""\n    1 / 0\n'
    name = "/tmp/ipykernel_123/456.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict = {}
    exec(compile(source, name, "exec"), scope)
    assert (
        Tool.from_function(scope["f"]).call(None).text
        == "ZeroDivisionError: division by zero\n  line 3, in f: 1 / 0"
    )


def test_notes_are_shown_and_the_text_is_bounded():
    error = ValueError("x" * 20_000)
    error.add_note("a hint")
    assert len(failure_text(error)) <= 8000
    assert failure_text(error).endswith("note: a hint")


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, GeneratorExit])
def test_an_exception_that_cannot_be_written_is_still_named(raised):
    class Mute(Exception):
        def __str__(self):
            raise raised

    assert failure_text(Mute()) == "Mute: (its message cannot be read)"


def test_an_exception_without_message_is_its_type():
    assert failure_text(KeyError()) == "KeyError"


def test_circular_causes_end():
    one, other = ValueError("1"), ValueError("2")
    one.__cause__, other.__cause__ = other, one
    assert failure_text(one) == "ValueError: 1\ncaused by ValueError: 2"


def _group(shape: Any) -> BaseException:
    """The exception group of nested lists of texts."""
    if isinstance(shape, str):
        return ValueError(shape)
    return ExceptionGroup("several", [_group(each) for each in shape])


_SHAPES = st.recursive(
    st.text("abcdefgh", min_size=4, max_size=8),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=10,
)


@given(_SHAPES)
def test_every_error_in_a_group_is_told_however_deep(shape: Any) -> None:
    def leaves(part: Any) -> list[str]:
        return (
            [part] if isinstance(part, str) else [each for inner in part for each in leaves(inner)]
        )

    for error in (_group(shape), RuntimeError("broken")):
        if isinstance(error, RuntimeError):
            error.__cause__ = _group(shape)
        text = failure_text(error, 100_000)
        for each in leaves(shape):
            assert f"ValueError: {each}" in text


_NUMBERS = st.integers(0, 10**9)
_CAUSES = st.recursive(
    _NUMBERS,
    lambda inner: st.tuples(_NUMBERS, inner) | st.lists(inner, min_size=1, max_size=3),
    max_leaves=8,
)


def _error_of(shape: Any, made: list[str]) -> BaseException:
    """A number is an error, a pair one with its cause, and a list is a group."""
    if isinstance(shape, list):
        return ExceptionGroup("several", [_error_of(each, made) for each in shape])
    number, cause = shape if isinstance(shape, tuple) else (shape, None)
    error = ValueError(f"error <{number}>")
    made.append(str(error))
    if cause is not None:
        error.__cause__ = _error_of(cause, made)
    return error


@given(_CAUSES)
def test_every_cause_of_every_error_is_told_and_none_twice(shape: Any) -> None:
    def longest(part: Any) -> int:
        """How many errors are behind one another, at most."""
        if isinstance(part, list):
            return 1 + max(map(longest, part))
        return 1 + longest(part[1]) if isinstance(part, tuple) else 1

    assume(longest(shape) <= 5)  # of a longer chain, the end is left out
    made: list[str] = []
    text = failure_text(_error_of(shape, made), 100_000)
    assert sorted(re.findall(r"error <\d+>", text)) == sorted(made)


def test_frames_of_compiled_libraries_are_not_told() -> None:
    """Their code names a source that is not there; the module says where they are."""
    for place, is_told in (("/x/site-packages/lib/_index.so", False), ("/home/me/own.so", True)):
        names: dict[str, Any] = {"__file__": place}
        exec(compile("def fail():\n    raise KeyError('c')", "lib/_index.pyx", "exec"), names)
        with pytest.raises(KeyError) as raised:
            names["fail"]()
        assert ("_index.pyx" in failure_text(raised.value)) == is_told
