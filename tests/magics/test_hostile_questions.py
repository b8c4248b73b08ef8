"""A question that was pasted reads no more than values of the user's, in bounded time and memory."""

import fractions
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.core.error import UsageError

from archytas_nb.magics.expand import LookupFault, expand, look
from archytas_nb.magics.options import picture

KEY = "canary-7f3a9c51d2e8"


class Box:
    module = os
    _private = KEY
    public = 5


def function() -> None:
    """Do nothing."""


def generator() -> Any:
    yield 1


NAMES: dict[str, Any] = {
    "f": function,
    "os": os,
    "np": np,
    "environ": os.environ,
    "environb": os.environb,
    "box": Box(),
    "g": generator(),
    "modules": {"os": os, "list": [os]},
    "pathlike": Path("/tmp"),
    "_secret": KEY,
    "_i1": KEY,
    "_ih": [KEY],
    "_oh": {1: KEY},
    "In": [KEY],
    "Out": {1: KEY},
    "_": "last",
    "__builtins__": __builtins__,
    "sys": sys,
    "x": 10,
    "n": 10**6,
    "s": "ab",
    "items": [1, 2],
    "b": b"ab",
    "q": deque([1]),
    "half": fractions.Fraction(3, 2),
    "column": np.arange(100_000),
    "objects": pd.Series(["ab"] * 10),
    "df": pd.DataFrame({"a": [1.0, 2.0]}),
}


@pytest.mark.parametrize(
    "source",
    [
        'f.__globals__["os"].environ["CANARY_KEY"]',
        "os.environ",
        "os",
        "np.pi",
        "environ",
        "environb",
        'environ["CANARY_KEY"]',
        "box.module",
        "box.module.environ",
        "box._private",
        "box.__class__",
        "box.__dict__",
        'modules["os"]',
        'modules["list"][0].environ',
        "_secret",
        "_i1",
        "_ih[0]",
        "_oh",
        "In",
        "In[0]",
        "Out",
        "Out[1]",
        "__builtins__",
        "sys.modules",
        "g.gi_frame",
        "g.gi_frame.f_globals",
        "f.__code__.co_consts",
        "os.environ.copy",
        "x.__class__.__mro__",
        "x & os.environ",
        "[os][0].environ",
        "x == os.environ",
    ],
)
@pytest.mark.parametrize("form", ["{%s}", "{%s!r}", "{%s:>5}"])
def test_nothing_private_and_nothing_of_a_module_is_read(
    source: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    with pytest.raises(UsageError) as error:
        expand(form % source, NAMES)
    assert KEY not in str(error.value)


def test_the_same_holds_for_a_picture_that_an_option_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    for source in ("os.environ", "f.__globals__", "_secret", "environ"):
        with pytest.raises(UsageError) as error:
            picture(source, NAMES)
        assert KEY not in str(error.value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("x", 10),
        ("_", "last"),
        ("box.public", 5),
        ("s[::-1]", "ba"),
        ("-x", -10),
        ("items[0] < x", True),
        ("x if x else s", None),
        ("~x & 3", 1),
    ],
)
def test_what_a_person_writes_is_looked_up_as_before(source: str, value: object) -> None:
    if value is None:
        with pytest.raises(LookupFault):
            look(source, NAMES)
    else:
        assert look(source, NAMES) == value


def test_frames_and_arrays_are_looked_up_as_before() -> None:
    assert list(look("df[df.a > 1].a", NAMES)) == [2.0]
    assert list(look("df[(df.a > 1) & ~(df.a > 5)].a", NAMES)) == [2.0]
    assert look("column[:3, None] == column[:3]", NAMES).sum() == 3


@pytest.mark.parametrize(
    "source",
    [
        "x**n**n",
        "x**n",
        "x << n * n",
        "s * n * n",
        "items * (n * n)",
        "n * n * items",
        "b * n * n",
        "q * (n * n)",
        "half**n",
        "s * n * 1000",
        "[x] * (n * n)",
        "objects * (n * n)",
        "'%999999999d' % x",
        "s % x",
        "b % x",
        "column[:, None] * column",
        "column[:, None] == column",
        "column[:, None] @ column[None, :]",
        "((x * n) * s) * n",
    ],
)
def test_an_expression_cannot_take_all_time_or_memory(source: str) -> None:
    began = time.monotonic()
    with pytest.raises(LookupFault):
        look(source, NAMES)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "spec", ["999999999d", ">999999999", ".999999999f", "099999999", "*^100000"]
)
def test_a_format_is_bounded_too(spec: str) -> None:
    with pytest.raises(UsageError):
        expand(f"{{x:{spec}}}", NAMES)


def test_a_pasted_text_of_many_colons_is_read_in_bounded_time() -> None:
    began = time.monotonic()
    text = "{see " + "a:b " * 50_000 + "}"
    assert expand(text, NAMES).text == text
    assert time.monotonic() - began < 5
