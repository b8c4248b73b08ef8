"""The texts of values and exceptions for a model are bounded and deterministic."""

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

    @dataclasses.dataclass
    class Holder:
        inside: object

    for value, text in [(Ours(), "for the model"), (Theirs(), "for the model too")]:
        assert render(value).text == text
        for holder in ([value], (value,), {"key": value}, {"deep": [value]}, Holder(value)):
            assert f'"{text}"' in render(holder).text
            assert not render(holder).whole


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
    for value in (list(range(5000)), tuple(range(5000)), {str(n): n for n in range(5000)}):
        shown = render(value)
        assert "0" in shown.text
        assert len(shown.text) < 3100
        assert not shown.whole
    assert render(list(range(5000))).text.endswith(" 4998, 4999]")
    left = int(re.search(r"… ([\d,]+) more …", render(list(range(5000))).text)[1].replace(",", ""))
    assert left + render(list(range(5000))).text.count(",") - 1 >= 4990


def test_objects_of_a_long_list_are_summed_up_by_their_keys():
    people = [
        {"id": n, "name": f"Person {n}", **({"age": n} if n % 2 else {})} for n in range(3000)
    ]
    text = render(people).text
    assert text.startswith("3,000 objects with the keys id (int), name (str), age (int")
    assert '{"id": 0, "name": "Person 0"}' in text
    assert text.endswith('{"id": 2999, "name": "Person 2999", "age": 2999}')
    assert len(text) < 600


def test_frames_are_shown_as_csv_below_a_line_of_facts():
    for value, text in [
        (pd.DataFrame({"n": [1, 2]}), "DataFrame 2 × 1 (int64)\nn\n1\n2"),
        (pd.DataFrame({"a": []}), "DataFrame 0 × 1 (float64)\na"),
        (
            pd.DataFrame([[1, 2.5]], columns=["a", "a"]),
            "DataFrame 1 × 2 (int64, float64)\na,a\n1,2.5",
        ),
        (
            pd.DataFrame({"n": [1]}, index=pd.Index(["x"], name="k")),
            "DataFrame 1 × 1 (int64), index k\nk,n\nx,1",
        ),
        (
            pl.DataFrame({"n": [1, None], "s": ["a", "b"]}),
            "DataFrame 2 × 2 (Int64, String)\nn,s\n1,a\n(missing),b",
        ),
        (pl.Series("n", [1, None]), "Series 2 Int64\nn\n1\n(missing)"),
        (pd.Series([1, 2], name="n"), "Series 2 int64\nn\n1\n2"),
        (pd.Series([0.5], index=["x"]), None),
        (pd.Index([1, 2]), "Index 2 int64\nvalue\n1\n2"),
        (
            pd.Series([1], index=pd.to_datetime(["2024-01-31"]), name="v").rename_axis("day"),
            "Series 1 int64, index day\nday,v\n2024-01-31,1",
        ),
        (np.arange(3), "ndarray 3 int64\n[0, 1, 2]"),
        (np.zeros((2, 2)), "ndarray 2 × 2 float64\n[[0, 0],\n [0, 0]]"),
    ]:
        shown = render(value)
        assert text is None or shown.text == text
        assert shown.whole


def test_a_long_frame_shows_its_types_what_is_missing_and_both_ends():
    frame = pd.DataFrame({"n": [1.5, None, 3.0] * 2000, "s": ["a", "b", "c"] * 2000})
    shown = render(frame)
    lines = shown.text.split("\n")
    assert lines[0].startswith("DataFrame 6,000 × 2 (float64, ")
    assert lines[1] == "missing: 2,000 in n"
    assert lines[2:] == [
        "n,s", "1.5,a", "(missing),b", "3,c", "1.5,a", "(missing),b",
        "… 5,992 more rows …", "1.5,a", "(missing),b", "3,c",
    ]  # fmt: skip
    assert not shown.whole


def test_many_columns_are_named_shortly_and_the_first_ones_shown():
    wide = render(pd.DataFrame(np.arange(4000.0).reshape(20, 200)).add_prefix("c"))
    lines = wide.text.split("\n")
    assert lines[:2] == ["DataFrame 20 × 200 (float64)", "columns: c0 … c199"]
    assert re.fullmatch(r"the first \d+ columns of 200:", lines[2])
    assert lines[3].startswith("c0,c1,c2,")
    assert len(wide.text) < 1000
    mixed = pd.DataFrame({f"a{n}": [n] if n % 2 else [str(n)] for n in range(500)})
    assert len(render(mixed).text) < 1500


def test_a_large_array_shows_its_range_and_a_corner():
    values = np.arange(1e6, dtype="float32").reshape(1000, 1000) / 3
    values[0, 0] = np.nan
    lines = render(values).text.split("\n")
    assert lines[0].startswith("ndarray 1,000 × 1,000 float32, 1 missing, min 0.333333, max 333333")
    assert lines[1:3] == ["[:3, :5]:", "[[(missing), 0.333333, 0.666667, 1, 1.33333],"]
    assert not render(values).whole
    assert "[0][:3, :5]:" in render(np.zeros((2, 500, 500))).text
    assert "first: [0, 1, 2, 3, 4]" in render(np.arange(10_000)).text


def test_numbers_have_the_digits_that_their_type_holds():
    for value, text in [
        (np.float32(0.1), "0.1"),
        ([np.float32(0.1), np.float16(0.1), 0.1 + 0.2], "[0.1, 0.1, 0.30000000000000004]"),
        (np.array([0.1, 1 / 3], dtype="float32"), "ndarray 2 float32, rounded\n[0.1, 0.333333]"),
    ]:
        assert render(value).text == text


def test_data_in_a_container_is_a_section_of_its_own():
    frame = pd.DataFrame({"x": [1]})
    shown = render({"n": 3, "frame": frame, "deep": {"a": [np.arange(3)]}, "label": "y"})
    assert shown.text.split("\n") == [
        '{"n": 3, "deep": {"a": ["(below)"]}, "label": "y"}',
        f"['frame']: {render(frame).text}".split("\n")[0],
        "x",
        "1",
        "['deep']['a'][0]: ndarray 3 int64",
        "[0, 1, 2]",
    ]
    assert shown.whole
    assert render((frame, frame)).text.startswith("[0]: DataFrame 1 × 1 (int64)\nx\n1\n[1]: ")
    assert not render([pd.DataFrame({"x": range(5000)})]).whole
    assert len(render([pd.DataFrame(np.zeros((50, 50)))] * 50).text) < 6000


DTYPES = st.sampled_from(["float64", "float32", "float16", "int64", "uint8"])


@given(st.lists(st.floats(width=16, allow_nan=False), min_size=1, max_size=60), DTYPES, st.data())
def test_what_is_shown_whole_can_be_read_back_and_nothing_of_it_is_cut(
    numbers: list[float], dtype: str, data: st.DataObject
) -> None:
    """Every number in the text is the value, or near it if it says so, wherever it is contained."""
    assume(dtype.startswith("float") or all(0 <= each < 200 for each in numbers))
    array = np.array(numbers, dtype=dtype) / (3 if dtype.startswith("float") else 1)
    array = array.astype(dtype)
    form = data.draw(st.sampled_from(["array", "series", "frame", "polars", "list", "dict"]))
    value: Any = {
        "array": array,
        "series": pd.Series(array, name="v"),
        "frame": pd.DataFrame({"v": array}),
        "polars": pl.Series("v", array.astype("float64" if dtype == "float16" else dtype)),
        "list": list(array),
        "dict": {"inner": {"v": pd.Series(array, name="v")}, "n": 1},
    }[form]
    shown = render(value)
    assert shown.whole
    assert "…" not in shown.text
    text = shown.text if form == "list" else shown.text.partition("\n")[2]
    text = text.partition("\n")[2] if form == "dict" else text
    found = re.findall(r"-?(?:inf|\d[\d.]*(?:e[+-]?\d+)?)", text.replace("v\n", ""))
    assert len(found) == len(array)
    read = np.array([float(each) for each in found]).astype(dtype)
    exact, near = (read == array), np.isclose(read, array, rtol=1e-5, atol=0)
    assert near.all() if "rounded" in shown.text else exact.all()


@given(
    st.recursive(
        st.one_of(
            st.integers(),
            st.text(max_size=30),
            st.sampled_from([pd.DataFrame({"x": range(900)}), np.zeros((90, 90)), "y" * 5000]),
        ),
        lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=200,
    ),
    st.integers(300, 4000),
)
def test_a_text_is_bounded_and_whole_only_if_nothing_is_left_out(value: Any, room: int) -> None:
    shown = render(value, 8000, room)
    assert 0 < len(shown.text) <= 8000
    is_container = isinstance(value, (list, dict))
    if is_container and shown.whole:
        assert "y" * 5000 not in str(value)
        assert json.loads(shown.text) == json.loads(json.dumps(value))


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
def test_every_cause_of_every_error_is_told(shape: Any) -> None:
    def longest(part: Any) -> int:
        """How many errors are behind one another, at most."""
        if isinstance(part, list):
            return 1 + max(map(longest, part))
        return 1 + longest(part[1]) if isinstance(part, tuple) else 1

    assume(longest(shape) <= 5)  # of a longer chain, the end is left out
    made: list[str] = []
    text = failure_text(_error_of(shape, made), 100_000)
    assert {*re.findall(r"error <\d+>", text)} == {*made}


def test_a_message_and_a_line_are_told_once():
    def read(text: str) -> int:
        try:
            return int(text)
        except ValueError as error:
            raise RuntimeError(f"cannot read it: {error}") from error

    with pytest.raises(RuntimeError) as raised:
        read("x1")
    text = failure_text(raised.value)
    assert text.count("invalid literal") == 1
    assert text.count("return int(text)") == 1
    assert "caused by ValueError\n" in text
    with pytest.raises(SyntaxError) as wrong:
        compile("x = (", "<python 12345678>", "exec")
    assert failure_text(wrong.value).split("\n")[0] == "SyntaxError: '(' was never closed"


def test_frames_of_compiled_libraries_are_not_told() -> None:
    """Their code names a source that is not there; the module says where they are."""
    for place, is_told in (("/x/site-packages/lib/_index.so", False), ("/home/me/own.so", True)):
        names: dict[str, Any] = {"__file__": place}
        exec(compile("def fail():\n    raise KeyError('c')", "lib/_index.pyx", "exec"), names)
        with pytest.raises(KeyError) as raised:
            names["fail"]()
        assert ("_index.pyx" in failure_text(raised.value)) == is_told
